"""Training on data larger than memory: time and memory compared to bare sweeps over the files.

Dense float32 rows of 40 features are written to disk in one streaming pass. Then ``LinearSVC`` is trained on
them by cutting planes in a process with limited private memory (RLIMIT_DATA), to a certified gap of 1e-3.
*Bare* is the same number of products X w and X' g with the same memory-mapped files and compiled loops, and
nothing else, in the same process after the fit. Peak anonymous memory is sampled from /proc during the fit;
it does not include pages of the files, which belong to the page cache.

The files go to MAXMARGIN_SCRATCH (by default a temporary folder) and are removed at the end.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, on_disk

# ruff: isort: split
import re
import resource
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TITLE = "More data than memory: cutting planes over files"
FEATURES = 40
C_MEAN = 100.0
#: rows, and the private memory the process is allowed (0: no limit)
RUNS = ((10_000_000, 500_000_000), (40_000_000, 2_000_000_000))
GROWTH = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 40_000_000)
QUICK_RUNS = ((500_000, 400_000_000),)
QUICK_GROWTH = (100_000, 200_000)
PASSES = 5
#: rows of a data set, and rows appended to it
APPENDED = ((2_000_000, 200_000), (2_000_000, 2_000_000))


def batches(n: int, start: int = 0, size: int = 250_000) -> Iterator[tuple[Any, Any]]:
    """Correlated, heavy-tailed features of different scales, and noisy labels."""
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((FEATURES, FEATURES)) / np.arange(1, FEATURES + 1)[:, None]
    mix = (mix / np.sqrt((mix**2).sum(axis=0))).astype(np.float32)
    scale = np.exp(rng.standard_normal(FEATURES)).astype(np.float32)
    w = (rng.standard_normal(FEATURES) / np.sqrt(FEATURES)).astype(np.float32)
    for lo in range(start, start + n, size):
        rows, rng = min(size, start + n - lo), np.random.default_rng(lo + 1)
        X = rng.standard_normal((rows, FEATURES), dtype=np.float32) @ mix
        X *= rng.gamma(2.0, 0.5, (rows, 1)).astype(np.float32)
        y = np.where(X @ w + 0.5 * rng.standard_normal(rows) > 0.2, 1, -1).astype(np.int8)
        yield X * scale, y


class Anonymous:
    """The largest anonymous memory of this process while it runs."""

    def __enter__(self) -> Anonymous:
        self.peak, self._over = self.now(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.peak = max(self.peak, self.now())

    @staticmethod
    def now() -> int:
        text = Path("/proc/self/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) * 1024


class Counted:
    """The products of a data set, counting the rows processed."""

    def __init__(self, data: Any) -> None:
        self._dot, self._accumulate = data.design.dot, data.design.accumulate
        self.dots = self.sums = 0
        data.design.dot, data.design.accumulate = self.dot, self.accumulate

    def dot(self, W: Any, lo: int, hi: int) -> Any:
        self.dots += hi - lo
        return self._dot(W, lo, hi)

    def accumulate(self, coef: Any, lo: int, hi: int, out: Any) -> None:
        self.sums += hi - lo
        self._accumulate(coef, lo, hi, out)


def bare_files(path: Path) -> list[Any]:
    """The feature files, memory-mapped."""
    import json

    manifest = json.loads((path / "manifest.json").read_text())
    files = [shard["files"]["features"] for shard in manifest["shards"]]
    return [np.memmap(path / f["name"], f["dtype"], "r", shape=tuple(f["shape"])) for f in files]


def bare(files: list[Any], n_dots: float, n_sums: float) -> float:
    """Wall seconds of this many bare products X w and X' g (with nonzero coefficients only)."""
    from maxmargin.compiled import products

    w, out = np.linspace(-1.0, 1.0, FEATURES), np.zeros(FEATURES)
    scores = [np.empty(len(X)) for X in files]
    for X in files:  # compiled for mapped files
        products.dense_dot(X, w, 0, 1, np.empty(1))
        products.dense_accumulate(X, np.ones(1), 0, 1, out)
    began = time.perf_counter()
    for k in range(round(n_dots + n_sums)):
        for X, s in zip(files, scores, strict=True):
            if k < round(n_dots):
                products.dense_dot(X, w, 0, len(X), s)
            else:
                products.dense_accumulate(X, s, 0, len(X), out)
    return time.perf_counter() - began


