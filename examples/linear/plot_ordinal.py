"""
Classes in an order
===================

Grades have an order: to predict "severe" for a mild case is worse than to predict "moderate". This example
compares :class:`~maxmargin.OrdinalSVC`, which learns one direction and the thresholds between neighboring
grades, with models that do not know of the order.
"""

# %%
# The data
# --------
# The progression of diabetes in 442 patients, in six grades.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC, OrdinalSVC

X, target = load_diabetes(return_X_y=True)
y = np.digitize(target, [80, 120, 160, 200, 240])
folds = KFold(10, shuffle=True, random_state=0)

# %%
# How far off are the predictions?
# --------------------------------
# "all" charges an error for each threshold between prediction and truth, so it avoids large errors. It finds
# fewer exact grades than it could, if only these counted.

models = {
    "thresholds='all'": OrdinalSVC(C=0.01),
    "thresholds='immediate'": OrdinalSVC(C=0.01, thresholds="immediate"),
    "LinearSVC": LinearSVC(C=0.01),
}
distance = {}
for name, model in models.items():
    said = cross_val_predict(make_pipeline(StandardScaler(), model), X, y, cv=folds)
    distance[name] = np.abs(said - y)
    print(
        f"{name:22}  {distance[name].mean():.2f} grades off, {(distance[name] == 0).mean():.0%} exact, "
        f"{(distance[name] >= 3).mean():.0%} off by three or more"
    )

# %%
# The direction and its thresholds
# --------------------------------
# The left panel shows how often predictions are off by how many grades. The right one shows the scores of the
# patients, and the thresholds between which each grade is predicted. The two bounds say how close the fit is
# to its optimum.

model = make_pipeline(StandardScaler(), OrdinalSVC(C=0.01)).fit(X, y)
ordinal = model[-1]
print(f"{ordinal.lower_bound_:.3f} <= optimum <= {ordinal.objective_:.3f}")
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for k, (name, off) in enumerate(distance.items()):
    shares = np.bincount(off, minlength=6) / len(y)
    left.bar(np.arange(6) + 0.27 * (k - 1), shares, width=0.27, label=name)
left.set(xlabel="grades off", ylabel="share of held-out patients")
left.legend()
scores = model[:-1].transform(X) @ ordinal.coef_
right.scatter(scores, y + np.random.default_rng(0).uniform(-0.2, 0.2, len(y)), s=6, color="0.4")
for theta in ordinal.thresholds_:
    right.axvline(theta, color="C0", linewidth=1)
right.set(xlabel="score", ylabel="grade", title="thresholds of OrdinalSVC")
plt.show()
