"""Smooth losses on dense rows: bounds from the gradient, the type of the rows, the same bits after a stop."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

from maxmargin import LinearSVC
from maxmargin.core import SquaredNorm
from maxmargin.core.rounding import UpperBound
from maxmargin.duals.quasi_newton import QuasiNewton
from maxmargin.losses import Logistic, Multinomial, OneVsRestSquaredHinge, ScoreLoss, SquaredHinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Newton
from maxmargin.testing import check_loss

LOSSES: dict[str, ScoreLoss] = {
    "logistic": Logistic(),
    "multinomial": Multinomial(4),
    "one-vs-rest": OneVsRestSquaredHinge(4),
    "weighted classes": OneVsRestSquaredHinge(4, factors=np.array([2.0, 0.5, 1.0, 0.0])),
    "squared hinge": SquaredHinge(),
}
TOGETHER = {"logistic": "multinomial", "squared_hinge": "ovr"}


def problem(name: str, seed: int = 0, *, dtype: Any = np.float64, n: int = 150) -> Any:
    """A risk over two ranges of weighted rows, with offsets and an intercept."""
    rng, loss = np.random.default_rng(seed), LOSSES[name]
    X = (rng.normal(size=(n, 7)) * np.geomspace(0.1, 10.0, 7)).astype(dtype)
    K = loss.n_outputs()
    y = rng.integers(0, K, n) if K else np.where(rng.random(n) < 0.4, 1.0, -1.0)
    weight = rng.random(n) * (rng.random(n) < 0.8)
    offset = rng.normal(size=n if K is None else (n, K))
    return ScoreRisk(
        X, y, loss, sample_weight=weight, intercept=2.0, ranges=[(0, 60), (80, n)], offset=offset
    )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("free", [False, True])
def test_bounds_hold_at_every_step_and_meet(name: str, dtype: Any, free: bool) -> None:
    risk, C = problem(name, dtype=dtype), 0.5
    K = risk.rows.n_columns
    norm = SquaredNorm(np.arange(7 * K, 8 * K), 50.0) if free else SquaredNorm()
    duals = risk.row_duals("quasi-newton", C, norm)
    F = lambda w: norm.value(w) + C * risk.evaluate(w).upper  # noqa: E731
    lowers, uppers = [0.0], [F(np.zeros(risk.dim))]
    for _ in range(400):
        stats = duals.improve(0)
        assert isinstance(duals, QuasiNewton)
        lowers.append(duals.proved_value(C, UpperBound(np.inf)))
        uppers.append(F(duals.w))
        assert max(lowers) <= min(uppers)  # all of them: each is a bound of the same optimum
        if uppers[-1] - lowers[-1] < 1e-9 * uppers[-1] or not np.isfinite(stats.gap_estimate):
            break
    assert uppers[-1] - lowers[-1] < 1e-6 * uppers[-1]


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_weight": "balanced"},
        {"fixed": {0: 0.5}},
        {"fit_intercept": False},
        {"penalize_intercept": False},
    ],
)
def test_the_optimum_of_newtons_method(loss: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 6))
    y = (X @ rng.normal(size=(6, 4)) + rng.normal(size=(200, 4))).argmax(axis=1)
    options = {"loss": loss, "multi_class": TOGETHER[loss], "tol": 1e-8, **options}
    own = LinearSVC(C=3.0, **options).fit(X, y)
    other = LinearSVC(C=3.0, solver=Newton(), **options).fit(X, y)
    assert own.converged_
    assert own.lower_bound_ <= other.objective_ * (1 + 1e-12)
    assert other.lower_bound_ <= own.objective_ * (1 + 1e-12)
    np.testing.assert_allclose(own.coef_, other.coef_, atol=1e-3)
    if loss == "logistic" and "penalize_intercept" in options:  # a common part changes nothing
        own.intercept_ -= own.intercept_.mean()
        other.intercept_ -= other.intercept_.mean()
    np.testing.assert_allclose(own.intercept_, other.intercept_, atol=1e-3)


def test_float32_reaches_tolerances_beyond_its_own_precision() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(500, 20)).astype(np.float32), rng.integers(0, 3, 500)
    for loss in ("logistic", "squared_hinge"):
        svc = LinearSVC(C=1.0, loss=loss, multi_class=TOGETHER[loss], tol=1e-10).fit(X, y)
        assert svc.converged_
        assert svc.history_[-1]["method"] == "quasi-newton"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_free_intercepts_cost_few_steps(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    n, d, K = 6000, 60, 20
    y = rng.integers(0, K, n)
    X = 0.5 * rng.normal(size=(K, d))[y] + rng.normal(size=(n, d)) / np.sqrt(np.arange(1, d + 1))
    X = (X + rng.normal(size=d)).astype(dtype)
    make = partial(LinearSVC, loss="logistic", multi_class="multinomial", C=0.1)
    free = make(penalize_intercept=False).fit(X, y)
    assert free.converged_
    assert free.history_[-1]["method"] == "quasi-newton"
    assert free.n_iter_ <= 1.5 * make().fit(X, y).n_iter_
    near = make(penalize_intercept=False, tol=1e-7).fit(X, y)
    assert near.converged_
    assert near.n_iter_ <= 3 * free.n_iter_
    assert free.lower_bound_ <= near.objective_
    assert near.lower_bound_ <= free.objective_
    assert abs(free.intercept_.mean()) <= 1e-14 * abs(free.intercept_).max()


def test_rows_are_not_copied_and_scores_not_kept() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40_000, 40)).astype(np.float32), rng.integers(0, 10, 40_000)
    risk = ScoreRisk(X, y, Multinomial(10))
    duals = risk.row_duals("quasi-newton", 0.01, SquaredNorm())
    tracemalloc.start()
    try:
        for _ in range(3):
            duals.improve(0)
        duals.dual_value(0.01)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (
        peak < X.nbytes
    )  # 6.4 MB; the scores alone would take half of it, and twice that in float64


@pytest.mark.parametrize("name", LOSSES)
def test_a_stored_state_continues_with_the_same_bits(name: str) -> None:
    risk = problem(name)
    whole, part = (risk.row_duals("quasi-newton", 2.0, SquaredNorm()) for _ in range(2))
    for _ in range(8):
        whole.improve(0)
    for _ in range(4):
        part.improve(0)
    state, again = part.state(), risk.row_duals("quasi-newton", 2.0, SquaredNorm())
    again.restore(state)
    for _ in range(4):
        again.improve(0)
    np.testing.assert_array_equal(again.w, whole.w)


@pytest.mark.parametrize("seed", range(10))
def test_values_and_slopes_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 7))
    labels = rng.integers(0, K, int(rng.integers(1, 30)))
    factors = None if seed % 2 else rng.choice([0.0, 0.5, 1.0, 3.0], K)
    loss = OneVsRestSquaredHinge(K, rng.choice([1.0, 0.3]), factors)
    check_loss(loss, labels, random_state=seed)


@pytest.mark.parametrize("name", ["multinomial", "weighted classes", "squared hinge"])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("n", [150, 4000])
def test_exact_steps_find_the_optimum_of_quasi_newton_steps(name: str, C: float, n: int) -> None:
    risk = problem(name, 1, n=n)
    found = []
    for exact in (True, False):
        duals = QuasiNewton(risk.rows, C, SquaredNorm())
        if name != "multinomial" or n == 150:
            assert duals._exact is not None
        if not exact:
            duals._exact = None
            duals.start_at(np.zeros(risk.dim), 1.0)
        for step in range(1, 3000):  # noqa: B007
            gap = duals.improve(0).gap_estimate
            if gap <= 1e-3 * (duals.dual_estimate(C) + gap):
                break
        if duals._exact is not None:
            assert step == 1  # one call is enough for the usual tolerance
        found.append(
            (
                duals.proved_value(C, UpperBound(np.inf)),
                0.5 * duals.w @ duals.w + C * risk.evaluate(duals.w).upper,
            )
        )
    (lower, upper), (other_lower, other_upper) = found
    assert max(lower, other_lower) <= min(upper, other_upper)
    assert upper - lower <= 1.01e-3 * upper


@pytest.mark.parametrize("class_weight", [{0: 3.0, 2: 0.2}, "balanced"])
def test_weighted_classes_are_one_problem_with_the_sum_of_its_objectives(class_weight: Any) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 6))
    y = (X @ rng.normal(size=(6, 3)) + rng.normal(size=(200, 3))).argmax(axis=1)
    weight = rng.random(200)
    svc = LinearSVC(C=2.0, class_weight=class_weight, tol=1e-9)
    whole = svc.fit(X, y, sample_weight=weight)
    assert {record["method"] for record in whole.history_} == {"quasi-newton"}
    factor = np.bincount(y, minlength=3)
    factor = 200 / (3 * factor) if class_weight == "balanced" else np.array([3.0, 1.0, 0.2])
    F = 0.0
    for k in range(3):
        sign = np.where(y == k, 1.0, -1.0)
        c = 2.0 * weight * np.where(y == k, factor[k], 1.0)
        short = np.maximum(0.0, 1.0 - sign * (X @ whole.coef_[k] + whole.intercept_[k]))
        F += 0.5 * (whole.coef_[k] @ whole.coef_[k] + whole.intercept_[k] ** 2) + c @ short**2
    assert whole.objective_ == pytest.approx(F, rel=1e-12)
    apart = LinearSVC(C=2.0, class_weight=class_weight, tol=1e-9, solver=Newton())
    assert apart.fit(X, y, sample_weight=weight).objective_ == pytest.approx(F, rel=1e-8)


@pytest.mark.parametrize("name", ["multinomial", "one-vs-rest"])
@pytest.mark.parametrize("exact", [False, True])
def test_a_path_continues_on_the_line_through_its_last_solutions(name: str, exact: bool) -> None:
    risk, steps, begun = problem(name), {}, QuasiNewton(problem(name).rows, 0.1, SquaredNorm())
    for C in (0.1, 0.2, 0.4, 0.8, 1.6):
        for path in (True, False):
            duals = begun if path else QuasiNewton(risk.rows, C, SquaredNorm())
            if not exact:
                duals._exact = None
            if path and C > 0.1:
                duals.rescale(C, SquaredNorm())
            else:
                duals.start_at(np.zeros(risk.dim), 1.0)
            duals._at_once = 1
            for step in range(1, 500):  # noqa: B007
                gap = duals.improve(0).gap_estimate
                if gap <= 1e-6 * (duals.dual_estimate(C) + gap):
                    break
            F = 0.5 * duals.w @ duals.w + C * risk.evaluate(duals.w).upper
            lower = duals.proved_value(C, UpperBound(F))
            assert lower <= F <= (1 + 2e-6) * lower
            steps[path] = steps.get(path, 0) + step
    assert exact or steps[True] < 0.8 * steps[False]
