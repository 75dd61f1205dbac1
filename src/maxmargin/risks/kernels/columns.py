"""Bookkeeping for :mod:`maxmargin.risks.kernels.sampled`: cached kernel columns, and the planes made so
far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array, IntArray
from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.dual_terms import ClassTerms, DualTerms

#: the state of each row in a cut: 1 or 0 (hinge), or the violating class, -1 for none (Crammer and Singer)
Pattern = npt.NDArray[np.int8] | npt.NDArray[np.int16]
#: exact planes may use this fraction of all columns sampled
WHOLE_SHARE = 0.25
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


def pattern_of(gradient: Array) -> Pattern:
    """The state of each row, from the derivative of a cut."""
    if gradient.ndim == 1:
        losing: Pattern = (gradient != 0.0).astype(np.int8)
        return losing
    top = gradient.argmax(axis=1)
    return np.where(gradient.any(axis=1), top, -1).astype(np.int16)


def require_hinge(loss: ScoreLoss, y: Any) -> None:
    """Raise TypeError unless a row's derivative is determined by its state: only that is stored of a
    plane."""
    terms = loss.dual_terms(y[:1])
    hinge = isinstance(terms, DualTerms) and (
        (terms.two_sided, terms.steepest, terms.curvature, terms.largest_demand)
        == (False, 1.0, 0.0, 1.0)
    )
    if not (hinge or isinstance(terms, ClassTerms)):
        raise TypeError(
            f"sampled cuts with a kernel store only which rows violate the margin. That determines the hinge "
            f"loss of margin 1 and the Crammer-Singer loss, but not {loss!r}."
        )


def gradient_of(loss: ScoreLoss, pattern: Pattern, y: Any, weight: Array) -> Array:
    """The derivative from the stored states, with one column per output."""
    terms = loss.dual_terms(y)
    if not isinstance(terms, ClassTerms):
        return (-np.asarray(y, dtype=np.float64) * weight * pattern)[:, None]
    out = np.zeros((len(pattern), len(terms.cost)))
    rows = np.flatnonzero(pattern >= 0)
    out[rows, pattern[rows]] += weight[rows]
    out[rows, np.asarray(y, dtype=np.int64)[rows]] -= weight[rows]
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The exact states of a plane's cut, and the error of the sampled plane: ``error`` estimates it,
    ``spread`` bounds it (:func:`maxmargin.core.sampling.spread_of`)."""

    pattern: Pattern
    error: float
    spread: float


class Bases:
    """Planes whose change may be sampled instead of a new plane.

    A plane at a new point differs from an earlier one only in the rows whose state differs between the two
    points: few, toward the end. With e the error of the earlier plane and r of the m differing rows sampled,
    the error is sqrt(e^2 + m^2 / r), or just e if m <= r. A plane sampled from scratch has the same error
    with e = 0 and m the number of all margin violators. The better of the two is chosen. Occasionally, when
    enough columns have been sampled to make it cheap in comparison, a plane is computed from all its rows.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._drawn: dict[int, Drawn] = {}
        self._spent = 0.0

    def add(self, slot: int, drawn: Drawn) -> None:
        """Record a new plane."""
        self._drawn = {**self._drawn, slot: drawn}

    def keep(self, slots: set[int]) -> None:
        """Drop all other planes."""
        self._drawn = {k: own for k, own in self._drawn.items() if k in slots}

    def spend(self, n_drawn: int) -> None:
        """Record that ``n_drawn`` columns were sampled."""
        self._spent += WHOLE_SHARE * n_drawn if n_drawn <= self._size else -float(n_drawn)

    def choose(self, pattern: Pattern, nothing: int, afresh: bool) -> tuple[int | None, Drawn, int]:
        """The plane to change, or the empty one; and how many rows may be sampled."""
        empty = Drawn(np.full_like(pattern, nothing), 0.0, 0.0)
        planes: list[tuple[int | None, Drawn]] = [(None, empty)]
        if not afresh:
            planes += self._drawn.items()
        changed = [int(np.count_nonzero(own.pattern != pattern)) for _, own in planes]
        errors = [
            self.error(own.error, m if m > self._size else 0, self._size)
            for (_, own), m in zip(planes, changed, strict=True)
        ]
        best = int(np.argmin(errors))
        if errors[best] > 0.0:  # is there a budget for all rows of an exact plane?
            exact = [k for k, (_, own) in enumerate(planes) if own.error == 0.0]
            near = min(exact, key=lambda k: changed[k])
            if changed[near] <= self._spent:
                return *planes[near], changed[near]
        return *planes[best], 0

    @staticmethod
    def error(base: float, m: int, size: int) -> float:
        """The error of a plane made of a base and a sample of ``size`` of m rows (m = 0: all of them)."""
        return float(np.sqrt(base**2 + m**2 / size))
