"""solver="auto": what it chooses, when it switches, what it hands over, and what it then claims."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC as ScikitSVC
from tests.reference_optima.problems import solve_binary_qp

from maxmargin import LinearSVC, minimize, svc_path
from maxmargin.core import SquaredNorm
from maxmargin.duals.choice import METHODS
from maxmargin.losses import Hinge, ScoreLoss
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto, CuttingPlane, DualCoordinate, Newton, RelativeGap
from maxmargin.solvers.base import GapForecast
from maxmargin.solvers.row_ascent import Coordinates
from maxmargin.testing import binary_objective


def methods(svc):
    return list(dict.fromkeys(record["method"] for record in svc.history_))


def test_sparse_and_dense_rows_begin_with_coordinates():
    X, y = load_digits(return_X_y=True)
    for data in (X / 16.0, sp.csr_matrix(X / 16.0)):
        assert methods(LinearSVC(C=0.01, loss="hinge").fit(data, y < 5)) == ["coordinate"]
        assert methods(LinearSVC(C=0.01, multi_class="crammer_singer").fit(data, y)) == [
            "coordinate"
        ]


def test_tiny_data_of_several_classes_begin_with_coordinates():
    X, y = load_iris(return_X_y=True)
    assert methods(LinearSVC(multi_class="crammer_singer").fit(X, y)) == ["coordinate"]


def test_tiny_data_do_not_show_the_order_of_rows():
    X, y = load_iris(return_X_y=True)
    assert methods(LinearSVC(loss="hinge").fit(X, y == 0)) == ["newton"]
    turned = LinearSVC(loss="hinge").fit(X[::-1], y[::-1] == 0)
    np.testing.assert_allclose(
        LinearSVC(loss="hinge").fit(X, y == 0).coef_, turned.coef_, rtol=1e-6
    )


def test_smooth_losses_with_few_features_begin_with_newton():
    X, y = load_digits(return_X_y=True)
    assert methods(LinearSVC(loss="squared_hinge").fit(X, y < 5)) == ["newton"]


def test_a_free_intercept_takes_a_method_that_can():
    X, y = load_breast_cancer(return_X_y=True)
    svc = LinearSVC(penalize_intercept=False, tol=1e-5, loss="hinge").fit(scale(X), y)
    assert "coordinate" not in methods(svc)
    planes = LinearSVC(penalize_intercept=False, tol=1e-5, solver=CuttingPlane(), loss="hinge").fit(
        scale(X), y
    )
    assert svc.objective_ == pytest.approx(planes.objective_, rel=2e-5)
    with pytest.raises((TypeError, ValueError), match="penalize"):
        LinearSVC(penalize_intercept=False, loss="squared_hinge", solver=DualCoordinate()).fit(X, y)


def test_losses_without_a_dual_form_take_cutting_planes():
    class Absolute(ScoreLoss):
        def cut(self, scores, y, weight):
            sign = np.sign(scores - y)
            return float(-(weight * sign) @ y), weight * sign

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    risk = ScoreRisk(X, X @ [1.0, -2.0, 0.5], Absolute())
    result = minimize(risk, C=1.0, solver=Auto())
    assert result.converged
    assert {r.method for r in result.history} == {"cutting planes"}
    with pytest.raises(TypeError, match="Absolute"):
        minimize(risk, C=1.0, solver=Newton())


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine], ids=["cancer", "wine"])
@pytest.mark.parametrize("C", [1e-8, 1e-4, 1.0, 1e4, 1e8])
def test_unscaled_data_is_certified_at_any_C(load, C):
    X, y = load(return_X_y=True)
    svc = LinearSVC(C=C, multi_class="ovr", loss="hinge").fit(X, y)
    assert svc.lower_bound_ <= svc.objective_
    assert svc.converged_, (svc.gap_, svc.stop_reason_, methods(svc))
    assert svc.gap_ <= 1e-3


def awkward(kind):
    rng = np.random.default_rng(0)
    if kind == "collinear one-hot":  # every row has one 1 in each of three groups of columns
        codes = rng.integers(0, 5, size=(200, 3))
        X = np.concatenate([np.eye(5)[codes[:, g]] for g in range(3)], axis=1)
        y = np.isin(codes[:, 0], (1, 2)) ^ (rng.random(200) < 0.1)
    elif kind == "duplicated rows":
        X = np.repeat(rng.normal(size=(20, 3)), 10, axis=0)
        y = rng.random(200) < 0.5  # the same row with both labels
    elif kind == "columns of zeros":
        X = np.zeros((100, 6))
        X[:, 2] = rng.normal(size=100)
        y = X[:, 2] + 0.5 * rng.normal(size=100) > 0
    elif kind == "only zeros":
        X, y = np.zeros((30, 4)), np.arange(30) < 20
    else:  # one row each
        X, y = rng.normal(size=(2, 50)), np.array([True, False])
    return X, y


@pytest.mark.parametrize("C", [1e-8, 1e-3, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(
    "kind", ["collinear one-hot", "duplicated rows", "columns of zeros", "only zeros", "two rows"]
)
def test_awkward_data_is_certified_or_said_not_to_be(kind, loss, C):
    X, y = awkward(kind)
    svc = LinearSVC(C=C, loss=loss).fit(X, y)
    assert np.isfinite(svc.coef_).all()
    sparse = LinearSVC(C=C, loss=loss, solver=CuttingPlane()).fit(sp.csr_matrix(X), y)
    # each one's lower bound is below the other's objective: neither can be false
    assert svc.lower_bound_ <= sparse.objective_ * (1.0 + 1e-9)
    assert sparse.lower_bound_ <= svc.objective_ * (1.0 + 1e-9)
    assert svc.converged_ or svc.stop_reason_ in ("stalled", "rounding")
    assert svc.gap_ <= (1e-3 if svc.converged_ else 1.0)
    if C <= 1e4:
        assert svc.converged_


def test_hard_rows_make_it_switch_and_no_bound_is_lost():
    X, y = load_digits(return_X_y=True)
    svc = LinearSVC(C=1e4, tol=1e-6, loss="hinge").fit(X * np.geomspace(1e-3, 1e3, 64), y < 5)
    assert methods(svc)[0] == "coordinate"
    assert len(methods(svc)) == 2
    lower = np.array([r["lower_bound"] for r in svc.history_])
    upper = np.array([r["objective"] for r in svc.history_])
    upper = upper[np.isfinite(upper)]  # before the first check there is none
    assert (np.diff(lower) >= 0).all()  # also across the switch
    assert (np.diff(upper) <= 0).all()


@pytest.mark.parametrize(
    ("tol", "expected", "most"),
    [(1e-3, ["coordinate"], 200), (1e-7, ["coordinate", "newton"], 400)],
)
def test_newton_takes_over_at_tight_tolerances(tol, expected, most):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 40))
    y = X @ rng.normal(size=40) + 4.0 * rng.normal(size=20_000) > 0
    svc = LinearSVC(C=10.0, tol=tol, loss="hinge").fit(X, y)
    assert svc.converged_
    assert methods(svc) == expected
    assert len(svc.history_) < most  # epochs that gain little are not continued


def test_wide_correlated_features_are_certified_by_planes():
    # twenty hidden factors behind 600 features of 300 rows: coordinates would need thousands of epochs
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(300, 20))
    X = factors @ rng.normal(size=(20, 600)) + 1e-2 * rng.normal(size=(300, 600))
    y = factors[:, 0] + 0.5 * rng.normal(size=300) > 0
    svc = LinearSVC(C=1e4, tol=1e-4, loss="hinge").fit(X, y)
    assert svc.converged_
    assert methods(svc) == ["coordinate", "cutting planes"]
    assert len(svc.history_) < 500
    epochs = LinearSVC(C=1e4, tol=1e-4, solver=DualCoordinate(), max_iter=2000, loss="hinge")
    with pytest.warns(ConvergenceWarning):
        epochs.fit(X, y)
    assert epochs.lower_bound_ <= svc.objective_
    assert svc.lower_bound_ <= epochs.objective_


def test_cutting_planes_go_on_from_the_duals_handed_over():
    X, y = load_digits(return_X_y=True)
    y = np.where(y < 5, 1.0, -1.0)
    risk = ScoreRisk(X / 16.0, y, Hinge(), intercept=1.0)
    C = 0.05
    first = minimize(risk, C, solver=DualCoordinate(), stopping=RelativeGap(0.1))
    second = minimize(risk, C, solver=CuttingPlane(), start=first, max_iter=2)
    assert second.lower_bound >= first.lower_bound * (1.0 - 1e-9)
    assert second.objective <= first.objective * (1.0 + 1e-12)


def test_bounds_belong_to_the_C_asked_for_at_every_stage():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    C = 100.0
    best = solve_binary_qp(X, np.where(y == 1, 1, -1), C=C, intercept_scaling=1.0)[0]
    seen = []
    svc = LinearSVC(C=C, solver=DualCoordinate(), callbacks=[seen.append], loss="hinge").fit(X, y)
    stages = sorted({r.C for r in seen})
    assert len(stages) > 2
    assert stages[-1] == C
    for record in seen:
        assert record.lower_bound <= best * (1.0 + 1e-9)
        assert record.objective >= best * (1.0 - 1e-9)
    assert svc.converged_
    early = LinearSVC(C=C, max_iter=2, loss="hinge").fit(X, y)  # in the middle of the first stage
    assert early.lower_bound_ <= best <= early.objective_
    recomputed = binary_objective(early.coef_, early.intercept_[0], X, np.where(y == 1, 1, -1), C)
    assert early.objective_ == pytest.approx(recomputed, rel=1e-12)


def test_stages_rise_evenly_to_the_C_asked_for():
    stages = Coordinates().stages(1000.0, 1.0)
    assert stages[0] == 1.0
    assert stages[-1] == 1000.0
    ratios = np.diff(np.log(stages))
    np.testing.assert_allclose(ratios, ratios[0])
    assert np.exp(ratios[0]) <= 8.0 + 1e-9
    assert Coordinates().stages(0.5, 1.0) == [0.5]


def test_the_forecast_extrapolates_the_fall_of_the_gap():
    outlook = GapForecast()
    for work in range(1, 9):
        left = outlook.remaining(float(work), 10.0 ** -(work / 4.0), 1e-4)
    assert left == pytest.approx(8.0, rel=1e-6)  # 2 decades fell in 8 units: 2 more need 8
    assert outlook.remaining(9.0, 1e-5, 1e-4) == 0.0
    stuck = GapForecast()
    assert [stuck.remaining(float(k), 1.0, 1e-3) for k in range(1, 6)][-1] == np.inf


def test_a_path_is_the_single_fits_and_takes_less_work():
    X, y = load_digits(return_X_y=True)
    y = y < 5
    Cs = [100.0, 1e-1, 1.0, 10.0]  # any order
    path = svc_path(X / 16.0, y, Cs, loss="hinge")
    assert [svc.C for svc in path] == Cs
    cold = [LinearSVC(C=C, loss="hinge").fit(X / 16.0, y) for C in Cs]
    for warm, alone in zip(path, cold, strict=True):
        assert warm.converged_
        assert warm.objective_ == pytest.approx(alone.objective_, rel=1e-3)
    work = [sum(svc.history_[-1]["oracle_calls"] for svc in side) for side in (path, cold)]
    assert work[0] < 0.75 * work[1]
    assert work[0] < 100.0


def test_a_path_of_coordinate_ascent_saves_a_fifth():
    X, y = load_digits(return_X_y=True)
    Cs, fixed = [1e-1, 1.0, 10.0, 100.0], {"solver": DualCoordinate()}
    path = svc_path(X / 16.0, y < 5, Cs, **fixed, loss="hinge")
    cold = [LinearSVC(C=C, **fixed, loss="hinge").fit(X / 16.0, y < 5) for C in Cs]
    work = [sum(s.history_[-1]["oracle_calls"] for s in side) for side in (path, cold)]
    assert work[0] < 0.8 * work[1]


def test_a_path_with_a_free_intercept_keeps_true_bounds():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    for svc in svc_path(
        X, y, [0.01, 1.0, 100.0], penalize_intercept=False, solver=CuttingPlane(), loss="hinge"
    ):
        alone = LinearSVC(C=svc.C, penalize_intercept=False, tol=1e-6, loss="hinge").fit(X, y)
        assert svc.converged_
        assert svc.lower_bound_ <= alone.objective_ * (1.0 + 1e-9)


def test_warm_start_saves_the_work_already_done():
    X, y = load_digits(return_X_y=True)
    y = y < 5
    svc = LinearSVC(C=0.1, warm_start=True, loss="hinge").fit(X / 16.0, y)
    first = svc.history_[-1]["oracle_calls"]
    svc.fit(X / 16.0, y)
    assert svc.history_[-1]["oracle_calls"] < 0.5 * first
    svc.set_params(C=0.2).fit(X / 16.0, y)
    assert svc.converged_
    svc.fit(X[:500] / 16.0, y[:500])  # other rows: what does not fit is left behind
    assert svc.converged_


def test_squared_hinge_is_scikit_learns():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    ours = LinearSVC(C=0.1, loss="squared_hinge", tol=1e-8).fit(X, y)
    theirs = ScikitSVC(C=0.1, tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-4)


def test_one_against_the_rest_is_scikit_learns_and_adds_up():
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    ours = LinearSVC(loss="squared_hinge", tol=1e-8).fit(X, y)
    theirs = ScikitSVC(tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    parts = [LinearSVC(loss="squared_hinge", tol=1e-8).fit(X, y == k) for k in range(3)]
    assert ours.objective_ == pytest.approx(sum(p.objective_ for p in parts), rel=1e-6)
    assert ours.lower_bound_ <= ours.objective_
    assert (ours.predict(X) == y).mean() > 0.9
    rest = LinearSVC(multi_class="ovr", loss="hinge").fit(X, y)
    np.testing.assert_allclose(
        rest.coef_[0], LinearSVC(loss="hinge").fit(X, y == 0).coef_[0], rtol=1e-9, atol=1e-12
    )


def test_a_stop_ends_one_against_the_rest_with_true_bounds():
    X, y = load_digits(return_X_y=True)
    calls = []

    def stop(record):
        calls.append(record)
        return len(calls) == 3

    svc = LinearSVC(multi_class="ovr", tol=1e-9, callbacks=[stop], loss="hinge").fit(X, y)
    assert svc.stop_reason_ == "callback"
    assert not svc.converged_
    assert svc.coef_.shape == (10, 64)
    assert svc.lower_bound_ <= svc.objective_ < np.inf


def test_a_dense_matrix_of_zeros_mostly_is_trained_as_sparse():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 40)) * (rng.random((500, 40)) < 0.1)
    y = X @ rng.normal(size=40) > 0
    dense, sparse = (
        LinearSVC(loss="hinge").fit(X, y),
        LinearSVC(loss="hinge").fit(sp.csr_matrix(X), y),
    )
    np.testing.assert_array_equal(dense.coef_, sparse.coef_)


def test_bits_do_not_depend_on_the_number_of_threads():
    X, y = load_digits(return_X_y=True)
    for params in ({"multi_class": "crammer_singer"}, {"loss": "hinge"}, {}):
        one, two = (LinearSVC(n_jobs=k, C=0.01, **params).fit(X, y) for k in (1, 2))
        np.testing.assert_array_equal(one.coef_, two.coef_)
        assert one.lower_bound_ == two.lower_bound_


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"loss": "log"}, "squared_hinge"),
        ({"multi_class": "ovo"}, "crammer_singer"),
        ({"loss": "logistic", "multi_class": "crammer_singer"}, "ovr"),
        ({"multi_class": "ovr", "cost": 1 - np.eye(3)}, "crammer_singer"),
    ],
)
def test_errors_say_what_to_do(params, words):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=words):
        LinearSVC(**params).fit(X, y)


def test_a_free_intercept_is_for_the_coordinates_of_the_hinge_alone():
    risk = ScoreRisk(np.eye(3), np.array([1.0, -1.0, 1.0]), Hinge(), intercept=1.0)
    assert risk.methods(SquaredNorm(np.array([3]), 1.0)) == {"coordinate", "newton"}
    assert risk.methods(SquaredNorm(np.array([2]), 1.0)) == {"newton"}
    assert risk.methods(SquaredNorm()) == set(METHODS) - {"quasi-newton", "sample"}  # not smooth
