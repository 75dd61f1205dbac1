"""Bounds across stages, methods and values of C: what one leaves, the next neither loses nor inflates."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from maxmargin import LinearSVC, LinearSVCCV, svc_path
from maxmargin.solvers import AbsoluteGap, CuttingPlane, Newton


def separable(seed, classes, n=300, d=100):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, classes))).argmax(axis=1)


@pytest.mark.parametrize(
    ("seed", "classes", "C", "tol"),
    [
        (9, 2, 1e5, 3e-3),
        (7, 3, 100.0, 3e-3),
        (5, 3, 1e6, 3e-3),
        (3, 3, 1e6, 2e-2),
        (3, 3, 100.0, 2e-2),
    ],
)
def test_the_certificate_is_what_the_history_said(seed, classes, C, tol):
    X, y = separable(seed, classes)
    joint = {"multi_class": "crammer_singer"} if classes > 2 else {}
    svc = LinearSVC(C=C, tol=tol, loss="hinge", **joint).fit(X, y)
    assert svc.converged_, (svc.stop_reason_, svc.gap_)
    lower = [record["lower_bound"] for record in svc.history_]
    assert (np.diff(lower) >= 0.0).all()
    assert svc.lower_bound_ == pytest.approx(lower[-1], rel=1e-8)
    assert max(lower) <= svc.objective_ * (1.0 + 1e-12)


def test_free_intercepts_on_a_path_keep_bounds_of_their_own_C():
    false = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n0, n1 = rng.integers(2, 40, 2)
        offset = 10.0 ** rng.uniform(-1, 2)
        X = np.r_[rng.normal(offset, 0.1, (n0, 1)), rng.normal(offset + 3, 0.1, (n1, 1))]
        X = np.c_[X, rng.normal(size=(n0 + n1, 1))]
        y = np.r_[np.zeros(n0), np.ones(n1)]
        common = {"loss": "squared_hinge", "penalize_intercept": False}
        _, svc = svc_path(X, y, [1e-5, 1e3], max_iter=4, **common)
        best = LinearSVC(C=1e3, tol=1e-8, solver=CuttingPlane(), **common).fit(X, y).objective_
        assert np.isfinite(svc.lower_bound_)
        false += svc.lower_bound_ > best * (1.0 + 1e-9)
    assert false == 0


def test_an_incumbent_is_not_traded_for_rounding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 30))
    y = X[:, 0] + rng.normal(size=6000) > 0
    svc = LinearSVC(C=1e3, tol=AbsoluteGap(1e-12), max_iter=3000, loss="hinge").fit(X, y)
    held = min(record["objective"] for record in svc.history_)
    assert svc.objective_ == pytest.approx(held, rel=1e-11)
    assert svc.lower_bound_ <= svc.objective_


def test_entries_stored_twice_are_their_sum():
    X, y = load_digits(return_X_y=True)
    X = sp.csr_matrix(X / 16.0)
    n = X.nnz
    parts = sp.csr_matrix(
        (np.repeat(X.data / 4.0, 4), np.repeat(X.indices, 4), X.indptr * 4), shape=X.shape
    )
    assert parts.nnz == 4 * n
    once, four_times = (
        LinearSVC(C=0.1, loss="hinge").fit(X, y),
        LinearSVC(C=0.1, loss="hinge").fit(parts, y),
    )
    assert four_times.converged_
    assert four_times.objective_ == pytest.approx(once.objective_, rel=1e-3)
    assert parts.nnz == 4 * n  # the caller's matrix is as it was


def test_wild_scales_in_wide_sparse_data_end_certified():
    rng = np.random.default_rng(1)
    X = sp.random(300, 80, 0.2, "csr", rng=rng)
    X = sp.csr_matrix(X @ sp.diags_array(10.0 ** rng.uniform(-4, 4, 80)))
    y = rng.random(300) < 0.5
    svc = LinearSVC(C=3.5e7, loss="hinge").fit(X, y)
    alone = LinearSVC(C=3.5e7, solver=Newton(), loss="hinge").fit(X, y)
    assert svc.gap_ <= 10 * max(alone.gap_, 1e-3)
    assert svc.lower_bound_ <= alone.objective_ * (1.0 + 1e-9)


def test_warm_start_forgets_what_does_not_fit():
    X, y = load_digits(return_X_y=True)
    kinds = [
        {"multi_class": "ovr"},
        {"multi_class": "crammer_singer"},
        {"multi_class": "ovr", "loss": "squared_hinge"},
        {"multi_class": "crammer_singer", "loss": "hinge"},
    ]
    svc = LinearSVC(C=0.01, warm_start=True, loss="hinge")
    for kind in kinds:
        svc.set_params(**kind).fit(X, y)
        assert svc.converged_


def test_a_path_ends_where_it_is_stopped():
    X, y = load_digits(return_X_y=True)
    seen = []

    def stop(record):
        seen.append(record)
        return len({r.C for r in seen}) == 2

    path = svc_path(X / 16.0, y < 5, [1e-4, 1e-3, 1e-2], callbacks=[stop], loss="hinge")
    assert [svc.stop_reason_ for svc in path] == ["gap", "callback"]


def test_grids_take_masks_and_refuse_several_scorers():
    X, y = load_digits(return_X_y=True)
    y = y < 5
    mask = np.arange(len(y)) % 3 == 0
    by_mask = LinearSVCCV(Cs=[1e-3], cv=[(~mask, mask)], loss="hinge").fit(X, y)
    counted = [(np.flatnonzero(~mask) - len(y), np.flatnonzero(mask))]
    from_the_end = LinearSVCCV(Cs=[1e-3], cv=counted, loss="hinge").fit(X, y)
    assert by_mask.best_score_ == from_the_end.best_score_
    with pytest.raises(ValueError, match="one scorer"):
        LinearSVCCV(scoring=["accuracy", "f1"], loss="hinge").fit(X, y)


@pytest.mark.parametrize("C", ["x", None, 0.0, -1.0, np.inf])
def test_C_that_is_no_positive_number(C):
    X, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match="positive"):
        LinearSVC(C=C, loss="hinge").fit(X, y)
