"""Worm splice sites with 34 million matrix-free features.

C. elegans acceptor sites, two files of 100,000 windows of 398 letters, 3 % of them true sites. Features:
words of 1 to 8 letters at every position (weighted degree kernel, normalized) and counts of the same words
(spectrum kernel, normalized). C is chosen on the last 20,000 windows of the first file (which is in the order
of the genome) by the area under the precision-recall curve; the model is trained on the first file and scored
once on the second.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, peak_memory_gb

# ruff: isort: split
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks import datasets

TITLE = "Worm splice sites: implicit k-mers"
#: values of C, for unbalanced and balanced classes (a site then has 15 times the weight)
GRID = {False: (0.3, 1.0, 3.0, 10.0), True: (0.1, 0.3)}
ORDER = 8


def strings(split: datasets.Split, quick: bool) -> tuple[Any, Any]:
    """Windows as letters, labels -1 and +1."""
    letters, y = datasets.worm_splice(split)
    return (letters[:6000], y[:6000]) if quick else (letters, y)


def design(letters: Any, quick: bool) -> Any:
    """Words at positions, and counts of words."""
    from maxmargin.data import KmerDesign, hstack

    order = 4 if quick else ORDER
    return hstack(
        [
            KmerDesign(letters, orders=order, normalize=True),
            KmerDesign(letters, orders=order, kind="spectrum", normalize=True),
        ]
    )


def best_of(times: int, work: Callable[[], Any]) -> float:
    """CPU seconds, the best of several calls after a first one."""
    work()
    seconds = []
    for _ in range(times):
        began = cpu()
        work()
        seconds.append(cpu() - began)
    return min(seconds)


# -- one pass --------------------------------------------------------------------------------------


@njit(nogil=True, error_model="numpy")
def bare(w, places):
    """The cost of random access alone: positions are known, values are added."""
    total = 0.0
    for j in places:
        total += w[np.uint64(j)]
    return total


@njit(nogil=True, error_model="numpy")
def row_by_row(letters, offset, value, size, w, out):
    """The plain loop: row, position, order; every word is looked up in w."""
    n, length = letters.shape
    last = len(size) - 1
    for i in range(n):
        total = 0.0
        for p in range(length):
            at, word = offset[p], np.int64(0)
            for k in range(1, min(last, length - p) + 1):
                word += np.int64(letters[i, p + k - 1]) * size[k - 1]
                total += value[k] * w[np.uint64(at + word)]
                at += size[k]
        out[i] = total


@njit(nogil=True, error_model="numpy")
def add_row_by_row(letters, offset, value, size, coef, out):
    n, length = letters.shape
    last = len(size) - 1
    for i in range(n):
        for p in range(length):
            at, word = offset[p], np.int64(0)
            for k in range(1, min(last, length - p) + 1):
                word += np.int64(letters[i, p + k - 1]) * size[k - 1]
                out[np.uint64(at + word)] += value[k] * coef[i]
                at += size[k]


@njit(nogil=True, error_model="numpy")
def order_by_order(letters, offset, value, size, w, out):
    """Position, order, row: the table of one order stays in the cache, but every word is looked up."""
    length, n = letters.shape
    last = len(size) - 1
    code = np.zeros(n, np.int32)
    out[:] = 0.0
    for p in range(length):
        code[:] = 0
        at = offset[p]
        for k in range(1, min(last, length - p) + 1):
            x, v, head = letters[p + k - 1], value[k], np.int32(size[k - 1])
            for i in range(n):
                code[i] += head * np.int32(x[i])
                out[i] += v * w[np.uint64(at + code[i])]
            at += size[k]


def time_passes(quick: bool) -> Cell:
    """Seconds of one product, and of its transpose, by several methods."""
    from maxmargin.data import KmerDesign

    letters, _ = strings("train", quick)
    n, rng = len(letters), np.random.default_rng(0)
    X = KmerDesign(letters, orders=4 if quick else ORDER)
    layout: Any = X._layout
    by_position = layout.letters.reshape(-1, n)
    by_row = np.ascontiguousarray(by_position.T)
    w, coef, out = rng.normal(size=X.shape[1]), rng.normal(size=n), np.zeros(X.shape[1])
    words = layout.words
    plain = (by_row, layout.offset, words.value, words.size)
    scores = np.empty(n)
    w32 = w.astype(np.float32)
    cell: Cell = {"words": X.nnz, "features": X.shape[1], "rows": n}
    cell["dot, sums of prefixes"] = best_of(5, lambda: X.dot(w, 0, n))
    cell["dot, sums of prefixes, float32 weights"] = best_of(5, lambda: X.dot(w32, 0, n))
    cell["add, sums of prefixes"] = best_of(5, lambda: X.accumulate(coef, 0, n, out))
    tenth = np.where(rng.random(n) < 0.1, coef, 0.0)
    cell["add, sums of prefixes, a tenth of the rows"] = best_of(
        5, lambda: X.accumulate(tenth, 0, n, out)
    )
    by_order = (by_position, layout.offset, words.value, words.size, w, scores)
    cell["dot, word by word, order by order"] = best_of(2, lambda: order_by_order(*by_order))
    cell["dot, word by word, row by row"] = best_of(1, lambda: row_by_row(*plain, w, scores))
    cell["add, word by word, row by row"] = best_of(1, lambda: add_row_by_row(*plain, coef, out))
    count = min(X.nnz, 50_000_000)
    places = rng.integers(0, X.shape[1], count, dtype=np.int32)
    cell["bare"] = best_of(1, lambda: bare(w, places)) * X.nnz / count
    S = KmerDesign(letters, orders=4 if quick else ORDER, kind="spectrum")
    v, target = rng.normal(size=S.shape[1]), np.zeros(S.shape[1])
    cell["spectrum words"] = S.nnz
    cell["dot, spectrum"] = best_of(3, lambda: S.dot(v, 0, n))
    cell["add, spectrum"] = best_of(3, lambda: S.accumulate(coef, 0, n, target))
    return cell


# -- training --------------------------------------------------------------------------------------


def weights(y: Any, balanced: bool) -> Any:
    """Sample weights that balance the classes, or ones."""
    if not balanced:
        return np.ones(len(y))
    positive = y > 0
    return np.where(positive, 0.5 / positive.mean(), 0.5 / (1.0 - positive.mean()))


def areas(y: Any, scores: Any) -> Cell:
    """Areas under both curves."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    return {
        "auROC": float(roc_auc_score(y, scores)),
        "auPRC": float(average_precision_score(y, scores)),
    }


