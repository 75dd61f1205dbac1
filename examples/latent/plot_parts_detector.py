"""
A deformable parts detector
===========================

An object consists of parts that move, at the cost of stretching a spring. Labels only say *whether* an
image shows the object; where its parts are is latent. A task of our own finds the best placement exactly,
and :class:`~maxmargin.LatentStructuredSVM` learns the templates and the springs.
"""

import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from maxmargin import LatentStructuredSVM
from maxmargin.tasks import LatentBinary

# %%
# The task
# --------
# The score is the sum of the products of the templates with the pixels they cover, minus ``a d^2 - b d``
# for each part and axis, where d is the displacement. A distance transform finds the best positions.


def correlate(x, template):
    return np.tensordot(sliding_window_view(x, template.shape), template)


def transform(values, a, b, anchor, n):
    """The best ``values[q] - a d^2 + b d`` and its q for all roots t < n; d = q - t - anchor."""
    d = np.arange(len(values)) - np.arange(n)[:, None] - anchor
    total = (b * d - a * d**2)[..., None] + values
    best = total.argmax(axis=1)
    return np.take_along_axis(total, best[:, None], axis=1)[:, 0], best


class PartsDetector(LatentBinary):
    def __init__(self, root, size=0, anchors=()):
        self.root, self.size, self.anchors = root, size, np.array(anchors)
        ends = np.cumsum([root**2] + [size**2 + 4] * len(anchors))
        #: the weights of squared displacements, which must not be negative
        self.springs = [int(end) - k for end in ends[1:] for k in (4, 3)]
        self.starts, self.dim = ends, int(ends[-1]) + 1

    def n_features(self, X):
        return self.dim

    def split(self, w):
        """The root template, and template, a and b of every part."""
        parts = [w[p : p + self.size**2 + 4] for p in self.starts[:-1]]
        square = (self.size, self.size)
        root = w[: self.starts[0]].reshape(self.root, self.root)
        return root, [(part[:-4].reshape(square), part[-4:-2], part[-2:]) for part in parts]

    def initial(self, x, y):  # the root where the image has most energy, the parts at their anchors
        energy = correlate(x**2, np.ones((self.root, self.root)))
        root = np.array(np.unravel_index(energy.argmax(), energy.shape))
        return np.vstack([root, *(root + anchor for anchor in self.anchors)]) if y else None

    def features(self, x, h):
        (v, u), size = h[0], self.size
        out = [x[v : v + self.root, u : u + self.root].ravel()]
        for (v, u), anchor in zip(h[1:], self.anchors, strict=True):
            d = (np.array([v, u]) - h[0] - anchor) / size
            out += [x[v : v + size, u : u + size].ravel(), -(d**2), d]
        return np.concatenate([*out, [1.0]])

    def best(self, x, w):
        template, parts = self.split(w)
        total, chosen = correlate(x, template), []
        for (part, a, b), anchor in zip(parts, self.anchors, strict=True):
            a, b = a / self.size**2, b / self.size
            value, row = transform(correlate(x, part), a[0], b[0], anchor[0], total.shape[0])
            value, column = transform(value.T, a[1], b[1], anchor[1], total.shape[1])
            total = total + value.T
            chosen.append((row, column))
        v, u = np.unravel_index(total.argmax(), total.shape)
        places = [(row[v, column[u, v]], column[u, v]) for row, column in chosen]
        return np.array([(v, u), *places])


# %%
# Images
# ------
# The object is a cross above, and a ring and a stroke below, each moved by a pixel or two. Negative images
# contain the same shapes anywhere, so only the arrangement defines the object.

grid = np.abs(np.mgrid[-2:3, -2:3])
SHAPES = [grid.min(axis=0) == 0, grid.sum(axis=0) // 2 == 1, np.eye(5)[::-1] + np.eye(5, k=1)[::-1]]
ANCHORS = [(0, 4), (8, 0), (8, 8)]
rng = np.random.default_rng(0)


def draw(shows, size=24):
    x, corner = 0.3 * rng.normal(size=(size, size)), rng.integers(2, size - 15, size=2)
    for shape, anchor in zip(SHAPES, ANCHORS, strict=True):
        moved = corner + anchor + np.rint(1.5 * rng.normal(size=2)).astype(int)
        v, u = np.clip(moved, 0, size - 5) if shows else rng.integers(0, size - 4, size=2)
        x[v : v + 5, u : u + 5] += shape
    return x


y = np.arange(300) % 2
X = [draw(label) for label in y]
for task in (PartsDetector(13), PartsDetector(13, 5, ANCHORS)):
    svm = LatentStructuredSVM(task, C=0.1, nonnegative=task.springs).fit(X[:100], y[:100])
    print(f"{len(task.anchors)} parts: accuracy {1 + svm.score(X[100:], y[100:]):.3f}")

# %%
# New images with their best placements: the root in yellow, the parts in red.

figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for axis, x in zip(axes, X[101::2], strict=False):
    axis.imshow(x, cmap="gray")
    for k, (v, u) in enumerate(svm.task_.best(x, svm.coef_)):
        size, color = (5, "red") if k else (13, "gold")
        axis.add_patch(plt.Rectangle((u - 0.5, v - 0.5), size, size, fill=False, color=color))
    axis.set_axis_off()
plt.show()
