"""Losses that are maxima over too many terms to list: the referee generates the relevant ones as cuts.

    F(z) = 1/2 (z - m)' P (z - m) + sum_g c_g R_g(X z),      R_g(s) = max(0, max_v (h_v + <g_v, s>))

An oracle enumerates all v by brute force, in extended precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.reference_optima.attained import solve, tied
from tests.reference_optima.program import LONG, LONG_EPS, Array, LongArray, Program

ROUNDS = 40
#: scores -> for each group the maximum's offset h and gradient g over all rows
Oracle = Callable[[LongArray], list[tuple[Any, LongArray]]]


@dataclass(frozen=True, eq=False)
class Joint:
    """The problem, with the interface of a :class:`Program`."""

    norm: dict[str, Any]
    X: Array
    cost: Array
    oracle: Oracle
    #: the largest h: terms that nearly tie with the largest one have its rounding error
    largest: float = 0.0
    #: the largest derivative: in the search for the maximum, scores of rows outside it are rounded, too
    steepest: float = 0.0

    def _program(self, A: Any, h: Any, group: Any) -> Program:
        return Program(
            **self.norm,
            A=np.array(A, dtype=float).reshape(-1, self.X.shape[1]),
            h=np.array(h, dtype=float),
            group=np.array(group, dtype=np.int64),
            cost=self.cost,
        )

    @property
    def _plain(self) -> Program:
        return self._program([], [], [])

    @property
    def total(self) -> float:
        """C times the sum of the weights: the largest losses."""
        return float(self.cost.sum()) * self.largest

    def feasible(self, z: npt.ArrayLike) -> LongArray:
        """The nearest point within the bounds."""
        return self._plain.feasible(z)

    def violated(self, z: npt.ArrayLike) -> bool:
        """Whether a weight is outside its bounds."""
        return self._plain.violated(z)

    def maxima(self, z: LongArray) -> list[Any]:
        """R_g by group."""
        scores = self.X.astype(LONG) @ z
        return [max(LONG(0), h + g @ scores) for h, g in self.oracle(scores)]

    def value(self, z: npt.ArrayLike) -> tuple[np.longdouble, float]:
        """F(z) in extended precision, and a bound on its rounding error."""
        point = np.asarray(z, dtype=LONG)
        norm, _ = self._plain.value(point)
        total = norm + sum(c * r for c, r in zip(self.cost, self.maxima(point), strict=True))
        return total, self.rounding(point, LONG_EPS)

    def rounding(self, z: npt.ArrayLike, eps: float) -> float:
        """A bound on the error of F(z) in arithmetic with this ``eps``."""
        point = np.asarray(z, dtype=LONG)
        sizes = np.abs(self.X).astype(LONG) @ (np.abs(point) + np.abs(self.norm["center"]))
        scores = self.X.astype(LONG) @ point
        lost = LONG(0)
        searched = 4.0 * self.steepest * np.abs(scores).sum()
        for c, (h, g) in zip(self.cost, self.oracle(scores), strict=True):
            lost += c * (np.abs(g) @ sizes + max(abs(h), self.largest) + searched)
        steps = (self.X.shape[1] + len(self.X) + 8) * eps
        return float(steps * lost) + self._plain.rounding(point, eps)

    def points(self, known: list[Any]) -> Iterator[Any]:
        """Points with a small F: cutting planes with clarabel, then the equations of the tied planes."""
        A: list[Any] = []
        h: list[Any] = []
        group: list[int] = []
        X = self.X.astype(LONG)

        def add(z: Any) -> None:
            for g, (offset, gradient) in enumerate(self.oracle(X @ np.asarray(z, dtype=LONG))):
                A.append(gradient @ X)
                h.append(offset)
                group.append(g)

        yield self.norm["center"]
        for z in [self.norm["center"], *known]:
            add(z)
        best = LONG(np.inf)
        for _ in range(ROUNDS):
            program = self._program(A, h, group)
            solution = solve(program, "columns") or solve(program, "none")
            if solution is None:
                return
            z = self.feasible(solution[0])
            yield z
            add(z)
            F, (below, _) = self.value(z)[0], program.value(z)
            best = min(best, F)
            if best - below <= 1e-10 * abs(best):
                break
        for threshold in (1e-3, 1e-6):
            yield tied(program, *solution[:2], threshold)
