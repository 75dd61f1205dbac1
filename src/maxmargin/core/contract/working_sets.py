"""The dual of a structured problem over a few outputs of each example, and a risk that offers it.

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
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray


@runtime_checkable
class WorkingSets(Protocol):
    """The dual state of a coordinate solver: per example a few labellings with their multipliers.

    Example i owns planes p_ij (p_i0 = 0 is that of the true output) with offsets l_ij, and multipliers
    alpha_ij >= 0 that add up to c_i = C s_i. The point is ``w = - sum_ij alpha_ij p_ij`` and
    ``g_ij = l_ij + <w, p_ij>``. The solver owns schedule, bounds and stopping; a problem
    contributes the three sweeps below, each of which takes exact block steps and keeps ``w`` in
    step.
    """

    @property
    def w(self) -> Array:
        """The primal point of the current multipliers (a view that later sweeps change)."""

    @property
    def n_examples(self) -> int:
        """Number of examples."""

    @property
    def n_planes(self) -> int:
        """Planes held, those of the true outputs not counted."""

    @property
    def n_support(self) -> int:
        """Planes with a positive multiplier, those of the true outputs not counted."""

    @property
    def gaps(self) -> Array:
        """What each example was last seen to lack: infinite before its first visit, 0 for a cap of zero."""

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        """For each example of ``order`` whose last seen gap is at least ``skip_below``: ask the
        oracle at the current ``w``, add its answer to the set if new, and solve the example's
        small simplex problem. Examples that were skipped contribute their last seen gap."""

    def epoch(self, order: IntArray) -> SweepStats:
        """The same block step over the cached planes only, without the oracle."""

    def begin(self, order: IntArray, skip_below: float) -> IntArray:
        """Begin a sweep of which the oracle is asked elsewhere: the examples :meth:`stream` would ask for."""

    def absorb(self, answers: Sequence[Answers]) -> SweepStats:
        """Take answers for some examples, each with its block step, in this order. They may have been
        given at an earlier ``w``; the gaps are those over the planes then held, at the current one."""

    def confirm(self, answers: Sequence[Answers]) -> tuple[float, float]:
        """Take the oracle's answers for *all* examples at the current ``w`` (in shard order):
        they enter the sets, the examples' gaps are refreshed, and (value, upper) of
        C R(w) = sum_i c_i max_j g_ij there is returned."""

    def drop_idle(self, age: int) -> None:
        """Forget planes with multiplier zero that were not used in the last ``age`` sweeps:
        calls of :meth:`stream`, :meth:`begin` or :meth:`confirm`."""

    def dual_value(self) -> float:
        """The dual objective ``sum alpha l - |w|^2 / 2`` of the current multipliers, with ``w`` (clipped
        where weights must not be negative) recomputed from them: a true lower bound for any state of the
        sets. Also resets ``w`` to the recomputed point, so that rounding does not accumulate."""

    def rescale(self, caps: Array) -> None:
        """Carry the sets over to other caps (another C, other weights): planes stay, the multipliers of an
        example are multiplied by the ratio of its caps (all on the true output where its cap was zero)."""

    def state(self) -> dict[str, Any]:
        """Labellings and multipliers, as plain arrays: all that is needed to go on later."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take what :meth:`state` of sets of the same examples and caps gave; ``w`` is computed anew. A
        ValueError where it cannot be theirs."""


class WorkingSetRisk(Protocol):
    """A risk that shows single examples to dual methods."""

    def working_sets(self, C: float, regularizer: SquaredNorm) -> WorkingSets:
        """Fresh sets with all weight on the true outputs (w = 0)."""

    def caps(self, C: float) -> Array:
        """c_i = C s_i of each example."""

    def answers(self, w: Array) -> list[Answers]:
        """The oracle's answers for all examples at ``w``, in shard order."""

    def answers_for(self, w: Array, examples: IntArray, quick: bool = False) -> list[Answers]:
        """The oracle's answers for these examples at ``w``, one each, in this order. ``quick``: some that
        may fall short of the maximum will do (their bounds are infinite)."""

    def remember(self, w: Array, answers: Sequence[Answers]) -> None:
        """These are all answers at ``w``, a frozen array: an evaluation there need not be repeated."""
