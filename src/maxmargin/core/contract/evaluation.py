"""A risk at one point: its value there and the cut that is tight there.

A cut is a linear lower bound of a convex risk, R(w') >= b + <a, w'> for all w', with equality at the point
where it was taken (for an exact oracle). Cutting planes need nothing else of a risk. Where scores are linear
in w, the risk on the line between two evaluated points needs no pass over the data.
"""

from __future__ import annotations

from typing import Literal, Protocol, Self, TypeAlias, runtime_checkable

from maxmargin.core.cut import Cut
from maxmargin.core.vectors import Array

OracleKind: TypeAlias = Literal["exact", "undergenerating", "overgenerating", "sampled"]
"""What the argmax behind a risk finds: the true maximum, possibly less, or that of a relaxation. "sampled":
the true maximum, but cuts are drawn from some of the examples only, and may lie above the risk."""


@runtime_checkable
class Evaluation(Protocol):
    """A risk pinned at ``w``. Lazy, and nothing is computed twice."""

    @property
    def w(self) -> Array:
        """The point."""

    @property
    def value(self) -> float:
        """The cut's value at ``w``: a lower bound of R(w), equal to it for an exact oracle."""

    @property
    def upper(self) -> float:
        """An upper bound of R(w); above ``value`` only where an oracle was truncated or the
        evaluation came from a cache (then infinite)."""

    def cut(self) -> Cut:
        """The cut that is tight at ``w``."""

    def cuts(self) -> list[Cut]:
        """The same cut as one part per block; the parts add up to :meth:`cut`."""


@runtime_checkable
class LineEvaluation(Evaluation, Protocol):
    """An evaluation of a risk whose scores are linear in ``w``: lines need no pass over the data."""

    def toward(self, other: Self, t: float) -> Self:
        """The evaluation at ``w + t (other.w - w)``."""

    def slopes(self, other: Self, ts: Array) -> Array:
        """Derivatives dR/dt at several ascending ``t``, in one round: right derivatives at kinks,
        exactly so at ``t = 0`` and up to the rounding of a tie elsewhere."""

    def breakpoints(
        self, other: Self, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """All kinks of R along the line in ``(lo, hi)`` with their jumps of slope, unsorted; None
        if there may be more than ``limit`` of them or the risk is not piecewise linear."""
