"""Structured risks with a prior mean, w = m + v; see :mod:`maxmargin.core.contract.multiplier_sets`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.examples import Examples
from maxmargin.core.contract.multiplier_sets import CenteredDuals
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.engine import Engine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray
from maxmargin.risks.priors.mapped_risk import MappedRisk
from maxmargin.risks.structured.risk import TaskRisk
from maxmargin.risks.weight_map import WeightMap


class CenteredRisk(MappedRisk):
    """A structured risk with a map of its weights; it has working sets if the map only has a center.

    Parameters
    ----------
    risk : TaskRisk
        The risk of w, with compiled or plain examples.
    weights : WeightMap
        The map from v to w.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.risks import TaskRisk
    >>> from maxmargin.risks.priors.centered_risk import CenteredRisk
    >>> from maxmargin.risks.weight_map import WeightMap
    >>> from maxmargin.solvers import DualCoordinate
    >>> from maxmargin.tasks import Chain
    >>> X, Y = [np.eye(3)], [np.array([0, 1, 1])]
    >>> task = Chain(n_labels=2)
    >>> dim = task.setup(X, Y)
    >>> weights = WeightMap(np.ones((dim, 1)), np.ones(dim))
    >>> risk = CenteredRisk(TaskRisk(task, X, Y, dim), weights)
    >>> minimize(risk, C=1.0, solver=DualCoordinate()).converged
    True
    """

    signed_sets = False

    def __init__(self, risk: TaskRisk, weights: WeightMap) -> None:
        super().__init__(risk, weights)
        self._task_risk, self._center = risk, weights.center.ravel()

    @property
    def offers(self) -> Capabilities:
        return replace(super().offers, working_sets=self)

    @property
    def engine(self) -> Engine:
        return self._task_risk.engine

    @property
    def examples(self) -> Examples:
        """See :class:`maxmargin.risks.TaskRisk`."""
        return self._task_risk.examples

    def working_sets(self, C: float, regularizer: SquaredNorm | None = None) -> WorkingSets:
        """See :class:`maxmargin.risks.TaskRisk`."""
        if self.weights.stretches or (regularizer is not None and len(regularizer.nonnegative)):
            raise TypeError(
                f"the working sets of {type(self.examples).__name__} support the mean of a prior only, not "
                "its covariance, nor fixed or signed weights. Use solver=CuttingPlane()."
            )
        sets = self._task_risk.working_sets(C)
        if not isinstance(sets, CenteredDuals):
            raise TypeError(
                f"{type(sets).__name__} has no move_to(center), which a prior requires. Use "
                "solver=CuttingPlane()."
            )
        sets.move_to(self._center)
        return sets

    def caps(self, C: float) -> Array:
        """c_i = C s_i."""
        return self._task_risk.caps(C)

    def answers(self, w: Array) -> list[Answers]:
        """See :class:`maxmargin.risks.TaskRisk`."""
        return self._task_risk.answers(self.weights.whole(w))

    def in_turn(self, examples: IntArray) -> IntArray:
        """See :class:`maxmargin.risks.TaskRisk`."""
        return self._task_risk.in_turn(examples)

    def answers_for(self, w: Array, examples: IntArray, quick: bool = False) -> list[Answers]:
        """See :class:`maxmargin.risks.TaskRisk`."""
        return self._task_risk.answers_for(self.weights.whole(w), examples, quick)

    def remember(self, w: Array, answers: Sequence[Answers]) -> None:
        """Do nothing: the risk remembers points w, not v."""
