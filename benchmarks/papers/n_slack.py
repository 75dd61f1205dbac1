"""The n-slack algorithm as Joachims, Finley and Yu ran it: the QP is solved anew after every 100 constraints.

A reference for the comparison only. The library's own ``DualCoordinate(batch_size="all")`` solves the same
problem, and does not solve a QP to the end before it calls the oracle again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.contract.requests import Confirm, Open, Report, Steps, Sweep
from maxmargin.core.vectors import frozen
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.sets_dual import SetsDual


@dataclass(frozen=True, slots=True)
class NSlack:
    """Algorithm 1: constraints of single examples, and a QP over all of them.

    ``every`` oracle calls the QP is solved until its own gap is ``effort`` of what the stopping rule allows,
    or ``max_epochs`` sweeps were made.
    """

    every: int = 100
    effort: float = 0.5
    max_epochs: int = 300

    @property
    def needs(self) -> Needs:
        """Working sets of single examples."""
        return Needs((), working_sets=True)

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """Passes over the examples, until one proves the gap."""
        sets: Any = yield Open("working sets", problem.C)
        dual = SetsDual(sets)
        state.memory, state.dual, state.candidate = sets, dual, dual.point
        rng, n = np.random.default_rng(problem.random_state), problem.n_examples
        while True:
            seen = 0.0
            for piece in np.array_split(rng.permutation(n), max(1, n // self.every)):
                stats = yield Sweep(sets, "batches", piece, 0.0, len(piece))
                seen += stats.gap
                if stats.new_planes:
                    yield from self._solve(sets, problem, rng)
            state.raise_lower(sets.dual_value(), dual)
            allowed = problem.stopping.allowed_gap(state.lower + seen, problem.C)
            if seen <= 1.5 * allowed:
                w = frozen(sets.w)
                _, upper = yield Confirm(sets, w)
                state.offer(w, problem.regularizer.value(w) + upper)
            asked = yield Report(sets.n_planes, sets.n_support, method="n-slack, QP solved")
            if state.met(problem):
                state.stop = "gap"
                return
            if asked is not None:
                state.stop = asked
                return

    def _solve(self, sets: Any, problem: Problem, rng: np.random.Generator) -> Steps:
        goal = self.effort * problem.stopping.allowed_gap(sets.dual_value(), problem.C)
        for _ in range(self.max_epochs):
            stats = yield Sweep(sets, "epoch", rng.permutation(problem.n_examples))
            if stats.gap <= goal:
                return
