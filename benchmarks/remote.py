"""Data sets in an object store whose requests take time and fail: fits, requests, passes with a cache.

The store is ``flaky://`` of ``tests/flaky_store.py``: 20 ms per request, one in a hundred fails. Below
it are files on the local disk. All fits must have the bits of a fit of those files. Products are timed on
local files and on cached copies, interleaved; each figure is the minimum over the repetitions.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, scratch

# ruff: isort: split
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

TITLE = "Data sets in an object store that is slow and fails"
REPEATS = 15
D = 40
#: seconds of a request; one in so many fails
LATENCY, EVERY = 0.02, 100
SOLVERS = ("cutting planes", "streaming")


def _batches(layout: str, n: int) -> Iterator[tuple[Any, Any, Any]]:
    rng = np.random.default_rng(0)
    for lo in range(0, n, 50_000):
        count = min(50_000, n - lo)
        X = rng.standard_normal((count, D), dtype=np.float32)
        y = np.where(X[:, :3].sum(axis=1) + rng.standard_normal(count) > 0, 1, -1)
        weight = rng.uniform(0.5, 1.5, count)
        if layout == "sparse":
            columns = (np.arange(count * D) % D * 250 + rng.integers(0, 250, count * D)) // 100
            matrix = sp.csr_matrix((X.ravel(), columns, np.arange(count + 1) * D), (count, 100))
            matrix.sum_duplicates()
            X = matrix
        yield X, y, weight


def _fit(rows: Any, solver: str, n: int) -> tuple[Any, Cell]:
    """A fit, and the requests of it."""
    from tests.flaky_store import FlakyFileSystem as Store

    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    Store.reset()
    began, cpu = time.perf_counter(), time.process_time()
    chosen = CuttingPlane() if solver == "cutting planes" else DualCoordinate()
    svc = LinearSVC(C=1.0 / n, solver=chosen, tol=1e-2, loss="hinge").fit(rows)
    gets = list(Store.gets)
    columns = [name for name, _ in gets if ".label." in name or ".weight." in name]
    features = [size for name, size in gets if name.endswith(".bin") and name not in columns]
    return svc, {
        "wall": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "gets": len(gets),
        "failures": Store.failures,
        "column_gets": len(columns),
        "size": float(np.mean(features)) if features else None,
    }


def fits(layout: str, n: int) -> Cell:
    """Fits of one layout: local, remote, remote with a cache, and again with that cache; then products."""
    from tests.flaky_store import FlakyFileSystem as Store

    from maxmargin import data

    out: Cell = {"rows": n}
    with scratch() as folder:
        local = data.write(folder / "rows", _batches(layout, n), shard_bytes=16 << 20)
        url = f"flaky://{folder}/rows"
        Store.latency, Store.every = LATENCY, EVERY
        out["bytes"] = sum(path.stat().st_size for path in (folder / "rows").glob("*.bin"))
        for solver in SOLVERS:
            svc, cell = _fit(local, solver, n)
            runs = {"local": cell}
            cache = folder / f"copies of {solver}"
            for name, where in {"remote": None, "first": cache, "again": cache}.items():
                found, cell = _fit(data.open(url, cache=where), solver, n)
                same = np.array_equal(found.coef_, svc.coef_)
                cell["same"] = bool(same and found.lower_bound_ == svc.lower_bound_)
                runs[name] = cell
            out[solver] = runs
        Store.reset()
        cached = data.open(url, cache=folder / f"copies of {SOLVERS[0]}")
        w, coef = np.ones(local.shape[1]), np.ones(n)
        for product, work in {
            "dot": lambda rows: rows.dot(w, 0, n),
            "accumulate": lambda rows: rows.accumulate(coef, 0, n, np.zeros(len(w))),
        }.items():
            out[product] = _least(work, local, cached)
        out["product_gets"] = len(Store.gets) - 1  # one for the manifest
    return out


def _least(work: Callable[[Any], Any], *designs: Any) -> list[tuple[float, float]]:
    """Minimum wall and CPU seconds for each design, interleaved."""
    times: list[list[tuple[float, float]]] = [[] for _ in designs]
    for repeat in range(REPEATS + 1):
        for own, design in zip(times, designs, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            work(design)
            if repeat:  # the first one is a warm-up
                own.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [(min(t[0] for t in own), min(t[1] for t in own)) for own in times]


def run(bench: Bench) -> None:
    """All cells, then the tables."""
    n = 20_000 if bench.quick else 500_000
    cells = {layout: bench.run(layout, {"what": layout, "n": n}) for layout in ("dense", "sparse")}
    names = {"local": "local", "remote": "remote", "first": "cache", "again": "cache, again"}
    rows: list[Row] = []
    passes: list[Row] = []
    for layout, cell in cells.items():
        for solver in SOLVERS:
            for kind, name in names.items():
                got = cell[solver][kind]
                size = got["size"]
                rows.append(
                    {
                        "rows": f"{layout}, {cell['bytes'] / 1e6:.0f} MB",
                        "solver": solver,
                        "data": name,
                        "requests": got["gets"],
                        "of labels and weights": got["column_gets"],
                        "kB per request": size and size / 1e3,
                        "failed": got["failures"],
                        "wall s": got["wall"],
                        "CPU s": got["cpu"],
                        "same bits": got.get("same"),
                    }
                )
        for product in ("dot", "accumulate"):
            local, cached = cell[product]
            passes.append(
                {
                    "rows": layout,
                    "product": product,
                    "local, wall s": local[0],
                    "cache / local, wall": cached[0] / local[0],
                    "cache / local, CPU": cached[1] / local[1],
                    "requests": cell["product_gets"],
                }
            )
    bench.save(
        TITLE,
        [
            ("fits", "Fits to a gap of 1 %", rows, FITS),
            ("passes", "Passes over copies in the cache against local files", passes, PASSES),
        ],
    )


FITS = """
Each request takes 20 ms, and one in a hundred fails and is repeated after 0.1 s or more. "cache" begins with
an empty folder, "cache, again" is a new data set with the same folder; opening it takes one request, which is
not counted. Requests of labels and weights do not grow with the passes.
"""
PASSES = """
Claim: no requests, and at most 1.2 times the time of local files.
"""


def cell(spec: Cell, bench: Bench) -> Cell:
    """One cell."""
    return fits(spec["what"], spec["n"])


if __name__ == "__main__":
    command_line("remote", TITLE, cell, run)
