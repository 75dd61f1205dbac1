"""Evaluation of a risk at a point: its value and a cut that is tight there.

A cut is a linear lower bound of a convex risk, R(w') >= b + <a, w'> for all w', with equality at the point
of evaluation (for an exact oracle). Cutting-plane methods need nothing else. If scores are linear in w,
evaluating the risk on the line between two evaluated points takes no pass over the data.
"""

from __future__ import annotations

from typing import Literal, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

from maxmargin.core.cut import Cut
from maxmargin.core.vectors import Array

OracleKind: TypeAlias = Literal["exact", "undergenerating", "overgenerating", "sampled"]
"""What the oracle behind a risk finds: the exact maximum, possibly less (undergenerating), or the maximum of
a relaxation (overgenerating). "sampled": the exact maximum, but cuts are computed from a sample of the
examples and may lie above the risk."""


@runtime_checkable
class Evaluation(Protocol):
    """A risk evaluated at ``w``: lazy, and nothing is computed twice."""

    @property
    def w(self) -> Array:
        """The point of evaluation."""

    @property
    def value(self) -> float:
        """The cut's value at ``w``: a lower bound of R(w), equal to it for an exact oracle."""

    @property
    def upper(self) -> float:
        """An upper bound of R(w). It exceeds ``value`` only if inference was truncated, or if the
        evaluation came from a cache (then it is infinite)."""

    def cut(self) -> Cut:
        """The cut that is tight at ``w``."""


@runtime_checkable
class LineEvaluation(Evaluation, Protocol):
    """An evaluation of a risk whose scores are linear in ``w``: line searches take no pass over the data."""

    def toward(self, other: Self, t: float) -> Self:
        """The evaluation at ``w + t (other.w - w)``."""

    def slopes(self, other: Self, ts: Array) -> Array:
        """Derivatives dR/dt at several ascending ``t``, in one round. At kinks these are right derivatives:
        exactly at ``t = 0``, elsewhere up to rounding."""

    def breakpoints(
        self, other: Self, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """All kinks of R along the line in ``(lo, hi)`` with their jumps in slope, unsorted. None
        if there may be more than ``limit`` of them or if the risk is not piecewise linear."""


_line_kinds: dict[type, bool] = {}


def moves_along_lines(evaluation: Evaluation) -> TypeGuard[LineEvaluation]:
    """Whether this is a :class:`LineEvaluation`. A class is looked at once, because ``isinstance`` of a
    protocol is slow before Python 3.12, and solvers ask several times per iteration."""
    kind = type(evaluation)
    if kind not in _line_kinds:
        _line_kinds[kind] = isinstance(evaluation, LineEvaluation)
    return _line_kinds[kind]
