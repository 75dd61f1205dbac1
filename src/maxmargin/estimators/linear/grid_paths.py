"""The two schemes that train the cells of a grid.

path      chain by chain, by dual coordinate ascent: multipliers and weights both times C' / C
lockstep  all chains at once by optimised cutting planes, one pass over X per round for all of them,
          planes shared by all weights of a split

Chains on which the first is slow may be handed over to the second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, Start, relative_gap
from maxmargin.core.rounding import gamma, level, unseen
from maxmargin.core.shared_bundle import PlanePool, PooledBundle
from maxmargin.core.stopping import Bounds
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import as_design, compact, row_lengths
from maxmargin.engines import make_engine
from maxmargin.estimators.grid_table import CellId, Done, Scheme
from maxmargin.estimators.linear.grid_plan import Grid
from maxmargin.losses import DualTerms
from maxmargin.risks import ScoreRisk
from maxmargin.risks.lockstep import LockstepRisk
from maxmargin.risks.shared_rows import RowRun, SharedRows, order_rows
from maxmargin.solvers import Auto, CuttingPlane, Newton
from maxmargin.solvers.base import Problem, Solver, SolverState
from maxmargin.solvers.certificate import certify
from maxmargin.solvers.lockstep import Cell, Chain, minimize_many
from maxmargin.solvers.minimization import solve
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.row_ascent import Coordinates, ascend

#: visits of all rows that coordinate ascent may still seem to need, and may have needed for a cell,
#: before cutting planes take over the rest of its chain
BUDGET, COSTLY = 30.0, 18.0
#: where the next cut is taken: on grids nearer to the best point than the solver's default pays
MU = 0.02
#: bytes of scores that problems in lockstep may hold, per byte of data
SCORES_PER_DATA = 0.5


@dataclass(frozen=True, slots=True)
class _Ascent:
    """Coordinate ascent that gives up when more than ``budget`` epochs seem to be left."""

    budget: float
    needs: ClassVar[Needs] = Needs(methods=("coordinate",))

    def steps(self, problem: Problem, state: SolverState) -> Any:
        return ascend(problem, state, Coordinates(), self.budget)


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """Where a chain stands: one number per row, not all that a solver had in memory."""

    w: Array
    C: float
    alpha: Array | None

    @classmethod
    def of(cls, result: SolveResult) -> _Kept:
        duals = result.duals.get("coordinate")
        if duals is None:
            return cls(result.w, 0.0, None)
        return cls(result.w, duals.C, duals.multipliers.copy())

    def start(self, risk: ScoreRisk, regularizer: SquaredNorm) -> Start:
        if self.alpha is None:
            return Start(self.w)
        duals = risk.row_duals("coordinate", self.C, regularizer)
        duals.load(self.alpha)
        return Start(self.w, duals={"coordinate": duals})


class PathRunner:
    """Trains chains one after the other, or ``n_jobs`` at a time."""

    scheme: Scheme = "path"

    def __init__(self, grid: Grid, *, budget: float, keep: bool) -> None:
        self.grid, self.budget, self._keep = grid, budget, keep
        n = len(grid.codes)
        self._order: IntArray | None = None
        self._X, self._ranges = grid.X, [[(0, n)] for _ in grid.trains]
        if grid.shares_rows():
            self._order, runs = order_rows(np.zeros(n, np.int64), grid.trains, n)
            self._X = compact(_reordered(grid.X, self._order))
            self._ranges = [
                _merged([(lo, hi) for lo, hi, _, splits in runs if k in splits])
                for k in range(len(grid.trains))
            ]
        #: chains left to another scheme: where they ended, and what was proved, as one cut
        self.slow: dict[Any, tuple[Array, Cut]] = {}
        self._kept: dict[Any, list[_Kept]] = {}

    def run(self, ids: Iterable[CellId]) -> Iterator[Done]:
        """Train the cells; a chain ends early where the method gives up."""
        chains = self.grid.chains(ids)
        jobs = [(key, stages) for key, stages in chains.items()]
        engine = make_engine(self.grid.n_jobs)
        workers = getattr(engine, "n_workers", 1)
        engine.close()
        if workers == 1 or len(jobs) == 1:
            for job in jobs:
                yield from self._chain(*job)
            return
        pool = ThreadPoolExecutor(workers)
        try:
            for done in pool.map(lambda job: list(self._chain(*job)), jobs):
                yield from done
        finally:  # after Ctrl-C: chains that have not begun are not begun
            pool.shutdown(wait=True, cancel_futures=True)

    def _chain(self, key: Any, stages: list[tuple[float, list[CellId]]]) -> Iterator[Done]:
        grid = self.grid
        split, ratios = key
        weight = grid.weight * np.array(ratios)[grid.codes]
        risks = self._risks(split, weight)
        last: list[SolveResult] = []
        kept = self._kept.get(key)
        for C, ids in stages:
            began = time.perf_counter()
            regularizer = grid.regularizer(grid.trains[split], weight, C)
            starts: Sequence[SolveResult | Start | None] = last or [None] * len(risks)
            if kept is not None:
                pairs = zip(kept, risks, strict=True)
                starts, kept = [one.start(risk, regularizer) for one, risk in pairs], None
            last = [
                solve(
                    risk,
                    C,
                    solver=self._solver(risk, regularizer, start),
                    regularizer=regularizer,
                    stopping=grid.stopping,
                    max_iter=grid.max_iter,
                    random_state=grid.random_state,
                    start=start,
                )
                for risk, start in zip(risks, starts, strict=True)
            ]
            if any(result.stop_reason == "interrupted" for result in last):
                raise KeyboardInterrupt  # it ends the grid, not one cell of it
            seconds = (time.perf_counter() - began) / len(ids)
            # multipliers are as large as the rows: they stay here
            light = [replace(result, dual=None, duals={}, history=[]) for result in last]
            for id in ids:
                yield Done(id, light, seconds, "path")
            if np.isfinite(self.budget) and not (
                last[0].converged and last[0].oracle_calls <= COSTLY
            ):
                # the rest of the chain would be harder still
                duals = last[0].duals["coordinate"]
                duals.dual_value(duals.C)  # summed anew: nobody checks this plane again
                self.slow[key] = (last[0].w, duals.aggregate())
                return
        if self._keep and last:
            self._kept[key] = [_Kept.of(result) for result in last]

    def _risks(self, split: int, weight: Array) -> list[ScoreRisk]:
        grid, order, X = self.grid, self._order, self._X
        ranges: list[tuple[int, int]] | None = self._ranges[split]
        if order is None:  # the split's rows on their own
            order, ranges = grid.trains[split], None
            X = compact(X[order])
        return [
            ScoreRisk(
                X,
                target[order],
                grid.loss,
                sample_weight=weight[order],
                intercept=grid.intercept,
                ranges=ranges,
            )
            for target in grid.targets
        ]

    def _solver(
        self, risk: ScoreRisk, regularizer: SquaredNorm, last: SolveResult | Start | None
    ) -> Solver:
        methods = risk.methods(regularizer)
        if isinstance(last, SolveResult) and last.history and last.history[-1].method == "newton":
            return Newton()  # what was needed at a smaller C is needed at this one
        if "coordinate" in methods and np.isfinite(self.budget):
            return _Ascent(self.budget)
        return Auto()


class LockstepRunner:
    """Trains all chains at once."""

    scheme: Scheme = "lockstep"

    def __init__(self, grid: Grid, starts: dict[Any, tuple[Array, Cut]] | None = None) -> None:
        self.grid = grid
        order, runs = order_rows(grid.codes, grid.trains, len(grid.codes))
        rows = SharedRows(
            compact(_reordered(grid.X, order)),
            grid.targets[0][order],
            grid.weight[order],
            grid.loss,
            grid.intercept,
            tuple(RowRun(*run) for run in runs),
        )
        design = as_design(grid.X)
        known = row_lengths(design, 0, design.shape[0])
        self._lengths: Array = np.hypot(0.0 if known is None else known, grid.intercept)
        self._engine = make_engine(grid.n_jobs)
        self._risk = LockstepRisk(rows, self._engine)
        self._chains: dict[Any, Chain] = {}
        self._pools: dict[int, PlanePool] = {}
        self._starts = starts or {}
        longest = max(len(train) for train in grid.trains)
        self._width = max(4, int(SCORES_PER_DATA * _n_bytes(grid.X) / (16 * longest)))

    def run(self, ids: Iterable[CellId]) -> Iterator[Done]:
        """Train the cells; yields each as it is done."""
        grid, owners = self.grid, {}
        chains = []
        for key, stages in grid.chains(ids).items():
            scale = np.array(key[1])
            cells = []
            for C, members in stages:
                weight = grid.weight * scale[grid.codes]
                cell = Cell(key[0], scale, C, grid.regularizer(grid.trains[key[0]], weight, C))
                owners[id(cell)] = members
                cells.append(cell)
            chain = self._chains.setdefault(key, self._chain(key, cells[0]))
            chain.cells = cells
            chains.append(chain)
        found = minimize_many(
            self._risk,
            chains,
            solver=CuttingPlane(mu=MU),
            stopping=grid.stopping,
            max_iter=grid.max_iter,
            width=self._width,
            pools=self._pools,
        )
        for done in found:
            members = owners[id(done.cell)]
            result = self._paid(done.cell, done.result)
            for member in members:
                yield Done(member, [result], done.seconds / len(members), "lockstep")

    def _paid(self, cell: Cell, result: SolveResult) -> SolveResult:
        """The result with bounds that have paid for rounding; see :mod:`maxmargin.core.rounding`.

        Every plane is a sum over the rows of the split, with coefficients that their weights bound. F is
        computed again, in twice the precision if need be, where that is not negligible.
        """
        grid, train, omega = self.grid, self.grid.trains[cell.split], cell.regularizer
        if not np.isfinite(result.objective):
            return result
        weight = (grid.weight * cell.scale[grid.codes])[train]
        lengths, radius = self._lengths[train], omega.radius(result.objective)
        terms = grid.loss.dual_terms(grid.targets[0][:1])
        assert isinstance(terms, DualTerms)  # LinearSVCCV looks before it chooses lockstep
        steep = terms.slope(terms.reach + radius * lengths)
        size = cell.C * float(np.sum(weight * steep * (1.0 + lengths)))
        error = gamma(len(train)) * size * (1.0 + radius)
        upper, flat = result.objective, level(len(train)) * result.objective
        if error <= unseen(len(train)) * result.objective:
            error = flat
        else:
            risk = ScoreRisk(
                compact(grid.X[train]),
                grid.targets[0][train],
                grid.loss,
                sample_weight=weight,
                intercept=grid.intercept,
            )
            upper = certify(risk, omega, cell.C, result.w, None)[0]
        lower = max(0.0, result.lower_bound - error)
        proved = grid.stopping.met(Bounds(upper, lower, cell.C))
        stop = "stalled" if result.stop_reason == "gap" and not proved else result.stop_reason
        return replace(
            result,
            objective=upper,
            lower_bound=lower,
            gap=relative_gap(upper, lower),
            converged=proved,
            stop_reason=stop,
        )

    def _chain(self, key: Any, first: Cell) -> Chain:
        start = self._starts.get(key)
        if start is None:
            return Chain([])
        pool = self._pools.setdefault(key[0], PlanePool(self._risk.dim, self._risk.n_parts))
        bundle = PooledBundle(pool, first.scale, regularizer=first.regularizer)
        bundle.add([start[1]])
        return Chain([], SolverState(w=start[0], memory=bundle))

    def close(self) -> None:
        """Let go of scores and threads."""
        self._engine.close()


@dataclass(slots=True)
class GridTrainer:
    """Trains cells by one scheme, and what it leaves by the other."""

    grid: Grid
    scheme: Scheme
    hand_over: bool
    keep: bool
    used: set[Scheme] = field(default_factory=set)
    _path: PathRunner | None = None
    _lockstep: LockstepRunner | None = None
    _starts: dict[Any, tuple[Array, Cut]] = field(default_factory=dict)

    def run(self, ids: Sequence[CellId]) -> Iterator[Done]:
        """Train the cells."""
        left = set(ids)
        if self.scheme == "path":
            if self._path is None:
                budget = BUDGET if self.hand_over and self.grid.max_iter is None else float("inf")
                self._path = PathRunner(self.grid, budget=budget, keep=self.keep)
            slow = self._path.slow
            for done in self._path.run([id for id in ids if self.grid.key(id) not in slow]):
                if done.converged or not np.isfinite(self._path.budget):
                    left.remove(done.id)
                    self.used.add("path")
                    yield done
            self._starts.update(slow)
            if not self.keep:
                self._path = None  # its copy of the rows and its multipliers are no longer needed
        if not left:
            return
        if self._lockstep is None:
            self._lockstep = LockstepRunner(self.grid, self._starts)
        for done in self._lockstep.run(id for id in ids if id in left):
            self.used.add("lockstep")
            yield done
        if not self.keep:
            self.close()

    def close(self) -> None:
        """Let go of everything."""
        if self._lockstep is not None:
            self._lockstep.close()
            self._lockstep = None


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same rows in as few ranges as can be."""
    out: list[tuple[int, int]] = []
    for lo, hi in ranges:
        if out and out[-1][1] == lo:
            out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return out


def _reordered(X: Any, order: IntArray) -> Any:
    """The rows in this order: X itself if that is theirs."""
    return X if (np.diff(order) == 1).all() else X[order]


def _n_bytes(X: Any) -> int:
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)
