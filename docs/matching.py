"""The task of the page "Write your own argmax", and pairs to match."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from maxmargin.tasks import Task


class Matching(Task):
    """``x[i, j]`` are the features of matching i to j; ``y[i]`` is the partner of i."""

    def setup(self, X, Y):
        return X[0].shape[2]

    def joint_feature(self, x, y):
        return x[np.arange(len(y)), y].sum(axis=0)

    def loss(self, y, y_hat):
        return float(np.sum(y != y_hat))

    def inference(self, x, w):
        return linear_sum_assignment(x @ w, maximize=True)[1]

    def loss_augmented_inference(self, x, y, w):
        wrong = np.arange(len(y)) != y[:, None]
        return linear_sum_assignment(x @ w + wrong, maximize=True)[1]
