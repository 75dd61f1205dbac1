"""CuttingPlane compared to LIBOCAS on sparse data, at equal precision and without an intercept.

    python -m benchmarks.cutting_planes

LIBOCAS is Debian's ``svmocas`` (package libocas-tools). Both stop when the relative gap is at most eps; ours
certifies it. CPU seconds of the solver on one thread, without reading the file, interleaved, medians.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import statistics
import warnings

from benchmarks.datasets import DatasetMissing
from benchmarks.papers.peers import libocas, objective, program
from benchmarks.problems import PROBLEMS, load, warm

TITLE = "Cutting planes on sparse data against LIBOCAS"
SETS, C_MEANS, EPSILONS, REPEATS = ("a9a", "reuters", "ccat", "imdb"), (1e4, 1e5), (1e-2, 1e-3), 5


def cell(spec: Cell, bench: Bench) -> Cell:
    """Both programs on one problem."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane

    warnings.simplefilter("ignore")
    try:
        problem = load(spec["set"], bench.quick)
    except DatasetMissing as missing:
        return {"error": str(missing)}
    if program("svmocas") is None:
        return {"error": "svmocas was not found; it is in Debian's libocas-tools"}
    warm(problem)
    C, eps = spec["C_mean"] / problem.n, spec["eps"]
    svc = LinearSVC(C=C, tol=eps, solver=CuttingPlane(), fit_intercept=False, **problem.kind)
    svc.fit(problem.X, problem.y)
    ours: list[float] = []
    theirs: list[Cell] = []
    for _ in range(1 if bench.quick else REPEATS):
        began = cpu()
        svc.fit(problem.X, problem.y)
        ours.append(cpu() - began)
        theirs.append(libocas(problem, C, tol=eps))
    best = min(objective(problem, svc.coef_, C), objective(problem, theirs[0]["w"], C))
    return {
        "ours": ours,
        "theirs": [fit["seconds"] for fit in theirs],
        "our iterations": svc.n_iter_,
        "their iterations": theirs[0]["iterations"],
        "gap": svc.gap_,
        "our excess": objective(problem, svc.coef_, C) / best - 1,
        "their excess": objective(problem, theirs[0]["w"], C) / best - 1,
    }


def row(name: str, C_mean: float, eps: float, c: Cell) -> Row:
    """One line of the table."""
    ours, theirs = statistics.median(c["ours"]), statistics.median(c["theirs"])
    return {
        "set": name,
        "C_mean": f"{C_mean:.0e}",
        "eps": f"{eps:.0e}",
        "ours s": ours,
        "LIBOCAS s": theirs,
        "ratio": theirs / ours,
        "our iterations": c["our iterations"],
        "LIBOCAS iterations": c["their iterations"],
        "our gap": c["gap"],
        "our excess": c["our excess"],
        "LIBOCAS excess": c["their excess"],
    }


def main(bench: Bench) -> None:
    """All cells, and the table."""
    rows = []
    for name in SETS[:1] if bench.quick else SETS:
        for C_mean in C_MEANS:
            for eps in EPSILONS:
                found = bench.run(
                    f"{name} {C_mean:g} {eps:g}", {"set": name, "C_mean": C_mean, "eps": eps}
                )
                if "error" in found:
                    print(f"  {name}: {found['error']}")
                else:
                    rows.append(row(name, C_mean, eps, found))
    notes = "\n".join(f"- **{name}**: {PROBLEMS[name]}" for name in SETS)
    reading = f"""
*ratio* is LIBOCAS / ours: above 1 ours is faster. *excess* is F over the smaller F of the two, minus 1.
Seconds are medians of {REPEATS} interleaved fits.

{notes}
"""
    bench.save(TITLE, [("fits", "Fits", rows, reading)])


if __name__ == "__main__":
    command_line("cutting_planes", TITLE, cell, main)
