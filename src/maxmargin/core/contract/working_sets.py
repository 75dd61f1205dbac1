"""The dual of a structured problem over a working set of outputs per example, and the risk that provides it.

    max over alpha     sum_ij alpha_ij l_ij - 1/2 |sum_ij alpha_ij p_ij|^2
    subject to         alpha_ij >= 0,   sum_j alpha_ij = c_i = C s_i

over the outputs j that the oracle has returned for example i so far: n-slack cutting planes (Joachims, Finley
and Yu) and dual coordinate ascent (Ramanan).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.engine import Engine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray


@runtime_checkable
class WorkingSets(Protocol):
    """The dual state of a coordinate solver: per example, a few labelings with their multipliers.

    Example i has planes p_ij (p_i0 = 0 belongs to the true output) with offsets l_ij, and multipliers
    alpha_ij >= 0 that sum to c_i = C s_i. The point is ``w = - sum_ij alpha_ij p_ij`` and
    ``g_ij = l_ij + <w, p_ij>``. The solver decides on schedule, bounds and stopping. Each implementation
    provides the sweeps below, which take exact block steps and keep ``w`` up to date.
    """

    @property
    def w(self) -> Array:
        """The primal point of the current multipliers (a view that later sweeps change)."""

    @property
    def n_examples(self) -> int:
        """Number of examples."""

    @property
    def n_planes(self) -> int:
        """Number of planes held, without those of the true outputs."""

    @property
    def n_support(self) -> int:
        """Number of planes with a positive multiplier, without those of the true outputs."""

    @property
    def gaps(self) -> Array:
        """Duality-gap contribution of each example when last visited: infinite before, 0 for a zero cap."""

    @property
    def batch_size(self) -> int:
        """Number of examples whose oracle calls see the same ``w`` if the solver does not say it: 1 if
        :meth:`stream` is one compiled call, more if an engine can answer in parallel."""

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        """For each example of ``order`` whose last gap contribution is at least ``skip_below``: call the
        oracle at the current ``w``, add its output to the working set if new, and solve the example's
        small simplex problem. Skipped examples contribute their last gap."""

    def epoch(self, order: IntArray) -> SweepStats:
        """The same block steps over the cached planes only, without oracle calls."""

    def begin(self, order: IntArray, skip_below: float) -> IntArray:
        """Begin a sweep with oracle calls made elsewhere. Return the examples that :meth:`stream` would
        visit."""

    def absorb(self, answers: Sequence[Answers]) -> SweepStats:
        """Add answers for some examples, with one block step each, in this order. They may have been
        computed at an earlier ``w``; the gaps are those at the current one, over the planes then held."""

    def confirm(self, answers: Sequence[Answers]) -> tuple[float, float]:
        """Add the oracle's answers for *all* examples at the current ``w`` (in shard order) to the
        working sets and refresh the examples' gaps. Return (value, upper) of
        C R(w) = sum_i c_i max_j g_ij."""

    def drop_idle(self, age: int) -> None:
        """Drop planes with multiplier zero that were not used in the last ``age`` sweeps
        (calls of :meth:`stream`, :meth:`begin` or :meth:`confirm`)."""

    def dual_value(self) -> float:
        """The dual objective ``sum alpha l - |w|^2 / 2`` of the current multipliers, with ``w`` recomputed
        from them (and clipped where weights must be nonnegative): a valid lower bound for any multipliers.
        Also resets ``w`` to the recomputed point, so that rounding errors do not accumulate."""

    def rescale(self, caps: Array) -> None:
        """Convert the working sets to other caps (another C, other weights). Planes stay; the multipliers of
        an example scale with its cap (all on the true output where its cap was zero)."""

    def state(self) -> dict[str, Any]:
        """Labelings and multipliers as plain arrays: everything needed to continue later."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`state` of the same examples and caps; ``w`` is recomputed. Raise ValueError if it
        does not fit."""


class WorkingSetRisk(Protocol):
    """A risk that gives dual methods access to single examples."""

    @property
    def engine(self) -> Engine:
        """The engine that holds the shards of the risk."""

    def working_sets(self, C: float, regularizer: SquaredNorm) -> WorkingSets:
        """New working sets with all weight on the true outputs (w = 0)."""

    def caps(self, C: float) -> Array:
        """c_i = C s_i of each example."""

    def answers(self, w: Array) -> list[Answers]:
        """The oracle's answers for all examples at ``w``, in shard order."""

    def in_turn(self, examples: IntArray) -> IntArray:
        """These examples in an order in which neighbors belong to different shards, as far as possible: so a
        batch of them keeps all workers busy. It depends on the data, and not on the number of workers."""

    def answers_for(self, w: Array, examples: IntArray, quick: bool = False) -> list[Answers]:
        """The oracle's answers for these examples at ``w``, one each, in this order. ``quick``: answers
        below the maximum are acceptable (their upper bounds are infinite)."""

    def remember(self, w: Array, answers: Sequence[Answers]) -> None:
        """Store all answers at ``w``, a read-only array, so that an evaluation there needs no oracle
        calls."""
