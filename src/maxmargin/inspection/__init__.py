"""Displays of fits and models in the style of scikit-learn, and the largest weights of a tagger.

Displays require matplotlib (``maxmargin[plot]``).
"""

from __future__ import annotations

from maxmargin.estimators.structured.explanation import TaggerExplanation
from maxmargin.inspection.convergence import ConvergenceDisplay
from maxmargin.inspection.models import (
    MarginsDisplay,
    PathDisplay,
    TransitionsDisplay,
    WeightsDisplay,
)

__all__ = [
    "ConvergenceDisplay",
    "MarginsDisplay",
    "PathDisplay",
    "TaggerExplanation",
    "TransitionsDisplay",
    "WeightsDisplay",
]
