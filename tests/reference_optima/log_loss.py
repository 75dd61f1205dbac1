"""Small structured problems with the log loss: every output is enumerated, in extended precision.

    F(w) = 1/2 (w - m)' S^-1 (w - m) + sum_i c_i log sum_j exp <a_ij, w>

with a_ij the joint features of output j of example i minus those of its true output. Points with a small F
are found by Newton's method, whose Hessian matrix the enumeration gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.reference_optima.program import EPS, LONG
from tests.reference_optima.structured import Problem

NEWTON_STEPS = 80


def log_sum(values: Any) -> Any:
    """log sum exp, in the precision of the values."""
    top = values.max()
    return top + np.log(np.exp(values - top).sum())


def probabilities(values: Any) -> Any:
    """The distribution of outputs with these scores."""
    shares = np.exp(values - values.max())
    return shares / shares.sum()


class LogProblem(Problem):
    """A sum of log losses over planes, and a quadratic term; see :class:`Problem`."""

    def value(self, w: Any) -> Any:
        """F(w)."""
        w = np.asarray(w, dtype=LONG)
        total = self.quadratic(w)
        for cap, example in zip(self.caps, self.examples, strict=True):
            if cap > 0:
                total += cap * log_sum(example.planes @ w)
        return total

    def size(self, w: Any) -> float:
        """The sum of the absolute values of the terms of F(w)."""
        outputs = sum(
            float(cap) * (1.0 + np.log(len(example.planes)))
            for cap, example in zip(self.caps, self.examples, strict=True)
        )
        return super().size(w) + outputs

    def program(self) -> Any:
        """What finds points: only the quadratic term and the sums."""
        return _Newton(self)

    def derivatives(self, w: Any) -> tuple[Any, Any]:
        """The gradient in extended precision, and the Hessian matrix in double precision."""
        w = np.asarray(w, dtype=LONG)
        gradient = (w - self.center) / self.variance
        hessian = np.diag((1 / self.variance).astype(float))
        for cap, example in zip(self.caps, self.examples, strict=True):
            if cap > 0:
                p = probabilities(example.planes @ w)
                mean = p @ example.planes
                gradient = gradient + cap * mean
                around = (example.planes - mean).astype(float)
                hessian += float(cap) * (around.T * p.astype(float)) @ around
        return gradient, hessian


class _Newton:
    def __init__(self, problem: LogProblem) -> None:
        self.problem = problem

    def feasible(self, w: Any) -> Any:
        return np.asarray(w, dtype=LONG)

    def value(self, w: Any) -> tuple[Any, float]:
        return self.problem.value(w), EPS * 1e-3 * self.problem.size(w)

    def points(self, known: list[Any]) -> list[Any]:
        """Newton's method from the best known point, with steps that are halved until F falls."""
        w = min(known, key=self.problem.value)
        for _ in range(NEWTON_STEPS):
            gradient, hessian = self.problem.derivatives(w)
            scale = 1.0 / np.sqrt(np.diag(hessian))
            right = (scale * gradient).astype(float)
            try:
                step = scale * np.linalg.solve(hessian * np.outer(scale, scale), right)
            except np.linalg.LinAlgError:
                break
            before = self.problem.value(w)
            for k in range(60):
                other = w - LONG(0.5) ** k * step
                if self.problem.value(other) < before:
                    w = other
                    break
            else:
                break
        return [w]
