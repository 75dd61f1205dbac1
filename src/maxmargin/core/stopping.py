"""When to stop: a rule is a small object asked after every new bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from maxmargin.core.result import relative_gap


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a rule may look at: F of the incumbent, the lower bound, and C."""

    upper: float
    lower: float
    C: float


class StoppingRule(Protocol):
    """Anything with a method ``met``."""

    @property
    def tol(self) -> float:
        """The tolerance, in the rule's own unit."""

    def met(self, bounds: Bounds) -> bool:
        """True when the solver may stop."""

    def allowed_gap(self, upper: float, C: float) -> float:
        """The absolute gap at which the rule would be met."""


def _check(tol: float) -> None:
    if not tol > 0.0:
        raise ValueError(f"tol={tol!r}: a tolerance must be a positive number.")


@dataclass(frozen=True, slots=True)
class RelativeGap:
    """Stop when (F(w) - lower) / F(w) <= tol: the default.

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
    """The papers' rule, R(w_t) <= xi_t + tol, in the form that any solver can prove: F(w) - lower <= C tol.

    With an exactly solved reduced problem F(w_t) - lower = C (R(w_t) - xi_t), so the two are one.
    R is a sum over examples here; the papers' epsilon, on the mean, is tol / n.

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
