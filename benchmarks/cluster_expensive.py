"""Expensive oracles on a cluster: duals owned by the driver against stateless cuts.

Words of the OCR letters (fold 0, C = 0.03) with an argmax that sleeps 20 ms per call, on 2 and on 4 workers
of a local Ray cluster, to certified relative gaps of 5e-2 and 1e-2. With dual coordinate ascent (*expensive*,
*n-slack*) the driver owns labelings and dual variables, and workers run the oracle for single examples.
*Cuts* are made where the oracle runs; only weights and planes are sent. In a second table, a worker is killed
(SIGKILL) halfway through the fit. In a third one, ``StructuredSVM`` has all its defaults and an argmax that
sleeps 50 ms; the workers have been started by a fit before.

Requires a network namespace: ``tools/in_namespace python -m benchmarks.cluster_expensive``.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line

# ruff: isort: split
import contextlib
import os
import signal
import threading
import time
import warnings
from typing import Any

from benchmarks import datasets
from benchmarks.ray_tools import local_ray, pids_of_workers
from benchmarks.slow_words import SlowWords

TITLE = "Expensive oracles on a cluster"
N, SECONDS, C = 96, 0.02, 0.03
GAPS = (5e-2, 1e-2)
WORKERS = (2, 4)
#: solver, its options
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "expensive, batches of 4": ("DualCoordinate", {"oracle": "expensive"}),
    "expensive, batches of 8": ("DualCoordinate", {"oracle": "expensive", "batch_size": 8}),
    "expensive, batches of 16": ("DualCoordinate", {"oracle": "expensive", "batch_size": 16}),
    "n-slack": ("DualCoordinate", {"batch_size": "all"}),
    "p-slack cuts, cache": ("CuttingPlane", {"slacks": "blocks"}),
    "1-slack cuts, cache": ("CuttingPlane", {}),
    "1-slack cuts, no cache": ("CuttingPlane", {"use_cache": False}),
}
#: the fit with all defaults: seconds per call, and numbers of workers
DEFAULT_SECONDS, DEFAULT_WORKERS = 0.05, (1, 2)
#: methods for which a worker is killed
KILLED = ("expensive, batches of 8", "p-slack cuts, cache", "1-slack cuts, cache")


def words(quick: bool) -> tuple[list[Any], list[Any]]:
    """Inputs and label sequences."""
    X, Y, folds = datasets.ocr_letters()
    some = [i for i in range(len(X)) if folds[i] == 0][: 24 if quick else N]
    return [X[i] for i in some], [Y[i] for i in some]


def fit(method: str, engine: Any, quick: bool, kill_after: float | None = None) -> Cell:
    """One fit: passes and seconds to each gap."""
    from maxmargin import minimize, solvers
    from maxmargin.risks import TaskRisk

    X, Y = words(quick)
    task = SlowWords(26, 0.002 if quick else SECONDS)
    risk = TaskRisk(task, X, Y, task.setup(X, Y), engine=engine, expensive=True)
    risk.answers(risk.evaluate(0.0 * risk.working_sets(1.0).w).w)  # load everything first
    name, options = METHODS[method]
    with killing(kill_after):
        began = time.perf_counter()
        out = minimize(
            risk,
            C,
            solver=getattr(solvers, name)(**options),
            stopping=solvers.RelativeGap(GAPS[-1]),
            max_seconds=None if kill_after else 300.0,
        )
        seconds = time.perf_counter() - began
    reached = [next((r for r in out.history if r.gap <= gap), None) for gap in GAPS]
    return {
        "passes": [None if r is None else r.oracle_calls for r in reached],
        "seconds": [None if r is None else r.elapsed for r in reached],
        "total": seconds,
        "objective": out.objective,
        "stop": out.stop_reason,
    }


def fit_by_default(engine: Any, quick: bool) -> Cell:
    """StructuredSVM with all its defaults: wall seconds, passes and warnings."""
    from maxmargin import StructuredSVM

    X, Y = words(quick)
    task = SlowWords(26, 0.002 if quick else DEFAULT_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        StructuredSVM(task, C, engine=engine, max_iter=1).fit(X, Y)  # start all workers first
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        svm = StructuredSVM(task, C, engine=engine).fit(X, Y)
        seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "passes": svm.history_[-1]["oracle_calls"],
        "gap": svm.gap_,
        "objective": svm.objective_,
        "warnings": [str(warning.message) for warning in caught],
    }


@contextlib.contextmanager
def killing(after: float | None) -> Any:
    """Kill a worker after this many seconds."""
    timer = threading.Timer(after or 0.0, lambda: os.kill(pids_of_workers()[0], signal.SIGKILL))
    if after:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cell(spec: Cell, bench: Bench) -> Cell:
    """All cells are measured in one process: a cluster takes long to start."""
    raise NotImplementedError


def table(bench: Bench) -> None:
    """All fits, grouped by the number of workers."""
    from maxmargin.engines import RayEngine

    with local_ray(200_000_000):
        for workers in DEFAULT_WORKERS:
            engine = RayEngine(workers, threads=1)
            bench.inline(f"defaults on {workers}", lambda: fit_by_default(engine, bench.quick))  # noqa: B023
            engine.close()
        for workers in WORKERS:
            engine = RayEngine(workers, threads=1)
            for method in METHODS:
                bench.inline(f"{method} on {workers}", lambda: fit(method, engine, bench.quick))  # noqa: B023
                report(bench)
            for method in KILLED if workers == 2 else ():
                calm = bench.get(f"{method} on {workers}") or {}
                bench.inline(
                    f"{method} killed",
                    lambda: fit(method, engine, bench.quick, 0.5 * calm["total"]),  # noqa: B023
                )
                report(bench)
            engine.close()


def report(bench: Bench) -> None:
    """Tables from the finished cells."""
    rows: list[Row] = []
    for method in METHODS:
        row: Row = {"method": method}
        for workers in WORKERS:
            found = bench.get(f"{method} on {workers}") or {}
            for k, gap in enumerate(GAPS):
                if workers == WORKERS[0]:
                    row[f"passes to {gap:g}"] = found.get("passes", [None] * 2)[k]
                row[f"s to {gap:g}, {workers} workers"] = found.get("seconds", [None] * 2)[k]
        rows.append(row)
    killed: list[Row] = []
    for method in KILLED:
        calm, dead = bench.get(f"{method} on 2"), bench.get(f"{method} killed")
        if calm and dead:
            killed.append(
                {
                    "method": method,
                    "wall s": calm["total"],
                    "with a death": dead["total"],
                    "cost s": dead["total"] - calm["total"],
                }
            )
    fits = {workers: bench.get(f"defaults on {workers}") for workers in DEFAULT_WORKERS}
    alone = fits[DEFAULT_WORKERS[0]]
    defaults: list[Row] = [
        {
            "workers": workers,
            "wall s": found["seconds"],
            "times faster": alone["seconds"] / found["seconds"],
            "passes": found["passes"],
            "certified gap": found["gap"],
            "same objective": found["objective"] == alone["objective"],
            "warnings": len(found["warnings"]),
        }
        for workers, found in fits.items()
        if found and alone
    ]
    notes = f"""
{N} examples, {1000 * SECONDS:g} ms per call; seconds are wall time from the start of the fit, each measured
once. A pass over all examples takes at least {N * SECONDS / 2:.2g} s with 2 workers and half of that with 4.
*passes* are calls per example and do not depend on the number of workers. The calls of a batch have the same
weights.
"""
    deaths = """
One of 2 workers is killed halfway. Its process restarts within seconds. Dual variables are not lost, because
the driver owns them. Cuts with a cache lose the constraints of the lost shards, and call the oracle there
again (2026-11-18: at fewer points than when this was measured).
"""
    every = f"""
`StructuredSVM(task, C={C:g}, engine=...)` on the same {N} examples, {1000 * DEFAULT_SECONDS:g} ms per call.
"""
    bench.save(
        TITLE,
        [
            ("passes", "To a certified gap", rows, notes),
            ("killed_worker", "A killed worker", killed, deaths),
            ("defaults", "All defaults", defaults, every),
        ],
    )


if __name__ == "__main__":
    command_line("cluster_expensive", TITLE, cell, table)
