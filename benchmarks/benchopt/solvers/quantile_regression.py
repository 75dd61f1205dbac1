"""LinearSVR with the quantile loss, for https://github.com/benchopt/benchmark_quantile_regression.

That benchmark penalizes λ‖w‖₁, which no estimator of maxmargin does. But w = p - n with p, n >= 0 makes it
linear, and the proximal point method minimizes

    ½‖(p, n) - (p_k, n_k)‖² + ρ (mean loss + λ Σ (p + n))

in each step: a squared norm around a prior mean of (p_k, n_k) - ρλ, with nonnegative weights. The
objective is polyhedral, so a few steps reach its minimum.
"""

from __future__ import annotations

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

from maxmargin import GaussianPrior, LinearSVR


class Solver(BaseSolver):
    """A sequence of fits with a prior and signs; each proves its own gap, not that of the L1 objective."""

    name = "maxmargin"
    sampling_strategy = "tolerance"

    def set_objective(self, X, y, lmbd, quantile, fit_intercept):
        """Keep the problem; a fit of a few rows loads the compiled functions."""
        self.X, self.y, self.lmbd, self.quantile = np.hstack([X, -X]), y, lmbd, quantile
        self.fit_intercept = fit_intercept
        self.rho = np.abs(y).mean() / lmbd
        self.fit(slice(5), np.zeros(self.X.shape[1]), 0.1)

    def fit(self, rows, center, tol):
        """One step, from a center."""
        X, y = self.X[rows], self.y[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return LinearSVR(
                C=self.rho / len(y),
                loss="quantile",
                quantile=self.quantile,
                fit_intercept=self.fit_intercept,
                penalize_intercept=False,
                prior=GaussianPrior(mean=center - self.rho * self.lmbd),
                nonnegative=range(X.shape[1]),
                tol=tol,
            ).fit(X, y)

    def run(self, tol):
        """Steps until one improves the objective by less than tol, relatively."""
        center, intercept, best = np.zeros(self.X.shape[1]), 0.0, np.inf
        self.params = self.result(center, intercept)
        while tol <= 1:
            model = self.fit(slice(None), center, 1e-2 * tol)
            center, intercept = model.coef_.ravel(), np.ravel(model.intercept_)[0]
            residual = self.y - self.X @ center - intercept
            losses = np.maximum(self.quantile * residual, (self.quantile - 1) * residual)
            value = losses.mean() + self.lmbd * center.sum()
            if value < best:
                self.params = self.result(center, intercept)
            if value >= (1 - 0.1 * tol) * best:
                break
            best = value

    def result(self, center, intercept):
        """Weights and intercept, in the order of the benchmark."""
        positive, negative = np.split(center, 2)
        return np.append(positive - negative, intercept if self.fit_intercept else [])

    def get_result(self):
        """Weights and intercept."""
        return {"params": self.params}
