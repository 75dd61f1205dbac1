"""LinearSVC on up to a billion rows on disk: memory that does not grow with the rows.

Dense float32 rows are written to disk in one streaming pass. ``LinearSVC`` is trained on them to a certified
gap of 1e-3, by its default solver, in a process of its own. Scores of the rows are in temporary files.
Peak anonymous memory is sampled from /proc; it does not include pages of files, which the system can drop.
*Bare* is one pass of X w over the same mapped files, with the same compiled loop: the faster of one before
and one after the fit.

``--flat`` (the default): 10 features, with scores in temporary files and in memory by turns. ``--billion``:
5 features, a billion rows, which need 21 GB, and 16 GB of temporary files; its results are in
``billion_rows.md``. Both are also flags of ``python -m benchmarks.out_of_core``.

The data go to MAXMARGIN_SCRATCH (by default a temporary folder), one set at a time, and are removed at the
end. Temporary files go to TMPDIR.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, on_disk

# ruff: isort: split
import copy
import os
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.out_of_core import Anonymous, Counted, bare_files

TITLE = "Many rows on disk: memory that does not grow with them"
FLAGS = {
    "flat": "10 features, up to 300 million rows, also with scores in memory (the default)",
    "billion": "5 features, a billion rows: 37 GB of disk",
}
#: rows, features, and how many fits with scores in files and in memory
FLAT = ((10_000_000, 10, 3, 3), (100_000_000, 10, 1, 1), (300_000_000, 10, 1, 0))
BILLION = ((10_000_000, 5, 1, 0), (1_000_000_000, 5, 1, 0))
QUICK = ((500_000, 4, 1, 1),)
C_MEAN = 100.0


def batches(n: int, features: int, size: int = 250_000) -> Iterator[tuple[Any, Any]]:
    """Normal features, and the sign of a noisy score."""
    w = np.random.default_rng(0).standard_normal(features).astype(np.float32)
    for lo in range(0, n, size):
        rng = np.random.default_rng(lo + 1)
        X = rng.standard_normal((min(size, n - lo), features), dtype=np.float32)
        noise = rng.standard_normal(len(X), dtype=np.float32)
        yield X, np.where(X @ w + noise > 0.2, 1, -1).astype(np.int8)


class Watched(Anonymous):
    """The same, and the largest sum of temporary files without a name."""

    files = 0

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.peak = max(self.peak, self.now())
            self.files = max(self.files, unnamed_files())


def unnamed_files() -> int:
    """Bytes on disk of open files that were removed."""
    total = 0
    for entry in os.scandir("/proc/self/fd"):
        try:
            if "(deleted)" in os.readlink(entry.path):
                total += 512 * os.stat(entry.path).st_blocks
        except FileNotFoundError:  # closed meanwhile
            continue
    return total


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
    """One fit in this process, between two bare passes."""
    import maxmargin.data
    from maxmargin import LinearSVC
    from maxmargin.risks.scores import shard

    if not spec["files"]:
        shard.FROM_ROWS = 2**62
    path, n = Path(spec["path"]), spec["n"]
    data = maxmargin.data.open(path)
    counted = Counted(data)
    LinearSVC(C=1.0, loss="hinge").fit(data.design.block(0, 2000).X, np.asarray(data.y[0:2000]))
    before, bare = Anonymous.now(), [bare_pass(path, spec["features"])]
    svc = LinearSVC(C=C_MEAN / n, loss="hinge")
    with Watched() as memory:
        began, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        svc.fit(data)
        wall, end = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    bare.append(bare_pass(path, spec["features"]))
    user, system = end.ru_utime - cpu.ru_utime, end.ru_stime - cpu.ru_stime
    return {
        "wall": wall, "cpu": user + system, "system": system, "gap": svc.gap_, "bare": bare,
        "objective": svc.objective_, "iterations": svc.n_iter_, "peak": memory.peak, "before": before,
        "passes": (counted.dots + counted.sums) / n, "files": memory.files,
    }  # fmt: skip


def sizes(bench: Bench) -> list[tuple[str, Sequence[tuple[int, int, int, int]]]]:
    """The tables that were asked for."""
    if bench.quick:
        return [("flat", QUICK)]
    wanted = bench.flags or {"flat"}
    return [(k, v) for k, v in (("flat", FLAT), ("billion", BILLION)) if k in wanted]


def table(bench: Bench) -> None:
    """Run missing cells, one data set at a time, and save the tables."""
    for n, features, in_files, in_memory in [s for _, own in sizes(bench) for s in own][::-1]:
        keys = [(f"{n} {features} {k}", True) for k in range(in_files)]
        others = [(f"{n} {features} memory {k}", False) for k in range(in_memory)]
        turns = [key for pair in zip(keys, others, strict=False) for key in pair]
        turns += keys[len(others) :]
        if all(bench.get(key) for key, _ in turns):
            continue
        began = time.perf_counter()
        with on_disk(batches(n, features)) as path:
            bench.put(f"{n} {features} written", {"wall": time.perf_counter() - began})
            for key, files in turns:
                spec = {"path": str(path), "n": n, "features": features, "files": files}
                bench.run(key, spec)
        report(bench)
    report(bench)


def found(bench: Bench, n: int, features: int, kind: str = "") -> list[Cell]:
    """The finished fits of one kind."""
    cells = (bench.get(f"{n} {features} {kind}{k}") for k in range(3))
    return [c for c in cells if c]


def report(bench: Bench) -> None:
    """The tables of the finished cells, each in a file of its own: they are not measured on the same day."""
    for name, slug, own in (
        ("many_rows", "fits", QUICK if bench.quick else FLAT),
        ("billion_rows", "fits", () if bench.quick else BILLION),
    ):
        rows = [row(bench, n, d) for n, d, _, _ in own if found(bench, n, d)]
        if not rows:
            continue
        points = [
            (n, c["wall"] / c["passes"], c["cpu"] / c["passes"], min(c["bare"]))
            for n, d, _, _ in own
            for c in found(bench, n, d)
        ]
        notes = NOTE
        if len(rows) > 1:
            logs = np.log(points)
            slopes = [np.polyfit(logs[:, 0], logs[:, k], 1)[0] for k in (1, 2, 3)]
            notes += (
                " Exponents of the rows, per pass: {:.2f} of wall seconds, {:.2f} of CPU seconds, {:.2f} of "
                "bare passes.".format(*slopes)
            )
        table = copy.copy(bench)
        table.name = name
        table.command += " --billion" if own is BILLION else ""
        table.save(TITLE, [(slug, "Fits", rows, notes)])


def row(bench: Bench, n: int, features: int) -> Row:
    """Medians over the fits of one size."""
    ours, others = found(bench, n, features), found(bench, n, features, "memory ")
    written = bench.get(f"{n} {features} written") or {}

    def middle(cells: list[Cell], name: str) -> Any:
        return statistics.median(c[name] for c in cells) if cells else None

    wall, cpu, passes = (middle(ours, name) for name in ("wall", "cpu", "passes"))
    bare = statistics.median(min(c["bare"]) for c in ours)
    return {
        "rows": f"{n:,}", "features": features, "on disk, GB": 4e-9 * n * features,
        "written in, wall s": written.get("wall"),
        "temporary files, GB": (middle(ours, "files") or 0) / 1e9 or None,
        "gap": max(c["gap"] for c in ours), "iterations": ours[0]["iterations"], "passes": f"{passes:.1f}",
        "wall s": wall, "CPU s": cpu, "of it system": middle(ours, "system"), "wall s a pass": wall / passes,
        "CPU s a pass": cpu / passes, "bare pass, wall s": bare, "pass / bare": wall / passes / bare,
        "anonymous MB: peak": round(max(c["peak"] for c in ours) / 1e6),
        "before the fit": round(ours[0]["before"] / 1e6),
        "scores in memory: peak": round(middle(others, "peak") / 1e6) if others else None,
        "wall, files / memory": wall / middle(others, "wall") if others else None,
        "CPU, files / memory": cpu / middle(others, "cpu") if others else None,
        "same objective": len({c["objective"] for c in ours + others}) == 1 if others else None,
    }  # fmt: skip


NOTE = (
    "`LinearSVC(C=100/n).fit(maxmargin.data.open(path))`, tol 1e-3, one thread. *passes* are products with "
    "all rows, X w or X' g. *scores in memory* is the same fit without temporary files, by turns."
)


def main() -> None:
    """The command."""
    command_line("many_rows", TITLE, cell, table, FLAGS)


if __name__ == "__main__":
    main()
