"""Newton's method over samples: second-order steps for few features and any C.

The dual of the hinge loss is a quadratic program over a box. An interior-point method takes ten to twenty
steps, each with one Gram matrix X' D X and its factorization. The squared hinge loss is piecewise quadratic
and is solved by a semismooth Newton method with exact line search. The loop is that of
:mod:`maxmargin.solvers.row_ascent`; the steps are in ``maxmargin.duals``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.row_ascent import SecondOrder, ascend
from maxmargin.solvers.session import Session


@dataclass(frozen=True, slots=True)
class Newton:
    """Second-order solver for the hinge and the squared hinge loss with few features.

    An unpenalized intercept is handled exactly.

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

    def run(self, session: Session) -> None:
        """Run the solver's loop."""
        ascend(session, SecondOrder.of(session.problem))
