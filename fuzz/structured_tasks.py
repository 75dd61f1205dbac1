"""Plain Python tasks whose outputs can be enumerated. They are self-contained, so their source can be
printed."""

from __future__ import annotations

import numpy as np

from maxmargin.core import SparseVector
from maxmargin.tasks import Task


class Lookup(Task):
    """x is a matrix with the joint features of each output in a row; y is (true row, losses of all rows)."""

    def __init__(self, sparse=False):
        self.sparse = sparse

    def setup(self, X, Y):
        return X[0].shape[1]

    def joint_feature(self, x, y):
        row = np.asarray(x[self.row(y)], dtype=float)
        return SparseVector(np.flatnonzero(row), row[row != 0], len(row)) if self.sparse else row

    def row(self, y):
        return y[0] if isinstance(y, tuple) else y

    def loss(self, y, y_hat):
        return float(y[1][self.row(y_hat)])

    def same(self, a, b):
        return self.row(a) == self.row(b)

    def inference(self, x, w):
        return int(np.argmax(x @ w))

    def loss_augmented_inference(self, x, y, w):
        return int(np.argmax(np.asarray(y[1]) + x @ w))

    def slack_augmented_inference(self, x, y, w):
        scores = x @ w
        return int(np.argmax(np.asarray(y[1]) * (1.0 + scores - scores[y[0]])))


class Searched(Lookup):
    """The same, with the default search for slack rescaling."""

    slack_augmented_inference = Task.slack_augmented_inference

    def loss_step(self, x, y):
        return 1.0 if all(v == int(v) for v in y[1]) else 0.0
