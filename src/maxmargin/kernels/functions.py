"""The kernels, with scikit-learn's names and conventions.

    rbf       exp(-gamma |x - z|^2)
    poly      (gamma <x, z> + coef0)^degree
    sigmoid   tanh(gamma <x, z> + coef0)        not positive semidefinite
    linear    <x, z>

All are functions of <x, z>, |x|^2 and |z|^2. Each says how rows are *lifted* so that one matrix product
of lifted rows gives the argument of that function, which is then applied in place (:meth:`finish`). For the
RBF kernel the lifted rows are (sqrt(2 gamma) x, -gamma |x|^2, 1) and (sqrt(2 gamma) z, 1, -gamma |z|^2):
their product is the exponent. It depends on differences only, so rows may be centred first, which keeps the
cancellation in it small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array
from maxmargin.kernels.rounding import UNIT

Block: TypeAlias = npt.NDArray[np.floating[Any]]

#: exponents below this are no different from it: in single precision numbers smaller than e^-87 are slow
LEAST_EXPONENT = -80.0


class Kernel(Protocol):
    """A function of two rows."""

    @property
    def positive_semidefinite(self) -> bool:
        """Whether every matrix of its values is: only then has a fit a lower bound."""

    @property
    def shift_invariant(self) -> bool:
        """Whether it depends on differences of rows only."""

    def lift(self, X: Block, squares: Array, *, left: bool) -> Block:
        """Rows whose products with lifted rows of the other side are what :meth:`finish` takes.
        ``squares`` are |x|^2 in double precision."""

    def finish(self, products: Block) -> Block:
        """The kernel's values, in place."""

    def diagonal(self, squares: Array) -> Array:
        """k(x, x), given |x|^2."""

    def rounding(self, largest: float, d: int) -> float:
        """A bound of the error of a value in double precision, for rows of d features with |x|^2 not above
        ``largest``."""


@dataclass(frozen=True, slots=True)
class RBF:
    """exp(-gamma |x - z|^2)."""

    gamma: float = 1.0
    positive_semidefinite = True
    shift_invariant = True

    def lift(self, X: Block, squares: Array, *, left: bool) -> Block:
        """See :class:`Kernel`."""
        n, d = X.shape
        out = np.empty((n, d + 2), dtype=X.dtype)
        np.multiply(X, np.sqrt(2.0 * self.gamma), out=out[:, :d], casting="same_kind")
        out[:, d if left else d + 1] = -self.gamma * squares
        out[:, d + 1 if left else d] = 1.0
        return out

    def finish(self, products: Block) -> Block:
        """See :class:`Kernel`."""
        np.clip(products, LEAST_EXPONENT, 0.0, out=products)
        return np.exp(products, out=products)

    def of_distances(self, squares: Block) -> Block:
        """The values, in place, from the squared distances themselves."""
        squares *= -self.gamma
        return self.finish(squares)

    def diagonal(self, squares: Array) -> Array:
        """See :class:`Kernel`."""
        return np.ones(len(squares))

    def rounding(self, largest: float, d: int) -> float:
        """See :class:`Kernel`."""
        # the exponent's terms add up to 4 gamma |x|^2 at most; then the squares, the factor, the centre
        exponent = (2 * d + 8) * UNIT * 4.0 * self.gamma * largest
        return float(np.expm1(min(exponent, 1.0))) + 4.0 * UNIT


@dataclass(frozen=True, slots=True)
class _DotKernel:
    """A function of gamma <x, z> + coef0."""

    gamma: float = 1.0
    coef0: float = 0.0
    shift_invariant = False

    def lift(self, X: Block, squares: Array, *, left: bool) -> Block:
        """See :class:`Kernel`."""
        return X * X.dtype.type(self.gamma) if left else X

    def finish(self, products: Block) -> Block:
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

    def _function(self, products: Block) -> Block:
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
        """See :class:`Kernel`."""
        most = self.gamma * largest + abs(self.coef0)
        return (self.degree * (d + 5) + 2) * UNIT * float(most**self.degree)

    @property
    def positive_semidefinite(self) -> bool:
        """For whole degrees and a coef0 that is not negative."""
        whole = self.degree >= 0 and float(self.degree).is_integer()
        return whole and self.coef0 >= 0.0 and self.gamma >= 0.0

    def _function(self, products: Block) -> Block:
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

    def _function(self, products: Block) -> Block:
        return np.tanh(products, out=products)


@dataclass(frozen=True, slots=True)
class FromCallable:
    """A function ``f(X, Z)`` that returns the matrix of values; its user says whether it is a kernel in the
    strict sense (a function's attribute ``positive_semidefinite``)."""

    function: Callable[[Any, Any], Any]
    shift_invariant = False

    @property
    def positive_semidefinite(self) -> bool:
        """What the function says of itself; True unless it says otherwise."""
        return bool(getattr(self.function, "positive_semidefinite", True))

    def lift(self, X: Block, squares: Array, *, left: bool) -> Block:
        """See :class:`Kernel`."""
        return X

    def finish(self, products: Block) -> Block:
        """See :class:`Kernel`."""
        return products

    def diagonal(self, squares: Array) -> Array:
        """Not a function of |x|^2: rows know theirs."""
        raise NotImplementedError

    def rounding(self, largest: float, d: int) -> float:
        """What the function returns is what it is."""
        return 0.0


def make_kernel(
    kernel: Any, *, gamma: Any, degree: int, coef0: float, n_features: int, variance: float
) -> Kernel:
    """A kernel from scikit-learn's parameters; ``gamma`` may be "scale" or "auto". ``variance`` is that of
    all entries of X."""
    if callable(kernel):
        return FromCallable(kernel)
    if isinstance(gamma, str) and gamma == "scale":
        gamma = 1.0 / (n_features * variance) if variance > 0.0 else 1.0
    elif isinstance(gamma, str) and gamma == "auto":
        gamma = 1.0 / n_features
    elif not isinstance(gamma, Real) or not 0.0 <= float(gamma) < np.inf:
        raise ValueError(f"gamma={gamma!r}: use 'scale', 'auto' or a number that is not negative.")
    gamma = float(gamma)
    if kernel == "poly" and not (isinstance(degree, Integral) and degree >= 0):
        raise ValueError(f"degree={degree!r}: use a whole number that is not negative.")
    if kernel in ("poly", "sigmoid") and not (isinstance(coef0, Real) and np.isfinite(coef0)):
        raise ValueError(f"coef0={coef0!r}: use a number.")
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
        f"kernel={kernel!r}: use 'rbf', 'poly', 'sigmoid', 'linear' or a function f(X, Z) that returns the "
        "matrix of values."
    )
