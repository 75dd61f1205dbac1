"""Both bounds of a linear fit, recomputed from its weights and its dual variables in plain NumPy.

With the weight c of a sample, its score s, its target y and its coefficient a in the dual weights X'a

    F(w) = |w|^2 / 2 + sum_i loss_i(s_i)     and     D(a) = sum_i d_i(a_i) - |X'a|^2 / 2,

and D(a) <= F(w) for all w and all feasible a. With an unpenalized intercept, the a_i must add up to zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from maxmargin.core.vectors import Array


def verify_certificate(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None
) -> tuple[float, float]:
    """Recompute the bounds of a fitted LinearSVC or LinearSVR from its training data, without the solvers.

    Parameters
    ----------
    estimator : LinearSVC or LinearSVR
        Fitted with ``keep_duals=True`` and a loss by name.
    X : array or sparse matrix of shape (n_samples, n_features)
        The training samples.
    y : array of shape (n_samples,)
        Their labels or targets.
    sample_weight : array of shape (n_samples,), optional
        Per-sample multipliers of C.

    Returns
    -------
    lower_bound, objective : float
        The bounds. The lower one may be slightly below ``lower_bound_``, if the fit found its bound by
        another method than its best dual variables.

    Raises
    ------
    AssertionError
        ``objective_`` is not the objective of the weights, or ``lower_bound_`` is above it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.testing import verify_certificate
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svc = LinearSVC(loss="hinge", keep_duals=True).fit(X, y)
    >>> lower, upper = verify_certificate(svc, X, y)
    >>> lower <= upper, upper - lower <= 1.1e-3 * upper
    (True, True)
    """
    s = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    classes = getattr(estimator, "classes_", None)
    scaling = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    penalized = getattr(estimator, "penalize_intercept", True)
    lower = upper = 0.0
    for k, w in enumerate(np.atleast_2d(estimator.coef_)):
        c, target, q = estimator.C * s, np.asarray(y), None
        if classes is None:
            q = float(np.ravel(estimator.quantile)[k])
        else:
            own = target == classes[1 if len(classes) == 2 else k]
            factors = compute_class_weight(estimator.class_weight, classes=classes, y=target)
            if len(classes) == 2:
                c = c * factors[own.astype(int)]
            else:
                c = c * np.where(own, factors[k], 1.0)
            target = np.where(own, 1.0, -1.0)
        a, b = np.array(estimator.dual_coef_[k]), float(estimator.intercept_[k])
        if scaling and not penalized:  # scale the larger side down: a stays feasible
            plus, minus = a[a > 0.0].sum(), -a[a < 0.0].sum()
            a[a > 0.0] *= min(1.0, minus / plus) if plus else 1.0
            a[a < 0.0] *= min(1.0, plus / minus) if minus else 1.0
        bias = b / scaling if scaling and penalized else 0.0
        loss, dual, feasible = _parts(estimator, X @ w + b, target, c, a, q)
        v = np.append(X.T @ feasible, scaling * feasible.sum() if penalized else 0.0)
        upper += 0.5 * (w @ w + bias * bias) + loss
        lower += dual - 0.5 * v @ v
    assert abs(upper - estimator.objective_) <= 1e-9 * abs(upper), (
        "objective_ is not F of the weights"
    )
    assert estimator.lower_bound_ <= upper * (1.0 + 1e-9), "lower_bound_ is above F of the weights"
    return float(lower), float(upper)


def _parts(
    estimator: Any, s: Array, y: Array, c: Array, a: Array, q: float | None
) -> tuple[Any, Any, Array]:
    """The loss, the dual without the norm, and the nearest feasible coefficients."""
    name, on = str(estimator.loss), c > 0.0
    if q is None:
        u, short = np.maximum(0.0, y * a) * on, np.maximum(0.0, 1.0 - y * s)
        if name == "squared_hinge":
            return c @ short**2, u.sum() - (u[on] ** 2 / (4.0 * c[on])).sum(), y * u
        u = np.minimum(c, u)
        if name == "hinge":
            return c @ short, u.sum(), y * u
        p = np.clip(u[on] / c[on], 1e-300, 1.0 - 1e-16)  # logistic
        entropy = -(p * np.log(p) + (1.0 - p) * np.log1p(-p))
        return c @ np.logaddexp(0.0, -y * s), c[on] @ entropy, y * u
    if name == "quantile":
        a = np.clip(a, (q - 1.0) * c, q * c)
        return c @ np.maximum(q * (y - s), (q - 1.0) * (y - s)), y @ a, a
    off, zone = np.maximum(0.0, np.abs(y - s) - estimator.epsilon), estimator.epsilon
    if name == "epsilon_insensitive":
        a = np.clip(a, -c, c)
        return c @ off, y @ a - zone * np.abs(a).sum(), a
    a = a * on
    return c @ off**2, y @ a - zone * np.abs(a).sum() - (a[on] ** 2 / (4.0 * c[on])).sum(), a
