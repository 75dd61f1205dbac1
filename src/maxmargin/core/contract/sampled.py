"""Evaluations with sampled cuts; see :mod:`maxmargin.core.sampling`."""

from __future__ import annotations

from typing import Protocol, Self

from maxmargin.core.contract.evaluation import Evaluation
from maxmargin.core.cut import Cut
from maxmargin.core.sampling import Draw, Terms
from maxmargin.core.vectors import IntArray


class SampledEvaluation(Evaluation, Protocol):
    """An evaluation of a risk with ``oracle = "sampled"``."""

    def terms(self, trial: Self, examples: IntArray | None = None) -> Terms:
        """The exact cut here, example by example, as a function of ``trial``. With ``examples``: only those,
        as if they were all."""

    def sampled_cut(self, draw: Draw, whole: bool) -> Cut:
        """A cut from the sampled examples. ``whole``: take its offset and its free coordinates from all
        examples."""


class GrowingRisk(Protocol):
    """A risk over few of the examples, which are exchanged during the fit."""

    def extend(self, size: int, seed: int, held: int) -> IntArray:
        """Sample ``size`` of all examples. The risk is then that of all examples in the last ``held``
        samples, including this one, each with an equal share of the total weight. Return the indices of the
        examples of this sample among them. Points must be evaluated again."""
