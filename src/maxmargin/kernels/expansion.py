"""Functions made of a kernel: f(x) = sum_j coef_j k(x, z_j) + intercept, one per output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.rows import KernelRows, centre_of


@dataclass(frozen=True, slots=True, eq=False)
class KernelExpansion:
    """The functions of a fitted tagger with a kernel, one per label.

    ``rows`` are the z_j, an array or CSR matrix; ``coef`` has one column per output. Kernels of
    differences see rows as they are from the middle of the z_j.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import KernelExpansion, Linear
    >>> f = KernelExpansion(Linear(), np.eye(2), np.array([[1.0], [3.0]]), np.array([0.5]))
    >>> f(np.array([[1.0, 2.0]]))
    array([[7.5]])
    """

    kernel: Kernel
    rows: Any
    coef: Array
    intercept: Array

    def __call__(self, X: Any) -> Array:
        """The outputs at some rows, one column each, in double precision."""
        centre = centre_of(self.rows) if self.kernel.shift_invariant else None
        basis = KernelRows(self.kernel, self.rows, np.float64, centre)
        return (
            KernelRows(self.kernel, X, np.float64, centre).times(basis, self.coef) + self.intercept
        )
