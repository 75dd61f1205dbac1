"""Many problems in lockstep: their solvers' questions are answered together.

A solver is a generator of requests (:mod:`maxmargin.core.contract.requests`). One generator runs per problem;
questions about lines are answered at once from stored scores, until every generator waits for a
product with X. Then one pass over the data evaluates all points, or takes all cuts, together. A
problem that ends is certified by the next pass, from its point and its dual point alone, and the
next problem of its chain takes its place: the same split and weights at the next C, from the same
bundle (planes do not depend on C) and from the last solution.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from maxmargin.core.contract.evaluation import Evaluation, LineEvaluation, OracleKind
from maxmargin.core.contract.requests import (
    Breakpoints,
    Cuts,
    Evaluate,
    Report,
    Request,
    Slopes,
    Steps,
    Toward,
)
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, relative_gap
from maxmargin.core.shared_bundle import PlanePool, PooledBundle
from maxmargin.core.stopping import Bounds, RelativeGap, StoppingRule
from maxmargin.core.vectors import Array
from maxmargin.solvers.base import Problem, Solver, SolverState
from maxmargin.solvers.certificate import certify
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.finite_answers import check_answer


class ManyRisks(Protocol):
    """Risks over the same data that can be asked together."""

    @property
    def dim(self) -> int:
        """Length of w."""

    @property
    def n_parts(self) -> int:
        """Parts of each risk that a problem weighs."""

    @property
    def lower_bound(self) -> float:
        """A number that no risk falls below."""

    def n_examples(self, split: int) -> int:
        """Rows of a split."""

    def open(self, split: int, scale: Array) -> int:
        """A new problem; answers with its number."""

    def close(self, problem: int) -> None:
        """Forget what is kept for a problem."""

    def evaluate(self, asked: Sequence[tuple[int, Array]]) -> Sequence[LineEvaluation]:
        """Evaluate problems at points, in one pass."""

    def cuts(self, asked: Sequence[Any]) -> Sequence[Cut]:
        """The cuts at evaluated points, in one pass."""

    def lines(self, asked: Sequence[Toward | Slopes | Breakpoints]) -> list[Any]:
        """Answers about lines, in one round."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One problem of a grid: min Omega(w) + C sum_k scale_k R_k(w) over the rows of a split."""

    split: int
    scale: Array
    C: float
    regularizer: SquaredNorm = field(default_factory=SquaredNorm)


@dataclass(slots=True, eq=False)
class Chain:
    """Cells that differ in C only, to be solved in order, each from where the last one ended.

    A chain can be given to :func:`minimize_many` again, with further cells.
    """

    cells: Iterable[Cell]
    last: SolverState | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class CellResult:
    """The outcome of one cell, and its share of the time in seconds."""

    cell: Cell
    result: SolveResult
    seconds: float


@dataclass(slots=True, eq=False)
class _Run:
    """A cell that is being solved."""

    chain: Chain
    rest: Iterator[Cell]
    cell: Cell
    number: int
    state: SolverState
    steps: Generator[Request, Any, SolveResult]
    asked: Request | None = None
    n_iter: int = 0
    seconds: float = 0.0


class _Seen:
    """A risk of which one point is known, for :func:`certify`."""

    oracle: OracleKind = "exact"
    n_blocks = 1
    n_examples = 0
    offers = Capabilities()
    has_cache = False

    def __init__(self, dim: int, lower_bound: float, at: Evaluation) -> None:
        self.dim, self.lower_bound, self._at = dim, lower_bound, at

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        return self._at


def minimize_many(
    risks: ManyRisks,
    chains: Iterable[Chain],
    *,
    solver: CuttingPlane | None = None,
    stopping: StoppingRule | None = None,
    max_iter: int | None = None,
    width: int = 64,
    pools: dict[int, PlanePool] | None = None,
) -> Iterator[CellResult]:
    """Solve all cells of all chains, at most ``width`` at a time; yields each as it is done.

    Parameters
    ----------
    risks : ManyRisks
        The risks.
    chains : iterable of Chain
        The cells; those of one chain in order.
    solver : CuttingPlane, optional
        The method.
    stopping : stopping rule, optional
        ``RelativeGap(1e-3)`` by default.
    max_iter : int, optional
        Limit of iterations per cell.
    width : int
        Problems at a time: each holds two scores per row of its split.
    pools : dict, optional
        Planes by split, from an earlier call; new planes are added to them.
    """
    lockstep = _Lockstep(
        risks,
        solver or CuttingPlane(),
        stopping or RelativeGap(),
        max_iter,
        {} if pools is None else pools,
    )
    yield from lockstep.run(list(chains), width)


