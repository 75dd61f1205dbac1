"""Generalised distance transforms against brute force."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.compiled.distance_transform import transform


def run(f, quadratic, linear, shift, shape):
    out, at = np.empty(shape), np.empty((*shape, 2), dtype=np.int64)
    transform(
        f, np.array(quadratic, float), np.array(linear, float), np.array(shift, np.int64), out, at
    )
    return out, at


def brute(f, quadratic, linear, shift, shape):
    """All values: (places of the parent) x (places of the part)."""
    v, u = np.mgrid[: f.shape[0], : f.shape[1]]
    y, x = np.mgrid[: shape[0], : shape[1]]
    dy = v - y[..., None, None] - shift[0]
    dx = u - x[..., None, None] - shift[1]
    value = f - quadratic[0] * dy**2 + linear[0] * dy
    return value - quadratic[1] * dx**2 + linear[1] * dx


@settings(max_examples=300)
@given(st.integers(0, 10**9))
def test_every_place_gets_its_best_part(seed):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=rng.integers(1, 8, size=2)) * rng.choice([0.0, 1.0, 100.0])
    if rng.random() < 0.3:
        f = np.round(f)  # ties
    shape = tuple(rng.integers(1, 8, size=2))
    quadratic = rng.uniform(0.0, 2.0, size=2) * rng.choice([0.0, 1e-12, 1e-3, 1.0], size=2)
    if rng.random() < 0.1:
        quadratic = -quadratic
    linear = rng.normal(size=2) * rng.choice([0.0, 1.0])
    shift = rng.integers(-5, 6, size=2)
    out, at = run(f, quadratic, linear, shift, shape)
    value = brute(f, quadratic, linear, shift, shape)
    np.testing.assert_allclose(out, value.max(axis=(2, 3)), rtol=1e-9, atol=1e-9)
    y, x = np.mgrid[: shape[0], : shape[1]]
    np.testing.assert_allclose(value[y, x, at[..., 0], at[..., 1]], out, rtol=1e-9, atol=1e-9)


def test_a_stiff_spring_stays_and_a_loose_one_leaves():
    f = np.zeros((5, 5))
    f[4, 4] = 1.0
    _, at = run(f, (10.0, 10.0), (0.0, 0.0), (0, 0), (5, 5))
    assert at[0, 0].tolist() == [0, 0]
    out, at = run(f, (0.0, 0.0), (0.0, 0.0), (0, 0), (5, 5))
    assert (out == 1.0).all()
    assert (at == 4).all()
