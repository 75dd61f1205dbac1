"""Cutting planes store only two scores per row, and reusing their memory does not change any number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxmargin import minimize
from maxmargin.core.engine import SerialEngine
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, RelativeGap


def problem(loss: Any, n: int = 400, d: int = 6) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d))
    if loss.n_outputs():
        return X, rng.integers(0, loss.n_outputs(), n)
    return X, np.where(X[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("loss", [Hinge(), CrammerSinger(1.0 - np.eye(3))])
def test_never_more_than_two_scores_a_row(loss: Any) -> None:
    held: list[int] = []

    class Watched(SerialEngine):
        def _call(self, index: int, method: str, args: Any) -> Any:
            answer = super()._call(index, method, args)
            held.append(len(self._shards[index]._scores))
            return answer

    X, y = problem(loss)
    risk = ScoreRisk(X, y, loss, engine=Watched())
    result = minimize(risk, C=1e3, solver=CuttingPlane(), stopping=RelativeGap(1e-8))
    assert result.converged
    assert result.n_iter > 20
    assert max(held) == 2


@pytest.mark.parametrize("loss", [Hinge(), CrammerSinger(1.0 - np.eye(3))])
def test_points_on_lines_have_the_scores_of_their_weights(loss: Any) -> None:
    X, y = problem(loss)
    risk = ScoreRisk(X, y, loss)
    rng = np.random.default_rng(4)
    a, b = (risk.evaluate(rng.standard_normal(risk.dim)) for _ in range(2))
    ends = a.w, b.w
    middle = a.toward(b, 0.25)
    further = middle.toward(b, 0.5)
    assert np.allclose(further.w, ends[0] + 0.625 * (ends[1] - ends[0]))
    kept = a.value
    # settles both points; a and b are still needed
    c = risk.evaluate(rng.standard_normal(risk.dim))
    for at in (middle, further, a, b):
        assert at.value == pytest.approx(risk.evaluate(at.w).value, rel=1e-12)
        again = at.cut()
        assert again.offset + again.plane @ at.w == pytest.approx(at.value, rel=1e-10)
    assert a.value == kept
    del a, b
    last = middle.toward(c, 0.5)
    del middle  # now only the line refers to it, so its scores are replaced
    new = risk.evaluate(np.zeros(risk.dim))
    assert last.value == pytest.approx(risk.evaluate(last.w).value, rel=1e-12)
    assert last.slopes(new, np.array([0.0, 1.0])).shape == (2,)
