"""method="auto": a table of counts, never a clock."""

import numpy as np
import pytest
from tests.ctrl_c import interrupted

from maxmargin import KernelSVC
from maxmargin.estimators.kernel.auto import (
    FEWEST,
    PASSES,
    Forecast,
    choose,
    forecast,
    sample,
)
from maxmargin.kernels import KernelRows

KNOWN = {"joint": False, "semidefinite": True, "budget": 1e10, "memory": 2**31}


@pytest.mark.parametrize(
    ("n", "values", "change", "method"),
    [
        (500, None, {}, "exact"),
        (2 * FEWEST, None, {"budget": 1.0}, "exact"),  # few rows are never too many
        (40_000, None, {}, "exact"),  # nor are n^2 values that are affordable
        (50_000, 1e9, {}, "exact"),
        (50_000, 1e10, {}, "exact"),
        (50_000, 1.1e10, {}, "nystrom"),
        (50_000, 1e9, {"budget": 1e8}, "nystrom"),
        (50_000, 1e9, {"memory": 10**5}, "nystrom"),
        (50_000, 1e15, {"semidefinite": False}, "exact"),
        (1_000, None, {"joint": True}, "map"),
        (50_000, None, {"joint": True}, "nystrom"),
    ],
)
def test_the_table_of_choices(n, values, change, method):
    expected = None if values is None else Forecast(100.0, values)
    choice = choose(n, expected=expected, **{**KNOWN, **change})
    assert choice.method == method
    assert ("a restricted problem was solved" in choice.why) == (method == "nystrom")


def test_many_rows_need_a_forecast():
    assert choose(50_000, expected=None, **KNOWN) is None


@pytest.mark.parametrize(
    ("support", "half", "expected"),
    [
        (400, 200, 40_000.0),  # a constant share of the rows
        (400, 400, 400.0),  # always the same
        (400, 100, 40_000.0),  # not more than all that came before make likely
        (400, 500, 400.0),
        (0, 0, 1.0),
    ],
)
def test_support_vectors_grow_by_a_power_law(support, half, expected):
    found = forecast(200_000, 2_000, support, half)
    assert found.support == pytest.approx(expected)
    assert found.kernel_values == pytest.approx(PASSES * 200_000 * expected)


def test_a_sample_has_every_label():
    y = np.r_[np.zeros(5000), np.ones(3)]
    some = sample(y, 1000, 0)
    assert 1000 <= len(some) <= 1002
    assert (np.diff(some) > 0).all()
    assert set(y[some]) == {0.0, 1.0}
    np.testing.assert_array_equal(some, sample(y, 1000, 0))


def board(n=6000):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4, (n, 2))
    return X, np.floor(X).sum(axis=1) % 2


def test_the_result_says_what_was_done_and_why():
    X, y = board()
    model = KernelSVC(10.0, gamma=10.0, max_kernel_values=1.5e8).fit(X, y)
    assert model.certificate_ == "exact"
    assert model.converged_
    assert model.method_.startswith("exact: about ")
    restricted = KernelSVC(10.0, gamma=10.0, max_kernel_values=1e6).fit(X, y)
    assert restricted.certificate_ == "restricted"
    assert restricted.method_.startswith("nystrom: ")
    assert "max_kernel_values=1.0e+06: a restricted problem was solved" in restricted.method_
    assert restricted.expected_kernel_values_ == model.expected_kernel_values_ > 1e6
    assert restricted.objective_ >= model.lower_bound_


def test_a_pilot_leaves_no_trace_in_the_watchers():
    X, y = board()
    seen = []
    KernelSVC(
        10.0, gamma=10.0, max_kernel_values=1.5e8, callbacks=[lambda record: seen.append(record)]
    ).fit(X, y)
    assert [record.iteration for record in seen] == list(range(1, len(seen) + 1))


@pytest.mark.parametrize("at", [1, 2])
def test_ctrl_c_in_a_pilot_ends_the_fit(monkeypatch, at):
    X, y = board()
    asked, true = [], KernelRows.block

    def block(self, *args, **options):
        asked.append(1)
        if len(asked) == at:
            raise KeyboardInterrupt
        return true(self, *args, **options)

    monkeypatch.setattr(KernelRows, "block", block)
    svc = interrupted(KernelSVC(max_kernel_values=1e7).fit, X, y).estimator
    assert svc.stop_reason_ == "interrupted"
    assert len(asked) < at + 20  # nothing is begun after it
    assert svc.method_.startswith("none: the fit was ended (interrupted)")
    assert svc.lower_bound_ == 0.0
    assert not svc.converged_


def test_pilots_have_the_time_of_the_fit():
    X, y = board()
    svc = KernelSVC(max_kernel_values=1e7, max_seconds=0.0).fit(X, y)
    assert svc.stop_reason_ == "max_seconds"
    assert svc.method_.startswith("none: the fit was ended (max_seconds)")
    whole = KernelSVC(max_kernel_values=1e7).fit(X, y)
    assert whole.method_.startswith("nystrom")
    own = whole.history_[0]
    spent = sum(value for key, value in own.items() if key.startswith("seconds"))
    assert own["elapsed"] > spent  # that of the pilots is in it


def test_several_classes_at_once():
    X, y = board(600)
    model = KernelSVC(10.0, gamma=10.0, multi_class="crammer_singer").fit(X, y + (X[:, 0] > 3))
    assert model.method_.startswith("map: several classes at once")
    assert model.certificate_ == "exact"
