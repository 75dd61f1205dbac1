"""Blocks that stay with their workers against cutting planes: rounds, vectors sent, CPU and wall time to a
certified gap of 1e-3, with two workers and data on disk.

Both run on the same engine, two processes or two workers of a local Ray cluster, which read the samples from
files. Counted are the *rounds* in which all workers receive new weights (evaluations of the risk and visits
of blocks), the *vectors* of the length of w that a worker receives or returns (an iteration of cutting
planes: weights and a plane; a round of blocks: weights and damping, a change and its squares), and all
*calls* of the engine, including those that send a few numbers. Counts do not depend on how busy the machine
is.

Requires a network namespace: ``tools/in_namespace python -m benchmarks.shard_blocks``.
"""

from __future__ import annotations

from benchmarks.common import HERE, Bench, Cell, Row, command_line

# ruff: isort: split
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_sim import rst_table
from benchmarks.problems import PROBLEMS, load
from benchmarks.ray_tools import family_cpu, local_ray

TITLE = "Blocks at the workers against cutting planes"
#: values of C_mean by problem
SETS: dict[str, tuple[float, ...]] = {
    "covtype-2": (1e3, 1e4),
    "ijcnn1": (1e3,),
    "ccat": (1e3,),
    "imdb": (1e3, 1e4),
    "a9a": (1e3,),
    "mnist-0-4": (1e3,),
    "ccat-like-200k": (1e4,),
}
TOL, LIMIT = 1e-3, 40.0
#: solvers: number of blocks, 0 for cutting planes
SOLVERS = {"planes": 0, "2 blocks": 2, "8 blocks": 8}
#: engines and the solvers that run there
ENGINES = {"processes": tuple(SOLVERS), "ray": ("planes", "2 blocks")}


def solver_of(blocks: int) -> Any:
    """The solver with this many blocks."""
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    return DualCoordinate(blocks=blocks, dealing="shards") if blocks else CuttingPlane()


