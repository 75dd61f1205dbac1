"""Both bounds of a linear fit, recomputed from its weights and its dual variables in plain NumPy.

With the weight c of a sample, its score s, its target y and its coefficient a in the dual weights X'a

    F(w) = Omega(w) + sum_i loss_i(s_i)     and     D(a) = sum_i d_i(a_i) - Omega*(X'a)

where Omega is half the squared norm or the one of a prior, and Omega*(v) = max_w <v, w> - Omega(w).
D(a) <= F(w) for all w and all feasible a. With an unpenalized intercept, the a_i must add up to zero. If a
sample has several scores, it has a coefficient for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils.class_weight import compute_class_weight

from maxmargin.core.vectors import Array, IntArray


def verify_certificate(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, sample_epsilon: Any = None
) -> tuple[float, float]:
    """Recompute the bounds of a fitted linear model from its training data, without the solvers.

    Parameters
    ----------
    estimator : LinearSVC, LinearSVR, LogisticRegression or OrdinalSVC
        Fitted with ``keep_duals=True`` and a loss by name.
    X : array or sparse matrix of shape (n_samples, n_features)
        The training samples.
    y : array of shape (n_samples,)
        Their labels or targets.
    sample_weight : array of shape (n_samples,), optional
        Per-sample multipliers of C.
    sample_epsilon : array of shape (n_samples,), optional
        For LinearSVR: an epsilon for each sample.

    Returns
    -------
    lower_bound, objective : float
        The bounds. The lower one may be slightly below ``lower_bound_``, if the fit found its bound by
        another method than its best dual variables.

    Raises
    ------
    AssertionError
        ``objective_`` is not the objective of the weights, or ``lower_bound_`` is above it.
    TypeError
        The model has no dual variables of samples.

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
    if not (getattr(estimator, "keep_duals", False) and hasattr(estimator, "dual_coef_")):
        raise TypeError(
            "verify_certificate needs the dual variables of the samples: fit LinearSVC, LinearSVR, "
            "LogisticRegression or OrdinalSVC with keep_duals=True. "
            f"This {type(estimator).__name__} has none."
        )
    y, given = np.asarray(y), np.ones(len(y)) if sample_weight is None else sample_weight
    c = estimator.C * np.asarray(given, dtype=np.float64)
    kind = getattr(estimator, "multi_class", "ovr")
    if hasattr(estimator, "thresholds_"):
        lower, upper = _ordered(estimator, X, y, c)
    elif kind == "crammer_singer" or (kind == "multinomial" and len(estimator.classes_) > 2):
        lower, upper = _joint(estimator, X, y, c)
    else:
        lower, upper = _single(estimator, X, y, c, sample_epsilon)
    assert abs(upper - estimator.objective_) <= 1e-9 * abs(upper), (
        "objective_ is not F of the weights"
    )
    assert estimator.lower_bound_ <= upper * (1.0 + 1e-9), "lower_bound_ is above F of the weights"
    return float(lower), float(upper)


def _single(estimator: Any, X: Any, y: Array, c: Array, epsilon: Any) -> tuple[Any, Any]:
    """D and F of problems with one score per sample."""
    lower = upper = 0.0
    zone = getattr(estimator, "epsilon", 0.0) if epsilon is None else np.asarray(epsilon)
    for k, (w, b, a) in enumerate(
        zip(np.atleast_2d(estimator.coef_), estimator.intercept_, estimator.dual_coef_, strict=True)
    ):
        weight, target, q = c, y, 0.0
        if hasattr(estimator, "classes_"):
            two = len(estimator.classes_) == 2
            own = y == estimator.classes_[1 if two else k]
            factors = _factors(estimator, y)
            weight = c * (factors[own.astype(int)] if two else np.where(own, factors[k], 1.0))
            target = np.where(own, 1.0, -1.0)
        else:
            q = float(np.ravel(estimator.quantile)[k])
        a = _box(estimator.loss, target, weight, a, q)
        a = _balanced(a) if _free(estimator) else a
        loss, dual = _values(estimator.loss, X @ w + b, target, weight, a, q, zone)
        omega, conjugate = _norm(estimator, k, w, X.T @ a, b, a.sum())
        lower, upper = lower + dual - conjugate, upper + omega + loss
    return lower, upper


