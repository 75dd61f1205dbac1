"""The optimization core: cuts, bundles, bounds. It handles neither data nor labels."""

from maxmargin.core.bundle import Bundle
from maxmargin.core.bundle_solution import BundleSolution, DualPoint
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.evaluation import Evaluation, LineEvaluation, OracleKind
from maxmargin.core.contract.examples import ConstraintCache, Examples
from maxmargin.core.contract.latent import Completion, LatentAnswers, LatentRisk
from maxmargin.core.contract.risk import Capabilities, Risk
from maxmargin.core.contract.row_duals import RowDualRisk, RowDuals
from maxmargin.core.contract.sampled import SampledEvaluation
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.contract.working_sets import WorkingSetRisk, WorkingSets
from maxmargin.core.cut import Cut, add_cuts
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import IterationRecord, SolveResult, Start
from maxmargin.core.sampling import Draw, Terms
from maxmargin.core.summation import tree_sum
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector

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
    "LatentRisk",
    "LineEvaluation",
    "OracleKind",
    "Risk",
    "RowDualRisk",
    "RowDuals",
    "SampledEvaluation",
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
    "tree_sum",
]