class _Lockstep:
    def __init__(
        self,
        risks: ManyRisks,
        solver: Solver,
        stopping: StoppingRule,
        max_iter: int | None,
        pools: dict[int, PlanePool],
    ) -> None:
        self.risks, self.solver, self.stopping = risks, solver, stopping
        self.max_iter, self.pools = max_iter, pools
        self.runs: list[_Run] = []
        self.done: list[CellResult] = []

    def run(self, chains: list[Chain], width: int) -> Iterator[CellResult]:
        waiting = iter(chains)
        while True:
            while len(self.runs) < width and (chain := next(waiting, None)) is not None:
                self._begin(chain, iter(chain.cells))
            if not self.runs and not self.done:
                return
            self._pass()
            yield from self.done
            self.done = []

    def _begin(self, chain: Chain, rest: Iterator[Cell]) -> None:
        """Start the next cell of a chain, from where its last one ended."""
        cell = next(rest, None)
        if cell is None:
            return
        risks, last = self.risks, chain.last
        problem = Problem(
            dim=risks.dim,
            n_blocks=1,
            n_examples=risks.n_examples(cell.split),
            C=cell.C,
            base=risks.lower_bound,
            regularizer=cell.regularizer,
            has_cache=False,
            stopping=self.stopping,
        )
        state = SolverState(w=np.zeros(risks.dim), lower=cell.C * risks.lower_bound)
        if last is not None:
            state.w, state.memory = last.w, last.memory
            state.memory.regularizer = cell.regularizer  # its bound may depend on C
        else:
            pool = self.pools.setdefault(cell.split, PlanePool(risks.dim, risks.n_parts))
            state.memory = PooledBundle(
                pool, cell.scale, base=risks.lower_bound, regularizer=cell.regularizer
            )
        number = risks.open(cell.split, cell.scale)
        steps = _certified(self.solver.steps(problem, state), problem, state, risks)
        run = _Run(chain, rest, cell, number, state, steps)
        self.runs.append(run)
        self._send(run, None)

    def _send(self, run: _Run, answer: Any) -> None:
        """Let a solver think until it asks for more than a report."""
        began = time.perf_counter()
        try:
            run.asked = run.steps.send(answer)
            while isinstance(run.asked, Report):
                run.n_iter += 1
                limit = self.max_iter is not None and run.n_iter >= self.max_iter
                run.asked = run.steps.send("max_iter" if limit else None)
        except StopIteration as end:
            run.seconds += time.perf_counter() - began
            self._end(run, end.value)
            return
        run.seconds += time.perf_counter() - began

    def _end(self, run: _Run, result: SolveResult) -> None:
        self.runs.remove(run)
        self.risks.close(run.number)
        self.done.append(CellResult(run.cell, result, run.seconds))
        run.chain.last = run.state
        self._begin(run.chain, run.rest)

    def _pass(self) -> None:
        """Answer questions about lines as long as there are any, then those that need X."""
        while self._answer((Toward, Slopes, Breakpoints), self._lines):
            pass
        self._answer((Cuts,), self._cuts)
        self._answer((Evaluate,), self._evaluate)

    def _lines(self, runs: list[_Run]) -> Sequence[Any]:
        return self.risks.lines([run.asked for run in runs])  # type: ignore[misc]

    def _cuts(self, runs: list[_Run]) -> Sequence[Any]:
        cuts = self.risks.cuts([run.asked.at for run in runs])  # type: ignore[union-attr]
        return [[cut] for cut in cuts]

    def _evaluate(self, runs: list[_Run]) -> Sequence[Any]:
        return self.risks.evaluate([(r.number, r.asked.w) for r in runs])  # type: ignore[union-attr]

    def _answer(
        self, kinds: tuple[type, ...], answer: Callable[[list[_Run]], Sequence[Any]]
    ) -> bool:
        """Answer all questions of these kinds together; False if there were none."""
        runs = [run for run in self.runs if isinstance(run.asked, kinds)]
        if not runs:
            return False
        began = time.perf_counter()
        answers = answer(runs)
        share = (time.perf_counter() - began) / len(runs)
        for run, one in zip(runs, answers, strict=True):
            run.seconds += share
            run.asked = None
            self._send(run, one)
        return True


def _certified(
    steps: Steps, problem: Problem, state: SolverState, risks: ManyRisks
) -> Generator[Request, Any, SolveResult]:
    """The solver's loop, then bounds computed anew from its point and its dual point."""
    n_iter = 0
    answer: Any = None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration:
            break
        n_iter += isinstance(request, Report)
        answer = yield request
        check_answer(request, answer)
    del steps, answer  # with them the points they pinned
    at: Evaluation = yield Evaluate(state.w)
    seen = _Seen(problem.dim, risks.lower_bound, at)
    upper, lower = certify(seen, problem.regularizer, problem.C, state.w, state.dual)
    slack = 1e-12 * abs(upper)  # the rounding of bounds that were computed anew
    proved = problem.stopping.met(Bounds(upper - slack, lower, problem.C))
    if state.stop == "gap" and not proved:
        state.stop = "stalled"
    return SolveResult(
        w=state.w,
        objective=float(upper),
        lower_bound=float(lower),
        gap=relative_gap(upper, lower),
        converged=bool(proved),
        stop_reason=state.stop or "stalled",
        certificate="exact",
        n_iter=n_iter,
        history=[],
        oracle_calls=float(n_iter),
        dual=None,
    )
