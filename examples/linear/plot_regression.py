"""
Support vector regression with outliers
=======================================

Compare the epsilon-insensitive loss with its squared version on data with outliers, and set epsilon for
each sample when some measurements are less exact than others. Every fit has a lower and an upper bound on
its optimum.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVR

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.0, 10.0, 80))
y = 2.0 + 0.5 * x + 0.3 * rng.normal(size=80)
y[(x > 7.0) & (rng.random(80) < 0.4)] += 8.0  # outliers, all on one side
X = x[:, None]

absolute = LinearSVR(C=10.0, epsilon=0.5, penalize_intercept=False).fit(X, y)
squares = LinearSVR(C=10.0, loss="squared_epsilon_insensitive", penalize_intercept=False).fit(X, y)
for name, model in (("absolute errors", absolute), ("squared errors", squares)):
    print(f"{name}: {model.lower_bound_:.3f} <= F* <= {model.objective_:.3f}")

# %%
# With absolute errors, the line stays where most points are. With squared errors, the outliers pull it
# away.
#
# Alternatively, you may know that the points to the right of 5 are inaccurate. Set epsilon for each
# sample: with a large epsilon, these points cost nothing, and the accurate points on the left determine the
# line.

width = np.where(x > 5.0, 9.0, 0.1)
own = LinearSVR(C=10.0, penalize_intercept=False).fit(X, y, sample_epsilon=width)

line = np.array([[0.0], [10.0]])
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for ax in (left, right):
    ax.plot(x, y, ".", color="0.4")
    ax.set_xlabel("x")
middle = absolute.predict(line)
left.plot(line, middle, "C0", label="absolute errors")
left.fill_between(line[:, 0], middle - 0.5, middle + 0.5, color="C0", alpha=0.15)
left.plot(line, squares.predict(line), "C1", label="squared errors")
left.set_title("one epsilon for all")
left.legend()
right.errorbar(x, y, yerr=width, fmt="none", ecolor="C2", alpha=0.25)
right.plot(line, own.predict(line), "C2", label="epsilon for each sample")
right.set_title("sample_epsilon")
right.set_ylim(0, 16)
right.legend(loc="upper left")
fig.tight_layout()
plt.show()
