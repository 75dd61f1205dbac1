"""Who draws the examples of a cut, what is checked, and what the probabilistic bound may say."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernels.boards import GAMMA, checkerboard, fit

from maxmargin import KernelSVC
from maxmargin.core.sampling import Draw, SamplingRecord, Terms, check_cut, excess_bound, spread_of
from maxmargin.kernels import RBF, KernelRows
from maxmargin.losses import Hinge
from maxmargin.risks.kernels.pool import GrowingKernelRisk
from maxmargin.solvers import (
    ByMargin,
    NonZeroLoss,
    SampledCuts,
    UniformSample,
)

# -- draws -----------------------------------------------------------------------------------------


def terms_of(sizes, pulls=None, losses=None, **options):
    sizes = np.asarray(sizes, dtype=float)
    one = np.ones(len(sizes))
    named = {"fixed": 0.0, "offset": 0.0, "ceiling": 10.0, "radius": 10.0, **options}
    return Terms(
        pulls=one if pulls is None else np.asarray(pulls),
        sizes=sizes,
        losses=one if losses is None else np.asarray(losses),
        **named,
    )


@pytest.mark.parametrize(
    "sampler", [NonZeroLoss(), UniformSample(), ByMargin(), ByMargin(free_share=0.9, width=1.5)]
)
def test_samplers_expect_every_example_once(sampler):
    rng = np.random.default_rng(0)
    sizes = np.where(rng.uniform(size=50) < 0.6, 1.0, 0.0)
    terms = terms_of(sizes, losses=rng.exponential(size=50))
    total = np.zeros(50)
    for _ in range(4000):
        draw = sampler.draw(terms, 12, rng)
        assert len(draw.examples) <= 12
        np.add.at(total, draw.examples, draw.factors)
    assert np.all(total[sizes == 0.0] == 0.0)
    np.testing.assert_allclose(total[sizes > 0.0] / 4000, 1.0, atol=0.15)
    whole = sampler.draw(terms, 50, rng)
    assert np.array_equal(np.sort(whole.examples), np.flatnonzero(sizes))
    assert np.all(whole.factors == 1.0)


class Wrong:
    """A sampler that does something that it should not."""

    def __init__(self, how):
        self.how = how

    def draw(self, terms, size, rng):
        draw = NonZeroLoss().draw(terms, size, rng)
        return self.how(draw)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda d: Draw(d.examples, d.factors * 1e4), r"condition \(ii\) fails"),
        (lambda d: Draw(d.examples, d.factors * 3.0), r"condition \(iii\) fails"),
        (lambda d: Draw(d.examples + 10**6, d.factors), "outside 0 .. 199"),
        (lambda d: Draw(d.examples, -d.factors), "nonnegative"),
        (lambda d: Draw(d.examples, d.factors[:-1]), "one factor for each"),
        (lambda d: Draw(d.examples * 1.0, d.factors), "integer indices"),
        (lambda d: Draw(d.examples, d.factors, np.nan), "spread is nan"),
        (lambda d: Draw(d.examples[:0], d.factors[:0]), "drew nothing, 200 times"),
        (lambda d: Draw(d.examples, d.factors * 0.0), "drew nothing, 200 times"),
        (lambda d: None, r"must return maxmargin\.core\.Draw"),
        (
            lambda d: (d.examples, d.factors),
            r"returned tuple: it must return maxmargin\.core\.Draw",
        ),
        (lambda d: Draw(d.examples.tolist(), d.factors.tolist()), "NumPy arrays"),
    ],
)
def test_draws_of_a_users_sampler_are_checked(how, message):
    X, y = checkerboard(200)
    with pytest.raises((ValueError, TypeError), match=message):
        fit(X, y, SampledCuts(size=50, sampler=Wrong(how), differences=False))


@pytest.mark.parametrize("seed", [35, 67, 97])
def test_a_change_that_is_drawn_too_long_gives_way_to_a_plane(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] > 0).astype(int)
    y[rng.choice(300, 6, replace=False)] ^= 1
    X[:, 0] += 3.0 * np.sign(X[:, 0])
    C = 10.0 ** rng.uniform(-2, 2)
    method = SampledCuts(size=4, sampler=UniformSample())
    svc = KernelSVC(C=C, method=method, tol=1e-2, random_state=seed, max_iter=60).fit(X, y)
    assert svc.objective_ < 300.0 * C


def test_a_users_sampler_that_is_right():
    X, y = checkerboard(300)
    twice = Wrong(lambda d: Draw(np.r_[d.examples, d.examples], np.r_[d.factors, d.factors] / 2.0))
    svc = fit(X, y, SampledCuts(size=80, sampler=twice))
    same = fit(X, y, SampledCuts(size=80))
    assert svc.objective_ == pytest.approx(same.objective_, rel=1e-2)


def test_offsets_out_of_bounds_are_refused():
    for offset in (-1.0, 11.0):
        with pytest.raises(ValueError, match=r"condition \(i\) fails"):
            check_cut(offset, 1.0, terms_of([1.0]))
    check_cut(10.0, 10.0, terms_of([1.0]))


@pytest.mark.parametrize(
    "options",
    [
        {"size": 0},
        {"size": 2.5},
        {"size": "a"},
        {"size": np.nan},
        {"size": np.inf},
        {"idle": 0},
        {"idle": None},
        {"patience": 0},
        {"mu": 0.0},
        {"delta": 1.0},
    ],
)
def test_settings_are_checked(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}=.*: it must be"):
        SampledCuts(**options)


def test_a_size_may_be_a_float_that_is_whole():
    X, y = checkerboard(200)
    assert fit(X, y, SampledCuts(size=50.0)).objective_ == fit(X, y, SampledCuts(50)).objective_


def test_settings_that_do_not_go_together():
    with pytest.raises(ValueError, match="omit sampler"):
        SampledCuts(constant_time=True, sampler=ByMargin())
    with pytest.raises(TypeError, match="draw"):
        SampledCuts(sampler="uniform")


# -- the probabilistic bound -----------------------------------------------------------------------


def test_the_bound_holds_for_sums_that_are_drawn():
    """How far a drawn plane is off, at a fixed v, against Hoeffding's inequality: never seen to fail, and not
    by a large factor."""
    rng = np.random.default_rng(0)
    n, size, delta = 400, 40, 0.05
    terms = terms_of(np.ones(n), pulls=rng.choice([-1.0, 1.0], n))
    exact, worst = terms.pulls.sum(), []
    for _ in range(2000):
        draw = NonZeroLoss().draw(terms, size, rng)
        worst.append((draw.factors @ terms.pulls[draw.examples] - exact) / spread_of(draw, terms))
    allowed = np.sqrt(2.0 * np.log(1.0 / delta))
    assert np.mean(np.array(worst) > allowed) <= delta
    assert np.max(worst) > 0.5 * allowed


@pytest.mark.parametrize("sampler", [NonZeroLoss(), UniformSample(), ByMargin(), ByMargin(0.9)])
@pytest.mark.parametrize("size", [1, 2, 12])
def test_the_spread_does_not_depend_on_what_was_drawn(sampler, size):
    rng = np.random.default_rng(1)
    sizes = np.where(rng.uniform(size=50) < 0.4, rng.uniform(0.1, 2.0, 50), 0.0)
    terms = terms_of(sizes, losses=rng.exponential(size=50))
    draws = [sampler.draw(terms, size, rng) for _ in range(300)]
    (spread,) = {spread_of(draw, terms) for draw in draws}
    if not isinstance(sampler, ByMargin):  # all draws have a part in it, those that add nothing too
        n = 50 if isinstance(sampler, UniformSample) else np.count_nonzero(sizes)
        assert spread == pytest.approx(sizes.max() * n / np.sqrt(size))
    chance = [
        np.linalg.norm(d.factors[d.factors != 1.0]) for d in draws
    ]  # what is not there in any case
    assert 0.0 < max(chance) * sizes.max() <= spread * (1.0 + 1e-12)


def test_a_sampler_that_says_no_spread_has_no_bound():
    X, y = checkerboard(300)
    silent = Wrong(lambda d: Draw(d.examples, d.factors))
    svc = fit(X, y, SampledCuts(size=80, sampler=silent))
    assert svc.probabilistic_bound_ == np.inf
    assert svc.probabilistic_bound_is_vacuous_
    with_spread = fit(X, y, SampledCuts(size=80, sampler=Wrong(lambda d: d)))
    assert (
        with_spread.probabilistic_bound_
        == fit(X, y, SampledCuts(size=80)).probabilistic_bound_
        < np.inf
    )
    assert with_spread.objective_ == svc.objective_


@pytest.mark.parametrize("intercept", [True, False])
def test_in_constant_time_rows_that_were_not_drawn_count(intercept):
    """At zero all rows lose, so all that were drawn are in the plane: that does not make it exact."""
    X, y = checkerboard(400)
    rows = KernelRows(RBF(GAMMA), X, np.float64)
    weight = np.where(np.arange(400) == 3, 5.0, 1.0)
    sign = np.where(y == 1, 1.0, -1.0)
    risk = GrowingKernelRisk(rows, sign, Hinge(), 1.0, weight=weight, fit_intercept=intercept)
    drawn = risk.extend(100, 0, 1)
    assert 3 not in risk._known
    at = risk.evaluate(np.zeros(risk.dim))
    terms = at.terms(at, drawn)
    spread = spread_of(Draw(drawn, np.ones(100), 0.0), terms)
    assert spread == pytest.approx(400 * 5.0 * np.sqrt(1.0 + intercept) / np.sqrt(100))


def test_the_bound_is_the_papers_up_to_what_a_fit_knows():
    n, size, C, delta, epsilon = 1000, 400, 1.0, 0.05, 1e-3
    record = SamplingRecord(n_draws=100, spread=n / np.sqrt(size), reduced=700.0)
    found = excess_bound(record, 700.0 + C * n * epsilon, C, delta)
    mean = C * n  # C of the papers, on the mean
    cuts = 8.0 * mean / epsilon**2
    papers = mean * (epsilon + np.sqrt(4.0 * mean / size * np.log(cuts / delta)))
    assert 0.3 * papers < found < papers
    assert (
        found < excess_bound(record, 700.0 + C * n * epsilon, C, delta, choices=2001) < 2.0 * found
    )
    assert np.isnan(excess_bound(SamplingRecord(), 1.0, 1.0, delta))
    assert np.isnan(excess_bound(record, np.nan, 1.0, delta))
