"""Fits of every estimator to tiny data of the usual types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import maxmargin

_RNG = np.random.default_rng(0)
_ROWS = _RNG.normal(size=(60, 5))
_TARGET = _ROWS[:, 0] + 0.5 * _RNG.normal(size=60)
_BINARY = np.where(_TARGET > 0.0, 1, -1)
_THREE = np.digitize(_TARGET, [-0.5, 0.5])
#: features of very different scales, whose fits use additional functions
_UNSCALED = np.exp(_RNG.normal(size=(400, 20))) * np.logspace(-2.0, 3.0, 20)
_SEQUENCES = [_RNG.normal(size=(5, 3)) for _ in range(10)]
_TAGS = [x.argmax(axis=1) for x in _SEQUENCES]
_WORDS = [[{"bias": 1.0, f"w{tag}": 1.0} for tag in tags] for tags in _TAGS]
_TREES = [
    "(S (NP (DT the) (NN cat)) (VP (VBD sat)))",
    "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
]


def _both(estimator: Any, *targets: Any) -> None:
    """Fit dense and sparse samples."""
    for target in targets:
        for X in (_ROWS, sp.csr_matrix(_ROWS)):
            estimator.fit(X, target).predict(X)


def _unscaled(estimator: Any) -> None:
    """Fit dense and sparse samples without preprocessing."""
    score = np.log(_UNSCALED).sum(axis=1)
    target = np.where(score > np.median(score), 1, -1)
    for X in (_UNSCALED, sp.csr_matrix(_UNSCALED)):
        estimator.fit(X, target).predict(X)


def _linear_svc() -> None:
    _both(maxmargin.LinearSVC(), _BINARY, _THREE)
    _unscaled(maxmargin.LinearSVC())


def _linear_svc_cv() -> None:
    _both(maxmargin.LinearSVCCV(Cs=[0.1, 1.0], cv=2), _BINARY, _THREE)


def _linear_svr() -> None:
    _both(maxmargin.LinearSVR(), _TARGET)
    _unscaled(maxmargin.LinearSVR())


def _kernel_svc() -> None:
    _both(maxmargin.KernelSVC(), _BINARY, _THREE)


def _kernel_svr() -> None:
    _both(maxmargin.KernelSVR(), _TARGET)


def _one_class_svm() -> None:
    _both(maxmargin.OneClassSVM(), _TARGET)


def _measure_svc() -> None:
    for measure in ("f1", "roc_auc"):
        _both(maxmargin.MeasureSVC(measure), _BINARY)


def _rank_svm() -> None:
    _both(maxmargin.RankSVM(), _THREE)


def _sequence_tagger() -> None:
    for X in (_SEQUENCES, [sp.csr_matrix(x) for x in _SEQUENCES], _WORDS):
        maxmargin.SequenceTagger().fit(X, _TAGS).predict(X)


def _graph_labeler() -> None:
    chain = [[i, i + 1] for i in range(4)]
    for edges in (chain, [*chain, [4, 0]]):
        graphs = [(x, edges) for x in _SEQUENCES]
        maxmargin.GraphLabeler().fit(graphs, _TAGS).predict(graphs)


def _grammar_parser() -> None:
    maxmargin.GrammarParser(min_count=1).fit(None, _TREES).predict([["the", "cat", "sat"]])


def _structured_svm() -> None:
    task = maxmargin.tasks.Chain(3)
    maxmargin.StructuredSVM(task).fit(_SEQUENCES, _TAGS).predict(_SEQUENCES)


def _structured_svm_cv() -> None:
    task = maxmargin.tasks.Chain(3)
    maxmargin.StructuredSVMCV(task, Cs=[0.1, 1.0], cv=2).fit(_SEQUENCES, _TAGS)


def _sequence_tagger_cv() -> None:
    words, tags = [[["a"], ["b"]]] * 4, [["X", "Y"]] * 4
    maxmargin.SequenceTaggerCV(Cs=[0.1, 1.0], cv=2).fit(words, tags)


def _latent_structured_svm() -> None:
    bags = [np.concatenate([x, x + 1.0]) for x in _SEQUENCES]
    target = [int(x[0, 0] > 0.0) for x in _SEQUENCES]
    maxmargin.LatentStructuredSVM(maxmargin.tasks.MultipleInstance()).fit(bags, target)


#: what ``warm_up`` can compile
TINY_FITS: dict[str, Callable[[], None]] = {
    "LinearSVC": _linear_svc,
    "SequenceTagger": _sequence_tagger,
    "SequenceTaggerCV": _sequence_tagger_cv,
    "KernelSVC": _kernel_svc,
    "KernelSVR": _kernel_svr,
    "OneClassSVM": _one_class_svm,
    "LinearSVR": _linear_svr,
    "LinearSVCCV": _linear_svc_cv,
    "MeasureSVC": _measure_svc,
    "RankSVM": _rank_svm,
    "GraphLabeler": _graph_labeler,
    "GrammarParser": _grammar_parser,
    "StructuredSVM": _structured_svm,
    "StructuredSVMCV": _structured_svm_cv,
    "LatentStructuredSVM": _latent_structured_svm,
}
