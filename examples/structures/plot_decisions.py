"""
Predict the costs, then decide
==============================

A decision is taken before its costs are known: they are predicted from features. Least squares makes the
predictions accurate on average. SPO+ makes them accurate where they matter for the decision.
:class:`~maxmargin.tasks.LinearObjective` trains it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from maxmargin import StructuredSVM
from maxmargin.metrics import regret_score
from maxmargin.tasks import LinearObjective

# %%
# Two roads
# ---------
# The cost of the long road does not depend on the traffic; that of the short one grows faster and faster.
# The predictor is linear, so it cannot be right everywhere. The two feasible decisions are listed.

rng = np.random.default_rng(0)
traffic = rng.uniform(0, 4, 150)
costs = np.column_stack([np.full(150, 4.0), np.exp(0.9 * traffic) / 4])
costs *= rng.uniform(0.8, 1.2, costs.shape)
X = np.column_stack([traffic, np.ones(150)])  # the last feature is the intercept

task = LinearObjective([[1, 0], [0, 1]])
Y = task.labels(X, costs)
svm = StructuredSVM(task, C=1.0, tol=1e-3).fit(X, Y)
least = LinearRegression(fit_intercept=False).fit(X, costs).coef_
print(f"{svm.lower_bound_:.4f} <= optimum <= {svm.objective_:.4f}")
for name, W in (("least squares", least), ("SPO+", svm.coef_.reshape(2, 2))):
    chosen = [task.inference(x, W.ravel()) for x in X]
    print(f"{name}: regret {100 * regret_score(Y, chosen):.1f} %")

# %%
# Both lines of least squares fit their points, but they cross at the wrong place. Those of SPO+ cross where
# the expected costs do (dotted).

figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharex=True, sharey=True)
line = np.column_stack([np.linspace(0, 4, 50), np.ones(50)])
for axis, W, title in zip(
    axes, (least, svm.coef_.reshape(2, 2)), ("least squares", "SPO+"), strict=True
):
    for k, name in enumerate(("long road", "short road")):
        axis.plot(traffic, costs[:, k], ".", ms=3, color=f"C{k}", alpha=0.5)
        axis.plot(line[:, 0], line @ W[k], color=f"C{k}", label=name)
    axis.axvline(np.log(16) / 0.9, color="0.6", ls=":")
    axis.set(title=title, xlabel="traffic", ylim=(-4, 12))
axes[0].set_ylabel("costs")
axes[0].legend(fontsize=8)
figure.tight_layout()

# %%
# Paths on a grid
# ---------------
# Here, decisions are paths from one corner of a grid to the other one. Costs can be negative during
# training, so the function visits the nodes in order; Dijkstra's algorithm would be refused. If costs are
# linear in the features (degree 1), least squares is the better choice. If they are not, SPO+ is.

N = 5
EDGES = [((r, c), (r + a, c + 1 - a)) for r in range(N) for c in range(N) for a in (0, 1)]
EDGES = [(a, b) for a, b in EDGES if max(b) < N]


def shortest_path(costs):
    length, last = {(0, 0): 0.0}, {}
    for k, (a, b) in enumerate(EDGES):  # row by row: a is final
        if length[a] + costs[k] < length.get(b, np.inf):
            length[b], last[b] = length[a] + costs[k], k
    y, at = np.zeros(len(EDGES)), (N - 1, N - 1)
    while at != (0, 0):
        y[last[at]], at = 1, EDGES[last[at]][0]
    return y


def instances(n, degree, teacher):
    X = np.column_stack([rng.normal(size=(n, 5)), np.ones(n)])
    costs = ((X[:, :5] @ teacher / np.sqrt(5) + 3) / 3.5) ** degree
    return X, costs * rng.uniform(0.5, 1.5, costs.shape)


task = LinearObjective(shortest_path)
for degree in (1, 6):
    teacher = rng.integers(0, 2, (5, len(EDGES)))
    (X, costs), (X_new, costs_new) = (instances(n, degree, teacher) for n in (150, 300))
    Y, Y_new = task.labels(X, costs), task.labels(X_new, costs_new)
    svm = StructuredSVM(task, C=0.1).fit(X, Y)
    least = LinearRegression(fit_intercept=False).fit(X, costs).coef_.ravel()
    for name, w in (("least squares", least), ("SPO+", svm.coef_)):
        regret = regret_score(Y_new, [task.inference(x, w) for x in X_new])
        print(f"degree {degree}, {name}: regret {100 * regret:.1f} % on new instances")
plt.show()
