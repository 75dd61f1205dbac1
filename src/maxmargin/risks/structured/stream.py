"""A dual point over an unbounded stream of structured examples, of which a bounded number is kept.

    maximize  D = sum_ij alpha_ij l_ij - 1/2 |w|^2,   w = - sum_ij alpha_ij p_ij   over all examples seen

The examples kept have working sets, one object for each piece of the stream, and all of these change the same
``w``. When there are more than ``max_support`` examples, the oldest piece is merged into ONE plane,

    base = - sum_ij alpha_ij p_ij,   offset = sum_ij alpha_ij l_ij

over the merged examples. From then on their multipliers only change together, by a common factor t. This is
one more coordinate, and its step is exact:

    t = clip(1 + (offset - <w, base>) / |base|^2, 0, limit),    limit = min_i c_i / sum_j alpha_ij

over the wrong outputs j, so every merged example stays within its cap. No step decreases D, and D is always a
lower bound of the optimum over all examples seen (Ramanan's algorithm 2). An upper bound needs another pass.

``w`` follows the newest examples. Its average over the stream has a lower objective and predicts better.

References:

- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: algorithm
  2.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Self

import numpy as np

from maxmargin.core.contract.examples import DivisibleExamples, Examples
from maxmargin.core.contract.multiplier_sets import MultiplierSets
from maxmargin.core.rounding import level
from maxmargin.core.vectors import Array, IntArray

#: calls of the oracle for examples that are kept, including new ones, for each new example
CALLS = 4
#: calls in which a plane was not used before it is dropped
IDLE = 4
#: largest number of pieces that are kept, each with arrays of its own
MOST_PIECES = 64
#: the average over the stream weights the point after k examples by k to this power
POWER = 2


class SetStream:
    """A dual point over a stream; see the top of this module.

    Parameters
    ----------
    dim : int
        Length of ``w``.
    C : float
        Weight of the loss.
    max_support : int
        Maximum number of examples to keep.
    rescaling : str
        How the loss enters, which must not change.
    """

    def __init__(self, dim: int, C: float, max_support: int, rescaling: str = "margin") -> None:
        self.C, self.max_support, self.rescaling = C, max_support, rescaling
        #: the point of the multipliers, and the average of these points
        self.w: Array = np.zeros(dim)
        self.average: Array = np.zeros(dim)
        self.base: Array | None = None
        self.offset, self.limit = 0.0, np.inf
        #: sum of the norms of the merged pieces, which bounds the rounding error of ``base``
        self.size = 0.0
        self.n_seen, self.weight_seen = 0, 0.0
        self.kept: list[Any] = []  # working sets that are MultiplierSets
        #: whether ``w`` belongs to the multipliers: not after an interrupt
        self._exact = True

    @property
    def n_support(self) -> int:
        """Number of examples kept."""
        return sum(sets.n_examples for sets in self.kept)

    def dual_value(self) -> float:
        """D, with w recomputed from the multipliers and the base, minus its rounding error."""
        self._exact = False
        total = np.zeros(len(self.w)) if self.base is None else self.base.copy()
        gain, size = self.offset, self.size
        for sets in self.kept:
            own, norm = _apart(sets, self.w)
            gain, size = gain + own, size + norm
            total += self.w
        self.w[:] = total
        self._exact = True
        norm = float(np.linalg.norm(total))
        lost = level(self.n_seen) * (gain + norm * max(size, norm))
        return gain - 0.5 * norm * norm - lost

    def feed(self, examples: Examples, weight: Array, rng: np.random.Generator) -> None:
        """Learn from these examples: pieces in the given order, examples of a piece in random order."""
        if not self._exact:
            self.dual_value()
        for part, lo, hi in self._pieces(examples):
            self._process(part, weight[lo:hi], rng)

    def _pieces(self, examples: Examples) -> Iterator[tuple[Examples, int, int]]:
        n = len(examples)
        count = -(-n // max(1, self.max_support // 2))
        if count == 1 or not isinstance(examples, DivisibleExamples):
            yield examples, 0, n
            return
        for lo, hi in pairwise([k * n // count for k in range(count + 1)]):
            yield examples.part(lo, hi), lo, hi

    def _process(self, examples: Examples, weight: Array, rng: np.random.Generator) -> None:
        """Learn from one piece. After an error its examples do not count."""
        n = len(examples)
        sets: Any = examples.working_sets(self.C * weight)
        if not isinstance(sets, MultiplierSets):
            raise TypeError(
                f"{type(sets).__name__} has no attach(w), which partial_fit requires: use fit."
            )
        self._merge(self.max_support - n, MOST_PIECES - 1)
        before = {"n_seen": self.n_seen, "weight_seen": self.weight_seen, "average": self.average}
        sets.attach(self.w, self.kept[0] if self.kept else None)
        self.kept.append(sets)
        self._exact = False
        try:
            self.n_seen += n
            self.weight_seen += float(weight.sum())
            self._visit(sets, rng.permutation(n))
            self._revisit(CALLS * n, rng)
            self._merge(self.max_support, MOST_PIECES)
            share = 1.0 - (1.0 - n / self.n_seen) ** (POWER + 1)
            self.average = self.average + share * (self.w - self.average)
        except BaseException:
            kept = [other for other in self.kept if other is not sets]
            self.__dict__.update(before, kept=kept)
            raise
        self._exact = True

    def _revisit(self, calls: int, rng: np.random.Generator) -> None:
        """Call the oracle for examples that are kept, piece by piece, and scale the base."""
        while calls > 0:
            for k in rng.permutation(len(self.kept)).tolist():
                sets = self.kept[k]
                order = rng.permutation(sets.n_examples)[:calls]
                self._visit(sets, order)
                calls -= len(order)
                if calls <= 0:
                    break
            self._step()

    def _visit(self, sets: Any, order: IntArray) -> None:
        """One block step with a call of the oracle for each example, and one without."""
        sets.stream(order, 0.0)
        sets.epoch(order)
        sets.drop_idle(IDLE)

    def _step(self) -> None:
        """The exact step of the factor of the base."""
        if self.base is None:
            return
        square = float(self.base @ self.base)
        slope = self.offset - float(self.w @ self.base)
        t = min(max(1.0 + slope / square if square > 0.0 else 1.0, 0.0), self.limit)
        if not np.isfinite(t) or t == 1.0:
            return
        base, limit = t * self.base, self.limit / t if t > 0.0 else np.inf
        self.w += base - self.base
        # in one step, so that an interrupt cannot leave a mixture
        self.__dict__.update(
            base=base, offset=t * self.offset, size=t * self.size, limit=max(1.0, limit)
        )

    def _merge(self, most: int, pieces: int) -> None:
        """Merge the oldest pieces until at most this many examples, in this many pieces, are kept."""
        while self.kept and (self.n_support > most or len(self.kept) > pieces):
            self.__dict__.update(self._merged(self.kept[0]), kept=self.kept[1:])

    def _merged(self, sets: Any) -> dict[str, Any]:
        """The base and what belongs to it, with one more piece."""
        own = np.zeros(len(self.w))
        sets.attach(own)
        try:
            gain, norm = _apart(sets, own)
        finally:
            sets.attach(self.w)
        used = sets.used > 0.0
        room = sets.caps[used] / sets.used[used]
        return {
            "base": own if self.base is None else self.base + own,
            "offset": self.offset + gain,
            "size": self.size + norm,
            "limit": max(1.0, min(self.limit, float(room.min(initial=np.inf)))),
        }

    def rescale(self, C: float) -> None:
        """Convert to another C: multiply all multipliers by C' / C."""
        f = C / self.C
        for sets in self.kept:
            sets.rescale(f * sets.caps)
        if self.base is not None:
            self.base = f * self.base
        self.average = f * self.average
        self.C, self.offset, self.size = C, f * self.offset, f * self.size
        self.dual_value()

    def widen(self, dim: int, tail: int) -> None:
        """Insert weights of zero before the last ``tail`` ones, for new features."""
        if dim == len(self.w):
            return
        changed = {
            name: None if w is None else _widened(w, dim, tail)
            for name, w in (("w", self.w), ("average", self.average), ("base", self.base))
        }
        self.__dict__.update(changed)
        for k, sets in enumerate(self.kept):
            sets.attach(self.w, self.kept[0] if k else None)

    def merged(self) -> Self:
        """The same dual point with all examples merged: what is stored."""
        other = type(self)(0, self.C, self.max_support, self.rescaling)
        other.__dict__.update(self.__dict__)
        other.kept = list(self.kept)
        other._merge(0, 0)
        other.w = np.zeros(len(self.w)) if other.base is None else other.base.copy()
        return other

    def __getstate__(self) -> dict[str, Any]:
        return self.merged().__dict__


def _apart(sets: Any, w: Array) -> tuple[float, float]:
    """The sum of alpha_ij l_ij of one piece, and the norm of its part of the point, which is left in w."""
    value = sets.dual_value()
    square = float(w @ w)
    return value + 0.5 * square, float(np.sqrt(square))


def _widened(w: Array, dim: int, tail: int) -> Array:
    cut = len(w) - tail
    return np.concatenate([w[:cut], np.zeros(dim - len(w)), w[cut:]])
