"""Fill the cache of compiled code by tiny fits of every estimator to data of the usual types."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

import maxmargin

#: what ``warm_up()`` compiles by default
COMMON = ("LinearSVC", "LinearSVR", "KernelSVC", "SequenceTagger")


def warm_up(estimators: str | Sequence[object] | None = None) -> dict[str, float]:
    """Compile for this machine now, so that first fits do not.

    Wheels for a platform have compiled code, and need no warm-up. With the pure wheel, the first fit on a
    machine compiles for about 20 seconds; later fits, also in other processes, load the compiled code from a
    cache on disk. This function fills the cache: it fits each estimator to tiny data of the usual types
    (dense and sparse, binary and multiclass). Call it when you build an image or before you start many
    processes. ``maxmargin warmup`` does the same on the command line.

    What depends on unusual parameters is still compiled when it is first used.

    Parameters
    ----------
    estimators : "all" or list of names or classes, optional
        What to compile. By default the most common ones: ``LinearSVC``, ``LinearSVR``, ``KernelSVC``, and
        ``SequenceTagger``.

    Returns
    -------
    dict
        The seconds that the fits of each estimator took. Functions that several estimators use count for the
        first one.

    Examples
    --------
    >>> import maxmargin
    >>> seconds = maxmargin.warm_up(["LinearSVC"])
    >>> list(seconds)
    ['LinearSVC']
    """
    return {name: _seconds(TINY_FITS[name]) for name in _names(estimators)}


def _names(estimators: str | Sequence[object] | None) -> list[str]:
    if estimators is None:
        return list(COMMON)
    if isinstance(estimators, str):
        if estimators == "all":
            return list(TINY_FITS)
        raise ValueError(f"estimators must be 'all' or a list of estimators, got {estimators!r}.")
    names = [e if isinstance(e, str) else getattr(e, "__name__", repr(e)) for e in estimators]
    unknown = [name for name in names if name not in TINY_FITS]
    if unknown:
        raise ValueError(
            f"unknown estimators: {', '.join(unknown)}. Known are {', '.join(TINY_FITS)}."
        )
    return list(dict.fromkeys(names))


def _seconds(fit: Callable[[], object]) -> float:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()
    return time.perf_counter() - start


# -- the fits --------------------------------------------------------------------------------------

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


class _BestRow(maxmargin.tasks.LatentBinary):
    """A matrix is positive if one of its rows is."""

    def n_features(self, X: Any) -> int:
        return int(X[0].shape[1])

    def features(self, x: Any, h: int) -> Any:
        return x[h]

    def best(self, x: Any, w: Any) -> int:
        return int(np.argmax(x @ w))


def _both(estimator: Any, *targets: Any) -> Any:
    """Fit dense and sparse samples."""
    for target in targets:
        for X in (_ROWS, sp.csr_matrix(_ROWS)):
            estimator.fit(X, target).predict(X)
    return estimator


def _unscaled(estimator: Any) -> None:
    """Fit dense and sparse samples without preprocessing."""
    score = np.log(_UNSCALED).sum(axis=1)
    target = np.where(score > np.median(score), 1, -1)
    for X in (_UNSCALED, sp.csr_matrix(_UNSCALED)):
        estimator.fit(X, target).predict(X)


def _linear() -> None:
    """The defaults, and the hinge losses."""
    for estimator in (
        maxmargin.LinearSVC(),
        maxmargin.LinearSVC(loss="hinge"),
        maxmargin.LinearSVC(loss="hinge", multi_class="crammer_singer"),
    ):
        _unscaled(_both(estimator, _BINARY, _THREE))


def _tagger(estimator: Any) -> None:
    for X in (_SEQUENCES, [sp.csr_matrix(x) for x in _SEQUENCES], _WORDS):
        estimator.fit(X, _TAGS).predict(X)


def _graphs(estimator: Any) -> None:
    chain = [[i, i + 1] for i in range(4)]
    for edges in (chain, [*chain, [4, 0]]):
        graphs = [(x, edges) for x in _SEQUENCES]
        estimator.fit(graphs, _TAGS).predict(graphs)


def _latent(estimator: Any) -> None:
    bags = [np.concatenate([x, x + 1.0]) for x in _SEQUENCES]
    estimator.fit(bags, [int(x[0, 0] > 0.0) for x in _SEQUENCES])


_SEARCH: dict[str, Any] = {"Cs": [0.1, 1.0], "cv": 2}
#: what ``warm_up`` can compile
TINY_FITS: dict[str, Callable[[], object]] = {
    "LinearSVC": _linear,
    "LogisticRegression": lambda: _both(maxmargin.LogisticRegression(), _BINARY, _THREE),
    "SequenceTagger": lambda: _tagger(maxmargin.SequenceTagger()),
    "SequenceTaggerCV": lambda: maxmargin.SequenceTaggerCV(**_SEARCH).fit(
        [[["a"], ["b"]]] * 4, [["X", "Y"]] * 4
    ),
    "KernelSVC": lambda: _both(maxmargin.KernelSVC(), _BINARY, _THREE),
    "KernelSVR": lambda: _both(maxmargin.KernelSVR(), _TARGET),
    "OneClassSVM": lambda: _both(maxmargin.OneClassSVM(), _TARGET),
    "LinearSVR": lambda: _unscaled(_both(maxmargin.LinearSVR(), _TARGET)),
    "OrdinalSVC": lambda: _both(maxmargin.OrdinalSVC(), _THREE),
    "LinearSVCCV": lambda: _both(maxmargin.LinearSVCCV(**_SEARCH), _BINARY, _THREE),
    "MeasureSVC": lambda: [_both(maxmargin.MeasureSVC(m), _BINARY) for m in ("f1", "roc_auc")],
    "RankSVM": lambda: _both(maxmargin.RankSVM(), _THREE),
    "GraphLabeler": lambda: _graphs(maxmargin.GraphLabeler()),
    "GrammarParser": lambda: (
        maxmargin.GrammarParser(min_count=1).fit(None, _TREES).predict([["the", "cat", "sat"]])
    ),
    "StructuredSVM": lambda: (
        maxmargin.StructuredSVM(maxmargin.tasks.Chain(3)).fit(_SEQUENCES, _TAGS).predict(_SEQUENCES)
    ),
    "StructuredSVMCV": lambda: maxmargin.StructuredSVMCV(maxmargin.tasks.Chain(3), **_SEARCH).fit(
        _SEQUENCES, _TAGS
    ),
    "LatentStructuredSVM": lambda: _latent(maxmargin.LatentStructuredSVM(_BestRow())),
}
