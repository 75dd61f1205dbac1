"""How large kernel values can be, before any is computed; and whether a function is a kernel at all.

For rows with |x|^2 <= m, values of a kernel of <x, z> are those of arguments up to gamma m + |coef0|, and the
exponents of the RBF kernel up to 4 gamma m. What single precision cannot hold is computed in double
precision, and what that cannot hold is refused: infinite values, and their differences, would end in scores
that are no numbers.

A function that a user calls a kernel is looked at on some of the rows. Values that are not symmetric, or a
negative eigenvalue, prove that it is none.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.kernels.functions import RBF, FromCallable, Kernel
from maxmargin.kernels.rows import NOT_FINITE, KernelRows

#: what sums of kernel values in single precision may come to, at most: their squares are held too
LARGEST = 1e18
#: rows that a function is looked at on; rows that are squared at a time
LOOKED_AT, STEP = 256, 4096
#: eigenvalues this far below zero, for each row and in units of the largest, are rounding
ROUNDING = 1e-10


def precision(kernel: Kernel, X: Any, factor: float = 1.0) -> Any:
    """float32 if that holds kernel values between these rows, times ``factor``; else float64. Raises where
    values are not finite."""
    top = greatest(kernel, X)
    if not np.isfinite(top):
        raise ValueError(NOT_FINITE)
    return np.float32 if top * max(1.0, factor) <= LARGEST else np.float64


def greatest(kernel: Kernel, X: Any) -> float:
    """A bound of all numbers on the way to kernel values between these rows."""
    if isinstance(kernel, FromCallable):
        some = _some(kernel, X)
        return float(np.abs(some.block(some)).max(initial=0.0))
    gamma = abs(float(getattr(kernel, "gamma", 1.0)))
    with np.errstate(over="ignore"):
        longest = _largest_square(X)
        reach = gamma * longest * (4.0 if isinstance(kernel, RBF) else 1.0)
        reach += abs(float(getattr(kernel, "coef0", 0.0)))
        value = float(np.float64(reach) ** getattr(kernel, "degree", 1))
    return max(np.sqrt(longest), gamma, reach, value) if np.isfinite(longest) else np.inf


def looks_semidefinite(kernel: Kernel, X: Any) -> bool:
    """What the kernel says of itself, and for functions of a user also what is seen: a warning if that is
    otherwise."""
    if not kernel.positive_semidefinite or not isinstance(kernel, FromCallable):
        return kernel.positive_semidefinite
    some = _some(kernel, X)
    K = some.block(some)
    if semidefinite(K):
        return True
    warn_of_no_kernel()
    return False


def semidefinite(K: Any, eigenvalues: Any = None) -> bool:
    """Whether a square matrix is symmetric and positive semidefinite, to rounding."""
    allowed = ROUNDING * len(K) * max(float(np.abs(K).max(initial=0.0)), 1e-300)
    if float(np.abs(K - K.T).max(initial=0.0)) > allowed:
        return False
    S = np.linalg.eigvalsh(K) if eigenvalues is None else eigenvalues
    return float(S.min(initial=0.0)) >= -ROUNDING * len(K) * max(float(S.max(initial=0.0)), 1e-300)


def warn_of_no_kernel() -> None:
    """Say why there is no lower bound."""
    warnings.warn(
        "the kernel function is not positive semidefinite, or not symmetric, beyond the rounding of double "
        "precision: no lower bound is claimed. If that is by rounding, let it compute in double precision; "
        "if it is meant, set its attribute positive_semidefinite to False.",
        UserWarning,
        stacklevel=2,
    )


def looked_at(kernel: Kernel, n: int) -> int:
    """Values that one look at so many rows takes."""
    return min(n, LOOKED_AT) ** 2 if isinstance(kernel, FromCallable) else 0


def _some(kernel: Kernel, X: Any) -> KernelRows:
    n = X.shape[0]
    rows = np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(np.int64))
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
