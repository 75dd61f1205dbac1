"""
Write your own argmax: matching points
======================================

Which points of two views of the same scene correspond? The output is a permutation, SciPy finds the best
one, and :class:`~maxmargin.StructuredSVM` learns the weights of the features.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

from maxmargin import StructuredSVM
from maxmargin.inspection import ConvergenceDisplay
from maxmargin.tasks import Task

# %%
# The task
# --------
# A task has five methods. ``x[i, j]`` holds the features of matching point *i* to point *j*; ``y[i]`` is
# the partner of *i*. The loss counts wrong partners, so loss-augmented inference adds 1 to every wrong
# pair.


class Matching(Task):
    def setup(self, X, Y):
        return X[0].shape[2]

    def joint_feature(self, x, y):
        return x[np.arange(len(y)), y].sum(axis=0)

    def loss(self, y, y_hat):
        return float(np.sum(y != y_hat))

    def inference(self, x, w):
        return linear_sum_assignment(x @ w, maximize=True)[1]

    def loss_augmented_inference(self, x, y, w):
        wrong = np.arange(len(y)) != y[:, None]
        return linear_sum_assignment(x @ w + wrong, maximize=True)[1]


# %%
# The data
# --------
# The second view moves all positions by the same unknown shift and adds noise to positions and colors. A
# pair has the differences in position, in color, and in the distance to the center of the own view.

rng = np.random.default_rng(0)
names = ["horizontal", "vertical", "color", "from middle"]


def draw(n_points=8):
    first = rng.uniform(size=(n_points, 3))
    y = rng.permutation(n_points)
    second = np.empty_like(first)
    second[y] = first + rng.normal(scale=(0.02, 0.02, 0.2), size=first.shape)
    second[:, :2] += rng.uniform(-0.4, 0.4, size=2)
    return first, second, y


def features(first, second):
    middle = [np.linalg.norm(p[:, :2] - p[:, :2].mean(axis=0), axis=1) for p in (first, second)]
    parts = [np.abs(first[:, None, k] - second[None, :, k]) for k in range(3)]
    parts.append(np.abs(middle[0][:, None] - middle[1][None, :]))
    return -np.stack(parts, axis=2)


views = [draw() for _ in range(150)]
X = [features(first, second) for first, second, _ in views]
Y = [y for _, _, y in views]

# %%
# Training
# --------

model = StructuredSVM(Matching(), C=1.0, tol=1e-2).fit(X[:100], Y[:100])
print(f"{model.lower_bound_:.3f} <= F* <= {model.objective_:.3f}   ({model.certificate_})")
for name, weight in zip(names, model.coef_, strict=True):
    print(f"{name:12s} {weight:6.2f}")

# %%


def accuracy(matchings):
    return np.mean([y == y_hat for y, y_hat in zip(Y[100:], matchings, strict=True)])


task = Matching()
print("all features alike", accuracy([task.inference(x, np.ones(4)) for x in X[100:]]).round(3))
print("learned weights   ", accuracy(model.predict(X[100:])).round(3))

# %%

ConvergenceDisplay.from_estimator(model)

# %%
# One test pair of views, with the second to the right of the first. Wrong partners are red.

first, second, y = views[101]
(y_hat,) = model.predict(X[101:102])
# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
right = second[:, :2] + [2.0, 0.0]
for i, j in enumerate(y_hat):
    color = "0.6" if j == y[i] else "tab:red"
    axes.plot([first[i, 0], right[j, 0]], [first[i, 1], right[j, 1]], color=color, lw=1, zorder=0)
axes.scatter(*first[:, :2].T, c=first[:, 2], s=80, edgecolor="k")
axes.scatter(*right.T, c=second[:, 2], s=80, edgecolor="k")
axes.set_aspect("equal")
axes.set_axis_off()
