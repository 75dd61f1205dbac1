"""The theory: cuts, bundles, bounds. No data and no labels here."""

from maxmargin.core.answers import Answers
from maxmargin.core.bundle import Bundle
from maxmargin.core.cut import Cut, add_cuts
from maxmargin.core.dual_point import BundleSolution, DualPoint
from maxmargin.core.evaluation import Evaluation, LineEvaluation, OracleKind
from maxmargin.core.examples import ConstraintCache, Examples, LatentExamples
from maxmargin.core.latent import Completion, LatentAnswers, LatentRisk
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import IterationRecord, SolveResult, Start
from maxmargin.core.risk import Capabilities, Risk
from maxmargin.core.row_duals import RowDualRisk, RowDuals
from maxmargin.core.sampled import SampledEvaluation
from maxmargin.core.sampling import Draw, Sampler, Terms, excess_bound
from maxmargin.core.summation import tree_sum
from maxmargin.core.sweeps import SweepStats
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector
from maxmargin.core.working_sets import WorkingSetRisk, WorkingSets

__all__ = [
    "Answers",
    "Array",
    "Bundle",
    "BundleSolution",
    "Capabilities",
    "Completion",
    "ConstraintCache",
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
    "RowDualRisk",
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
    "WorkingSetRisk",
    "WorkingSets",
    "add_cuts",
    "excess_bound",
    "tree_sum",
]
