"""User-space weights w and the solver's weights v: w = center + T v.

A Gaussian prior with mean m and covariance S penalizes 1/2 (w - m)' S^-1 (w - m). With T T' = S and
w = m + T v this is 1/2 |v|^2, so solvers, bundles and certificates only use the plain norm. A plane
(l, p) of the risk becomes a plane of v,

    l + <p, w>  =  (l + <p, m>) + <T'p, v>.

Fixed weights are the case T = 0 with the center at their values. A nonpositive weight is minus a nonnegative
one. If there are several columns of weights (one per class), T acts on each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.rounding import gamma
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector, dot, norm


@dataclass(frozen=True, slots=True, eq=False)
class WeightMap:
    """w = center + T v, column by column.

    Parameters
    ----------
    center : array of shape (n, columns)
        The w at v = 0.
    scale : array of shape (n,)
        The diagonal of T outside the blocks; zero for fixed weights.
    blocks : tuple of (indices, matrix)
        Square parts of T that are not diagonal.
    signs : array of shape (n,), optional
        +1 or -1 for weights that must not have the other sign; rounding errors of the wrong sign are set to
        0.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.risks.weight_map import WeightMap
    >>> weights = WeightMap(np.array([[1.0], [0.0]]), np.array([2.0, 0.5]))
    >>> weights.whole(np.array([1.0, 4.0]))
    array([3., 2.])
    >>> weights.split(np.array([10.0, 10.0]))
    (10.0, array([20.,  5.]))
    """

    center: Array
    scale: Array
    blocks: tuple[tuple[IntArray, Array], ...] = ()
    signs: Array | None = None
    #: an upper bound of the norm of T
    norm: float = field(init=False)

    def __post_init__(self) -> None:
        parts = [
            float(np.abs(self.scale).max(initial=0.0)),
            *(float(np.linalg.norm(T)) for _, T in self.blocks),
        ]
        object.__setattr__(self, "norm", max(parts))

    @property
    def shifts(self) -> bool:
        """Whether the center is nonzero."""
        return bool(self.center.any())

    @property
    def stretches(self) -> bool:
        """Whether T is not the identity."""
        return bool(self.blocks) or not bool((self.scale == 1.0).all())

    def whole(self, v: Array) -> Array:
        """The w of a v."""
        W = self.center + self.stretch(v.reshape(self.center.shape))
        if self.signs is not None:
            W[self.signs[:, None] * W < 0.0] = 0.0
        return W.ravel()

    def learned(self, w: Array) -> Array:
        """The v of a w, zero for fixed weights."""
        V = w.reshape(self.center.shape) - self.center
        some = self.scale != 0.0
        out = np.zeros_like(V)
        out[some] = V[some] / self.scale[some, None]
        for where, T in self.blocks:
            out[where] = np.linalg.solve(T, V[where])
        return out.ravel()

    def split(self, plane: Vector) -> tuple[float, Vector]:
        """<p, center> and T'p of a plane p of w."""
        share = dot(plane, self.center.ravel()) if self.shifts else 0.0
        if isinstance(plane, SparseVector) and not self.blocks:
            values = plane.values * self.scale[plane.indices // self.center.shape[1]]
            keep = values != 0.0
            return share, SparseVector(plane.indices[keep], values[keep], plane.size)
        dense = plane.to_dense() if isinstance(plane, SparseVector) else plane
        return share, self.stretch_back(dense.reshape(self.center.shape)).ravel()

    def pull_cut(self, cut: Cut) -> Cut:
        """The cut of v that corresponds to a cut of w."""
        share, plane = self.split(cut.plane)
        # <p, center> and T'p are rounded, and an error of p affects v through center and T
        height, columns = self.center.shape
        factor = max(1.0 + float(np.linalg.norm(self.center)), self.norm)
        error = cut.error + self.relative_error(height * columns) * norm(cut.plane)
        return Cut(cut.offset + share, plane, factor * error)

    def relative_error(self, dim: int) -> float:
        """The relative error that the map causes in entries of T'x and scores of the center."""
        if not (self.shifts or self.stretches):
            return 0.0
        widest = max((len(where) for where, _ in self.blocks), default=1)
        return gamma(dim if self.shifts else widest)

    def stretch(self, V: Array) -> Array:
        """T V, column by column."""
        out: Array = self.scale[:, None] * V
        for where, T in self.blocks:
            out[where] = T @ V[where]
        return out

    def stretch_back(self, P: Array) -> Array:
        """T' P, column by column."""
        out: Array = self.scale[:, None] * P
        for where, T in self.blocks:
            out[where] = T.T @ P[where]
        return out
