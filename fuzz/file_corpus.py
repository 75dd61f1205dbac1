"""Files to damage: models of every estimator, data sets of every kind, checkpoints of every method.

Each kind has a function that writes the valid files and one that uses a file as a user would.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from tests.latent_tasks import Bags
from tests.released.cases import (
    BAG_SIGNS,
    BAGS,
    CASES,
    CHAINS,
    GRAPHS,
    LABELS,
    NODES,
    SENTENCES,
    TARGETS,
    TEXTS,
    TREES,
    WORDS,
    X,
    Y,
)
from tests.released.cases import SIGNS as BINARY
from tests.tiny_tasks import TinyMulticlass

import maxmargin
from maxmargin import (
    Checkpoint,
    GaussianPrior,
    GrammarParser,
    GraphLabeler,
    LinearSVC,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
)
from maxmargin.persistence import ModelFileError
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton
from maxmargin.tasks import Chain, Enumerable

N, D = X.shape
POINTS = list(X[:20])
PICKS = [int(k) for k in Y[:20]]
SETS = [np.random.default_rng(k).normal(size=(4, 3)) for k in range(15)]
CHOICES = [k % 4 for k in range(15)]

# -- models ----------------------------------------------------------------------------------------


def _models() -> dict[str, Callable[[], Any]]:
    """The models that releases keep, and more forms of a classifier's file."""
    prior = GaussianPrior(mean=np.ones(D), variance=2.0)
    constrained = LinearSVC(cost=1.0 - np.eye(3), nonnegative=[0], multi_class="crammer_singer")
    stream = LinearSVC(max_support=20, loss="hinge")
    return {name: case.fit for name, case in CASES.items()} | {
        "constrained": lambda: constrained.fit(X, Y),
        "prior": lambda: LinearSVC(prior=prior, fixed={1: 0.5}, loss="hinge").fit(X, TEXTS),
        "objects": lambda: LinearSVC(loss="hinge").fit(X, TEXTS.astype(object)),
        "stream": lambda: stream.partial_fit(sp.csr_matrix(X), BINARY, classes=[-1, 1]),
    }


#: the inputs of each estimator
_INPUTS: dict[str, Any] = {
    "SequenceTagger": WORDS,
    "GraphLabeler": GRAPHS,
    "GrammarParser": SENTENCES,
    "StructuredSVM": CHAINS,
    "LatentStructuredSVM": BAGS,
}


def write_models(folder: Path) -> None:
    """Write the valid files."""
    for name, fit in _models().items():
        fit().save(folder / f"{name}.model")


def use_model(path: Path) -> None:
    """Load and predict; continue learning if the file supports it."""
    try:
        est = maxmargin.load(path)
    except ValueError as error:
        if "pass its class as load(" in str(error):  # a name of a loss that is not the library's
            raise ModelFileError(str(error)) from error
        if isinstance(error, ModelFileError) or "pass it, ready to predict" not in str(error):
            raise
        latent = b"LatentStructuredSVM" in path.read_bytes()
        task = Bags() if latent else Chain(n_labels=3)
        if latent:
            task.setup(BAGS, BAG_SIGNS)
        est = maxmargin.load(path, task=task)
    repr(est)
    kind = type(est).__name__
    inputs = _INPUTS.get(kind)
    d = getattr(est, "n_features_in_", 0)
    if kind == "SequenceTagger" and est.vectorizer_ is None:
        inputs = (
            [np.zeros((3, d)) if d < 1000 else CHAINS[0], np.zeros((0, d))] if d < 1000 else CHAINS
        )
    if inputs is None:
        inputs = np.resize(X, (8, d)) if d < 1000 else X[:8]
    est.predict(inputs)
    if hasattr(est, "decision_function"):
        est.decision_function(inputs)
    if hasattr(est, "calibration_"):
        est.predict_confidence(inputs)
    if getattr(est, "_streams", None) and hasattr(est, "partial_fit") and d < 1000:
        y = np.resize(est.classes_, 8) if hasattr(est, "classes_") else np.zeros(8)
        est.partial_fit(inputs, y)


# -- data sets -------------------------------------------------------------------------------------


