"""
Updating a score every month
============================

A credit score is retrained every month on few cases. Two things are known beforehand: last month's weights,
and the sign of some effects. :class:`maxmargin.GaussianPrior` expresses the first, ``nonnegative`` and
``nonpositive`` the second, and every update still has a certificate.

"""

# %%
# Twelve months
# -------------
# There are 30 cases per month, and the true weights drift slowly. Three features hardly matter, so with so
# few cases an estimate often has the wrong sign.

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import GaussianPrior, LinearSVC

names = ["income", "years here", "savings", "late payments", "open loans", "enquiries"]
raises = ["income", "years here", "savings"]
lowers = ["late payments", "open loans", "enquiries"]
place = {name: k for k, name in enumerate(names)}
rng = np.random.default_rng(3)
true = np.array([1.2, 0.15, 0.8, -1.5, -0.15, -0.2])


def month(weights, n):
    shared = rng.normal(size=(n, 1))  # makes the features correlated
    X = 0.7 * rng.normal(size=(n, len(names))) + 0.7 * shared
    return X, np.where(X @ weights + 0.8 * rng.normal(size=n) > 0, 1, -1)


months = []
for _ in range(12):
    months.append((month(true, 30), month(true, 4000), true.copy()))
    true = true + 0.08 * rng.normal(size=len(names)) * np.array([1, 0.3, 1, 1, 0.3, 0.3])

# %%
# Three ways to train
# -------------------
# "Alone" uses only this month's cases. "Around last month" has last month's weights as the prior mean and
# keeps nothing else of the past. "Around, with signs" also constrains the signs. Each has a *C* that suits
# it.

signs = {
    "nonnegative": [place[name] for name in raises],
    "nonpositive": [place[name] for name in lowers],
}
ways = {"alone": {}, "around last month": {}, "around, with signs": signs}
accuracy = {way: [] for way in ways}
weights = {way: [] for way in ways}
for way, params in ways.items():
    last = None
    for (X, y), (X_test, y_test), _ in months:
        prior = None if last is None or way == "alone" else GaussianPrior.around(last)
        C = 1.0 if way == "alone" else 0.1
        model = LinearSVC(C=C, prior=prior, **params, loss="hinge").fit(X, y)
        assert model.converged_
        accuracy[way].append(model.score(X_test, y_test))
        weights[way].append(model.coef_[0])
        last = model
    print(f"{way:20s} mean accuracy {np.mean(accuracy[way]):.3f}, last gap {model.gap_:.1e}")

# %%
# After a few months, the updated scores are better than those from a single month's cases. The signs are a
# guarantee: another loan never improves the score.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for k, way in enumerate(ways):
    left.plot(range(1, 13), accuracy[way], "o-", ms=4, color=f"C{k}", label=way)
    some = np.array(weights[way])[:, place["open loans"]]
    right.plot(range(1, 13), some, "o-", ms=4, color=f"C{k}", label=way)
left.set(xlabel="month", ylabel="accuracy on new cases")
left.legend(fontsize="small")
right.axhline(0.0, color="0.6", lw=0.8)
right.set(xlabel="month", ylabel="weight of open loans")
plt.show()

# %%
# How strongly the past counts
# ----------------------------
# A small variance keeps a weight near its prior mean; a large one lets it move.

(X, y), _, _ = months[-1]
center = weights["around last month"][-2]
variances = np.geomspace(1e-3, 1e3, 13)
paths = np.array(
    [
        LinearSVC(C=0.1, prior=GaussianPrior(center, variance=v), loss="hinge").fit(X, y).coef_[0]
        - center
        for v in variances
    ]
)
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for name, path in zip(names, paths.T, strict=True):
    axes.semilogx(variances, path, label=name)
axes.set(xlabel="variance of the prior", ylabel="weight minus its center")
axes.legend(fontsize="small", ncols=2)
plt.show()
