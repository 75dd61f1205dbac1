"""One kernel problem, and the methods that solve it.

    minimise  1/2 |f|^2 + C sum_i s_i loss(y_i, f(x_i) + b)     over functions f of the kernel's space

(two classes: y_i = +1 or -1 and the hinge; several at once, Crammer and Singer's: y_i a class, f and b have
one output each). Whatever the method, its answer is a finite sum, f(x) = sum_j coef_j k(x, x_j), over some
of the training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array, IntArray
from maxmargin.kernels import Kernel, KernelRows, center_of
from maxmargin.kernels.rounding import Rounding, summed


@dataclass(frozen=True, slots=True, eq=False)
class KernelProblem:
    """What is to be solved."""

    kernel: Kernel
    #: all rows, an array (float32 or float64, C order) or a CSR matrix
    X: Any
    #: +1 or -1; or the number of a class, where ``n_classes`` is not None
    y: Array | IntArray
    #: factors of C by row, class weights included
    weight: Array
    C: float
    #: one number per class, jointly (Crammer and Singer); None for two classes and one function
    n_classes: int | None
    fit_intercept: bool
    #: bytes that blocks of kernel values may take
    memory: int
    #: coefficients of an earlier fit to as many rows, one row each and one column per output: a guess to
    #: start from, which need not be feasible
    start: Array | None = None
    #: which rows of the training data these are, ascending; None: all
    rows: IntArray | None = None
    #: a random number by row, the same in all problems of a fit: a method that draws rows takes the smallest,
    #: so that the problems share them; None where there is one problem
    draw: Array | None = None
    #: the part of the fit's work that this problem is, of several
    share: float = 1.0

    def centre(self) -> Array | None:
        """The middle of all rows, where the kernel does not mind."""
        return center_of(self.X) if self.kernel.shift_invariant else None

    def rounding(self) -> Rounding:
        """Errors of the kernel's values in double precision."""
        return KernelRows(self.kernel, self.X, np.float64, self.centre()).rounding()

    def upper(self, F: float, rounding: Rounding, coef: Array, intercept: Array) -> float:
        """Not less than F of a function, of which this much was computed."""
        # a score that is wrong costs so much; with several classes two are compared
        wrong = rounding.of_scores(coef, intercept) * (1.0 if self.n_classes is None else 2.0)
        F += rounding.of_norm(coef) + self.C * wrong * float(self.weight.sum())
        return summed(F, len(self.weight))


@dataclass(frozen=True, slots=True, eq=False)
class KernelSolution:
    """What a method found."""

    result: SolveResult
    #: which training rows the function is made of, ascending
    support: IntArray
    #: one row for each of them, one column per output
    coef: Array
    #: one per output
    intercept: Array
    #: what else the fit has to say, as attributes of the estimator: names with a trailing underscore
    extras: dict[str, Any] = field(default_factory=dict)


#: (estimator, problem, results of the problems solved before, settings) -> answer. The estimator gives
#: the limits and watchers: call its ``_minimize``, or hand them on in the same way.
Method = Callable[[Any, KernelProblem, Sequence[SolveResult], Any], KernelSolution]
