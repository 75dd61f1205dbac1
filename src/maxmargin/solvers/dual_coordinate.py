"""Dual coordinate ascent over per-example working sets (Ramanan's algorithm 2 run in cycles).

    maximise   D(alpha) = sum_ij alpha_ij l_ij - 1/2 |w|^2,    w = - sum_ij alpha_ij p_ij,
               alpha_ij >= 0,  sum_j alpha_ij = c_i = C s_i

Each example keeps the few labellings its oracle returned, the truth first (plane 0, p = 0, l = 0),
so the simplex is an equality and the paper's single step is a pair step with plane 0. One
iteration:

    stream   for i in random order: ask the oracle at the current w, add its answer, solve the example's
             simplex problem; examples whose last gap was far below their share of the tolerance are skipped
    epochs   the same block steps over the cached planes, without the oracle, until their gap fell to 0.3 of
             the stream's
    confirm  when the gaps seen add up to less than 1.5 tolerances: the oracle on all examples at the fixed
             w gives the true upper bound; its answers enter the sets

Batch mode confirms every iteration instead of streaming: algorithm 1 of Joachims, Finley and Yu (n-slack),
whose reduced problem is solved by the epochs. In expensive mode (an oracle that costs more than epochs over
all the sets) the stream is cut into chunks with epochs over all examples after each, more examples are
skipped, and a few oracles, ``at_once`` of them, see the same w, so that they can be answered at the same
time.

Rows of features are simpler, one multiplier each: see :mod:`maxmargin.solvers.row_ascent`. Rows that are not
in memory are streamed (:mod:`maxmargin.duals.out_of_core`) by the same loop.

Schedules of exploring against optimising: "gap" is the rule above; "larank" visits ten cached examples for
each new one, as LaRank does; "fill" asks for all first and optimises then (for rows: when the cache is
full), the mining of hard negatives; "one-pass" is the gap rule, with a single pass.

D of any multipliers is a true lower bound at all times. With weights that must not be negative w is the
clipped point; see :mod:`maxmargin.compiled.plane_sets`. Sets held from another C are carried over: they are
worked on first, and the first question is a confirming pass.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from maxmargin.core.contract.requests import (
    Ask,
    Confirm,
    Evaluate,
    OpenSets,
    Report,
    Request,
    Steps,
    Sweep,
)
from maxmargin.core.contract.sweeps import Schedule, Streaming, SweepStats
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Attained
from maxmargin.core.vectors import Array, IntArray, frozen
from maxmargin.solvers.base import Problem, SolverState, StallDetector
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.row_ascent import Coordinates, Outlook, Stream, ascend

Asked: TypeAlias = Generator[Request, Any, float]
#: an example is skipped when its gap was below this fraction of its share of the tolerance
SKIP = {"stream": 0.3, "expensive": 1.0}
#: estimated gap, in tolerances, at which a confirming pass is worth it
CONFIRM_AT = 1.5
#: a confirming pass is forced after this many passes without one: an estimate may never trigger it
CONFIRM_EVERY = 15
#: confirming passes by which a loop with a budget is judged
JUDGED_BY = 4
#: epochs over all sets after each chunk of an expensive pass
CHUNK_EPOCHS = 3
#: with fewer examples there are more epochs: then they cost nothing, and single blocks climb slowly
FEW = 3000
#: epochs end when this many of them take off less than a hundredth
STUCK = 50
#: epochs end when the cached gap is below this fraction of the gap before them
EPOCH_EFFORT = 0.3
#: LaRank's rule: cached visits for each new one
CACHED_PER_NEW = 10
SCHEDULES = get_args(Schedule)


@dataclass(frozen=True, slots=True, eq=False)
class SetsDual:
    """The working sets as a feasible dual point."""

    sets: WorkingSets

    def value(self, regularizer: SquaredNorm, dim: int, attained: Attained) -> float:
        """The dual value, recomputed from the multipliers."""
        return self.sets.dual_value()

    def point(self) -> Array:
        """The primal point of the multipliers, recomputed."""
        self.sets.dual_value()
        return frozen(self.sets.w)


@dataclass(frozen=True, slots=True)
class DualCoordinate:
    """Working-set dual coordinate solver: the default for structures, and the stream of rows.

    For rows of features that are not in memory (a data set on disk, features computed on the fly) it reads
    them in pieces and keeps a bounded number of them; see the page "Streams".

    Parameters
    ----------
    mode : {"stream", "batch", "expensive"}, default "stream"
        "stream" lets every oracle call see the newest weights; "batch" asks for all examples at
        fixed weights, the n-slack algorithm of Joachims, Finley and Yu; "expensive" spends more time on the
        sets to save calls of the oracle. It pays when a pass of the oracle takes longer than ten epochs over
        the sets, which is surely so when a call takes much more than a millisecond.
    max_epochs : int, default 10
        Sweeps over the cached planes between two passes of the oracle (ten times as many in batch
        mode).
    idle : int, default 8
        Planes with multiplier zero that were not used in this many passes are dropped.
    chunks : int, default 20
        Expensive mode: pieces of a pass, with three epochs over all sets after each. Streams and "larank":
        pieces of a pass at least (a piece of a stream has 32 MB at most).
    at_once : int, default 4
        Expensive mode: oracle calls that see the same weights, and can be made at the same time by an engine
        with as many workers. The result depends on it, not on the number of workers.
    schedule : {"gap", "larank", "one-pass", "fill"}, default "gap"
        When to explore and when to optimise what is cached. "gap": optimise until the cache lacks a small
        part of what the last examples lacked; "larank": ten cached visits for each new one; "fill":
        explore until the cache is full (structures: one whole pass, which is ``mode="batch"``), then
        optimise it; "one-pass": the gap rule, and the end after one pass. Rows in memory need no
        schedule; with one that is not "gap" they are streamed as if they were not.
    prune : {"delayed", "immediate"}, default "delayed"
        What leaves the cache: "immediate" lets go of all that sits at a bound and wants to stay there;
        "delayed" keeps it until there is no room (structures: until ``idle`` passes did not use it).
    max_cached : int, optional
        Rows of a stream that are kept in memory; as many as fit into 128 MB by default. Rows in memory
        are streamed too if it is given.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SequenceTagger
    >>> from maxmargin.solvers import DualCoordinate
    >>> X, y = [[["sun"], ["shines"]], [["rain"], ["falls"]]], [["N", "V"], ["N", "V"]]
    >>> SequenceTagger(solver=DualCoordinate(mode="batch")).fit(X, y).converged_
    True
    """

    mode: Literal["stream", "batch", "expensive"] = "stream"
    max_epochs: int = 10
    idle: int = 8
    chunks: int = 20
    at_once: int = 4
    schedule: Schedule = "gap"
    prune: Literal["delayed", "immediate"] = "delayed"
    max_cached: int | None = None

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule={self.schedule!r}: use one of {', '.join(SCHEDULES)}.")
        if self.prune not in ("delayed", "immediate"):
            raise ValueError(f"prune={self.prune!r}: use 'delayed' or 'immediate'.")
        if self.max_cached is not None and self.max_cached < 1:
            raise ValueError(f"max_cached={self.max_cached!r}: at least one row must fit.")
        if self.mode not in ("stream", "batch", "expensive"):
            raise ValueError(f"mode={self.mode!r}: use 'stream', 'batch' or 'expensive'.")
        if self.chunks < 1 or self.at_once < 1:
            raise ValueError(
                f"chunks={self.chunks!r}, at_once={self.at_once!r}: at least 1 each is needed."
            )

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The loop over rows where the risk shows them, else over working sets."""
        streams = self.schedule != "gap" or self.max_cached is not None
        if "coordinate" in problem.methods and not streams:
            if self.prune != "delayed":
                raise ValueError(
                    "prune='immediate' is about rows that are cached, and these are all in memory: leave it "
                    "out, or let them be streamed with max_cached=."
                )
            return ascend(problem, state, Coordinates(self.max_epochs))
        if "stream" in problem.methods:
            return ascend(problem, state, Stream(self.streaming))
        return self.over_sets(problem, state)

    @property
    def needs(self) -> Needs:
        """Rows that can be visited one by one, or working sets of single examples."""
        streams = self.schedule != "gap" or self.max_cached is not None
        methods = ("stream",) if streams else ("coordinate", "stream")
        return Needs(methods, working_sets=True)

    @property
    def streaming(self) -> Streaming:
        """What concerns rows that are not in memory."""
        return Streaming(self.schedule, self.prune, self.max_epochs, self.chunks, self.max_cached)

    def _check_sets(self, problem: Problem) -> None:
        """What working sets cannot do is refused."""
        if self.max_cached is not None:
            raise ValueError(
                "max_cached bounds the rows of a stream; the planes of structured examples are bounded by "
                "idle= and prune=."
            )
        if self.mode != "stream" and self.schedule not in ("gap", "one-pass"):
            raise ValueError(
                f"schedule={self.schedule!r} goes with mode='stream': mode={self.mode!r} has its own order "
                "of asking and optimising."
            )
        if len(problem.regularizer.free):
            raise ValueError(
                "DualCoordinate penalises every coordinate; for an intercept that is not penalised use "
                "solver=CuttingPlane()."
            )

    def over_sets(
        self, problem: Problem, state: SolverState, budget: float = float("inf")
    ) -> Steps:
        """The loop over working sets. It returns without a stop reason when more than ``budget`` passes seem
        to be left after as many: then another method should go on."""
        self._check_sets(problem)
        if self.schedule == "fill":
            yield from replace(self, mode="batch", schedule="gap").over_sets(problem, state)
            return
        n, rng = problem.n_examples, np.random.default_rng(problem.random_state)
        held = state.memory if isinstance(state.memory, WorkingSets) else None
        place = state.go_on("rng", "unconfirmed", "upper_guess", "passes", "seen")
        sets: WorkingSets = held if held is not None and place else (yield OpenSets(held))
        dual = SetsDual(sets)
        state.memory, state.dual, state.candidate = sets, dual, dual.point
        stall, unconfirmed = StallDetector(window=30, patience=300), 0
        outlook, passes = Outlook(), 0
        every = int(min(CONFIRM_EVERY, max(1.0, budget / JUDGED_BY)))
        upper_guess, carried = np.inf, held is not None and self.mode != "batch"
        if place:
            if self.mode != "expensive" and np.isfinite(state.upper):
                yield Evaluate(state.w)  # the driver compares
            rng.bit_generator.state = place["rng"]
            unconfirmed, upper_guess, carried = place["unconfirmed"], place["upper_guess"], False
            outlook, passes = Outlook(place["seen"]), place["passes"]
        state.place = lambda: {
            "rng": rng.bit_generator.state,
            "unconfirmed": unconfirmed,
            "upper_guess": upper_guess,
            "passes": passes,
            "seen": outlook.seen(),
        }
        while True:
            if passes and not unconfirmed:  # F was computed; also first of all after a resume
                allowed = problem.stopping.allowed_gap(state.upper, problem.C)
                if stall.stalled(state.gap, state.upper, allowed):
                    state.stop = "stalled"
                    return
                left = outlook.remaining(passes, state.gap, allowed)
                if left > budget and passes > budget:
                    state.gave_up = True
                    return
            state.candidate, passes = dual.point, passes + 1
            if carried:  # what is known already is used before the oracle is asked
                estimate = problem.stopping.allowed_gap(sets.dual_value(), problem.C)
                carried = False
            elif self.mode == "batch":
                yield from self._confirm(sets, problem, state)
                estimate = state.gap
            else:
                allowed = problem.stopping.allowed_gap(min(state.upper, upper_guess), problem.C)
                skip = SKIP[self.mode] * allowed / n if np.isfinite(allowed) else 0.0
                estimate = yield from self._pass(sets, rng, skip)
                unconfirmed += 1
            if not (self.mode == "batch" and state.met(problem)) and self.schedule != "larank":
                yield from self._epochs(sets, rng, EPOCH_EFFORT * estimate)
            idle = self.idle * (self.chunks if self.mode == "expensive" else 1)
            sets.drop_idle(0 if self.prune == "immediate" else idle)
            state.raise_lower(sets.dual_value(), dual)
            if self.mode != "batch":
                upper_guess = state.lower + estimate
                allowed = problem.stopping.allowed_gap(upper_guess, problem.C)
                close = np.isfinite(estimate) and estimate <= CONFIRM_AT * allowed
                if close or unconfirmed >= every or self.schedule == "one-pass":
                    yield from self._confirm(sets, problem, state)
                    state.candidate = None  # evaluated, as long as the sets do not move
                    unconfirmed = 0
            asked = yield Report(sets.n_planes, sets.n_support, method="working sets")
            if state.met(problem):
                state.stop = "gap"
                return
            if asked is not None:
                state.stop = asked
                return
            if self.schedule == "one-pass":
                state.stop = "max_iter"  # one pass was all that was asked for
                return

    def _pass(self, sets: WorkingSets, rng: np.random.Generator, skip: float) -> Asked:
        """One pass of the oracle over the examples that lack something; the sum of their gaps."""
        n = sets.n_examples
        larank = self.schedule == "larank"
        if self.mode == "stream" and not larank:
            stats: SweepStats = yield Sweep(sets, "stream", rng.permutation(n), skip)
            return stats.gap
        total = 0.0
        for chunk in np.array_split(rng.permutation(n), min(self.chunks, n)):
            if larank:
                stats = yield Sweep(sets, "stream", chunk, skip)
            else:
                stats = yield Ask(sets, chunk, skip, self.at_once)
            total += stats.gap
            if larank:
                for cached in np.array_split(
                    _cycle(rng, n, CACHED_PER_NEW * len(chunk)), CACHED_PER_NEW
                ):
                    yield Sweep(sets, "epoch", cached)
                continue
            if stats.oracle_calls:
                for _ in range(CHUNK_EPOCHS):
                    yield Sweep(sets, "epoch", rng.permutation(n))
        return total

    def _epochs(self, sets: WorkingSets, rng: np.random.Generator, goal: float) -> Steps:
        """Block steps over the sets until their gap is at most this."""
        more, before = 10 if self.mode == "batch" else 1, np.inf
        for k in range(self.max_epochs * max(more, FEW // sets.n_examples)):
            stats: SweepStats = yield Sweep(sets, "epoch", rng.permutation(sets.n_examples))
            if stats.gap <= goal:
                return
            if k % STUCK == STUCK - 1:
                if stats.gap > 0.99 * before:
                    return
                before = stats.gap

    def _confirm(self, sets: WorkingSets, problem: Problem, state: SolverState) -> Steps:
        w = frozen(sets.w)
        _, risk_upper = yield Confirm(sets, w, expensive=self.mode == "expensive")
        state.offer(w, problem.regularizer.value(w) + risk_upper)


def _cycle(rng: np.random.Generator, n: int, count: int) -> IntArray:
    """So many examples, each about as often as any other, in random order."""
    cycles = [rng.permutation(n) for _ in range(-(-count // n))]
    return np.concatenate(cycles)[:count]
