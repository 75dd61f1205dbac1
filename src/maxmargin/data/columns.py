"""Columns with one number per row that need not be in memory: they are read in ranges.

A column is pickled as its source, such as a path, and not as numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.core.matrices import AnyArray
from maxmargin.files.scratch import scratch_zeros

#: rows read at a time in a full pass
CHUNK = 2**17
#: rows that are read, and then held, at a time
HELD = 2**20

Column: TypeAlias = "AnyArray | LazyColumn"


class LazyColumn:
    """A column whose ranges are computed on demand.

    Parameters
    ----------
    n : int
        Number of rows.
    part : callable
        ``part(lo, hi)`` returns an array of the rows ``lo .. hi-1``.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import LazyColumn
    >>> signs = LazyColumn(4, lambda lo, hi: np.where(np.arange(lo, hi) % 2, 1.0, -1.0))
    >>> signs[1:3]
    array([ 1., -1.])
    """

    def __init__(self, n: int, part: Callable[[int, int], AnyArray]) -> None:
        self.shape: tuple[int] = (n,)
        self._part = part

    #: whether the values are known to be valid, so that no full pass is needed to check them
    checked = False

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> AnyArray:
        lo, hi, step = rows.indices(len(self))
        if step != 1:
            raise IndexError("a column on disk can only be read in contiguous ranges.")
        return self._part(lo, max(lo, hi))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.asarray(self[:], dtype=dtype)


class Window(LazyColumn):
    """The rows ``lo .. hi-1`` of a column, with indices from 0."""

    def __init__(self, column: LazyColumn, lo: int, hi: int) -> None:
        super().__init__(hi - lo, self._shifted)
        self._column, self._lo, self.checked = column, lo, column.checked

    def _shifted(self, lo: int, hi: int) -> AnyArray:
        return self._column[self._lo + lo : self._lo + hi]


class StoredColumn(LazyColumn):
    """A column that is read from another one once, in chunks, and then held: training needs its values
    several times per pass. Those of many rows are in temporary files. The writer has checked the values.

    ``dtype`` is the type to which they are cast, and ``change`` is applied to what is read.
    """

    checked = True

    def __init__(
        self, column: Any, dtype: Any = None, change: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(len(column), self._held)
        self._column, self._change = column, change
        self._dtype = np.dtype(column.dtype if dtype is None else dtype)
        self._forget()

    def _forget(self) -> None:
        self._chunks: dict[int, AnyArray] = {}
        self._lock = threading.Lock()  # threads would read the same chunk

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_chunks", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _held(self, lo: int, hi: int) -> AnyArray:
        parts = []
        for k in range(lo // HELD, -(-hi // HELD)):
            with self._lock:
                if k not in self._chunks:
                    values = self._column[k * HELD : min(len(self), (k + 1) * HELD)]
                    values = values if self._change is None else self._change(values)
                    held = scratch_zeros(values.shape, self._dtype)
                    held[...] = values
                    self._chunks[k] = held
            first = k * HELD
            parts.append(self._chunks[k][max(lo - first, 0) : hi - first])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, self._dtype)


def signs(values: Any, which: Any) -> AnyArray:
    """+1 where the values equal ``which``, else -1."""
    out: AnyArray = 2 * np.equal(values, which).astype(np.int8) - np.int8(1)
    return out


def stored_signs(column: LazyColumn, which: Any) -> StoredColumn:
    """+1 where a column has this value, else -1, as one byte per row."""
    return StoredColumn(column, np.int8, partial(signs, which=which))


class Weighted(LazyColumn):
    """Sample weights times class weights."""

    def __init__(self, weight: Column, factors: AnyArray, codes: Column) -> None:
        super().__init__(len(weight), self._product)
        self._weight, self._factors, self._codes = weight, factors, codes
        checked = not isinstance(weight, LazyColumn) or weight.checked
        self.checked = checked and bool((factors >= 0.0).all() and np.isfinite(factors).all())

    def _product(self, lo: int, hi: int) -> AnyArray:
        product: AnyArray = self._weight[lo:hi] * self._factors[self._codes[lo:hi]]
        return product


class Ones(LazyColumn):
    """Weights that are all one; every range is a view of the same small array."""

    checked = True

    def __reduce__(self) -> Any:
        return Ones, (len(self),)

    def __init__(self, n: int) -> None:
        super().__init__(n, self._ones)
        self._held: npt.NDArray[np.float64] = np.ones(0)

    def _ones(self, lo: int, hi: int) -> npt.NDArray[np.float64]:
        held = self._held
        if len(held) < hi - lo:
            held = self._held = np.ones(hi - lo)
        return held[: hi - lo]


def chunks(n: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """Ranges that cover all rows."""
    for lo in range(0, n, size):
        yield lo, min(n, lo + size)


def total(column: Column) -> float:
    """The sum of a column."""
    return float(sum(float(np.sum(column[lo:hi])) for lo, hi in chunks(len(column))))


def totals(codes: Column, weight: Column, n_classes: int) -> npt.NDArray[np.float64]:
    """Total weight of each class."""
    out = np.zeros(n_classes)
    for lo, hi in chunks(len(codes)):
        out += np.bincount(codes[lo:hi], weights=weight[lo:hi], minlength=n_classes)
    return out
