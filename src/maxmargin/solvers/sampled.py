"""Sampled cuts: kernel problems in time linear in the examples, or independent of them (Yu and Joachims).

    minimise  F(w) = 1/2 |w|^2 + C R(w)      w, and every plane, a sum of kernel functions

A plane with one kernel function for each example in it makes every inner product a double sum. So planes are
made of few examples (:mod:`maxmargin.core.sampling`). Two algorithms:

*linear time* (algorithm 3): the oracle looks at all n examples, and r of those with a loss make the plane.
The offset, and the plane in the free coordinates (an intercept), stay exact. A plane is drawn again until it
is violated at w_t where the exact one is. The value F(w) is exact too. The loop is that of
:class:`maxmargin.solvers.CuttingPlane`, with the best point and the exact line search on scores that the
papers asked for, or without; it ends when F(w) - D <= C epsilon with D the value of the reduced problem. O(T
n r) kernel values.

*constant time* (algorithm 2): every iteration draws r examples afresh and cuts the risk of these alone. It
ends when such a cut was not violated by more than epsilon p times in a row. With the line search F on the
line is that of all examples drawn so far. O(T^2 r^2) kernel values, however many examples there are.

epsilon is relative to the risk at w = 0, which is n for the losses of classes: then it is the papers'
epsilon, on the mean. D is no lower bound, so none is told. What is told is the measured F(w), and how far it
can be from the optimum with probability 1 - delta (:func:`maxmargin.core.sampling.excess_bound`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.core.contract.evaluation import LineEvaluation
from maxmargin.core.contract.requests import (
    Cuts,
    Evaluate,
    Extend,
    Report,
    Request,
    Sample,
    Steps,
    Toward,
    Weigh,
)
from maxmargin.core.cut import Cut
from maxmargin.core.sampling import (
    Draw,
    NonZeroLoss,
    SampledBundle,
    Sampler,
    SamplingRecord,
    Terms,
    check_cut,
    checked_draw,
    too_long,
)
from maxmargin.core.stopping import AbsoluteGap, RelativeGap
from maxmargin.core.vectors import SparseVector
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.cutting_plane import CuttingPlane, ahead, search
from maxmargin.solvers.requirements import Needs

#: examples of a cut: linear and constant time
LINEAR_SIZE, CONSTANT_SIZE = 400, 1000
#: how much tighter than epsilon the reduced problem is solved
QP_EFFORT = 0.01


@dataclass(frozen=True, slots=True)
class SampledCuts:
    """Cutting planes made of few examples each, for kernels.

    Parameters
    ----------
    size : int, optional
        Examples of a cut (the papers' r): 400 by default, 1000 in constant time.
    constant_time : bool, default False
        Look at ``size`` examples per iteration only, instead of all.
    line_search : bool, default True
        Keep the best point, and search the line from it to the reduced problem's solution; False is the
        plain form of the papers.
    differences : bool, default True
        Linear time: draw the change of an earlier plane, where that changes less, instead of a plane.
        Examples whose loss is the same in both need not be drawn again, so planes become exact toward the
        end. Needs a risk that can; False is the plain form.
    mu : float, optional
        Where the next cut is taken on that line; see :class:`CuttingPlane`.
    idle : int, default 20
        Cuts inactive in this many consecutive reduced problems are dropped.
    patience : int, default 4
        Constant time ends when so many cuts in a row were not violated (the papers' p).
    sampler : Sampler, default NonZeroLoss()
        Who draws the examples of a cut, in linear time: see :class:`maxmargin.core.Sampler`. Draws are
        checked for the conditions of the papers' theorem 1.
    delta : float, default 0.05
        The probabilistic bound holds with probability 1 - delta.
    measure : bool, default True
        Measure F of the result by a pass over all examples, in double precision. Without it ``objective_`` is
        what the fit itself computed, in linear time, and NaN in constant time.

    Notes
    -----
    A number given as ``tol`` is epsilon, relative to the risk at zero: for losses of classes the papers'
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
    differences: bool = True
    mu: float | None = None
    idle: int = 20
    patience: int = 4
    sampler: Sampler = field(default_factory=NonZeroLoss)
    delta: float = 0.05
    measure: bool = True

    def __post_init__(self) -> None:
        counts = {"size": self.size, "idle": self.idle, "patience": self.patience}
        for name, value in counts.items():
            number = isinstance(value, Real) and float(value) % 1.0 == 0.0 and float(value) >= 1.0
            if not number and (name != "size" or value is not None):
                raise ValueError(f"{name}={value!r}: it must be a whole number, 1 or more.")
        if self.mu is not None and not 0.0 < self.mu <= 1.0:
            raise ValueError(f"mu={self.mu!r}: it must be in (0, 1].")
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"delta={self.delta!r}: it must be in (0, 1).")
        if not isinstance(self.sampler, Sampler):
            raise TypeError(f"sampler={self.sampler!r} has no method draw(terms, size, rng).")
        if self.constant_time and not isinstance(self.sampler, NonZeroLoss):
            raise ValueError(
                "constant time knows no losses to draw by and draws uniformly: leave sampler out."
            )

    @property
    def needs(self) -> Needs:
        """Cuts that can be sampled; in constant time of a risk that can begin with few examples."""
        return Needs(sampled_cuts=True, growing=self.constant_time)

    @property
    def n_drawn(self) -> int:
        """Examples of a cut."""
        return int(self.size or (CONSTANT_SIZE if self.constant_time else LINEAR_SIZE))

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The loop."""
        omega = problem.regularizer
        slots = problem.dim - len(omega.free)
        bundle = state.memory = SampledBundle(
            problem.dim,
            1,
            base=problem.base * problem.n_blocks,
            regularizer=omega,
            max_planes=max(2, min(slots - 16, 4 * slots // 5)),
            idle=self.idle,
        )
        bundle.record = SamplingRecord()
        rng = np.random.default_rng(problem.random_state)
        run = self._constant if self.constant_time else self._linear
        yield from run(problem, state, bundle, rng)

    # -- linear time -----------------------------------------------------------------------------------

    def _linear(
        self, problem: Problem, state: SolverState, bundle: SampledBundle, rng: np.random.Generator
    ) -> Steps:
        zero = yield Evaluate(np.zeros(problem.dim))
        epsilon = _epsilon(problem, zero.value)
        del zero
        plain = CuttingPlane(mu=self.mu, line_search=self.line_search, idle=self.idle)
        loop = plain.steps(replace(problem, stopping=AbsoluteGap(problem.C * epsilon)), state)
        answer: Any = None
        while True:
            try:
                request = loop.send(answer)
            except StopIteration:
                break
            if isinstance(request, Cuts):
                bundle.record.reduced = state.lower
                answer = yield from self._drawn(problem, request, epsilon, bundle.record, rng)
            else:
                answer = yield request
            del request  # it may hold the scores of all rows
        bundle.record.reduced = state.lower
        if state.stop == "gap":
            state.stop = "sampled"

    def _drawn(
        self,
        problem: Problem,
        wanted: Cuts,
        epsilon: float,
        record: SamplingRecord,
        rng: np.random.Generator,
    ) -> Generator[Request, Any, list[Cut]]:
        """The cut, of few examples."""
        at: Any = wanted.at
        first = wanted.trial is None
        trial: Any = at if first else wanted.trial
        terms: Terms = yield Weigh(at, trial)
        above = -np.inf if first else wanted.model + epsilon
        if terms.value > above >= terms.expected:  # the plane that would be changed is too far off
            terms = yield Weigh(at, trial, afresh=True)
        cut: Cut = yield Sample(at, self._checked(terms, above, record, rng))
        if terms.exact is not None and too_long(_length(cut, problem), terms):
            # changes add up to a plane that no draw of all examples would give: one of these instead
            terms = yield Weigh(at, trial, afresh=True)
            cut = yield Sample(at, self._checked(terms, above, record, rng))
        check_cut(cut.offset, _length(cut, problem), terms)
        return [cut]

    def _checked(
        self, terms: Terms, above: float, record: SamplingRecord, rng: np.random.Generator
    ) -> Draw:
        size = max(self.n_drawn, terms.allowance)
        return checked_draw(lambda: self.sampler.draw(terms, size, rng), terms, above, record)

    # -- constant time ---------------------------------------------------------------------------------

    def _constant(
        self, problem: Problem, state: SolverState, bundle: SampledBundle, rng: np.random.Generator
    ) -> Steps:
        C, record = problem.C, bundle.record
        w, model, epsilon, guess, calm = state.w, problem.base * problem.n_blocks, np.nan, 1.0, 0
        while True:
            drawn = yield Extend(self.n_drawn, int(rng.integers(2**63)))
            trial: Any = yield Evaluate(w)
            if not len(bundle):
                epsilon = _epsilon(problem, trial.value)
            terms: Terms = yield Weigh(trial, trial, drawn)
            calm = 0 if terms.value > model + epsilon else calm + 1
            at, step = trial, None
            if self.line_search and len(bundle) and isinstance(trial, LineEvaluation):
                best: Any = yield Evaluate(state.w)  # the risk has changed with the examples
                step = yield from search(problem, best, trial, guess)
                if step > 0.0:
                    best, guess = (yield Toward(best, trial, step)), step
                state.w = best.w
                at = yield Toward(best, trial, self.mu or ahead(step or guess), value=False)
                del best
            else:
                state.w = w
            draw = Draw(drawn, np.ones(len(drawn)), 0.0)  # the risk knows the spread
            record.count(draw, terms)
            record.offset_spread = max(record.offset_spread, terms.ceiling / np.sqrt(len(drawn)))
            cut: Cut = yield Sample(at, draw, whole=False)
            check_cut(cut.offset, _length(cut, problem), terms)
            del at, trial
            bundle.add([cut])
            solution = bundle.solve(C, QP_EFFORT * C * epsilon)
            w, model, record.reduced = solution.w, solution.model, solution.lower_bound
            asked = yield Report(len(bundle), solution.n_active, step, "sampled cuts")
            if calm >= self.patience:
                state.stop = "sampled"
                return
            if asked is not None:
                state.stop = asked
                return


def _epsilon(problem: Problem, at_zero: float) -> float:
    """How much a cut may be violated: a share of the risk at zero, or what another rule than the default
    says."""
    rule = problem.stopping
    if isinstance(rule, RelativeGap):
        return rule.tol * at_zero
    return rule.allowed_gap(problem.C * at_zero, problem.C) / problem.C


def _length(cut: Cut, problem: Problem) -> float:
    plane = cut.plane.to_dense() if isinstance(cut.plane, SparseVector) else cut.plane
    return float(np.sqrt(max(0.0, problem.regularizer.inner(plane, plane))))