def choose(balanced: bool, quick: bool) -> Cell:
    """A path over C on the first four fifths; planes are reused from C to C."""
    from maxmargin import minimize
    from maxmargin.core.stopping import RelativeGap
    from maxmargin.losses import Hinge
    from maxmargin.risks import ScoreRisk
    from maxmargin.solvers import CuttingPlane

    letters, y = strings("train", quick)
    first = design(letters[:500], quick=True)  # compile everything
    minimize(
        ScoreRisk(first, y[:500].astype(float), Hinge()), 1.0, solver=CuttingPlane(space="rows")
    )
    cut = 4 * len(y) // 5
    held = design(letters[cut:], quick)
    risk = ScoreRisk(
        design(letters[:cut], quick),
        y[:cut].astype(float),
        Hinge(),
        sample_weight=weights(y[:cut], balanced),
        intercept=1.0,
    )
    rows, start = [], None
    for C in GRID[balanced]:
        began = cpu()
        start = minimize(
            risk, C, solver=CuttingPlane(space="rows"), stopping=RelativeGap(0.02), start=start
        )
        scores = held.dot(start.w[:-1], 0, len(y) - cut) + start.w[-1]
        rows.append(
            {
                "C": C,
                "passes": start.n_iter + 1,
                "seconds": cpu() - began,
                "gap": start.gap,
                **areas(y[cut:], scores),
            }
        )
    return {"grid": rows, "peak GB": peak_memory_gb()}


SOLVERS = ("rows, all planes", "rows, 5 planes", "features, 5 planes", "stream")


