"""Interior-point methods for small problems: primal and dual value meet where others lose their digits."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.core import Bundle, Cut, SquaredNorm
from maxmargin.core.box_qp import solve_box
from maxmargin.core.dense_qp import solve_planes


def badly_scaled(seed: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Planes with columns of very different sizes, the first of them zero."""
    rng = np.random.default_rng(seed)
    A, o = rng.normal(size=(m, d)) * 10.0 ** rng.uniform(-4, 4, size=d), rng.uniform(0, 5, size=m)
    A[0] = o[0] = 0.0
    return A, o


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e6])
@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("free", [False, True])
def test_reduced_problem(C: float, signs: bool, free: bool) -> None:
    A, o = badly_scaled(8, 60, 12)
    signed = np.array([1, 3] if signs else [], dtype=np.int64)
    floors = np.array([0.0, -1e-3]) if signs else np.zeros(0)
    omega = SquaredNorm(
        nonnegative=signed, floor=floors, free=np.arange(int(free)), free_bound=1e3 * float(free)
    )
    found = solve_planes(list(A[1:]), o, C, omega, 12)
    assert found is not None
    w, beta = found
    assert (w[signed] >= floors).all()
    assert (beta >= 0.0).all()
    assert beta.sum() == pytest.approx(1.0, rel=1e-12)
    penalty = np.ones(12)
    penalty[0] = 0.0 if free else 1.0
    F = 0.5 * (penalty * w) @ w + C * (o + A @ w).max()
    u = -C * A.T @ beta
    point = u.copy()
    point[signed] = np.maximum(point[signed], floors)
    if free:
        assert abs(u[0]) <= 1e-9 * C * np.abs(A[:, 0]).max()
        point[0] = u[0] = 0.0
    dual = C * float(o @ beta) - (u @ point - 0.5 * point @ point)
    assert dual == pytest.approx(F, rel=1e-8)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e6])
def test_box(balanced: bool, C: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 6)) * 10.0 ** rng.uniform(-2, 2, size=6)
    y, K = np.where(rng.random(50) < 0.5, 1.0, -1.0), X @ X.T
    c = C * rng.uniform(0.1, 1.0, size=50)
    lo, hi = np.minimum(0.0, y) * c, np.maximum(0.0, y) * c
    beta = solve_box(K, y, lo, hi, balanced)
    assert beta is not None
    assert (beta >= lo).all()
    assert (beta <= hi).all()
    f = K @ beta
    intercepts = y - f if balanced else [0.0]
    F = min(0.5 * beta @ f + c @ np.maximum(0.0, 1.0 - y * (f + b)) for b in intercepts)
    if balanced:
        assert abs(beta.sum()) <= 1e-9 * c.sum()
    assert float(beta @ y - 0.5 * beta @ f) == pytest.approx(F, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_bundle_goes_on_where_the_gram_matrix_has_no_digits_left(seed: int) -> None:
    A, o = badly_scaled(seed, 40, 15)
    C = 1e6

    def solved(precise: bool) -> tuple[float, float]:
        bundle = Bundle(15, regularizer=SquaredNorm())
        for plane, offset in zip(A[1:], o[1:], strict=True):
            bundle.add([Cut(float(offset), plane)])
        solution = bundle.solve(C, precise=precise)
        value = 0.5 * solution.w @ solution.w + C * max(0.0, (o + A @ solution.w).max())
        return value, solution.lower_bound

    upper, lower = solved(precise=True)
    assert lower <= upper * (1.0 + 1e-12)
    assert lower == pytest.approx(upper, rel=1e-6)
    assert solved(precise=False)[1] <= upper * (1.0 + 1e-12)


def test_multipliers_far_below_C_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    A, o = 1e4 * rng.normal(size=(8, 20)), rng.uniform(1, 5, size=8)
    bounds = []
    for C in (1e-6, 1.0, 1e10):  # the multipliers, about 1e-8, reach none of them
        bundle = Bundle(20, regularizer=SquaredNorm())
        for plane, offset in zip(A, o, strict=True):
            bundle.add([Cut(float(offset), plane)])
        bounds.append(bundle.solve(C, precise=True).lower_bound)
    assert bounds[0] > 0.0
    assert bounds == pytest.approx([bounds[0]] * 3, rel=1e-9)


def test_bundle_too_big_for_it_is_solved_as_before() -> None:
    rng = np.random.default_rng(0)
    plane = rng.normal(size=1000)
    values = []
    for precise in (False, True):
        bundle = Bundle(1000)
        bundle.add([Cut(1.0, plane)])
        values.append(bundle.solve(1.0, precise=precise).lower_bound)
    assert values[0] == values[1]
