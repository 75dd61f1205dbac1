"""Structured risks around a centre: w = m + v, with working sets that know nothing of it.

Block steps look at g_ij = l_ij + <w, p_ij> and at distances of planes only, so any working sets solve the
problem with the centre m if their w starts there: then w = m - sum_ij alpha_ij p_ij at all times. What
they take for the dual value, summed anew from v = - sum_ij alpha_ij p_ij, lacks what the centre adds to the
offsets:

    D = sum_ij alpha_ij (l_ij + <m, p_ij>) - 1/2 |v|^2 = (sum_ij alpha_ij l_ij - 1/2 |v|^2) - <m, v>.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from maxmargin.core.protocols import Answers, Examples, WorkingSets
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray
from maxmargin.risks.mapped import MappedRisk
from maxmargin.risks.task import TaskRisk
from maxmargin.risks.weights import WeightMap


class CentredSets:
    """Fresh working sets, moved to a centre; see :class:`maxmargin.core.WorkingSets`.

    (An interrupt may leave them without it for a moment: a point like any other, and the next dual value,
    which is summed anew, puts it back.)
    """

    def __init__(self, sets: WorkingSets, centre: Array) -> None:
        self._sets, self._centre = sets, centre
        sets.w[:] += centre

    @property
    def w(self) -> Array:
        """The point, as seen from the centre."""
        return self._sets.w - self._centre

    def dual_value(self) -> float:
        """See :class:`maxmargin.core.WorkingSets`."""
        value = self._sets.dual_value()
        value -= float(self._centre @ self._sets.w)
        self._sets.w[:] += self._centre
        return value

    def rescale(self, caps: Array) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        self._sets.rescale(caps)
        self.dual_value()

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        self._sets.restore(state)
        self.dual_value()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sets, name)


class CentredRisk(MappedRisk):
    """A structured risk seen through a map of its weights; with working sets if the map is a centre only.

    Parameters
    ----------
    risk : TaskRisk
        The risk of w, of compiled or plain examples.
    weights : WeightMap
        How w comes from v.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.risks import TaskRisk
    >>> from maxmargin.risks.centred import CentredRisk
    >>> from maxmargin.risks.weights import WeightMap
    >>> from maxmargin.solvers import DualCoordinate
    >>> from maxmargin.tasks import Chain
    >>> X, Y = [np.eye(3)], [np.array([0, 1, 1])]
    >>> task = Chain(n_labels=2)
    >>> dim = task.setup(X, Y)
    >>> weights = WeightMap(np.ones((dim, 1)), np.ones(dim))
    >>> risk = CentredRisk(TaskRisk(task, X, Y, dim), weights)
    >>> minimize(risk, C=1.0, solver=DualCoordinate()).converged
    True
    """

    signed_sets = False

    def __init__(self, risk: TaskRisk, weights: WeightMap) -> None:
        super().__init__(risk, weights)
        self._centre = weights.centre.ravel()

    @property
    def examples(self) -> Examples:
        """See :class:`maxmargin.risks.TaskRisk`."""
        examples: Examples = self.inner.examples
        return examples

    def working_sets(self, C: float, regularizer: SquaredNorm | None = None) -> WorkingSets:
        """Fresh dual state for the coordinate solver."""
        if self.weights.stretches or (regularizer is not None and len(regularizer.nonnegative)):
            raise TypeError(
                f"the working sets of {type(self.examples).__name__} know the centre of a prior only, not "
                "its spread, nor fixed or signed weights. Use solver=CuttingPlane()."
            )
        return cast(WorkingSets, CentredSets(self.inner.working_sets(C), self._centre))

    def caps(self, C: float) -> Array:
        """c_i = C s_i."""
        caps: Array = self.inner.caps(C)
        return caps

    def answers(self, w: Array) -> list[Answers]:
        """See :class:`maxmargin.risks.TaskRisk`."""
        found: list[Answers] = self.inner.answers(self.weights.whole(w))
        return found

    def answers_for(self, w: Array, examples: IntArray, quick: bool = False) -> list[Answers]:
        """See :class:`maxmargin.risks.TaskRisk`."""
        found: list[Answers] = self.inner.answers_for(self.weights.whole(w), examples, quick)
        return found

    def remember(self, w: Array, answers: Sequence[Answers]) -> None:
        """Points of v are not those the risk remembers by."""
