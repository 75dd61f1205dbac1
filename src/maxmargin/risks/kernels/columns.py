"""Cached kernel columns of :mod:`maxmargin.risks.kernels.planes`."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.vectors import IntArray

#: a cached column makes room for another one after this many planes that did not use it
STALE = 20


class HeldColumns:
    """The kernel columns that the shards cache, and their places.

    The least recently used are evicted, once they are ``STALE``. Rows are sampled at random, so new columns
    are no more likely to be used again than those cached: replacing these at every plane would cost more
    than it saves if only the columns of a few planes fit.
    """

    def __init__(self, n: int) -> None:
        self._place: dict[int, int] = {}
        self._owner: IntArray = np.full(n, -1)
        self._used: IntArray = np.full(n, -STALE, dtype=np.int64)  # free places count as stale
        self._clock = 0

    def places(self, ids: IntArray) -> tuple[IntArray, Any, int]:
        """Places of the columns of these rows: first those cached, then places for as many of the others as
        fit. Also returns which rows are cached, and how many of the others get a place."""
        found = np.array([self._place.get(int(i), -1) for i in ids], dtype=np.int64)
        held = found >= 0
        self._clock += 1
        self._used[found[held]] = self._clock
        wanted = min(int((~held).sum()), int((self._used <= self._clock - STALE).sum()))
        oldest = np.argsort(self._used, kind="stable")[:wanted]
        for owner in self._owner[oldest].tolist():  # evict now, so that Ctrl-C leaves a valid state
            self._place.pop(owner, None)
        return np.concatenate([found[held], oldest]), held, wanted

    def keep(self, ids: IntArray, places: IntArray) -> None:
        """Record that these columns are cached now."""
        for i, place in zip(ids.tolist(), places.tolist(), strict=True):
            self._owner[place] = i
            self._place[i] = place
        self._used[places] = self._clock