class Counts:
    """Counts the calls of an engine, and the vectors that they send."""

    def __init__(self, engine: Any, dim: int) -> None:
        self.calls = self.rounds = self.vectors = 0
        self._dim = dim
        for name in ("reduce", "gather"):
            setattr(engine, name, self._counted(getattr(engine, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        from maxmargin.core.engine import Handle

        def counted(method: Callable[..., Any], *args: Any) -> Any:
            answer = call(method, *args)
            sent = sum(isinstance(a, Handle) and a.array.size >= self._dim for a in args)
            self.calls += 1
            self.rounds += sent > 0
            self.vectors += sent + self._long(answer)
            return answer

        return counted

    def _long(self, answer: Any) -> int:
        """The number of vectors in an answer."""
        if isinstance(answer, tuple):
            return sum(map(self._long, answer))
        plane = getattr(answer, "plane", answer)
        return int(isinstance(plane, np.ndarray) and plane.size >= self._dim)


def fit(stored: Any, C: float, blocks: int, engine: Any) -> Cell:
    """One fit; the engine's workers are running."""
    from maxmargin import LinearSVC

    counts = Counts(engine, stored.shape[1] + 1)
    cpu, wall = family_cpu(), time.perf_counter()
    svc = LinearSVC(
        C=C, loss="hinge", tol=TOL, solver=solver_of(blocks), engine=engine, max_seconds=LIMIT
    ).fit(stored)
    return {
        "wall": time.perf_counter() - wall, "cpu": family_cpu() - cpu, "gap": svc.gap_,
        "iterations": svc.n_iter_, "rounds": counts.rounds, "vectors": counts.vectors,
        "calls": counts.calls, "bits": float(svc.coef_.sum()),
    }  # fmt: skip


def cell(spec: Cell, bench: Bench) -> Cell:
    """All solvers and engines for one problem and C."""
    import warnings

    from maxmargin import data
    from maxmargin.engines import ProcessEngine, RayEngine

    warnings.simplefilter("ignore")  # fits that reach the time limit are marked in the table
    problem = load(spec["set"], bench.quick)
    C, y = spec["C_mean"] / problem.n, np.where(problem.y > 0, 1, -1)
    out: Cell = {}
    with tempfile.TemporaryDirectory() as folder, local_ray(500_000_000, cpus=2):
        stored = data.write(f"{folder}/rows", [(problem.X, y)])
        makers = {"processes": lambda: ProcessEngine(2), "ray": lambda: RayEngine(2, threads=1)}
        for name in ENGINES:
            engine = makers[name]()
            solvers = {solver: SOLVERS[solver] for solver in ENGINES[name]}
            try:
                for blocks in solvers.values():  # start workers, compile
                    fit_once(engine, blocks)
                for solver, blocks in solvers.items():
                    out[f"{name}, {solver}"] = fit(stored, C, blocks, engine)
                    del engine.reduce, engine.gather
            finally:
                engine.close()
    return out | {"n": problem.n, "features": problem.X.shape[1], "load": os.getloadavg()[0]}


def fit_once(engine: Any, blocks: int) -> None:
    """A small sparse fit."""
    import scipy.sparse as sp

    from maxmargin import LinearSVC

    X = np.random.default_rng(0).normal(size=(200, 5))
    X[np.abs(X) < 1.0] = 0.0
    LinearSVC(loss="hinge", solver=solver_of(blocks), engine=engine).fit(
        sp.csr_matrix(X), X[:, 0] > 0.0
    )


def table(bench: Bench) -> None:
    """All cells, one process each."""
    found = []
    for name, values in SETS.items():
        for C_mean in values[:1] if bench.quick else values:
            c = bench.run(f"{name} {C_mean:g}", {"set": name, "C_mean": C_mean})
            if "error" not in c:
                found.append((name, C_mean, c))
    if found:
        counted = [counts_row(*f) for f in found]
        if not bench.quick:
            write_page(HERE.parent / "docs" / "_shard_blocks.inc", counted)
        bench.save(
            TITLE,
            [
                ("rounds", "Rounds, vectors, and calls", counted, NOTES),
                ("seconds", "CPU and wall time", [seconds_row(*f) for f in found], READING),
            ],
        )


def write_page(path: Path, rows: list[Row]) -> None:
    """Write the table that the page "Measurements behind the guides" includes."""
    short: list[Row] = []
    for row in rows:
        out: Row = {"data, C n": f"{row['set']}, {float(row['C_mean']):,.0f}"}
        for what in ("rounds", "vectors", "calls"):
            out[what] = ", ".join(str(row[f"{what}, {solver}"]) for solver in SOLVERS)
        short.append(out)
    title = "Cutting planes, 2 blocks, 8 blocks (> : not reached in time)"
    lines = [".. made by python -m benchmarks.shard_blocks; do not edit", ""]
    path.write_text("\n".join(lines + rst_table(title, short)) + "\n")


def counts_row(name: str, C_mean: float, c: Cell) -> Row:
    """Counts are those of processes; with Ray they are the same."""
    row: Row = {"set": name, "C_mean": f"{C_mean:.0e}"}
    runs = {solver: c[f"processes, {solver}"] for solver in SOLVERS}
    for what in ("rounds", "vectors", "calls"):
        for solver, run in runs.items():
            row[f"{what}, {solver}"] = run[what] if run["gap"] <= TOL else f"> {run[what]}"
    row["ratio of rounds, 2 blocks"] = runs["2 blocks"]["rounds"] / runs["planes"]["rounds"]
    row["same bits on Ray"] = all(
        c[f"ray, {s}"]["bits"] == runs[s]["bits"] for s in ENGINES["ray"] if runs[s]["gap"] <= TOL
    )
    return row


def seconds_row(name: str, C_mean: float, c: Cell) -> Row:
    """CPU seconds of all processes, and wall seconds."""
    row: Row = {"set": name, "C_mean": f"{C_mean:.0e}"}
    for engine, solvers in ENGINES.items():
        for what in ("cpu", "wall"):
            for solver in solvers:
                run = c[f"{engine}, {solver}"]
                shown = run[what] if run["gap"] <= TOL else f"> {run[what]:.3g}"
                row[f"{engine}: {what} s, {solver}"] = shown
    return row | {"load": c["load"]}


NOTES = f"""
To a certified gap of {TOL:g}, at most {LIMIT:g} s (> marks fits that did not get there); C = C_mean / n; two
workers, data on disk. *planes* are cutting planes with the exact line search. *rounds*: calls in which all
workers receive new weights. *vectors*: vectors of the length of w that a worker receives or returns. *calls*:
all calls of the engine. *same bits on Ray*: whether planes and 2 blocks give bit-identical weights with
two processes and with two workers of Ray.

Two blocks for two workers is the best case. The values of C are mostly moderate: at larger ones blocks lose
(decision 131 has figures), and with 8 blocks they lose on most problems.

{chr(10).join(f"- **{name}**: {PROBLEMS[name]}" for name in SETS)}
"""
READING = """
CPU seconds of the main process and its workers (on Ray also of Ray's own processes), wall seconds of the fit
including opening the shards. *load* is the load average of the machine after the runs, which add at most 3.
"""

if __name__ == "__main__":
    command_line("shard_blocks", TITLE, cell, table)
