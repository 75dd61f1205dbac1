"""The constraint cache of chains (:class:`maxmargin.core.ConstraintCache`).

References:

- T. Joachims, T. Finley and C.-N. J. Yu, "Cutting-plane training of structural SVMs", Machine Learning 77
  (2009), 27-59: section 4.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.chain import Chains
from maxmargin.compiled.chain_cache import Slots, cache_values, insert_answers
from maxmargin.core.checks import integer
from maxmargin.core.contract.answers import Answers
from maxmargin.core.cut import Cut
from maxmargin.core.ragged import flat_ranges
from maxmargin.core.vectors import Array, IntArray
from maxmargin.tasks.chains.cuts import chain_cut


class ChainCache:
    """At most ``size`` labelings for each of the examples ``lo .. hi-1``; the least recently used is dropped.

    Entries are numbered example by example; empty slots are not counted.
    """

    def __init__(self, chains: Chains, lo: int, hi: int, size: int) -> None:
        integer("the size of a cache", size)
        n = hi - lo
        tokens = int(chains.starts[hi] - chains.starts[lo])
        self._chains = chains
        self._now = 0
        self._slots = Slots(
            lo=lo,
            size=size,
            counts=np.zeros(n, dtype=np.int64),
            labels=np.zeros(size * tokens, dtype=chains.truth.dtype),
            loss=np.zeros(size * n),
            clock=np.zeros(size * n, dtype=np.int64),
        )

    @property
    def pointers(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self._slots.counts)]).astype(np.int64)

    def insert(self, answers: Answers) -> None:
        lo = self._slots.lo
        if (answers.lo, answers.hi) != (lo, lo + len(self._slots.counts)):
            raise ValueError(
                f"the cache is for the examples {lo} .. {lo + len(self._slots.counts) - 1}, but the "
                f"answers are for the examples {answers.lo} .. {answers.hi - 1}"
            )
        self._now += 1
        insert_answers(self._chains, self._slots, answers.labelings, answers.losses, self._now)

    def scores(self, w: Array) -> Array:
        values = np.empty(int(self._slots.counts.sum()))
        cache_values(self._chains, self._slots, w, values)
        return values

    def touch(self, chosen: IntArray) -> None:
        self._now += 1
        used = np.flatnonzero(chosen >= 0)
        self._slots.clock[used * self._slots.size + self._slot(chosen)[used]] = self._now

    def cut(self, chosen: IntArray, weights: Array) -> Cut:
        slots, chains = self._slots, self._chains
        first, last = slots.lo, slots.lo + len(chosen)
        starts, used = chains.starts, np.flatnonzero(chosen >= 0)
        places = self._slot(chosen)[used]
        labels = chains.truth[starts[first] : starts[last]].copy()
        losses = np.zeros(len(chosen))
        losses[used] = slots.loss[used * slots.size + places]
        begin, sizes = starts[first + used] - starts[first], np.diff(starts)[first + used]
        held = flat_ranges(slots.size * begin + places * sizes, sizes)
        labels[flat_ranges(begin, sizes)] = slots.labels[held]
        return chain_cut(chains, first, last, labels, losses, weights)

    def _slot(self, chosen: IntArray) -> IntArray:
        """Slots within their examples, from entry numbers."""
        return np.where(chosen >= 0, chosen - self.pointers[:-1], -1)