def limited(limit: int) -> None:
    """Limit the private memory of this process."""
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def train(path: Path, n: int, limit: int) -> Cell:
    """One fit within the limit, and the bare sweeps after it."""
    import maxmargin.data
    from maxmargin import LinearSVC

    limited(limit)
    data = maxmargin.data.open(path)
    counted = Counted(data)
    svc = LinearSVC(C=C_MEAN / n, loss="hinge")
    LinearSVC(C=1.0, max_iter=2, loss="hinge").fit(
        data.design.block(0, 2000).X, np.asarray(data.y[0:2000])
    )
    before = Anonymous.now()
    with Anonymous() as memory:
        began = time.perf_counter()
        svc.fit(data)
        wall = time.perf_counter() - began
    dots, sums = counted.dots / n, counted.sums / n
    sweeps = bare(bare_files(path), dots, sums)
    return {
        "n": n, "limit": limit, "gap": svc.gap_, "objective": svc.objective_, "iterations": svc.n_iter_,
        "dots": dots, "sums": sums, "wall": wall, "bare": sweeps, "peak": memory.peak, "before": before,
        "bytes": 4 * FEATURES * n,
    }  # fmt: skip


def one_pass(path: Path, n: int) -> Cell:
    """Minimum wall time of one evaluation and its cut, as in a fit."""
    import maxmargin.data
    from maxmargin.data.columns import LazyColumn, Ones
    from maxmargin.losses import Hinge
    from maxmargin.risks import ScoreRisk

    data = maxmargin.data.open(path)
    y = LazyColumn(n, lambda lo, hi: data.y[lo:hi].astype(np.float64))
    risk = ScoreRisk(data.design, y, Hinge(), sample_weight=Ones(n), intercept=1.0)
    times = []
    with Anonymous() as memory:
        for k in range(PASSES + 1):
            w = np.full(risk.dim, 1e-3 * k)
            began = time.perf_counter()
            risk.evaluate(w).cut()
            times.append(time.perf_counter() - began)
    return {"n": n, "seconds": min(times[1:]), "peak": memory.peak}


