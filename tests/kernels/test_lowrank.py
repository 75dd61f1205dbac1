"""Kernel problems as linear ones: the map is the problem itself, landmarks a part of it; every bound true."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC
from tests.reference_optima.problems import solve_binary_qp, solve_multiclass_qp

import maxmargin.data
from maxmargin import KernelSVC, LinearSVC, svc_path
from maxmargin.data import KernelDesign
from maxmargin.estimators.kernel import lowrank as _kernel_lowrank
from maxmargin.kernels import RBF, EmpiricalMap, Nystrom, NystromMap, Polynomial
from maxmargin.kernels import Linear as LinearKernel

RBF_ONLY = {"kernel": "rbf", "gamma": 0.7}
KERNELS = {
    "rbf": RBF_ONLY,
    "poly": {"kernel": "poly", "gamma": 0.4, "degree": 3, "coef0": 0.5},
    "linear": {"kernel": "linear"},
}


def blobs(n=60, d=3, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    X[:, 0] += y + 0.3 * np.sin(3 * X[:, 1])
    return X, y, rng.uniform(0.2, 2.0, n)


def matrix(X, Z, kernel, gamma=1.0, **other):
    params = {} if kernel == "linear" else {"gamma": gamma, **other}
    return pairwise_kernels(X, Z, metric=kernel, **params)


def root(K):
    """Features whose inner products are K."""
    S, U = np.linalg.eigh(K)
    return U * np.sqrt(np.maximum(S, 0.0))


def restricted(X, B, kernel):
    """Features of functions of the rows B, by a pseudo-inverse."""
    S, U = np.linalg.eigh(matrix(B, B, **kernel))
    kept = S / S[-1] > 1e-11
    return matrix(X, B, **kernel) @ (U[:, kept] / np.sqrt(S[kept]))


def objective(model, X, y, weight, kernel):
    """F of the function that the model holds, written out again."""
    own = X[model.support_]
    beta = model.dual_coef_
    norm = 0.5 * np.einsum("ki,ij,kj->", beta, matrix(own, own, **kernel), beta)
    scores = matrix(X, own, **kernel) @ beta.T + model.intercept_
    if scores.shape[1] == 1:
        signs = np.where(y == model.classes_[1], 1.0, -1.0)
        loss = np.maximum(0.0, 1.0 - signs * scores[:, 0])
    else:
        codes = np.searchsorted(model.classes_, y)
        gaps = 1.0 + scores - scores[np.arange(len(y)), codes][:, None]
        gaps[np.arange(len(y)), codes] = 0.0
        loss = gaps.max(axis=1)
    return norm + model.C * (weight * loss).sum()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("free", [True, False], ids=["intercept", "none"])
def test_the_map_has_the_optimum_of_a_dense_qp_and_of_svc(name, free):
    X, y, weight = blobs()
    kernel = KERNELS[name]
    best, _ = solve_binary_qp(
        root(matrix(X, X, **kernel)), 2.0 * y - 1.0, 1.5, weight, free, penalize_intercept=False
    )
    model = KernelSVC(1.5, method="map", fit_intercept=free, tol=1e-6, **kernel).fit(X, y, weight)
    assert model.converged_
    assert model.certificate_ == "exact"
    assert model.lower_bound_ <= best * (1 + 1e-8)
    assert best <= model.objective_ * (1 + 1e-8)
    assert model.objective_ == pytest.approx(objective(model, X, y, weight, kernel), rel=1e-8)
    if free:
        svc = SVC(C=1.5, tol=1e-8, **kernel).fit(X, y, weight)
        np.testing.assert_allclose(model.decision_function(X), svc.decision_function(X), atol=0.02)


@pytest.mark.parametrize("free", [True, False], ids=["intercept", "none"])
def test_the_map_of_several_classes_has_the_optimum_of_a_dense_qp(free):
    X, y, weight = blobs(n_classes=3)
    best, _ = solve_multiclass_qp(
        root(matrix(X, X, **RBF_ONLY)), y, 2.0, None, weight, 3, free, penalize_intercept=False
    )
    model = KernelSVC(
        2.0, method="map", multi_class="crammer_singer", fit_intercept=free, tol=1e-5, **RBF_ONLY
    ).fit(X, y, weight)
    assert model.converged_
    assert model.certificate_ == "exact"
    assert model.lower_bound_ <= best * (1 + 1e-8)
    assert best <= model.objective_ * (1 + 1e-8)
    assert model.objective_ == pytest.approx(objective(model, X, y, weight, RBF_ONLY), rel=1e-8)


problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "n": st.integers(4, 40),
        "log_C": st.floats(-3, 4),
        "log_tol": st.floats(-9, -1),
        "gamma": st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
        "twice": st.booleans(),
        "single": st.booleans(),
        "free": st.booleans(),
        "k": st.integers(1, 40),
    }
)


def _optimum(*problem, **options):
    """By an interior-point method; problems on which it proves too little are not tried."""
    try:
        return solve_binary_qp(*problem, **options)
    except ArithmeticError:
        reject()


@settings(max_examples=100, deadline=None)
@given(problems)
def test_no_bound_is_ever_violated(case):
    X, y, weight = blobs(case["n"], 2, case["seed"])
    if case["twice"]:  # rows that occur twice
        X = np.concatenate([X, X[::2]])
        y, weight = np.concatenate([y, y[::2]]), np.concatenate([weight, weight[::2]])
    kernel, C, free = {"kernel": "rbf", "gamma": case["gamma"]}, 10.0 ** case["log_C"], case["free"]
    params = {"tol": 10.0 ** case["log_tol"], "fit_intercept": free, **kernel}
    best, _ = _optimum(
        root(matrix(X, X, **kernel)), 2.0 * y - 1.0, C, weight, free, penalize_intercept=False
    )
    slack = 1e-7 * best  # of the reference
    model = KernelSVC(C, method="map", **params).fit(X, y, weight)
    assert model.lower_bound_ <= best + slack
    assert best - slack <= model.objective_
    if case["single"]:  # features in single precision, which are for large data
        _kernel_lowrank.MANY, before = 0, _kernel_lowrank.MANY
    try:
        model = KernelSVC(C, method=Nystrom(case["k"]), **params).fit(X, y, weight)
    finally:
        if case["single"]:
            _kernel_lowrank.MANY = before
    inside, _ = _optimum(
        restricted(X, X[model.support_], kernel), 2.0 * y - 1.0, C, weight, free,
        penalize_intercept=False,
    )  # fmt: skip
    assert model.certificate_ == "restricted"
    assert (model.lower_bound_, model.gap_, model.converged_) == (-np.inf, np.inf, False)
    assert best - slack <= model.objective_
    assert model.restricted_lower_bound_ <= inside * (1 + 1e-7)
    assert inside * (1 - 1e-7) <= model.objective_
    assert model.objective_ == pytest.approx(objective(model, X, y, weight, kernel), rel=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_all_rows_as_landmarks_are_the_map(name):
    X, y, weight = blobs(80)
    kernel = KERNELS[name]
    one = KernelSVC(1.0, method="map", tol=1e-5, **kernel).fit(X, y, weight)
    other = KernelSVC(1.0, method=Nystrom(80), tol=1e-5, **kernel).fit(X, y, weight)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-4)
    assert other.restricted_lower_bound_ == pytest.approx(one.lower_bound_, rel=1e-4)


def test_landmarks_that_depend_on_others_are_dropped():
    X, y, _ = blobs(200, 3)
    model = KernelSVC(method=Nystrom(100), kernel="linear").fit(X, y)
    assert model.n_landmarks_ == 3
    assert len(model.support_) == 3


@pytest.mark.parametrize("kind", ["random", "kmeans++", np.arange(0, 200, 5)], ids=str)
def test_landmarks_are_training_rows_and_features_are_orthonormal_on_them(kind):
    X, y, _ = blobs(200)
    model = KernelSVC(method=Nystrom(40, landmarks=kind), gamma=0.5).fit(X, y)
    assert len(model.support_) == model.n_landmarks_ <= 40
    features = NystromMap(RBF(0.5), X[model.support_])
    Z = features.transform(X[model.support_])
    np.testing.assert_allclose(
        Z @ Z.T, matrix(X[model.support_], X[model.support_], "rbf", 0.5), atol=1e-6
    )
    again = KernelSVC(method=Nystrom(40, landmarks=kind), gamma=0.5).fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, again.dual_coef_)


@pytest.mark.parametrize("kernel", [RBF(0.3), Polynomial(0.5, 1.0, 2), LinearKernel()], ids=repr)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_the_design_multiplies_as_its_features_do(kernel, sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 4)) * (rng.random((2500, 4)) < 0.7)
    X = sp.csr_matrix(X) if sparse else X
    features = NystromMap(kernel, X[:30])
    design, Z = KernelDesign(features, X), features.transform(X)
    assert design.shape == Z.shape
    for shape in ((), (3,)):
        W, coef = rng.normal(size=(Z.shape[1], *shape)), rng.normal(size=(700, *shape))
        coef[::3] = 0.0
        np.testing.assert_allclose(design.dot(W, 900, 2300), Z[900:2300] @ W, atol=1e-6)
        out = np.ones((Z.shape[1], *shape))
        design.accumulate(coef, 1000, 1700, out)
        np.testing.assert_allclose(out, 1.0 + Z[1000:1700].T @ coef, atol=1e-6)
    np.testing.assert_array_equal(design.block(5, 9).X, design.take(np.arange(5, 9)).X)
    assert design.largest_square >= (Z**2).sum(axis=1).max() * (1 - 1e-9)


def test_rows_on_disk_give_the_bits_of_rows_in_memory(tmp_path):
    X, y, _ = blobs(3000)
    X = X.astype(np.float32)
    batches = [(X[lo : lo + 700], y[lo : lo + 700]) for lo in range(0, 3000, 700)]
    stored = maxmargin.data.write(tmp_path / "rows", batches, shard_bytes=10_000)
    features = NystromMap(RBF(0.5), X[:40])
    fits = [
        LinearSVC(C=0.1, penalize_intercept=False, loss="hinge").fit(
            KernelDesign(features, rows), y
        )
        for rows in (X, stored)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].lower_bound_ == fits[1].lower_bound_


def test_features_that_do_not_fit_are_never_stored():
    X, y, weight = blobs(4000)
    stored = KernelSVC(0.5, gamma=0.5, method=Nystrom(50), tol=1e-4).fit(X, y, weight)
    small = KernelSVC(0.5, gamma=0.5, method=Nystrom(50), tol=1e-4, memory=10**6)
    small.fit(X, y, weight)
    np.testing.assert_array_equal(stored.support_, small.support_)
    assert small.restricted_gap_ <= 1e-4
    assert stored.restricted_gap_ <= 1e-4
    assert small.objective_ == pytest.approx(stored.objective_, rel=2e-4)


@pytest.mark.parametrize("memory", [2**31, 10**5], ids=["stored", "computed"])
def test_any_number_of_threads_gives_the_same_bits(memory):
    X, y, weight = blobs(3000)
    models = [
        KernelSVC(0.5, gamma=0.5, method=Nystrom(30), memory=memory, n_jobs=jobs).fit(X, y, weight)
        for jobs in (None, 2, 7)
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.dual_coef_, models[0].dual_coef_)
        assert model.objective_ == models[0].objective_
        assert model.restricted_lower_bound_ == models[0].restricted_lower_bound_


def test_how_many_landmarks_there_are_is_a_rule():
    rule = Nystrom()
    assert rule.count(50, 2**31) == 50
    assert rule.count(50_000, 2**31) == 1000
    assert rule.count(10**6, 2**31) == 268
    assert rule.count(10**8, 2**31) == 100
    assert Nystrom(300).count(10**6, 2**31) == 300


def test_a_path_of_C_over_the_features():
    X, y, _ = blobs(600)
    features = NystromMap(RBF(0.5), X[:60])
    Z = features.transform(X)
    path = svc_path(Z, y, [0.1, 1.0, 10.0], penalize_intercept=False, loss="hinge")
    for svc in path:
        alone = KernelSVC(svc.C, gamma=0.5, method=Nystrom(landmarks=np.arange(60))).fit(X, y)
        assert svc.lower_bound_ <= alone.objective_ * (1 + 1e-9)
        assert alone.restricted_lower_bound_ <= svc.objective_ * (1 + 1e-9)


def test_a_kernel_that_is_none_has_no_lower_bound():
    X, y, _ = blobs(50)
    for method in ("map", Nystrom(20)):
        model = KernelSVC(kernel="sigmoid", gamma=0.3, coef0=-1.0, method=method).fit(X, y)
        assert (model.certificate_, model.lower_bound_) == ("measured", -np.inf)

    def claims(A, B):  # it does not say that it is none, but its values do
        return np.tanh(0.3 * A @ B.T - 1.0)

    model = KernelSVC(kernel=claims, method="map").fit(X, y)
    assert model.certificate_ == "measured"


@pytest.mark.parametrize(
    ("method", "word"),
    [
        (EmpiricalMap(max_rows=10), "EmpiricalMap"),
        (Nystrom(0), "n_landmarks"),
        (Nystrom(landmarks="best"), "kmeans"),
        (Nystrom(landmarks=[1000]), "training samples"),
    ],
)
def test_what_cannot_be_is_refused(method, word):
    X, y, _ = blobs(50)
    with pytest.raises(ValueError, match=word):
        KernelSVC(method=method).fit(X, y)
