"""Graph problems of the benchmark: snakes, horses, multilabel data."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, uniform_filter

from benchmarks import datasets
from maxmargin.tasks import Graph, chow_liu_tree, grid_graph, multilabel_graphs


def snakes(kind: str) -> tuple[list[Graph], list[Any], list[Graph], list[Any]]:
    """Training and test graphs; ``kind`` as in ``grid_graph(edge_features=...)``."""
    train, test = datasets.snakes("train"), datasets.snakes("test")
    graphs = [[grid_graph(x, edge_features=kind) for x in part.X] for part in (train, test)]
    return graphs[0], train.y, graphs[1], test.y


def pixel_features(image: Any) -> Any:
    """Color, texture, position, and similarity of a pixel to the center or the border of the image."""
    height, width, _ = image.shape
    grey = image.mean(axis=2)
    border = np.concatenate(
        [part.reshape(-1, 3) for part in (image[:3], image[:, :3], image[:, -3:])]
    )
    middle = image[height // 3 : 2 * height // 3, width // 4 : 3 * width // 4].reshape(-1, 3)

    def likeness(colors: Any, scale: float) -> Any:
        some = colors[:: max(1, len(colors) // 150)]
        apart = ((image.reshape(-1, 1, 3) - some) ** 2).sum(axis=2)
        return np.log(np.exp(-apart / (2 * scale**2)).mean(axis=1) + 1e-6).reshape(height, width)

    columns = [likeness(colors, s) for s in (0.05, 0.15) for colors in (border, middle)]
    columns += [columns[1] - columns[0], columns[3] - columns[2]]
    smooth = [image, *(gaussian_filter(image, (s, s, 0)) for s in (1, 3))]
    columns += [part[:, :, c] for part in smooth for c in range(3)]
    blurred = [grey, *(gaussian_filter(grey, s) for s in (1, 2, 4))]
    columns += [np.abs(a - b) for a, b in pairwise(blurred)]
    for k in (3, 7):
        spread = uniform_filter(grey**2, k) - uniform_filter(grey, k) ** 2
        columns.append(np.sqrt(np.maximum(spread, 0.0)))
    return np.stack([*columns, image[:, :, 0] - image[:, :, 2], image[:, :, 1] - grey, grey**2], 2)


def place_features(height: int, width: int, n_bins: int = 7) -> Any:
    """Soft bins of rows times columns, and a constant."""
    centers = np.linspace(-1, 1, n_bins)
    rows = np.exp(-9 * (np.linspace(-1, 1, height)[:, None] - centers) ** 2)
    columns = np.exp(-9 * (np.linspace(-1, 1, width)[:, None] - centers) ** 2)
    both = np.einsum("ra,cb->rcab", rows, columns).reshape(height, width, -1)
    return np.concatenate([both, np.ones((height, width, 1))], axis=2)


def horses(size: int, n_train: int | None) -> tuple[list[Graph], list[Any], list[Graph], list[Any]]:
    """Training and test graphs: features of pixels, edges by direction and contrast."""
    train, test = datasets.horses("train", size=size), datasets.horses("test", size=size)
    raw = [[pixel_features(x) for x in part] for part in (train.X[:n_train], test.X)]
    rows = np.concatenate([f.reshape(-1, f.shape[2]) for f in raw[0]])
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    place = place_features(size, size)

    def graph(features: Any, image: Any) -> Graph:
        scaled = np.clip((features - mean) / spread, -4, 4)
        bent = np.maximum(scaled[:, :, :6], 0.0)
        whole = np.concatenate([scaled, bent, place], axis=2)
        grid = grid_graph(image, edge_features="contrast")
        return Graph(whole.reshape(-1, whole.shape[2]), grid.edges, grid.edge_features)

    graphs = [
        [graph(f, x) for f, x in zip(part, images, strict=False)]
        for part, images in zip(raw, (train.X, test.X), strict=True)
    ]
    return graphs[0], train.y[:n_train], graphs[1], test.y


def several_labels(name: str, kind: str) -> tuple[list[Graph], Any, list[Graph], Any]:
    """Training and test graphs of Scene or Yeast; ``kind``: "none", "tree" or "full"."""
    load = datasets.scene if name == "scene" else datasets.yeast
    train, test = load("train"), load("test")
    n_labels = train.y.shape[1]
    edges = {"none": np.empty((0, 2), int), "full": "full"}.get(kind)
    edges = chow_liu_tree(train.y) if edges is None else edges
    graphs = [
        multilabel_graphs(np.hstack([part.X, np.ones((len(part.X), 1))]), edges, n_labels)
        for part in (train, test)
    ]
    return graphs[0], train.y, graphs[1], test.y
