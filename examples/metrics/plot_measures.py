"""
Training for F1 and other metrics
=================================

One sample in twelve is positive, and the classes overlap. A classifier that makes few errors then predicts
too few positives, and its F1 suffers. :class:`maxmargin.MeasureSVC` minimizes a convex bound on the metric
itself.
"""

# %%
# The data
# --------
# There are two features. Negatives form a wide cloud; positives form a narrow one at its edge, with a few
# far out.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score, roc_auc_score

from maxmargin import LinearSVC, MeasureSVC


def draw(n, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 1 / 12).astype(int)
    X = rng.normal(size=(n, 2)) * [1.0, 2.0]
    near = rng.normal(size=(n, 2)) * 0.6 + [2.0, 1.0]
    far = rng.normal(size=(n, 2)) * 0.5 + [2.5, -5.0]
    X[y == 1] = np.where(rng.random((n, 1)) < 0.85, near, far)[y == 1]
    return X, y


X, y = draw(3_000, 0)
X_test, y_test = draw(20_000, 1)

# %%
# One model per metric
# --------------------

models = {
    "LinearSVC": LinearSVC(loss="hinge"),
    "balanced_error": MeasureSVC("balanced_error"),
    "f1": MeasureSVC("f1"),
    "roc_auc": MeasureSVC("roc_auc"),
}
scores = {
    "accuracy": lambda m: accuracy_score(y_test, m.predict(X_test)),
    "F1": lambda m: f1_score(y_test, m.predict(X_test)),
    "ROC AUC": lambda m: roc_auc_score(y_test, m.decision_function(X_test)),
}
print(f"{'trained for':15s}" + "".join(f"{name:>10s}" for name in scores) + f"{'gap':>10s}")
for name, model in models.items():
    model.fit(X, y)
    row = "".join(f"{score(model):10.3f}" for score in scores.values())
    print(f"{name:15s}{row}{model.gap_:10.1e}")

# %%
# The lines show where the score is zero. For ROC AUC, the intercept does not matter; it is set so that the
# number of training samples above the line equals the number of positives.

figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
axes.scatter(*X[y == 0].T, s=4, color="0.75", label="negative")
axes.scatter(*X[y == 1].T, s=8, color="C3", label="positive")
up = np.array([-7.0, 7.0])
for k, (name, model) in enumerate(models.items()):
    (a, b), c = model.coef_[0], model.intercept_[0]
    axes.plot(-(b * up + c) / a, up, color=f"C{(0, 1, 2, 4)[k]}", label=name)
axes.set(xlim=(-4, 5), ylim=(-7, 7), xlabel="first feature", ylabel="second feature")
axes.legend(loc="upper left", fontsize="small")

# %%
# Precision versus recall
# -----------------------
# ``measure="fbeta"`` sets the trade-off in training; a threshold sets it afterward. With two features,
# nearly the same direction is best for all metrics, so the points lie on the curve of the plain classifier.
# Here, a threshold tuned on the training data does as well. :doc:`/measures` has results on real data.

betas = np.geomspace(0.2, 5.0, 7)
reached = []
for beta in betas:
    predicted = MeasureSVC("fbeta", beta=beta).fit(X, y).predict(X_test)
    reached.append(
        (recall_score(y_test, predicted), precision_score(y_test, predicted, zero_division=0))
    )

figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for name, color in (("LinearSVC", "C0"), ("roc_auc", "C4")):
    order = np.argsort(-models[name].decision_function(X_test))
    found = np.cumsum(y_test[order])
    axes.plot(
        found / y_test.sum(),
        found / np.arange(1, len(y_test) + 1),
        color=color,
        label=f"{name}, all thresholds",
    )
axes.plot(*np.transpose(reached), "o-", color="C2", label="fbeta, beta from 0.2 to 5")
at = [f(y_test, models["LinearSVC"].predict(X_test)) for f in (recall_score, precision_score)]
axes.plot(*at, "s", color="C0", label="LinearSVC as trained")
axes.set(xlabel="recall", ylabel="precision", xlim=(0.3, 1), ylim=(0.2, 1))
axes.legend()
plt.show()
