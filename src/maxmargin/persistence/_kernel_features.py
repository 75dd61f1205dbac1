"""Kernels of structured models in a file: the basis of rows, the kernel, and what was said of the fit."""

from __future__ import annotations

from typing import Any

from maxmargin.kernels import Kernel
from maxmargin.kernels.features import KernelFeatures
from maxmargin.persistence._arrays import ArrayReader, ArrayWriter
from maxmargin.persistence._kernels import read_kernel, read_rows, store_kernel, write_rows
from maxmargin.persistence._values import ModelFileError, count, decode, encode, section

_ENTRIES = ("kernel", "sparse", "n_rows", "n_columns", "factor", "said")
#: what may be said of a fit, and how
_SAID: dict[str, type] = {
    "restricted_lower_bound_": float,
    "restricted_gap_": float,
    "probabilistic_bound_": float,
    "probabilistic_bound_is_vacuous_": bool,
    "kernel_values_": int,
}


def write_features(
    est: Any, kernel: Kernel, rows: Any, factor: Any, writer: ArrayWriter
) -> dict[str, Any]:
    """The section of a model whose rows go through a kernel."""
    if factor is not None:
        writer.add("factor", factor)
    said = {name: encode(getattr(est, name)) for name in _SAID if hasattr(est, name)}
    return {
        "kernel": store_kernel(kernel),
        "sparse": write_rows(rows, writer),
        "n_rows": int(rows.shape[0]),
        "n_columns": int(rows.shape[1]),
        "factor": factor is not None,
        "said": {"kernel_method_": est.kernel_method_, **said},
    }


def read_features(
    stored: Any, reader: ArrayReader, *, with_factor: bool
) -> tuple[KernelFeatures, dict[str, Any]]:
    """The features, and what was said of the fit as attributes."""
    stored = section(stored, "the kernel's part", _ENTRIES)
    b = count(stored["n_rows"], "the number of rows of the basis", least=1)
    d = count(stored["n_columns"], "the length of the rows")
    if type(stored["factor"]) is not bool or (stored["factor"] and not with_factor):
        raise ModelFileError("the kernel's part does not say what it holds")
    factor = reader.take("factor", shape=(b, None)) if stored["factor"] else None
    said = section(stored["said"], "what is said of the kernel", ("kernel_method_",), tuple(_SAID))
    values = {name: decode(value, name) for name, value in said.items()}
    if not isinstance(values["kernel_method_"], str) or not all(
        type(values[name]) is kind for name, kind in _SAID.items() if name in values
    ):
        raise ModelFileError("what is said of the kernel is of a kind that does not belong there")
    rows = read_rows(stored["sparse"], reader, (b, d))
    return KernelFeatures(read_kernel(stored["kernel"]), rows, factor), values
