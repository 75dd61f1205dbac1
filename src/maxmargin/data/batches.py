"""Validation and conversion of batches: features, labels, weights and groups of matching lengths.

A batch is ``(X, y)``, ``(X, y, weight)``, ``(X, y, weight, group)`` or a mapping with these names. X is a
NumPy array, a SciPy sparse matrix or a data frame; for sequences it is a list of matrices, and y is a list of
label sequences. ``y``, ``weight`` and ``group`` may be None. A mapping may also hold sequences as one stacked
matrix and one array of labels, with their ``lengths``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.checks import nonnegative
from maxmargin.core.matrices import AnyArray, checked_csr, is_canonical, summed
from maxmargin.data.typed_rows import TypedRows, check_finite, typed_rows, widen

_FIELDS = ("X", "y", "weight", "group", "lengths")


@dataclass(slots=True)
class CheckedBatch:
    """A validated batch. ``X`` is an array, a CSR matrix, or rows in a narrow type. ``lengths`` holds the
    lengths of the sequences; None for independent samples."""

    number: int
    X: Any
    y: AnyArray | None
    weight: AnyArray | None
    group: AnyArray | None
    lengths: AnyArray | None
    names: tuple[str, ...] | None
    squares: npt.NDArray[np.float64]


def uniform(batches: Iterable[object], dtype: npt.DTypeLike) -> Iterator[CheckedBatch]:
    """Validate the batches one by one; an error names the batch."""
    kind = None if dtype is None else _float(np.dtype(dtype))
    for number, batch in enumerate(batches):
        try:
            uniform_batch = _batch(number, batch, kind)
        except (ValueError, TypeError) as error:
            raise about(number, error) from error
        yield uniform_batch


def about(number: int, error: ValueError | TypeError) -> ValueError | TypeError:
    """The error with the index of the batch."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"batch {number}: {error}")


def _batch(number: int, batch: Any, dtype: np.dtype[Any] | None) -> CheckedBatch:
    X, y, weight, group, lengths = _fields(batch)
    if isinstance(X, list | tuple):
        X, y, lengths = _flat(X, y)
    typed = None if lengths is not None else _typed(X, dtype)
    X, names = (typed, None) if typed is not None else _matrix(X, dtype)
    n = X.shape[0]
    if lengths is not None:
        lengths = _lengths(lengths, n)
    labels = None if y is None else labels_of(y, n)
    units = n if lengths is None else len(lengths)
    return CheckedBatch(
        number,
        X,
        labels,
        None if weight is None else weights_of(weight, units),
        None if group is None else groups_of(group, units),
        lengths,
        names,
        squares_of(X),
    )


def _fields(batch: Any) -> tuple[Any, ...]:
    if isinstance(batch, Mapping):
        unknown = sorted(set(batch) - set(_FIELDS))
        if unknown or "X" not in batch:
            raise ValueError(
                f"a mapping must have the key 'X' and may have {_FIELDS[1:]}; got {unknown}."
            )
        return tuple(batch.get(name) for name in _FIELDS)
    if isinstance(batch, tuple) and 2 <= len(batch) <= 4:
        return batch + (None,) * (5 - len(batch))
    what = f"a tuple of {len(batch)}" if isinstance(batch, tuple) else type(batch).__name__
    raise TypeError(
        f"expected (X, y), (X, y, weight), (X, y, weight, group) or a mapping, got {what}. "
        "A single matrix is a list of one batch: [(X, y)]."
    )


def _lengths(lengths: Any, n: int) -> AnyArray:
    """The lengths of the sequences of a stacked matrix of n rows."""
    counts = np.asarray(lengths)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ValueError("lengths must be a list of nonnegative integers, one per sequence.")
    if counts.sum() != n:
        raise ValueError(f"lengths add up to {counts.sum()}, but X has {n} rows.")
    return counts.astype(np.int64)


def _flat(X: Any, y: Any) -> tuple[Any, Any, AnyArray]:
    """Concatenate sequences."""
    if not len(X) or not all(getattr(x, "ndim", 0) == 2 for x in X):
        raise TypeError(
            "X is a list: it must hold one (length, features) array or CSR matrix per sequence. Pass "
            "independent samples as one NumPy array or SciPy matrix."
        )
    lengths = np.array([x.shape[0] for x in X], dtype=np.int64)
    if y is not None:
        if len(y) != len(X):
            raise ValueError(f"{len(X)} sequences but {len(y)} label sequences.")
        for i, (labels, length) in enumerate(zip(y, lengths, strict=True)):
            if len(labels) != length:
                raise ValueError(f"sequence {i} has {length} rows but {len(labels)} labels.")
        parts = [np.asarray(labels) for labels in y if len(labels)]
        y = np.concatenate(parts) if parts else np.empty(0)
    if all(sp.issparse(x) for x in X):
        X = [checked_csr(x, f"sequence {i}") for i, x in enumerate(X)]
        width = max(x.shape[1] for x in X)
        X = [x if x.shape[1] == width else _widened(x, width) for x in X]
        return sp.vstack(X, format="csr"), y, lengths
    if any(sp.issparse(x) for x in X):
        raise TypeError("sequences must be all sparse or all dense.")
    widths = {x.shape[1] for x in X}
    if len(widths) > 1:
        raise ValueError(f"sequences have different numbers of features: {sorted(widths)}.")
    return np.concatenate([np.asarray(x) for x in X]), y, lengths


