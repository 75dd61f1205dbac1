"""Small latent tasks whose outputs can be listed."""

from __future__ import annotations

import numpy as np

from maxmargin.tasks import LatentBinary, LatentTask


class Rows(LatentTask):
    """K classes; which row of x speaks for a class is latent. ``spread`` makes the loss depend on the row."""

    def __init__(self, K=3, spread=0.0):
        self.K, self.spread = K, spread

    def setup(self, X, Y):
        self.d = X[0].shape[1]
        return self.K * self.d

    def outputs(self, x):
        return [(y, h) for y in range(self.K) for h in range(len(x))]

    def joint_feature(self, x, y, h):
        psi = np.zeros((self.K, self.d))
        psi[y] = x[h]
        return psi.ravel()

    def loss(self, y, y_hat, h_hat):
        return float(y != y_hat) * (1.0 + self.spread * h_hat)

    def complete(self, x, y, w):
        return int(np.argmax(x @ w.reshape(self.K, -1)[y]))

    def inference(self, x, w):
        return self._best(x @ w.reshape(self.K, -1).T)

    def loss_augmented_inference(self, x, y, w):
        return self._best(x @ w.reshape(self.K, -1).T + self._losses(x, y))

    def _losses(self, x, y):
        return (np.arange(self.K) != y) * (1.0 + self.spread * np.arange(len(x))[:, None])

    def _best(self, scores):
        h, y = np.unravel_index(np.argmax(scores), scores.shape)
        return int(y), int(h)


class WrongRows(Rows):
    """The same with an argmax over wrong classes only: a tighter majorant."""

    wrong_only = True

    def loss_augmented_inference(self, x, y, w):
        scores = x @ w.reshape(self.K, -1).T + self._losses(x, y)
        scores[:, y] = -np.inf
        return self._best(scores)


class Bags(LatentBinary):
    """Two labels; a bag is positive if one of its rows is. A constant is the last feature."""

    def __init__(self, constant=1.0):
        self.constant = constant

    def n_features(self, X):
        return X[0].shape[1] + 1

    def outputs(self, x):
        return [(self.negative, None)] + [(self.positive, h) for h in range(len(x))]

    def features(self, x, h):
        return np.append(x[h], self.constant)

    def best(self, x, w):
        return int(np.argmax(x @ w[:-1]))

    def initial(self, x, y):
        return int(np.argmax(x.sum(axis=1))) if y == self.positive else None


def rows_problem(seed, n=25, m=4, d=4, K=3, shift=2.0):
    """Bags of rows, one of which is moved along the axis of the class."""
    rng = np.random.default_rng(seed)
    Y = [int(y) for y in rng.permutation(np.arange(n) % K)]
    X = [rng.normal(size=(int(rng.integers(1, m + 1)), d)) for _ in Y]
    for x, y in zip(X, Y, strict=True):
        x[rng.integers(len(x)), y] += shift
    return X, Y


def bags_problem(seed, n=40, m=6, d=5, shift=3.0):
    """Bags, half of them positive: one instance of a positive bag is moved."""
    rng = np.random.default_rng(seed)
    Y = [1 if k % 2 else -1 for k in range(n)]
    X = [rng.normal(size=(int(rng.integers(1, m + 1)), d)) for _ in Y]
    direction = rng.normal(size=d)
    direction *= shift / np.linalg.norm(direction)
    for x, y in zip(X, Y, strict=True):
        if y > 0:
            x[rng.integers(len(x))] += direction
    return X, Y
