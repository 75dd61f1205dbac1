"""GaussianPrior: what is known about the weights before the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from maxmargin.core.matrices import canonical
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.named_weights import NamedWeights

#: a matrix with unit diagonal is singular if a pivot is below this
SINGULAR = 1e-13
FORMS = ("variance", "covariance", "precision")


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPrior:
    """A Gaussian prior of the weights: a center, and how far from it the weights may be.

    With mean m and covariance S, the term ``1/2 |w|^2`` of an estimator becomes
    ``1/2 (w - m)' S^-1 (w - m)``. The plain norm has mean 0 and variance 1. Give at most one of
    ``variance``, ``covariance`` and ``precision``.

    Parameters
    ----------
    mean : array of shape (n_features,) or (n_classes, n_features), optional
        The center, in the shape of ``coef_``; for example, the weights of an earlier fit. Zero by default.
    variance : float or array of shape (n_features,), optional
        Variances of independent weights: small if a weight should stay near its center.
    covariance : array of shape (n_features, n_features) or list of square arrays, optional
        A symmetric, positive definite matrix, or its diagonal blocks in the order of the features.
    precision : float, array or list of arrays, optional
        The inverse of one of these: the strength of regularization of each feature, or S^-1 as a matrix or
        blocks.
    intercept_mean : float or array of shape (n_classes,), optional
        The center of the intercept, in the shape of ``intercept_``. The estimator's ``intercept_scaling``
        and ``penalize_intercept`` set how strongly the intercept is penalized; it is not correlated with
        any feature. Ignored if the intercept is unpenalized or there is none.

    Examples
    --------
    Different strengths of regularization have the same effect as scaled features:

    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import GaussianPrior, LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[50:], y[50:]
    >>> by_prior = LinearSVC(prior=GaussianPrior(variance=[4.0, 1.0, 1.0, 1.0])).fit(X, y)
    >>> scaled = LinearSVC().fit(X * [2.0, 1.0, 1.0, 1.0], y)
    >>> bool(abs(by_prior.objective_ - scaled.objective_) < 1e-3 * scaled.objective_)
    True

    Use the weights of an earlier fit as the center:

    >>> update = LinearSVC(C=0.01, prior=GaussianPrior.around(scaled)).fit(X, y)
    """

    mean: Any = None
    variance: Any = None
    covariance: Any = None
    precision: Any = None
    intercept_mean: Any = None

    def __post_init__(self) -> None:
        given = [name for name in FORMS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"GaussianPrior takes at most one of {', '.join(FORMS)}, but {' and '.join(given)} are given."
            )
        for name in ("mean", "intercept_mean"):
            if not isinstance(getattr(self, name), NamedWeights | None):
                _numbers(getattr(self, name), name, 2 if name == "mean" else 1)
        for part in self._parts():
            _cholesky(part.matrix, part.kind)

    @classmethod
    def around(cls, model: Any, **spread: Any) -> Self:
        """Return a prior whose center is the weights of a fitted model.

        Parameters
        ----------
        model : estimator
            A fitted estimator with ``coef_``, and perhaps ``intercept_``. The weights of a
            :class:`SequenceTagger` are assigned by feature name and label: names that only the new tagger has
            get the center 0, and names that only the old one has are dropped.
        **spread
            ``variance``, ``covariance`` or ``precision``.

        Returns
        -------
        GaussianPrior
            The prior.
        """
        if hasattr(model, "_named_weights"):
            return cls(mean=model._named_weights(), **spread)
        center = np.array(model.coef_, dtype=np.float64)
        bias = getattr(model, "intercept_", None)
        bias = None if bias is None else np.array(bias, dtype=np.float64)
        return cls(mean=center, intercept_mean=bias, **spread)

    def _parts(self) -> Iterator[SpreadMatrix]:
        """The spread as matrices along the diagonal; none if it is a number or one number per weight."""
        name = next((name for name in FORMS if getattr(self, name) is not None), None)
        if name is None:
            return
        value = getattr(self, name)
        if _is_blocks(value) and name != "variance":
            for block in value:
                yield SpreadMatrix(name, _square(block, name))
        elif np.ndim(_dense(value)) == 2 and name != "variance":
            yield SpreadMatrix(name, _square(value, name))
        elif name == "covariance":
            raise ValueError(
                "covariance must be a square matrix or a list of them. For one number per weight use "
                "variance=."
            )
        else:
            _positive(value, name)

    def diagonal(self, n: int) -> Array | None:
        """Standard deviations of n weights, if they are independent."""
        if self.covariance is not None or any(self._parts()):
            return None
        name = "precision" if self.precision is not None else "variance"
        value = getattr(self, name)
        value = np.ones(n) if value is None else np.asarray(value, dtype=np.float64)
        if value.shape not in ((), (n,)):
            raise ValueError(
                f"prior: {name} has shape {value.shape}; it must be a number or have shape ({n},), one "
                "number per weight."
            )
        root: Array = np.sqrt(np.broadcast_to(value, (n,)))
        return 1.0 / root if name == "precision" else root

    def parts(self, n: int) -> list[tuple[IntArray, SpreadMatrix]]:
        """The matrices along the diagonal, with the indices of their weights."""
        out, at = [], 0
        for part in self._parts():
            out.append((np.arange(at, at + part.size), part))
            at += part.size
        if at != n:
            raise ValueError(
                f"prior: the {out[0][1].kind} is for {at} weights, but the model has {n} weights."
            )
        return out


@dataclass(frozen=True, slots=True, eq=False)
class SpreadMatrix:
    """A covariance or a precision matrix of some weights."""

    kind: str
    matrix: Array

    @property
    def size(self) -> int:
        """Number of weights."""
        return int(self.matrix.shape[0])

    def alone(self, k: int) -> bool:
        """Whether weight k is uncorrelated with all others."""
        M = self.matrix
        others = np.arange(self.size) != k
        return not (M[k, others].any() or M[others, k].any())

    def given(self, held: IntArray, shift: Array) -> tuple[Array, Any]:
        """Condition on the weights ``held``, at ``shift`` from their mean.

        Returns how far the mean of the other weights moves, and a factor T of their covariance.
        """
        rest = np.setdiff1d(np.arange(self.size), held)
        M = self.matrix
        across, own = M[np.ix_(rest, held)], M[np.ix_(held, held)]
        inner = M[np.ix_(rest, rest)]
        if self.kind == "precision":
            L = _cholesky(inner, self.kind)
            moved = -sl.cho_solve((L, True), across @ shift)
            return moved, sl.solve_triangular(L, np.eye(len(rest)), lower=True).T
        if len(held) == 0:
            return np.zeros((self.size, shift.shape[1])), _cholesky(M, self.kind)
        ratio = np.linalg.solve(own, across.T).T
        return ratio @ shift, _cholesky(inner - ratio @ across.T, self.kind)


def _is_blocks(value: object) -> bool:
    return (
        isinstance(value, list | tuple) and len(value) > 0 and all(np.ndim(b) == 2 for b in value)
    )


def _dense(value: object) -> Any:
    return canonical(value, "prior: the matrix").toarray() if sp.issparse(value) else value


def _numbers(value: object, what: str, most: int) -> Array:
    array: Array = np.asarray(value, dtype=np.float64)
    if array.ndim > most or not np.isfinite(array).all():
        raise ValueError(f"prior: {what} must contain finite numbers in at most {most} dimensions.")
    return array


def _positive(value: object, what: str) -> None:
    if not (_numbers(value, what, 1) > 0.0).all():
        zero = "that nothing is known" if what == "precision" else "that a weight is not learned"
        raise ValueError(
            f"prior: {what} must be positive. Zero would mean {zero}: "
            + ("use a small number." if what == "precision" else "use fixed= for that.")
        )


def _square(value: object, what: str) -> Array:
    matrix = _numbers(_dense(value), what, 2)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"prior: {what} has shape {matrix.shape}, but must be square.")
    return matrix


def _cholesky(matrix: Array, what: str) -> Array:
    """The lower factor; raises unless the matrix is symmetric and positive definite."""
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-12 * np.abs(matrix).max(initial=0.0)):
        raise ValueError(f"prior: the {what} matrix is not symmetric.")
    diagonal = np.diagonal(matrix)
    wrong = (
        f"prior: the {what} matrix is not positive definite (it is singular or has negative eigenvalues). "
        "Add a small number to its diagonal, or use fixed= for weights that are not learned."
    )
    if not (diagonal > 0.0).all():
        raise ValueError(wrong)
    root = np.sqrt(diagonal)
    try:
        L = sl.cholesky(matrix / root / root[:, None], lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise ValueError(wrong) from None
    if (np.diagonal(L) ** 2 < SINGULAR * len(L)).any():
        raise ValueError(wrong)
    return np.asarray(root[:, None] * L)
