"""Kernel machines with piecewise linear losses of one score: F in extended precision, and an attained value.

    F(v, b) = 1/2 v'Kv + sum_i up_i max(0, r_i - e_i) + down_i max(0, -r_i - e_i),     r = t - Kv - b

clarabel proposes multipliers with positive and negative parts; F of their function with the best intercept
is attained, so no lower bound may exceed it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from tests.reference_optima.attained import run_clarabel
from tests.reference_optima.program import LONG


class ScoreProblem(NamedTuple):
    """Kernel values, targets, widths and caps, all in extended precision."""

    K: Any
    t: Any
    e: Any
    up: Any
    down: Any
    intercept: bool

    def value(self, v: Any, b: Any) -> Any:
        """F."""
        f = self.K @ v
        r = self.t - f - b
        lost = self.up * np.maximum(0, r - self.e) + self.down * np.maximum(0, -r - self.e)
        return LONG(0.5) * (v @ f) + lost.sum()

    def size(self, v: Any, b: Any) -> float:
        """The sum of the absolute values of all terms of F."""
        f = np.abs(self.K) @ np.abs(v)
        caps = np.maximum(self.up, self.down)
        return float(
            LONG(0.5) * (np.abs(v) @ f) + (caps * (np.abs(self.t) + self.e + f + abs(b))).sum()
        )

    def best(self, v: Any) -> Any:
        """F of a function with the best intercept, which is at a kink of the loss."""
        if not self.intercept:
            return self.value(v, LONG(0))
        r = self.t - self.K @ v
        return min(self.value(v, b) for b in [*(r - self.e), *(r + self.e)])

    def attained(self) -> Any:
        """F of the better of zero and the proposed function."""
        n, K = len(self.t), self.K
        found = self.best(np.zeros(n, LONG))
        top = max(K.diagonal().max(), LONG(1e-300))
        for unit in (max(1.0, float((self.up.max() + self.down.max()) * top)), 1.0):
            small = (K / top * unit).astype(float)
            P = sp.csc_matrix(np.triu(np.block([[small, -small], [-small, small]])))
            q = np.concatenate([self.e - self.t, self.e + self.t]).astype(float)
            caps = np.minimum(
                (np.concatenate([self.up, self.down]) * top / unit).astype(float), 1e15
            )
            sums = [sp.csr_matrix(np.concatenate([np.ones(n), -np.ones(n)])[None])]
            equation = sums if self.intercept else []
            M = sp.vstack([*equation, sp.identity(2 * n), -sp.identity(2 * n)], format="csc")
            right = np.concatenate([np.zeros(len(equation)), caps, np.zeros(2 * n)])
            if not (np.isfinite(small).all() and np.isfinite(q).all()):
                continue
            answer = run_clarabel(P, q, M, right, len(equation))
            if answer is not None:
                v = (answer[0][:n] - answer[0][n:]).astype(LONG) * (LONG(unit) / top)
                value = self.best(v)
                found = min(found, value) if np.isfinite(value) else found
        return found
