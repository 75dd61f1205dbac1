"""Sampled cuts: what is told is true, draws are what they should be, and the plain form is the papers'."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel
from tests.ctrl_c import interrupted
from tests.kernels.boards import GAMMA, checkerboard, fit, objective

from maxmargin import KernelSVC, minimize
from maxmargin.core.sampling import Draw, Terms, sample, violated_sample
from maxmargin.kernels import RBF, KernelRows
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.risks.kernels import planes as kernel_span
from maxmargin.risks.kernels.columns import STALE, HeldColumns
from maxmargin.risks.kernels.pool import GrowingKernelRisk
from maxmargin.risks.kernels.sampled import SampledKernelRisk
from maxmargin.solvers import (
    AbsoluteGap,
    CuttingPlane,
    SampledCuts,
)

# -- what is told ----------------------------------------------------------------------------------


@pytest.mark.parametrize("constant_time", [False, True])
@pytest.mark.parametrize("n", [300, 5000])
def test_the_objective_is_that_of_the_function_and_there_is_no_lower_bound(n, constant_time):
    X, y = checkerboard(n)
    svc = fit(X, y, SampledCuts(size=200, constant_time=constant_time), tol=1e-2)
    # not below F, whatever rounding does, and above it by no more than that
    assert 0.0 <= svc.objective_ / objective(svc, X, y) - 1.0 <= 1e-8
    assert svc.certificate_ == "measured"
    assert svc.stop_reason_ == "sampled"
    assert svc.lower_bound_ == -np.inf
    assert svc.gap_ == np.inf
    assert not svc.converged_
    assert all(r["lower_bound"] == -np.inf and r["gap"] == np.inf for r in svc.history_)
    assert svc.score(X, y) > 0.85


def test_constant_time_without_a_measurement_has_no_objective():
    X, y = checkerboard(400)
    svc = fit(X, y, SampledCuts(size=100, constant_time=True, measure=False), max_iter=5)
    assert np.isnan(svc.objective_)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_sample_of_all_rows_is_exact_cuts(intercept):
    X, y = checkerboard(150)
    svc = fit(X, y, SampledCuts(size=150), tol=1e-4, fit_intercept=intercept)
    exact = fit(X, y, "map", tol=1e-7, fit_intercept=intercept)
    optimum = exact.objective_
    assert optimum * (1.0 - 1e-9) <= svc.objective_ <= optimum + 1.1e-4 * 150
    assert svc.reduced_value_ <= optimum * (1.0 + 1e-9)


def test_several_classes_jointly():
    X, y = checkerboard(200, n_classes=3)
    options = {"multi_class": "crammer_singer"}
    svc = fit(X, y, SampledCuts(size=100), **options)
    whole = fit(X, y, SampledCuts(size=200), tol=1e-4, **options)
    exact = fit(X, y, "map", tol=1e-6, **options)
    assert exact.objective_ <= whole.objective_ <= exact.objective_ + 1.1e-4 * 200
    assert exact.objective_ <= svc.objective_ <= 1.05 * exact.objective_
    assert svc.certificate_ == "measured"


def test_weights_are_factors_of_c():
    X, y = checkerboard(120)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    svc = KernelSVC(gamma=GAMMA, method=SampledCuts(size=400), tol=1e-4)
    svc.fit(X, y, sample_weight=weight)
    assert svc.objective_ == pytest.approx(objective(svc, X, y, weight), rel=1e-10)
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    again = fit(X[rows], y[rows], "map", tol=1e-6)
    assert again.lower_bound_ <= svc.objective_ <= again.objective_ + 1.1e-4 * weight.sum()
    assert not np.isin(svc.support_, np.flatnonzero(weight == 0.0)).any()


# -- samples ---------------------------------------------------------------------------------------


def test_samples_expect_every_example_once():
    rng = np.random.default_rng(0)
    there = rng.uniform(size=50) < 0.6
    terms = Terms(0.0, np.ones(50), there)
    total = np.zeros(50)
    for _ in range(4000):
        draw = sample(terms, 12, rng)
        assert len(set(draw.examples)) == 12
        np.add.at(total, draw.examples, draw.factors)
    assert np.all(total[~there] == 0.0)
    assert_allclose(total[there] / 4000, 1.0, atol=0.15)
    whole = sample(terms, 50, rng)
    assert np.array_equal(whole.examples, np.flatnonzero(there))
    assert np.all(whole.factors == 1.0)


def test_a_sample_violates_what_the_exact_cut_violates():
    rng = np.random.default_rng(0)
    terms = Terms(-1.0, rng.normal(size=200) + 0.1, np.ones(200, dtype=bool))
    above = terms.value - 1e-3
    for _ in range(50):
        draw = violated_sample(terms, 20, above, rng)
        assert terms.fixed + draw.factors @ terms.pulls[draw.examples] > above
    one = Terms(-1.0, np.where(np.arange(10**4) == 3, 10.0, 0.0), np.ones(10**4, dtype=bool))
    with pytest.raises(ValueError, match="none of 200 cuts of 2 examples"):
        violated_sample(one, 2, 0.0, rng)


@pytest.mark.parametrize(
    "options",
    [
        {"size": 0},
        {"size": 2.5},
        {"size": "a"},
        {"size": np.nan},
        {"idle": None},
        {"patience": 0},
        {"mu": 0.0},
    ],
)
def test_settings_are_checked(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}=.*: it must be"):
        SampledCuts(**options)


def test_a_size_may_be_a_float_that_is_whole():
    X, y = checkerboard(200)
    assert fit(X, y, SampledCuts(size=50.0)).objective_ == fit(X, y, SampledCuts(50)).objective_


# -- the same numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("constant_time", [False, True])
def test_reproducible_to_the_bit_whoever_computes(constant_time):
    X, y = checkerboard(6000)
    method = SampledCuts(size=50, constant_time=constant_time)
    options = {"method": method, "max_iter": 12}
    first = fit(X, y, **options)
    for jobs in (1, 2, 7):
        other = fit(X, y, n_jobs=jobs, **options)
        assert np.array_equal(first.dual_coef_, other.dual_coef_)
        assert first.objective_ == other.objective_
    assert fit(X, y, random_state=1, **options).objective_ != first.objective_


def test_a_limit_returns_the_best_point():
    X, y = checkerboard(500)
    svc = fit(X, y, SampledCuts(size=60), max_iter=4)
    assert svc.stop_reason_ == "max_iter"
    assert svc.n_iter_ == 4
    assert svc.objective_ == pytest.approx(objective(svc, X, y), rel=1e-10)
    assert svc.objective_ <= min(r["objective"] for r in svc.history_) * (1.0 + 1e-9)
    stopped = fit(X, y, SampledCuts(size=60), callbacks=[lambda record: record.iteration == 3])
    assert (stopped.stop_reason_, stopped.n_iter_) == ("callback", 3)


# -- the papers' form, and ours --------------------------------------------------------------------


def test_the_plain_form_with_all_rows_takes_the_steps_of_plain_cutting_planes():
    X, y = checkerboard(120)
    plain = SampledCuts(size=120, line_search=False)
    svc = fit(X, y, plain, tol=1e-2, fit_intercept=False)
    K = rbf_kernel(X, gamma=GAMMA)
    values, vectors = np.linalg.eigh(K)
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    sign = np.where(y == 1, 1.0, -1.0)
    steps = minimize(
        ScoreRisk(features, sign, Hinge()),
        1.0,
        solver=CuttingPlane(line_search=False, idle=20),
        stopping=AbsoluteGap(1e-2 * 120),
    )
    assert svc.n_iter_ == steps.n_iter
    reported = [r["objective"] for r in svc.history_]
    np.testing.assert_allclose(reported, [r.objective for r in steps.history], rtol=1e-6)


def test_the_line_search_needs_fewer_iterations():
    X, y = checkerboard(3000)
    plain = fit(X, y, SampledCuts(line_search=False))
    search = fit(X, y)
    assert search.n_iter_ < 0.8 * plain.n_iter_


def test_constant_time_does_not_depend_on_the_rows():
    method = SampledCuts(size=100, constant_time=True, measure=False)
    few, many = (fit(*checkerboard(n), method, max_iter=10) for n in (5_000, 50_000))
    assert many.kernel_values_ <= 1.2 * few.kernel_values_
    linear = SampledCuts(size=100)
    few, many = (fit(*checkerboard(n), linear, max_iter=5) for n in (5_000, 20_000))
    assert 3.0 < many.kernel_values_ / few.kernel_values_ < 5.0


@pytest.mark.parametrize("loss", [Hinge(), CrammerSinger(1.0 - np.eye(3))])
def test_in_constant_time_only_rows_of_the_last_samples_are_held(loss):
    n, size, held = 300, 20, 3
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    k = loss.n_outputs() or 1
    y = rng.integers(3, size=n) if k > 1 else rng.choice([-1.0, 1.0], n)
    K = rbf_kernel(X, gamma=GAMMA)
    risk = GrowingKernelRisk(KernelRows(RBF(GAMMA), X, np.float64), y, loss, 1.0)
    for seed in range(12):
        here = risk.extend(size, seed, held)
        assert size <= len(risk._known) <= held * size
        assert len(set(risk._known)) == len(risk._known)
        w = rng.normal(size=risk.dim) * np.isin(np.arange(risk.dim), list(risk._planes))
        ids, coef, _ = risk.expansion(w)
        at = risk.evaluate(w)
        scores = K[np.ix_(risk._known, ids)] @ coef
        assert_allclose(risk.scores(at).reshape(-1, k), scores, atol=1e-9)
        risk.sampled_cut(at, Draw(here, np.ones(size)), False)
        used = sorted(risk._planes)
        planes = np.zeros((len(used), n, k))
        for row, (own, factors) in zip(planes, (risk._planes[j] for j in used), strict=True):
            row[own] = factors
        gram = np.einsum("pik,ij,qjk->pq", planes, K, planes)
        assert_allclose(risk._gram[np.ix_(used, used)], gram, atol=1e-9 * n**2)


def test_the_papers_form_of_constant_time_holds_one_sample():
    X, y = checkerboard(3000)
    method = SampledCuts(size=100, constant_time=True, line_search=False, measure=False)
    svc = fit(X, y, method, max_iter=60)
    assert svc.score(X, y) > 0.8
    search = fit(X, y, replace(method, line_search=True), max_iter=60)
    assert svc.kernel_values_ < search.kernel_values_


def test_cached_columns_are_replaced_once_they_are_stale():
    held = HeldColumns(4)
    columns, _, keep = held.places(np.array([1, 2, 3]))
    held.keep(np.array([1, 2, 3]), columns)
    assert keep == 3
    columns, cached, keep = held.places(np.array([2, 5, 6]))  # one place is free
    assert keep == 1
    assert cached.tolist() == [True, False, False]
    held.keep(np.array([5]), columns[1:])
    for _ in range(STALE - 2):
        assert held.places(np.array([7]))[2] == 0
    _, cached, keep = held.places(np.array([1, 8]))  # 1 and 3 were not used for long; 1 is used now
    assert cached.tolist() == [True, False]
    assert keep == 1


# -- planes ----------------------------------------------------------------------------------------


class Watch:
    """A risk's planes against sums over all rows, in one matrix."""

    def __init__(self, loss, y, memory=2**20, seed=0, n=60):
        rng = np.random.default_rng(seed)
        self.X, self.y, self.loss = rng.normal(size=(n, 2)), y(rng, n), loss
        self.weight = rng.integers(0, 3, n) / 2.0 + (np.arange(n) == 0)
        self.K = rbf_kernel(self.X, gamma=GAMMA)
        rows = KernelRows(RBF(GAMMA), self.X, np.float64)
        self.risk = SampledKernelRisk(rows, self.y, loss, 1.0, weight=self.weight, memory=memory)

    def function(self, w):
        rows, coef, intercept = self.risk.expansion(w)
        scores = self.K[:, rows] @ coef + intercept
        square = np.vdot(coef, self.K[np.ix_(rows, rows)] @ coef)
        return (scores[:, 0] if self.loss.n_outputs() is None else scores), square

    def check(self, w):
        at = self.risk.evaluate(w)
        scores, square = self.function(w)
        np.testing.assert_allclose(self.risk.scores(at), scores, rtol=1e-9, atol=1e-9)
        assert 2.0 * self.risk.regularizer.value(w) == pytest.approx(square, rel=1e-9, abs=1e-12)
        assert at.value == pytest.approx(self.loss.value(scores, self.y, self.weight))
        return at


