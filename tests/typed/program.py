# pyright: strict
"""A user's program with types: CI checks it with mypy --strict and pyright, and a test runs it.

``assert_type`` fails in both type checkers if a type of the library gets lost or less precise.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import maxmargin
from maxmargin import (
    GraphLabeler,
    KernelSVC,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    MeasureSVC,
    OneClassSVM,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    StructuredSVMCV,
)
from maxmargin.core.result import Certificate, IterationRecord, StopReason
from maxmargin.solvers import AbsoluteGap, CuttingPlane
from maxmargin.tasks import Task

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]


class Multiclass(Task):
    """The largest of K scores, as a structured task."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def setup(self, X: Sequence[Floats], Y: Sequence[int]) -> int:
        self.n_features = len(X[0])
        return self.n_classes * self.n_features

    def joint_feature(self, x: Floats, y: int) -> Floats:
        out = np.zeros((self.n_classes, len(x)))
        out[y] = x
        return out.ravel()

    def loss(self, y: int, y_hat: int) -> float:
        return float(y != y_hat)

    def inference(self, x: Floats, w: Floats) -> int:
        return int((w.reshape(self.n_classes, -1) @ x).argmax())

    def loss_augmented_inference(self, x: Floats, y: int, w: Floats) -> int:
        wrong = np.arange(self.n_classes) != y
        return int((w.reshape(self.n_classes, -1) @ x + wrong).argmax())


def watch(record: IterationRecord) -> bool:
    """A callback that stops a fit."""
    return record.gap < 1e-6 or record.elapsed > 60.0


def linear(X: Floats, y: npt.NDArray[np.int64], folder: Path) -> None:
    """Classifiers, and what a fit tells."""
    svc = LinearSVC(
        C=0.1, tol=AbsoluteGap(0.01), solver=CuttingPlane(), callbacks=[watch], loss="hinge"
    )
    assert_type(svc.fit(X, y), LinearSVC)
    assert_type(svc.partial_fit(X, y), LinearSVC)
    assert_type(svc.verify(X, y), LinearSVC)
    assert_type(svc.fit(X, y, sample_weight=np.ones(len(y))).predict(X), Labels)
    assert_type(svc.decision_function(X), Floats)
    assert_type(svc.score(X, y), float)
    assert_type(svc.objective_, float)
    assert_type(svc.lower_bound_, float)
    assert_type(svc.converged_, bool)
    assert_type(svc.stop_reason_, StopReason)
    assert_type(svc.certificate_, Certificate)
    assert_type(svc.n_iter_, int)
    assert_type(svc.coef_, Floats)
    if svc.stop_reason_ == "max_iter":
        svc.set_params(max_iter=1000).fit(X, y)

    path = folder / "svc.safetensors"
    assert_type(svc.save(path), LinearSVC)
    assert_type(maxmargin.load(path, expected=LinearSVC).predict(X), Labels)
    again = maxmargin.load(path)
    if isinstance(again, LinearSVC):
        assert_type(again.coef_, Floats)

    assert_type(maxmargin.svc_path(X, y, Cs=[0.1, 1.0], loss="hinge"), list[LinearSVC])
    search = LinearSVCCV(Cs=[0.1, 1.0], cv=2, loss="hinge").fit(X, y)
    assert_type(search.best_estimator_, LinearSVC)
    assert_type(search.predict(X), Labels)
    assert_type(KernelSVC(C=1.0).fit(X, y).predict(X), Labels)
    assert_type(MeasureSVC("f1", C=1.0).fit(X, y).predict(X), Labels)


def other_vectors(X: Floats, y: npt.NDArray[np.int64]) -> None:
    """Regression and ranking."""
    assert_type(LinearSVR(C=1.0).fit(X, X[:, 0]).predict(X), Floats)
    assert_type(RankSVM(C=1.0).fit(X, y, groups=np.arange(len(y)) // 10).predict(X), Floats)


def structures(X: Floats, y: npt.NDArray[np.int64], folder: Path) -> None:
    """Sequences, graphs, and a task of one's own."""
    sentences, tags = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"]]], [["DET", "NOUN"]] * 2
    tagger = SequenceTagger(C=0.1).fit(sentences, tags)
    assert_type(tagger, SequenceTagger)
    assert_type(tagger.predict(sentences), list[list[Any]])
    assert_type(tagger.max_marginals(sentences), list[Floats])
    stacked = SequenceTagger(C=0.1).fit(X, y, lengths=[15, 25])
    assert_type(stacked.predict(X, lengths=[15, 25]), list[Any])

    labeler = GraphLabeler(C=0.1).fit([(X[:3], np.array([[0, 1], [1, 2]]))], [[0, 1, 0]])
    assert_type(labeler, GraphLabeler)

    examples, outputs = list(X), [int(label) for label in y]
    svm = StructuredSVM(Multiclass(2), C=0.1).fit(examples, outputs)
    assert_type(svm, StructuredSVM)
    for found in svm.save(folder / "svm.safetensors").predict(examples):
        print(found, end=" ")
    ready = Multiclass(2)
    ready.setup(examples, outputs)
    again = maxmargin.load(folder / "svm.safetensors", expected=StructuredSVM, task=ready)
    assert_type(again, StructuredSVM)
    assert_type(again.score(examples, outputs), float)
    search = StructuredSVMCV(Multiclass(2), Cs=[0.1, 1.0], cv=2).fit(examples, outputs)
    assert_type(search.best_estimator_, StructuredSVM)


def misspelled() -> None:
    """Type checkers know the parameters, and scikit-learn's methods: an unused ``ignore`` is an error."""
    with contextlib.suppress(TypeError):
        LinearSVC(c=1.0, loss="hinge")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with contextlib.suppress(TypeError):
        OneClassSVM(0.1, "linear")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with contextlib.suppress(TypeError):
        RankSVM(c=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with contextlib.suppress(TypeError):
        GraphLabeler(c=1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with contextlib.suppress(TypeError):
        StructuredSVMCV(Multiclass(2), cs=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    LinearSVC(loss="hinge").get_metadata_routing()


def main() -> None:
    """Run everything on 40 random rows."""
    rng = np.random.default_rng(0)
    X: Floats = rng.normal(size=(40, 3))
    y: npt.NDArray[np.int64] = (X[:, 0] > 0).astype(np.int64)
    with tempfile.TemporaryDirectory() as folder:
        linear(X, y, Path(folder))
        other_vectors(X, y)
        structures(X, y, Path(folder))
    misspelled()


if __name__ == "__main__":
    main()
