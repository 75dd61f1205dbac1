"""Kernel classifiers in a model file: the kernel by name and numbers, support vectors and coefficients."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators import KernelSVC
from maxmargin.kernels import RBF, FromCallable, Kernel, Linear, Polynomial, Sigmoid
from maxmargin.persistence._arrays import ArrayReader, ArrayWriter
from maxmargin.persistence._linear import read_classes, read_names, write_classes, write_names
from maxmargin.persistence._values import (
    ModelFileError,
    NotStorableError,
    count,
    decode,
    encode,
    section,
)

#: the only kernels a file may ask for
KERNELS: dict[str, type] = {cls.__name__: cls for cls in (RBF, Polynomial, Sigmoid, Linear)}
_FITTED = ("classes", "n_features", "n_rows", "kernel", "sparse", "extras")
_FLOATS = ("float32", "float64")
_EXTRA = re.compile("[a-z][a-z_]*[a-z]_")
#: what an extra of a file must not be called
_TAKEN = frozenset(
    [
        "classes_",
        "support_",
        "support_vectors_",
        "n_support_",
        "dual_coef_",
        "intercept_",
        "kernel_",
    ]
    + ["shape_fit_", "n_features_in_", "feature_names_in_", "coef_", "history_", "objective_"]
    + ["lower_bound_", "gap_", "converged_", "stop_reason_", "certificate_", "n_iter_"]
)


def store_kernel(kernel: Kernel) -> dict[str, Any]:
    """A kernel as JSON; a function of the user's is refused."""
    if isinstance(kernel, FromCallable):
        raise ValueError(
            f"the kernel is a function, {kernel.function!r}, and a model file holds no code: use a kernel "
            "with a name ('rbf', 'poly', ...), or pickle the estimator."
        )
    name = type(kernel).__name__
    if KERNELS.get(name) is not type(kernel):
        raise ValueError(f"the kernel {kernel!r} cannot be saved; only {', '.join(KERNELS)} can.")
    values = {f.name: encode(getattr(kernel, f.name)) for f in fields(kernel)}  # type: ignore[arg-type]
    return {"name": name, **values}


def read_kernel(stored: Any) -> Kernel:
    """The kernel, from the list above."""
    name = stored.get("name") if isinstance(stored, dict) else None
    if not isinstance(name, str) or name not in KERNELS:
        raise ModelFileError(f"the kernel {str(name)[:80]!r} is not known")
    cls = KERNELS[name]
    own = tuple(f.name for f in fields(cls))
    stored = section(stored, "the kernel", ("name", *own))
    values = {key: decode(stored[key], f"{key} of the kernel") for key in own}
    whole = [type(v) is int and abs(v) < 2**63 for v in values.values()]
    if not all(
        fits or (type(v) is float and np.isfinite(v))
        for fits, v in zip(whole, values.values(), strict=True)
    ):
        raise ModelFileError("the numbers of the kernel are not numbers")
    kernel: Kernel = cls(**values)
    return kernel


def write_kernel_svc(est: KernelSVC, writer: ArrayWriter) -> dict[str, Any]:
    """The fitted part of a classifier."""
    kernel = store_kernel(est.kernel_)
    sparse = write_rows(est.support_vectors_, writer)
    writer.add("support", est.support_)
    writer.add("n_support", est.n_support_)
    writer.add("dual_coef", est.dual_coef_)
    writer.add("intercept", est.intercept_)
    write_names(est, writer)
    return {
        "classes": write_classes(est.classes_, writer),
        "n_features": int(est.n_features_in_),
        "n_rows": int(est.shape_fit_[0]),
        "kernel": kernel,
        "sparse": sparse,
        "extras": _extras(est),
    }


def _extras(est: KernelSVC) -> dict[str, Any]:
    """What the method said besides, as far as it is plain values."""
    out = {}
    for name in est._said:
        try:
            out[name] = encode(getattr(est, name))
        except NotStorableError:
            continue  # arrays of one method: nothing that a prediction needs
    return out


def read_kernel_svc(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    """The attributes that ``fit`` would have set."""
    stored = section(stored, "the fitted part", _FITTED)
    d = count(stored["n_features"], "n_features", least=1)
    n = count(stored["n_rows"], "n_rows", least=1)
    classes = read_classes(stored["classes"], reader)
    K = len(classes)
    support = reader.take("support", ("int64", "int32"))
    n_support = reader.take("n_support", ("int64", "int32"), (K,))
    coef = reader.take("dual_coef", shape=(None, len(support)))
    intercept = reader.take("intercept")
    shapes = [(1, 1)] if K == 2 else [(K - 1, K * (K - 1) // 2), (K, K)]
    if K < 2 or (len(coef), len(intercept)) not in shapes:
        raise ModelFileError(
            f"{len(coef)} rows of coefficients and {len(intercept)} intercepts do not fit {K} classes"
        )
    if (n_support < 0).any() or n_support.sum() != len(support):
        raise ModelFileError("the numbers of support vectors do not add up")
    if len(np.unique(support)) != len(support) or np.any((support < 0) | (support >= n)):
        raise ModelFileError("the support vectors are not rows of the training data")
    vectors = read_rows(stored["sparse"], reader, (len(support), d))
    extras = _read_extras(stored["extras"])
    fitted = {
        "classes_": classes,
        "kernel_": read_kernel(stored["kernel"]),
        "support_": support,
        "n_support_": n_support,
        "support_vectors_": vectors,
        "dual_coef_": coef,
        "intercept_": intercept,
        "shape_fit_": (n, d),
        "n_features_in_": d,
        "_said": tuple(extras),
    }
    return extras | fitted | read_names(d, reader)


def write_rows(rows: Any, writer: ArrayWriter) -> bool:
    """Rows that a kernel acts on; whether they are sparse."""
    if not sp.issparse(rows):
        writer.add("vectors", rows)
        return False
    writer.add("vectors.data", rows.data)
    writer.add("vectors.indices", rows.indices)
    writer.add("vectors.indptr", rows.indptr)
    return True


def read_rows(sparse: Any, reader: ArrayReader, shape: tuple[int, int]) -> Any:
    """The same rows."""
    if type(sparse) is not bool:
        raise ModelFileError("the file does not say whether the support vectors are sparse")
    if not sparse:
        return reader.take("vectors", _FLOATS, shape)
    return _read_sparse(reader, shape)


def _read_sparse(reader: ArrayReader, shape: tuple[int, int]) -> Any:
    data = reader.take("vectors.data", _FLOATS)
    indices = reader.take("vectors.indices", ("int32", "int64"), (len(data),))
    indptr = reader.take("vectors.indptr", ("int32", "int64"), (shape[0] + 1,))
    ascends = indptr[0] == 0 and indptr[-1] == len(data) and (np.diff(indptr) >= 0).all()
    if not ascends or np.any((indices < 0) | (indices >= shape[1])):
        raise ModelFileError("the sparse support vectors point out of range")
    return sp.csr_matrix((data, indices, indptr), shape=shape)


def _read_extras(stored: Any) -> dict[str, Any]:
    if not isinstance(stored, dict):
        raise ModelFileError("the extras are not a JSON object")
    for name in stored:
        if not _EXTRA.fullmatch(name) or name in _TAKEN or hasattr(KernelSVC, name):
            raise ModelFileError(f"the extra {name[:80]!r} does not belong there")
    return {name: decode(value, name) for name, value in stored.items()}
