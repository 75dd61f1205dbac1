"""The kernel functions, with scikit-learn's names and conventions.

    rbf       exp(-gamma |x - z|^2)
    poly      (gamma <x, z> + coef0)^degree
    sigmoid   tanh(gamma <x, z> + coef0)        not positive semidefinite
    linear    <x, z>

All are functions of <x, z>, |x|^2 and |z|^2. Each kernel *lifts* rows to vectors whose inner product is the
argument of an elementwise function, which is then applied in place (``finish``). For the RBF kernel the
lifted rows are (sqrt(2 gamma) x, -gamma |x|^2, 1) and (sqrt(2 gamma) z, 1, -gamma |z|^2); their product is
the exponent. The RBF kernel depends on x - z only, so rows can be centered first, which reduces cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.core.checks import integer, number
from maxmargin.core.vectors import Array
from maxmargin.kernels.rounding import UNIT

#: rows or kernel values, in single or double precision
FloatMatrix: TypeAlias = npt.NDArray[np.floating[Any]]

#: smaller exponents are clipped to this: below e^-87 single precision has slow subnormal numbers
LEAST_EXPONENT = -80.0


class Kernel(Protocol):
    """The protocol of kernel functions."""

    @property
    def positive_semidefinite(self) -> bool:
        """Whether every kernel matrix is positive semidefinite. Only then does a fit have a lower bound."""

    @property
    def shift_invariant(self) -> bool:
        """Whether k(x, z) depends on x - z only."""

    def lift(self, X: FloatMatrix, squares: Array, *, left: bool) -> FloatMatrix:
        """Lift rows: the product of a left and a right lifted row is the argument of :meth:`finish`.

        ``squares`` holds |x|^2 in double precision.
        """

    def finish(self, products: FloatMatrix) -> FloatMatrix:
        """Turn products of lifted rows into kernel values, in place."""

    def diagonal(self, squares: Array) -> Array:
        """k(x, x) from |x|^2."""

    def rounding(self, largest: float, d: int) -> float:
        """A bound of the rounding error of a value in double precision.

        It holds for rows of ``d`` features with |x|^2 <= ``largest``.
        """


@dataclass(frozen=True, slots=True)
class RBF:
    """exp(-gamma |x - z|^2)."""

    gamma: float = 1.0
    positive_semidefinite = True
    shift_invariant = True

    def lift(self, X: FloatMatrix, squares: Array, *, left: bool) -> FloatMatrix:
        """See :class:`Kernel`."""
        n, d = X.shape
        out = np.empty((n, d + 2), dtype=X.dtype)
        np.multiply(X, np.sqrt(2.0 * self.gamma), out=out[:, :d], casting="same_kind")
        out[:, d if left else d + 1] = -self.gamma * squares
        out[:, d + 1 if left else d] = 1.0
        return out

    def finish(self, products: FloatMatrix) -> FloatMatrix:
        """See :class:`Kernel`."""
        np.clip(products, LEAST_EXPONENT, 0.0, out=products)
        return np.exp(products, out=products)

    def of_distances(self, squares: FloatMatrix) -> FloatMatrix:
        """Turn squared distances into kernel values, in place."""
        squares *= -self.gamma
        return self.finish(squares)

    def diagonal(self, squares: Array) -> Array:
        """See :class:`Kernel`."""
        return np.ones(len(squares))

    def rounding(self, largest: float, d: int) -> float:
        """See :class:`Kernel`."""
        # the terms of the exponent sum to at most 4 gamma |x|^2; the rest is for squares, factor and center
        exponent = (2 * d + 8) * UNIT * 4.0 * self.gamma * largest
        return float(np.expm1(min(exponent, 1.0))) + 4.0 * UNIT


@dataclass(frozen=True, slots=True)
class _DotKernel:
    """A function of gamma <x, z> + coef0."""

    gamma: float = 1.0
    coef0: float = 0.0
    shift_invariant = False

    def lift(self, X: FloatMatrix, squares: Array, *, left: bool) -> FloatMatrix:
        """See :class:`Kernel`."""
        return X * X.dtype.type(self.gamma) if left else X

    def finish(self, products: FloatMatrix) -> FloatMatrix:
        """See :class:`Kernel`."""
        if self.coef0 != 0.0:
            products += products.dtype.type(self.coef0)
        return self._function(products)

    def diagonal(self, squares: Array) -> Array:
        """See :class:`Kernel`."""
        return np.asarray(self.finish(self.gamma * squares), dtype=np.float64)

    def rounding(self, largest: float, d: int) -> float:
        """See :class:`Kernel`."""
        return (d + 4) * UNIT * (self.gamma * largest + abs(self.coef0))

    def _function(self, products: FloatMatrix) -> FloatMatrix:
        return products


@dataclass(frozen=True, slots=True)
class Linear(_DotKernel):
    """<x, z>."""

    positive_semidefinite = True


@dataclass(frozen=True, slots=True)
class Polynomial(_DotKernel):
    """(gamma <x, z> + coef0)^degree."""

    degree: int = 3

    def rounding(self, largest: float, d: int) -> float:
        most = self.gamma * largest + abs(self.coef0)
        return (self.degree * (d + 5) + 2) * UNIT * float(most**self.degree)

    @property
    def positive_semidefinite(self) -> bool:
        """True if the degree is a nonnegative integer and coef0 and gamma are not negative."""
        whole = self.degree >= 0 and float(self.degree).is_integer()
        return whole and self.coef0 >= 0.0 and self.gamma >= 0.0

    def _function(self, products: FloatMatrix) -> FloatMatrix:
        if self.degree in (2, 3):  # a general power is ten times slower
            factor = products.copy()
            for _ in range(self.degree - 1):
                products *= factor
            return products
        return np.power(products, self.degree, out=products)


@dataclass(frozen=True, slots=True)
class Sigmoid(_DotKernel):
    """tanh(gamma <x, z> + coef0)."""

    positive_semidefinite = False

    def _function(self, products: FloatMatrix) -> FloatMatrix:
        return np.tanh(products, out=products)


@dataclass(frozen=True, slots=True)
class FromCallable:
    """A user's function ``f(X, Z)`` that returns the matrix of kernel values.

    If the function is not positive semidefinite, set its attribute ``positive_semidefinite`` to False.
    """

    function: Callable[[Any, Any], Any]
    shift_invariant = False

    @property
    def positive_semidefinite(self) -> bool:
        """The function's own attribute; True if it has none."""
        return bool(getattr(self.function, "positive_semidefinite", True))

    def lift(self, X: FloatMatrix, squares: Array, *, left: bool) -> FloatMatrix:
        """See :class:`Kernel`."""
        return X

    def finish(self, products: FloatMatrix) -> FloatMatrix:
        """See :class:`Kernel`."""
        return products

    def diagonal(self, squares: Array) -> Array:
        """Not implemented: k(x, x) is not a function of |x|^2 here; see :meth:`KernelRows.diagonal`."""
        raise NotImplementedError

    def rounding(self, largest: float, d: int) -> float:
        """0: the values of the function are taken as exact."""
        return 0.0