def binary(rng, n):
    return rng.choice([-1.0, 1.0], n)


def three(rng, n):
    return rng.integers(0, 3, n)


LOSSES = [(Hinge(), binary), (CrammerSinger(1.0 - np.eye(3)), three)]


@given(st.integers(0, 10**6), st.sampled_from([0, 1]), st.sampled_from([7, 30, 60]))
@settings(max_examples=60, deadline=None)
def test_points_planes_and_terms_are_what_they_stand_for(seed, which, size):
    loss, labels = LOSSES[which]
    watch = Watch(loss, labels, seed=seed)
    risk, rng = watch.risk, np.random.default_rng(seed)
    planes, w = [], np.zeros(risk.dim)
    for _ in range(6):
        at, trial = watch.check(w), watch.check(w * rng.uniform())
        terms = at.terms(trial)
        scores, there = (watch.function(e.w)[0] for e in (at, trial))
        offset, gradient = loss.cut(scores, watch.y, watch.weight)
        exact = offset + np.vdot(gradient, there)
        assert terms.value == pytest.approx(exact, abs=1e-9)
        draw = sample(terms, size, rng)
        cut = at.sampled_cut(draw, whole=True)
        # the drawn cut at the trial is what the solver thinks it is
        drawn = terms.fixed + draw.factors @ terms.pulls[draw.examples]
        norm = risk.regularizer
        value = (
            cut.offset
            + norm.inner(cut.plane.to_dense(), trial.w)
            + cut.plane.values[1:] @ trial.w[norm.free]
        )
        assert value == pytest.approx(drawn, abs=1e-9)
        if size == 60:  # all rows: the exact plane
            rows, coef = risk._planes[int(cut.plane.indices[0])]
            found = np.zeros((60, risk.n_columns))
            found[rows] = coef
            np.testing.assert_allclose(found, gradient.reshape(60, -1), atol=1e-12)
        planes.append(cut.plane.to_dense())
        w = rng.normal(size=len(planes)) @ np.array(planes)
        w[norm.free] = rng.normal(size=len(norm.free))


