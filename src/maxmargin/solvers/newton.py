"""Newton's method over rows: second-order steps for few features, however large C is.

The hinge's dual is a quadratic programme in a box: an interior-point method takes ten to twenty steps,
each one Gram matrix X' D X and its factor. The squared hinge is piecewise quadratic: a semismooth Newton
method with exact line search. The loop is that of :mod:`maxmargin.solvers.row_ascent`; the steps are in
``maxmargin.risks``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.core.contract.requests import Steps
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.row_ascent import SecondOrder, ascend


@dataclass(frozen=True, slots=True)
class Newton:
    """Second-order solver for the hinge and the squared hinge with few features.

    An intercept that is not penalised is handled exactly.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.solvers import Newton
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svc = LinearSVC(C=1e4, solver=Newton()).fit(X, y)
    >>> svc.converged_, svc.n_iter_ < 60
    (True, True)
    """

    needs: ClassVar[Needs] = Needs(methods=("newton",))

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The loop."""
        return ascend(problem, state, SecondOrder())
