"""Automatic solver selection: choose a method for the problem, and switch if its gap decreases too slowly.

The choice is a pure function of shape, density and the capabilities of the risk. A switch is a function of
the gap's history, counted in visits of all rows. Neither depends on timing, so fits are reproducible bit for
bit.

    coordinate       dual coordinate ascent in stages of increasing C: sparse or dense, few or many features.
                     First choice if rows are in memory and every coordinate is penalized. Over blocks of rows
                     if there are many rows and several workers were asked for
    quasi-newton     for dense rows in memory and smooth losses of several scores: first choice, until exact
                     steps are expected to cost less. For rows in a narrow type also with one score
    newton           for few features: first choice for smooth losses (a few Gram matrices) and tiny data,
                     and for the hinge if coordinate ascent is expected to cost more than a dozen Gram
                     matrices, which happens at tight tolerances
    stream           for rows that are not in memory, with so many features that planes cost more than rows,
                     unless the workers are other processes: they would be idle
    sampled newton   for rows that are not in memory, smooth losses, and many rows per feature: a few passes
    cutting planes   everything else: rows that are not in memory, losses without a dual form, unpenalized
                     intercepts; and the fallback when the others stall

Structured problems are solved by working sets. If there are few examples, and so many features or such a
large C that single block steps converge too slowly, cutting planes take over: their reduced problem moves all
multipliers at once.

A method that is replaced passes on its incumbent, its bounds and, as one plane, its multipliers, so the next
one is warm-started.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from maxmargin.core.contract.sweeps import Blocks, Streaming
from maxmargin.core.result import relative_gap
from maxmargin.core.rounding import UpperBound
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.row_ascent import (
    Coordinates,
    RowMethod,
    SecondOrder,
    Stream,
    ascend,
    call_cost,
)
from maxmargin.solvers.sampled_newton import steps_of_sample
from maxmargin.solvers.session import Session

#: assumed iterations of a cutting-plane fit, and the cost of each in visits of all rows and in calls
PLANES, PLANE_VISITS, PLANE_CALLS = 150.0, 3.3, 8.0
#: how many times that work is allowed before planes take over, if there are more than ``MANY_FEATURES``: then
#: they often need more iterations than assumed
PATIENCE = 2.0
#: share of these steps that Newton's method takes from the solution at another C
WARM_STEPS = 0.4
#: above this length of w, planes and their Gram matrix cost more than the data
MANY_COORDINATES = 20_000
#: the same for Newton's method, whose steps also need a Gram matrix; its multiply-adds per visit of an entry
STEPS, STEP_VISITS, STEP_CALLS, GRAM_SPEED = 15.0, 2.0, 20.0, 8.0
MANY_FEATURES = 1000
#: on a path of ascending C: the visits of all rows predicted for coordinates, and those they took at the last
#: C, above which cutting planes take over; minimum number of rows for that
PATH_BUDGET, PATH_VISITS, PATH_ROWS = 30.0, 18.0, 10_000
#: the same budget where there are as many features as rows, and planes may not be the answer
WIDE_BUDGET = 100.0
#: where there are as many features as rows, planes are given up when they seem to need more iterations
WIDE_PLANES = 1000.0
#: maximum number of examples for a switch from working sets to cutting planes, and the passes before it
FEW_EXAMPLES, PASSES, EXPENSIVE_PASSES = 1000, 32.0, 64.0
#: a gap below which a stall is due to rounding, and no other method would do better
ROUNDING = 1e-9
#: number of entries up to which a fit takes milliseconds anyway. Then the last digits should not depend on
#: the order or the repetition of samples, as they do with coordinate ascent
TINY = 20_000
#: rows, and entries per coordinate of w, from which on blocks of rows gain time with two threads, and the
#: largest C times the number of rows at which they do
BLOCK_ROWS, BLOCK_ENTRIES, BLOCK_C = 200_000, 250.0, 2e4


@dataclass(frozen=True, slots=True)
class Phase:
    """A method, and the number of visits of all rows after which another one would be cheaper."""

    method: str
    budget: float


def newton_cost(problem: Problem) -> float:
    """The cost of a fit by Newton's method, in visits of all rows."""
    per_row = problem.shape.nnz / max(1, problem.n_examples)
    gram = problem.dim**2 / (GRAM_SPEED * max(1.0, per_row))
    return STEPS * (STEP_VISITS + gram + STEP_CALLS * call_cost(problem))


def planes_cost(problem: Problem) -> float:
    """The cost of a fit by cutting planes, in visits of all rows."""
    return PLANES * (PLANE_VISITS + PLANE_CALLS * call_cost(problem))


def tiny(problem: Problem) -> bool:
    """Whether a fit takes milliseconds."""
    return problem.shape.nnz * problem.shape.n_columns <= TINY


@dataclass(frozen=True, slots=True)
class PathPoint:
    """How the fit at the last C of a path ended: its last method, and its visits of all rows.

    Without a method nothing is known: it was the first fit, or every method stalled, and at another C none of
    them needs to.
    """

    method: str = ""
    visits: float = 0.0


