"""What n_jobs=2 gains with solver="auto": wall times of LinearSVC with one job and with two threads.

Two jobs with blocks, whether "auto" would use them or not, are a third way, which shows where they lose.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line

# ruff: isort: split
import time
from os import getloadavg

from benchmarks.problems import PROBLEMS, load, warm

TITLE = "LinearSVC with one job and with two"
#: values of C n; "auto" uses blocks where there are many samples
SETS = {
    "covtype-2": (1e3, 1e5),
    "ccat-like": (1e4, 1e5),
    "mnist-0-4": (1e3,),
    "imdb": (1e3,),
    "a9a": (1e3,),
}
RUNS = 5
#: name, number of jobs, whether blocks are asked for
WAYS = (("1", 1, False), ("2", 2, False), ("blocks", 2, True))


def run_cell(spec: Cell, bench: Bench) -> Cell:
    """All ways in turn; the least of several runs."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import DualCoordinate

    problem = load(spec["set"], bench.quick)
    warm(problem)
    out: Cell = {}
    for _ in range(RUNS):
        for way, jobs, blocks in WAYS:
            svc = LinearSVC(C=spec["C_mean"] / problem.n, n_jobs=jobs, **problem.kind)
            if blocks:
                svc.solver = DualCoordinate(blocks=None)
            began = time.perf_counter()
            svc.fit(problem.X, problem.y)
            seconds = time.perf_counter() - began
            out[f"wall {way}"] = min(seconds, out.get(f"wall {way}", seconds))
            out[f"gap {way}"] = svc.gap_
            out[f"method {way}"] = svc.history_[-1]["method"]
    return {**out, "load": getloadavg()[0]}


def table(bench: Bench) -> None:
    """Run missing cells and write the table."""
    rows: list[Row] = []
    for name, values in SETS.items():
        for C_mean in values:
            c = bench.run(f"{name} {C_mean:g}", {"set": name, "C_mean": C_mean})
            rows.append({
                "set": name, "C_mean": f"{C_mean:g}", "method, 2 jobs": c["method 2"],
                "wall s, 1 job": c["wall 1"], "wall s, 2 jobs": c["wall 2"],
                "speedup": c["wall 1"] / c["wall 2"],
                "speedup, blocks": c["wall 1"] / c["wall blocks"],
                "gap, 1 job": c["gap 1"], "gap, 2 jobs": c["gap 2"], "load": c["load"],
            })  # fmt: skip
    notes = (
        f"To a certified gap of 0.001; C = C_mean / n. Least wall time of {RUNS} interleaved runs. *load* is "
        "the load average after the runs: above 2, other work took the second core. "
        + " ".join(f"**{name}**: {PROBLEMS[name]}." for name in SETS)
    )
    bench.save(TITLE, [("jobs", "One and two threads", rows, notes)])


if __name__ == "__main__":
    command_line("jobs", TITLE, run_cell, table)
