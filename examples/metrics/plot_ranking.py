"""
Ranking: pairs, average precision or NDCG
=========================================

A shop shows offers to visitors. For every visit (a *query*), we know the offers that were shown and how
much the visitor liked them, from 0 (ignored) to 4 (bought). Visits differ in what is offered and in the
visitor's mood, so offers are comparable only within a visit.
"""

# %%
# The data
# --------
# Two hundred visits with 20 to 60 offers. Some features predict what is ignored, others what is bought; no
# linear score can do both. Visitors with better offers are harder to please, so features are misleading
# across visits.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import average_precision_score, ndcg_score
from sklearn.svm import LinearSVR

from maxmargin import RankSVM

rng = np.random.default_rng(3)
sizes = rng.integers(20, 61, 200)
groups = np.repeat(np.arange(200), sizes)
offers = rng.normal(size=(len(groups), 10))  # differences from the other offers of the visit
visits = rng.normal(size=(200, 10))
bait, value = rng.normal(size=(2, 10)) / np.sqrt(10)
X = offers + visits[groups]
mood = -2.0 * visits @ (bait + value)
seen = offers @ bait + 0.5 * rng.normal(size=len(groups)) + 0.5 * mood[groups] > 0.0
bought = 2.0 * offers @ value + 0.7 * rng.normal(size=len(groups)) + 0.5 * mood[groups]
y = np.where(seen, 1.0 + np.digitize(bought, [1.0, 2.0, 3.0]), 0.0)
train = groups < 120
print("ratings 0 to 4:", np.bincount(y.astype(int)))

# %%
# Four ways to learn
# ------------------
# A regression on single samples has to explain the moods as well. ``RankSVM`` uses only differences within
# a visit: pairs of offers, or the metric of the whole list.

models = {
    "single rows (LinearSVR)": LinearSVR(C=0.01, max_iter=20_000).fit(X[train], y[train]),
    "pairs": RankSVM(C=1e-4).fit(X[train], y[train], groups[train]),
    "average precision": RankSVM(C=0.1, loss="map").fit(X[train], y[train] >= 3, groups[train]),
    "NDCG@5": RankSVM(C=0.1, loss="ndcg", k=5).fit(X[train], 2.0 ** y[train] - 1, groups[train]),
}
for name, model in models.items():
    if isinstance(model, RankSVM):
        print(
            f"{name:>18}: {model.lower_bound_:.4f} <= optimum <= {model.objective_:.4f}, "
            f"{model.n_iter_} iterations, {model.certificate_}"
        )

# %%
# Three metrics on test visits
# ----------------------------
# Each model is the best one by the metric it was trained for.


def evaluate(scores):
    found = {"pairs right": [], "average precision": [], "NDCG@5": []}
    for q in range(120, 200):
        s, r = scores[groups == q], y[groups == q]
        above = r[:, None] > r[None]
        if above.any():
            found["pairs right"].append((s[:, None] > s[None])[above].mean())
            found["NDCG@5"].append(ndcg_score([2.0**r - 1], [s], k=5))
        if 0 < (r >= 3).sum() < len(r):
            found["average precision"].append(average_precision_score(r >= 3, s))
    return {name: (np.mean(v), np.std(v) / np.sqrt(len(v))) for name, v in found.items()}


results = {name: evaluate(model.predict(X)) for name, model in models.items()}
for name, found in results.items():
    print(f"{name:>24}: " + ", ".join(f"{k} {m:.3f}" for k, (m, _) in found.items()))

# %%

figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
for k, (name, found) in enumerate(results.items()):
    means, errors = zip(*found.values(), strict=True)
    axes.bar(np.arange(3) + 0.2 * k - 0.3, means, 0.18, yerr=errors, label=name, color=f"C{k}")
axes.set_xticks(range(3), ["pairs right", "average precision", "NDCG@5"])
axes.set(ylim=(0.0, 1.0), ylabel="mean over visits, with its standard error")
axes.legend(ncols=2, fontsize="small")

# %%
# The scores
# ----------
# Only the order of the scores within a visit is meaningful. Here are the offers of one visit, by rating:

visit = groups == 120 + int(np.argmax(np.bincount(groups)[120:]))
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
axes.plot(models["pairs"].predict(X[visit]), y[visit] + rng.uniform(-0.1, 0.1, visit.sum()), "o")
axes.set(xlabel="score", ylabel="rating", yticks=range(5))
