"""Planes that stay where the rows are, for more features than the caller can hold vectors of.

A point is then the short vector of its factors over numbered planes, which the shards keep as two numbers per
row (see :mod:`maxmargin.risks.scores.wide`). Numbers of planes that nobody needs any more are used again, so
what a solver holds must be rewritten from time to time, and a checkpoint must say what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.vectors import Array, Vector


class Incumbent(Protocol):
    """The parts of a solver's state that are over numbered planes."""

    w: Array
    dual: FeasibleDual | None
    memory: Any


class PlaneColumns(Protocol):
    """How the numbered planes were made."""

    @property
    def size(self) -> int:
        """Scores at all rows: their length is that of a plane at the shards."""

    @property
    def max_planes(self) -> int:
        """Planes that a bundle may hold."""

    @property
    def n_mixes(self) -> int:
        """How often numbers have been given new meanings."""


class NumberedPlanes(Protocol):
    """A risk whose points are combinations of numbered planes."""

    def tidy(self, state: Incumbent) -> None:
        """Between two iterations: if no number is free, drop planes that nobody needs, and rewrite the state
        over those that are left."""


class KeptPlanes(Protocol):
    """Numbered planes that a checkpoint can describe."""

    def columns_state(self) -> dict[str, Any]:
        """How the planes were made, as plain arrays."""

    def restore_columns(self, state: dict[str, Any]) -> None:
        """Go on with planes from a checkpoint; a ValueError where they cannot be this risk's."""

    def require_columns(self, vectors: Sequence[Vector]) -> None:
        """A ValueError unless points and planes from a file are combinations of planes that exist."""