@dataclass(frozen=True, slots=True, eq=False)
class GramValues:
    """The entries of a given matrix of kernel values. A row is represented by its index, as a column."""

    gram: FloatMatrix
    #: False if the matrix is known not to be that of a kernel
    positive_semidefinite: bool = True

    def __call__(self, X: Any, Z: Any) -> Any:
        """The entries of some rows and columns."""
        return self.gram[_index(X)[:, None], _index(Z)]

    @property
    def largest(self) -> float:
        """The largest absolute value."""
        return float(max(self.gram.max(), -self.gram.min()))


def _columns(X: Any, Z: Any) -> Any:
    return np.asarray(X)[:, _index(Z)]


def _index(X: Any) -> Any:
    return X[:, 0].astype(np.intp)


@dataclass(frozen=True, slots=True)
class Precomputed(FromCallable):
    """Kernel values of new samples with all training samples, given as rows: ``kernel="precomputed"``.

    Support vectors are represented by their indices.
    """

    function: Callable[[Any, Any], Any] = field(default=_columns, init=False)


def make_kernel(
    kernel: Any, *, gamma: Any, degree: int, coef0: float, n_features: int, variance: float
) -> Kernel:
    """Make a kernel from scikit-learn's parameters.

    ``gamma`` can be "scale" or "auto". ``variance`` is the variance of all entries of X.
    """
    if callable(kernel):
        return FromCallable(kernel)
    if isinstance(gamma, str) and gamma == "scale":
        gamma = 1.0 / (n_features * variance) if variance > 0.0 else 1.0
    elif isinstance(gamma, str) and gamma == "auto":
        gamma = 1.0 / n_features
    elif not isinstance(gamma, Real) or not 0.0 <= float(gamma) < np.inf:
        raise ValueError(f"gamma must be 'scale', 'auto' or a nonnegative number, got {gamma!r}.")
    gamma = float(gamma)
    if kernel == "poly":
        integer("degree", degree, 0)
    if kernel in ("poly", "sigmoid"):
        number("coef0", coef0, signed=True)
    match kernel:
        case "rbf":
            return RBF(gamma)
        case "poly":
            return Polynomial(gamma, float(coef0), int(degree))
        case "sigmoid":
            return Sigmoid(gamma, float(coef0))
        case "linear":
            return Linear()
    raise ValueError(
        "kernel must be 'rbf', 'poly', 'sigmoid', 'linear' or a function f(X, Z) that returns the matrix of "
        f"kernel values, got {kernel!r}."
    )