def plan(problem: Problem) -> list[Phase]:
    """The methods for this problem, in order; the last one has no budget."""
    forever = float("inf")
    few_features = problem.dim <= MANY_FEATURES
    # a smooth loss without coordinates: the steps for many features need products only
    newton = "newton" in problem.methods and (
        few_features or (problem.shape.smooth and "coordinate" not in problem.methods)
    )
    cheap = newton and newton_cost(problem) < planes_cost(problem)
    few = problem.dim <= min(MANY_COORDINATES, problem.shape.n_columns * problem.n_examples)
    last = [Phase("cutting planes", forever)]
    several = problem.shape.n_columns > 1 or "newton" not in problem.methods
    if "quasi-newton" in problem.methods and several:
        if not newton:
            return [Phase("quasi-newton", forever), *last]
        budget = forever if tiny(problem) or not few_features else newton_cost(problem)
        return [Phase("quasi-newton", budget), Phase("newton", forever), *last]
    if newton:
        last.append(Phase("newton", forever))
    if newton and (problem.shape.smooth or tiny(problem)):
        return [Phase("newton", forever), *last[:1]]
    if "coordinate" not in problem.methods:
        if "sample" in problem.methods and not newton:
            return [Phase("sampled newton", forever), *last]
        if "stream" in problem.methods and not cheap and problem.dim > MANY_COORDINATES:
            return [Phase("stream", forever)]
        return [Phase("newton", forever), *last[:1]] if cheap else last
    if tiny(problem) and problem.dim <= MANY_COORDINATES:
        many = problem.shape.n_columns > 1
        early = [Phase("coordinate", planes_cost(problem))] if many else []
        return [*early, *last, Phase("coordinate", forever)]
    if cheap:
        return [Phase("coordinate", newton_cost(problem)), Phase("newton", forever), *last[:1]]
    if few:
        patience = 1.0 if few_features else PATIENCE
        return [Phase("coordinate", patience * planes_cost(problem)), *last]
    if problem.dim <= MANY_COORDINATES:
        # as many features as rows: few planes are enough if features are correlated, and a reduced problem
        # as large as the problem is needed if they are not
        planes = Phase("cutting planes", WIDE_PLANES)
        first = Phase("coordinate", PATIENCE * planes_cost(problem))
        return [first, planes, Phase("coordinate", forever), *last[:1]]
    return [Phase("coordinate", forever)]


def rows_first(problem: Problem, phases: list[Phase]) -> list[Phase]:
    """The methods that have dual variables of rows, the last one without a budget, and then planes."""
    found = [p for p in phases if p.method not in ("cutting planes", "sampled newton")]
    if not found:
        found = [Phase("newton" if "newton" in problem.methods else "stream", 0.0)]
    found[-1] = replace(found[-1], budget=float("inf"))
    return [*found, Phase("cutting planes", float("inf"))]


def in_blocks(problem: Problem, phases: list[Phase]) -> list[Phase]:
    """The same methods, over blocks of rows where several workers would gain time.

    This depends on the data, and not on the number of workers, so that any number gives the same result.
    Blocks take more visits, 1.1 to 1.6 times as many, most of all if C is large, and merging them takes time
    for each coordinate of w.
    """
    gains = (
        "block coordinate" in problem.methods
        and problem.n_examples >= BLOCK_ROWS
        and problem.shape.nnz >= BLOCK_ENTRIES * problem.dim
        and problem.C * problem.n_examples <= BLOCK_C
    )
    if not gains:
        return phases
    return [
        replace(phase, method="block coordinate") if phase.method == "coordinate" else phase
        for phase in phases
    ]


def plan_on_path(problem: Problem, last: PathPoint) -> list[Phase]:
    """The methods for one fit of a path: those of a single fit, from the one that ended the last fit on."""
    phases = plan(problem)
    if _planes_serve_the_path(problem):
        phases = [Phase("cutting planes", float("inf"))]
        if "newton" in problem.methods:
            phases.append(Phase("newton", float("inf")))
        if "coordinate" in problem.methods and last.visits <= PATH_VISITS:
            phases.insert(0, Phase("coordinate", PATH_BUDGET))
    elif [phase.method for phase in phases[:3]] == ["coordinate", "cutting planes", "coordinate"]:
        phases[0] = Phase("coordinate", WIDE_BUDGET)
    reached = [k for k, phase in enumerate(phases) if phase.method == last.method]
    if not reached:
        return phases
    # coordinates that took longer than they may the first time come after planes that were given up
    late = last.method == "coordinate" and last.visits > phases[reached[0]].budget
    return phases[reached[-1 if late else 0] :]


def _planes_serve_the_path(problem: Problem) -> bool:
    """Few features, many rows, and a loss with kinks: there planes are fast where coordinates are slow, and
    they stay valid for every later C."""
    few = problem.dim <= MANY_FEATURES and problem.shape.n_columns == 1
    return few and problem.n_examples >= PATH_ROWS and not problem.shape.smooth


_ROW_METHODS: dict[str, RowMethod] = {
    "coordinate": Coordinates(),
    "block coordinate": Coordinates(name="block coordinate", blocks=Blocks()),
    "quasi-newton": SecondOrder(name="quasi-newton"),
    "stream": Stream(Streaming()),
}


