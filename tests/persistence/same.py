"""What the tests of this folder share: a strict comparison, and a task that needs its setup."""

from __future__ import annotations

import numpy as np

from maxmargin.tasks import Task


def identical(a, b) -> bool:
    """Equal in value and in type, all the way down."""
    if isinstance(a, np.ndarray):
        same = isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        return same and all(identical(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return identical(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(identical(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


class Pick(Task):
    """Choose one of the classes that setup has seen."""

    def setup(self, X, Y):
        self.classes = sorted(set(Y))
        self.dim = len(X[0]) * len(self.classes)
        return self.dim

    def joint_feature(self, x, y):
        psi = np.zeros((len(self.classes), len(x)))
        psi[self.classes.index(y)] = x
        return psi.ravel()

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def inference(self, x, w):
        return max(self.classes, key=lambda y: self.joint_feature(x, y) @ w)

    def loss_augmented_inference(self, x, y, w):
        return max(self.classes, key=lambda c: self.loss(y, c) + self.joint_feature(x, c) @ w)