def _ordered(estimator: Any, X: Any, y: Array, c: Array) -> tuple[Any, Any]:
    """D and F of ordered classes: one score, and a coefficient for each threshold."""
    codes, name = np.searchsorted(estimator.classes_, y), estimator.loss
    c, scores, total = c * _factors(estimator, y)[codes], X @ estimator.coef_, np.zeros(len(y))
    lower = upper = 0.0
    for j, (theta, a) in enumerate(zip(estimator.thresholds_, estimator.dual_coef_, strict=True)):
        sign = np.where(codes > j, 1.0, -1.0)
        counts = (codes == j) | (codes == j + 1) | (estimator.thresholds == "all")
        a = _balanced(_box(name, sign, c * counts, a))
        loss, dual = _values(name, scores - theta, sign, c * counts, a)
        lower, upper, total = lower + dual, upper + loss, total + a
    omega, conjugate = _norm(estimator, 0, estimator.coef_, X.T @ total)
    return lower - conjugate, upper + omega


def _joint(estimator: Any, X: Any, y: Array, c: Array) -> tuple[Any, Any]:
    """D and F of the losses of Crammer and Singer and of multinomial logistic regression."""
    W, b, A = estimator.coef_, estimator.intercept_, estimator.dual_coef_
    if len(W) == 1:  # the difference of two classes
        W, b, A = (np.concatenate([-part, part]) / 2.0 for part in (W, b, A))
    codes, here, K = np.searchsorted(estimator.classes_, y), np.arange(len(y)), len(W)
    c, scores = c * _factors(estimator, y)[codes], X @ W.T + b
    own = codes[:, None] == np.arange(K)
    alpha = np.where(own, 0.0, np.maximum(0.0, -A.T))  # how much of c goes to a wrong class
    alpha *= np.minimum(1.0, c / np.maximum(alpha.sum(axis=1), 1e-300))[:, None]
    for k in [*range(K)] * 1000 if _free(estimator) else []:
        leaves, enters = alpha[codes == k].sum(), alpha[:, k].sum()
        alpha[codes == k] *= min(1.0, enters / leaves) if leaves else 1.0
        alpha[:, k] *= min(1.0, leaves / enters) if enters else 1.0
    A = (np.where(own, alpha.sum(axis=1)[:, None], 0.0) - alpha).T
    alpha[here, codes] = c - alpha.sum(axis=1)
    if estimator.multi_class == "multinomial":
        upper = c @ (np.logaddexp.reduce(scores, axis=1) - scores[here, codes])
        p = np.clip(alpha / np.maximum(c, 1e-300)[:, None], 1e-300, 1.0)
        lower = -(c @ (p * np.log(p)).sum(axis=1))
    else:
        given = getattr(estimator, "cost", None)
        cost = (1.0 - np.eye(K) if given is None else np.asarray(given, dtype=np.float64))[codes]
        upper = c @ ((cost + scores).max(axis=1) - scores[here, codes])
        lower = (alpha * cost).sum()
    if _free(estimator) and np.abs(A.sum(axis=1)).max() > 1e-9 * c.sum():
        lower = -np.inf  # the coefficients could not be balanced, so they prove nothing
    for k in range(K):
        omega, conjugate = _norm(estimator, k, W[k], X.T @ A[k], b[k], A[k].sum())
        lower, upper = lower - conjugate, upper + omega
    return lower, upper


def _factors(estimator: Any, y: Array) -> Array:
    """The class weights."""
    factors: Array = compute_class_weight(estimator.class_weight, classes=estimator.classes_, y=y)
    return factors


def _free(estimator: Any) -> bool:
    """Whether there is an unpenalized intercept."""
    return bool(estimator.fit_intercept and not estimator.penalize_intercept)


def _balanced(a: Array) -> Array:
    """Coefficients that add up to zero: the larger side is scaled down, so they stay feasible."""
    plus, minus = a[a > 0.0].sum(), -a[a < 0.0].sum()
    small = min(plus, minus)
    out: Array = a * np.where(a > 0.0, small / max(plus, 1e-300), small / max(minus, 1e-300))
    return out


def _box(name: str, y: Array, c: Array, a: Array, q: float = 0.0) -> Array:
    """The nearest feasible coefficients."""
    if name == "quantile":
        low, high = (q - 1.0) * c, q * c
    elif name.endswith("epsilon_insensitive"):
        low, high = -c, c
    else:
        low, high = np.minimum(0.0, y * c), np.maximum(0.0, y * c)
    if name.startswith("squared"):
        low, high = np.where(low < 0.0, -np.inf, 0.0), np.where(high > 0.0, np.inf, 0.0)
    return np.asarray(np.clip(a, low, high))


