"""
Image segmentation: labeling pixels
===================================

By color alone, brown earth and a brown horse look the same. Here every pixel is a node of a grid, and
:class:`~maxmargin.GraphLabeler` learns what the pixels of each class look like and how strongly similar
neighbors attract each other. The best labeling is a minimum cut, so every argmax is exact, and so is the
certificate.

The images are the Weizmann horses (Borenstein and Ullman), from the folder in ``MAXMARGIN_DATA``. Without
them, the example uses synthetic blobs.

"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter, zoom

from maxmargin import GraphLabeler, LinearSVC
from maxmargin.tasks import Graph, grid_graph

# %%
# The images
# ----------
# All images are resized to 32 x 32 pixels.

SIZE = 32
folder = Path(os.environ.get("MAXMARGIN_DATA", "../shared/data"))
file = folder / "unclear-licence" / "images" / "weizmann_horses_128.npz"


def shrink(image):
    """Smooth and resize the first two axes."""
    factors = (SIZE / image.shape[0], SIZE / image.shape[1]) + (1,) * (image.ndim - 2)
    blur = [0.4 / f if f < 1 else 0 for f in factors]
    return zoom(gaussian_filter(image, blur), factors, order=1)


def load_horses():
    data = np.load(file)
    shapes = data["shapes"].astype(int)
    ends = np.cumsum(shapes.prod(axis=1))[:-1]
    bits = np.unpackbits(data["mask"])[: len(data["pixels"])]
    parts = zip(np.split(data["pixels"], ends), np.split(bits, ends), shapes, strict=True)
    train = data["is_train"].astype(bool)
    some = np.concatenate([np.flatnonzero(train)[:60], np.flatnonzero(~train)[:25]])
    kept = [part for i, part in enumerate(parts) if i in some]
    images = [shrink(pixels.reshape(*shape, 3) / 255.0) for pixels, _, shape in kept]
    masks = [(shrink(mask.reshape(shape) * 1.0) > 0.5) * 1 for _, mask, shape in kept]
    return (
        images,
        masks,
        np.flatnonzero(train[np.sort(some)]),
        np.flatnonzero(~train[np.sort(some)]),
    )


def random_blobs():
    print(f"{file.name} is not in the data folder: random blobs are used instead")
    rng = np.random.default_rng(0)
    images, masks = [], []
    for _ in range(85):
        field = gaussian_filter(rng.normal(size=(SIZE, SIZE)), 4) * 8
        center = 1.5 - np.hypot(*np.mgrid[-2 : 2 : SIZE * 1j, -2 : 2 : SIZE * 1j])
        mask = field + center > 0.3
        colors = np.clip(rng.normal(0.5, 0.15, (2, 3)), 0, 1)
        images.append(np.clip(colors[mask * 1] + 0.2 * rng.normal(size=(SIZE, SIZE, 3)), 0, 1))
        masks.append(mask * 1)
    return images, masks, np.arange(60), np.arange(60, 85)


images, masks, train, test = load_horses() if file.exists() else random_blobs()

# %%
# Features
# --------
# Pixels have their color and that of their surroundings, their similarity to the border and to the center,
# and their position. Edges have a direction, also times the similarity of the two pixels, at two scales.


def likeness(image, colors, scale=0.1):
    apart = ((image[:, :, None, :] - colors[::4]) ** 2).sum(axis=3)
    return np.log(np.exp(-apart / (2 * scale**2)).mean(axis=2) + 1e-6)


def features(image):
    border = np.concatenate([p.reshape(-1, 3) for p in (image[:2], image[:, :2], image[:, -2:])])
    middle = image[SIZE // 3 : 2 * SIZE // 3, SIZE // 4 : 3 * SIZE // 4].reshape(-1, 3)
    near, far = likeness(image, middle), likeness(image, border)
    around = gaussian_filter(image, (2, 2, 0))
    steps = np.exp(-8 * (np.linspace(-1, 1, SIZE)[:, None] - np.linspace(-1, 1, 6)) ** 2)
    place = np.einsum("ra,cb->rcab", steps, steps).reshape(SIZE, SIZE, -1)
    plain = [near - far, near, far, np.maximum(near - far, 0), np.ones((SIZE, SIZE))]
    return np.concatenate([image, around, np.stack(plain, axis=2) / 3, place], axis=2)


def graph(image):
    grid = grid_graph(image, edge_features="contrast")
    return Graph(features(image).reshape(SIZE * SIZE, -1), grid.edges, grid.edge_features)


graphs = [graph(image) for image in images]
print(graphs[0])

# %%
# Training
# --------
# For comparison, a linear SVM uses the same features of each pixel separately.

X, Y = [graphs[i] for i in train], [masks[i] for i in train]
labeler = GraphLabeler(C=0.1, edges="attractive").fit(X, Y)
print(f"{labeler.lower_bound_:.1f} <= F* <= {labeler.objective_:.1f}   ({labeler.certificate_})")

rows, labels = np.concatenate([x.features for x in X]), np.concatenate([y.ravel() for y in Y])
alone = LinearSVC(C=0.1, tol=1e-2, fit_intercept=False, loss="hinge").fit(rows, labels)

# %%
# The learned weights for equal labels to the right and down: in general, and for very or somewhat similar
# pixels.

print(labeler.pair_coef_[:, 0, 0].reshape(3, 2).round(2))

# %%
# Test images
# -----------

truth = [masks[i] for i in test]
cut = [y.reshape(SIZE, SIZE) for y in labeler.predict([graphs[i] for i in test])]
apart = [alone.predict(graphs[i].features).reshape(SIZE, SIZE) for i in test]


def overlap(found):
    return np.mean(
        [(a & b).sum() / max(1, (a | b).sum()) for a, b in zip(found, truth, strict=True)]
    )


print(f"pixels alone  accuracy {np.mean(np.equal(apart, truth)):.3f}  overlap {overlap(apart):.3f}")
print(f"minimum cut   accuracy {np.mean(np.equal(cut, truth)):.3f}  overlap {overlap(cut):.3f}")

# %%
# From top to bottom: image, ground truth, separate pixels, minimum cut.

figure, axes = plt.subplots(4, 8, figsize=(8, 4.2), layout="constrained")
for column, k in zip(axes.T, range(0, len(test), 3), strict=False):
    picture = images[test[k]]
    pale = 0.75 + 0.15 * picture
    for axis, mask in zip(column, (None, truth[k], apart[k], cut[k]), strict=True):
        axis.imshow(picture if mask is None else np.where(mask[:, :, None], picture, pale))
        axis.set(xticks=[], yticks=[])
for axis, name in zip(axes[:, 0], ("picture", "truth", "alone", "cut"), strict=True):
    axis.set_ylabel(name)
