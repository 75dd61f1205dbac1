"""Large-margin learning with a certificate."""

from maxmargin import data, engines, losses, risks, solvers, tasks
from maxmargin.estimators import (
    GaussianPrior,
    GrammarParser,
    GraphLabeler,
    LatentStructuredSVM,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    StructuredSVMCV,
    structured_path,
    svc_path,
)
from maxmargin.persistence import load
from maxmargin.solvers import minimize

__version__ = "0.1.0.dev0"
__all__ = [
    "GaussianPrior",
    "GrammarParser",
    "GraphLabeler",
    "LatentStructuredSVM",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "MeasureSVC",
    "RankSVM",
    "SequenceTagger",
    "StructuredSVM",
    "StructuredSVMCV",
    "data",
    "engines",
    "load",
    "losses",
    "minimize",
    "risks",
    "solvers",
    "structured_path",
    "svc_path",
    "tasks",
]
