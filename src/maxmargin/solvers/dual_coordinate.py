"""Dual coordinate ascent over per-example working sets (Ramanan's algorithm 2 run in cycles).

    maximize   D(alpha) = sum_ij alpha_ij l_ij - 1/2 |w|^2,    w = - sum_ij alpha_ij p_ij,
               alpha_ij >= 0,  sum_j alpha_ij = c_i = C s_i

Each example keeps the few outputs its oracle returned, the true output first (plane 0, p = 0, l = 0).
So the simplex is an equality, and the paper's single step is a pair step with plane 0. One iteration:

    explore  for i in random order: call the oracle at the current w, add its answer, solve the example's
             simplex problem; examples whose last gap was far below their share of the tolerance are skipped
    epochs   the same block steps over the cached planes, without the oracle, until their gap fell to 0.3 of
             the gap seen while exploring
    confirm  when the gaps seen add up to less than 1.5 tolerances: the oracle on all examples at a fixed w
             gives the true upper bound; its answers enter the sets

``batch_size`` oracle calls see the same w, so that an engine can answer them at the same time. With all
examples in one batch, exploring is confirming: algorithm 1 of Joachims, Finley and Yu (n-slack), whose
reduced problem is solved by the epochs. Two differences, which the schedule "n_slack" does not have, remain:
constraints of all examples are added at one w, while the paper solves the reduced problem after each one (its
program after every 100); and the fit ends by the gap of the sum over the examples, while the paper goes on
until no example violates its slack by more than epsilon. Where the oracle is expensive (a call costs more
than epochs over all the sets), a pass is cut into pieces with epochs over all examples after each, and more
examples are skipped.

Rows of features are simpler, one multiplier each: see :mod:`maxmargin.solvers.row_ascent`. Several blocks of
them can be visited at the same time (:mod:`maxmargin.duals.row_blocks`), and rows that are not in memory are
streamed (:mod:`maxmargin.duals.out_of_core`), by the same loop.

Schedules of exploring and optimizing: "gap" is the rule above; "one_pass" is the gap rule, with a single
pass; "n_slack" solves the reduced problem, to a tenth of the tolerance, after each batch of oracle calls.

D of any multipliers is a true lower bound at all times. With nonnegative weights w is the clipped point; see
:mod:`maxmargin.compiled.plane_sets`. Sets from a fit at another C are optimized first, and the first oracle
calls are those of a confirming pass. A first point without sets is confirmed before anything else, and its
outputs are the first planes.

References:

- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: algorithm
  2, with the steps (10) to (15).
- T. Joachims, T. Finley and C.-N. J. Yu, "Cutting-plane training of structural SVMs", Machine Learning 77
  (2009), 27-59: section 2, algorithms 1 and 2 for the problems OP2 and OP3.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

import numpy as np

from maxmargin.core.contract.row_duals import AT_SHARDS
from maxmargin.core.contract.sweeps import Blocks, Schedule, Streaming
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.vectors import Array, frozen
from maxmargin.solvers.base import SWEEPS, GapForecast, Problem, StallDetector
from maxmargin.solvers.passes import PIECES, REDUCED, epochs, in_pieces, n_slack
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.row_ascent import Coordinates, Stream, ascend
from maxmargin.solvers.session import Session
from maxmargin.solvers.sets_dual import SetsDual, SetsProgress

#: an example is skipped when its gap was below this fraction of its share of the tolerance
SKIP = {"cheap": 0.3, "expensive": 1.0}
#: calls of an expensive oracle that see the same w by default
BATCH = 4
#: estimated gap, in tolerances, at which a confirming pass is worth it
CONFIRM_AT = 1.5
#: a confirming pass is forced after this many passes without one: an estimate may never trigger it
CONFIRM_EVERY = 15
#: schedule "n_slack": calls between two solutions of the reduced problem
N_SLACK_BATCH = 100
#: confirming passes by which a loop with a budget is judged
JUDGED_BY = 4
#: with fewer examples there are more epochs: then they cost nothing, and single blocks climb slowly
FEW = 3000
#: as many times more epochs where all examples see the same w
MORE_EPOCHS = 10
#: epochs end when the cached gap is below this fraction of the gap before them
EPOCH_EFFORT = 0.3
SCHEDULES = get_args(Schedule)


@dataclass(frozen=True, slots=True)
class DualCoordinate:
    """Working-set dual coordinate solver: the default for structures, and the stream of rows.

    For rows of features that are not in memory (a data set on disk, features computed on the fly) it reads
    them in pieces and keeps a bounded number of them; see the page "Streaming".

    Parameters
    ----------
    oracle : {"cheap", "expensive"}, default "cheap"
        "expensive" spends more time on the working sets to save oracle calls. It pays when a pass of the
        oracle takes longer than ten epochs over the sets, which is certain when a call takes much more than
        a millisecond.
    batch_size : int or "all", optional
        Examples whose oracle calls see the same weights, so that an engine with as many workers can answer
        them at the same time. The result depends on it, and not on the number of workers. ``"all"`` is the
        n-slack algorithm of Joachims, Finley and Yu, except that constraints of all examples are added at the
        same weights, and that the fit ends by the gap of the sum over the examples instead of by that of each
        example. The default depends on the task and not on the engine:
        1 if the task's visits are compiled (chains, candidates), so that every call sees the newest weights;
        16 for other tasks (2 to 15 if there are fewer than 320 examples, 1 if there are fewer than 16); 4 if
        the oracle is expensive (fewer if there are fewer than 80 examples).
    max_epochs : int, default 10
        Sweeps over the cached planes between two passes of the oracle (ten times as many if
        ``batch_size="all"``). With ``dealing="shards"``: epochs of a block in a round.
    idle : int, default 8
        Planes with multiplier zero that were not used in this many passes are dropped.
    schedule : {"gap", "one_pass", "n_slack"}, default "gap"
        When to explore new examples and when to optimize cached ones. "gap": optimize until the duality gap
        of the cache is a small part of the gap of the examples explored last; "one_pass": the gap rule, and a
        single pass; "n_slack", for structures: algorithm 1 of Joachims, Finley and Yu, for comparisons: the
        reduced problem is solved after each ``batch_size`` calls (default 100), constraints are never
        dropped, and the fit ends after a pass in which no example violated its slack by more than its share
        of the tolerance. Rows in memory need no schedule; "one_pass" streams them as if they were not in
        memory.
    max_cached : int, optional
        Rows of a stream that are kept in memory; by default as many as fit into 128 MB. If given, rows that
        are in memory are streamed, too.
    blocks : int or None, default 1
        Number of blocks of samples that are visited at the same time by the workers of ``n_jobs``. The result
        depends on it, and not on the number of workers. 1 is the sequential method; None chooses the number
        by the size of the data. For linear models with one score per sample (two classes, one-vs-rest,
        regression, one-class), not for the multiclass loss of Crammer and Singer. More blocks need more
        epochs, most of all if C is large or if samples are similar to each other; see the
        page "Solvers and several cores".
    rounds : int, optional
        Number of times per epoch that the changes of the blocks are merged. By default it is chosen by the
        size of the data, or is 1 if ``dealing="shards"``. Epochs over the few samples that shrinking leaves
        have fewer rounds, and then fewer blocks.
    dealing : {"epochs", "shards"}, default "epochs"
        Which samples a block has. "epochs": other ones in every epoch; for samples in memory and threads.
        "shards": always the same, which stay with a worker of the engine, as do their multipliers; for all
        engines and for data on disk. Only weights are sent, and results are bit-identical on all engines. In
        every round a block runs up to ``max_epochs`` epochs over its own samples.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SequenceTagger
    >>> from maxmargin.solvers import DualCoordinate
    >>> X, y = [[["sun"], ["shines"]], [["rain"], ["falls"]]], [["N", "V"], ["N", "V"]]
    >>> SequenceTagger(solver=DualCoordinate(batch_size="all")).fit(X, y).converged_
    True

    Blocks of samples, visited by two threads:

    >>> from maxmargin import LinearSVC
    >>> X = np.random.default_rng(0).normal(size=(5000, 20))
    >>> svc = LinearSVC(C=0.1, solver=DualCoordinate(blocks=4), n_jobs=2).fit(X, X[:, 0] > 0.1)
    >>> svc.converged_
    True

    Blocks that stay with their workers, which may also be processes or on other machines:

    >>> solver = DualCoordinate(blocks=2, dealing="shards")
    >>> svc = LinearSVC(C=0.1, solver=solver, n_jobs=2).fit(X, X[:, 0] > 0.1)
    >>> svc.converged_, svc.history_[-1]["method"]
    (True, 'shard coordinate')
    """

    oracle: Literal["cheap", "expensive"] = "cheap"
    batch_size: int | Literal["all"] | None = None
    max_epochs: int = 10
    idle: int = 8
    schedule: Schedule = "gap"
    max_cached: int | None = None
    blocks: int | None = 1
    rounds: int | None = None
    dealing: Literal["epochs", "shards"] = "epochs"

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule={self.schedule!r}: use one of {', '.join(SCHEDULES)}.")
        if self.max_cached is not None and self.max_cached < 1:
            raise ValueError(f"max_cached={self.max_cached!r}: at least one row must fit.")
        if self.oracle not in ("cheap", "expensive"):
            raise ValueError(f"oracle={self.oracle!r}: use 'cheap' or 'expensive'.")
        size = self.batch_size
        if not (size is None or size == "all" or (isinstance(size, Integral) and size >= 1)):
            raise ValueError(f"batch_size={size!r}: use a positive integer, 'all' or None.")
        self._check_blocks()

    def _check_blocks(self) -> None:
        for name, count in (("blocks", self.blocks), ("rounds", self.rounds)):
            if not (count is None or (isinstance(count, Integral) and count >= 1)):
                raise ValueError(f"{name}={count!r}: use a positive integer or None.")
        if self.dealing not in ("epochs", "shards"):
            raise ValueError(f"dealing={self.dealing!r}: use 'epochs' or 'shards'.")
        if self.blocks == 1 and self.dealing == "shards":
            raise ValueError(
                "dealing='shards' is about several blocks of samples: set blocks=, too."
            )
        if self.blocks == 1 and self.rounds is not None:
            raise ValueError(
                f"rounds={self.rounds} is how often the changes of several blocks are merged: set blocks=, "
                "too."
            )
        if self.blocks != 1 and self._streams:
            raise ValueError(
                f"blocks={self.blocks} is not for streams of samples, which schedule={self.schedule!r} and "
                f"max_cached={self.max_cached} set up: leave out one or the other."
            )

    def run(self, session: Session) -> None:
        """The loop over rows where the risk shows them, else over working sets."""
        methods = session.problem.methods
        if self.blocks != 1:
            ascend(session, self._over_blocks)
        elif "coordinate" in methods and not self._streams:
            ascend(session, Coordinates(self.max_epochs))
        elif "stream" in methods:
            ascend(session, Stream(self.streaming))
        else:
            self.over_sets(session)

    @property
    def needs(self) -> Needs:
        """Rows that can be visited one by one, or working sets of single examples."""
        if self.schedule == "n_slack":
            return Needs(working_sets=True)
        if self.blocks != 1:
            return Needs((self._over_blocks.name,))
        methods = ("stream",) if self._streams else ("coordinate", "stream")
        return Needs(methods, working_sets=True)

    @property
    def _streams(self) -> bool:
        return self.schedule != "gap" or self.max_cached is not None

    @property
    def layout(self) -> Blocks:
        """Blocks of rows that are in memory."""
        return Blocks(self.blocks, self.rounds, self.max_epochs)

    @property
    def _over_blocks(self) -> Coordinates:
        if self.dealing == "shards":
            return Coordinates(self.max_epochs, name=AT_SHARDS, blocks=self.layout)
        return Coordinates(self.max_epochs, name="block coordinate", blocks=self.layout)

    @property
    def streaming(self) -> Streaming:
        """What concerns rows that are not in memory."""
        return Streaming(self.schedule, self.max_epochs, PIECES, self.max_cached)

    def _check_sets(self, problem: Problem) -> None:
        """What working sets cannot do is refused."""
        if self.max_cached is not None:
            raise ValueError(
                "max_cached bounds the rows of a stream; the planes of structured examples are bounded by "
                "idle=."
            )
        simple = self.oracle == "cheap" and self.batch_size != "all"
        if self.schedule == "n_slack" and not simple:
            raise ValueError(
                "schedule='n_slack' needs oracle='cheap' and a number as batch_size: other settings have "
                "their own order of exploring and optimizing."
            )
        if len(problem.regularizer.free):
            raise ValueError(
                "DualCoordinate penalizes every coordinate; for an unpenalized intercept use "
                "solver=CuttingPlane()."
            )

    def over_sets(self, session: Session, budget: float = float("inf")) -> None:
        """The loop over working sets.

        It returns without a stop reason when, after ``budget`` passes, more than as many seem to be left:
        then another method should go on.
        """
        problem, state = session.problem, session.state
        self._check_sets(problem)
        rng, progress = np.random.default_rng(problem.random_state), SetsProgress()
        resumed = state.track(progress, rng)
        sets, carried = self._open(session, resumed=resumed)
        dual, stall = SetsDual(sets), StallDetector(*SWEEPS)
        forecast = GapForecast(progress.seen)
        every = int(min(CONFIRM_EVERY, max(1.0, budget / JUDGED_BY)))
        at_once, by_slacks = self.batch_size == "all", self.schedule == "n_slack"
        while True:
            if progress.passes and not progress.unconfirmed:  # F is known; also after a resume
                if session.stalled(stall, state.gap):
                    return
                if session.gives_up(forecast, progress.passes, budget, at_least=budget + 1.0):
                    return
            state.candidate, progress.passes = dual.point, progress.passes + 1
            if carried:  # sets of another C are optimized before the oracle is called
                estimate = problem.stopping.allowed_gap(sets.dual_value(), problem.C)
            else:
                estimate = self._explore(session, sets, progress, rng)
            carried = False
            if not by_slacks and not (at_once and state.met(problem)):
                limit = self._epochs_at_most(sets.n_examples)
                epochs(session, sets, rng, EPOCH_EFFORT * estimate, limit)
            if not by_slacks:
                sets.drop_idle(self._idle_epochs(sets.n_examples))
            state.raise_lower(dual.lower(), dual)
            near = not at_once and self._is_near(session, progress, estimate)
            if near or (not at_once and (progress.unconfirmed >= every or self._once)):
                self._confirm(session, sets)
                state.candidate = None  # evaluated, as long as the sets do not move
                progress.unconfirmed = 0
            final = near or not by_slacks
            if session.report(sets.n_planes, sets.n_support, method="working sets", final=final):
                return
            if self._once:
                state.stop = "max_iter"  # one pass was all that was asked for
                return

    def _open(self, session: Session, *, resumed: bool) -> tuple[WorkingSets, bool]:
        """Fresh sets, those of another C, or those of a checkpoint; and whether they have planes that were
        not optimized at this C."""
        state = session.state
        held = state.memory if isinstance(state.memory, WorkingSets) else None
        sets = held if held is not None and resumed else session.working_sets(held)
        dual = SetsDual(sets)
        state.memory, state.dual, state.candidate = sets, dual, dual.point
        if resumed:
            if self.oracle != "expensive" and np.isfinite(state.upper):
                session.evaluate(state.w)  # which compares F with the checkpoint's
            return sets, False
        if held is None and not state.w.any():
            return sets, False
        if held is None:  # the outputs at the first point enter the sets
            self._confirm(session, sets, state.w)
        return sets, self.batch_size != "all"

    def _explore(
        self,
        session: Session,
        sets: WorkingSets,
        progress: SetsProgress,
        rng: np.random.Generator,
    ) -> float:
        """New planes from the oracle; the estimate of the gap that they give."""
        problem, state, n = session.problem, session.state, session.problem.n_examples
        if self.batch_size == "all":
            self._confirm(session, sets)
            return state.gap
        progress.unconfirmed += 1
        if self.schedule == "n_slack":
            size = N_SLACK_BATCH if self.batch_size is None else self._size
            pieces = np.array_split(rng.permutation(n), max(1, n // size))
            return n_slack(session, sets, rng, pieces, self.max_epochs)
        allowed = problem.stopping.allowed_gap(min(state.upper, progress.upper_guess), problem.C)
        skip = SKIP[self.oracle] * allowed / n if np.isfinite(allowed) else 0.0
        order = rng.permutation(n)
        if self.oracle == "expensive":
            pieces = np.array_split(order, self._pieces(n))
            return in_pieces(session, sets, rng, pieces, skip, self._size)
        size = sets.batch_size if self.batch_size is None else self._size
        if size == 1:
            return session.stream(sets, order, skip).gap_estimate
        return session.batches(sets, order, skip, size).gap_estimate

    def _is_near(self, session: Session, progress: SetsProgress, estimate: float) -> bool:
        """Whether the estimated gap is near the allowed one."""
        problem, progress.upper_guess = session.problem, session.state.lower + estimate
        allowed = problem.stopping.allowed_gap(progress.upper_guess, problem.C)
        return bool(np.isfinite(estimate)) and estimate <= self._confirm_at * allowed

    @property
    def _once(self) -> bool:
        return self.schedule == "one_pass"

    @property
    def _confirm_at(self) -> float:
        return 1.0 - REDUCED if self.schedule == "n_slack" else CONFIRM_AT

    def _pieces(self, n: int) -> int:
        """Pieces of a pass with an expensive oracle: none is smaller than a batch that was asked for."""
        size = 1 if self.batch_size is None else self._size
        return max(1, min(PIECES, n // size))

    def _idle_epochs(self, n: int) -> int:
        """Passes without use after which a plane is dropped, in calls that count them."""
        return self.idle * (self._pieces(n) if self.oracle == "expensive" else 1)

    @property
    def _size(self) -> int:
        size = self.batch_size
        return BATCH if size is None or isinstance(size, str) else int(size)

    def _epochs_at_most(self, n: int) -> int:
        """Epochs between two passes."""
        more = MORE_EPOCHS if self.batch_size == "all" else 1
        return self.max_epochs * max(more, FEW // n)

    def _confirm(self, session: Session, sets: WorkingSets, at: Array | None = None) -> None:
        """The objective at the point of the sets, or at another one, whose outputs enter the sets."""
        w = frozen(sets.w if at is None else at)
        value, risk_upper = session.confirm(sets, w, expensive=self.oracle == "expensive")
        norm = session.problem.regularizer.value(w)
        session.state.offer(w, norm + risk_upper, norm + value)
