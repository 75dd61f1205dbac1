"""An engine of the user's own: that of the page "An engine of your own"."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from tests.contracts.engine import check_engine
from tests.pages import shown

from maxmargin import LinearSVC, MeasureSVC
from maxmargin.engines import SerialEngine, ThreadEngine, make_engine, worker_count
from maxmargin.solvers import CuttingPlane

PoolEngine = shown("pool_engine").PoolEngine

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
Y = np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0.0, 1, -1)


def test_the_engine_of_the_page_keeps_the_contract():
    check_engine(PoolEngine)


@pytest.mark.parametrize("make", [LinearSVC, MeasureSVC])
def test_bit_identical_results(make):
    plain = make(solver=CuttingPlane()).fit(X, Y)
    other = make(solver=CuttingPlane(), engine=PoolEngine(3), n_jobs=2).fit(X, Y)
    assert np.array_equal(other.coef_, plain.coef_)
    assert (other.objective_, other.lower_bound_) == (plain.objective_, plain.lower_bound_)
    assert type(clone(other).engine) is PoolEngine


def test_a_fit_does_not_close_what_it_was_given():
    closed = []

    class Watched(PoolEngine):
        def close(self):
            closed.append(self)
            super().close()

    LinearSVC(solver=CuttingPlane(), engine=Watched(), loss="hinge").fit(X, Y)
    assert not closed


def test_engines_by_name():
    assert isinstance(make_engine(None), SerialEngine)
    assert isinstance(make_engine(1, "threads"), SerialEngine)
    threads = make_engine(2, "threads")
    assert isinstance(threads, ThreadEngine)
    threads.close()
    for name in ("dask", "threads:3", 7):
        with pytest.raises(ValueError, match="or an engine object"):
            make_engine(None, name)


def test_the_number_of_workers_is_counted_as_in_scikit_learn():
    assert worker_count(None) == 1
    assert worker_count(3) == 3
    assert worker_count(-1) >= 1
