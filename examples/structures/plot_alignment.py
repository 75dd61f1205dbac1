"""
Learning substitution scores for sequence alignment
===================================================

From aligned pairs of strings, :class:`~maxmargin.StructuredSVM` learns the score of each substitution and
of gaps. All that the task needs is a dynamic program that finds the best alignment.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import StructuredSVM
from maxmargin.tasks import Task

# %%
# The best alignment
# ------------------
# A cell has three states: after a pair, in a gap of the second string, in a gap of the first. The best path
# is traced back from the end.


def align(scores, gap, opening):
    n, m = scores.shape
    best = np.full((3, n + 1, m + 1), -np.inf)
    best[0, 0, 0] = 0.0
    ramp = gap * np.arange(m + 1)
    for i in range(n + 1):
        if i > 0:
            best[0, i, 1:] = best[:, i - 1, :-1].max(axis=0) + scores[i - 1]
            best[1, i] = gap + np.maximum(best[0, i - 1] + opening, best[1, i - 1])
        begin = best[:2, i].max(axis=0) + opening - ramp
        best[2, i, 1:] = np.maximum.accumulate(begin)[:-1] + ramp[1:]
    pairs, state, i, j = [], best[:, n, m].argmax(), n, m
    cost = [[0.0] * 3, [opening, 0.0, -np.inf], [opening, opening, 0.0]]
    while i or j:
        i, j = i - (state != 2), j - (state != 1)
        if state == 0:
            pairs.append((i, j))
        state = (best[:, i, j] + cost[state]).argmax()
    return np.array(pairs[::-1], dtype=int).reshape(-1, 2)


# %%
# The task
# --------
# The weights are a score of each unordered pair of symbols, of an unpaired symbol, and of a run of them.
# The loss is a sum over pairs, so loss-augmented inference is the same program with other scores.


class Alignment(Task):
    def __init__(self, symbols):
        self.symbols, K = symbols, len(symbols)
        index = np.zeros((K, K), dtype=int)
        index[np.triu_indices(K)] = np.arange(K * (K + 1) // 2)
        self.index = np.maximum(index, index.T)
        self.dim = K * (K + 1) // 2 + 2

    def cells(self, x):
        a, b = ([self.symbols.index(symbol) for symbol in part] for part in x)
        return self.index[np.ix_(a, b)]

    def setup(self, X, Y):
        return self.dim

    def joint_feature(self, x, y):
        psi = np.zeros(self.dim)
        np.add.at(psi, self.cells(x)[y[:, 0], y[:, 1]], 1.0)
        runs = np.diff(np.vstack([[-1, -1], y, [len(x[0]), len(x[1])]]), axis=0) - 1
        psi[-2:] = runs.sum(), np.count_nonzero(runs)
        return psi

    def loss(self, y, y_hat):
        return float(len(set(map(tuple, y.tolist())) ^ set(map(tuple, y_hat.tolist()))))

    def inference(self, x, w):
        return align(w[self.cells(x)], w[-2], w[-1])

    def loss_augmented_inference(self, x, y, w):
        scores = w[self.cells(x)] + 1.0
        scores[y[:, 0], y[:, 1]] -= 2.0
        return align(scores, w[-2], w[-1])


# %%
# The data
# --------
# Six symbols form two families. Half of them are replaced, nearly always within the family. Each string
# lacks two neighboring symbols of the other.

rng = np.random.default_rng(0)


def draw(length=14):
    a = rng.integers(0, 6, length)
    other = np.where(rng.random(length) < 0.95, a // 3 * 3 + rng.integers(0, 3, length), 5 - a)
    b = np.where(rng.random(length) < 0.5, a, other)
    kept = [np.delete(np.arange(length), [k, k + 1]) for k in rng.integers(0, length - 1, 2)]
    y = [(i, j) for i, p in enumerate(kept[0]) for j, q in enumerate(kept[1]) if p == q]
    return ["".join("ABCXYZ"[s] for s in z) for z in (a[kept[0]], b[kept[1]])], np.array(y)


X, Y = map(list, zip(*(draw() for _ in range(160)), strict=True))
svm = StructuredSVM(Alignment("ABCXYZ"), C=0.1, tol=1e-2).fit(X[:80], Y[:80])
print(f"{svm.lower_bound_:.2f} <= optimum <= {svm.objective_:.2f}, {svm.certificate_}")
usual = np.where(np.isin(np.arange(svm.coef_.size), np.diag(svm.task_.index)), 1.0, -1.0)
for name, w in (("learned", svm.coef_), ("1 if equal, else -1", usual)):
    found = [svm.task_.inference(x, w) for x in X[80:]]
    wrong = np.mean([svm.task_.loss(*pair) for pair in zip(Y[80:], found, strict=True)])
    print(f"{name}: {wrong:.2f} wrong pairs per alignment")

# %%
# The learned scores show the two families.

plt.imshow(svm.coef_[svm.task_.index], cmap="RdBu", vmin=-2, vmax=2)
plt.gca().set(xticks=range(6), yticks=range(6), xticklabels="ABCXYZ", yticklabels="ABCXYZ")
plt.colorbar(label="score of a substitution")
plt.show()
