"""
Labels that depend on each other
================================

Labels often come together or exclude each other. A task of our own scores whole *sets* of labels: one
linear score per label, and a learned score for every pair. With up to about ten labels, all sets can be
listed.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import StructuredSVM
from maxmargin.tasks import Task

# %%
# The task
# --------
# A set of labels is a vector of zeros and ones. Its features are the sample for each label it contains, and
# a one for each pair. The loss counts wrong labels. Without pairs, this is one linear SVM per label.


class LabelSets(Task):
    def __init__(self, pairs=True):
        self.pairs = pairs

    def setup(self, X, Y):
        self.sets = np.array(list(product([0, 1], repeat=len(Y[0]))))
        self.i, self.j = np.triu_indices(len(Y[0]) if self.pairs else 0, 1)
        self.n_linear = len(X[0]) * len(Y[0])
        return self.n_linear + len(self.i)

    def joint_feature(self, x, y):
        return np.concatenate([np.outer(y, x).ravel(), y[self.i] * y[self.j]])

    def loss(self, y, y_hat):
        return float(np.sum(y != y_hat))

    def scores(self, x, w):
        linear = w[: self.n_linear].reshape(-1, len(x)) @ x
        both = self.sets[:, self.i] * self.sets[:, self.j]
        return self.sets @ linear + both @ w[self.n_linear :]

    def inference(self, x, w):
        return self.sets[np.argmax(self.scores(x, w))]

    def loss_augmented_inference(self, x, y, w):
        return self.sets[np.argmax(self.scores(x, w) + np.sum(self.sets != y, axis=1))]


# %%
# The data
# --------
# Each label has a feature of its own, and label k also depends on label k - 1. The last feature is constant.

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(800, 7)), np.zeros((800, 6), dtype=int)
X[:, 6] = 1.0
for k in range(6):
    before = 2 * Y[:, k - 1] - 1 if k else 0
    Y[:, k] = X[:, k] + 1.5 * before + 0.5 * rng.normal(size=800) > 0

# %%
# With and without pairs
# ----------------------

for pairs in (False, True):
    svm = StructuredSVM(LabelSets(pairs), C=0.1, tol=1e-2).fit(list(X[:300]), list(Y[:300]))
    right = np.array(svm.predict(list(X[300:]))) == Y[300:]
    print(
        f"{'pairs' if pairs else 'single labels'}: gap {svm.gap_:.3f}, "
        f"{right.mean():.3f} of the labels and {right.all(axis=1).mean():.3f} of the sets are right"
    )

# %%
# The scores of pairs show which labels occur together: neighbors.

table = np.zeros((6, 6))
table[svm.task_.i, svm.task_.j] = svm.coef_[svm.task_.n_linear :]
plt.imshow(table + table.T, cmap="RdBu", vmin=-0.5, vmax=0.5)
plt.colorbar(label="score of a pair of labels")
plt.show()
