"""Structured risks with a prior mean: w = m + v, using working sets that ignore it.

Block steps use only g_ij = l_ij + <w, p_ij> and distances between planes. So any working sets solve the
problem with the center m if their w starts there: then w = m - sum_ij alpha_ij p_ij at all times. Their dual
value, recomputed from v = - sum_ij alpha_ij p_ij, lacks the center's contribution to the
offsets:

    D = sum_ij alpha_ij (l_ij + <m, p_ij>) - 1/2 |v|^2 = (sum_ij alpha_ij l_ij - 1/2 |v|^2) - <m, v>.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.examples import Examples
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.engine import Engine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray
from maxmargin.risks.priors.mapped_risk import MappedRisk
from maxmargin.risks.structured.risk import TaskRisk
from maxmargin.risks.weight_map import WeightMap


class CenteredSets(WorkingSets):
    """New working sets, moved to a center; see :class:`maxmargin.core.WorkingSets`.

    (An interrupt may leave them without the center for a moment. This is a point like any other, and the next
    dual value, which is recomputed, restores it.)
    """

    def __init__(self, sets: WorkingSets, center: Array) -> None:
        self._sets, self._center = sets, center
        sets.w[:] += center

    @property
    def w(self) -> Array:
        """The point relative to the center, v = w - m."""
        return self._sets.w - self._center

    def dual_value(self) -> float:
        """See :class:`maxmargin.core.WorkingSets`."""
        value = self._sets.dual_value()
        value -= float(self._center @ self._sets.w)
        self._sets.w[:] += self._center
        return value

    def rescale(self, caps: Array) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        self._sets.rescale(caps)
        self.dual_value()

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        self._sets.restore(state)
        self.dual_value()

    @property
    def n_examples(self) -> int:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.n_examples

    @property
    def n_planes(self) -> int:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.n_planes

    @property
    def n_support(self) -> int:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.n_support

    @property
    def gaps(self) -> Array:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.gaps

    @property
    def batch_size(self) -> int:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.batch_size

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.stream(order, skip_below)

    def epoch(self, order: IntArray) -> SweepStats:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.epoch(order)

    def begin(self, order: IntArray, skip_below: float) -> IntArray:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.begin(order, skip_below)

    def absorb(self, answers: Sequence[Answers]) -> SweepStats:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.absorb(answers)

    def confirm(self, answers: Sequence[Answers]) -> tuple[float, float]:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.confirm(answers)

    def drop_idle(self, age: int) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        self._sets.drop_idle(age)

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.WorkingSets`."""
        return self._sets.state()


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
        """See :class:`maxmargin.core.Risk`."""
        return replace(super().offers, working_sets=self)

    @property
    def engine(self) -> Engine:
        """See :class:`maxmargin.risks.TaskRisk`."""
        return self._task_risk.engine

    @property
    def examples(self) -> Examples:
        """See :class:`maxmargin.risks.TaskRisk`."""
        return self._task_risk.examples

    def working_sets(self, C: float, regularizer: SquaredNorm | None = None) -> WorkingSets:
        """New dual state for the coordinate solver."""
        if self.weights.stretches or (regularizer is not None and len(regularizer.nonnegative)):
            raise TypeError(
                f"the working sets of {type(self.examples).__name__} support the mean of a prior only, not "
                "its covariance, nor fixed or signed weights. Use solver=CuttingPlane()."
            )
        return CenteredSets(self._task_risk.working_sets(C), self._center)

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
