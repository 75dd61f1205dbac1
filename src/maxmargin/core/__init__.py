"""The theory: cuts, bundles, bounds. No data and no labels here."""

from maxmargin.core.bundle import Bundle
from maxmargin.core.cut import Cut, add_cuts
from maxmargin.core.dual_point import BundleSolution, DualPoint
from maxmargin.core.protocols import (
    Answers,
    Completion,
    ConstraintCache,
    CoordinateRisk,
    Evaluation,
    Examples,
    LatentAnswers,
    LatentExamples,
    LatentRisk,
    LineEvaluation,
    OracleKind,
    Risk,
    RowDuals,
    SampledEvaluation,
    SweepStats,
    WorkingSets,
)
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import IterationRecord, SolveResult, Start
from maxmargin.core.sampling import Draw, Sampler, Terms, excess_bound
from maxmargin.core.summation import tree_sum
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector

__all__ = [
    "Answers",
    "Array",
    "Bundle",
    "BundleSolution",
    "Completion",
    "ConstraintCache",
    "CoordinateRisk",
    "Cut",
    "Draw",
    "DualPoint",
    "Evaluation",
    "Examples",
    "IntArray",
    "IterationRecord",
    "LatentAnswers",
    "LatentExamples",
    "LatentRisk",
    "LineEvaluation",
    "OracleKind",
    "Risk",
    "RowDuals",
    "SampledEvaluation",
    "Sampler",
    "SolveResult",
    "SparseVector",
    "SquaredNorm",
    "Start",
    "SweepStats",
    "Terms",
    "Vector",
    "WorkingSets",
    "add_cuts",
    "excess_bound",
    "tree_sum",
]