@dataclass(frozen=True, slots=True)
class Auto:
    """The automatic choice behind ``solver="auto"``.

    Parameters
    ----------
    several : bool, default False
        Whether more than one worker was asked for, so that blocks of rows may be visited at the same time.
    remote : bool, default False
        Whether the workers are other processes. Then rows that are not in memory are not read by this one.
    rows : bool, default False
        Whether the dual variables of rows are asked for, so that methods without them come last.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svc = LinearSVC().fit(X, y)      # solver="auto"
    >>> {record["method"] for record in svc.history_}
    {'newton'}
    """

    # not shown: a checkpoint names the solver, and a fit may be continued with another number of workers
    several: bool = field(default=False, repr=False)
    remote: bool = field(default=False, repr=False)
    rows: bool = field(default=False, repr=False)
    needs: ClassVar[Needs] = Needs()

    def run(self, session: Session) -> None:
        """Run the methods one after the other."""
        phases = plan(session.problem)
        if self.rows:
            phases = rows_first(session.problem, phases)
        elif self.remote and phases[0].method == "stream":
            phases = [Phase("cutting planes", float("inf"))]
        _run(in_blocks(session.problem, phases) if self.several else phases, session)


@dataclass(frozen=True, slots=True)
class AutoOnPath:
    """The automatic choice along a path of ascending C, each of which starts from the one before.

    ``last`` is how that one ended. A method that was too slow there is not tried again.
    """

    last: PathPoint
    needs: ClassVar[Needs] = Needs()

    def run(self, session: Session) -> None:
        """Run the methods one after the other."""
        _run(plan_on_path(session.problem, self.last), session)


def _run(phases: list[Phase], session: Session) -> None:
    problem, state = session.problem, session.state
    first = 0 if state.resumed is None else state.phase
    for k, phase in enumerate(phases):
        if k < first:  # finished before the checkpoint was written
            continue
        state.gave_up, state.stop, state.phase = False, None, k
        if phase.method == "cutting planes":
            CuttingPlane().run(session, phase.budget)
        elif phase.method == "sampled newton":
            steps_of_sample(session)
        else:
            newton = phase.method == "newton"
            method = SecondOrder.of(problem) if newton else _ROW_METHODS[phase.method]
            newton_next = k + 1 < len(phases) and phases[k + 1].method == "newton"
            warm = WARM_STEPS if newton_next else 1.0
            ascend(session, method, phase.budget, warm * phase.budget)
        if tiny(problem) and k + 1 < len(phases):
            _prove(problem, state)
        if _is_over(state):
            return


def _prove(problem: Problem, state: SolverState) -> None:
    """Replace the lower bound by the one that its dual point proves, and do not stop if that is not enough.

    In the loops bounds are correct up to rounding, which can make a difference at a large C. Another method
    may have a dual point that proves more.
    """
    if state.dual is not None:
        at = UpperBound.by(state.upper, problem.n_examples)
        proved = state.dual.value(problem.regularizer, problem.dim, at)
        state.lower = min(state.lower, proved)
    if state.stop == "gap" and not state.met(problem):
        state.stop = "stalled"


@dataclass(frozen=True, slots=True)
class AutoStructured:
    """The automatic choice behind ``solver="auto"`` for structured problems: working sets, then cutting
    planes.

    Parameters
    ----------
    oracle : {"cheap", "expensive"}, default "cheap"
        As in :class:`maxmargin.solvers.DualCoordinate`. With an expensive oracle the working sets get
        more passes, since cutting planes would call it more often.
    idle : int, default 8
        As in :class:`maxmargin.solvers.DualCoordinate`.

    Examples
    --------
    >>> from maxmargin import SequenceTagger
    >>> X, y = [[["sun"], ["shines"]], [["rain"], ["falls"]]], [["N", "V"], ["N", "V"]]
    >>> tagger = SequenceTagger().fit(X, y)      # solver="auto"
    >>> {record["method"] for record in tagger.history_}
    {'working sets'}
    """

    oracle: Literal["cheap", "expensive"] = "cheap"
    idle: int = 8
    needs: ClassVar[Needs] = Needs(working_sets=True)

    def run(self, session: Session) -> None:
        """Run the methods one after the other."""
        problem, state = session.problem, session.state
        sets = DualCoordinate(oracle=self.oracle, idle=self.idle)
        small = problem.n_examples <= FEW_EXAMPLES and problem.dim <= MANY_COORDINATES
        budget = PASSES if self.oracle == "cheap" else EXPENSIVE_PASSES
        if state.resumed is None or state.phase == 0:
            state.phase = 0
            sets.over_sets(session, budget if small else float("inf"))
            if small:
                _prove(problem, state)
            if _is_over(state) or not small:
                return
        state.gave_up, state.stop, state.phase = False, None, 1
        CuttingPlane().run(session)


def _is_over(state: SolverState) -> bool:
    """Whether no other method could do better."""
    ended = state.stop not in (None, "stalled")
    return ended or relative_gap(state.upper, state.lower) < ROUNDING
