"""Saved models of every kind, and a place for a file."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from maxmargin import LinearSVC, SequenceTagger, StructuredSVM
from maxmargin.solvers import CuttingPlane
from maxmargin.tasks import Chain

X, Y = load_iris(return_X_y=True)


def _taggers_data():
    rng = np.random.default_rng(0)
    # features that are always zero get no weight
    inputs = [
        [{f"w={rng.integers(19)}": 1.0, f"zero {k} {t}": 0.0} for t in range(4)] for k in range(30)
    ]
    return inputs, [rng.permutation(list("ABCD")).tolist() for _ in inputs]


def _saved(est, folder):
    est.save(folder / "model")
    return (folder / "model").read_bytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    chain = [np.eye(2), np.eye(2)[::-1]], [np.array([0, 1]), np.array([1, 0])]
    cost = 1.0 - np.eye(3)
    return {
        "LinearSVC": _saved(
            LinearSVC(
                solver=CuttingPlane(),
                cost=cost,
                class_weight={0: 2.0},
                multi_class="crammer_singer",
            ).fit(X, Y),
            folder,
        ),
        "SequenceTagger": _saved(
            SequenceTagger(forbidden_transitions=[("A", "A")], cost={"A": 2.0}).fit(
                *_taggers_data()
            ),
            folder,
        ),
        "StructuredSVM": _saved(StructuredSVM(Chain(n_labels=2)).fit(*chain), folder),
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"
