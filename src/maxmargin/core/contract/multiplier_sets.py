"""What all working sets share: caps, gaps and multipliers in flat arrays, and the center of a prior.

Block steps use only g_ij = l_ij + <w, p_ij> and distances between planes. So working sets solve the problem
with a prior of mean m if their w starts there: then w = m - sum_ij alpha_ij p_ij at all times. Their dual
value, recomputed from v = - sum_ij alpha_ij p_ij, lacks the center's contribution to the offsets:

    D = sum_ij alpha_ij (l_ij + <m, p_ij>) - 1/2 |v|^2 = (sum_ij alpha_ij l_ij - 1/2 |v|^2) - <m, v>.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, Self

import numpy as np

from maxmargin.core.vectors import Array, IntArray


class Stored(Protocol):
    """The arrays of working sets."""

    @property
    def caps(self) -> Array:
        """c_i of each example."""

    @property
    def gaps(self) -> Array:
        """Duality-gap contribution of each example when last visited."""

    @property
    def alpha(self) -> Array:
        """All multipliers, one example after the other."""


class CenteredDuals(ABC):
    """Dual variables whose point may be moved to the mean of a prior."""

    _w: Array
    _center: Array | None = None

    @abstractmethod
    def _restart(self) -> float:
        """Recompute ``_w`` without the center from the multipliers, and return their dual value."""

    @property
    def w(self) -> Array:
        return self._w if self._center is None else self._w - self._center

    def dual_value(self) -> float:
        value = self._restart()
        if self._center is not None:
            value -= float(self._center @ self._w)
            self._w[:] += self._center
        return value

    def move_to(self, center: Array) -> None:
        """Move new sets to the mean of a prior; ``w`` is then relative to it.

        An interrupt may leave them without the center for a moment. This is a point like any other, and the
        next dual value, which is recomputed, restores it.
        """
        self._center = center
        self._w[:] += center


class MultiplierSets(CenteredDuals):
    """The base of implementations of :class:`maxmargin.core.WorkingSets`, which describes the methods."""

    #: the arrays
    _stored: Stored
    _tick = 0

    @property
    @abstractmethod
    def _truths(self) -> IntArray:
        """Where the multipliers of the true outputs are."""

    @property
    @abstractmethod
    def _sizes(self) -> IntArray:
        """How many multipliers of each example are stored."""

    @property
    def n_examples(self) -> int:
        return len(self._stored.caps)

    @property
    def n_support(self) -> int:
        alpha = self._stored.alpha
        return int(np.count_nonzero(alpha) - np.count_nonzero(alpha[self._truths]))

    @property
    def gaps(self) -> Array:
        return self._stored.gaps

    @property
    def batch_size(self) -> int:
        return 1

    def begin(self, order: IntArray, skip_below: float) -> IntArray:
        self._tick += 1
        held = self._stored
        return order[(held.caps[order] > 0.0) & (held.gaps[order] >= skip_below)]

    @property
    def caps(self) -> Array:
        """c_i of each example."""
        return self._stored.caps

    @property
    def used(self) -> Array:
        """The sum of the multipliers of each example's wrong outputs."""
        return np.maximum(0.0, self._stored.caps - self._stored.alpha[self._truths])

    def attach(self, w: Array, other: Self | None = None) -> None:
        """Keep the point in this array, which other sets of the same task may share. It must contain their
        sum. Work space of the length of ``w`` is shared with ``other``, if given."""
        self._w = w

    def rescale(self, caps: Array) -> None:
        held, caps = self._stored, np.asarray(caps, dtype=np.float64)
        ratio = np.divide(caps, held.caps, out=np.zeros(len(caps)), where=held.caps > 0.0)
        held.alpha[:] *= np.repeat(ratio, self._sizes)
        held.alpha[self._truths] += np.where(held.caps > 0.0, 0.0, caps)
        held.caps[:] = caps
        held.gaps[:] = np.where(caps > 0.0, np.inf, 0.0)
        self.dual_value()
