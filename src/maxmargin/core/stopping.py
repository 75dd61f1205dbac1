"""Stopping rules: small objects that the solver queries after every new bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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


def stops(answer: object) -> bool:
    """Whether a callback asks to stop: only True does, also NumPy's, and not any other value.

    Examples
    --------
    >>> stops(True), stops(np.bool_(True)), stops(1), stops(None)
    (True, True, False, False)
    """
    return answer is True or (isinstance(answer, np.bool_) and bool(answer))