def _widened(x: Any, width: int) -> Any:
    return sp.csr_matrix((x.data, x.indices, x.indptr), shape=(x.shape[0], width), copy=False)


def _float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype not in (np.float16, np.float32, np.float64) and dtype.name != "bfloat16":
        raise ValueError(
            f"dtype is {dtype}: features can be cast to float64, float32, float16 or bfloat16. Matrices of "
            "int8 and uint8 keep their type, and data.Quantized(codes, scale) has a scale."
        )
    return dtype


def _typed(X: Any, dtype: np.dtype[Any] | None) -> TypedRows | None:
    """Rows that are stored in a narrow type, their own or ``dtype``; None for others."""
    rows = typed_rows(X)
    if dtype is None:
        return rows
    if dtype in (np.float32, np.float64):
        return None
    if rows is not None and rows.kind == dtype.name:
        return rows
    with np.errstate(over="ignore"):  # an error that names the row follows
        exact = _matrix(X if rows is None else rows, np.dtype(np.float64))[0]
        return typed_rows(exact.astype(dtype))


def _matrix(X: Any, dtype: np.dtype[Any] | None) -> tuple[Any, tuple[str, ...] | None]:
    """A C-contiguous array or a CSR matrix, float32 or float64, and the column names of a data frame."""
    names = None
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names = tuple(str(column) for column in X.columns)
        X = X.to_numpy()
        if X.dtype == object:
            raise TypeError("the data frame has columns that are not numeric.")
    if sp.issparse(X):
        X = checked_csr(X)
        kind = dtype or (X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64))
        X = X if X.dtype == kind else X.astype(kind)
        return _without_duplicates(X), names
    if isinstance(X, TypedRows):
        X = X.toarray()
    if not isinstance(X, np.ndarray):
        raise TypeError(
            f"X is a {type(X).__name__}: expected a NumPy array, a SciPy sparse matrix, a data frame, or "
            "a list of matrices, one per sequence."
        )
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise TypeError(f"X has {X.ndim} dimensions and type {X.dtype}: expected a numeric matrix.")
    kind = dtype or (X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64))
    return np.ascontiguousarray(X, dtype=kind), names


def _without_duplicates(X: Any) -> Any:
    """Add up duplicate entries, without memory proportional to the number of features."""
    if is_canonical(X):
        return X
    ordered = summed(X)
    return X if ordered.nnz == X.nnz else ordered


def squares_of(X: Any, first: int = 0) -> npt.NDArray[np.float64]:
    """|x|^2 of every row, in float64. One pass that also detects entries that are not finite. ``first`` is
    the number of the first row."""
    if isinstance(X, TypedRows):
        check_finite(X, first)
        squares, height = np.empty(len(X)), max(1, 2**17 // max(1, X.shape[1]))
        block = np.empty((height, X.shape[1]))
        for lo in range(0, len(X), height):
            some = widen(X[lo : lo + height], block[: len(X) - lo])
            np.einsum("ij,ij->i", some, some, out=squares[lo : lo + height])
        return squares
    if sp.issparse(X):
        entries = X.data.astype(np.float64)
        entries *= entries
        squares = np.zeros(X.shape[0])
        some = np.flatnonzero(np.diff(X.indptr))
        if len(some):
            squares[some] = np.add.reduceat(entries, X.indptr[some])
    else:
        squares = np.empty(X.shape[0])
        for start in range(0, X.shape[0], 4096):
            block = X[start : start + 4096].astype(np.float64, copy=False)
            np.einsum("ij,ij->i", block, block, out=squares[start : start + 4096])
    if not np.isfinite(squares).all():
        row = int(np.flatnonzero(~np.isfinite(squares))[0])
        values = X.data[X.indptr[row] : X.indptr[row + 1]] if sp.issparse(X) else X[row]
        if np.isfinite(values).all():
            raise ValueError(
                f"row {first + row} has features so large that their squares overflow."
            )
        raise ValueError(
            f"row {first + row} has a feature that is NaN or infinite. Impute it or drop the row."
        )
    return squares


def labels_of(y: Any, n: int) -> AnyArray:
    labels = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape} for {n} rows.")
    if labels.dtype == object:
        each = labels.tolist()
        if all(isinstance(label, str) for label in each):
            labels = labels.astype(str)
        elif all(isinstance(label, int | float | np.number | np.bool_) for label in each):
            labels = np.array(each)
        else:
            kinds = sorted({type(label).__name__ for label in each})
            raise TypeError(f"labels must be all numbers or all strings; y has {kinds}.")
    if labels.dtype.kind == "T":  # NumPy's variable-length strings
        labels = np.array(labels.tolist(), dtype=str)
    if labels.dtype.kind == "S":
        raise TypeError("labels are bytes: decode them to strings.")
    if labels.dtype.kind not in "fiubU":
        raise TypeError(f"labels have type {labels.dtype}: expected numbers or strings.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(
            f"the label of row {int(np.flatnonzero(~np.isfinite(labels))[0])} is not finite."
        )
    return labels


def weights_of(weight: Any, n: int) -> AnyArray:
    return nonnegative("weight", weight, (n,))


def groups_of(group: Any, n: int) -> AnyArray:
    values = np.asarray(group)
    if values.shape != (n,):
        raise ValueError(f"group has shape {values.shape}; expected ({n},).")
    exact = values.astype(np.int64, copy=False) if values.dtype.kind in "iubf" else None
    if exact is None or not np.array_equal(exact, values):
        raise TypeError(f"group ids must be integers, not {values.dtype}.")
    return exact