def refit(first: int, more: int) -> Cell:
    """Passes of a fit after rows were appended: warm, with the previous planes, and cold."""
    import maxmargin.data
    from maxmargin import LinearSVC

    with on_disk(batches(first)) as path:
        svc = LinearSVC(C=C_MEAN / first, warm_start=True, loss="hinge").fit(
            maxmargin.data.open(path)
        )
        before = svc.n_iter_
        maxmargin.data.open(path).append(batches(more, start=first))
        whole, again = maxmargin.data.open(path), maxmargin.data.open(path)
        warm, cold = Counted(whole), Counted(again)
        svc.fit(whole)
        fresh = LinearSVC(C=C_MEAN / first, loss="hinge").fit(again)
        n = first + more
        return {
            "first": first, "more": more, "before": before, "warm": svc.n_iter_, "cold": fresh.n_iter_,
            "warm_passes": (warm.dots + warm.sums) / n, "cold_passes": (cold.dots + cold.sums) / n,
            "gaps": [svc.gap_, fresh.gap_], "objectives": [svc.objective_, fresh.objective_],
        }  # fmt: skip


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process."""
    if spec["kind"] == "refit":
        return refit(spec["first"], spec["more"])
    path = Path(spec["path"])
    if spec["kind"] == "train":
        return train(path, spec["n"], spec["limit"])
    return one_pass(path, spec["n"])


def table(bench: Bench) -> None:
    """Run missing cells, one data set at a time, and save the tables."""
    runs = QUICK_RUNS if bench.quick else RUNS
    growth = QUICK_GROWTH if bench.quick else GROWTH
    appended = ((20_000, 2_000),) if bench.quick else APPENDED
    limits = dict(runs)
    with on_disk(batches(20_000)) as path:  # compile first: it takes more memory than the limit
        bench.run("warm up", {"kind": "train", "path": str(path), "n": 20_000, "limit": 0})
    for n in sorted({*limits, *growth}):
        keys = [("train", n)] * (n in limits) + [("pass", n)] * (n in growth)
        if all(bench.get(f"{kind} {n}") for kind, _ in keys):
            continue
        with on_disk(batches(n)) as path:
            for kind, _ in keys:
                spec = {"kind": kind, "path": str(path), "n": n, "limit": limits.get(n, 0)}
                bench.run(f"{kind} {n}", spec)
    for first, more in appended:
        bench.run(f"refit {first} {more}", {"kind": "refit", "first": first, "more": more})
    report(bench)


def report(bench: Bench) -> None:
    """Tables from the finished cells."""
    runs = QUICK_RUNS if bench.quick else RUNS
    growth = QUICK_GROWTH if bench.quick else GROWTH
    appended = ((20_000, 2_000),) if bench.quick else APPENDED
    trained: list[Row] = []
    for n, limit in runs:
        c = bench.get(f"train {n}") or {}
        trained.append({
            "rows": f"{n:,}", "on disk, GB": c["bytes"] / 1e9, "allowed, GB": limit / 1e9,
            "gap": c["gap"], "iterations": c["iterations"], "products X w": c["dots"], "X' g": c["sums"],
            "wall s": c["wall"], "bare sweeps, wall s": c["bare"], "ratio": c["wall"] / c["bare"],
            "peak anonymous, MB": round(c["peak"] / 1e6), "300 MB + 24 B a row": round(300 + 24e-6 * n),
        })  # fmt: skip
    cells = [bench.get(f"pass {n}") or {} for n in growth]
    passes: list[Row] = [
        {
            "rows": f"{c['n']:,}", "wall s a pass": c["seconds"], "ns a row": 1e9 * c["seconds"] / c["n"],
            "peak anonymous, MB": round(c["peak"] / 1e6),
            "without 8 B a row of scores": round((c["peak"] - 8 * c["n"]) / 1e6),
        }
        for c in cells
    ]  # fmt: skip
    slope = np.polyfit(np.log([c["n"] for c in cells]), np.log([c["seconds"] for c in cells]), 1)[0]
    refits: list[Row] = []
    for first, more in appended:
        c = bench.get(f"refit {first} {more}") or {}
        refits.append({
            "rows": f"{first:,} + {more:,}", "iterations before": c["before"], "cold": c["cold"],
            "warm": c["warm"], "products cold": c["cold_passes"], "products warm": c["warm_passes"],
            "gap cold": c["gaps"][1], "gap warm": c["gaps"][0],
        })  # fmt: skip
    bench.save(
        TITLE,
        [
            ("training", "Training within a limit of private memory", trained, RUN_NOTE),
            ("growth", "Growth with the number of rows", passes,
             f"Slope of log time against log rows: {slope:.3f}."),
            ("appended_rows", "After rows were appended", refits, REFIT_NOTE),
        ],
    )  # fmt: skip


RUN_NOTE = """
`LinearSVC(C=100/n)`, hinge, tol 1e-3, one thread. The page cache is warm: these costs exclude the disk.
"""
REFIT_NOTE = """
`warm_start=True`: the second fit starts from the planes of the first, to each of which the plane of the new
rows at the old solution is added.
"""


if __name__ == "__main__":
    if {"--flat", "--billion"} & set(
        sys.argv
    ):  # the tables of memory that does not grow with the rows
        from benchmarks import many_rows

        many_rows.main()
    else:
        command_line("out_of_core", TITLE, cell, table)
