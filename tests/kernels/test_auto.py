"""method="auto": a table of counts, never a clock."""

import numpy as np
import pytest

from maxmargin import KernelSVC
from maxmargin.estimators.kernel.auto import FEW, choose

KNOWN = {"joint": False, "semidefinite": True, "budget": 1e10, "memory": 2**31}


@pytest.mark.parametrize(
    ("n", "change", "method"),
    [
        (500, {}, "exact"),
        (FEW, {"budget": 1.0}, "exact"),  # few rows are never too many
        (40_000, {}, "exact"),  # nor are n^2 values that are affordable
        (50_000, {}, "nystrom"),
        (50_000, {"budget": 1.25e10}, "exact"),
        (40_000, {"memory": 10**5}, "nystrom"),
        (50_000, {"semidefinite": False}, "exact"),
        (1_000, {"joint": True}, "map"),
        (50_000, {"joint": True}, "nystrom"),
    ],
)
def test_the_table_of_choices(n, change, method):
    choice = choose(n, **{**KNOWN, **change})
    assert choice.method == method
    assert ("a restricted problem was solved" in choice.why) == (method == "nystrom")


def board(n=6000):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4, (n, 2))
    return X, np.floor(X).sum(axis=1) % 2


def test_the_result_says_what_was_done_and_why():
    X, y = board()
    model = KernelSVC(10.0, gamma=10.0, max_kernel_values=2e8).fit(X, y)
    assert model.certificate_ == "exact"
    assert model.converged_
    assert model.method_.startswith("exact: up to ")
    restricted = KernelSVC(10.0, gamma=10.0, max_kernel_values=1e6).fit(X, y)
    assert restricted.certificate_ == "restricted"
    assert restricted.method_.startswith("nystrom: ")
    assert "max_kernel_values=1.0e+06: a restricted problem was solved" in restricted.method_
    assert restricted.objective_ >= model.lower_bound_


def test_several_classes_at_once():
    X, y = board(600)
    model = KernelSVC(10.0, gamma=10.0, multi_class="crammer_singer").fit(X, y + (X[:, 0] > 3))
    assert model.method_.startswith("map: several classes at once")
    assert model.certificate_ == "exact"