def _values(
    name: str, s: Array, y: Array, c: Array, a: Array, q: float = 0.0, zone: Any = 0.0
) -> tuple[Any, Any]:
    """The loss at the scores s, and the dual of feasible coefficients without the norm."""
    if name == "quantile":
        return c @ np.maximum(q * (y - s), (q - 1.0) * (y - s)), y @ a
    if name == "logistic":
        p = np.clip(np.abs(a) / np.maximum(c, 1e-300), 1e-300, 1.0 - 1e-16)
        return c @ np.logaddexp(0.0, -y * s), -(c @ (p * np.log(p) + (1.0 - p) * np.log1p(-p)))
    if name.endswith("epsilon_insensitive"):
        off, dual = np.maximum(0.0, np.abs(y - s) - zone), y @ a - np.sum(zone * np.abs(a))
    else:
        off, dual = np.maximum(0.0, 1.0 - y * s), np.abs(a).sum()
    if name.startswith("squared"):
        return c @ off**2, dual - (a * a / (4.0 * np.maximum(c, 1e-300))).sum()
    return c @ off, dual


def _norm(
    estimator: Any, k: int, w: Array, v: Array, b: float = 0.0, r: float = 0.0
) -> tuple[Any, Any]:
    """Omega of column k of the weights, and Omega* at v and at the sum r of coefficients."""
    d, prior = len(w), getattr(estimator, "prior", None)
    mean, spread, bias = np.zeros(d), np.ones(d), 0.0
    if prior is not None:
        center = np.asarray(0.0 if prior.mean is None else prior.mean, dtype=np.float64)
        mean = mean + (center[k] if center.ndim == 2 else center)
        bias = _of_column(0.0 if prior.intercept_mean is None else prior.intercept_mean, k)
        for form in ("variance", "covariance", "precision"):
            given = getattr(prior, form)
            if isinstance(given, list | tuple) and np.ndim(given[0]) == 2:
                given = scipy.linalg.block_diag(*given)
            if given is not None:
                given = given.toarray() if hasattr(given, "toarray") else np.asarray(given, float)
                given = given if given.ndim == 2 else spread * given
                spread = given if form != "precision" else _inverse(given)
    names, low, high = (
        list(getattr(estimator, "feature_names_in_", [])),
        np.full(d, -np.inf),
        np.full(d, np.inf),
    )
    low[_places(getattr(estimator, "nonnegative", None), names, d)] = 0.0
    high[_places(getattr(estimator, "nonpositive", None), names, d)] = 0.0
    fixed = getattr(estimator, "fixed", None) or {}
    held = _places(fixed, names, d)
    values = np.array([_of_column(value, k) for value in fixed.values()])
    low[held] = high[held] = values
    rest = np.setdiff1d(np.arange(d), held)
    S = spread[rest] if spread.ndim == 1 else spread[np.ix_(rest, rest)]
    if spread.ndim == 2 and len(held):  # the others, given the fixed weights
        ratio = spread[np.ix_(rest, held)] @ _inverse(spread[np.ix_(held, held)])
        mean[rest] += ratio @ (values - mean[held])
        S = S - ratio @ spread[np.ix_(held, rest)]

    def half(w: Array) -> Any:
        off = (w - mean)[rest]
        return 0.5 * off @ (off / S if S.ndim == 1 else np.linalg.solve(S, off))

    best = mean.copy()  # the maximizer of <v, w> - Omega(w); weights with a sign are not correlated
    best[rest] += S * v[rest] if S.ndim == 1 else S @ v[rest]
    best = np.clip(best, low, high)
    omega, conjugate = half(w), v @ best - half(best)
    if not ((low <= w) & (w <= high)).all():
        omega = np.inf
    if getattr(estimator, "fit_intercept", False) and estimator.penalize_intercept:
        scale = float(estimator.intercept_scaling)
        omega += 0.5 * ((b - bias) / scale) ** 2
        conjugate += r * bias + 0.5 * (scale * r) ** 2
    return omega, conjugate


def _of_column(value: Any, k: int) -> float:
    """One number for all columns, or the k-th."""
    return float(np.ravel(value)[k if np.size(value) > 1 else 0])


def _inverse(M: Array) -> Array:
    return np.asarray(1.0 / M if M.ndim == 1 else np.linalg.inv(M))


def _places(keys: Iterable[Any] | None, names: list[Any], d: int) -> IntArray:
    """Indices of weights from indices, names, or a mask."""
    keys = [] if keys is None else list(keys)
    if keys and all(isinstance(key, bool | np.bool_) for key in keys):
        return np.flatnonzero(keys)
    return np.array([names.index(k) if k in names else int(k) % d for k in keys], dtype=np.int64)
