"""Cost of rows on disk compared to rows in memory: products, writing, reading svmlight files.

A dense matrix (float32, 40 features) and a sparse one (float64, 40 entries per row) are written. Then every
product runs over all rows, in memory, through a ``numpy.memmap`` of the whole (dense only) and through the
data set. The three are interleaved; each figure is the minimum over the repetitions. *Cold* drops the files
from the page cache before every pass; otherwise they are in the page cache.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line

# ruff: isort: split
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

TITLE = "Rows on disk against rows in memory"
REPEATS = 5
D = 40


def _timed(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _least(works: dict[str, Callable[[], Any]]) -> dict[str, tuple[float, float]]:
    """Minimum wall and CPU seconds of each, interleaved."""
    for work in works.values():
        work()
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            runs[name].append(_timed(work))
    return {name: (min(r[0] for r in got), min(r[1] for r in got)) for name, got in runs.items()}


def _forget(folder: Path) -> None:
    for path in folder.glob("*.bin"):
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def _matrix(layout: str, n: int) -> Any:
    rng = np.random.default_rng(0)
    if layout == "dense":
        X = np.empty((n, D), dtype=np.float32)
        for start in range(0, n, 100_000):
            part = X[start : start + 100_000]
            part[:] = rng.standard_normal(part.shape, dtype=np.float32)
        return X
    n //= 4
    data = rng.standard_normal(n * D)
    indices = (np.arange(n * D) % D * 250 + rng.integers(0, 250, n * D)).astype(np.int32)
    return sp.csr_matrix((data, indices, np.arange(n + 1) * D), shape=(n, 250 * D))


def products(layout: str, n: int) -> Cell:
    """One layout: writing, products, a cold pass."""
    from maxmargin import data

    X = _matrix(layout, n)
    n, d = X.shape
    rng = np.random.default_rng(1)
    w, W = rng.standard_normal(d), rng.standard_normal((d, 5))
    coef, columns = rng.standard_normal(n), rng.standard_normal((n, 5))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step = 100_000
        pieces = ((X[i : i + step], np.zeros(min(step, n - i))) for i in range(0, n, step))
        wall, cpu = _timed(lambda: data.write(folder / "set", pieces))
        on_disk = data.open(folder / "set")
        designs: dict[str, Any] = {"memory": data.as_design(X), "data set": on_disk}
        if layout == "dense":
            X.tofile(folder / "whole")
            mapped = np.memmap(folder / "whole", np.float32, "r", shape=X.shape)
            designs["memmap"] = data.DenseDesign(mapped)
        out: Cell = {"rows": n, "stored": on_disk.nnz, "write": cpu, "write_wall": wall}
        out["bytes"] = sum(path.stat().st_size for path in (folder / "set").glob("*.bin"))
        out["verify"] = _timed(on_disk.verify)[1]
        for product, work in {
            "dot": lambda X: X.dot(w, 0, n),
            "dot, 5 columns": lambda X: X.dot(W, 0, n),
            "accumulate": lambda X: X.accumulate(coef, 0, n, np.zeros(d)),
            "accumulate, 5 columns": lambda X: X.accumulate(columns, 0, n, np.zeros((d, 5))),
        }.items():
            out[product] = _least({name: _bind(work, X) for name, X in designs.items()})
        if hasattr(os, "posix_fadvise"):
            cold = []
            for _ in range(3):
                _forget(folder / "set")
                cold.append(_timed(lambda: on_disk.dot(w, 0, n))[0])
            out["cold"] = min(cold)
    return out


def _bind(work: Callable[[Any], Any], X: Any) -> Callable[[], Any]:
    return lambda: work(X)


def svmlight(n: int) -> Cell:
    """Text to CSR: our reader compared to scikit-learn's, for short and long numbers."""
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    from maxmargin import data

    rng = np.random.default_rng(0)
    X, out = sp.random(n, 5000, 0.005, format="csr", random_state=0), {}
    for kind in ("4 digits", "17 digits"):
        X.data = rng.normal(size=X.nnz)
        X.data = X.data if kind == "17 digits" else np.round(X.data, 4)
        with tempfile.TemporaryDirectory() as name:
            path = f"{name}/text"
            dump_svmlight_file(X, rng.integers(0, 2, n), path, zero_based=False)

            def ours(path: str = path) -> int:
                return sum(batch[0].shape[0] for batch in data.read_svmlight(path))

            def theirs(path: str = path) -> Any:
                return load_svmlight_file(path, zero_based=False)

            out[kind] = {
                "megabytes": os.path.getsize(path) / 1e6,
                **_least({"ours": ours, "scikit-learn": theirs}),
            }
    return out


def run(bench: Bench) -> None:
    """All cells, then the tables."""
    n = 200_000 if bench.quick else 10_000_000
    cells = {layout: bench.run(layout, {"what": layout, "n": n}) for layout in ("dense", "sparse")}
    text = bench.run("svmlight", {"what": "svmlight", "n": 5_000 if bench.quick else 200_000})
    rows: list[Row] = []
    for layout, cell in cells.items():
        for product in ("dot", "dot, 5 columns", "accumulate", "accumulate, 5 columns"):
            got = cell[product]
            rows.append(
                {
                    "rows": f"{layout}, {cell['rows'] / 1e6:g} million",
                    "product": product,
                    "memory, CPU s": got["memory"][1],
                    "memmap / memory": got["memmap"][1] / got["memory"][1]
                    if "memmap" in got
                    else None,
                    "data set / memory, CPU": got["data set"][1] / got["memory"][1],
                }
            )
    more: list[Row] = [
        {
            "rows": f"{layout}, {cell['bytes'] / 1e9:.2g} GB",
            "write, CPU s": cell["write"],
            "write, wall s": cell["write_wall"],
            "verify, CPU s": cell["verify"],
            "cold dot, wall s": cell.get("cold"),
            "cold, GB/s": cell["bytes"] / 1e9 / cell["cold"] if "cold" in cell else None,
        }
        for layout, cell in cells.items()
    ]
    reading: list[Row] = [
        {
            "numbers": kind,
            "MB": got["megabytes"],
            "ours, s": got["ours"][1],
            "scikit-learn, s": got["scikit-learn"][1],
            "times faster": got["scikit-learn"][1] / got["ours"][1],
        }
        for kind, got in ((k, text[k]) for k in ("4 digits", "17 digits"))
    ]
    bench.save(
        TITLE,
        [
            ("products", "Products over all rows, files in the page cache", rows, NOTES),
            ("writing", "Writing, verifying, and a pass from disk", more, COLD),
            ("svmlight", "svmlight files", reading, ""),
        ],
    )


NOTES = """
The results of all three are bit-identical. CPU seconds of the data set include the thread that loads the next
chunk: mapping a page again in every pass costs a part of a page fault. On an idle machine a second core does
this work; wall times of a busy machine are not meaningful.
"""
COLD = """
Writing includes a checksum, the check for NaN, and waiting until the files are on disk. The cold pass
reads at the speed of this machine's (virtual) disk.
"""


def cell(spec: Cell, bench: Bench) -> Cell:
    """One cell in its own process."""
    if spec["what"] == "svmlight":
        return svmlight(spec["n"])
    return products(spec["what"], spec["n"])


if __name__ == "__main__":
    command_line("on_disk", TITLE, cell, run)
