"""Validation of matrices before they are passed to compiled code.

Compiled code does not check bounds: one wrong index or pointer causes a crash or overwrites other memory. It
also ignores NaN, because ``max(0, nan)`` is 0. Hence every matrix is checked once on input, at less than the
cost of a matrix-vector product: pointers must be nondecreasing and end within the arrays, indices must be
valid columns, and entries must be finite.

Every error is a ValueError that names the row and the column.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

AnyArray = npt.NDArray[Any]

#: number of entries searched at a time for one that is not finite
_STEP = 1 << 20
#: returns the name of a row in an error message, given its number
Name = Callable[[int], str]


def row_name(row: int) -> str:
    """The default name of a row in an error message."""
    return f"row {row}"


def numbered(what: str) -> Name:
    """Row names with another noun, such as "token 3"."""
    return lambda row: f"{what} {row}"


def is_finite(values: AnyArray) -> bool:
    """Whether all numbers are finite. NaN and infinity propagate through a sum, which is one pass without
    extra memory. Only if the sum is not finite (finite numbers may overflow) are the entries searched."""
    if values.dtype.kind not in "fc" or not values.size:
        return True
    with np.errstate(all="ignore"):
        total = np.add.reduce(values, axis=None)
    if np.isfinite(total):
        return True
    return first_not_finite(values) < 0


def first_not_finite(values: AnyArray) -> int:
    """The index of the first NaN or infinite number in C order; -1 if there is none."""
    flat = values.reshape(-1)
    for lo in range(0, flat.size, _STEP):
        fine = np.isfinite(flat[lo : lo + _STEP])
        if not fine.all():
            return lo + int(np.argmin(fine))
    return -1


def check_dense(X: AnyArray, name: str = "X", row: Name = row_name) -> None:
    """Raise ValueError unless all entries are finite."""
    if not is_finite(X):
        at = first_not_finite(X)
        i, j = divmod(at, X.shape[1])
        raise not_finite(name, X.reshape(-1)[at], row(i), j)


def not_finite(name: str, value: object, row: str, column: int | str) -> ValueError:
    """The error for an entry that is not finite."""
    return ValueError(
        f"there are NaN or infinite values in {name}: {value} in {row}, column {column}. All entries must be "
        "finite numbers."
    )


def _damaged(name: str, what: str) -> ValueError:
    return ValueError(f"the sparse matrix {name} is damaged: {what}")


def check_rows(
    indptr: AnyArray,
    indices: AnyArray,
    data: AnyArray,
    shape: tuple[int, int],
    name: str = "X",
    row: Name = row_name,
) -> None:
    """Raise ValueError unless these are the arrays of a CSR matrix with finite entries."""
    check_pointers(indptr, shape[0], min(len(indices), len(data)), name, row)
    check_columns(indptr, indices, shape[1], name, row)
    check_entries(indptr, indices, data, name, row)


def check_entries(
    indptr: AnyArray, indices: AnyArray, data: AnyArray, name: str = "X", row: Name = row_name
) -> None:
    """Raise ValueError unless all entries are finite; the pointers must have been checked."""
    end = int(indptr[-1])
    if not is_finite(data[:end]):
        at = first_not_finite(data[:end])
        raise not_finite(name, data[at], row(_row_of(indptr, at)), int(indices[at]))


def check_columns(
    indptr: AnyArray, indices: AnyArray, n_columns: int, name: str = "X", row: Name = row_name
) -> None:
    """Raise ValueError unless all indices are valid columns; the pointers must have been checked."""
    columns = indices[: int(indptr[-1])]
    if columns.dtype.kind not in "iu":
        raise _damaged(name, f"its indices are {columns.dtype}, not integers.")
    if not _lie_within(columns, n_columns):
        at = int(np.argmax((columns < 0) | (columns >= n_columns)))
        raise _damaged(
            name,
            f"{row(_row_of(indptr, at))} has an entry in column {int(columns[at])}, but "
            f"its columns are 0 to {n_columns - 1}.",
        )


def check_pointers(
    indptr: AnyArray, n_rows: int, stored: int, name: str = "X", row: Name = row_name
) -> None:
    """Raise ValueError unless pointers start at 0, do not decrease, and end within ``stored`` entries."""
    if indptr.dtype.kind not in "iu":
        raise _damaged(name, f"indptr is {indptr.dtype}, not integers.")
    if len(indptr) != n_rows + 1:
        raise _damaged(
            name,
            f"indptr has {len(indptr)} numbers for {n_rows} rows; it must have one more "
            "than there are rows.",
        )
    if indptr[0] != 0:
        raise _damaged(name, f"indptr must begin with 0, not with {int(indptr[0])}.")
    ascends = indptr[1:] >= indptr[:-1]
    if not ascends.all():
        i = int(np.argmin(ascends))
        raise _damaged(
            name,
            f"indptr must not decrease, but {row(i)} begins with entry {int(indptr[i])} "
            f"and ends with {int(indptr[i + 1])}.",
        )
    if indptr[-1] > stored:
        raise _damaged(
            name, f"indptr ends with {int(indptr[-1])}, but {stored} entries are stored."
        )


def _lie_within(indices: AnyArray, end: int) -> bool:
    """Whether all are in 0 .. end-1. Viewed as unsigned, negative numbers are too large as well."""
    if not len(indices):
        return True
    unsigned = indices.view(f"u{indices.dtype.itemsize}") if indices.dtype.kind == "i" else indices
    return bool(np.maximum.reduce(unsigned) < end)


def _row_of(indptr: AnyArray, entry: int) -> int:
    return int(np.searchsorted(indptr, entry, side="right")) - 1


def checked_csr(X: Any, name: str = "X", row: Name = row_name) -> Any:
    """A sparse matrix of any format as a checked CSR matrix with float32 or float64 entries. ``X`` itself is
    returned if it is one already. Duplicate and unsorted entries are kept."""
    if X.ndim != 2:
        raise ValueError(f"{name} must have two dimensions; it has {X.ndim}.")
    X = _as_csr(X, name)
    data = _numbers(X.data, name)
    indptr, indices = _integers(X.indptr, f"{name}.indptr"), _integers(X.indices, f"{name}.indices")
    check_rows(indptr, indices, data, X.shape, name, row)
    end = int(indptr[-1])
    same = indptr is X.indptr and indices is X.indices and data is X.data
    if same and len(indices) == len(data) == end:
        return X
    # entries after the last row are unused capacity
    return sp.csr_matrix((data[:end], indices[:end], indptr), shape=X.shape, copy=False)


def canonical(X: Any, name: str = "X", row: Name = row_name) -> Any:
    """:func:`checked_csr`, with sorted columns and no duplicates; a copy if ``X`` is not in that form."""
    X = checked_csr(X, name, row)
    out = in_order(X)
    if out is not X:
        check_rows(out.indptr, out.indices, out.data, out.shape, name, row)  # sums may overflow
    return out


def in_order(X: Any) -> Any:
    """A checked CSR matrix with sorted columns and no duplicates, a copy if ``X`` is not in that form; an
    array unchanged. Do this before any method of SciPy that may sort (``sum``, ``mean``, ``power``, ``max``):
    it would sort in place, and some of the arrays may be the user's."""
    return X if not sp.issparse(X) or is_canonical(X) else summed(X)


