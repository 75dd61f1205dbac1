"""How the examples of a problem are visited, and what a visit of them found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class SweepStats:
    """What one sweep over the examples did.

    ``gap`` is the sum over examples of c_i max_j g_ij - sum_j alpha_ij g_ij as each was *visited*:
    an estimate of the duality gap that triggers a confirming pass, never a bound.
    """

    oracle_calls: int
    gap: float
    new_planes: int


Schedule: TypeAlias = Literal["gap", "larank", "one-pass", "fill"]
"""When a stream explores and when it optimises what it holds."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """How rows that are not in memory are visited; see :class:`maxmargin.solvers.DualCoordinate`."""

    schedule: Schedule = "gap"
    prune: Literal["immediate", "delayed"] = "delayed"
    max_epochs: int = 10
    chunks: int = 20
    max_cached: int | None = None