def fit(name: str, C: float, balanced: bool, quick: bool) -> Cell:
    """One fit of the first file by one solver, scored on the second."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    letters, y = strings("train", quick)
    solver: Any = {
        "rows, all planes": CuttingPlane(space="rows"),
        "rows, 5 planes": CuttingPlane(space="rows", max_planes=5),
        "features, 5 planes": CuttingPlane(max_planes=5),
        "stream": DualCoordinate(),
    }[name]
    X = design(letters, quick)
    limit = {"rows, 5 planes": 100, "features, 5 planes": 20}.get(name)
    began = cpu()
    svc = LinearSVC(
        C=C,
        class_weight="balanced" if balanced else None,
        solver=solver,
        max_iter=limit,
        max_seconds=300.0 if name == "stream" else None,
        tol=1e-3,
        loss="hinge",
    ).fit(X, y)
    seconds, peak = cpu() - began, peak_memory_gb()
    history = svc.history_
    cell: Cell = {
        "iterations": svc.n_iter_,
        "seconds": seconds,
        "peak GB": peak,
        "objective": svc.objective_,
        "lower bound": svc.lower_bound_,
        "gap": svc.gap_,
        "features": X.shape[1],
        "history": [
            [r["objective"], r["lower_bound"], r["oracle_calls"], r["elapsed"]] for r in history
        ],
    }
    if name == "rows, all planes":
        test, answers = strings("test", quick)
        Z = design(test, quick)
        began = cpu()
        scores = svc.decision_function(Z)
        cell.update(areas(answers, scores), **{"seconds to score": cpu() - began})
        order = np.argsort(-np.abs(svc.coef_[0]))[:12]
        cell["largest"] = [[X.describe(int(j)), float(svc.coef_[0][j])] for j in order]
    return cell


# -- tables ----------------------------------------------------------------------------------------


def run_cell(spec: Cell, bench: Bench) -> Cell:
    if spec["what"] == "passes":
        return time_passes(bench.quick)
    if spec["what"] == "choose":
        return choose(spec["balanced"], bench.quick)
    return fit(spec["solver"], spec["C"], spec["balanced"], bench.quick)


def pass_rows(cell: Cell) -> list[Row]:
    """The methods for one pass, compared to bare random access."""
    rows: list[Row] = []
    ways = {
        "sums of prefixes, position by position": "sums of prefixes",
        "every word, order by order at each position": "word by word, order by order",
        "every word, row by row": "word by word, row by row",
        "bare random access to as many known places": "bare",
    }
    for way, key in ways.items():
        dot, add = cell.get(f"dot, {key}", cell.get(key)), cell.get(f"add, {key}")
        rows.append(
            {
                "way": way,
                "X w (s)": dot,
                "ns per word": dot / cell["words"] * 1e9,
                "X'g (s)": add,
                "ns per word ": None if add is None else add / cell["words"] * 1e9,
            }
        )
    return rows


def pass_notes(cell: Cell) -> str:
    """Sizes, sparse gradients, counts, and what rounded weights would save."""
    saved = 1.0 - cell["dot, sums of prefixes, float32 weights"] / cell["dot, sums of prefixes"]
    return (
        f"{cell['rows']:,} strings, {cell['words']:,} words at positions, {cell['features']:,} features. "
        "With a tenth of the rows active the transposed product takes "
        f"{cell['add, sums of prefixes, a tenth of the rows']:.2g} s. Counted words (the spectrum): "
        f"{cell['dot, spectrum']:.2g} s and {cell['add, spectrum']:.2g} s. Weights rounded to float32 would "
        f"save {100 * saved:.0f} % of a product, of which training does one in an iteration."
    )


def has_data() -> bool:
    """Whether the strings are there; if not, say so."""
    try:
        datasets.find("bio/C_elegans_acc_100000.fasta.bz2")
    except datasets.DatasetMissing as missing:
        print(f"nothing to measure: {missing}")
        return False
    return True


def table(bench: Bench) -> None:
    if not has_data():
        return
    passes = bench.run("passes", {"what": "passes"})
    grid: list[Row] = []
    for balanced in (False, True):
        cell = bench.run(f"choose {balanced}", {"what": "choose", "balanced": balanced})
        grid += [{"classes": "balanced" if balanced else "as they are", **r} for r in cell["grid"]]
    best = max(grid, key=lambda row: row["auPRC"])
    C, balanced = best["C"], best["classes"] == "balanced"
    cells = {}
    for name in SOLVERS:
        spec = {"what": "fit", "solver": name, "C": C, "balanced": balanced}
        cells[name] = bench.run(f"fit {name}", spec)
    whole = cells["rows, all planes"]
    bench.save(
        TITLE,
        [
            (
                "passes",
                "One pass",
                pass_rows(passes),
                pass_notes(passes),
            ),
            (
                "choice_of_C",
                "Choosing C on the last fifth of the first file",
                grid,
                "Stopped at a gap of 2 %; planes are kept from C to C.",
            ),
            (
                "training",
                f"Training on the first file, C = {C:g}, classes {best['classes']}",
                fit_rows(cells),
                fit_notes(cells, whole),
            ),
        ],
    )


def fit_rows(cells: dict[str, Cell]) -> list[Row]:
    """What each solver did."""
    rows: list[Row] = []
    for name, cell in cells.items():
        if "error" in cell:
            rows.append({"solver": name, "iterations": cell["error"]})
            continue
        rows.append(
            {
                "solver": name,
                "iterations": cell["iterations"],
                "passes": cell["history"][-1][2],
                "seconds": cell["seconds"],
                "s per iteration": cell["seconds"] / cell["iterations"],
                "peak GB": cell["peak GB"],
                "objective": cell["objective"],
                "lower bound": cell["lower bound"],
                "gap": cell["gap"],
            }
        )
    return rows


def fit_notes(cells: dict[str, Cell], whole: Cell) -> str:
    """Areas on the second file, what one pass of the stream reaches, the largest weights."""
    if "error" in whole:
        return ""
    notes = (
        f"{whole['features']:,} features. On the second file: auROC {whole['auROC']:.4f}, auPRC "
        f"{whole['auPRC']:.4f}; scoring it took {whole['seconds to score']:.2g} s. "
    )
    stream = cells["stream"]
    if "error" not in stream:
        above = 100 * (stream["objective"] / whole["objective"] - 1)
        notes += (
            f"The stream (300 s of wall time at most) made {stream['history'][-1][2]:.2g} passes; its "
            f"objective is {above:.3g} % above the best one known. "
        )
    largest = ", ".join(f"{text} ({value:+.3g})" for text, value in whole["largest"])
    return notes + f"\n\nLargest weights: {largest}."


if __name__ == "__main__":
    command_line("splice", TITLE, run_cell, table)
