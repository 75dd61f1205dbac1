"""The seams of the house: what a solver may ask of a risk, and what a risk may ask of a task.

A solver sees :class:`Risk` and :class:`Evaluation` (and, where the risk offers them,
:class:`LineEvaluation` or :class:`WorkingSets`); it never sees data, labels, threads or machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.sampling import Draw, Terms
from maxmargin.core.vectors import Array, IntArray, all_writable

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


class SampledEvaluation(Evaluation, Protocol):
    """An evaluation of a risk with ``oracle = "sampled"``: its cuts are drawn (see
    :mod:`maxmargin.core.sampling`). A risk that can begin with few examples, and get to know
    more of them, has a method ``extend(size, seed)``: see :class:`maxmargin.core.requests.Extend`."""

    def terms(self, trial: Self, examples: IntArray | None = None) -> Terms:
        """The exact cut here, example by example, seen from ``trial``; of some examples as if they were
        all."""

    def fresh_terms(self, trial: Self) -> Terms:
        """The same, where :meth:`terms` speaks of the change of a plane (``Terms.exact`` is not None),
        without it. Otherwise never asked for."""

    def sampled_cut(self, draw: Draw, whole: bool) -> Cut:
        """A cut of the drawn examples. ``whole``: its offset and its plane in free coordinates are those of
        all."""


class Risk(Protocol):
    """A convex function that can be evaluated and answers with a cut that is tight there."""

    @property
    def dim(self) -> int:
        """Length of ``w``."""

    @property
    def n_blocks(self) -> int:
        """Number of parts in :meth:`Evaluation.cuts`."""

    @property
    def lower_bound(self) -> float:
        """A number that every block of the risk never falls below (0 for all losses)."""

    @property
    def oracle(self) -> OracleKind:
        """What the argmax behind the values finds."""

    @property
    def has_cache(self) -> bool:
        """True if ``evaluate(w, exact=False)`` is cheaper than an exact evaluation."""

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """Evaluate at ``w``; with ``exact=False`` a risk may answer from constraints seen before."""

    def evaluate_many(self, points: Sequence[Array]) -> list[Evaluation]:
        """Evaluate several points in one pass over the data."""


@runtime_checkable
class ProvedRisk(Protocol):
    """A risk that can say what rounding may have done to its values."""

    @property
    def n_examples(self) -> int:
        """Number of rows."""

    def rounding(self, w: Array, value: float) -> float:
        """What rounding may have done to ``value``, computed as R(w)."""

    def proved_value(self, w: Array, enough: float) -> float:
        """R(w) with an error of at most ``enough``, or an upper bound of it."""


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


class WorkingSets(Protocol):
    """The dual state of a coordinate solver: per example a few labellings with their multipliers.

    Example i owns planes p_ij (p_i0 = 0 belongs to the truth) with offsets l_ij, and multipliers
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
        """Planes held, the truths not counted."""

    @property
    def n_support(self) -> int:
        """Planes with a positive multiplier, the truths not counted."""

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
        example are multiplied by the ratio of its caps (all on the truth where its cap was zero)."""

    def state(self) -> dict[str, Any]:
        """Labellings and multipliers, as plain arrays: all that is needed to go on later."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take what :meth:`state` of sets of the same examples and caps gave; ``w`` is computed anew. A
        ValueError where it cannot be theirs."""


class CoordinateRisk(Risk, Protocol):
    """A risk that can show single examples."""

    def working_sets(self, C: float, regularizer: SquaredNorm) -> WorkingSets:
        """Fresh sets with all weight on the truths (w = 0)."""

    def caps(self, C: float) -> Array:
        """c_i = C s_i of each example."""

    def answers(self, w: Array) -> list[Answers]:
        """The oracle's answers for all examples at ``w``, in shard order."""

    def answers_for(self, w: Array, examples: IntArray, quick: bool = False) -> list[Answers]:
        """The oracle's answers for these examples at ``w``, one each, in this order. ``quick``: some that
        may fall short of the maximum will do (their bounds are infinite)."""


@dataclass(frozen=True, slots=True, eq=False)
class LatentAnswers:
    """What the completing argmax said for a range of examples: the values found, by how much each scores
    more than the one held, and the size of the scores compared (what rounding errors scale with)."""

    latent: list[Any]
    gains: Array
    scales: Array


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """Values for what was not labelled, the best ones at some w.

    ``decrease`` is by how much the risk falls at that w when they replace the values held before,
    ``n_changed`` how many examples have another one. ``passes`` are calls of the loss-augmented argmax per
    example, where it had to be asked to know the decrease.
    """

    latent: list[Any]
    decrease: float
    n_changed: int
    passes: float = 0.0


class LatentRisk(Risk, Protocol):
    """A convex risk with values given to what was not labelled: a majorant of a risk that is not convex."""

    @property
    def latent(self) -> list[Any]:
        """The values, one per example."""

    def complete(self, w: Array) -> Completion:
        """The best values at ``w``, those held where they are as good. An error if one found is worse."""

    def completed(self, latent: Sequence[Any], memory: Any = None) -> tuple[Self, Any]:
        """The risk with other values, and what a solver kept for this one carried over to it (or None). This
        risk must not be used any more."""


