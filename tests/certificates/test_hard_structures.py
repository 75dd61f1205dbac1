"""Small structured problems on which block steps converge too slowly are handed over and certified."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from maxmargin import SequenceTagger, StructuredSVM
from maxmargin.tasks import Chain, Choice, Enumerable

VALUES = [
    [-781.8], [-2000, -2000, 1000], [-868.9, 349.4], [-868.9, 349.4], [-1034.9, 0, 0], [0, 0, 1370.0],
    [50673.0], [-1000], [93.7, 0], [-781.8], [324.9], [0, 1000, 0],
]  # fmt: skip
X = [np.array(x, dtype=float)[:, None] for x in VALUES]
Y = [[1], [2, 1, 1], [0, 2], [0, 2], [0, 0, 0], [2, 2, 2], [1], [2], [2, 2], [1], [2], [0, 1, 2]]
COST = np.array([[0.0, 0.001, 10.0], [1.0, 0.0, 10.0], [0.001, 1.0, 0.0]])


class PlainChain(Chain):
    """A chain without a compiled form."""

    def pack(self, X, Y):
        return None


def listed(x, y):
    """The labelings of a sequence as candidates: their joint features, and their losses."""
    task = Chain(n_labels=3, n_features=1)
    outputs = [np.array(p) for p in itertools.product(range(3), repeat=len(y))]
    psi = np.array([task.joint_feature(x, p).to_dense() for p in outputs])
    losses = np.array([COST[y, p].sum() for p in outputs])
    right = next(k for k, p in enumerate(outputs) if p.tolist() == y)
    return psi, Choice(right, losses)


def test_a_tagger_with_large_and_small_features_is_certified():
    tagger = SequenceTagger(1.0, cost=COST, max_iter=300, tol=1e-3).fit(X, Y)
    assert tagger.stop_reason_ == "gap"
    # the optimum found by an independent QP solver
    assert tagger.objective_ == pytest.approx(110.74427, rel=2e-3)


@pytest.mark.parametrize("kind", ["compiled chain", "python", "candidates"])
def test_all_kinds_of_working_sets_agree(kind):
    labels = [np.array(y) for y in Y]
    if kind == "candidates":
        inputs, outputs = map(
            list, zip(*(listed(x, y) for x, y in zip(X, Y, strict=True)), strict=True)
        )
        svm = StructuredSVM(Enumerable(), tol=1e-3, max_iter=300).fit(inputs, outputs)
    else:
        task = (Chain if kind == "compiled chain" else PlainChain)(n_labels=3, cost=COST)
        svm = StructuredSVM(task, tol=1e-3, max_iter=300).fit(X, labels)
    assert svm.converged_
    assert svm.objective_ == pytest.approx(110.74427, rel=2e-3)
