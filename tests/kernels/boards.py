"""A board of fields, and sampled cuts fitted to it."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import KernelSVC
from maxmargin.solvers import (
    SampledCuts,
)

GAMMA = 2.0


def checkerboard(n, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (n, 2))
    y = np.floor(X).sum(axis=1).astype(int) % n_classes
    return X + rng.normal(scale=0.1, size=X.shape), y


def objective(svc, X, y, weight=None):
    """F of a fitted two-class model, from its coefficients and the matrix of the kernel."""
    weight = np.ones(len(y)) if weight is None else weight
    K = rbf_kernel(X, svc.support_vectors_, gamma=GAMMA)
    coef = svc.dual_coef_[0]
    f = K @ coef
    sign = np.where(y == svc.classes_[1], 1.0, -1.0)
    loss = weight @ np.maximum(0.0, 1.0 - sign * (f + svc.intercept_[0]))
    return 0.5 * coef @ f[svc.support_] + svc.C * loss


def fit(X, y, method=None, **options):
    return KernelSVC(gamma=GAMMA, method=method or SampledCuts(), **options).fit(X, y)
