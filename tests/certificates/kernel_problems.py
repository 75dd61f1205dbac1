"""Small random kernel problems of every kind, and proven bounds of their optima."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.reference_optima.kernel import solve_kernel_qp, values

from maxmargin.testing import kernel_objective

Long = np.longdouble


@dataclass(eq=False)
class Drawn:
    """A problem, described by KernelSVC's parameters."""

    X: Any
    y: Any
    weight: Any
    options: dict[str, Any]

    @property
    def fitted_rows(self) -> Any:
        return np.flatnonzero(np.ones(len(self.y)) if self.weight is None else self.weight > 0)

    @cached_property
    def best(self) -> Any:
        """Bounds of the optimum for two classes, 0 and 1."""
        return self.optimum(self.fitted_rows, 1)

    def values(self, rows: Any = slice(None)) -> Any:
        """Kernel values between some rows."""
        return self._values[rows][:, rows]

    @cached_property
    def _values(self) -> Any:
        """In extended precision, by the simplest formula."""
        X, options = self.X.toarray() if sp.issparse(self.X) else self.X, self.options
        return values(options["kernel"], X, options["gamma"], options["degree"], options["coef0"])

    def signs(self, positive: Any) -> Any:
        return np.where(self.y == positive, 1.0, -1.0)

    def optimum(self, rows: Any, positive: Any, K: Any = None) -> Any:
        """Bounds of the optimum for the two classes in ``rows``."""
        weight = None if self.weight is None else self.weight[rows]
        K = self.values(rows) if K is None else K
        y, C = self.signs(positive)[rows], self.options["C"]
        return solve_kernel_qp(K, y, C, weight, self.options["fit_intercept"])

    def objective(self, coef: Any, intercept: float, positive: Any) -> float:
        """F of a function of all rows."""
        K, y = self.values(), self.signs(positive)
        return kernel_objective(K, y, self.options["C"], coef, intercept, self.weight)

    def terms(self, coef: Any, intercept: float) -> float:
        """The sum of the absolute terms of F, with all kernel values as large as the largest."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        f = np.abs(self.values()).max() * np.abs(coef).sum()
        norm = np.abs(coef).sum() * f / 2
        return float(norm + self.options["C"] * weight.sum() * (1 + f + abs(intercept)))


def draw(seed: int, classes: int = 2, most: int = 60) -> Drawn:
    """One problem; it depends on the seed only."""
    rng = np.random.default_rng([2026, seed])
    n, d = int(rng.integers(2 * classes, most + 1)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1) + rng.choice([0.0, 0.0, 5.0])
    kind = rng.integers(5)
    if kind == 1:  # rows that are repeated many times, with either label
        X = X[rng.integers(0, max(1, n // 3), n)]
    if kind == 2:  # few distinct values, many zeros
        X[:, 1:] = np.round(X[:, 1:]) * (rng.random((n, d - 1)) < 0.5)
    rule = np.sin(X / (np.abs(X).max() + 1e-9) * 3.0).sum(axis=1) + 0.3 * rng.normal(size=n)
    share = rng.choice([0.5, 0.5, 0.1, 0.9])  # balanced or not
    edges = np.quantile(rule, np.linspace(0, 1, classes + 1)[1:-1] if classes > 2 else [share])
    y = np.searchsorted(edges, rule)
    y[:classes] = np.arange(classes)  # every class occurs
    kernel = str(rng.choice(["rbf", "rbf", "rbf", "poly", "linear"]))
    size = float(np.mean((X - X.mean(axis=0)) ** 2) * d) + 1e-3
    weight = None
    if rng.random() < 0.4:
        weight = 10.0 ** rng.uniform(-2, 1, n)
        weight[rng.permutation(np.arange(classes, n))[: n // 5]] = 0.0
    options = {
        "C": float(10.0 ** rng.uniform(-4, 5)),
        "kernel": kernel,
        "gamma": float(10.0 ** rng.uniform(-2, 2) / size if kernel == "rbf" else 1.0 / size),
        "degree": int(rng.integers(2, 4)),
        "coef0": float(rng.choice([0.0, 1.0])),
        "fit_intercept": bool(rng.random() < 0.7),
        "tol": float(10.0 ** rng.uniform(-9, -1)),
    }
    if rng.random() < 0.3:
        X = X.astype(np.float32)
    if rng.random() < 0.25:
        X = sp.csr_matrix(X)
    return Drawn(X, y, weight, options)


def restricted(K: Any, basis: Any) -> Any:
    """Kernel values of functions of some rows only, ``K_B' K_BB^-1 K_B``, in extended precision."""
    K = np.asarray(K, dtype=Long)
    L, k = K[np.ix_(basis, basis)].copy(), len(basis)
    features = K[basis].copy()
    for j in range(k):  # the Cholesky factor, and the triangular system with it, column by column
        L[j, j] = np.sqrt(L[j, j])
        L[j + 1 :, j] /= L[j, j]
        L[j + 1 :, j + 1 :] -= np.outer(L[j + 1 :, j], L[j + 1 :, j])
        features[j] /= L[j, j]
        features[j + 1 :] -= np.outer(L[j + 1 :, j], features[j])
    return features.T @ features
