"""Stopping rules: small objects that the solver queries after every new bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from maxmargin.core.result import relative_gap


@dataclass(frozen=True, slots=True)
class Bounds:
    """The input of a rule: F of the incumbent, the lower bound, and C."""

    upper: float
    lower: float
    C: float


class StoppingRule(Protocol):
    """Protocol of stopping rules: a method ``met`` and a tolerance."""

    @property
    def tol(self) -> float:
        """The tolerance, in the rule's own units."""

    def met(self, bounds: Bounds) -> bool:
        """True when the solver may stop."""

    def allowed_gap(self, upper: float, C: float) -> float:
        """The absolute gap at which the rule is met."""


def _check(tol: float) -> None:
    if not tol > 0.0:
        raise ValueError(f"tol={tol!r}: a tolerance must be a positive number.")


@dataclass(frozen=True, slots=True)
class RelativeGap:
    """Stop when (F(w) - lower) / F(w) <= tol. This is the default.

    Examples
    --------
    >>> from maxmargin.solvers import RelativeGap
    >>> RelativeGap(1e-2)
    RelativeGap(tol=0.01)
    """

    tol: float = 1e-3

    def __post_init__(self) -> None:
        _check(self.tol)

    def met(self, bounds: Bounds) -> bool:
        """True when the relative gap is small enough."""
        return relative_gap(bounds.upper, bounds.lower) <= self.tol

    def allowed_gap(self, upper: float, C: float) -> float:
        """tol * F."""
        return self.tol * abs(upper)


@dataclass(frozen=True, slots=True)
class AbsoluteGap:
    """Stop when F(w) - lower <= tol.

    Examples
    --------
    >>> from maxmargin.solvers import AbsoluteGap
    >>> AbsoluteGap(0.5)
    AbsoluteGap(tol=0.5)
    """

    tol: float

    def __post_init__(self) -> None:
        _check(self.tol)

    def met(self, bounds: Bounds) -> bool:
        """True when the absolute gap is small enough."""
        return bounds.upper - bounds.lower <= self.tol

    def allowed_gap(self, upper: float, C: float) -> float:
        """tol itself."""
        return self.tol


@dataclass(frozen=True, slots=True)
class RiskEpsilon:
    """The papers' rule, R(w_t) <= xi_t + tol, in the form that any solver can certify: F(w) - lower <= C tol.

    If the reduced problem is solved exactly, F(w_t) - lower = C (R(w_t) - xi_t), so the two are equivalent.
    R is a sum over examples here; the papers' epsilon, for the mean, is tol / n.

    Examples
    --------
    >>> from maxmargin.solvers import RiskEpsilon
    >>> RiskEpsilon(0.5).allowed_gap(upper=10.0, C=0.1)
    0.05
    """

    tol: float

    def __post_init__(self) -> None:
        _check(self.tol)

    def met(self, bounds: Bounds) -> bool:
        """True when the gap is at most C * tol."""
        return bounds.upper - bounds.lower <= bounds.C * self.tol

    def allowed_gap(self, upper: float, C: float) -> float:
        """C * tol."""
        return C * self.tol


@dataclass(frozen=True, slots=True)
class ProvenPredictions:
    """Stop when this share of the predictions for ``X`` is proven to be that of the exact optimum.

    For :class:`maxmargin.LinearSVC` and :class:`maxmargin.LogisticRegression`, as ``tol``. The fit runs in
    rounds: each goes on from the one before with a smaller relative gap, beginning at 0.01, until
    ``estimator.proven(X)`` has the share. ``max_iter`` limits the iterations of a round. See the user guide,
    "What a certificate says about predictions".

    Parameters
    ----------
    X : array, sparse matrix, data frame or data set
        Samples to predict, of shape (n_samples, n_features). No labels are needed.
    share : float, default 0.99
        Between 0 and 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.solvers import ProvenPredictions
    >>> X, y = load_digits(return_X_y=True)
    >>> svc = LinearSVC(C=1e-4, tol=ProvenPredictions(X[900:], share=0.95)).fit(X[:900], y[:900])
    >>> svc.converged_, bool(svc.proven(X[900:]).mean() >= 0.95)
    (True, True)
    """

    X: Any = field(repr=False)
    share: float = 0.99

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(
                f"share={self.share!r}: it must be above 0 and at most 1, such as 0.99."
            )

    def __deepcopy__(self, memo: Any) -> ProvenPredictions:
        return self  # clones share the samples

    @property
    def tol(self) -> float:
        """The share of predictions that need not be proven."""
        return 1.0 - self.share

    def met(self, bounds: Bounds) -> bool:
        """Refuse: the rule needs an estimator."""
        raise TypeError(
            "tol=ProvenPredictions(...) is for the classifiers LinearSVC and LogisticRegression, without "
            "cross-validation. Use a relative gap, such as tol=1e-3."
        )

    def allowed_gap(self, upper: float, C: float) -> float:
        """Refuse: the rule needs an estimator."""
        return float(self.met(Bounds(upper, 0.0, C)))


def stops(answer: object) -> bool:
    """Whether a callback asks to stop: only True does, also NumPy's, and not any other value.

    Examples
    --------
    >>> stops(True), stops(np.bool_(True)), stops(1), stops(None)
    (True, True, False, False)
    """
    return answer is True or (isinstance(answer, np.bool_) and bool(answer))
