"""How the examples of a problem are visited, and the statistics of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class SweepStats:
    """Statistics of one sweep over the examples.

    ``gap_estimate`` is the sum over examples of c_i max_j g_ij - sum_j alpha_ij g_ij at the time each was
    *visited*. It triggers a confirming pass, and is never a bound.
    """

    oracle_calls: int
    gap_estimate: float
    new_planes: int


Schedule: TypeAlias = Literal["gap", "one_pass", "n_slack"]
"""When a stream loads new rows and when it optimizes over the rows in memory."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """How rows outside memory are visited; see :class:`maxmargin.solvers.DualCoordinate`."""

    schedule: Schedule = "gap"
    max_epochs: int = 10
    chunks: int = 20
    max_cached: int | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of rows that are visited at the same time, and how often per epoch their changes are merged;
    see :class:`maxmargin.solvers.DualCoordinate`. None: chosen by the size of the data. ``epochs``: the most
    epochs per round over blocks that stay with their shards."""

    count: int | None = None
    rounds: int | None = None
    epochs: int = 10
