"""What :mod:`maxmargin.risks.kernels.sampled` knows of its shards' columns, and of the planes made so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array, IntArray
from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.dual_terms import ClassTerms, DualTerms

#: which answer each row gave to a cut: 1 or 0 (hinge), the class that leads or -1 (Crammer and Singer)
Pattern = npt.NDArray[np.int8] | npt.NDArray[np.int16]
#: the part of all columns drawn that whole planes may take
WHOLE_SHARE = 0.25


class HeldColumns:
    """Which columns of kernel values the shards hold, and where; the least recently used ones leave."""

    def __init__(self, n: int) -> None:
        self._place: dict[int, int] = {}
        self._owner: IntArray = np.full(n, -1)
        self._used: IntArray = np.zeros(n, dtype=np.int64)
        self._clock = 0

    def places(self, ids: IntArray) -> tuple[IntArray, Any, int]:
        """Places of the columns of these rows: those held, then those for the first few of the others; which
        are held; how many others find a place."""
        found = np.array([self._place.get(int(i), -1) for i in ids], dtype=np.int64)
        held = found >= 0
        self._clock += 1
        self._used[found[held]] = self._clock
        wanted = min(int((~held).sum()), len(self._used) - int(held.sum()))
        oldest = np.argsort(self._used, kind="stable")[:wanted]
        for owner in self._owner[oldest].tolist():  # from now on, also if Ctrl-C comes in between
            self._place.pop(owner, None)
        return np.concatenate([found[held], oldest]), held, wanted

    def keep(self, ids: IntArray, places: IntArray) -> None:
        """These columns are there now."""
        for i, place in zip(ids.tolist(), places.tolist(), strict=True):
            self._owner[place] = i
            self._place[i] = place
        self._used[places] = self._clock


def pattern_of(gradient: Array) -> Pattern:
    """What a cut's derivative says of each row."""
    if gradient.ndim == 1:
        losing: Pattern = (gradient != 0.0).astype(np.int8)
        return losing
    top = gradient.argmax(axis=1)
    return np.where(gradient.any(axis=1), top, -1).astype(np.int16)


def require_hinge(loss: ScoreLoss, y: Any) -> None:
    """Refuse a loss whose derivative is more than which rows lose: only that is kept of a plane."""
    terms = loss.dual_terms(y[:1])
    hinge = isinstance(terms, DualTerms) and (
        (terms.two_sided, terms.steepest, terms.curvature, terms.reach) == (False, 1.0, 0.0, 1.0)
    )
    if not (hinge or isinstance(terms, ClassTerms)):
        raise TypeError(
            f"sampled cuts of a kernel keep of a row whether it loses, which says all about the hinge of "
            f"margin 1 and about Crammer and Singer's loss, but not about {loss!r}."
        )


def gradient_of(loss: ScoreLoss, pattern: Pattern, y: Any, weight: Array) -> Array:
    """The derivative again, one column per output."""
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
    """A plane as its cut was, exactly, and how far what was drawn may be from that: ``error`` estimates it,
    ``spread`` bounds it (:func:`maxmargin.core.sampling.spread_of`)."""

    pattern: Pattern
    error: float
    spread: float


class Bases:
    """Planes whose change may be drawn instead of a new plane.

    A plane at a new point differs from an earlier one in the rows that lose at one of the two points only:
    few, toward the end. With e the error of the earlier plane and m rows that differ, of which r are drawn,
    the error is sqrt(e^2 + m^2 / r), none of it new if m <= r; that of a plane drawn afresh is the same with
    e = 0 and all rows that lose. The better one is taken. Now and then, when as many columns were drawn as to
    make it cheap, one plane is made of all the rows it needs.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._drawn: dict[int, Drawn] = {}
        self._spent = 0.0

    def add(self, slot: int, drawn: Drawn) -> None:
        """A plane that was made."""
        self._drawn = {**self._drawn, slot: drawn}

    def keep(self, slots: set[int]) -> None:
        """Forget the others."""
        self._drawn = {k: own for k, own in self._drawn.items() if k in slots}

    def spend(self, n_drawn: int) -> None:
        """So many columns were drawn."""
        self._spent += WHOLE_SHARE * n_drawn if n_drawn <= self._size else -float(n_drawn)

    def choose(self, pattern: Pattern, nothing: int, afresh: bool) -> tuple[int | None, Drawn, int]:
        """The plane to be changed, or the empty one; and how many rows may be drawn."""
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
        if errors[best] > 0.0:  # can all rows be afforded that an exact plane needs?
            exact = [k for k, (_, own) in enumerate(planes) if own.error == 0.0]
            near = min(exact, key=lambda k: changed[k])
            if changed[near] <= self._spent:
                return *planes[near], changed[near]
        return *planes[best], 0

    @staticmethod
    def error(base: float, m: int, size: int) -> float:
        """Of a plane made of another one and a draw of so many of m rows (0: of all of them)."""
        return float(np.sqrt(base**2 + m**2 / size))
