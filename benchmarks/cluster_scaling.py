"""Rows on disk, two Ray workers: time per pass, memory and communication by number of rows; costs of deaths.

CSR rows of 75 float32 entries over 50,000 features (600 bytes per row, the shape that the cost model in the
docs extrapolates) are written to disk; workers get paths and row ranges. ``LinearSVC(solver=CuttingPlane())``
runs a fixed number of iterations. The driver records how long it waits for each round and how many bytes are
sent to and from a worker. The largest size does not fit in the page cache of this machine, so its passes read
from the disk.

Blocks of 100,000 generated rows are written repeatedly: this does not affect the compiled loops and the disk.

Deaths happen in the middle of a product: once by SIGKILL of a worker, once by SIGKILL of a whole raylet
("machine") when there is a spare one. The results are bit-identical in every case.

Files go to MAXMARGIN_SCRATCH (by default a temporary folder) and are removed. Requires a network namespace:
``tools/in_namespace python -m benchmarks.cluster_scaling``.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, on_disk

# ruff: isort: split
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.ray_tools import (
    Killer,
    Recorder,
    family_cpu,
    local_ray,
    machines_ray,
    memory,
    pids_of_workers,
)

TITLE = "Scaling on a cluster: rows on disk, two Ray workers"
FEATURES, NONZEROS, C_MEAN = 50_000, 75, 1e5
SIZES, DEATHS = (1_000_000, 10_000_000, 20_000_000, 30_000_000), 10_000_000
QUICK_SIZES, QUICK_DEATHS = (20_000, 50_000, 100_000, 150_000), 50_000
ITERATIONS = 6
BATCH, DISTINCT = 100_000, 4


def batches(n: int) -> Iterator[tuple[Any, Any]]:
    """Repeated blocks of rows with uniformly distributed entries and labels from a noisy linear rule."""
    rng = np.random.default_rng(0)
    w, size = rng.standard_normal(FEATURES), min(n, BATCH)
    blocks = []
    for _ in range(DISTINCT):
        indices = rng.integers(0, FEATURES, (size, NONZEROS), dtype=np.int32)
        indices.sort(axis=1)
        data = rng.standard_normal(size * NONZEROS, dtype=np.float32)
        pointers = np.arange(0, size * NONZEROS + 1, NONZEROS)
        X = sp.csr_matrix((data, indices.ravel(), pointers), shape=(size, FEATURES))
        X.sum_duplicates()
        noisy = X @ w + 2.0 * rng.standard_normal(size)
        blocks.append((X, np.where(noisy > 0.0, 1, -1).astype(np.int8)))
    for k, lo in enumerate(range(0, n, size)):
        X, y = blocks[k % DISTINCT]
        yield X[: n - lo], y[: n - lo]


def fit(data: Any, recorder: Recorder, iterations: int = ITERATIONS) -> float:
    """Wall seconds of a fit."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane

    n = data.shape[0]
    recorder.clear()
    svc = LinearSVC(
        C=C_MEAN / n,
        solver=CuttingPlane(),
        tol=1e-12,
        max_iter=iterations,
        engine=recorder,
        loss="hinge",
    )
    began = time.perf_counter()
    svc.fit(data)
    return time.perf_counter() - began


def scale(spec: Cell) -> Cell:
    """Time, memory and messages at one size."""
    import maxmargin.data
    from maxmargin.engines import RayEngine

    data = maxmargin.data.open(spec["path"])
    with local_ray(300_000_000):
        recorder = Recorder(RayEngine(n_workers=2, threads=1), keep=False, sizes=True)
        fit(data, recorder, 1)  # starts the workers and loads compiled code
        cpu = family_cpu()
        wall = fit(data, recorder)
        cpu = family_cpu() - cpu
        workers = [memory(pid) for pid in pids_of_workers()]
        out = {
            "rows": data.shape[0], "nnz": data.nnz, "wall": wall, "cpu": cpu, "driver": memory(),
            "workers": workers,
            "rounds": recorder.times, "bytes": recorder.bytes, "load": os.getloadavg()[0],
            "disk": sum(f.stat().st_size for f in Path(spec["path"]).iterdir()),
        }  # fmt: skip
        recorder.close()
    return out


