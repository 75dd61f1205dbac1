"""The referee of kernel problems: its bounds are near, and those of another program lie between them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.testing import kernel_objective, solve_binary_qp, solve_kernel_qp


@given(
    seed=st.integers(0, 10_000), log_c=st.floats(-3, 3), free=st.booleans(), weighted=st.booleans()
)
def test_agrees_with_the_linear_program(seed, log_c, free, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 30))
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weight = rng.random(n) + 0.01 if weighted else None
    C = 10.0**log_c
    found = solve_kernel_qp(X @ X.T, y, C, weight, free)
    best, _ = solve_binary_qp(X, y, C, weight, free, penalize_intercept=False)
    assert found.lower <= best * (1 + 1e-8)
    assert best <= found.upper * (1 + 1e-8)
    assert found.upper - found.lower <= 1e-9 * found.upper
    F = kernel_objective(X @ X.T, y, C, found.coef, found.intercept, weight)
    assert pytest.approx(found.upper, rel=1e-9) == F


def test_rows_of_weight_zero_and_a_single_class():
    found = solve_kernel_qp(np.eye(3), [1, 1, -1], 2.0, [1.0, 0.0, 1.0])
    assert found.coef[1] == 0.0
    assert found.lower == pytest.approx(1.0)
    alone = solve_kernel_qp(np.eye(2), [1, 1], 2.0)
    assert (alone.lower, alone.upper) == (0.0, 0.0)  # the intercept does it
