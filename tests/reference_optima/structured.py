"""Small structured problems: every output is enumerated, and F is computed in extended precision.

    F(w) = 1/2 (w - m)' S^-1 (w - m) + sum_i c_i max_j (b_ij + <a_ij, w>)

with one plane (a_ij, b_ij) for each output j of example i, of which the true output's is never negative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.reference_optima.attained import best_point
from tests.reference_optima.program import LONG, Program


@dataclass
class Example:
    """The planes of one example: rows of ``planes`` and ``offsets``, one for each output.

    ``size`` bounds the absolute values of the terms of a sum in double precision.
    """

    planes: Any
    offsets: Any
    size: Any

    @classmethod
    def of(cls, features: Any, truth: int, losses: Any, rescaling: str = "margin") -> Example:
        """From joint features (one row per output), the index of the true output, and losses."""
        psi = np.asarray(features, dtype=LONG)
        delta = psi - psi[truth]
        size = np.abs(psi) + np.abs(psi[truth])
        losses = np.asarray(losses, dtype=LONG)
        if rescaling == "slack":
            return cls(losses[:, None] * delta, losses, losses[:, None] * size)
        return cls(delta, losses, size)


@dataclass
class Problem:
    """A sum of maxima of planes, and a quadratic term."""

    examples: list[Example]
    caps: Any
    center: Any = None
    variance: Any = None
    fixed: dict[int, float] = field(default_factory=dict)
    nonnegative: tuple[int, ...] = ()
    nonpositive: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        d = self.examples[0].planes.shape[1]
        self.dim = d
        self.caps = np.asarray(self.caps, dtype=LONG)
        self.center = np.zeros(d, dtype=LONG) if self.center is None else _full(self.center, d)
        self.variance = np.ones(d, dtype=LONG) if self.variance is None else _full(self.variance, d)
        self.learned = np.ones(d, dtype=bool)
        self.learned[list(self.fixed)] = False
        self.lower = np.full(d, -np.inf)
        self.upper = np.full(d, np.inf)
        self.lower[list(self.nonnegative)] = 0.0
        self.upper[list(self.nonpositive)] = 0.0

    def feasible(self, w: Any) -> Any:
        """The nearest weights that respect signs and fixed values."""
        w = np.clip(np.asarray(w, dtype=LONG), self.lower.astype(LONG), self.upper.astype(LONG))
        for k, value in self.fixed.items():
            w[k] = LONG(value)
        return w

    def quadratic(self, w: Any) -> Any:
        """The prior's term; that of fixed weights is constant and omitted."""
        step = (np.asarray(w, dtype=LONG) - self.center)[self.learned]
        return LONG(0.5) * (step * step / self.variance[self.learned]).sum()

    def value(self, w: Any) -> Any:
        """F(w)."""
        w = np.asarray(w, dtype=LONG)
        total = self.quadratic(w)
        for cap, example in zip(self.caps, self.examples, strict=True):
            if cap > 0:
                total += cap * (example.offsets + example.planes @ w).max()
        return total

    def size(self, w: Any) -> float:
        """The sum of the absolute values of the terms of F(w); times the unit roundoff, an acceptable
        error."""
        w = np.abs(np.asarray(w, dtype=LONG))
        total = self.quadratic(w) + self.quadratic(0 * w)
        for cap, example in zip(self.caps, self.examples, strict=True):
            if cap > 0:
                total += cap * (np.abs(example.offsets) + example.size @ w).max()
        return float(total)

    def program(self) -> Program:
        """The problem of the weights that are learned, without examples that have no weight."""
        used = [(c, e) for c, e in zip(self.caps, self.examples, strict=True) if c > 0]
        planes = np.concatenate([e.planes for _, e in used] or [np.zeros((0, self.dim), LONG)])
        offsets = np.concatenate([e.offsets for _, e in used] or [np.zeros(0, LONG)])
        group = np.repeat(np.arange(len(used)), [len(e.offsets) for _, e in used])
        # the true output's term is the zero that a program has anyway
        kept = planes.any(axis=1) | (offsets != 0)
        planes, offsets, group = planes[kept], offsets[kept], group[kept]
        held = self.feasible(np.zeros(self.dim, LONG))
        held[self.learned] = 0
        return Program(
            center=self.center[self.learned],
            precision=1 / self.variance[self.learned],
            A=planes[:, self.learned],
            h=offsets + planes @ held,
            group=group,
            cost=np.array([c for c, _ in used], LONG),
            lower=self.lower[self.learned],
            upper=self.upper[self.learned],
        )


def _full(value: Any, d: int) -> Any:
    return np.array(np.broadcast_to(np.asarray(value, dtype=LONG), (d,)))


def referee(problem: Problem, *others: Any) -> tuple[Any, Any]:
    """(w, F(w)) of the best point found: attained, so no valid lower bound is above it."""
    known = [problem.feasible(w) for w in (problem.center, *others)]
    found = problem.feasible(problem.center)
    point, _, _ = best_point(problem.program(), [w[problem.learned] for w in known])
    found[problem.learned] = point
    return min(((w, problem.value(w)) for w in [*known, found]), key=lambda pair: pair[1])
