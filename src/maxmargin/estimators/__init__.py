"""Estimators with the interface of scikit-learn."""

from maxmargin.estimators.kernel.kernel_svc import KernelSVC
from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.linear.linear_svc_cv import LinearSVCCV
from maxmargin.estimators.linear.linear_svr import LinearSVR
from maxmargin.estimators.linear.measure_svc import MeasureSVC
from maxmargin.estimators.linear.path import svc_path
from maxmargin.estimators.linear.rank_svm import RankSVM
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.structured.grammar_parser import GrammarParser
from maxmargin.estimators.structured.graph_labeler import GraphLabeler
from maxmargin.estimators.structured.latent_structured_svm import LatentStructuredSVM
from maxmargin.estimators.structured.multilabel_svc import MultiLabelSVC
from maxmargin.estimators.structured.path import structured_path
from maxmargin.estimators.structured.sequence_tagger import SequenceTagger
from maxmargin.estimators.structured.structured_svm import StructuredSVM
from maxmargin.estimators.structured.structured_svm_cv import StructuredSVMCV

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
    "MultiLabelSVC",
    "RankSVM",
    "SequenceTagger",
    "StructuredSVM",
    "StructuredSVMCV",
    "structured_path",
    "svc_path",
]
