"""
Cross-validating a parameter grid
=================================

Five folds, nine values of *C*, and three class weights make 135 linear classifiers. This example trains
them together. Each one has a certificate of how close to its optimum it is.
"""

# %%
# The data
# --------
# Two classes of very different sizes, with the small one hidden in a part of the large one.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from maxmargin import LinearSVC, LinearSVCCV

X, y = make_classification(
    n_samples=20_000, n_features=30, n_informative=8, weights=[0.9], flip_y=0.05, random_state=0
)

# %%
# The whole grid
# --------------

began = time.perf_counter()
search = LinearSVCCV(
    Cs=np.logspace(-5, 1, 9),
    class_weights=[None, {0: 1.0, 1: 3.0}, "balanced"],
    scoring="balanced_accuracy",
    cv=5,
    loss="hinge",
).fit(X, y)
seconds = time.perf_counter() - began
gaps = [search.cv_results_[f"split{k}_gap"] for k in range(5)]
print(f"{np.size(gaps)} fits in {seconds:.1f} s")
print(f"largest gap {np.max(gaps):.1e}")
print("best:", search.best_params_, f"score {search.best_score_:.3f}")

# %%
# The upper panel shows the scores and the lower panel the bounds. The dashed lower bounds coincide with the
# objectives.

C = np.unique(search.cv_results_["param_C"])
scores = search.cv_results_["mean_test_score"].reshape(-1, len(C))
upper, lower = (
    np.mean([search.cv_results_[f"split{k}_{name}"] for k in range(5)], axis=0).reshape(-1, len(C))
    for name in ("objective", "lower_bound")
)
fig, (above, below) = plt.subplots(2, 1, sharex=True, layout="constrained")
for k, weight in enumerate(["equal weights", "1 : 3", "balanced"]):
    above.plot(C, scores[k], "o-", label=weight)
    below.plot(C, upper[k] / C, color=f"C{k}")
    below.plot(C, lower[k] / C, "--", color="0.2", linewidth=0.9)
above.set(xscale="log", ylabel="balanced accuracy, held out")
below.set(yscale="log", xlabel="C", ylabel="bounds / C")
above.legend()

# %%
# A single cell
# -------------
# For comparison, fit the samples of the first fold alone, at the largest *C* and with equal weights. The
# bounds of this fit and those of the cell enclose the same optimum.

rows = np.concatenate([np.flatnonzero(y == c)[(y == c).sum() // 5 + 1 :] for c in (0, 1)])
began = time.perf_counter()
single = LinearSVC(C=10.0, loss="hinge").fit(X[rows], y[rows])
print(f"one cold fit: {time.perf_counter() - began:.2f} s, gap {single.gap_:.1e}")
