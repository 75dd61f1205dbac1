"""Cost of input validation, relative to products with the matrix."""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line

# ruff: isort: split
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

TITLE = "Checks of matrices, in products"
REPEATS = 15
#: name: (rows, features, entries per row or None for dense, type of entries, type of indices)
SHAPES: dict[str, tuple[int, int, int | None, str, str]] = {
    "CSR, 75 entries a row": (200_000, 50_000, 75, "float64", "int32"),
    "CSR, 75 entries a row, float32": (200_000, 50_000, 75, "float32", "int32"),
    "CSR, 75 entries a row, 64-bit indices": (200_000, 50_000, 75, "float64", "int64"),
    "CSR, 10 entries a row": (1_500_000, 100, 10, "float64", "int32"),
    "CSR, a million features": (200_000, 1_000_000, 75, "float64", "int32"),
    "dense": (300_000, 50, None, "float64", ""),
    "dense, float32": (300_000, 50, None, "float32", ""),
}


def _matrix(name: str, quick: bool) -> Any:
    n, d, entries, kind, index = SHAPES[name]
    n, rng = (n // 100 if quick else n), np.random.default_rng(0)
    if entries is None:
        return rng.normal(size=(n, d)).astype(kind)
    columns = np.sort(
        rng.integers(d // entries, size=(n, entries)) + np.arange(entries) * (d // entries)
    )
    ends = np.arange(n + 1) * entries
    X = sp.csr_matrix((n, d), dtype=kind)
    X.indices, X.indptr = columns.ravel().astype(index), ends.astype(index)
    X.data = rng.normal(size=n * entries).astype(kind)
    return X


def cell(spec: Cell, bench: Bench) -> Cell:
    """Minimum times of a check and of a product, interleaved."""
    from maxmargin.core.matrices import checked
    from maxmargin.data import as_design

    X = _matrix(spec["matrix"], bench.quick)
    design, w = as_design(X), np.ones(X.shape[1])
    check, product = [], []
    for _ in range(REPEATS):
        if sp.issparse(X):  # SciPy caches whether columns are sorted
            X = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
        began = time.perf_counter()
        checked(X)
        check.append(time.perf_counter() - began)
        began = time.perf_counter()
        design.dot(w, 0, X.shape[0])
        product.append(time.perf_counter() - began)
    return {"check": min(check), "product": min(product)}


def table(bench: Bench) -> None:
    """One row per shape."""
    rows: list[Row] = []
    for name in SHAPES:
        found = bench.run(name, {"matrix": name})
        rows.append(
            {
                "matrix": name,
                "check, ms": round(1e3 * found["check"], 2),
                "product, ms": round(1e3 * found["product"], 2),
                "check : product": round(found["check"] / found["product"], 2),
            }
        )
    notes = """
**check**: pointers ascend and end inside the arrays, column indices are in range, no entry is duplicated, all
entries are finite; once per matrix. **product**: one X w. Minimum wall times of 15, one thread.
"""
    bench.save(TITLE, [("milliseconds", "Milliseconds", rows, notes)])


if __name__ == "__main__":
    command_line("input_checks", TITLE, cell, table)