def write_datasets(folder: Path) -> None:
    """Write the valid folders: dense and sparse, single and double precision, strings, numbers, sequences."""
    sparse = sp.csr_matrix(X * (np.abs(X) > 0.7))
    write = maxmargin.data.write
    write(folder / "dense", [(X, Y)])
    write(folder / "texts", [(X.astype(np.float32), TEXTS, np.ones(N))], shard_bytes=600)
    write(folder / "csr", [(sparse, BINARY, np.ones(N), np.arange(N) // 10)], shard_bytes=900)
    write(folder / "targets", [{"X": sparse, "y": TARGETS}])
    write(folder / "unlabeled", [{"X": X}])
    write(folder / "sequences", [(CHAINS, LABELS, np.ones(len(CHAINS)))], shard_bytes=500)
    spelled = [["ABC"[k] for k in labels] for labels in LABELS]
    write(folder / "sparse sequences", [([sp.csr_matrix(s) for s in CHAINS], spelled)])
    import pandas as pd

    write(folder / "names", [(pd.DataFrame(X, columns=list("abcd")), Y)])


def use_dataset(folder: Path) -> None:
    """Open, read everything, verify, multiply, load, train."""
    data = maxmargin.data.open(folder)
    repr(data), len(data), data.shape, data.nnz, data.dtype, data.layout, data.feature_names
    _ = data.largest_square, data.fingerprint, data.classes, data.class_counts
    data.verify()
    n, d = data.shape
    for column in (data.y, data.codes, data.weight, data.group):
        if column is not None:
            np.asarray(column)
    if d <= 10**6:
        data.dot(np.ones(d), 0, n)
        data.accumulate(np.ones(n), 0, n, np.zeros(d))
    data.load()
    if data.y is None or n < 2 or d > 10**4:
        return
    if data.ragged:
        SequenceTagger(1.0, max_iter=2).fit(data)
    else:
        numbers = data.y.dtype.kind == "f"
        est: Any = LinearSVR(max_iter=2) if numbers else LinearSVC(max_iter=2, loss="hinge")
        est.fit(data)


# -- checkpoints -----------------------------------------------------------------------------------

_PLANES = CuttingPlane()
_FEW_ROWS = CuttingPlane(space="rows", max_planes=5)


#: fits, by the content of their checkpoints
FITS: dict[str, tuple[Any, Any, Any]] = {
    "planes": (LinearSVC(tol=1e-6, solver=_PLANES, loss="hinge"), X, BINARY),
    "rows": (LinearSVC(tol=1e-3, solver=CuttingPlane(space="rows"), loss="hinge"), X, BINARY),
    "few rows": (LinearSVC(tol=1e-3, solver=_FEW_ROWS, loss="hinge"), X, BINARY),
    "few planes": (LinearSVC(tol=1e-3, solver=CuttingPlane(max_planes=5), loss="hinge"), X, BINARY),
    "free intercept": (
        LinearSVC(loss="hinge", tol=1e-4, solver=_PLANES, penalize_intercept=False), X, BINARY,
    ),
    "free coordinates": (
        LinearSVC(tol=1e-6, solver=DualCoordinate(), penalize_intercept=False, loss="hinge"), X, BINARY,
    ),
    "signs": (LinearSVC(tol=1e-5, solver=_PLANES, nonnegative=[0, 1], loss="hinge"), X, BINARY),
    "prior": (LinearSVC(tol=1e-4, prior=GaussianPrior(np.ones(D)), loss="hinge"), X, BINARY),
    "coordinate": (LinearSVC(C=5, tol=1e-6, solver=DualCoordinate(), loss="hinge"), X, BINARY),
    "stages": (LinearSVC(C=100, tol=1e-4, solver=DualCoordinate(), loss="hinge"), X, BINARY),
    "classes": (LinearSVC(tol=1e-5, solver=DualCoordinate(), multi_class="crammer_singer"), X, Y),
    "stream": (LinearSVC(tol=1e-4, solver=DualCoordinate(max_cached=20), loss="hinge"), X, BINARY),
    "newton": (LinearSVC(tol=1e-6, solver=Newton(), loss="hinge"), X, BINARY),
    "smooth": (LinearSVC(tol=1e-9, loss="squared_hinge", solver=Newton()), X, BINARY),
    "one-vs-rest": (LinearSVC(tol=1e-5, multi_class="ovr", loss="hinge"), X, Y),
    "sparse": (LinearSVC(tol=1e-7, loss="hinge"), sp.csr_matrix(X), Y),
    "regression": (LinearSVR(tol=1e-6), X, TARGETS),
    "measure": (MeasureSVC("f1", tol=1e-5), X, BINARY),
    "ranking": (RankSVM(tol=1e-5), X, Y.astype(float)),
    "chains by planes": (SequenceTagger(1.0, tol=1e-2, solver=_PLANES), CHAINS, LABELS),
    "chains": (SequenceTagger(1.0, tol=1e-5), CHAINS, LABELS),
    "chains, batch": (SequenceTagger(1.0, tol=1e-4, solver=DualCoordinate(batch_size="all")), CHAINS, LABELS),
    "slack": (SequenceTagger(1.0, tol=1e-3, rescaling="slack"), CHAINS, LABELS),
    "plain": (StructuredSVM(TinyMulticlass(), tol=1e-4), POINTS, PICKS),
    "expensive": (StructuredSVM(TinyMulticlass(), tol=1e-4, oracle="expensive"), POINTS, PICKS),
    "signed": (StructuredSVM(TinyMulticlass(), tol=1e-4, nonnegative=[0, 1]), POINTS, PICKS),
    "graphs": (GraphLabeler(tol=1e-5), GRAPHS, NODES),
    "candidates": (StructuredSVM(Enumerable(), tol=1e-5), SETS, CHOICES),
    "grammar": (GrammarParser(tol=1e-3), SENTENCES, TREES),
}  # fmt: skip


def write_checkpoints(folder: Path) -> None:
    """Write checkpoints of fits that were stopped early, and of some that finished."""
    for name, (est, inputs, outputs) in FITS.items():
        for limit in (3, None) if name in ("planes", "coordinate", "chains") else (3,):
            end = "" if limit else ", over"
            path = folder / f"{name}{end}.checkpoint"
            fit = clone(est).set_params(checkpoint=Checkpoint(path, seconds=None), max_iter=limit)
            fit.fit(inputs, outputs)


def use_checkpoint(path: Path, name: str) -> None:
    """Continue for some iterations and predict."""
    est, inputs, outputs = FITS[name.removesuffix(".checkpoint").removesuffix(", over")]
    est = clone(est).set_params(max_iter=6).fit(inputs, outputs, resume_from=path)
    est.predict(inputs)


def quiet(use: Callable[..., None], *given: Any) -> None:
    """Suppress warnings: damaged files may hold numbers that overflow."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        use(*given)
