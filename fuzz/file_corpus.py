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
from tests.tiny_tasks import TinyMulticlass

import maxmargin
from maxmargin import (
    Checkpoint,
    GaussianPrior,
    GrammarParser,
    GraphLabeler,
    KernelSVC,
    LatentStructuredSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
)
from maxmargin.kernels import Nystrom
from maxmargin.persistence import ModelFileError
from maxmargin.solvers import AbsoluteGap, CuttingPlane, DualCoordinate, Newton
from maxmargin.tasks import Chain, Enumerable, Graph
from maxmargin.tasks.parsing.trees import words

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6))
Y = (X[:, :3] + 0.5 * RNG.normal(size=(60, 3))).argmax(axis=1)
BINARY = np.where(Y > 0, 1, -1)
TARGETS = X[:, 0] + RNG.normal(size=60)
TEXTS = np.array(["ä", "bb", "ccc"])[Y]
CHAINS = [RNG.normal(size=(4, 3)) for _ in range(15)]
LABELS = [(s + RNG.normal(size=s.shape)).argmax(axis=1) for s in CHAINS]
WORDS = [[[f"w={RNG.integers(9)}", "bias"] for _ in range(3)] for _ in range(12)]
TAGS = [RNG.permutation(list("ABC")).tolist() for _ in WORDS]
GRAPHS = [
    Graph(RNG.normal(size=(5, 2)), np.array([[0, 1], [1, 2], [2, 3]]), RNG.normal(size=(3, 1)))
    for _ in range(10)
]
NODES = [(g.features[:, 0] + RNG.normal(size=5) > 0).astype(int) for g in GRAPHS]
TREES = [
    "(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (JJ big) (JJ red) (NN dog))))",
    "(S (NP (DT a) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
    "(S (VP (VB run)))",
]
SENTENCES = [words(tree) for tree in TREES]
BAGS = [RNG.normal(size=(3, 2)) for _ in range(12)]
SIGNS = [1 if k % 2 else -1 for k in range(12)]
POINTS = list(X[:20])
PICKS = [int(k) for k in Y[:20]]
SETS = [RNG.normal(size=(4, 3)) for _ in range(15)]
CHOICES = [int(RNG.integers(4)) for _ in range(15)]

# -- models ----------------------------------------------------------------------------------------


def _streamed(est: Any, *data: Any, **options: Any) -> Any:
    return est.partial_fit(*data, **options)


def _models() -> dict[str, Callable[[], Any]]:
    """Fits of every estimator that can be saved, in every form of their files."""
    cost = 1.0 - np.eye(3)
    prior = GaussianPrior(mean=np.ones(6), variance=2.0)
    return {
        "LinearSVC": lambda: LinearSVC(
            solver=CuttingPlane(),
            cost=cost,
            class_weight={0: 2.0},
            nonnegative=[0],
            multi_class="crammer_singer",
        ).fit(X, Y),
        "LinearSVC texts": lambda: LinearSVC(prior=prior, fixed={1: 0.5}, loss="hinge").fit(
            X, TEXTS
        ),
        "LinearSVC objects": lambda: LinearSVC(loss="hinge").fit(X, TEXTS.astype(object)),
        "LinearSVC stream": lambda: _streamed(LinearSVC(loss="hinge"), X, Y, classes=[0, 1, 2]),
        "LinearSVC sparse stream": lambda: _streamed(
            LinearSVC(max_support=20, loss="hinge"),
            sp.csr_matrix(X * (X > 0)),
            BINARY,
            classes=[-1, 1],
        ),
        "LogisticRegression": lambda: LogisticRegression().fit(X, TEXTS),
        "LinearSVR": lambda: LinearSVR(tol=AbsoluteGap(0.1)).fit(X, TARGETS),
        "LinearSVR stream": lambda: _streamed(LinearSVR(), X, TARGETS),
        "MeasureSVC": lambda: MeasureSVC("precision_at_k", k=5).fit(X, BINARY),
        "RankSVM": lambda: RankSVM().fit(X, Y.astype(float)),
        "SequenceTagger": lambda: SequenceTagger(
            forbidden_transitions=[("A", "A")], cost={"A": 2.0}
        ).fit(WORDS, TAGS),
        "SequenceTagger second order": lambda: SequenceTagger(order=2).fit(CHAINS, LABELS),
        "SequenceTagger kernel": lambda: SequenceTagger(kernel="rbf", kernel_method=Nystrom(5)).fit(
            CHAINS, LABELS
        ),
        "SequenceTagger calibrated": lambda: (
            SequenceTagger().fit(CHAINS, LABELS).calibrate(CHAINS, LABELS)
        ),
        "GraphLabeler": lambda: GraphLabeler(cost={1: 2.0}).fit(GRAPHS, NODES),
        "GrammarParser": lambda: GrammarParser(max_iter=5).fit(SENTENCES, TREES),
        "KernelSVC": lambda: KernelSVC(kernel="rbf").fit(X, Y),
        "KernelSVC sparse": lambda: KernelSVC(kernel="poly", method=Nystrom(20)).fit(
            sp.csr_matrix(X), BINARY
        ),
        "StructuredSVM": lambda: StructuredSVM(Chain(n_labels=3)).fit(CHAINS, LABELS),
        "StructuredSVM kernel": lambda: StructuredSVM(
            Chain(3), kernel="rbf", kernel_method=Nystrom(5)
        ).fit(CHAINS, LABELS),
        "LatentStructuredSVM": lambda: LatentStructuredSVM(Bags()).fit(BAGS, SIGNS),
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
            task.setup(BAGS, SIGNS)
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
    write(folder / "texts", [(X.astype(np.float32), TEXTS, np.ones(60))], shard_bytes=600)
    write(folder / "csr", [(sparse, BINARY, np.ones(60), np.arange(60) // 10)], shard_bytes=900)
    write(folder / "targets", [{"X": sparse, "y": TARGETS}])
    write(folder / "unlabeled", [{"X": X}])
    write(folder / "sequences", [(CHAINS, LABELS, np.ones(15))], shard_bytes=500)
    spelled = [["ABC"[k] for k in labels] for labels in LABELS]
    write(folder / "sparse sequences", [([sp.csr_matrix(s) for s in CHAINS], spelled)])
    import pandas as pd

    write(folder / "names", [(pd.DataFrame(X, columns=list("abcdef")), Y)])


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


def _with(X: Any, y: Any) -> tuple[Any, Any]:
    return X, y


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
    "prior": (LinearSVC(tol=1e-4, prior=GaussianPrior(np.ones(6)), loss="hinge"), X, BINARY),
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
