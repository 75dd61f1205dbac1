"""One number per row that may live elsewhere: read a range at a time, never as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

#: rows that are read at a time where all of them are needed once
CHUNK = 2**17


class LazyColumn:
    """A column whose ranges are computed when they are asked for.

    Parameters
    ----------
    n : int
        Number of rows.
    part : callable
        ``part(lo, hi)`` is an array of the rows ``lo .. hi-1``.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import LazyColumn
    >>> signs = LazyColumn(4, lambda lo, hi: np.where(np.arange(lo, hi) % 2, 1.0, -1.0))
    >>> signs[1:3]
    array([ 1., -1.])
    """

    def __init__(self, n: int, part: Callable[[int, int], npt.NDArray[Any]]) -> None:
        self.shape: tuple[int] = (n,)
        self._part = part

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        lo, hi, step = rows.indices(len(self))
        if step != 1:
            raise IndexError("a column on disk is read in ranges of neighbouring rows only.")
        return self._part(lo, max(lo, hi))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


class Ones(LazyColumn):
    """Weights of rows that all count alike: the same few ones for every range."""

    def __init__(self, n: int) -> None:
        super().__init__(n, self._ones)
        self._held: npt.NDArray[np.float64] = np.ones(0)

    def _ones(self, lo: int, hi: int) -> npt.NDArray[np.float64]:
        held = self._held
        if len(held) < hi - lo:
            held = self._held = np.ones(hi - lo)
        return held[: hi - lo]


Column = npt.NDArray[Any] | LazyColumn


def chunks(n: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """Ranges that together are all rows."""
    for lo in range(0, n, size):
        yield lo, min(n, lo + size)


def total(column: Column) -> float:
    """The sum of a column."""
    return float(sum(float(np.sum(column[lo:hi])) for lo, hi in chunks(len(column))))


def totals(codes: Column, weight: Column, n_classes: int) -> npt.NDArray[np.float64]:
    """The weight of each class."""
    out = np.zeros(n_classes)
    for lo, hi in chunks(len(codes)):
        out += np.bincount(codes[lo:hi], weights=weight[lo:hi], minlength=n_classes)
    return out
