"""An engine of the user's own, by object and by name: that of the page "An engine of your own"."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from tests.contracts.engine import check_engine
from tests.pages import shown

from maxmargin import LinearSVC, MeasureSVC
from maxmargin.engines import (
    EngineOptions,
    SerialEngine,
    ThreadEngine,
    choice,
    make_engine,
    register_engine,
)
from maxmargin.solvers import CuttingPlane

PoolEngine = shown("pool_engine").PoolEngine

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
Y = np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0.0, 1, -1)


@pytest.fixture(autouse=True)
def _same_registry_afterwards(monkeypatch):
    monkeypatch.setattr(choice, "_ENGINES", dict(choice._ENGINES))
    monkeypatch.setattr(choice, "_ADDRESSED", set(choice._ADDRESSED))


def test_the_engine_of_the_page_keeps_the_contract():
    check_engine(PoolEngine)


@pytest.mark.parametrize("make", [LinearSVC, MeasureSVC])
def test_bit_identical_results_by_object_and_by_name(make):
    asked = []

    def pool(options):
        asked.append(options)
        return PoolEngine(options.n_workers)

    register_engine("pool", pool)
    plain = make(solver=CuttingPlane()).fit(X, Y)
    for engine in (PoolEngine(3), "pool"):
        other = make(solver=CuttingPlane(), engine=engine, n_jobs=2).fit(X, Y)
        assert np.array_equal(other.coef_, plain.coef_)
        assert (other.objective_, other.lower_bound_) == (plain.objective_, plain.lower_bound_)
        assert type(clone(other).engine) is type(engine)
    assert [(options.n_jobs, options.engine) for options in asked] == [(2, "pool")]


def test_a_fit_closes_what_it_made_and_not_what_it_was_given():
    closed = []

    class Watched(PoolEngine):
        def close(self):
            closed.append(self)
            super().close()

    made = []
    register_engine("watched", lambda options: made.append(Watched()) or made[-1])
    LinearSVC(solver=CuttingPlane(), engine="watched").fit(X, Y)
    assert closed == made
    own = Watched()
    LinearSVC(solver=CuttingPlane(), engine=own).fit(X, Y)
    assert own not in closed


def test_names_of_the_library_are_in_the_same_registry():
    assert isinstance(make_engine(None), SerialEngine)
    assert isinstance(make_engine(1, "threads"), SerialEngine)
    threads = make_engine(2, "threads")
    assert isinstance(threads, ThreadEngine)
    threads.close()
    with pytest.raises(ValueError, match="a built-in engine"):
        register_engine("threads", lambda options: SerialEngine())


def test_addresses_follow_a_colon_where_the_engine_takes_one():
    seen = []
    make = lambda options: seen.append(options.engine) or SerialEngine()  # noqa: E731
    register_engine("here", make)
    with pytest.raises(ValueError, match="engine='here:there'"):
        make_engine(None, "here:there")
    register_engine("here", make, addressed=True)
    make_engine(None, "here:there")
    assert seen == ["here:there"]


@pytest.mark.parametrize(("name", "make", "error"), [
    ("two words", SerialEngine, ValueError), (3, SerialEngine, ValueError), ("mine", None, TypeError),
])  # fmt: skip
def test_what_cannot_be_registered(name, make, error):
    with pytest.raises(error):
        register_engine(name, make)


def test_refusals_say_what_is_known():
    register_engine("pool", lambda options: PoolEngine())
    with pytest.raises(ValueError, match="'pool'"):
        make_engine(None, "dask")
    register_engine("wrong", lambda options: object())
    with pytest.raises(TypeError, match="created a object, which is not an engine"):
        make_engine(None, "wrong")


def test_the_number_of_workers_is_counted_as_in_scikit_learn():
    assert EngineOptions(None).n_workers == 1
    assert EngineOptions(3).n_workers == 3
    assert EngineOptions(-1).n_workers >= 1
