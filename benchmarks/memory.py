"""Memory and time of linear fits by the layout of X: C or Fortran order, single precision, data frame, CSR.

A million samples of 50 features, in a process of its own. Memory is the peak of a fit beyond what was
resident before it, in sizes of X. scikit-learn gets one iteration, because more need no more memory.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

TITLE = "Memory of linear fits beyond X"
ROWS, FEATURES, C = 1_000_000, 50, 1e-3
LAYOUTS = (
    "float64, C order",
    "float64, Fortran order",
    "float64, data frame",
    "float32, C order",
    "float32, Fortran order",
    "CSR, 10 of 50",
)
METHODS = ("LinearSVC", "LinearSVC, CuttingPlane", "scikit-learn")


def _data(layout: str, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    if layout.startswith("CSR"):
        X[:, 10:] = 0.0
    y = X[:, :10].sum(axis=1) + 2.0 * rng.standard_normal(n, dtype=np.float32) > 0.0
    if layout.startswith("CSR"):
        return sp.csr_matrix(X).astype(np.float64), y
    X = np.array(X, dtype=layout[:7], order="F" if "Fortran" in layout else "C")
    if "frame" in layout:
        import pandas as pd

        return pd.DataFrame(dict(zip((f"x{k}" for k in range(FEATURES)), X.T, strict=True))), y
    return X, y


def _model(method: str) -> Any:
    if method == "scikit-learn":
        from sklearn.svm import LinearSVC as Theirs

        return Theirs(C=C, loss="hinge", max_iter=1)
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane

    return LinearSVC(C=C, solver=CuttingPlane() if "Plane" in method else "auto", loss="hinge")


def _resident(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def _size(X: Any) -> int:
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.memory_usage(index=False).sum() if hasattr(X, "memory_usage") else X.nbytes)


def cell(spec: Cell, bench: Bench) -> Cell:
    """Peak memory and CPU seconds of one fit."""
    warnings.simplefilter("ignore")
    layout, method = spec["layout"], spec["method"]
    n = 20_000 if bench.quick else ROWS
    _model(method).fit(*_data(layout, 20_000))  # compile
    X, y = _data(layout, n)
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    began = cpu()
    _model(method).fit(X, y)
    seconds = cpu() - began
    return {"peak": (_resident("VmHWM") - before) / _size(X), "seconds": seconds, "X": _size(X)}


def table(bench: Bench) -> None:
    """One row per layout."""
    rows: list[Row] = []
    for layout in LAYOUTS:
        row: Row = {"X": layout}
        for method in METHODS:
            found = bench.run(f"{layout}, {method}", {"layout": layout, "method": method})
            row["MB"] = round(found["X"] / 1e6)
            row[f"sizes of X, {method}"] = round(found["peak"], 2)
            if method != "scikit-learn":
                row[f"seconds, {method}"] = round(found["seconds"], 2)
        rows.append(row)
    notes = f"""
Peak resident memory of a fit beyond what was resident before, in sizes of X; CPU seconds of the fits to the
default tolerance. {ROWS:,} samples of {FEATURES} features, C = {C:g}. Multipliers, norms and the order of the
samples take as much memory for float32, so they are more sizes of X. X in Fortran order, which a data frame
has, is copied once.
"""
    bench.save(TITLE, [("layouts", "By layout", rows, notes)])


if __name__ == "__main__":
    command_line("memory", TITLE, cell, table)
