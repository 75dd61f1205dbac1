"""
Kernel methods on a checkerboard
================================

A checkerboard of sixteen fields, with two percent wrong labels, is impossible for a linear classifier and
easy for a kernel. This example shows the decision regions of :class:`maxmargin.KernelSVC` for each method,
early and late in the fit. Cost is measured in kernel values, which do not depend on timing.
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
# * "exact" solves the whole problem and certifies the result. Its first step solves small problems of
#   neighboring samples and combines them, which is nearly optimal here. The next steps work on the samples
#   with the largest duality-gap contributions.
# * "nystrom" finds the best function of a few samples, the landmarks. Its stages differ in the number of
#   landmarks.
# * "sampled" builds cutting planes from a few hundred margin violators each. Every iteration looks at all
#   samples.
# * "sampled_constant" looks only at a subsample, so the cost of an iteration does not depend on the number
#   of samples.

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
# All objectives are those of the returned functions, so they are comparable. Only "exact" has a lower bound
# for the full problem. "nystrom" has one for the smaller problem that it solved (``restricted_gap_``).
# Sampled cuts only measure the objective. The wrong labels cause an error of two percent for any
# classifier.

print(f"{'':18s}{'objective':>10s}{'lower bound':>13s}  {'certificate':12s}{'rows used':>10s}")
for name, models in fits.items():
    svc = models[-1]
    bounds = f"{svc.objective_:10.1f}{svc.lower_bound_:13.1f}"
    print(f"{name:18s}{bounds}  {svc.certificate_:12s}{len(svc.support_):10d}")
plt.show()
