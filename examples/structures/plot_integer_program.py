"""
Learning the costs of an integer program
========================================

Particles are observed in two frames; some leave and some enter. Which particles correspond? Every pair is a
0/1 variable, every particle is in at most one pair, and the prediction is the cheapest solution.
:class:`~maxmargin.tasks.IntegerProgram` learns the costs of the pairs from labeled frames.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import LinearConstraint

from maxmargin import StructuredSVM
from maxmargin.tasks import IntegerProgram

# %%
# The integer programs
# --------------------
# The cost of a pair is a weighted sum of three features: the distance, the difference in brightness, and 1.
# The last one has a negative weight; otherwise, nothing would be paired.


def frames(rng, n=14):
    old, bright = rng.random((n, 2)), rng.random(n)
    stays = rng.random(n) < 0.75
    new = np.vstack([old[stays] + 0.1 * rng.normal(size=(stays.sum(), 2)), rng.random((2, 2))])
    shine = np.concatenate([bright[stays] + 0.04 * rng.normal(size=stays.sum()), rng.random(2)])
    m = len(new)
    distance = np.linalg.norm(old[:, None] - new, axis=2)
    features = np.stack([distance, np.abs(bright[:, None] - shine), np.ones((n, m))], axis=2)
    once = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    x = {"features": features.reshape(n * m, 3), "constraints": LinearConstraint(once, 0, 1)}
    y = np.zeros((n, m), dtype=int)
    y[np.flatnonzero(stays), np.arange(stays.sum())] = 1
    return x, y.ravel(), old, new


rng = np.random.default_rng(0)
data = [frames(rng) for _ in range(25)]
X, Y = [d[0] for d in data], [d[1] for d in data]

# %%
# Training
# --------
# The reward for a pair is fixed at 1, which sets the unit of all costs. A distance must never be rewarded.

task = IntegerProgram(feature_names=["distance", "brightness", "pair"])
svm = StructuredSVM(task, C=1.0, fixed={"pair": -1.0}, nonnegative=["distance", "brightness"])
svm.fit(X[:20], Y[:20])
print(dict(zip(task.feature_names, svm.coef_.round(2).tolist(), strict=True)))
print(f"{svm.lower_bound_:.3f} <= optimum <= {svm.objective_:.3f}")

# %%
# Before and after
# ----------------
# Compare guessed costs (the distance alone) with the learned ones on new frames. The figure shows one of
# them, with the true pairs in gray.

guess = np.array([4.0, 0.0, -1.0])
for name, w in (("guessed", guess), ("learned", svm.coef_)):
    wrong = [task.loss(y, task.inference(x, w)) for x, y in zip(X[20:], Y[20:], strict=True)]
    print(name, "costs: wrong variables per new frame", np.mean(wrong))
x, y, old, new = data[23]
figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True)
for axis, w, title in zip(
    axes, (guess, svm.coef_), ("guessed costs", "learned costs"), strict=True
):
    for pairs, style in ((y, {"color": "0.8", "lw": 6}), (task.inference(x, w), {"color": "C0"})):
        for i, j in zip(*np.nonzero(pairs.reshape(len(old), len(new))), strict=True):
            axis.plot(*np.stack([old[i], new[j]]).T, **style)
    axis.plot(*old.T, "o", color="C1", label="first frame")
    axis.plot(*new.T, "s", color="C2", label="second frame")
    axis.set(title=title, xticks=[], yticks=[])
axes[1].legend(loc="best", fontsize=8)
figure.tight_layout()
plt.show()
