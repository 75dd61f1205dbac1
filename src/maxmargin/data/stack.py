"""Horizontally stacked designs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.compiled.convert import place_rows
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.dataset import Dataset
from maxmargin.data.design import CSRDesign, DenseDesign, Design, RangeDesign, as_design


class StackedDesign:
    """Several designs of the same rows, stacked horizontally; created by :func:`hstack`."""

    def __init__(self, parts: Sequence[Design], scale: Sequence[float]) -> None:
        self.parts, self.scale = tuple(parts), tuple(scale)
        widths = [part.shape[1] for part in parts]
        #: first column of each part, and the total number of columns
        self.starts: IntArray = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        self.shape: tuple[int, int] = (parts[0].shape[0], int(self.starts[-1]))
        self.nnz = sum(part.nnz for part in parts)
        if all(hasattr(part, "squared_norms") for part in parts):
            #: squared norm of every row, if available for all parts
            self.squared_norms: Array = np.zeros(self.shape[0])
            for part, factor in zip(parts, scale, strict=True):
                self.squared_norms += factor * factor * part.squared_norms  # type: ignore[attr-defined]
            self.largest_square = float(self.squared_norms.max(initial=0.0))

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """See :class:`maxmargin.data.Design`."""
        total = np.zeros((hi - lo, *W.shape[1:]))
        for k, (part, scale) in enumerate(zip(self.parts, self.scale, strict=True)):
            scores = part.dot(W[self.starts[k] : self.starts[k + 1]], lo, hi)
            total += scores if scale == 1.0 else scale * scores
        return total

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`maxmargin.data.Design`."""
        for k, (part, scale) in enumerate(zip(self.parts, self.scale, strict=True)):
            scaled = coef if scale == 1.0 else scale * coef
            part.accumulate(scaled, lo, hi, out[self.starts[k] : self.starts[k + 1]])

    def kernel_dot(self, coef: Array) -> Array:
        """``X X' coef`` for all rows: the sum of the kernels of the parts, times their squared scales."""
        total = np.zeros(coef.shape)
        for part, scale in zip(self.parts, self.scale, strict=True):
            total += scale * scale * kernel_dot(part, coef)
        return total

    def block(self, lo: int, hi: int) -> CSRDesign:
        """The rows ``lo .. hi-1`` in memory."""
        return self._joined([_part(part, "block").block(lo, hi) for part in self.parts])

    def take(self, rows: Any) -> CSRDesign:
        """These rows, in this order, in memory."""
        return self._joined([_part(part, "take").take(rows) for part in self.parts])

    @property
    def part(self) -> Any:
        """``part(lo, hi)``: the rows ``lo .. hi-1`` alone, to send to a worker. Not available if a part has
        no such method, because that part would be sent whole with every range."""
        if not all(hasattr(part, "part") or isinstance(part, Dataset) for part in self.parts):
            raise AttributeError("some parts of this stack have no method 'part'.")
        return self._part

    def _part(self, lo: int, hi: int) -> StackedDesign:
        cut: list[Design] = [
            part.part(lo, hi) if hasattr(part, "part") else RangeDesign(part, lo, hi)
            for part in self.parts
        ]
        return StackedDesign(cut, self.scale)

    def _joined(self, blocks: list[Any]) -> CSRDesign:
        rows = [_rows(block) for block in blocks]
        indptr = np.sum([ends.astype(np.int64) for ends, _, _ in rows], axis=0)
        kind = np.int32 if max(int(indptr[-1]), self.shape[1]) < 2**31 else np.int64
        indices, data = np.empty(int(indptr[-1]), kind), np.empty(int(indptr[-1]))
        begin = indptr[:-1].copy()
        for k, (ends, columns, values) in enumerate(rows):
            place_rows(
                ends, columns, values, self.scale[k], int(self.starts[k]), begin, indices, data
            )
        shape = (len(begin), self.shape[1])
        return CSRDesign.of(indptr.astype(kind), indices, data, shape)

    def describe(self, j: int) -> str:
        """Description of column j."""
        if not 0 <= j < self.shape[1]:
            raise IndexError(f"column {j} is out of range: X has {self.shape[1]} columns.")
        k = int(np.searchsorted(self.starts, j, side="right")) - 1
        inside, part = int(j - self.starts[k]), self.parts[k]
        description = part.describe(inside) if hasattr(part, "describe") else f"column {inside}"
        return f"part {k}: {description}"


def hstack(parts: Sequence[object], *, scale: Sequence[float] | None = None) -> StackedDesign:
    """Stack designs or matrices of the same rows horizontally.

    Nothing is copied: each part computes its products. Parts may be arrays, sparse matrices, k-mers, or
    stacks. The kernel of a stack is the sum of the kernels of its parts, each times its squared
    scale.

    Parameters
    ----------
    parts : list of designs, arrays or sparse matrices
        All with the same number of rows.
    scale : list of float, optional
        A scale factor for each part; 1 by default.

    Returns
    -------
    StackedDesign
        A design; ``starts`` holds the first column of each part, and ``describe(j)`` describes column j.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import KmerDesign, hstack
    >>> strings = ["ACGT", "AAAA"]
    >>> X = hstack([KmerDesign(strings, orders=2, kind="spectrum"), np.array([[0.5], [2.0]])])
    >>> X.shape, X.describe(0), X.describe(20)
    ((2, 21), 'part 0: A', 'part 1: column 0')
    >>> X.dot(np.ones(21), 0, 2)
    array([7.5, 9. ])
    """
    designs = []
    for k, part in enumerate(parts):
        try:
            designs.append(as_design(part))
        except ValueError as error:
            raise ValueError(f"part {k}: {error}") from None
    if not designs:
        raise ValueError("hstack requires at least one part.")
    heights = {design.shape[0] for design in designs}
    if len(heights) != 1:
        raise ValueError(
            f"all parts must have the same number of rows; got {[d.shape[0] for d in designs]}."
        )
    factors = [1.0] * len(designs) if scale is None else [float(s) for s in scale]
    if len(factors) != len(designs) or not np.isfinite(factors).all():
        raise ValueError(f"scale must be {len(designs)} finite numbers, one per part.")
    return StackedDesign(designs, factors)


def kernel_dot(design: Any, coef: Array) -> Array:
    """``X X' coef`` by the method of the design, or through a weight vector."""
    if hasattr(design, "kernel_dot"):
        own: Array = design.kernel_dot(coef)
        return own
    n, d = design.shape
    w = np.zeros((d, *coef.shape[1:]))
    design.accumulate(coef, 0, n, w)
    scores: Array = design.dot(w, 0, n)
    return scores


def _part(part: Any, method: str) -> Any:
    if not hasattr(part, method):
        raise TypeError(f"{type(part).__name__} has no {method}() method to load rows into memory.")
    return part


def _rows(block: Any) -> tuple[Any, Any, Any]:
    if isinstance(block, DenseDesign):
        block = sp.csr_matrix(block.X)
    return block.indptr, block.indices, block.data
