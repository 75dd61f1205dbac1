"""Train the cells of a grid: each chain of ascending C from the solutions before.

From one C to the next, multipliers and weights are both multiplied by C' / C, and cutting planes are kept,
since they do not depend on C. A method that was too slow for one cell is not tried again along its chain.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import compact
from maxmargin.engines import make_engine
from maxmargin.estimators.base import _seed, stopping_rule
from maxmargin.estimators.grid_table import CellId, Done
from maxmargin.estimators.grid_watch import GridWatch
from maxmargin.estimators.linear.fit import by_columns
from maxmargin.estimators.linear.grid_plan import Grid
from maxmargin.estimators.threads import granted_jobs
from maxmargin.risks import ScoreRisk
from maxmargin.solvers.auto import AutoOnPath, PathPoint
from maxmargin.solvers.minimization import solve


@dataclass(frozen=True, slots=True, eq=False)
class _ChainState:
    """Where a chain stands: weights and one multiplier per row, not everything a solver held in memory."""

    w: Array
    C: float
    alpha: Array | None
    point: PathPoint

    @classmethod
    def of(cls, result: SolveResult) -> _ChainState:
        duals = result.duals.get("coordinate")
        if duals is None:
            return cls(result.w, 0.0, None, _point(result))
        return cls(result.w, duals.C, duals.multipliers.copy(), _point(result))

    def start(self, risk: ScoreRisk, regularizer: SquaredNorm) -> Start:
        if self.alpha is None:
            return Start(self.w)
        duals = risk.row_duals("coordinate", self.C, regularizer)
        duals.load(self.alpha)
        return Start(self.w, duals={"coordinate": duals})


class GridTrainer:
    """Trains chains one after the other, or ``n_jobs`` at a time.

    ``resumable``: more cells of the same chains will follow, so their state is kept.
    """

    def __init__(self, grid: Grid, *, resumable: bool) -> None:
        self.grid, self._resumable = grid, resumable
        n = len(grid.codes)
        self._order: IntArray | None = None
        self._X, self._ranges = grid.X, [[(0, n)] for _ in grid.trains]
        if grid.shares_rows():
            self._order, self._ranges = order_rows(grid.trains, n)
            self._X = self._held(_reordered(grid.X, self._order))
        self._states: dict[Any, list[_ChainState]] = {}
        self._stopping, self._seed = stopping_rule(grid.svc.tol), _seed(grid.svc.random_state)

    def run(self, ids: Iterable[CellId], watch: GridWatch) -> Iterator[Done]:
        """Train the cells until ``watch`` has ended; yields each when it is done."""
        jobs = list(self.grid.chains(ids).items())
        engine = make_engine(granted_jobs(self.grid.svc.n_jobs))
        workers = getattr(engine, "n_workers", 1)
        engine.close()
        if workers == 1 or len(jobs) == 1:
            for key, stages in jobs:
                yield from self._chain(key, stages, watch)
            return
        pool = ThreadPoolExecutor(workers)
        try:
            for done in pool.map(lambda job: list(self._chain(job[0], job[1], watch)), jobs):
                yield from done
        finally:  # after Ctrl-C: chains that have not begun are not begun
            pool.shutdown(wait=True, cancel_futures=True)

    def _chain(
        self, key: Any, stages: list[tuple[float, list[CellId]]], watch: GridWatch
    ) -> Iterator[Done]:
        grid = self.grid
        split, ratios = key
        risks = self._risks(split, ratios)
        last: list[SolveResult] = []
        states = self._states.get(key)
        for C, ids in stages:
            if watch.ended():
                return
            began = time.perf_counter()
            regularizer = grid.regularizer(split, ratios, C)
            starts: Sequence[SolveResult | Start | None] = last or [None] * len(risks)
            points = [_point(result) for result in last] or [PathPoint()] * len(risks)
            if states is not None:
                pairs = zip(states, risks, strict=True)
                starts = [state.start(risk, regularizer) for state, risk in pairs]
                points, states = [state.point for state in states], None
            last = [
                solve(
                    risk,
                    C,
                    solver=AutoOnPath(point),
                    regularizer=regularizer,
                    stopping=self._stopping,
                    max_iter=grid.svc.max_iter,
                    max_seconds=watch.left(),
                    random_state=self._seed,
                    start=start,
                )
                for risk, start, point in zip(risks, starts, points, strict=True)
            ]
            if any(result.stop_reason == "interrupted" for result in last):
                raise KeyboardInterrupt  # it ends the grid, not one cell of it
            if any(result.stop_reason == "max_seconds" for result in last):
                return  # the time limit of the grid, too: this cell is not finished
            seconds = (time.perf_counter() - began) / len(ids)
            # multipliers are as large as the rows: they stay here
            light = [
                replace(result, dual=None, duals={}, proof=None, history=[]) for result in last
            ]
            for id in ids:
                yield Done(id, light, seconds)
        if self._resumable and last:
            self._states[key] = [_ChainState.of(result) for result in last]

    def _risks(self, split: int, ratios: Sequence[float]) -> list[ScoreRisk]:
        grid, order, X = self.grid, self._order, self._X
        ranges: list[tuple[int, int]] | None = self._ranges[split]
        if order is None:  # the split's rows on their own
            order, ranges = grid.trains[split], None
            X = self._held(X[order])
        return [
            ScoreRisk(
                X,
                target[order],
                loss,
                sample_weight=weight[order],
                intercept=grid.model.intercept,
                ranges=ranges,
            )
            for target, loss, weight in grid.problems(ratios)
        ]

    def _held(self, X: Any) -> Any:
        """The rows in the form that is fast for the loss."""
        return X if by_columns(self.grid.model.loss) else compact(X)


def order_rows(trains: Sequence[IntArray], n: int) -> tuple[IntArray, list[list[tuple[int, int]]]]:
    """An order of the n rows in which every split is a few ranges, and these ranges (lo, hi) by split.

    ``trains`` holds one array of row numbers per split. The order is stable: rows that are in order already
    are not moved.
    """
    member = np.zeros((n, len(trains)), dtype=bool)
    for k, rows in enumerate(trains):
        member[rows, k] = True
    signature = member @ (1 << np.arange(len(trains)))
    order = np.argsort(signature, kind="stable")
    ends = np.flatnonzero(np.diff(signature[order])) + 1
    ranges: list[list[tuple[int, int]]] = [[] for _ in trains]
    for lo, hi in itertools.pairwise([0, *ends.tolist(), n]):
        for k in np.flatnonzero(member[order[lo]]).tolist():
            adjacent = bool(ranges[k]) and ranges[k][-1][1] == lo  # then as one range
            ranges[k].append((ranges[k].pop()[0] if adjacent else lo, hi))
    return order, ranges


def _point(result: SolveResult) -> PathPoint:
    """How this fit ended."""
    if not result.history or result.stop_reason in ("stalled", "rounding"):
        return PathPoint()
    return PathPoint(result.history[-1].method, result.oracle_calls)


def _reordered(X: Any, order: IntArray) -> Any:
    """The rows in this order: X itself if that is theirs."""
    return X if (np.diff(order) == 1).all() else X[order]
