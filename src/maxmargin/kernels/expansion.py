"""Kernel expansions: f(x) = sum_j coef_j k(x, z_j) + intercept, one function per output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.rows import KernelRows, center_of


@dataclass(frozen=True, slots=True, eq=False)
class KernelExpansion:
    """The decision functions of a fitted tagger with a kernel, one per label.

    ``rows`` holds the z_j, an array or CSR matrix. ``coef`` has one column per output. For shift-invariant
    kernels, all rows are first centered at the medians of the z_j, which reduces rounding errors.

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
        """Evaluate the functions at the rows of ``X``, in double precision; one column per output."""
        center = center_of(self.rows) if self.kernel.shift_invariant else None
        basis = KernelRows(self.kernel, self.rows, np.float64, center)
        return (
            KernelRows(self.kernel, X, np.float64, center).times(basis, self.coef) + self.intercept
        )
