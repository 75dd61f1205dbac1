"""Kernel values of very sparse rows, such as bags of words, by products of sparse matrices.

For rows of 47,000 features of which 80 are nonzero, a kernel value takes 40 ns by sparse products and 700 ns
by dense ones, which also need the memory for the zeros. Products are in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.vectors import Array
from maxmargin.kernels.functions import FloatMatrix, Kernel

#: sparse products are used from this many features on, if at most this share of the entries is nonzero
FEATURES, SHARE = 4096, 0.01
#: rows multiplied at a time
STEP = 512


def is_thin(X: Any) -> bool:
    """Whether sparse products are faster for such rows."""
    if not sp.issparse(X) or X.shape[1] < FEATURES:
        return False
    return bool(X.nnz <= SHARE * X.shape[0] * X.shape[1])


def thin_squares(X: Any) -> Array:
    """|x|^2 of each row, in double precision."""
    squares = sp.csr_matrix((np.square(X.data, dtype=np.float64), X.indices, X.indptr), X.shape)
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()


def thin_block(kernel: Kernel, A: Any, B: Any, out: FloatMatrix) -> FloatMatrix:
    """The matrix of kernel values between the rows of A and the rows of B.

    A kernel multiplies lifted rows. Lifting scales the row and adds columns that depend on |x|^2. So the
    product is the product of the rows times a factor, plus the product of the added columns.
    """
    one, nothing = np.ones((1, 1)), np.zeros(1)
    factor = float(kernel.lift(one, nothing, left=True)[0, 0])
    factor *= float(kernel.lift(one, nothing, left=False)[0, 0])
    left = kernel.lift(np.empty((A.shape[0], 0)), thin_squares(A), left=True)
    right = kernel.lift(np.empty((B.shape[0], 0)), thin_squares(B), left=False)
    columns = sp.csr_matrix(B.T, dtype=np.float64)
    for lo in range(0, A.shape[0], STEP):
        here = slice(lo, lo + STEP)
        values = (sp.csr_matrix(A[here], dtype=np.float64) @ columns).toarray()
        values *= factor
        if left.shape[1]:
            values += left[here] @ right.T
        out[here] = kernel.finish(values)
    return out
