"""Deformable part models: decide whether an image shows an object, and locate its parts.

    x          a feature map, (height, width) or (height, width, channels): an image or features of it
    y          one of two labels: the object is present, or not
    h          the positions (upper left corners) of the root template and of all part templates, an array
               (1 + parts, 2)
    score      the sum of the inner products of the templates with the cells they cover
               - deformation costs: a_y dy^2 + a_x dx^2 - b_y dy - b_x dx for each part, where d is the
                 displacement from the anchor at its parent, in units of the size of the part
               + bias

The parent of a part is the root or another part. From the leaves to the root, each part sends its parent the
best score for each position of the parent, by a generalized distance transform
(:mod:`maxmargin.compiled.distance_transform`). This finds the best of all placements exactly, in time linear
in the size of the map. The weights a must not be negative; use
``LatentStructuredSVM(task, nonnegative=task.springs)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.distance_transform import transform
from maxmargin.compiled.templates import responses
from maxmargin.core.vectors import Array, IntArray
from maxmargin.tasks.chains.examples import writable
from maxmargin.tasks.latent import LatentBinary


class Part(NamedTuple):
    """The template of a part.

    ``size`` is its (height, width). ``anchor`` is its ideal position, (down, right) of the parent's upper
    left corner. ``parent`` is 0 for the root and k for the k-th part, which must come earlier in the list.
    """

    size: tuple[int, int]
    anchor: tuple[int, int]
    parent: int = 0


class PartsDetector(LatentBinary):
    """Detect an object made of parts, for :class:`maxmargin.LatentStructuredSVM`.

    Parameters
    ----------
    root : (height, width)
        Size of the root template, in cells of the map.
    parts : list of Part
        The parts. Without parts, the model is one rigid template.
    channels : int, default 1
        Number of features per cell.
    bias : float, default 1.0
        Value of the constant feature. Its weight, the last one, is penalized like the others.
    labels : pair, optional
        (negative, positive). By default the labels are learned from the data.

    Attributes
    ----------
    springs : list of int
        Indices of the weights of the squared displacements, which must not be negative: pass them as
        ``nonnegative``.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LatentStructuredSVM
    >>> from maxmargin.tasks import Part, PartsDetector
    >>> rng = np.random.default_rng(0)
    >>> X, y = 0.2 * rng.normal(size=(40, 10, 10)), np.repeat([1, 0], 20)
    >>> for x in X[:20]:  # a bright cell, and another about three cells to its right
    ...     v, u = rng.integers(1, 9), rng.integers(0, 6)
    ...     x[v, u], x[v + rng.integers(-1, 2), u + 3] = 2.0, 2.0
    >>> for x in X[20:]:  # the same cells, far from each other
    ...     x[rng.integers(0, 4), rng.integers(10)], x[rng.integers(6, 10), rng.integers(10)] = 2.0, 2.0
    >>> task = PartsDetector(root=(1, 1), parts=[Part((1, 1), anchor=(0, 3))])
    >>> svm = LatentStructuredSVM(task, C=1.0, nonnegative=task.springs).fit(X, y)
    >>> bool(svm.score(X, y) > -0.2), bool((svm.coef_[task.springs] > 0).all())
    (True, True)
    """

    def __init__(
        self,
        root: tuple[int, int],
        parts: Sequence[Part] = (),
        *,
        channels: int = 1,
        bias: float = 1.0,
        labels: tuple[Any, Any] | None = None,
    ) -> None:
        self.root, self.parts = tuple(root), [Part(*part) for part in parts]
        self.channels, self.bias, self.labels = int(channels), float(bias), labels
        if labels is not None:
            self.negative, self.positive = labels
        for k, part in enumerate(self.parts, start=1):
            if not 0 <= part.parent < k:
                raise ValueError(
                    f"part {k} has parent {part.parent}: the parent must be 0 (the root) or an earlier part."
                )
        sizes = [self.root, *(part.size for part in self.parts)]
        if min(min(size) for size in sizes) < 1 or self.channels < 1:
            raise ValueError(
                "templates must have at least one cell, and channels must be at least 1."
            )
        self._sizes = sizes
        ends = np.cumsum([height * width * self.channels for height, width in sizes])
        self._templates = [
            slice(int(e) - s, int(e)) for e, s in zip(ends, np.diff(ends, prepend=0), strict=True)
        ]
        self._first_spring = int(ends[-1])
        self.dim = self._first_spring + 4 * len(self.parts) + 1

    @property
    def springs(self) -> list[int]:
        """Indices of the weights of the squared displacements, two for each part."""
        return [self._first_spring + 4 * k + j for k in range(len(self.parts)) for j in range(2)]

    def template(self, w: Array, k: int) -> Array:
        """The weights of template ``k`` (0 is the root), of shape (height, width, channels)."""
        return w[self._templates[k]].reshape(*self._sizes[k], self.channels)

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Learn the labels and validate the feature maps."""
        for i, x in enumerate(X):
            shape = self._map(x).shape
            if shape[2] != self.channels or any(
                shape[0] < height or shape[1] < width for height, width in self._sizes
            ):
                raise ValueError(
                    f"input {i} has shape {shape}: it must be at least as large as every template and have "
                    f"{self.channels} channels."
                )
        dim = super().setup(X, [y.item() if isinstance(y, np.generic) else y for y in Y])
        if self.labels is not None:
            if {self.negative, self.positive} != set(self.labels):
                raise ValueError(f"y must contain the labels {self.labels!r} only.")
            self.negative, self.positive = self.labels
        return dim

    def n_features(self, X: Sequence[Any]) -> int:
        return self.dim

    def initial(self, x: Any, y: Any) -> IntArray | None:
        """The root where the sum of squares is largest, and the parts at their anchors (inside the map)."""
        if y != self.positive:
            return None
        cells = self._map(x)
        energy = responses(cells**2, np.ones((*self.root, self.channels)))
        place = np.empty((1 + len(self.parts), 2), dtype=np.int64)
        place[0] = np.unravel_index(np.argmax(energy), energy.shape)
        for k, part in enumerate(self.parts, start=1):
            last = np.array(cells.shape[:2]) - part.size
            place[k] = np.clip(place[part.parent] + part.anchor, 0, last)
        return place

    def features(self, x: Any, h: Any) -> Array:
        cells, out = self._map(x), np.empty(self.dim)
        for (height, width), where, (v, u) in zip(self._sizes, self._templates, h, strict=True):
            out[where] = cells[v : v + height, u : u + width].ravel()
        for k, part in enumerate(self.parts):
            away = (h[k + 1] - h[part.parent] - part.anchor) / np.array(part.size)
            out[self._first_spring + 4 * k : self._first_spring + 4 * k + 4] = [*-(away**2), *away]
        out[-1] = self.bias
        return out

    def best(self, x: Any, w: Array) -> IntArray:
        cells, own = self._map(x), writable(w)
        worth = [responses(cells, self.template(own, k)) for k in range(len(self._sizes))]
        places: list[IntArray] = []
        for k in range(len(self.parts), 0, -1):  # children before their parents
            part = self.parts[k - 1]
            size, spring = (
                np.array(part.size, dtype=float),
                own[self._first_spring + 4 * k - 4 :][:4],
            )
            message = np.empty(worth[part.parent].shape)
            place = np.empty((*message.shape, 2), dtype=np.int64)
            shift = np.array(part.anchor, dtype=np.int64)
            transform(worth[k], spring[:2] / size**2, spring[2:] / size, shift, message, place)
            worth[part.parent] = worth[part.parent] + message
            places.insert(0, place)
        found = np.empty((len(self._sizes), 2), dtype=np.int64)
        found[0] = np.unravel_index(np.argmax(worth[0]), worth[0].shape)
        for k, part in enumerate(self.parts, start=1):
            found[k] = places[k - 1][tuple(found[part.parent])]
        return found

    def _map(self, x: Any) -> npt.NDArray[np.float64]:
        cells = np.ascontiguousarray(x, dtype=np.float64)
        return cells[:, :, None] if cells.ndim == 2 else cells
