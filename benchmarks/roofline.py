"""Memory throughput of the compiled functions compared to the machine's read bandwidth, with one and two
threads.

Every function runs on real data in the shards that a fit would use. Interleaved with it run a *stream* read
(the sum of a large array, vectorized) and, for products, SciPy or BLAS on the same data. Each figure is the
minimum wall time of many repetitions. Bytes are those that must move at least once: stored values and indices
of the rows touched, and the scores read and written; w, which stays in the cache, is not counted.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line

# ruff: isort: split
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.problems import load

TITLE = "Kernels against the machine's reading speed"
REPEATS = 40
THREADS = (1, 2)
#: trial steps of one round of the line search
TS = np.array([0.0, 0.2, 0.6, 0.85, 1.0, 1.2, 1.7, 5.0])


class _Part:
    """Rows lo .. hi-1 of the work of one function: a shard."""

    def __init__(self, work: Callable[[int, int], Any], bounds: tuple[int, int]) -> None:
        self._work, self._bounds = work, bounds

    def run(self) -> int:
        self._work(*self._bounds)
        return 0


class _Timer:
    """Timer of one function on an engine with this many threads."""

    def __init__(self, work: Callable[[int, int], Any], bounds: list[int], threads: int) -> None:
        from maxmargin.engines import make_engine

        specs = list(pairwise(bounds))
        self._engine = make_engine(threads).open(partial(_Part, work), specs)
        self.best = float("inf")
        self._engine.reduce(_Part.run)  # compile and warm up

    def again(self) -> None:
        began = time.perf_counter()
        self._engine.reduce(_Part.run)
        self.best = min(self.best, time.perf_counter() - began)

    def close(self) -> None:
        self._engine.close()


def _stream_sum() -> Any:
    from numba import njit

    @njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
    def total(x: Any, lo: int, hi: int) -> float:
        s = 0.0
        part = x[lo:hi]  # start at zero: a possibly negative index would not be vectorized
        for i in range(part.shape[0]):
            s += part[i]
        return s

    return total


def measure(
    work: Callable[[int, int], Any], n: int, n_bytes: int, other: Callable[[], Any] | None
) -> Cell:
    """GB/s of the function and of the stream, and the speedup over ``other``."""
    # as many bytes as the function reads, so that both use the cache equally
    x, total = np.ones(n_bytes // 8), _stream_sum()

    def shards(rows: int) -> list[int]:
        return [round(k * rows / 32) for k in range(33)]

    timers = {
        (what, threads): _Timer(job, shards(rows), threads)
        for threads in THREADS
        for what, job, rows in (
            ("kernel", work, n),
            ("stream", lambda lo, hi: total(x, lo, hi), len(x)),
        )
    }
    least = float("inf")
    for _ in range(REPEATS):
        for timer in timers.values():
            timer.again()
        if other is not None:
            began = time.perf_counter()
            other()
            least = min(least, time.perf_counter() - began)
    out: Cell = {"bytes": n_bytes}
    for threads in THREADS:
        seconds = timers["kernel", threads].best
        out[f"speed {threads}"] = n_bytes / seconds / 1e9
        out[f"stream {threads}"] = x.nbytes / timers["stream", threads].best / 1e9
        out[f"other {threads}"] = least / seconds if other is not None else None
        out[f"ns per row {threads}"] = seconds / n * 1e9
    for timer in timers.values():
        timer.close()
    return out


def _csr(name: str, columns: int, quick: bool) -> dict[str, Callable[[], Cell]]:
    from maxmargin.data.design import as_design

    X = load(name, quick).X
    n, d = X.shape
    design = as_design(X)
    rng = np.random.default_rng(0)
    w, W = rng.normal(size=d), rng.normal(size=(d, columns))
    coef = np.ones(n)
    pairs = np.zeros((n, columns))  # two entries in each row, as a multi-class cut has
    pairs[np.arange(n), rng.integers(0, columns // 2, n)] = 1.0
    pairs[np.arange(n), rng.integers(columns // 2, columns, n)] = -1.0
    stored = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    lists = {
        f"csr_dot, {name}": (partial(design.dot, w), coef.nbytes, lambda: X @ w),
        f"csr_accumulate, {name}": (
            lambda lo, hi: design.accumulate(coef[lo:hi], lo, hi, np.zeros(d)),
            coef.nbytes,
            lambda: X.T @ coef,
        ),
        f"csr_dot_columns ({columns}), {name}": (
            partial(design.dot, W),
            pairs.nbytes,
            lambda: X @ W,
        ),
        f"csr_accumulate_columns ({columns}), {name}": (
            lambda lo, hi: design.accumulate(pairs[lo:hi], lo, hi, np.zeros((d, columns))),
            pairs.nbytes,
            lambda: X.T @ pairs,
        ),
    }
    return {
        key: partial(measure, work, n, stored + extra, other)
        for key, (work, extra, other) in lists.items()
    }


def _dense(kind: str, columns: int, quick: bool) -> dict[str, Callable[[], Cell]]:
    from maxmargin.data.design import as_design

    X = np.ascontiguousarray(load("covtype-2", quick).X.toarray(), dtype=kind)
    n, d = X.shape
    design = as_design(X)
    rng = np.random.default_rng(0)
    w, W = rng.normal(size=d).astype(kind), rng.normal(size=(d, columns)).astype(kind)
    coef = np.ones(n)
    tag = f"{kind}, covtype-2"
    w64, W64 = w.astype(np.float64), W.astype(np.float64)
    lists = {
        f"dense_dot, {tag}": (partial(design.dot, w64), coef.nbytes, lambda: X @ w),
        f"dense_accumulate, {tag}": (
            lambda lo, hi: design.accumulate(coef[lo:hi], lo, hi, np.zeros(d)),
            coef.nbytes,
            lambda: coef.astype(kind) @ X,
        ),
        f"dense dot of {columns} columns, {tag}": (
            partial(design.dot, W64),
            columns * coef.nbytes,
            lambda: X @ W,
        ),
    }
    return {
        key: partial(measure, work, n, X.nbytes + extra, other)
        for key, (work, extra, other) in lists.items()
    }


def _losses(classes: int, quick: bool) -> dict[str, Callable[[], Cell]]:
    """The losses on a line, with as many rows as covtype."""
    from maxmargin.losses import CrammerSinger, Hinge

    n = 10_000 if quick else 581_012
    rng = np.random.default_rng(0)
    loss: Any
    if classes == 2:
        loss, tag, shape = Hinge(), "hinge", (n,)
        y: Any = rng.choice([-1.0, 1.0], n)
    else:
        loss, tag = CrammerSinger(1.0 - np.eye(classes)), f"Crammer-Singer ({classes})"
        shape, y = (n, classes), rng.integers(0, classes, n)
    s = rng.normal(size=shape)
    r = s + 0.5 * rng.normal(size=shape)
    weight = np.ones(n)
    labels = y.nbytes + weight.nbytes

    def rows(lo: int, hi: int) -> tuple[Any, ...]:
        return y[lo:hi], weight[lo:hi]

    lists = {
        f"{tag}: value": (
            lambda lo, hi: loss.value(s[lo:hi], *rows(lo, hi)),
            s.nbytes + labels,
        ),
        f"{tag}: cut": (
            lambda lo, hi: loss.cut(s[lo:hi], *rows(lo, hi)),
            2 * s.nbytes + labels,
        ),
        f"{tag}: slopes at 8 steps": (
            lambda lo, hi: loss.slopes(s[lo:hi], r[lo:hi], *rows(lo, hi), TS),
            2 * s.nbytes + labels,
        ),
        f"{tag}: kinks in (0.85, 1)": (
            lambda lo, hi: loss.breakpoints(s[lo:hi], r[lo:hi], *rows(lo, hi), 0.85, 1.0, n),
            2 * s.nbytes + labels,
        ),
    }
    return {key: partial(measure, work, n, size, None) for key, (work, size) in lists.items()}


def _arithmetic(quick: bool) -> dict[str, Callable[[], Cell]]:
    from numba import njit

    @njit(nogil=True)
    def spin(lo: int, hi: int) -> float:
        x = 1.0
        for _ in range(lo, hi):
            x = 0.5 * x + 1.0
        return x

    return {"arithmetic only": partial(measure, spin, 4_000_000, 8_000_000, None)}


GROUPS: dict[str, Callable[[bool], dict[str, Callable[[], Cell]]]] = {
    "arithmetic": _arithmetic,
    "csr covtype-2": lambda quick: _csr("covtype-2", 8, quick),
    "csr mnist-10": lambda quick: _csr("mnist-10", 10, quick),
    "csr ccat": lambda quick: _csr("ccat", 16, quick),
    "dense float64": lambda quick: _dense("float64", 8, quick),
    "dense float32": lambda quick: _dense("float32", 8, quick),
    "hinge": lambda quick: _losses(2, quick),
    "crammer-singer 7": lambda quick: _losses(7, quick),
}


def cell(spec: Cell, bench: Bench) -> Cell:
    """All kernels of one group, in one process."""
    jobs = GROUPS[spec["group"]](bench.quick)
    for key, job in jobs.items():
        bench.put(key, {"group": spec["group"], **job()})
    return {"kernels": list(jobs)}


def table(bench: Bench) -> None:
    """All groups, one process each."""
    rows = []
    for group in GROUPS:
        for key in bench.run(f"group {group}", {"group": group}).get("kernels", []):
            found = bench.get(key)
            if found is not None:
                rows.append(_row(key, found))
    notes = """
