"""Priors, fixed and signed weights of linear estimators: every method finds the same optimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference_optima.problems import solve_binary_prior_qp

from maxmargin import GaussianPrior, LinearSVC, MeasureSVC, RankSVM, svc_path
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton

N, D, C = 60, 6, 0.3


def data(seed=0, n=N, d=D):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    root = rng.normal(size=(d, d))
    return X, y, root @ root.T + 0.3 * np.eye(d), rng.normal(size=d)


def blocks_of(S):
    A, B = S[:2, :2], S[2:, 2:]
    whole = np.zeros_like(S)
    whole[:2, :2], whole[2:, 2:] = A, B
    return [A, B], whole


def priors(S, m):
    """The same kinds of covariance in every form, each with its matrix."""
    diagonal = np.diagonal(S)
    parts, whole = blocks_of(S)
    return {
        "center": (GaussianPrior(m), np.eye(D)),
        "number": (GaussianPrior(m, variance=2.5), 2.5 * np.eye(D)),
        "diagonal": (GaussianPrior(m, variance=diagonal), np.diag(diagonal)),
        "strength": (GaussianPrior(m, precision=list(1.0 / diagonal)), np.diag(diagonal)),
        "dense": (GaussianPrior(m, covariance=S), S),
        "precision": (GaussianPrior(m, precision=np.linalg.inv(S)), S),
        "blocks": (GaussianPrior(m, covariance=parts), whole),
        "precision blocks": (GaussianPrior(m, precision=[np.linalg.inv(A) for A in parts]), whole),
    }


SOLVERS = ["auto", CuttingPlane(), DualCoordinate(), Newton()]
KINDS = list(priors(*data()[2:]))


def agrees(svc, best, w, tol=1e-6):
    assert svc.converged_
    assert svc.certificate_ == "exact"
    assert svc.lower_bound_ <= best + 1e-8 * abs(best)
    assert best <= svc.objective_ + 1e-8 * abs(best)
    assert svc.objective_ - svc.lower_bound_ <= tol * svc.objective_
    np.testing.assert_allclose(svc.coef_.ravel(), w, atol=2e-2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s if s == "auto" else type(s).__name__)
def test_every_form_of_a_prior(kind, solver):
    X, y, S, m = data()
    prior, cov = priors(S, m)[kind]
    best, w, b = solve_binary_prior_qp(X, y, C, cov, m)
    svc = LinearSVC(C=C, tol=1e-6, prior=prior, solver=solver, loss="hinge").fit(X, y)
    agrees(svc, best, w)
    assert svc.intercept_[0] == pytest.approx(b, abs=2e-2)
    # objective_ is F of the user-space weights w, with the prior
    gap = svc.coef_[0] - m
    F = 0.5 * gap @ np.linalg.solve(cov, gap) + 0.5 * svc.intercept_[0] ** 2
    F += C * np.maximum(0.0, 1.0 - y * svc.decision_function(X)).sum()
    assert svc.objective_ == pytest.approx(F, rel=1e-9)
    assert svc.history_[-1]["objective"] == pytest.approx(F, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_fixed_weights_condition_the_prior(kind):
    X, y, S, m = data(1)
    prior, cov = priors(S, m)[kind]
    fixed = {1: 0.4, 4: -0.2}
    best, w, _ = solve_binary_prior_qp(X, y, C, cov, m, fixed=fixed)
    svc = LinearSVC(C=C, tol=1e-6, prior=prior, fixed=fixed, loss="hinge").fit(X, y)
    agrees(svc, best, w)
    assert svc.coef_[0, 1] == 0.4
    assert svc.coef_[0, 4] == -0.2


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.01, 0.3, 10.0]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["auto", CuttingPlane(), DualCoordinate()]),
)
def test_random_problems_with_everything(seed, C, centered, sparse, solver):
    """Blocks, fixed weights, and signed weights with a mean on either side of their bound."""
    rng = np.random.default_rng(seed)
    X, y, S, m = data(seed, n=25)
    cov = np.diag(rng.uniform(0.2, 3.0, D))
    cov[4:, 4:] = S[4:, 4:]
    signs = np.array([1.0, -1.0, 0.0, rng.choice([-1.0, 0.0, 1.0]), 0.0, 0.0])
    fixed = {int(rng.integers(2, 6)): float(rng.normal())} if rng.random() < 0.5 else {}
    for k in fixed:
        signs[k] = 0.0
    m = m if centered else np.zeros(D)
    best, _, _ = solve_binary_prior_qp(X, y, C, cov, m, signs=signs, fixed=fixed)
    prior = GaussianPrior(m, covariance=[*cov.diagonal()[:4, None, None], cov[4:, 4:]])
    svc = LinearSVC(
        C=C,
        tol=1e-5,
        solver=solver,
        prior=prior,
        fixed=fixed,
        nonnegative=list(np.flatnonzero(signs > 0)),
        nonpositive=list(np.flatnonzero(signs < 0)),
        loss="hinge",
    ).fit(sp.csr_matrix(X) if sparse else X, y)
    slack = 1e-7 * abs(best) + 1e-9
    assert svc.lower_bound_ <= best + slack
    assert best <= svc.objective_ + slack
    assert svc.converged_
    assert (signs * svc.coef_[0] >= 0.0).all()


def test_signs_and_floors_matter():
    X, y, _, m = data(2)
    signs = np.array([1.0, 1.0, 1.0, -1.0, 0.0, -1.0])
    _, free, _ = solve_binary_prior_qp(X, y, C, np.eye(D), m)
    _, w, _ = solve_binary_prior_qp(X, y, C, np.eye(D), m, signs=signs)
    assert (signs * free < -0.05).any()
    svc = LinearSVC(
        C=C,
        tol=1e-7,
        prior=GaussianPrior(m),
        nonnegative=[0, 1, 2],
        nonpositive=[3, 5],
        loss="hinge",
    ).fit(X, y)
    np.testing.assert_allclose(svc.coef_[0], w, atol=1e-2)
    assert (svc.coef_[0][(signs != 0.0) & (np.abs(w) < 1e-9)] == 0.0).all()  # exactly zero


@pytest.mark.parametrize("kind", KINDS)
def test_the_center_is_recovered_when_there_is_nothing_to_learn(kind):
    X, y, S, m = data(3)
    prior, _ = priors(S, m)[kind]
    svc = LinearSVC(C=1e-9, prior=prior, tol=1e-3, loss="hinge").fit(X, y)
    np.testing.assert_allclose(svc.coef_[0], m, atol=1e-6)


def test_the_plain_prior_is_none_to_the_bit():
    X, y, _, _ = data(4)
    plain = LinearSVC(C=C, loss="hinge").fit(X, y)
    for prior in (GaussianPrior(), GaussianPrior(np.zeros(D), variance=1.0)):
        svc = LinearSVC(C=C, prior=prior, loss="hinge").fit(X, y)
        assert (svc.coef_ == plain.coef_).all()
        assert (svc.objective_, svc.lower_bound_) == (plain.objective_, plain.lower_bound_)
    matrix = LinearSVC(C=C, prior=GaussianPrior(covariance=np.eye(D)), loss="hinge").fit(X, y)
    assert matrix.objective_ == pytest.approx(plain.objective_, rel=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_strength_by_feature_scales_it(loss):
    X, y, S, _ = data(5)
    t = np.sqrt(np.diagonal(S))
    by_prior = LinearSVC(C=C, loss=loss, tol=1e-7, prior=GaussianPrior(variance=t**2)).fit(X, y)
    scaled = LinearSVC(C=C, loss=loss, tol=1e-7).fit(X * t, y)
    assert by_prior.objective_ == pytest.approx(scaled.objective_, rel=1e-6)
    np.testing.assert_allclose(by_prior.coef_[0], t * scaled.coef_[0], atol=1e-2)


@pytest.mark.parametrize("multi_class", ["crammer_singer", "ovr"])
def test_several_classes_have_a_center_each(multi_class):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(90, 4)), rng.integers(0, 3, 90)
    X[np.arange(90), y] += 1.0
    params = {"multi_class": multi_class, "tol": 1e-6}
    old = LinearSVC(C=C, **params, loss="hinge").fit(X[:60], y[:60])
    nothing = LinearSVC(C=1e-9, prior=GaussianPrior.around(old), **params, loss="hinge").fit(X, y)
    np.testing.assert_allclose(nothing.coef_, old.coef_, atol=1e-6)
    np.testing.assert_allclose(nothing.intercept_, old.intercept_, atol=1e-6)
    # one variance for all classes is equivalent to scaling the feature
    t = np.array([0.5, 2.0, 1.0, 3.0])
    by_prior = LinearSVC(C=C, prior=GaussianPrior(variance=t**2), **params, loss="hinge").fit(X, y)
    scaled = LinearSVC(C=C, **params, loss="hinge").fit(X * t, y)
    assert by_prior.objective_ == pytest.approx(scaled.objective_, rel=1e-5)
    held = LinearSVC(
        C=C, fixed={0: [0.1, 0.2, -0.3], 2: 0.0}, nonnegative=[1], **params, loss="hinge"
    ).fit(X, y)
    np.testing.assert_array_equal(held.coef_[:, 0], [0.1, 0.2, -0.3])
    assert (held.coef_[:, 2] == 0.0).all()
    assert (held.coef_[:, 1] >= 0.0).all()
    assert held.converged_


def test_the_intercept_has_a_center_and_may_be_free():
    X, y, S, m = data(7)
    best, w, b = solve_binary_prior_qp(X, y, C, S, m, b0=2.0, scaling=3.0)
    prior = GaussianPrior(m, covariance=S, intercept_mean=2.0)
    svc = LinearSVC(C=C, tol=1e-7, intercept_scaling=3.0, prior=prior, loss="hinge").fit(X, y)
    agrees(svc, best, w)
    assert svc.intercept_[0] == pytest.approx(b, abs=1e-2)
    # an unpenalized intercept is the limit of a weak prior on it
    best, w, b = solve_binary_prior_qp(X, y, C, S, m, scaling=1e5)
    for kind, signs in (("dense", None), ("diagonal", [0])):
        prior, cov = priors(S, m)[kind]
        asked = np.zeros(D)
        asked[signs or []] = 1.0
        best, w, b = solve_binary_prior_qp(X, y, C, cov, m, scaling=1e5, signs=asked)
        free = LinearSVC(
            C=C, tol=1e-6, penalize_intercept=False, prior=prior, nonnegative=signs, loss="hinge"
        ).fit(X, y)
        assert free.converged_
        assert free.objective_ == pytest.approx(best, rel=1e-5)
        assert free.intercept_[0] == pytest.approx(b, abs=2e-2)


def test_warm_starts_and_paths_keep_the_prior():
    X, y, S, m = data(8)
    prior = GaussianPrior(m, covariance=S)
    cold = LinearSVC(C=0.5, tol=1e-6, prior=prior, loss="hinge").fit(X, y)
    warm = LinearSVC(C=0.25, tol=1e-6, prior=prior, warm_start=True, loss="hinge").fit(X, y)
    warm.set_params(C=0.5).fit(X, y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
    path = svc_path(X, y, [0.1, 0.5], tol=1e-6, prior=prior, nonnegative=None, loss="hinge")
    assert path[1].objective_ == pytest.approx(cold.objective_, rel=2e-6)


def test_measures_and_rankings():
    X, y, S, m = data(9)
    best, w, _ = solve_binary_prior_qp(
        X, y, C, np.diag(np.diagonal(S)), m, signs=np.eye(D)[1], fixed={0: 0.3}
    )
    prior = GaussianPrior(m, variance=np.diagonal(S))
    svc = MeasureSVC("error", C=C, tol=1e-6, prior=prior, fixed={0: 0.3}, nonnegative=[1])
    agrees(svc.fit(X, y), best, w)
    for est in (MeasureSVC("f1", C=1e-9, prior=prior), MeasureSVC("roc_auc", C=1e-9, prior=prior)):
        np.testing.assert_allclose(est.fit(X, y).coef_[0], m, atol=1e-5)
    rank = RankSVM(1e-9, prior=prior).fit(X, y)
    np.testing.assert_allclose(rank.coef_, m, atol=1e-4)
    t = np.sqrt(np.diagonal(S))
    one = RankSVM(1e-3, tol=1e-5, prior=GaussianPrior(variance=t**2), nonpositive=[2]).fit(X, y)
    other = RankSVM(1e-3, tol=1e-5, nonpositive=[2]).fit(X * t, y)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-4)
    assert one.coef_[2] <= 0.0


def test_names_of_features():
    pd = pytest.importorskip("pandas")
    X, y, _, _ = data(10)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    by_name = LinearSVC(
        C=C, fixed={"b": 0.5}, nonnegative=["a"], nonpositive=["f"], loss="hinge"
    ).fit(frame, y)
    by_index = LinearSVC(C=C, fixed={1: 0.5}, nonnegative=[0], nonpositive=[5], loss="hinge").fit(
        X, y
    )
    assert (by_name.coef_ == by_index.coef_).all()
