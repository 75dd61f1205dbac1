"""Large-margin learning with a certificate."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from maxmargin._version import __version__ as __version__  # type checkers: public
from maxmargin.model_writer import register_writer

if TYPE_CHECKING:
    from maxmargin import data, engines, losses, risks, solvers, tasks
    from maxmargin.checkpoints import Checkpoint, CheckpointError
    from maxmargin.command_line.versions import show_versions
    from maxmargin.command_line.warm_up import warm_up
    from maxmargin.core.interrupts import return_on_interrupt
    from maxmargin.estimators.kernel.kernel_svc import KernelSVC
    from maxmargin.estimators.kernel.kernel_svr import KernelSVR
    from maxmargin.estimators.kernel.one_class_svm import OneClassSVM
    from maxmargin.estimators.linear.linear_svc import LinearSVC
    from maxmargin.estimators.linear.linear_svc_cv import LinearSVCCV
    from maxmargin.estimators.linear.linear_svr import LinearSVR
    from maxmargin.estimators.linear.logistic_regression import LogisticRegression
    from maxmargin.estimators.linear.measure_svc import MeasureSVC
    from maxmargin.estimators.linear.ordinal_svc import OrdinalSVC
    from maxmargin.estimators.linear.path import svc_path
    from maxmargin.estimators.linear.rank_svm import RankSVM
    from maxmargin.estimators.prior import GaussianPrior
    from maxmargin.estimators.structured.grammar_parser import GrammarParser
    from maxmargin.estimators.structured.graph_labeler import GraphLabeler
    from maxmargin.estimators.structured.latent_structured_svm import LatentStructuredSVM
    from maxmargin.estimators.structured.path import structured_path
    from maxmargin.estimators.structured.sequence_tagger import SequenceTagger
    from maxmargin.estimators.structured.sequence_tagger_cv import SequenceTaggerCV
    from maxmargin.estimators.structured.structured_svm import StructuredSVM
    from maxmargin.estimators.structured.structured_svm_cv import StructuredSVMCV
    from maxmargin.onnx_export import to_onnx
    from maxmargin.persistence import load
    from maxmargin.solvers import minimize

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "GaussianPrior",
    "GrammarParser",
    "GraphLabeler",
    "KernelSVC",
    "KernelSVR",
    "LatentStructuredSVM",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "LogisticRegression",
    "MeasureSVC",
    "OneClassSVM",
    "OrdinalSVC",
    "RankSVM",
    "SequenceTagger",
    "SequenceTaggerCV",
    "StructuredSVM",
    "StructuredSVMCV",
    "data",
    "engines",
    "load",
    "losses",
    "minimize",
    "return_on_interrupt",
    "risks",
    "show_versions",
    "solvers",
    "structured_path",
    "svc_path",
    "tasks",
    "to_onnx",
    "warm_up",
]

_PACKAGES = [
    *("callbacks", "checkpoints", "compiled", "core", "data", "duals", "engines", "estimators"),
    *(
        "inspection",
        "kernels",
        "losses",
        "metrics",
        "onnx_export",
        "persistence",
        "risks",
        "solvers",
    ),
    *("tasks", "testing"),
]

_HOMES = {
    "Checkpoint": "checkpoints",
    "CheckpointError": "checkpoints",
    "GaussianPrior": "estimators.prior",
    "GrammarParser": "estimators.structured.grammar_parser",
    "GraphLabeler": "estimators.structured.graph_labeler",
    "KernelSVC": "estimators.kernel.kernel_svc",
    "KernelSVR": "estimators.kernel.kernel_svr",
    "LatentStructuredSVM": "estimators.structured.latent_structured_svm",
    "LinearSVC": "estimators.linear.linear_svc",
    "LinearSVCCV": "estimators.linear.linear_svc_cv",
    "LinearSVR": "estimators.linear.linear_svr",
    "LogisticRegression": "estimators.linear.logistic_regression",
    "MeasureSVC": "estimators.linear.measure_svc",
    "OneClassSVM": "estimators.kernel.one_class_svm",
    "OrdinalSVC": "estimators.linear.ordinal_svc",
    "RankSVM": "estimators.linear.rank_svm",
    "SequenceTagger": "estimators.structured.sequence_tagger",
    "SequenceTaggerCV": "estimators.structured.sequence_tagger_cv",
    "StructuredSVM": "estimators.structured.structured_svm",
    "StructuredSVMCV": "estimators.structured.structured_svm_cv",
    "load": "persistence",
    "minimize": "solvers",
    "return_on_interrupt": "core.interrupts",
    "show_versions": "command_line.versions",
    "structured_path": "estimators.structured.path",
    "svc_path": "estimators.linear.path",
    "to_onnx": "onnx_export",
    "warm_up": "command_line.warm_up",
}


def __getattr__(name: str) -> Any:
    # imported on demand: workers need neither scikit-learn nor most packages, and would take twice as long to
    # start with them
    if name in _PACKAGES:
        return import_module(f"maxmargin.{name}")
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(f"maxmargin.{_HOMES[name]}"), name)
        return value
    raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES, "__version__"})


def _write_model(estimator: Any, path: str | PathLike[str]) -> None:
    from maxmargin.persistence import save

    save(estimator, path)


register_writer(_write_model)
