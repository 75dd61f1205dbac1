"""
A certificate on unscaled data
==============================

The features of this dataset differ by five orders of magnitude. This is hard for a coordinate solver, and
without a certificate you cannot tell how far from the optimum it stopped. This example solves the same
problem with scikit-learn and with maxmargin and compares both results with the same proven bound.
"""

# %%
# The problem
# -----------
# Both libraries minimize the same function: half the squared norm of the weights, including the intercept,
# plus *C* times the sum of hinge losses. Here it is in plain NumPy.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import sklearn.svm
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC
from maxmargin.inspection import ConvergenceDisplay

X, y = load_breast_cancer(return_X_y=True)
print("feature ranges:", np.ptp(X, axis=0).min().round(3), "to", np.ptp(X, axis=0).max().round(0))


def objective(model, C=1.0):
    signs = np.where(y == 1, 1.0, -1.0)
    w, b = model.coef_[0], model.intercept_[0]
    return 0.5 * (w @ w + b * b) + C * np.maximum(0.0, 1.0 - signs * (X @ w + b)).sum()


# %%
# With a certificate
# ------------------

ours = LinearSVC(C=1.0, tol=1e-4, loss="hinge").fit(X, y)
print(f"converged    {ours.converged_} ({ours.stop_reason_}, {ours.certificate_})")
print(f"lower bound  {ours.lower_bound_:.4f}")
print(f"objective    {ours.objective_:.4f}, recomputed {objective(ours):.4f}")
print(f"gap          {ours.gap_:.1e}")

# %%
# The two bounds during the fit:

ConvergenceDisplay.from_estimator(ours)

# %%
# Without a certificate
# ---------------------
# scikit-learn warns that it has not converged, even after many more iterations. The warning cannot say how
# far off the result is; our lower bound can.

limits = [100, 1_000, 10_000, 100_000]
reached = []
for max_iter in limits:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        theirs = sklearn.svm.LinearSVC(loss="hinge", max_iter=max_iter, random_state=0).fit(X, y)
    reached.append(objective(theirs))
    print(
        f"max_iter {max_iter:>7}: objective {reached[-1]:8.2f}, "
        f"{reached[-1] / ours.lower_bound_:.2f} times the lower bound, "
        f"warned: {bool(caught)}"
    )

# %%

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.semilogx(limits, reached, "o-", color="0.4", label="scikit-learn")
axes.axhline(ours.objective_, color="C0", label="maxmargin, certified")
axes.set(xlabel="iterations allowed to scikit-learn", ylabel="objective")
axes.set_ylim(bottom=0)
axes.legend()

# %%
# Accuracy on the training data:

print(f"maxmargin     {ours.score(X, y):.3f}")
print(f"scikit-learn  {theirs.score(X, y):.3f}")