def is_canonical(X: Any) -> bool:
    """Whether the columns of each row of a checked CSR matrix are strictly ascending. SciPy's cached flags
    are ignored: its arrays may have changed since."""
    fresh = copy.copy(X)
    for remembered in ("_has_canonical_format", "_has_sorted_indices"):
        fresh.__dict__.pop(remembered, None)
    return bool(fresh.has_canonical_format)


def summed(X: Any) -> Any:
    """A copy with sorted columns and duplicates summed."""
    out = sp.csr_matrix((X.data.copy(), X.indices.copy(), X.indptr.copy()), shape=X.shape)
    out.sum_duplicates()
    return out


def _numbers(given: object, name: str) -> AnyArray:
    data: AnyArray = np.asarray(given)
    if data.ndim != 1 or data.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} has entries of type {data.dtype} in {data.ndim} dimensions: expected numbers."
        )
    if data.dtype not in (np.float32, np.float64):
        return data.astype(np.float64)
    return _native(data)


def _native(values: AnyArray) -> AnyArray:
    """The array in the byte order of the machine."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _integers(given: object, name: str) -> AnyArray:
    values: AnyArray = np.asarray(given)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise _damaged(
            name, f"it has type {values.dtype} and {values.ndim} dimensions; expected integers."
        )
    if values.dtype not in (np.int32, np.int64) or not values.dtype.isnative:
        if values.dtype.kind == "u" and values.size and int(values.max()) >= 2**63:
            raise _damaged(name, f"it holds {int(values.max())}.")
        return values.astype(np.int64)
    return values


def _as_csr(X: Any, name: str) -> Any:
    """Convert to CSR after checking the arrays: conversions are compiled code, too."""
    if X.format == "csr":
        return X
    n, d = X.shape
    if X.format == "csc":
        _check_compressed(X, (d, n), name)
    elif X.format == "bsr":
        blocks = np.asarray(X.data)
        if blocks.ndim != 3 or 0 in blocks.shape[1:]:
            raise _damaged(name, f"its blocks have shape {blocks.shape[1:]}.")
        _check_compressed(X, (n // blocks.shape[1], d // blocks.shape[2]), name)
    elif X.format == "coo":
        for axis, places in enumerate((X.row, X.col)):  # `coords` needs SciPy 1.13
            places = _integers(places, f"{name}.coords[{axis}]")
            if len(places) != len(X.data) or not _lie_within(places, X.shape[axis]):
                raise _damaged(name, f"its entries are outside its {n} rows and {d} columns.")
    elif X.format == "lil" and not _is_whole(X):
        raise _damaged(name, "a row has more columns than entries, or fewer.")
    try:
        return sp.csr_matrix(X)
    except (ValueError, TypeError, IndexError, OverflowError, AttributeError) as error:
        raise _damaged(name, f"it cannot be converted to CSR ({error}).") from error


def _check_compressed(X: Any, shape: tuple[int, int], name: str) -> None:
    """Check pointers and indices of a CSC matrix (columns take the place of rows) or of blocks."""
    indptr, indices = _integers(X.indptr, f"{name}.indptr"), _integers(X.indices, f"{name}.indices")
    check_pointers(indptr, shape[0], min(len(indices), len(X.data)), name)
    if not _lie_within(indices[: int(indptr[-1])], shape[1]):
        raise _damaged(
            name,
            f"its indices are 0 to {shape[1] - 1}, but {int(indices.min())} and "
            f"{int(indices.max())} occur.",
        )


def _is_whole(X: Any) -> bool:
    rows, data = X.rows, X.data
    if len(rows) != X.shape[0] or len(data) != X.shape[0]:
        return False
    return all(len(a) == len(b) for a, b in zip(rows, data, strict=True))


def stacked(
    parts: Sequence[object], name: str = "X", part: str = "sequence", row: str = "row"
) -> Any:
    """Stack matrices with the same number of columns, dense or sparse, into one checked CSR matrix without
    duplicates. Errors name the part and the row in it: "sequence 3, row 0"."""
    rows = [_part(x, f"{name}, {part} {i}", numbered(row)) for i, x in enumerate(parts)]
    widths = {x.shape[1] for x in rows}
    if len(widths) > 1:
        raise ValueError(
            f"{name}: each {part} must have the same number of columns, not {sorted(widths)}."
        )
    ends = np.cumsum([x.shape[0] for x in rows])
    return canonical(sp.vstack(rows, format="csr"), name, place_in(ends, part, row))


def place_in(ends: AnyArray, part: str, row: str) -> Name:
    """Names of the rows of stacked parts; ``ends`` holds the end of each part."""

    def name(number: int) -> str:
        k = int(np.searchsorted(ends, number, side="right"))
        return f"{part} {k}, {row} {number - (int(ends[k - 1]) if k else 0)}"

    return name


def _part(x: Any, name: str, row: Name) -> Any:
    """One of many parts; the contents of its arrays are checked later, for all parts at once."""
    if not sp.issparse(x):
        return sp.csr_matrix(_native(np.atleast_2d(x)))
    if x.format != "csr" or x.ndim != 2:
        return checked_csr(x, name, row)
    n, end = x.shape[0], len(x.indices)
    fits = len(x.indptr) == n + 1 and x.indptr[0] == 0 and x.indptr[-1] == end == len(x.data)
    fits = fits and x.indptr.dtype.kind == x.indices.dtype.kind == "i"
    return x if fits else checked_csr(x, name, row)


def checked(X: Any, name: str = "X", row: Name = row_name) -> Any:
    """Return a valid matrix: an array with finite entries unchanged, a sparse one as :func:`canonical`
    returns it; raise ValueError otherwise."""
    if sp.issparse(X):
        return canonical(X, name, row)
    X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be a matrix of numbers; it is {X.dtype} of shape {X.shape}.")
    check_dense(X, name, row)
    return _native(X)
