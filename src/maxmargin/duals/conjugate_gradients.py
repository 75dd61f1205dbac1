"""Preconditioned conjugate gradients for the steps of a truncated Newton method.

    minimize  1/2 <x, H x> - <b, x>    over ever larger Krylov spaces

H is known by its products. The preconditioner is its diagonal, because features may differ much in size. The
steps of Newton's method need few digits of x far from the solution, and more near to it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.core.vectors import Array


def solve(
    product: Callable[[Array], Array], b: Array, diagonal: Array, tol: float, most: int
) -> tuple[Array, int]:
    """x with |b - H x| <= tol |b| in the norm of the preconditioner, or the best after ``most`` products, and
    the number of products."""
    scale = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
    x, r = np.zeros_like(b), b.copy()
    z = scale * r
    direction, square = z.copy(), float(r @ z)
    enough = tol * tol * square
    for count in range(most):
        if not square > enough:
            return x, count
        bent = product(direction)
        curvature = float(direction @ bent)
        if not curvature > 0.0:  # rounding: nothing more to gain
            return x, count + 1
        step = square / curvature
        x += np.multiply(direction, step, out=z)  # no new memory: vectors may be long
        bent *= step
        r -= bent
        np.multiply(scale, r, out=z)
        before, square = square, float(r @ z)
        direction *= square / before
        direction += z
    return x, most
