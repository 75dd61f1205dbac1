"""LogisticRegression, for https://github.com/benchopt/benchmark_logreg_l2."""

from __future__ import annotations

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LogisticRegression


class Solver(BaseSolver):
    """F(w) = λ/2 ‖w‖² + Σ log(1 + exp(-y w·x)), to a relative gap that is proved."""

    name = "maxmargin"
    sampling_strategy = "tolerance"

    def set_objective(self, X, y, lmbd):
        """Keep the problem; a fit of a few rows loads the compiled functions."""
        self.X, self.y, self.lmbd = X, y, lmbd
        first = [np.flatnonzero(y == label)[0] for label in np.unique(y)]
        self.fit(X[first], y[first], 0.1)

    def fit(self, X, y, tol):
        """One fit, from zero."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # tol below the rounding of F
            model = LogisticRegression(C=1 / self.lmbd, fit_intercept=False, tol=tol)
            return model.fit(X, y).coef_.ravel()

    def run(self, tol):
        """benchopt starts at infinity and divides its tolerance by 1.5; the fourth power falls by 5."""
        self.w = (
            np.zeros(self.X.shape[1]) if tol > 1 else self.fit(self.X, self.y, max(tol**4, 1e-12))
        )

    def get_result(self):
        """The weights."""
        return {"beta": self.w}
