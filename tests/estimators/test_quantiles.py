"""Quantile regression: the optimum of an independent solver, and several quantiles, from any kind of data."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.datasets import load_diabetes
from sklearn.metrics import d2_pinball_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.reference_optima.problems import solve_regression_qp

import maxmargin
from maxmargin import GaussianPrior, KernelSVR, LinearSVR, data
from maxmargin.losses import DualTerms, Quantile
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton


@parametrize_with_checks([LinearSVR(loss="quantile", quantile=0.8)])
def test_scikit_learn_law(estimator, check):
    check(estimator)


def rows(n=90, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = 3.0 + X @ rng.normal(size=d) + rng.standard_t(2, size=n)
    return X, y, rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.1)


SOLVERS = ["auto", CuttingPlane(), DualCoordinate(), DualCoordinate(blocks=3, rounds=2), Newton()]


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@pytest.mark.parametrize("C", [0.02, 2.0])
@pytest.mark.parametrize("q", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("free", [False, True], ids=["penalized", "free intercept"])
def test_the_optimum_of_an_independent_qp(solver, C, q, free):
    if free and isinstance(solver, DualCoordinate):
        pytest.skip("coordinate ascent penalizes the intercept of a regression")
    X, y, weight = rows()
    best, _ = solve_regression_qp(X, y, C, weight=weight, quantile=q, penalize_intercept=not free)
    svr = LinearSVR(
        C, tol=1e-5, loss="quantile", quantile=q, penalize_intercept=not free, solver=solver
    )
    svr.fit(X, y, weight)
    assert svr.converged_
    assert svr.lower_bound_ <= best * (1.0 + 1e-9)
    assert best <= svr.objective_ * (1.0 + 1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", SOLVERS[1:], ids=str)
def test_bounds_are_true_when_a_fit_is_stopped_early(solver):
    X, y, weight = rows(seed=2)
    best, _ = solve_regression_qp(X, y, 1.0, weight=weight, quantile=0.95)
    for stop in range(8):
        svr = LinearSVR(loss="quantile", quantile=0.95, max_iter=stop, solver=solver, tol=1e-9)
        svr.fit(X, y, weight)
        assert svr.lower_bound_ <= best * (1.0 + 1e-9) <= svr.objective_ * (1.0 + 2e-9)


def test_the_pinball_loss_of_a_linear_program():
    # scipy's HiGHS: without a penalty, which a large C approaches
    X, y = load_diabetes(return_X_y=True)
    X, q = StandardScaler().fit_transform(X), 0.8
    n, d = X.shape
    loss = np.r_[np.zeros(d + 1), np.full(n, q), np.full(n, 1.0 - q)]
    equal = sp.hstack([sp.csr_matrix(np.c_[X, np.ones(n)]), sp.eye(n), -sp.eye(n)])
    least = linprog(loss, A_eq=equal, b_eq=y, bounds=[(None, None)] * (d + 1) + [(0, None)] * 2 * n)
    svr = LinearSVR(1e3, loss="quantile", quantile=q, penalize_intercept=False, tol=1e-6).fit(X, y)
    found = Quantile(q).value(svr.predict(X), y, np.ones(n))
    assert least.fun <= found * (1.0 + 1e-9)
    assert found <= least.fun * (1.0 + 1e-3)
    assert abs(np.mean(y <= svr.predict(X)) - q) < 0.03


def test_one_half_is_the_median():
    X, y, weight = rows()
    for solver in SOLVERS:
        half = LinearSVR(2.0, loss="quantile", solver=solver, tol=1e-6).fit(X, y, weight)
        whole = LinearSVR(1.0, solver=solver, tol=1e-6).fit(X, y, weight)
        assert half.lower_bound_ <= whole.objective_ * (1.0 + 1e-12)
        assert whole.lower_bound_ <= half.objective_ * (1.0 + 1e-12)


def test_several_quantiles_are_certified_together_and_never_cross(tmp_path):
    X, y, weight = rows(60)
    quantiles = [0.1, 0.5, 0.55, 0.9]
    svr = LinearSVR(5.0, loss="quantile", quantile=quantiles, tol=1e-5).fit(X, y, weight)
    alone = [
        LinearSVR(5.0, loss="quantile", quantile=q, tol=1e-5).fit(X, y, weight) for q in quantiles
    ]
    assert svr.coef_.shape == (4, 5)
    np.testing.assert_array_equal(svr.coef_, [one.coef_ for one in alone])
    assert svr.objective_ == pytest.approx(sum(one.objective_ for one in alone))
    assert svr.lower_bound_ == pytest.approx(sum(one.lower_bound_ for one in alone))
    far = 5.0 * np.random.default_rng(1).normal(size=(500, 5))
    scores = np.column_stack([one.predict(far) for one in alone])
    assert (np.diff(scores, axis=1) < 0.0).any()  # lines cross
    np.testing.assert_allclose(svr.predict(far), np.sort(scores, axis=1))
    # sorting does not increase the loss
    found, separate = svr.predict(X), np.column_stack([one.predict(X) for one in alone])
    losses = [
        sum(
            Quantile(q).value(np.ascontiguousarray(c), y, weight)
            for q, c in zip(quantiles, table.T, strict=True)
        )
        for table in (found, separate)
    ]
    assert losses[0] <= losses[1] * (1.0 + 1e-12)
    assert svr.score(X, y, weight) == pytest.approx(
        np.mean(
            [
                d2_pinball_score(y, found[:, k], sample_weight=weight, alpha=q)
                for k, q in enumerate(quantiles)
            ]
        )
    )
    svr.save(tmp_path / "model")
    np.testing.assert_array_equal(maxmargin.load(tmp_path / "model").predict(far), svr.predict(far))
    again = svr.set_params(warm_start=True).fit(X, y, weight)
    assert again.converged_


def test_data_on_disk_streams_and_sparse_rows(tmp_path):
    X, y, weight = rows(400)
    best, _ = solve_regression_qp(X, y, 1.0, weight=weight, quantile=0.9)
    data.write(
        tmp_path / "set", [(X[:250], y[:250], weight[:250]), (X[250:], y[250:], weight[250:])]
    )
    given = {"loss": "quantile", "quantile": 0.9, "tol": 1e-4}
    held = data.open(tmp_path / "set")
    fits = [
        LinearSVR(**given).fit(held),
        LinearSVR(**given, solver=DualCoordinate(max_cached=50)).fit(held),
        LinearSVR(**given).fit(sp.csr_matrix(X), y, weight),
        LinearSVR(**given, n_jobs=2).fit(X, y, weight),
    ]
    for svr in fits:
        assert svr.converged_
        assert svr.lower_bound_ <= best * (1.0 + 1e-9)
        assert best <= svr.objective_ * (1.0 + 1e-9)
    assert fits[0].score(held) == pytest.approx(fits[0].score(X, y, weight))
    several = LinearSVR(loss="quantile", quantile=[0.1, 0.9], max_support=60)
    for part in (slice(0, 200), slice(200, 400)):
        several.partial_fit(X[part], y[part], weight[part])
    low, _ = solve_regression_qp(X, y, 1.0, weight=weight, quantile=0.1)
    assert several.lower_bound_ <= (best + low) * (1.0 + 1e-9)
    assert best + low <= several.verify(X, y, weight).objective_ * (1.0 + 1e-9)


def test_priors_and_signs():
    X, y, weight = rows()
    given = {"loss": "quantile", "quantile": 0.8, "tol": 1e-5}
    mean = np.arange(5.0)
    best, _ = solve_regression_qp(X, y - X @ mean, 1.0, weight=weight, quantile=0.8)
    svr = LinearSVR(**given, prior=GaussianPrior(mean=mean)).fit(X, y, weight)
    assert svr.lower_bound_ <= best * (1.0 + 1e-9)
    assert best <= svr.objective_ * (1.0 + 1e-9)
    signed = LinearSVR(**given, nonnegative=[0], nonpositive=[1]).fit(X, y, weight)
    assert signed.converged_
    assert signed.coef_[0] >= 0.0 >= signed.coef_[1]


@pytest.mark.parametrize("method", ["exact", "nystrom"])
@pytest.mark.parametrize("q", [0.05, 0.5, 0.9])
def test_kernels(method, q):
    # the linear kernel: the same problem as with an unpenalized intercept
    X, y, weight = rows(60)
    best, _ = solve_regression_qp(X, y, 1.0, weight=weight, quantile=q, penalize_intercept=False)
    svr = KernelSVR(kernel="linear", loss="quantile", quantile=q, method=method, tol=1e-5)
    svr.fit(X, y, weight)
    assert svr.lower_bound_ <= best * (1.0 + 1e-8)
    assert best <= svr.objective_ * (1.0 + 1e-8)
    assert svr.converged_ or svr.restricted_gap_ <= 1e-5
    curve = KernelSVR(C=10.0, loss="quantile", quantile=q, method=method).fit(X[:, :1], y)
    assert abs(np.mean(y <= curve.predict(X[:, :1])) - q) < 0.1


def test_a_search_scores_the_pinball_loss():
    from sklearn.model_selection import GridSearchCV

    X, y, _ = rows()
    search = GridSearchCV(LinearSVR(loss="quantile", quantile=0.9), {"C": [1e-3, 1.0]}).fit(X, y)
    assert search.best_params_["C"] == 1.0
    assert search.score(X, y) == d2_pinball_score(y, search.predict(X), alpha=0.9)


@pytest.mark.parametrize(
    ("params", "error", "word"),
    [
        ({"quantile": 1.0}, ValueError, "between 0 and 1"),
        ({"quantile": [0.9, 0.1]}, ValueError, "ascending"),
        ({"quantile": []}, ValueError, "ascending"),
        ({"epsilon": 0.1}, ValueError, "no epsilon"),
    ],
)
def test_refusals_say_what_is_wrong(params, error, word):
    X, y, _ = rows()
    with pytest.raises(error, match=word):
        LinearSVR(loss="quantile", **params).fit(X, y)
    for estimator in (LinearSVR, KernelSVR):
        with pytest.raises(TypeError, match="sample_epsilon"):
            estimator(loss="quantile").fit(X, y, sample_epsilon=np.ones(90))
    with pytest.raises(ValueError, match="two-sided"):
        DualTerms(y, two_sided=True, curvature=0.5, below=0.5)


def test_several_quantiles_are_not_exported():
    pytest.importorskip("onnx")
    X, y, _ = rows()
    svr = LinearSVR(loss="quantile", quantile=[0.1, 0.9]).fit(X, y)
    with pytest.raises(TypeError, match="several quantiles"):
        maxmargin.to_onnx(svr)
