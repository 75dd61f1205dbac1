"""
Only the top of the list counts
===============================

There are many transactions, and time to inspect a few of them. What counts is the precision among those
with the highest scores. :class:`maxmargin.MeasureSVC` trains for that, and no class weight or threshold
replaces it.
"""

# %%
# The data
# --------
# One transaction in ten is a fraud. There are two kinds, on opposite sides of the others: a frequent one that
# overlaps with them, and a rarer one that does not. A linear model cannot have both on one side.

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC, LogisticRegression, MeasureSVC


def draw(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.1
    X = rng.normal(size=(n, 2))
    frequent = 0.8 * rng.normal(size=(n, 2)) + [-2.0, 0.5]
    rare = 0.5 * rng.normal(size=(n, 2)) + [3.5, 0.5]
    X[y] = np.where(rng.random((n, 1)) < 0.6, frequent, rare)[y]
    return X, y


X, y = draw(3_000, 0)
X_test, y_test = draw(30_000, 1)

# %%
# Precision among the first
# -------------------------
# Classifiers try to get both kinds right. The two pull in opposite directions, and the scores say nothing.
# With ``"precision_at_k"``, the kind that is easy to find is enough.

k = 120  # 4 % of the training samples are inspected
models = {
    "LinearSVC": LinearSVC(loss="hinge"),
    "LinearSVC, balanced": LinearSVC(loss="hinge", class_weight="balanced"),
    "LogisticRegression": LogisticRegression(),
    "precision at k": MeasureSVC("precision_at_k", k=k, C=0.1),
}
top = np.arange(1, len(y_test) // 10 + 1)
found = {}
for name, model in models.items():
    order = np.argsort(-model.fit(X, y).decision_function(X_test))[: len(top)]
    found[name] = np.cumsum(y_test[order]) / top
    print(f"{name:20s}{found[name][10 * k - 1]:6.2f}  (certified gap {model.gap_:.0e})")
assert found["precision at k"][10 * k - 1] > 0.8 > 0.3 > found["LinearSVC"][10 * k - 1]

# %%
# On the left, the highest 4 % of the scores lie beyond each line, on the side of its arrow. On the right, the
# precision if other shares are inspected: beyond the rare kind, which is 4 % of all, nothing is left to gain.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.scatter(*X[~y].T, s=3, color="0.75", label="regular")
left.scatter(*X[y].T, s=6, color="C3", label="fraud")
for color, (name, model) in zip(["C0", "C1", "C4", "C2"], models.items(), strict=True):
    w = model.coef_[0] / np.linalg.norm(model.coef_)
    start = np.sort(X_test @ w)[-10 * k] * w
    along = start[:, None] + np.outer([-w[1], w[0]], [-9.0, 9.0])
    left.plot(*along, color=color, label=name)
    left.annotate("", start + 0.8 * w, start, arrowprops={"arrowstyle": "->", "color": color})
    right.plot(100 * top / len(y_test), found[name], color=color, label=name)
left.set(xlim=(-5, 6), ylim=(-4, 5), xlabel="first feature", ylabel="second feature")
right.set(xlabel="inspected, in percent", ylabel="precision", ylim=(0, 1.02))
right.axvline(4.0, color="0.6", lw=0.8)
right.legend(fontsize="small", loc="upper right")
plt.show()
