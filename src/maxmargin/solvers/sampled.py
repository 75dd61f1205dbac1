"""Sampled cuts: kernel problems in time linear in the examples, or independent of them (Yu and Joachims).

    minimize  F(w) = 1/2 |w|^2 + C R(w)      w, and every plane, a sum of kernel functions

If planes had one kernel function per contributing example, every inner product would be a double sum. So
planes are made of few examples (:mod:`maxmargin.core.sampling`). There are two algorithms:

*linear time* (algorithm 3): the oracle visits all n examples, and r of those with a loss form the plane.
The offset, and the plane in the free coordinates (an intercept), stay exact. A plane is sampled again until
it is violated at w_t if the exact one is. The value F(w) is exact, too. The loop is that of
:class:`maxmargin.solvers.CuttingPlane`, with or without the best point and the exact line search on scores
that the papers suggested. It ends when F(w) - D <= C epsilon with D the value of the reduced problem.
This takes O(T n r) kernel values.

*constant time* (algorithm 2): every iteration samples r new examples and cuts the risk of these alone. It
ends when such a cut was not violated by more than epsilon p times in a row. With the line search, F on the
line is that of the examples of the last 20 samples. This takes O(T^2 r^2) kernel values, for any number of
examples.

epsilon is relative to the risk at w = 0, which is n for classification losses: then it is the papers'
epsilon for the mean. D is not a lower bound, so none is reported, only the measured F(w).

References:

- C.-N. J. Yu and T. Joachims, "Training structural SVMs with kernels using sampled cuts", KDD 2008:
  algorithms 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.core.contract.evaluation import moves_along_lines
from maxmargin.core.cut import Cut
from maxmargin.core.sampling import Draw, SampledBundle, Terms, violated_sample
from maxmargin.core.stopping import AbsoluteGap, RelativeGap
from maxmargin.solvers.base import Problem
from maxmargin.solvers.cutting_plane import CuttingPlane, default_mu
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.session import Session

#: number of examples of a cut: linear and constant time
LINEAR_SIZE, CONSTANT_SIZE = 400, 1000
#: constant time: F on the line is that of the examples of this many samples
HELD_SAMPLES = 20
#: tolerance of the reduced problem, relative to epsilon
QP_EFFORT = 0.01


@dataclass(frozen=True, slots=True)
class SampledCuts:
    """Cutting planes made of few examples each, for kernels.

    Parameters
    ----------
    size : int, optional
        Number of examples of a cut (r in the papers): 400 by default, 1000 in constant time.
    constant_time : bool, default False
        Visit only ``size`` examples per iteration, instead of all.
    line_search : bool, default True
        Keep the best point, and search the line from it to the reduced problem's solution; False is the
        plain form in the papers.
    mu : float, optional
        Where on that line the next cut is computed; see :class:`CuttingPlane`.
    idle : int, default 20
        Drop cuts that are inactive in this many consecutive reduced problems.
    patience : int, default 4
        Constant time ends when this many cuts in a row were not violated (p in the papers).
    measure : bool, default True
        Measure F of the result by a pass over all examples, in double precision. Otherwise ``objective_`` is
        the value that the fit itself computed, in linear time, and NaN in constant time.

    Notes
    -----
    A number given as ``tol`` is epsilon, relative to the risk at zero: for classification losses the papers'
    epsilon.

    Examples
    --------
    >>> from maxmargin.solvers import SampledCuts
    >>> SampledCuts(line_search=False).n_drawn
    400
    """

    size: int | None = None
    constant_time: bool = False
    line_search: bool = True
    mu: float | None = None
    idle: int = 20
    patience: int = 4
    measure: bool = True

    def __post_init__(self) -> None:
        counts = {"size": self.size, "idle": self.idle, "patience": self.patience}
        for name, value in counts.items():
            number = isinstance(value, Real) and float(value) % 1.0 == 0.0 and float(value) >= 1.0
            if not number and (name != "size" or value is not None):
                raise ValueError(f"{name}={value!r}: it must be a whole number, 1 or more.")
        if self.mu is not None and not 0.0 < self.mu <= 1.0:
            raise ValueError(f"mu={self.mu!r}: it must be in (0, 1].")

    @property
    def needs(self) -> Needs:
        """Sampled cuts; in constant time, a risk that can start with few examples."""
        return Needs(sampled_cuts=True, growing=self.constant_time)

    @property
    def n_drawn(self) -> int:
        """Number of examples of a cut."""
        return int(self.size or (CONSTANT_SIZE if self.constant_time else LINEAR_SIZE))

    def run(self, session: Session) -> None:
        """Run the solver's loop."""
        problem, state, omega = session.problem, session.state, session.problem.regularizer
        slots = problem.dim - len(omega.free)
        bundle = state.memory = SampledBundle(
            problem.dim,
            base=problem.base * problem.n_blocks,
            regularizer=omega,
            max_planes=max(2, min(slots - 16, 4 * slots // 5)),
            idle=self.idle,
        )
        rng = np.random.default_rng(problem.random_state)
        run = self._constant if self.constant_time else self._linear
        run(session, bundle, rng)

    # -- linear time -----------------------------------------------------------------------------------

    def _linear(self, session: Session, bundle: SampledBundle, rng: np.random.Generator) -> None:
        problem, state = session.problem, session.state
        epsilon = _epsilon(problem, session.evaluate(np.zeros(problem.dim)).value)
        plain = CuttingPlane(mu=self.mu, line_search=self.line_search, idle=self.idle)

        def sampled_cut(at: Any, trial: Any, model: float) -> Cut:
            bundle.reduced = state.lower
            above = -np.inf if trial is None else model + epsilon
            draw = violated_sample(at.terms(trial or at), self.n_drawn, above, rng)
            return session.sampled_cut(at, draw)

        # until the end of the loop, the rule is about the value of the reduced problem
        session.problem = replace(problem, stopping=AbsoluteGap(problem.C * epsilon))
        try:
            plain.run(session, take=sampled_cut)
        finally:
            session.problem = problem
        bundle.reduced = state.lower
        if state.stop == "gap":
            state.stop = "sampled"

    # -- constant time ---------------------------------------------------------------------------------

    def _constant(self, session: Session, bundle: SampledBundle, rng: np.random.Generator) -> None:
        problem, state = session.problem, session.state
        C = problem.C
        w, model, epsilon, guess, calm = state.w, problem.base * problem.n_blocks, np.nan, 1.0, 0
        held = 1
        while True:
            drawn = session.extend(self.n_drawn, int(rng.integers(2**63)), held)
            trial: Any = session.evaluate(w)
            on_lines = self.line_search and moves_along_lines(trial)
            held = HELD_SAMPLES if on_lines else 1
            if not len(bundle):
                epsilon = _epsilon(problem, trial.value)
            terms: Terms = trial.terms(trial, drawn)
            calm = 0 if terms.value > model + epsilon else calm + 1
            at, step = trial, None
            if on_lines and len(bundle):
                best: Any = session.evaluate(state.w)  # evaluate again: the examples have changed
                step = session.best_step(best, trial, C, guess)
                if step > 0.0:
                    best, guess = session.toward(best, trial, step), step
                state.w = best.w
                mu = self.mu or default_mu(step or guess)
                at = session.toward(best, trial, mu, value=False)
                del best
            else:
                state.w = w
            draw = Draw(drawn, np.ones(len(drawn)))
            cut = session.sampled_cut(at, draw, whole=False)
            del at, trial
            bundle.add([cut])
            solution = bundle.solve(C, QP_EFFORT * C * epsilon)
            w, model, bundle.reduced = solution.w, solution.model, solution.lower_bound
            ended = session.report(
                len(bundle), solution.n_active, step, "sampled cuts", final=False
            )
            if calm >= self.patience:
                state.stop, ended = "sampled", True
            if ended:
                return


def _epsilon(problem: Problem, at_zero: float) -> float:
    """The tolerated violation of a cut: a fraction of the risk at zero, or the gap that another stopping rule
    allows."""
    rule = problem.stopping
    if isinstance(rule, RelativeGap):
        return rule.tol * at_zero
    return rule.allowed_gap(problem.C * at_zero, problem.C) / problem.C
