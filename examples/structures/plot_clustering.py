"""
Supervised clustering with three kinds of certificates
======================================================

From clustered sets, learn which pairs of items belong together. Finding the best clustering is NP-hard: the
argmax of our task is exact for small sets, greedy, or relaxed. ``certificate_`` says what this implies.
"""

from functools import cache
from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import squareform

from maxmargin import StructuredSVM
from maxmargin.tasks import Bounded, Task

# %%
# Three argmaxes
# --------------
# A clustering has one entry for each pair of items: 1 if they share a cluster. *exact* lists all partitions.
# *greedy* merges clusters while the score grows. *relaxed* is a linear program with triangle inequalities.


@cache
def partitions(n):
    labels = np.zeros((1, 0), dtype=int)
    for _ in range(n):
        used = labels.max(axis=1, initial=-1) + 2
        new = np.concatenate([np.arange(k) for k in used])
        labels = np.column_stack([np.repeat(labels, used, axis=0), new])
    i, j = np.triu_indices(n, 1)
    return (labels[:, i] == labels[:, j]).astype(float)


def greedy(scores, n):
    between, labels = squareform(scores), np.arange(n)
    while between.max() > 0.0:
        a, b = np.unravel_index(between.argmax(), between.shape)
        between[a] += between[b]
        between[:, a] = between[a]
        between[b] = between[:, b] = between[a, a] = 0.0
        labels[labels == b] = a
    return squareform(labels[:, None] == labels, checks=False).astype(float)


@cache
def triangles(n):
    number = squareform(np.arange(n * (n - 1) // 2))
    corners = [(i, j, k) for i, j, k in permutations(range(n), 3) if i < k]
    A = np.zeros((len(corners), n * (n - 1) // 2))
    for row, (i, j, k) in zip(A, corners, strict=True):
        row[[number[i, j], number[j, k], number[i, k]]] = 1.0, 1.0, -1.0
    return A


def relaxed(scores, n):
    A = triangles(n)
    answer = linprog(-scores, A_ub=A, b_ub=np.ones(len(A)), bounds=(0.0, 1.0))
    z = np.clip(answer.x, 0.0, 1.0)
    prices = np.maximum(0.0, -answer.ineqlin.marginals)
    bound = prices.sum() + np.maximum(0.0, scores - prices @ A).sum()
    return z / max(1.0, (A @ z).max(initial=0.0)), bound


# %%
# The task
# --------
# An input is a matrix with the features of each pair. The loss is the number of wrong pairs.


class Clustering(Task):
    def __init__(self, method):
        kinds = {"exact": "exact", "greedy": "undergenerating", "relaxed": "overgenerating"}
        self.method, self.oracle_kind = method, kinds[method]

    def setup(self, X, Y):
        return X[0].shape[1]

    def joint_feature(self, x, y):
        return x.T @ y

    def loss(self, y, y_hat):
        return np.abs(y - y_hat).sum()

    def best(self, scores):
        n = len(squareform(scores))
        if self.method == "exact":
            return partitions(n)[np.argmax(partitions(n) @ scores)], None
        return relaxed(scores, n) if self.method == "relaxed" else (greedy(scores, n), None)

    def inference(self, x, w):
        return self.best(x @ w)[0]

    def loss_augmented_inference(self, x, y, w):
        y_hat, bound = self.best(x @ w + 1.0 - 2.0 * y)
        return y_hat if bound is None else Bounded(y_hat, y.sum() + bound)


# %%
# Certificates
# ------------
# With *greedy*, only the lower bound holds for the true problem, and a warning says so. Both bounds of
# *relaxed* hold for the relaxed problem, whose optimum is never below the true one.

rng = np.random.default_rng(0)
labels = rng.integers(0, 3, (12, 7))
Y = [squareform(k[:, None] == k, checks=False).astype(float) for k in labels]
X = [np.column_stack([rng.normal(size=(len(y), 2)), rng.normal(y - 0.5)]) for y in Y]
figure, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
for k, method in enumerate(["greedy", "exact", "relaxed"]):
    svm = StructuredSVM(Clustering(method), C=1.0, tol=1e-3).fit(X, Y)
    bounds = [svm.lower_bound_, svm.objective_]
    axes.scatter(bounds, [k, k], 400, ["C1", "C0"], marker="|", lw=3)
    axes.text(svm.objective_, k, f"   {method}: {svm.certificate_}", va="center")
axes.set(xlabel="lower bound (orange) and objective (blue)", yticks=[], xmargin=0.35, ymargin=0.2)
plt.show()
