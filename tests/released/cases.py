"""The models in the files of releases, and how their inputs and outputs are written as JSON.

All parameters that decide about the fit are given, so that a file does not depend on a default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from tests.latent_tasks import Bags

from maxmargin import (
    GaussianPrior,
    GrammarParser,
    GraphLabeler,
    KernelSVC,
    KernelSVR,
    LatentStructuredSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    MeasureSVC,
    OneClassSVM,
    OrdinalSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
)
from maxmargin.kernels import Nystrom
from maxmargin.solvers import AbsoluteGap, CuttingPlane
from maxmargin.tasks import Chain, Graph
from maxmargin.tasks.parsing.trees import words, write_tree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = (X[:, :3] + 0.5 * RNG.normal(size=(40, 3))).argmax(axis=1)
SIGNS = np.where(Y > 0, 1, -1)
TEXTS = np.array(["ä", "bb", "ccc"])[Y]
TARGETS = X[:, 0] + 0.1 * RNG.normal(size=40)
CHAINS = [RNG.normal(size=(4, 3)) for _ in range(12)]
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
BAG_SIGNS = [1 if bag[:, 0].max() > 0.5 else -1 for bag in BAGS]


class Case(NamedTuple):
    """A model, and the inputs whose predictions are stored beside it."""

    fit: Callable[[], Any]
    inputs: Any


def _rows(fit: Callable[[], Any]) -> Case:
    return Case(fit, X[:10])


#: every estimator that can be saved, in the main forms of its files
CASES: dict[str, Case] = {
    "linear_svc": _rows(
        lambda: LinearSVC(C=1.0, tol=1e-3, solver=CuttingPlane(), class_weight={"ä": 2.0}).fit(
            X, TEXTS
        )
    ),
    "linear_svc_prior": _rows(
        lambda: LinearSVC(
            C=1.0,
            tol=1e-3,
            prior=GaussianPrior(mean=np.ones(4), variance=2.0),
            fixed={1: 0.5},
        ).fit(X, Y)
    ),
    "linear_svc_stream": _rows(
        lambda: LinearSVC(C=1.0, max_support=15, loss="hinge").partial_fit(
            sp.csr_matrix(X * (X > 0)), SIGNS, classes=[-1, 1]
        )
    ),
    "kernel_svr": _rows(lambda: KernelSVR(10.0, gamma=0.5).fit(X, TARGETS)),
    "one_class_svm": _rows(lambda: OneClassSVM(0.2, gamma=0.5).fit(X)),
    "ordinal_svc": _rows(lambda: OrdinalSVC(1.0, tol=1e-3).fit(X, TEXTS)),
    "linear_svr": _rows(lambda: LinearSVR(1.0, tol=AbsoluteGap(0.01)).fit(X, TARGETS)),
    "logistic_regression": _rows(lambda: LogisticRegression(tol=1e-3).fit(X, TEXTS)),
    "measure_svc": _rows(lambda: MeasureSVC("f1", C=1.0, tol=1e-3).fit(X, SIGNS)),
    "rank_svm": _rows(lambda: RankSVM(C=1.0, tol=1e-3).fit(X, Y.astype(float))),
    "kernel_svc": _rows(lambda: KernelSVC(C=1.0, kernel="rbf", gamma=0.5, tol=1e-3).fit(X, Y)),
    "kernel_svc_landmarks": _rows(
        lambda: KernelSVC(C=1.0, kernel="poly", gamma=0.5, method=Nystrom(15), tol=1e-3).fit(
            X, SIGNS
        )
    ),
    "sequence_tagger": Case(
        lambda: (
            SequenceTagger(C=0.1, tol=1e-2, forbidden_transitions=[("A", "A")], cost={"A": 2.0})
            .fit(WORDS, TAGS)
            .calibrate(WORDS, TAGS)
        ),
        WORDS,
    ),
    "sequence_tagger_stream": Case(
        lambda: SequenceTagger(C=0.1, max_support=1).partial_fit(WORDS, TAGS, classes=list("ABC")),
        WORDS,
    ),
    "sequence_tagger_second_order": Case(
        lambda: SequenceTagger(C=0.1, tol=1e-2, order=2).fit(CHAINS, LABELS), CHAINS
    ),
    "sequence_tagger_kernel": Case(
        lambda: SequenceTagger(
            C=0.1, tol=1e-2, kernel="rbf", gamma=0.5, kernel_method=Nystrom(5)
        ).fit(CHAINS, LABELS),
        CHAINS,
    ),
    "graph_labeler": Case(
        lambda: GraphLabeler(C=0.1, tol=1e-2, cost={1: 2.0}).fit(GRAPHS, NODES), GRAPHS
    ),
    "grammar_parser": Case(
        lambda: GrammarParser(C=0.1, max_iter=5).fit(SENTENCES, TREES), SENTENCES
    ),
    "structured_svm": Case(
        lambda: StructuredSVM(Chain(3), C=0.1, tol=1e-2).fit(CHAINS, LABELS), CHAINS
    ),
    "structured_svm_kernel": Case(
        lambda: StructuredSVM(
            Chain(3), C=0.1, tol=1e-2, kernel="rbf", gamma=0.5, kernel_method=Nystrom(5)
        ).fit(CHAINS, LABELS),
        CHAINS,
    ),
    "latent_structured_svm": Case(
        lambda: LatentStructuredSVM(Bags(), C=0.1, tol=1e-2).fit(BAGS, BAG_SIGNS), BAGS
    ),
}

#: data sets on disk: batches of X, y, and weights
DATASETS: dict[str, Any] = {
    "dataset_dense": (np.round(X, 3).astype(np.float32), TEXTS, np.arange(1.0, 41.0)),
    "dataset_sparse": (sp.csr_matrix(np.round(X * (X > 0), 3)), np.round(TARGETS, 3)),
}


def _bags() -> Any:
    task = Bags()
    task.setup(BAGS, BAG_SIGNS)
    return task


#: tasks are code: their classes, and not the files, say how to predict
TASKS: dict[str, Callable[[], Any]] = {
    "structured_svm": lambda: Chain(3),
    "structured_svm_kernel": lambda: Chain(3),
    "latent_structured_svm": _bags,
}


def plain(value: Any) -> Any:
    """A value as JSON has it. Floats come back bit for bit."""
    if isinstance(value, Graph):
        return [plain(value.features), plain(value.edges), plain(value.edge_features)]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if hasattr(value, "children"):  # a tree
        return write_tree(value)
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def as_inputs(name: str, stored: Any) -> Any:
    """The inputs of a model from those of JSON."""
    if name == "graph_labeler":
        return [Graph(*(np.array(part) for part in graph)) for graph in stored]
    if name in ("sequence_tagger", "grammar_parser"):
        return stored
    if isinstance(stored[0][0], list):
        return [np.array(rows) for rows in stored]
    return np.array(stored)


def answers(model: Any, inputs: Any) -> dict[str, Any]:
    """What a model says: predictions, scores where it has them, and its certificate."""
    out = {"predictions": plain(model.predict(inputs))}
    for name in ("decision_function", "max_marginals", "predict_confidence"):
        if hasattr(model, name) and (
            name != "predict_confidence" or hasattr(model, "calibration_")
        ):
            out[name] = plain(getattr(model, name)(inputs))
    out |= {name: getattr(model, name) for name in ("stop_reason_", "certificate_", "converged_")}
    for name in ("objective_", "lower_bound_"):
        out[name] = float(getattr(model, name))
    return out
