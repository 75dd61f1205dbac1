"""Evaluations whose cuts are sampled from some of the examples; see :mod:`maxmargin.core.sampling`."""

from __future__ import annotations

from typing import Protocol, Self

from maxmargin.core.contract.evaluation import Evaluation
from maxmargin.core.cut import Cut
from maxmargin.core.sampling import Draw, Terms
from maxmargin.core.vectors import IntArray


class SampledEvaluation(Evaluation, Protocol):
    """An evaluation of a risk with ``oracle = "sampled"``."""

    def terms(self, trial: Self, examples: IntArray | None = None) -> Terms:
        """The exact cut here, example by example, seen from ``trial``; of some examples as if they were
        all."""

    def fresh_terms(self, trial: Self) -> Terms:
        """The same, where :meth:`terms` speaks of the change of a plane (``Terms.exact`` is not None),
        without it. Otherwise never asked for."""

    def sampled_cut(self, draw: Draw, whole: bool) -> Cut:
        """A cut of the drawn examples. ``whole``: its offset and its plane in free coordinates are those of
        all."""


class GrowingRisk(Protocol):
    """A risk that can begin with few examples, and get to know more of them."""

    def extend(self, size: int, seed: int) -> IntArray:
        """Sample so many of all examples: the risk is that of the examples sampled so far, each of which
        stands for as many. The numbers, among those, of the ones sampled now. Points must be evaluated
        anew."""
