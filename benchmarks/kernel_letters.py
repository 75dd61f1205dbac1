"""Handwritten words with kernels: letter errors, certificates and times, by kernel and by method.

OCR letters (6,877 words, 52,152 letters of 16 x 8 pixels, ten folds). Small: trained on fold 0 (4,617
letters), C chosen by the letter error on fold 1, tested on folds 2 to 9. Large: trained on folds 0 to 8 with
the same C, tested on fold 9.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, peak_memory_gb

# ruff: isort: split
from typing import Any

from benchmarks import datasets

TITLE = "Kernels on structures: OCR letters"
TOL = 5e-2
KERNELS: dict[str, Cell] = {
    "linear": {},
    "poly 2": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "poly 3": {"kernel": "poly", "degree": 3, "coef0": 1.0},
    "rbf": {"kernel": "rbf"},
}
GRIDS = {
    "linear": [0.03, 0.1, 0.3],
    "poly 2": [0.3, 1.0],
    "poly 3": [0.1, 0.3],
    "rbf": [1.0, 3.0],
}
#: method of the cell -> kernel_method, by the name of its settings and their arguments
METHODS: dict[str, tuple[str, Cell]] = {
    "map": ("EmpiricalMap", {}),
    "nystrom 500": ("Nystrom", {"n_landmarks": 500}),
    "nystrom 1000": ("Nystrom", {"n_landmarks": 1000}),
    "nystrom 2000": ("Nystrom", {"n_landmarks": 2000}),
    "sampled 100": ("SampledCuts", {"size": 100}),
}
#: iterations after which sampled cuts are stopped
LIMIT = 150


def words(folds: range, quick: bool) -> tuple[list[Any], list[Any]]:
    """Inputs and labels of these folds."""
    X, Y, fold = datasets.ocr_letters()
    chosen = [i for i in range(len(X)) if fold[i] in folds][:: 20 if quick else 1]
    return [X[i] for i in chosen], [Y[i] for i in chosen]


def settings(method: str) -> Any:
    """The value of ``kernel_method``."""
    from maxmargin import kernels, solvers

    name, options = METHODS[method]
    return getattr(solvers if name == "SampledCuts" else kernels, name)(**options)


def fit(spec: Cell, C: float, train: tuple[list[Any], list[Any]]) -> tuple[Any, float]:
    """A tagger, and its CPU seconds."""
    from maxmargin import SequenceTagger

    options = dict(KERNELS[spec["kernel"]])
    if options:
        options["kernel_method"] = settings(spec["method"])
    if spec["method"].startswith("sampled"):
        options["max_iter"] = LIMIT
    before = cpu()
    tagger = SequenceTagger(C, tol=TOL, **options).fit(*train)
    return tagger, cpu() - before


def cell(spec: Cell, bench: Bench) -> Cell:
    """One kernel by one method; C is chosen, or given."""
    train = words(range(9) if spec["large"] else range(1), bench.quick)
    validation = words(range(1, 2), bench.quick)
    test = words(range(9, 10) if spec["large"] else range(2, 10), bench.quick)
    fit({**spec, "method": "nystrom 500"}, 0.1, (train[0][:5], train[1][:5]))  # compile
    tried = []
    best: Any = None
    for C in spec["Cs"]:
        tagger, seconds = fit(spec, C, train)
        error = 1.0 - tagger.score(*validation) if len(spec["Cs"]) > 1 else 0.0
        tried.append({"C": C, "validation error": error, "CPU s": seconds})
        if best is None or error < best[0]:
            best = error, C, tagger, seconds
    _, C, tagger, seconds = best
    before = cpu()
    error = 1.0 - tagger.score(*test)
    said = {
        name: getattr(tagger, name)
        for name in ("restricted_gap_", "probabilistic_bound_", "kernel_values_")
        if hasattr(tagger, name)
    }
    return {
        "C": C,
        "error": error,
        "objective": tagger.objective_,
        "lower": tagger.lower_bound_,
        "gap": tagger.gap_,
        "certificate": tagger.certificate_,
        "stop": tagger.stop_reason_,
        "iterations": tagger.n_iter_,
        "basis": None if tagger.expansion_ is None else len(tagger.expansion_.rows),
        "seconds": seconds,
        "seconds_predict": cpu() - before,
        "letters": sum(map(len, test[1])),
        "memory": peak_memory_gb(),
        "tried": tried,
        **said,
    }


def table(bench: Bench) -> None:
    """All cells, the quick ones first."""
    chosen: dict[str, float] = {}
    for name, grid in GRIDS.items():
        done = bench.run(
            f"small {name} map", {"kernel": name, "method": "map", "large": False, "Cs": grid}
        )
        chosen[name] = done.get("C", grid[0])
        report(bench)
    later = [("rbf", "nystrom 500", False), ("rbf", "nystrom 1000", False)]
    later += [("poly 2", "sampled 100", False)]
    later += [("linear", "map", True), ("rbf", "nystrom 500", True)]
    later += [("rbf", "nystrom 2000", False), ("rbf", "sampled 100", False)]
    for name, method, large in later:
        size = "large" if large else "small"
        spec = {"kernel": name, "method": method, "large": large, "Cs": [chosen[name]]}
        bench.run(f"{size} {name} {method}", spec)
        report(bench)


def report(bench: Bench) -> None:
    """Tables from the finished cells."""
    sections = []
    for size, slug, heading in (
        ("small", "fold_0", "Trained on fold 0"),
        ("large", "folds_0_to_8", "Trained on folds 0 to 8"),
    ):
        rows: list[Row] = []
        for name in KERNELS:
            for method in METHODS:
                c = bench.get(f"{size} {name} {method}")
                if c is not None and "error" in c:
                    rows.append(_row(name, method, c))
        sections.append((slug, heading, rows, NOTES if size == "small" else ""))
    bench.save(TITLE, [section for section in sections if section[2]])


def _row(name: str, method: str, c: Cell) -> Row:
    return {
        "kernel": name,
        "method": "–" if name == "linear" else method,
        "C": c["C"],
        "letter error %": 100.0 * c["error"],
        "certificate": c["certificate"],
        "F": c["objective"],
        "gap": c["gap"] if c["certificate"] == "exact" else c.get("restricted_gap_"),
        "basis": c["basis"],
        "iterations": c["iterations"],
        "stopped by": c["stop"],
        "fit s": c["seconds"],
        "predict µs/letter": 1e6 * c["seconds_predict"] / max(1, c["letters"]),
        "peak GB": c["memory"],
    }


NOTES = f"""
All fits have a tolerance of {TOL:g}: a relative gap, and for sampled cuts their own stopping rule (at most
{LIMIT} iterations). *certificate*: "exact" is a bound for the full kernel problem; "restricted" is a bound
for the functions of the landmarks only, so that *gap* is that of the restricted problem; "measured" has F and
no bound. F is comparable within one kernel (one C each). All methods use the C chosen for "map".
"""


if __name__ == "__main__":
    command_line("kernel_letters", TITLE, cell, table)
