"""Large-margin learning with a certificate."""

from maxmargin import engines, losses, risks, solvers, tasks
from maxmargin.estimators import (
    GrammarParser,
    GraphLabeler,
    LinearSVC,
    LinearSVCCV,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    svc_path,
)
from maxmargin.persistence import load
from maxmargin.solvers import minimize

__version__ = "0.1.0.dev0"
__all__ = [
    "GrammarParser",
    "GraphLabeler",
    "LinearSVC",
    "LinearSVCCV",
    "MeasureSVC",
    "RankSVM",
    "SequenceTagger",
    "StructuredSVM",
    "engines",
    "load",
    "losses",
    "minimize",
    "risks",
    "solvers",
    "svc_path",
    "tasks",
]