def deaths(spec: Cell) -> Cell:
    """Additional time of a fit after the death of a worker or a machine."""
    import maxmargin.data
    from maxmargin.engines import RayEngine

    data = maxmargin.data.open(spec["path"])
    # two working machines, and a spare one for each death
    cluster = (
        machines_ray(2 + spec["times"]) if spec["what"] == "machine" else local_ray(300_000_000)
    )
    with cluster as ray:
        engine = RayEngine(n_workers=2, threads=1)
        recorder = Recorder(engine, keep=False)
        fit(data, recorder, 1)
        walls, killed = [], []
        for _ in range(spec["times"]):
            clean = fit(data, recorder)
            usual = float(np.median(recorder.times["line_evaluate"]))
            killer = Killer(ray, spec["what"], after=usual / 2)
            recorder.hook = killer  # in the product of the third iteration
            wall = fit(data, recorder)
            recorder.hook = None
            walls.append([clean, wall])
            killed.append(max(recorder.times["line_evaluate"]))
            assert killer.done, "nobody died"
        recorder.close()
    return {
        "rows": data.shape[0], "what": spec["what"], "walls": walls, "round with the death": killed,
        "usual": usual, "load": os.getloadavg()[0],
    }  # fmt: skip


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process."""
    return deaths(spec) if "what" in spec else scale(spec)


def table(bench: Bench) -> None:
    """Run missing cells, one data set at a time, and save the tables."""
    sizes = QUICK_SIZES if bench.quick else SIZES
    at = QUICK_DEATHS if bench.quick else DEATHS
    for n in sizes:
        specs: dict[str, Cell] = {f"rows {n}": {}}
        if n == at:
            specs |= {
                f"death of a {what}": {"what": what, "times": 2} for what in ("worker", "machine")
            }
        if all(bench.get(key) for key in specs):
            continue
        with on_disk(batches(n)) as path:
            for key, spec in specs.items():
                bench.run(key, {"path": str(path), **spec})
    report(bench, [bench.get(f"rows {n}") or {} for n in sizes])


def passes(c: Cell) -> tuple[float, float]:
    """Minimum seconds, over a fit, of a product X w with its loss, and of a plane X' g with its step."""
    return tuple(min(c["rounds"][k]) for k in ("line_evaluate", "line_cut_toward"))  # type: ignore[return-value]


def report(bench: Bench, cells: list[Cell]) -> None:
    """Tables from the finished cells."""
    rows: list[Row] = []
    for c in cells:
        product, plane = passes(c)
        n_passes = len(c["rounds"]["line_evaluate"]) + len(c["rounds"]["line_cut_toward"]) + 1
        others = sum(sum(s) for k, s in c["rounds"].items()) / ITERATIONS
        rows.append({
            "rows": f"{c['rows']:,}", "on disk, GB": c["disk"] / 1e9, "X w, s": product, "X' g, s": plane,
            "ns an entry, both": 1e9 * (product + plane) / c["nnz"], "all rounds of an iteration, s": others,
            "CPU s a pass, all processes": c["cpu"] / n_passes if "cpu" in c else None,
            "driver's peak, GB": c["driver"]["peak"],
            "worker's own, GB": max(w["own"] for w in c["workers"]),
            "with mapped files": max(w["peak"] for w in c["workers"]), "load": c["load"],
        })  # fmt: skip
    n = [c["rows"] for c in cells]
    seconds = np.array([sum(passes(c)) for c in cells])
    slopes = [
        np.polyfit(np.log(n), np.log(seconds), 1)[0],
        *(np.diff(np.log(seconds)) / np.diff(np.log(n))),
    ]
    sent: list[Row] = []
    for call, sizes in cells[-1]["bytes"].items():
        sent.append({
            "round": call, "times an iteration": len(sizes) / ITERATIONS,
            "to a worker, bytes": float(np.mean([s[0] for s in sizes])),
            "from a worker, bytes": float(np.mean([s[1] for s in sizes])),
        })  # fmt: skip
    died: list[Row] = []
    for what in ("worker", "machine"):
        c = bench.get(f"death of a {what}")
        if c and "walls" in c:
            for k, (clean, wall) in enumerate(c["walls"]):
                died.append({
                    "rows": f"{c['rows']:,}", "killed": what, "fit without, s": clean,
                    "fit with the death, s": wall,
                    "added, s": wall - clean, "the round it fell into, s": c["round with the death"][k],
                    "usual, s": c["usual"],
                })  # fmt: skip
    bench.save(
        TITLE,
        [
            ("rows", "A pass by the number of rows", rows, NOTE.format(*slopes)),
            ("messages", f"Messages, {cells[-1]['rows']:,} rows", sent, SENT),
            ("deaths", "Deaths", died, DIED),
        ],
    )


NOTE = """
Wall seconds, the minimum over the rounds of a fit: the machine had other work at the same time (its load is
in the table). Slope of log time (both products) against log rows: {0:.2f} over all sizes, {1:.2f} from the
first to the second, {2:.2f} and {3:.2f} after that. Only the files of the last size exceed the free memory of
this machine; how much of its time is reading was not measured separately. A worker's own memory is its
anonymous memory at the end of the fit; mapped files belong to the page cache.
"""
SENT = """
Bytes of the arguments and results of one round for one worker; w is sent to each machine once, as a published
vector. Except for w and the plane, these are numbers of the line search: only the kinks grow with the rows,
and their number is bounded.
"""
DIED = """
Two fits of 6 iterations each, one of them with a death in the third product; for the death of a machine, Ray
has its default settings. A death costs its detection, a new process, rereading its shards, and the rounds
that restore its scores. The time of the affected round shows the first three; whole fits differ by more,
because of other work of the machine.
"""

if __name__ == "__main__":
    command_line("cluster_scaling", TITLE, cell, table)
