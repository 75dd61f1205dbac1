"""scikit-learn's face: the only room that knows it."""

from maxmargin.estimators.grammar_parser import GrammarParser
from maxmargin.estimators.graph_labeler import GraphLabeler
from maxmargin.estimators.kernel_svc import KernelSVC
from maxmargin.estimators.latent_structured_svm import LatentStructuredSVM
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.linear_svc_cv import LinearSVCCV
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.estimators.measure_svc import MeasureSVC
from maxmargin.estimators.path import svc_path
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.rank_svm import RankSVM
from maxmargin.estimators.sequence_tagger import SequenceTagger
from maxmargin.estimators.structured_path import structured_path
from maxmargin.estimators.structured_svm import StructuredSVM
from maxmargin.estimators.structured_svm_cv import StructuredSVMCV

__all__ = [
    "GaussianPrior",
    "GrammarParser",
    "GraphLabeler",
    "KernelSVC",
    "LatentStructuredSVM",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "MeasureSVC",
    "RankSVM",
    "SequenceTagger",
    "StructuredSVM",
    "StructuredSVMCV",
    "structured_path",
    "svc_path",
]
