"""One kernel problem, and the interface of the methods that solve it.

    minimize  1/2 |f|^2 + C sum_i s_i loss(y_i, f(x_i) + b)     over functions f in the space of the kernel

With two classes, y_i is +1 or -1 and the loss is the hinge loss; in a regression y_i is a target and the loss
epsilon-insensitive. With the joint loss of Crammer and
Singer, y_i is a class, and f and b have one output per class. For every method, the solution is a finite
sum f(x) = sum_j coef_j k(x, x_j) over some of the training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array, IntArray
from maxmargin.duals.kernels.terms import KernelTerms
from maxmargin.kernels import Kernel, KernelRows, center_of
from maxmargin.kernels.rounding import Rounding, summed
from maxmargin.losses import Hinge, ScoreLoss


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """A problem to solve."""

    kernel: Kernel
    #: all rows, an array (float32 or float64, C order) or a CSR matrix
    X: Any
    #: +1 or -1; a target; or the number of a class, where ``n_classes`` is not None
    y: Array | IntArray
    #: per-row multipliers of C, including class weights
    weight: Array
    C: float
    #: number of classes of a joint problem (Crammer and Singer); None for two classes and one function
    n_classes: int | None
    fit_intercept: bool
    #: maximum size in bytes of blocks of kernel values
    memory: int
    #: the loss of one score; not used where ``n_classes`` is not None
    loss: ScoreLoss = field(default_factory=Hinge)
    #: coefficients of an earlier fit with as many rows, one column per output: a starting point, which need
    #: not be feasible
    start: Array | None = None
    #: indices of these rows in the training data, ascending; None: all
    rows: IntArray | None = None
    #: a random number per row, the same in all problems of a fit: a method that samples rows takes the
    #: smallest, so that the problems share them; None if there is one problem
    draw: Array | None = None
    #: the share of this problem in the work of the fit
    share: float = 1.0

    def center(self) -> Array | None:
        """The center of all rows, if the kernel is shift-invariant."""
        return center_of(self.X) if self.kernel.shift_invariant else None

    def packed(self) -> KernelRows:
        """All rows, for kernel values in double precision."""
        return KernelRows(self.kernel, self.X, np.float64, self.center())

    @cached_property
    def terms(self) -> KernelTerms:
        """The loss of one score and its dual, with weights multiplied by C."""
        return KernelTerms.of(self.loss.dual_terms(self.y), self.C * self.weight)

    @cached_property
    def constant(self) -> tuple[float, float]:
        """The best constant function, and its objective (one score)."""
        b = self.terms.best_intercept(self.terms.target) if self.fit_intercept else 0.0
        return b, self.terms.of_constant(b)

    def upper(self, F: float, rounding: Rounding, coef: Array, intercept: Array) -> float:
        """An upper bound of the objective of a function, from its computed value."""
        # the cost of an error in a score; with several classes two scores are compared
        wrong = rounding.of_scores(coef, intercept) * (1.0 if self.n_classes is None else 2.0)
        if self.n_classes is None and self.terms.two_sided:
            wrong += self.terms.rounding(intercept)
        F += rounding.of_norm(coef) + self.C * wrong * float(self.weight.sum())
        return summed(F, len(self.weight))


@dataclass(frozen=True, slots=True, eq=False)
class KernelSolution:
    """The solution of a problem."""

    result: SolveResult
    #: indices of the training rows in the sum, ascending
    support: IntArray
    #: one row for each of them, one column per output
    coef: Array
    #: one per output
    intercept: Array
    #: further attributes of the estimator, whose names end with an underscore
    extras: dict[str, Any] = field(default_factory=dict)


#: (estimator, problem, results of the problems solved before, settings) -> solution. The estimator has the
#: limits and callbacks: call its ``_minimize``, or use them in the same way.
Method = Callable[[Any, KernelProblem, Sequence[SolveResult], Any], KernelSolution]