class RowDuals(Protocol):
    """A dual point over the rows of a score risk, and a method to improve it.

    The multipliers alpha of the rows (one each, or one per class) give the point
    ``w = sum_i alpha_i dl_i`` and a dual value D(alpha) <= F(w*). The solver owns schedule, bounds
    and stopping; what is behind this seam is one compiled epoch of coordinate ascent or one Newton
    step.
    """

    @property
    def w(self) -> Array:
        """The primal point of the current multipliers (a view that later steps change)."""

    @property
    def n_examples(self) -> int:
        """Number of rows in the problem."""

    @property
    def C(self) -> float:
        """The C of the present multipliers."""

    @property
    def scale(self) -> float:
        """The largest C at which the problem is surely easy: 1 over the mean of ``|x|^2``."""

    @property
    def n_steps(self) -> int:
        """Steps that make one visit of all rows."""

    @property
    def n_active(self) -> int:
        """Rows the next step will visit; the others sit at a bound and are expected to stay. (Rows held in
        memory, where the others are not.)"""

    @property
    def n_support(self) -> int:
        """Rows with a multiplier that is not zero."""

    def improve(self, seed: int) -> SweepStats:
        """One epoch or one Newton step. ``stats.gap`` estimates the duality gap, as rows were
        visited, for free; ``stats.oracle_calls`` counts the rows visited."""

    def check(self, scores: Array) -> None:
        """Take the exact scores of all rows at the current ``w``: the active rows are chosen anew."""

    def dual_estimate(self, C: float) -> float:
        """The dual value for this C of the best feasible multiple of alpha, from the ``w`` that the
        steps kept: right up to rounding, and cheap. At the C of the steps the multiple is alpha."""

    def dual_value(self, C: float) -> float:
        """The same with ``w`` recomputed from the multipliers, which also resets ``w``."""

    def proved_value(self, C: float, negligible: float) -> float:
        """The same less what rounding may have added, unless that is negligible."""

    def aggregate(self) -> Cut:
        """The multipliers as one cut of the risk: with it alone a bundle reaches D(alpha)."""

    @property
    def multipliers(self) -> Array:
        """The multipliers, one row each, zero for rows outside the problem (a view)."""

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers, brought into the box of the present C."""

    def state(self) -> dict[str, Any]:
        """Multipliers and what else the method needs to go on later, as plain arrays."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take what :meth:`state` of duals of the same rows at the same C gave; a ValueError where it cannot
        be theirs."""

    def start_at(self, w: Array, gap: float) -> None:
        """Take a hint: a point that another method found, with the relative gap left there."""

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Carry multipliers and ``w`` over to another C, and to what bounds its free coordinates."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What the oracle said for the examples ``lo .. hi-1`` at one ``w``.

    ``labelings`` is the task's own container (a list for plain Python, a flat array with pointers
    for compiled tasks); ``losses`` are Delta(y_i, y^_i); ``values`` the attained
    Delta + <w, Psi(x_i, y^_i) - Psi(x_i, y_i)> (margin) or Delta (1 + ...) (slack); ``uppers`` a
    bound of the maximum, equal to ``values`` unless a solver was truncated.
    """

    lo: int
    hi: int
    labelings: Any
    losses: Array
    values: Array
    uppers: Array

    def __reduce__(self) -> Any:
        fields = (self.lo, self.hi, self.labelings, self.losses, self.values, self.uppers)
        return _arrived, fields


def _arrived(*fields: Any) -> Answers:
    """Answers that have travelled: their arrays may have come read-only."""
    return Answers(*all_writable(fields))


class Examples(Protocol):
    """Examples of one task, packed where the oracle runs. Nothing is written after construction.

    Examples that are to travel to workers have a method ``part(lo, hi)`` too: the examples ``lo .. hi-1``
    alone, counted from 0, which answer with the same bits. Without it all examples go to every shard. Answers
    speak of an example in the same way whatever the range it is in.
    """

    @property
    def dim(self) -> int:
        """Length of ``w``."""

    def __len__(self) -> int:
        """Number of examples."""

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """Loss-augmented argmax of the examples ``lo .. hi-1``."""

    def cut(self, answers: Answers, weights: Array) -> Cut:
        """The weighted sum of the answers' planes: offset = sum s_i Delta_i,
        plane = sum s_i rho_i (Psi(x_i, y^_i) - Psi(x_i, y_i)). ``weights`` covers ``lo .. hi-1``."""

    def cache(self, lo: int, hi: int, size: int) -> ConstraintCache:
        """An empty cache of at most ``size`` labellings for each of the examples ``lo .. hi-1``."""

    def working_sets(self, caps: Array) -> WorkingSets:
        """Fresh dual state with caps ``c_i`` (zero caps allowed: such examples are never visited).

        Examples whose sets know weights that must not be negative have ``signed_sets = True`` and take the
        regularizer as a second argument."""

    def predict(self, w: Array, lo: int, hi: int) -> list[Any]:
        """The argmax without loss."""


class LatentExamples(Examples, Protocol):
    """Examples of which each has a latent value, completed."""

    def complete(self, w: Array, lo: int, hi: int) -> LatentAnswers:
        """The latent values of largest score at ``w`` for the labelled outputs of ``lo .. hi-1``."""

    def completed(self, latent: Sequence[Any]) -> LatentExamples:
        """The same examples with other latent values."""


class ConstraintCache(Protocol):
    """The most recently used labellings of a range of examples: a cheap lower model of the risk.

    Entries are numbered; those of local example i are ``pointers[i] .. pointers[i+1]-1``. The truth
    (value 0) is not stored. Numbers stay valid until the next :meth:`insert`.
    """

    @property
    def pointers(self) -> IntArray:
        """Boundaries of the examples' entries."""

    def insert(self, answers: Answers) -> None:
        """Add labellings not yet held; the least recently used leave when the cache is full."""

    def scores(self, w: Array) -> Array:
        """The value Delta_j + <w, p_j> of every entry."""

    def touch(self, chosen: IntArray) -> None:
        """Mark entries (one number per example, -1 for the truth) as used."""

    def cut(self, chosen: IntArray, weights: Array) -> Cut:
        """The weighted sum of the chosen entries' planes, one per example (-1: the truth, no plane)."""
