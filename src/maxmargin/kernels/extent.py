"""Bounds of the size of kernel values, and a test whether a user's function is a kernel.

For rows with |x|^2 <= m, the argument of a kernel of <x, z> is at most gamma m + |coef0|, and the exponent of
the RBF kernel is at most 4 gamma m in size. Values that would overflow in single precision are computed in
double precision. Values that would overflow there too raise an error, because they lead to NaN scores.

A user's function is evaluated on some of the rows. If the values are not symmetric or have a negative
eigenvalue, the function is not a positive semidefinite kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.user_warnings import warn_user
from maxmargin.kernels.functions import RBF, FromCallable, Kernel
from maxmargin.kernels.rows import NOT_FINITE, KernelRows

#: largest sum of kernel values allowed in single precision: its square must not overflow either
LARGEST = 1e18
#: rows on which a user's function is tested; rows squared at a time
TEST_ROWS, STEP = 256, 4096
#: negative eigenvalues down to this share of the largest one, times the number of rows, count as rounding
ROUNDING = 1e-10


def precision(kernel: Kernel, X: Any, factor: float = 1.0) -> Any:
    """float32 if kernel values between these rows, times ``factor``, do not overflow in it; else float64.

    Raises a ValueError if values are not finite in double precision.
    """
    top = greatest(kernel, X)
    if not np.isfinite(top):
        raise ValueError(NOT_FINITE)
    return np.float32 if top * max(1.0, factor) <= LARGEST else np.float64


def greatest(kernel: Kernel, X: Any) -> float:
    """An upper bound of all intermediate numbers when kernel values between these rows are computed."""
    if isinstance(kernel, FromCallable):
        some = _some(kernel, X)
        return float(np.abs(some.block(some)).max(initial=0.0))
    gamma = abs(float(getattr(kernel, "gamma", 1.0)))
    with np.errstate(over="ignore"):
        longest = _largest_square(X)
        argument = gamma * longest * (4.0 if isinstance(kernel, RBF) else 1.0)
        argument += abs(float(getattr(kernel, "coef0", 0.0)))
        value = float(np.float64(argument) ** getattr(kernel, "degree", 1))
    return max(np.sqrt(longest), gamma, argument, value) if np.isfinite(longest) else np.inf


def looks_semidefinite(kernel: Kernel, X: Any) -> bool:
    """Whether the kernel is positive semidefinite.

    Built-in kernels know. A user's function that claims to be is also tested on some rows; if the test fails,
    a warning is issued.
    """
    if not kernel.positive_semidefinite or not isinstance(kernel, FromCallable):
        return kernel.positive_semidefinite
    some = _some(kernel, X)
    K = some.block(some)
    if semidefinite(K):
        return True
    warn_of_no_kernel()
    return False


def semidefinite(K: Any, eigenvalues: Any = None) -> bool:
    """Whether a square matrix is symmetric and positive semidefinite, up to rounding."""
    allowed = ROUNDING * len(K) * max(float(np.abs(K).max(initial=0.0)), 1e-300)
    if float(np.abs(K - K.T).max(initial=0.0)) > allowed:
        return False
    S = np.linalg.eigvalsh(K) if eigenvalues is None else eigenvalues
    return float(S.min(initial=0.0)) >= -ROUNDING * len(K) * max(float(S.max(initial=0.0)), 1e-300)


def warn_of_no_kernel() -> None:
    """Warn that there is no lower bound, and say why."""
    warn_user(
        "the kernel function is not symmetric and positive semidefinite, by more than rounding in double "
        "precision explains: the fit has no lower bound. If the function computes in single precision, use "
        "double precision. If it is indefinite on purpose, set its attribute positive_semidefinite to False.",
    )


def n_test_values(kernel: Kernel, n: int) -> int:
    """Number of kernel values that one test of a user's function on ``n`` rows computes."""
    return min(n, TEST_ROWS) ** 2 if isinstance(kernel, FromCallable) else 0


def _some(kernel: Kernel, X: Any) -> KernelRows:
    n = X.shape[0]
    rows = np.unique(np.linspace(0, n - 1, min(n, TEST_ROWS)).astype(np.int64))
    return KernelRows(kernel, X[rows], np.float64)


def _largest_square(X: Any) -> float:
    top = 0.0
    for lo in range(0, X.shape[0], STEP):
        part = X[lo : lo + STEP]
        if sp.issparse(part):
            squares = np.asarray(part.astype(np.float64).power(2).sum(axis=1))
        else:
            squares = np.einsum("ij,ij->i", part, part, dtype=np.float64)
        top = max(top, float(squares.max(initial=0.0)))
    return top
