"""The dual of a kernel problem, improved by blocks.

    maximise  D(beta) = <y, beta> - 1/2 beta' K beta     over  beta_i in y_i [0, c_i]  (and sum beta = 0)

beta_i = y_i alpha_i, f = K beta, and v = y - f is the gradient. One step takes a block of rows, a few
thousand of those that violate the optimality conditions most, solves the dual over it with the others held
(:mod:`maxmargin.compiled.smo`), and adds the change to the scores of all rows by one product with the
kernel's values, in single precision.

D and F of the present point, from scores in single precision, steer the loop; what is claimed is computed
from :meth:`KernelDual.value` and the risk, in double precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.compiled.smo import pair_steps, single_steps
from maxmargin.core.protocols import SweepStats
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, frozen

#: steps of one call of compiled code, after which Ctrl-C is heard
STEPS = 20_000


def best_intercept(v: Array, c: Array, y: Array) -> float:
    """The b that minimises sum_i c_i max(0, 1 - y_i (f_i + b)), where v = y - f are the kinks."""
    order = np.argsort(v, kind="stable")
    passed = np.cumsum(c[order])
    k = int(np.searchsorted(passed, float(c[y > 0.0].sum())))
    return float(v[order[min(k, len(v) - 1)]])


def feasible(beta: Array, lo: Array, hi: Array, balanced: bool) -> Array:
    """The multipliers inside their box and, if asked, with a sum of zero: what is missing is given to those
    with the most room."""
    beta = np.clip(beta, lo, hi)
    for _ in range(64):
        rest = math.fsum(beta) if balanced else 0.0
        if rest == 0.0:
            break
        room = beta - lo if rest > 0.0 else hi - beta
        k = int(np.argmax(room))
        move = math.copysign(min(abs(rest), float(room[k])), rest)
        if beta[k] - move == beta[k]:
            break  # below the rounding of any multiplier
        beta[k] -= move
    return np.clip(beta, lo, hi)


@dataclass(frozen=True, slots=True, eq=False)
class KernelDual:
    """Feasible multipliers that nothing moves any more."""

    risk: Any
    beta: Array

    def value(self, regularizer: SquaredNorm, dim: int) -> float:
        """D(beta), in double precision."""
        return float(self.beta @ (self.risk.y - 0.5 * self.risk.values(self.beta)))


class KernelDuals:
    """Multipliers of the rows and their scores."""

    def __init__(self, risk: Any, C: float, settings: Any) -> None:
        self.risk, self.C, self.settings = risk, C, settings
        self._y, self._c = risk.y, C * risk.weight
        self._lo, self._hi = np.minimum(0.0, self._y) * self._c, np.maximum(0.0, self._y) * self._c
        self._diagonal = np.asarray(risk.rows(slice(None)).diagonal(), dtype=np.float32)
        # multipliers and their scores: always replaced together
        self._now = (np.zeros(risk.n_examples), np.zeros(risk.n_examples))
        self.n_examples = risk.n_examples
        self.block = min(self.n_examples, settings.block)
        self.steps = 0

    @property
    def beta(self) -> Array:
        """The multipliers with the labels' signs."""
        return self._now[0]

    @property
    def n_support(self) -> int:
        """Rows with a multiplier."""
        return int(np.count_nonzero(self.beta))

    def load(self, beta: Array) -> None:
        """Start from these, brought into the box."""
        beta = feasible(beta, self._lo, self._hi, self.risk.fit_intercept)
        self._now = (beta, self._scores(beta))

    def _scores(self, beta: Array) -> Array:
        support = np.flatnonzero(beta)
        scores: Array = self.risk.products(self.risk.rows(support), beta[support])
        return scores

    def bounds(self) -> tuple[float, float, float]:
        """(F, D, b) at the present point, from scores in single precision."""
        beta, f = self._now
        square = float(beta @ f)
        v = self._y - f
        b = best_intercept(v, self._c, self._y) if self.risk.fit_intercept else 0.0
        loss = float(self._c @ np.maximum(0.0, self._y * (v - b)))
        return 0.5 * square + loss, float(self._y @ beta) - 0.5 * square, b

    def point(self, b: float) -> Array:
        """w of the present multipliers."""
        return frozen(np.append(self.beta, b) if self.risk.fit_intercept else self.beta)

    def dual(self) -> KernelDual:
        """The present multipliers, kept."""
        beta = feasible(self.beta, self._lo, self._hi, self.risk.fit_intercept)
        return KernelDual(self.risk, frozen(beta))

    def improve(self, seed: int) -> SweepStats:
        """One block: choose it, solve it, and bring all scores up to date."""
        F, D, b = self.bounds()
        gap = F - D
        rows = self._choose(b)
        if len(rows) == 0:
            return SweepStats(0, gap, 0)
        beta, f = self._now
        packed = self.risk.rows(rows)
        K = packed.block(packed)
        self.risk.kernel_values += K.size
        part, v = beta[rows], (self._y - f)[rows]
        self._solve(K, rows, part, v, b)
        changed = np.flatnonzero(part != beta[rows])
        change = part[changed] - beta[rows[changed]]
        moved = beta.copy()
        moved[rows] = part
        scores = f + self.risk.products(packed.take(changed), change)
        self._now = (moved, scores)
        return SweepStats(self.n_examples, gap, len(changed))

    def _solve(self, K: Any, rows: IntArray, beta: Array, v: Array, b: float) -> None:
        lo, hi = self._lo[rows], self._hi[rows]
        balanced = self.risk.fit_intercept
        steps = pair_steps if balanced else single_steps
        tol = self.settings.inner * self._violation
        left = 50 * len(rows)
        while left > 0:
            done, violation = steps(K, self._diagonal[rows], beta, lo, hi, v, tol, min(STEPS, left))
            self.steps += done
            left -= done
            if done < STEPS or violation <= tol:
                break

    def _choose(self, b: float) -> IntArray:
        """Half of the block from those that should rise, half from those that should fall."""
        beta, f = self._now
        v = self._y - f - b
        rise, fall = np.where(beta < self._hi, v, -np.inf), np.where(beta > self._lo, -v, -np.inf)
        self._violation = max(float(rise.max() + fall.max()), 0.0)
        if self._violation <= 0.0:
            return np.empty(0, dtype=np.int64)
        if self.block >= self.n_examples:
            return np.arange(self.n_examples)
        half = self.block // 2
        top = np.argpartition(-rise, half)[:half]
        fall[top] = -np.inf
        bottom = np.argpartition(-fall, half)[:half]
        chosen = np.concatenate([top[rise[top] > -np.inf], bottom[fall[bottom] > -np.inf]])
        chosen.sort()
        return chosen
