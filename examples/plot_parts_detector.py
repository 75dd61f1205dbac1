"""
A deformable parts detector
===========================

An object consists of parts, and its parts move. A rigid template blurs them. A tree of parts lets each part
move, at the cost of stretching a spring. Labels only say *whether* an image shows the object. Where the
object and its parts are is latent.

:class:`~maxmargin.tasks.PartsDetector` finds the best of all placements exactly, by distance transforms.
:class:`~maxmargin.LatentStructuredSVM` learns the templates and the springs.
"""

# %%
# Images
# ------
# The object is a cross above, and a ring and a stroke below, each moved by a pixel or two. Negative images
# contain the same three shapes anywhere, so only the arrangement defines the object.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from maxmargin import LatentStructuredSVM
from maxmargin.tasks import Part, PartsDetector

CROSS = np.array(
    [[0, 0, 1, 0, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]]
)
RING = np.array(
    [[0, 1, 1, 1, 0], [1, 0, 0, 0, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 1, 1, 1, 0]]
)
STROKE = np.array(
    [[0, 0, 0, 1, 1], [0, 0, 1, 1, 0], [0, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]
)
ANCHORS = [(0, 4), (8, 0), (8, 8)]
SIZE = 28


def picture(shows, rng):
    x = 0.4 * rng.normal(size=(SIZE, SIZE))
    corner = rng.integers(2, SIZE - 15, size=2)
    places = []
    for shape, anchor in zip([CROSS, RING, STROKE], ANCHORS, strict=True):
        moved = corner + anchor + np.rint(1.5 * rng.normal(size=2)).astype(int)
        v, u = np.clip(moved, 0, SIZE - 5) if shows else rng.integers(0, SIZE - 4, size=2)
        x[v : v + 5, u : u + 5] += shape
        places.append((v, u))
    return x, np.array(places)


def draw(n, rng):
    y = np.arange(n) % 2
    pictures, places = zip(*(picture(label, rng) for label in y), strict=True)
    return list(pictures), y, places


rng = np.random.default_rng(0)
X, y, _ = draw(200, rng)
X_new, y_new, places_new = draw(300, rng)

# %%
# Two detectors
# -------------
# The weights of the squared displacements must not be negative; otherwise, they would not be springs.
# Positive images need no search within a convex step, because their placements are fixed. Negative images
# are searched for the placement with the highest score. The placements found are kept as hard negatives.

parts = PartsDetector(root=(13, 13), parts=[Part((5, 5), anchor) for anchor in ANCHORS])
rigid = PartsDetector(root=(13, 13))
models = {}
for name, task in (("rigid template", rigid), ("parts on springs", parts)):
    svm = LatentStructuredSVM(task, C=0.1, nonnegative=task.springs).fit(X, y)
    scores = [svm.task_.decision(x, svm.coef_) for x in X_new]
    print(
        f"{name}: {svm.n_iter_} convex steps, objective {svm.objective_:.2f}, accuracy on new pictures "
        f"{1 + svm.score(X_new, y_new):.3f}, ROC AUC {roc_auc_score(y_new, scores):.3f}"
    )
    models[name] = svm
svm = models["parts on springs"]
print("springs (down, right):", svm.coef_[parts.springs].reshape(-1, 2).round(2).tolist())

# %%
# The learned templates
# ---------------------
# The appearance of the parts was not given. The templates became the cross, the ring, and the stroke, the
# last two off center.

fig, axes = plt.subplots(1, 5, figsize=(11, 2.6), layout="constrained")
template = models["rigid template"].task_.template(models["rigid template"].coef_, 0)
axes[0].imshow(template[:, :, 0], cmap="gray")
axes[0].set_title("the rigid template", fontsize=9)
for k, name in enumerate(["root", "part 1", "part 2", "part 3"]):
    axes[k + 1].imshow(svm.task_.template(svm.coef_, k)[:, :, 0], cmap="gray")
    axes[k + 1].set_title(name, fontsize=9)
for axis in axes:
    axis.set_axis_off()
plt.show()

# %%
# New images with the best placement: the root in yellow, the parts in red, and the true positions of the
# shapes as dots.

fig, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
shown = [i for i in range(len(X_new)) if y_new[i] == 1][:4]
for axis, i in zip(axes, shown, strict=True):
    h = svm.task_.best(X_new[i], svm.coef_)
    axis.imshow(X_new[i], cmap="gray")
    for k, (v, u) in enumerate(h):
        size, color = (5, "red") if k else (13, "gold")
        axis.add_patch(plt.Rectangle((u - 0.5, v - 0.5), size, size, fill=False, color=color))
    axis.plot(places_new[i][:, 1] + 2, places_new[i][:, 0] + 2, "o", color="tab:cyan", markersize=4)
    axis.set_title(f"score {svm.task_.decision(X_new[i], svm.coef_):.2f}", fontsize=9)
    axis.set_axis_off()
plt.show()

# %%
# A shape may be off center in its template, because its position there was not given. Up to such a shift,
# the same for all images, how often is a part at the position of its shape?

positive = np.flatnonzero(y_new == 1)
off = np.array([svm.task_.best(X_new[i], svm.coef_)[1:] - places_new[i] for i in positive])
near = np.abs(off - np.median(off, axis=0)).max(axis=2) <= 1
print(
    "found within a pixel: "
    + ", ".join(f"part {k + 1} {p:.0%}" for k, p in enumerate(near.mean(axis=0)))
)
