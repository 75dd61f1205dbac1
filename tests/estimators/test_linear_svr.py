"""LinearSVR takes scikit-learn's place: its law, its optimum, its data; every bound true."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVR as ScikitSVR
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.reference_optima.problems import solve_regression_qp

from maxmargin import GaussianPrior, LinearSVR
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton
from maxmargin.testing import regression_objective


@parametrize_with_checks(
    [
        LinearSVR(),
        LinearSVR(penalize_intercept=False, epsilon=0.1),
        LinearSVR(loss="squared_epsilon_insensitive", n_jobs=2),
    ]
)
def test_scikit_learn_law(estimator, check):
    check(estimator)


def rows(n=90, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = 3.0 + X @ rng.normal(size=d) + rng.standard_t(2, size=n)
    return X, y, rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.1), rng.uniform(0.0, 1.0, n)


solvers = pytest.mark.parametrize(
    "solver", ["auto", CuttingPlane(), DualCoordinate(), Newton()], ids=lambda s: type(s).__name__
)


@solvers
@pytest.mark.parametrize("C", [0.02, 2.0])
@pytest.mark.parametrize("own", [False, True], ids=["common", "own tubes"])
def test_the_optimum_of_an_independent_qp(solver, C, own):
    X, y, weight, width = rows()
    best, _ = solve_regression_qp(
        X, y, C, width if own else 0.3, weight=weight, intercept_scaling=2.0
    )
    svr = LinearSVR(C, tol=1e-5, epsilon=0.3, intercept_scaling=2.0, solver=solver)
    svr.fit(X, y, weight, sample_epsilon=width if own else None)
    assert svr.converged_
    assert svr.lower_bound_ <= best * (1.0 + 1e-9)
    assert best <= svr.objective_ * (1.0 + 1e-9)
    assert svr.objective_ == pytest.approx(
        regression_objective(
            svr.coef_, svr.intercept_[0], X, y, C, width if own else 0.3, weight, 2.0
        ),
        rel=1e-9,
    )


@pytest.mark.parametrize("solver", ["auto", CuttingPlane(), Newton()])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("C", [0.02, 2.0])
def test_an_intercept_that_is_not_penalized(solver, shift, C):
    X, y, weight, width = rows(seed=1)
    y = y + shift
    best, _ = solve_regression_qp(X, y, C, width, weight=weight, penalize_intercept=False)
    svr = LinearSVR(C, tol=1e-5, penalize_intercept=False, solver=solver)
    svr.fit(X, y, weight, sample_epsilon=width)
    assert svr.converged_
    assert svr.lower_bound_ <= best * (1.0 + 1e-8)
    assert best <= svr.objective_ * (1.0 + 1e-8)


def test_the_bound_of_a_free_intercept_is_true():
    # a lower bound that gives away too little would lie above the optimum as soon as it is stopped early
    X, y, weight, width = rows(seed=2)
    best, _ = solve_regression_qp(X, y, 1.0, width, weight=weight, penalize_intercept=False)
    for solver in (CuttingPlane(), Newton()):
        for stop in range(1, 8):
            svr = LinearSVR(penalize_intercept=False, max_iter=stop, solver=solver, tol=1e-9)
            svr.fit(X, y, weight, sample_epsilon=width)
            assert svr.lower_bound_ <= best * (1.0 + 1e-8)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("epsilon", [0.0, 5.0])
def test_the_optimum_of_scikit_learn(loss, epsilon):
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    squared = loss.startswith("squared")
    theirs = ScikitSVR(C=0.5, loss=loss, epsilon=epsilon, dual=True, max_iter=200_000, tol=1e-8)
    theirs.fit(X, y)
    F = regression_objective(
        theirs.coef_, theirs.intercept_[0], X, y, 0.5, epsilon, squared=squared
    )
    ours = LinearSVR(0.5, loss=loss, epsilon=epsilon, tol=1e-5).fit(X, y)
    assert ours.lower_bound_ <= F * (1.0 + 1e-9)
    assert ours.objective_ <= F * (1.0 + 1e-5)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.predict(X).shape == theirs.predict(X).shape


def test_storage_threads_and_designs_make_no_difference():
    X, y, weight, _ = rows(300)
    plain = LinearSVR(tol=1e-4, solver=DualCoordinate()).fit(X, y, weight)
    sparse = LinearSVR(tol=1e-4, solver=DualCoordinate()).fit(sp.csr_matrix(X), y, weight)
    assert sparse.objective_ == pytest.approx(plain.objective_, rel=1e-4)
    threads = LinearSVR(tol=1e-4, n_jobs=2, solver=DualCoordinate()).fit(X, y, weight)
    assert threads.coef_.tobytes() == plain.coef_.tobytes()

    class Rows:
        """A design that shows no rows."""

        shape, nnz = X.shape, X.size

        def dot(self, W, lo, hi):
            return X[lo:hi] @ W

        def accumulate(self, coef, lo, hi, out):
            out += X[lo:hi].T @ coef

    lazy = LinearSVR(tol=1e-4).fit(Rows(), y, weight)
    assert lazy.converged_
    assert lazy.objective_ == pytest.approx(plain.objective_, rel=2e-4)
    np.testing.assert_allclose(lazy.predict(Rows()), lazy.predict(X))


def test_a_data_set_on_disk(tmp_path):
    import maxmargin.data as data

    X, y, weight, width = rows(200)
    target = np.round(3.0 * y)
    data.write(
        tmp_path / "set",
        [(X[:120], target[:120], weight[:120]), (X[120:], target[120:], weight[120:])],
    )
    held = data.open(tmp_path / "set")
    here = LinearSVR(tol=1e-4).fit(X, target, weight)
    there = LinearSVR(tol=1e-4).fit(held)
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-4)
    own = LinearSVR(tol=1e-4, penalize_intercept=False).fit(held, sample_epsilon=width)
    best, _ = solve_regression_qp(X, target, 1.0, width, weight=weight, penalize_intercept=False)
    assert own.lower_bound_ <= best * (1.0 + 1e-8)
    assert best <= own.objective_ * (1.0 + 1e-8)


def test_warm_starts_save_epochs_and_keep_the_bounds():
    X, y, weight, _ = rows(2000, 8, seed=3)
    warm = LinearSVR(0.1, tol=1e-4, epsilon=0.2, warm_start=True, solver=DualCoordinate())
    first = warm.fit(X, y, weight).n_iter_
    again = warm.fit(X, y, weight)
    assert again.n_iter_ < first
    changed = y + np.random.default_rng(0).normal(size=len(y))  # other targets in their place
    best = LinearSVR(0.1, tol=1e-6, epsilon=0.2, solver=Newton()).fit(X, changed, weight)
    warm.fit(X, changed, weight)
    assert warm.converged_
    assert warm.lower_bound_ <= best.objective_
    assert best.lower_bound_ <= warm.objective_


def test_priors_and_signs():
    X, y, weight, _ = rows(seed=4)
    free = LinearSVR(epsilon=0.2, tol=1e-6, prior=GaussianPrior(variance=1e6)).fit(X, y, weight)
    assert free.converged_
    center = LinearSVR(1e-6, epsilon=0.2, tol=1e-6, prior=GaussianPrior(mean=free.coef_))
    np.testing.assert_allclose(center.fit(X, y, weight).coef_, free.coef_, atol=1e-3)
    signed = LinearSVR(
        epsilon=0.2, tol=1e-6, nonnegative=[0], nonpositive=[1, 2], fixed={3: 0.5}
    ).fit(X, y, weight)
    assert signed.converged_
    assert signed.coef_[0] >= 0.0
    assert (signed.coef_[1:3] <= 0.0).all()
    assert signed.coef_[3] == 0.5
    plain = LinearSVR(
        epsilon=0.2, tol=1e-6, penalize_intercept=False, prior=GaussianPrior(mean=2.0)
    ).fit(X, y, weight)
    moved, _ = solve_regression_qp(
        X, y - X @ np.full(5, 2.0), 1.0, 0.2, weight=weight, penalize_intercept=False
    )
    assert plain.lower_bound_ <= moved * (1.0 + 1e-8)
    assert moved <= plain.objective_ * (1.0 + 1e-8)


def test_frames_clones_pickles_and_pipelines():
    X, y, _, _ = rows()
    frame = pd.DataFrame(X, columns=list("abcde"))
    svr = LinearSVR(epsilon=0.1).fit(frame, y)
    assert svr.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(svr)).predict(frame), svr.predict(frame)
    )
    assert clone(svr).get_params() == svr.get_params()
    assert make_pipeline(StandardScaler(), LinearSVR()).fit(X, y).score(X, y) > 0.2


@pytest.mark.parametrize(
    ("params", "fit", "word"),
    [
        ({"loss": "huber"}, {}, "epsilon_insensitive"),
        ({"epsilon": -1.0}, {}, "epsilon"),
        ({}, {"sample_epsilon": np.ones(3)}, r"sample_epsilon has shape \(3,\); expected \(90,\)"),
        ({}, {"sample_epsilon": np.full(90, np.nan)}, "number 0 is nan"),
        ({}, {"sample_epsilon": np.full(90, -1.0)}, "finite and nonnegative; number 0 is -1.0"),
        ({}, {"sample_weight": np.zeros(90)}, "non-zero"),
        ({"intercept_scaling": 0.0}, {}, "intercept_scaling"),
    ],
)
def test_refusals_say_what_is_wrong(params, fit, word):
    X, y, _, _ = rows()
    with pytest.raises(ValueError, match=word):
        LinearSVR(**params).fit(X, y, **fit)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("solver", ["auto", Newton()])
def test_a_constant_within_epsilon_of_all_targets_is_optimal(loss, epsilon, solver):
    r = np.random.default_rng(0)
    X, y = r.normal(size=(30, 4)), 3.7 + epsilon * r.uniform(-0.9, 0.9, 30)
    y[0], weight = 9.0, np.append(0.0, np.ones(29))
    svr = LinearSVR(loss=loss, epsilon=epsilon, penalize_intercept=False, solver=solver)
    svr.fit(X, y, weight)
    assert (svr.objective_, svr.lower_bound_, svr.gap_, svr.stop_reason_) == (0.0, 0.0, 0.0, "gap")
    assert svr.converged_
    assert np.abs(svr.predict(X) - y)[1:].max() <= epsilon


def test_no_constant_is_optimal_if_one_target_is_out_of_reach():
    X, y = np.eye(4), np.array([0.0, 0.1, 0.15, 0.202])
    svr = LinearSVR(epsilon=0.1, penalize_intercept=False).fit(X, y)
    # two weights of 0.001, so that targets 0.202 apart are within 0.1
    assert svr.lower_bound_ <= 1e-6 <= svr.objective_ * (1.0 + 1e-12)
    assert svr.converged_
