"""Working sets of plain Python planes: the dual state of the coordinate solver, for every task.

Per example: planes p_j with offsets l_j, multipliers alpha_j of sum c, squared distances of the
planes. Plane 0 is the truth, p_0 = 0 and l_0 = 0. See :mod:`maxmargin.compiled.simplex` for the
block step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxmargin.compiled.simplex import simplex_gap, solve_simplex
from maxmargin.core.protocols import Answers, SweepStats
from maxmargin.core.vectors import Array, IntArray, add_scaled, dot

if TYPE_CHECKING:
    from maxmargin.risks.plain_examples import Labeling, PlainExamples

MAX_PAIR_STEPS = 1000


class _Planes(NamedTuple):
    """The planes of one example; plane 0 is the truth."""

    labelings: tuple[Labeling | None, ...]
    losses: Array
    alpha: Array
    D2: Array
    age: Array


class _Set:
    """The working set of one example. Planes come and go by one assignment, so that an interrupt
    never finds arrays of different lengths."""

    __slots__ = ("gap", "planes")

    def __init__(self, cap: float) -> None:
        one = np.zeros(1)
        self.planes = _Planes((None,), one, np.array([cap]), np.zeros((1, 1)), one.copy())
        self.gap = np.inf if cap > 0.0 else 0.0

    def add(self, new: Labeling) -> None:
        held = self.planes
        m = len(held.labelings)
        norm = dot(new.plane, new.plane)
        D2 = np.zeros((m + 1, m + 1))
        D2[:m, :m] = held.D2
        for j, other in enumerate(held.labelings):
            # |p - q|^2 by its parts; clipped, for rounding may take it below zero
            cross = 0.0 if other is None else dot(new.plane, other.plane)
            D2[m, j] = D2[j, m] = max(0.0, norm + held.D2[j, 0] - 2.0 * cross)
        self.planes = _Planes(
            (*held.labelings, new),
            np.append(held.losses, new.loss),
            np.append(held.alpha, 0.0),
            D2,
            np.append(held.age, 0.0),
        )

    def gradients(self, w: Array) -> Array:
        """g_j = l_j + <w, p_j>."""
        held = self.planes
        scores: Array = np.array([0.0 if p is None else dot(p.plane, w) for p in held.labelings])
        return held.losses + scores

    def keep(self, mask: Any) -> None:
        kept, held = np.flatnonzero(mask), self.planes
        self.planes = _Planes(
            tuple(held.labelings[j] for j in kept),
            held.losses[kept],
            held.alpha[kept],
            held.D2[np.ix_(kept, kept)],
            held.age[kept],
        )


class PlainWorkingSets:
    """See :class:`maxmargin.core.WorkingSets`."""

    def __init__(self, examples: PlainExamples, caps: Array) -> None:
        self._examples, self._caps = examples, np.asarray(caps, dtype=np.float64)
        self._sets = [_Set(float(cap)) for cap in self._caps]
        self._w: Array = np.zeros(examples.dim)

    @property
    def w(self) -> Array:
        """The point of the current multipliers."""
        return self._w

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self._sets)

    @property
    def n_planes(self) -> int:
        """Planes held beside the truths."""
        return sum(len(held.planes.labelings) - 1 for held in self._sets)

    @property
    def n_support(self) -> int:
        """Planes with positive multipliers."""
        return sum(int(np.count_nonzero(held.planes.alpha[1:])) for held in self._sets)

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        """See :class:`maxmargin.core.WorkingSets`."""
        calls = new = 0
        total = 0.0
        for i in order:
            held = self._sets[i]
            if self._caps[i] > 0.0 and held.gap >= skip_below:
                answer = self._examples.oracle(self._w, int(i), int(i) + 1)
                calls += 1
                new += self._take(held, answer.labelings[0])
                held.planes.age[held.planes.alpha == 0.0] += 1
                self._step(held, float(answer.values[0]))
                held.planes.age[held.planes.alpha > 0.0] = 0.0
            total += held.gap
        return SweepStats(calls, total, new)

    def epoch(self, order: IntArray) -> SweepStats:
        """See :class:`maxmargin.core.WorkingSets`."""
        total = 0.0
        for i in order:
            held = self._sets[i]
            if len(held.planes.labelings) > 1:
                kept = held.gap
                self._step(held, 0.0)
                total += held.gap
                held.gap = kept  # what an example lacks is known from the oracle only
        return SweepStats(0, total, 0)

    def _take(self, held: _Set, answer: Labeling) -> bool:
        """Add an answer unless it is held; True if it was new."""
        if answer.loss == 0.0 and dot(answer.plane, answer.plane) == 0.0:
            return False
        for j, other in enumerate(held.planes.labelings):
            if other is not None and self._examples.same(other, answer):
                held.planes.age[j] = 0.0
                return False
        held.add(answer)
        return True

    def _step(self, held: _Set, top: float) -> None:
        """Solve the example's simplex problem and move w; ``held.gap`` becomes the gap before the step."""
        g = held.gradients(self._w)
        cap = held.planes.alpha.sum()
        gap = float(simplex_gap(held.planes.alpha, g))
        held.gap = gap + cap * max(0.0, top - float(g.max()))
        if gap <= 0.0:
            return
        before = held.planes.alpha.copy()
        solve_simplex(
            held.planes.alpha, g, held.planes.D2, max(1e-2 * gap, 1e-14 * cap), MAX_PAIR_STEPS
        )
        for j, change in enumerate(held.planes.alpha - before):
            labeling = held.planes.labelings[j]
            if change != 0.0 and labeling is not None:
                add_scaled(self._w, -change, labeling.plane)

    def confirm(self, answers: Sequence[Answers]) -> tuple[float, float]:
        """See :class:`maxmargin.core.WorkingSets`."""
        value = upper = 0.0
        for part in answers:
            for k, i in enumerate(range(part.lo, part.hi)):
                cap, held = float(self._caps[i]), self._sets[i]
                if cap == 0.0:
                    continue
                held.planes.age[held.planes.alpha == 0.0] += 1
                self._take(held, part.labelings[k])
                g = held.gradients(self._w)
                held.gap = float(simplex_gap(held.planes.alpha, g)) + cap * max(
                    0.0, float(part.values[k]) - float(g.max())
                )
                value += cap * float(part.values[k])
                upper += cap * float(part.uppers[k])
        return value, upper

    def drop_idle(self, age: int) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        for held in self._sets:
            mask = (held.planes.alpha > 0.0) | (held.planes.age <= age)
            mask[0] = True
            if not mask.all():
                held.keep(mask)

    def dual_value(self) -> float:
        """See :class:`maxmargin.core.WorkingSets`."""
        w: Array = np.zeros(self._examples.dim)
        offset = 0.0
        for held in self._sets:
            offset += float(held.planes.alpha @ held.planes.losses)
            for a, labeling in zip(held.planes.alpha[1:], held.planes.labelings[1:], strict=True):
                if a != 0.0 and labeling is not None:
                    add_scaled(w, -float(a), labeling.plane)
        self._w = w
        return offset - 0.5 * float(w @ w)

    def rescale(self, caps: Array) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        for held, old, new in zip(self._sets, self._caps, caps, strict=True):
            held.planes.alpha[:] *= new / old if old > 0.0 else 0.0
            if old == 0.0:
                held.planes.alpha[0] = new
            held.gap = np.inf if new > 0.0 else 0.0
        self._caps = np.array(caps, dtype=np.float64)
        self.dual_value()

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.WorkingSets`."""
        return {
            "labelings": [
                [p.y for p in held.planes.labelings[1:] if p is not None] for held in self._sets
            ],
            "alpha": [held.planes.alpha.copy() for held in self._sets],
        }