def test_slots_are_given_to_new_planes(monkeypatch):
    X, y = checkerboard(400)
    method = SampledCuts(size=60)
    roomy = fit(X, y, method, max_iter=60)
    monkeypatch.setattr(kernel_span, "MIN_SLOTS", 24)
    monkeypatch.setattr(kernel_span, "MAX_SLOTS", 24)
    narrow = fit(X, y, method, max_iter=60)
    assert narrow.stop_reason_ == roomy.stop_reason_ == "sampled"
    assert narrow.objective_ == pytest.approx(objective(narrow, X, y), rel=1e-10)
    reported = min(r["objective"] for r in narrow.history_)
    assert narrow.objective_ == pytest.approx(reported, rel=1e-9)
    assert narrow.objective_ < 1.1 * roomy.objective_


def test_columns_that_are_held_are_not_computed_again(monkeypatch):
    X, y = checkerboard(600)
    method = SampledCuts(size=300)
    held = fit(X, y, method, max_iter=15)
    for memory in (600 * 8 * 2 * 50, 1):  # fifty columns; none
        poor = fit(X, y, method, max_iter=15, memory=memory)
        assert poor.kernel_values_ > 2 * held.kernel_values_
        assert poor.objective_ == pytest.approx(held.objective_, rel=1e-6)


def test_ctrl_c_leaves_the_best_point():
    X, y = checkerboard(500)

    def stop(record):
        if record.iteration == 5:
            raise KeyboardInterrupt

    for constant_time in (False, True):
        method = SampledCuts(size=60, constant_time=constant_time)
        svc = interrupted(fit, X, y, method, callbacks=[stop]).estimator
        assert svc.stop_reason_ == "interrupted"
        assert svc.certificate_ == "measured"
        assert svc.objective_ == pytest.approx(objective(svc, X, y), rel=1e-10)
        assert svc.objective_ < 500.0
