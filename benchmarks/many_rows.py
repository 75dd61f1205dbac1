"""LinearSVC on up to a billion rows on disk: memory that does not grow with the rows.

Dense float32 rows are written to disk in one streaming pass. ``LinearSVC`` is trained on them to a certified
gap of 1e-3, by its default solver, in a process of its own. Scores of the rows are in unnamed scratch files.
Peak anonymous memory is sampled from /proc; it does not include pages of files, which the system can drop.
*Bare* is one pass of X w over the same mapped files, with the same compiled loop, after the fit.

The files go to MAXMARGIN_SCRATCH (by default a temporary folder), one data set at a time, and are removed at
the end. A billion rows of 5 features need 21 GB, and 17 GB of scratch.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, on_disk

# ruff: isort: split
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.out_of_core import Anonymous, Counted, bare_files

TITLE = "Many rows on disk: memory that does not grow with them"
#: rows, features, and whether scores in memory are measured, too
SIZES = (
    (10_000_000, 10, True),
    (100_000_000, 10, True),
    (300_000_000, 10, False),
    (1_000_000_000, 5, False),
)
QUICK = ((5_000_000, 4, True),)
C_MEAN = 100.0


def batches(n: int, features: int, size: int = 250_000) -> Iterator[tuple[Any, Any]]:
    """Normal features, and the sign of a noisy score."""
    w = np.random.default_rng(0).standard_normal(features).astype(np.float32)
    for lo in range(0, n, size):
        rng = np.random.default_rng(lo + 1)
        X = rng.standard_normal((min(size, n - lo), features), dtype=np.float32)
        noise = rng.standard_normal(len(X), dtype=np.float32)
        yield X, np.where(X @ w + noise > 0.2, 1, -1).astype(np.int8)


def bare_pass(path: Path, features: int) -> float:
    """Wall seconds of one product X w over the mapped files."""
    from maxmargin.compiled import products

    files = bare_files(path)
    w, out = np.linspace(-1.0, 1.0, features), np.empty(max(len(X) for X in files))
    products.dense_dot(files[0], w, 0, 1, np.empty(1))  # compiled for mapped files
    began = time.perf_counter()
    for X in files:
        products.dense_dot(X, w, 0, len(X), out[: len(X)])
    return time.perf_counter() - began


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit in this process, and a bare pass after it."""
    import maxmargin.data
    from maxmargin import LinearSVC
    from maxmargin.risks.scores import shard

    if not spec["scratch"]:
        shard.FROM_ROWS = 2**62
    path, n = Path(spec["path"]), spec["n"]
    data = maxmargin.data.open(path)
    counted = Counted(data)
    LinearSVC(C=1.0, max_iter=2).fit(data.design.block(0, 2000).X, np.asarray(data.y[0:2000]))
    before = Anonymous.now()
    with Anonymous() as memory:
        began, cpu = time.perf_counter(), time.process_time()
        svc = LinearSVC(C=C_MEAN / n).fit(data)
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "wall": wall, "cpu": cpu, "gap": svc.gap_, "objective": svc.objective_,
        "iterations": svc.n_iter_, "passes": (counted.dots + counted.sums) / n, "peak": memory.peak,
        "before": before, "bare": bare_pass(path, spec["features"]),
    }  # fmt: skip


def table(bench: Bench) -> None:
    """Run missing cells, one data set at a time, and save the table."""
    sizes = QUICK if bench.quick else SIZES
    for n, features, both in sizes:
        keys = {f"{n} {features}": True} | ({f"{n} {features} memory": False} if both else {})
        if all(bench.get(key) for key in keys):
            continue
        with on_disk(batches(n, features)) as path:
            for key, scratch in keys.items():
                spec = {"path": str(path), "n": n, "features": features, "scratch": scratch}
                bench.run(key, spec)
        report(bench)
    report(bench)


def report(bench: Bench) -> None:
    """The table of the finished cells."""
    rows: list[Row] = []
    for n, features, _ in QUICK if bench.quick else SIZES:
        c = bench.get(f"{n} {features}")
        if not c:
            continue
        other = bench.get(f"{n} {features} memory")
        rows.append({
            "rows": f"{n:,}", "features": features, "on disk, GB": 4e-9 * n * features, "gap": c["gap"],
            "iterations": c["iterations"], "passes": f"{c['passes']:.1f}", "wall s": c["wall"],
            "CPU s": c["cpu"], "wall s a pass": c["wall"] / c["passes"], "bare pass, wall s": c["bare"],
            "anonymous MB: peak": round(c["peak"] / 1e6), "before the fit": round(c["before"] / 1e6),
            "scores in memory: peak": round(other["peak"] / 1e6) if other else None,
            "CPU s, scratch / memory": c["cpu"] / other["cpu"] if other else None,
            "same objective": c["objective"] == other["objective"] if other else None,
        })  # fmt: skip
    notes = (
        "`LinearSVC(C=100/n).fit(maxmargin.data.open(path))`, tol 1e-3, one thread. *passes* are products "
        "with all rows, X w or X' g. *scores in memory* is the same fit without scratch files."
    )
    if len(rows) > 1:
        done = [(n, bench.get(f"{n} {d}")) for n, d, _ in SIZES if bench.get(f"{n} {d}")]
        logs = np.log([[n, c["wall"] / c["passes"]] for n, c in done if c])
        slope = np.polyfit(logs[:, 0], logs[:, 1], 1)[0]
        notes += f" Slope of log wall time a pass against log rows: {slope:.2f}."
    bench.save(TITLE, [("fits", "Fits", rows, notes)])


if __name__ == "__main__":
    command_line("many_rows", TITLE, cell, table)
