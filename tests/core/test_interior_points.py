"""The interior-point method for small kernel machines: primal and dual value meet."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.core.box_qp import solve_box


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
