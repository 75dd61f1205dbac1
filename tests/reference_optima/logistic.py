"""The logistic loss in the referee's form: the maximum of each group becomes the log of a sum.

    F(z) = 1/2 (z - m)' P (z - m) + sum_g c_g log(1 + sum_{t in g} exp(a_t z + h_t))

One term per group is the binary loss; a term for each wrong class is the multinomial one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg as sl
from tests.reference_optima.program import LONG, LongArray, Program, by_group


class LogProgram(Program):
    """The problem, with the interface of a :class:`Program`."""

    def terms(self, z: LongArray) -> tuple[LongArray, LongArray]:
        """The losses by group, and exp(term - loss) by term: the probabilities."""
        _, _, A, h, cost = self.long()
        scores = A @ z + h
        top = by_group(scores, self.group, len(cost))
        total = np.exp(-top)
        np.add.at(total, self.group, np.exp(scores - top[self.group]))
        # log1p where the other term is 0, so that small losses keep their digits
        small = np.zeros_like(top)
        np.add.at(small, self.group, np.exp(np.minimum(scores, 0)))
        loss = np.where(top > 0, top + np.log(total), np.log1p(small))
        return loss, np.exp(scores - loss[self.group])

    def maxima(self, z: LongArray) -> LongArray:
        """The losses by group."""
        return self.terms(z)[0]

    def rounding(self, z: npt.ArrayLike, eps: float) -> float:
        """A bound on the error of F(z) in arithmetic with this ``eps``."""
        with np.errstate(all="ignore"):
            point = np.asarray(z, dtype=LONG)
            center, precision, A, h, cost = self.long()
            sizes = np.abs(point) + np.abs(center)
            loss, p = self.terms(point)
            lost = cost[self.group] @ (p * (np.abs(A) @ sizes + np.abs(h))) + cost @ loss
            off, spread = np.abs(point - center), np.abs(precision)
            pull = spread * off if spread.ndim == 1 else spread @ off
            steps = (self.size + len(cost) + 8) * eps
            return float(steps * (lost + pull @ sizes))

    def points(self, known: list[Any]) -> Iterator[LongArray]:
        """Newton steps from the returned weights and from the center."""
        center, precision, A, _, cost = self.long()
        P = np.diag(precision) if precision.ndim == 1 else precision
        for start in [*known, center]:
            z = self.feasible(start)
            yield z
            for _ in range(30):
                _, p = self.terms(z)
                weight = cost[self.group] * p
                gradient = P @ (z - center) + A.T @ weight
                mean = np.zeros((len(cost), self.size), dtype=LONG)
                np.add.at(mean, self.group, p[:, None] * A)
                H = P + (A.T * weight) @ A - (mean.T * cost) @ mean
                root = np.sqrt(np.maximum(np.diagonal(H), LONG(1e-300)))
                scaled = (H / root / root[:, None]).astype(float)
                if not np.isfinite(scaled).all():
                    break
                step = sl.lstsq(scaled, (gradient / root).astype(float))[0] / root
                trials = [self.feasible(z - t * step) for t in (1.0, 0.5, 0.1, 0.01)]
                value, _ = self.value(z)
                z = min(trials, key=lambda trial: self.value(trial)[0])
                if not self.value(z)[0] < value:
                    break
                yield z
