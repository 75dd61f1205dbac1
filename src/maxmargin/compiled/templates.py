"""Correlation of a template with every window of its size on a feature map."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry_products


@entry_products
def responses(
    cells: npt.NDArray[np.float64], template: npt.NDArray[np.float64]
) -> Any:  # inputs (height, width, channels); an array of (rows, columns) of positions
    """out[v, u] = sum over (y, x, d) of template[y, x, d] cells[v + y, u + x, d]."""
    height, width, channels = template.shape
    out = np.zeros((cells.shape[0] - height + 1, cells.shape[1] - width + 1))
    for v in range(out.shape[0]):
        row = out[v]
        for y in range(height):
            for x in range(width):
                for d in range(channels):
                    weight = template[y, x, d]
                    line = cells[v + y, :, d]
                    for u in range(row.size):
                        row[u] += weight * line[u + x]
    return out
