"""
Prediction intervals and their coverage
=======================================

How far will a disease have progressed in a year? Two quantiles are an interval that should hold a given
share of the targets. Here is how often it does, on patients that the model has not seen.
"""

# %%
# Intervals for patients outside of the training data
# ----------------------------------------------------
# Cross-validation predicts each of the 442 patients of the diabetes data by a model that has not seen that
# patient.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVR

X, y = load_diabetes(return_X_y=True)
folds = KFold(10, shuffle=True, random_state=0)


def held_out(quantiles):
    """Quantiles of every patient, from the other folds."""
    svr = LinearSVR(C=0.1, loss="quantile", quantile=quantiles, penalize_intercept=False)
    return cross_val_predict(make_pipeline(StandardScaler(), svr), X, y, cv=folds).T


low, median, high = held_out([0.1, 0.5, 0.9])
inside = (low <= y) & (y <= high)
print(f"{inside.mean():.0%} of the patients are inside of intervals for 80 %")
print(f"width from {(high - low).min():.0f} to {(high - low).max():.0f}")

# %%
# Coverage at several levels
# --------------------------
# The share of held-out targets below each quantile, and inside of each central interval. The bars of two
# standard errors show what chance alone explains.

levels = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95])
predicted = held_out(levels.tolist())
below = (y <= predicted).mean(axis=1)
error = 2.0 * np.sqrt(levels * (1.0 - levels) / len(y))
for q, share in zip(levels, below, strict=True):
    print(f"quantile {q:.2f}: {share:.3f} of the targets are below")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
order = np.argsort(median)
left.fill_between(np.arange(len(y)), low[order], high[order], alpha=0.3, label="80 % interval")
left.plot(median[order], label="median")
left.scatter(np.arange(len(y))[inside[order]], y[order][inside[order]], s=4, color="0.4")
left.scatter(
    np.arange(len(y))[~inside[order]], y[order][~inside[order]], s=8, color="C3", label="outside"
)
left.set(xlabel="patients, by the predicted median", ylabel="progression")
left.legend()
right.plot([0, 1], [0, 1], color="0.7")
right.errorbar(levels, below, yerr=error, fmt="o")
right.set(xlabel="quantile", ylabel="share of held-out targets below")
plt.show()

# %%
# Coverage on held-out patients is close to the levels. It is no guarantee: the quantiles fit the training
# folds. For intervals with a guarantee, calibrate them on further samples (conformal prediction).
