"""Functions made of a kernel: f(x) = sum_j coef_j k(x, z_j) + intercept, one per output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.rows import KernelRows


@dataclass(frozen=True, slots=True, eq=False)
class KernelExpansion:
    """What every kernel method ends with.

    ``rows`` are the z_j, an array or CSR matrix; ``coef`` has one column per output; ``centre`` is
    subtracted from all rows first, for kernels of differences.
    """

    kernel: Kernel
    rows: Any
    coef: Array
    intercept: Array
    centre: Array | None = None

    def __call__(self, X: Any, dtype: Any = np.float32) -> Array:
        """The outputs at some rows, one column each."""
        basis = KernelRows(self.kernel, self.rows, dtype, self.centre)
        return (
            KernelRows(self.kernel, X, dtype, self.centre).times(basis, self.coef) + self.intercept
        )