**% of stream**: bytes per second relative to the sum of an array of as many bytes by as many threads,
interleaved in the same run, minimum times of each. **x other**: speedup over SciPy (CSR)
or BLAS in the precision of the data (dense) with one thread; our products always sum in float64. Two
threads work on 32 shards through `ThreadEngine`, like a fit with `n_jobs=2`. Losses have no
counterpart elsewhere. The row *arithmetic only* touches no memory: its speedup shows how much of a
second core was available in this run.
"""
    bench.save(TITLE, [("bandwidth", "Bytes per second", rows, notes)])


def _row(key: str, c: Cell) -> Row:
    reads = key != "arithmetic only"
    row: Row = {"kernel": key, "MB": round(c["bytes"] / 1e6, 1) if reads else None}
    for threads in THREADS:
        speed, stream, other = (c[f"{what} {threads}"] for what in ("speed", "stream", "other"))
        row[f"GB/s, {threads} thr."] = round(speed, 2) if reads else None
        row[f"% of stream, {threads} thr."] = round(100 * speed / stream) if reads else None
        row[f"x other, {threads} thr."] = round(other, 2) if other else None
    row["2 thr. : 1 thr."] = round(c["speed 2"] / c["speed 1"], 2)
    row["ns per row, 1 thr."] = round(c["ns per row 1"], 2)
    return row


if __name__ == "__main__":
    command_line("roofline", TITLE, cell, table)
