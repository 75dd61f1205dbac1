"""
Kernel methods on a checkerboard
================================

A checkerboard with two percent wrong labels is impossible for a linear classifier and easy for a kernel.
Here are the decision regions of :class:`maxmargin.KernelSVC` for each method, early and late in the fit, by
the number of kernel values computed.

"""

# %%
# The data
# --------

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin import KernelSVC
from maxmargin.kernels import Nystrom


def board(n, seed, noise=0.02):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, 2))
    black = np.floor(X).sum(axis=1) % 2 == 0
    return X, np.where(black != (rng.random(n) < noise), 1, -1)


X, y = board(8_000, seed=0)
X_test, y_test = board(5_000, seed=1)

# %%
# Four methods, each at four stages
# ---------------------------------
# "exact" solves the whole problem, "nystrom" restricts it to landmarks, and "sampled" builds cutting planes
# from a few hundred margin violators each, which "sampled_constant" looks for in a subsample.

stages = {
    "exact": [("exact", 2), ("exact", 3), ("exact", 4), ("exact", None)],
    "nystrom": [(Nystrom(n_landmarks=k), None) for k in (25, 75, 150, 400)],
    "sampled": [("sampled", 3), ("sampled", 8), ("sampled", 20), ("sampled", None)],
    "sampled_constant": [("sampled_constant", k) for k in (3, 8, 20, 60)],
}
warnings.simplefilter("ignore", ConvergenceWarning)  # early stages stop early on purpose
fits = {
    name: [KernelSVC(10.0, gamma=10.0, method=m, max_iter=k).fit(X, y) for m, k in steps]
    for name, steps in stages.items()
}

side = np.linspace(0.0, 4.0, 121)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)

figure, axes = plt.subplots(4, 4, figsize=(8.4, 9.4), layout="constrained")
for line, (name, models) in zip(axes, fits.items(), strict=True):
    line[0].set_ylabel(name, fontsize="large")
    for axis, svc in zip(line, models, strict=True):
        scores = svc.decision_function(grid).reshape(len(side), len(side))
        axis.imshow(scores, extent=(0, 4, 0, 4), origin="lower", cmap="RdBu", vmin=-1.5, vmax=1.5)
        axis.contour(side, side, scores, levels=[0.0], colors="k", linewidths=0.8)
        error = np.mean(svc.predict(X_test) != y_test)
        spent = svc.kernel_values_ / 1e6
        axis.set_title(f"{spent:.1f} million values\n{error:.1%} wrong", fontsize="small")
        axis.set(xticks=[], yticks=[])

# %%
# What each method guarantees
# ---------------------------
# Only "exact" has a lower bound for the full problem. "nystrom" has one for the restricted problem
# (``restricted_gap_``). The wrong labels cause an error of two percent for any classifier.

print(f"{'':18s}{'objective':>10s}{'lower bound':>13s}  {'certificate':12s}{'rows used':>10s}")
for name, models in fits.items():
    svc = models[-1]
    bounds = f"{svc.objective_:10.1f}{svc.lower_bound_:13.1f}"
    print(f"{name:18s}{bounds}  {svc.certificate_:12s}{len(svc.support_):10d}")
plt.show()
