"""Structured models with kernels: the same problem as a quadratic program of joint kernels, by every method.

With all rows in the basis, the bounds enclose the optimum of the joint kernel's problem, for compiled and
plain tasks, both rescalings and repeated rows. Predictions equal those of brute force with the joint kernel.
A landmark basis of all rows is the same problem, and a smaller basis is a restricted problem with a weaker
certificate.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from tests.nightly import first
from tests.reference_optima.problems import solve_reduced_qp
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin import StructuredSVM, StructuredSVMCV, structured_path
from maxmargin.kernels import EmpiricalMap, Nystrom, Polynomial
from maxmargin.solvers import CuttingPlane
from maxmargin.tasks import Chain, Enumerable, Graph, GraphLabeling, Task
from maxmargin.testing import check_kernel_inputs, structured_objective

KERNELS = {
    "poly": (
        {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
        lambda A, B: (0.5 * A @ B.T + 1.0) ** 2,
    ),
    "rbf": (
        {"kernel": "rbf", "gamma": 0.7},
        lambda A, B: np.exp(-0.7 * ((A[:, None] - B[None]) ** 2).sum(axis=2)),
    ),
    "linear": ({"kernel": "linear"}, lambda A, B: A @ B.T),
}


def chain_kernel(k, one, two, K=2, ends=True):
    """K((x, y), (x', y')) of chains, written out."""
    (x, y), (z, u) = one, two
    total = sum(
        k(x[[s]], z[[t]])[0, 0] for s in range(len(y)) for t in range(len(u)) if y[s] == u[t]
    )
    moves = list(itertools.pairwise(y)), list(itertools.pairwise(u))
    total += sum(a == b for a in moves[0] for b in moves[1])
    return total + (float(y[0] == u[0]) + float(y[-1] == u[-1]) if ends else 0.0)


def joint_optimum(k, X, Y, C, rescaling="margin", K=2, ends=True):
    """The optimum over all outputs, and the function that scores a pair there: from joint kernels alone."""
    pairs, offsets, blocks, factors = [], [], [], []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        for other in itertools.product(range(K), repeat=len(y)):
            delta = float(np.sum(np.asarray(other) != np.asarray(y)))
            pairs.append(((x, list(other)), (x, list(y))))
            offsets.append(delta)
            blocks.append(i)
            factors.append(1.0 if rescaling == "margin" else delta)

    def dot(a, b):
        return sum(
            s * t * chain_kernel(k, a[p], b[q], K, ends)
            for p, s in ((0, 1.0), (1, -1.0))
            for q, t in ((0, 1.0), (1, -1.0))
        )

    G = np.array([[f * g * dot(a, b) for b, g in zip(pairs, factors, strict=True)]
                  for a, f in zip(pairs, factors, strict=True)])  # fmt: skip
    values, vectors = np.linalg.eigh(G)
    there = values > 1e-12 * values[-1]
    planes = vectors[:, there] * np.sqrt(values[there])  # vectors with these inner products
    value, alpha = solve_reduced_qp(planes, offsets, np.full(len(X), C), blocks)

    def score(x, y):
        return sum(
            a * f * (chain_kernel(k, t, (x, y), K, ends) - chain_kernel(k, o, (x, y), K, ends))
            for a, f, (o, t) in zip(alpha, factors, pairs, strict=True)
            if a > 1e-12
        )

    return value, score


def chains(rng, n, length=2, d=2, K=2):
    Y = [rng.integers(0, K, length) for _ in range(n)]
    return [rng.normal(size=(length, d)) for _ in Y], Y


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_the_map_solves_the_problem_of_the_joint_kernel(name, rescaling):
    params, k = KERNELS[name]
    rng = np.random.default_rng(1)
    X, Y = chains(rng, 4)
    X[2][0] = X[0][1]  # a repeated row
    optimum, score = joint_optimum(k, X, Y, 0.8, rescaling)
    svm = StructuredSVM(
        Chain(2), 0.8, rescaling=rescaling, tol=1e-8, kernel_method="map", **params
    ).fit(X, Y)
    assert svm.certificate_ == "exact"
    assert svm.converged_
    assert svm.lower_bound_ <= optimum * (1 + 1e-9)
    assert optimum <= svm.objective_ * (1 + 1e-9)
    assert svm.objective_ == pytest.approx(optimum, rel=1e-7)
    new, _ = chains(rng, 20)
    for x, found in zip(new, svm.predict(new), strict=True):
        scores = {y: score(x, list(y)) for y in itertools.product(range(2), repeat=2)}
        assert scores[tuple(found)] == pytest.approx(max(scores.values()), abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(sorted(KERNELS)),
    C=st.sampled_from([0.01, 0.3, 5.0]),
    tol=st.sampled_from([0.3, 1e-2, 1e-5]),
    whole=st.booleans(),
)
def test_no_bound_is_violated(seed, name, C, tol, whole):
    params, k = KERNELS[name]
    X, Y = chains(np.random.default_rng(seed), 3)
    if whole:
        X = [np.round(x) for x in X]  # repeated rows
    try:
        optimum, _ = joint_optimum(k, X, Y, C)
    except ArithmeticError:  # the reference cannot prove its own optimum: skip this example
        reject()
    for method in ("map", Nystrom(3), Nystrom(100)):
        svm = StructuredSVM(Chain(2), C, tol=tol, kernel_method=method, **params).fit(X, Y)
        assert optimum <= svm.objective_ * (1 + 1e-8) + 1e-12
        assert svm.lower_bound_ <= optimum * (1 + 1e-8) + 1e-12
        if method == "map":
            assert svm.certificate_ == "exact"
            assert svm.converged_
            assert svm.gap_ <= tol
        else:
            assert svm.certificate_ == "restricted"
            assert not svm.converged_
            assert svm.lower_bound_ == -np.inf
            assert svm.gap_ == np.inf
            assert svm.restricted_gap_ <= tol
            assert svm.restricted_lower_bound_ <= svm.objective_ * (1 + 1e-12)


def test_landmarks_of_all_rows_are_the_map_and_fewer_cost_something():
    X, Y = chains(np.random.default_rng(2), 12, 3)
    params, _ = KERNELS["rbf"]
    fits = [
        StructuredSVM(Chain(2), 2.0, tol=1e-6, kernel_method=m, **params).fit(X, Y)
        for m in ("map", Nystrom(10**6), Nystrom(4))
    ]
    assert fits[1].objective_ == pytest.approx(fits[0].objective_, rel=1e-5)
    assert fits[2].objective_ > 1.01 * fits[0].objective_
    assert fits[2].kernel_features_.n_features == 4


@pytest.mark.parametrize("method", ["map", Nystrom(9)])
@pytest.mark.parametrize("gamma", [0.7, 1e-2, 1e-4])
def test_f_is_that_of_the_function_returned(method, gamma):
    """Checked with kernel values in double precision, also for rows so similar that there are few
    features."""
    X, Y = chains(np.random.default_rng(14), 12, 3)
    svm = StructuredSVM(Chain(2), 2.0, tol=1e-7, kernel="rbf", gamma=gamma, kernel_method=method)
    svm.fit(X, Y)
    features, task = svm.kernel_features_, Chain(2)
    inputs = [features(x) for x in X]
    task.setup(inputs, Y)
    loss = structured_objective(task, inputs, Y, svm.coef_, 2.0) - 0.5 * svm.coef_ @ svm.coef_
    split = 2 * features.n_features
    V, tail = svm.coef_[:split].reshape(-1, 2), svm.coef_[split:]
    F = 0.5 * (np.vdot(V, features(features.rows) @ V) + tail @ tail) + loss
    assert svm.objective_ == pytest.approx(F, rel=1e-8)


def test_a_linear_kernel_is_the_linear_model():
    X, Y = chains(np.random.default_rng(3), 10, 3)
    plain = StructuredSVM(Chain(2), tol=1e-7).fit(X, Y)
    kernel = StructuredSVM(Chain(2), tol=1e-7, kernel="linear").fit(X, Y)
    assert kernel.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert kernel.kernel_features_.n_features == 2  # as many rows as span the others
    sparse = StructuredSVM(Chain(2), tol=1e-7, kernel="linear").fit([csr_matrix(x) for x in X], Y)
    assert sparse.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert all(map(np.array_equal, plain.predict(X), kernel.predict(X)))


@pytest.mark.parametrize("method", ["map", Nystrom(5)])
def test_compiled_and_plain_tasks_agree(method):
    """TinyChain enumerates its outputs in Python, has another layout of weights, and no start or end
    features."""
    rng = np.random.default_rng(4)
    X, Y = chains(rng, 6, 3)
    params, k = KERNELS["poly"]
    plain = StructuredSVM(TinyChain(), 0.5, tol=1e-7, kernel_method=method, **params)
    plain.fit(X, [tuple(y) for y in Y])
    if method == "map":
        optimum, _ = joint_optimum(k, X, Y, 0.5, ends=False)
        assert plain.objective_ == pytest.approx(optimum, rel=1e-6)
    graphs = [Graph(x, [[0, 1], [1, 2]]) for x in X]  # a chain without start and end features
    graph = StructuredSVM(GraphLabeling(2), 0.5, tol=1e-7, kernel_method=method, **params)
    graph.fit(graphs, Y)
    assert graph.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert plain.kernel_features_.factor is not None
    assert graph.kernel_features_.factor is None
    new, _ = chains(rng, 20, 3)
    found = graph.predict([Graph(x, [[0, 1], [1, 2]]) for x in new])
    assert [tuple(y) for y in found] == plain.predict(new)


def test_candidates_and_classes():
    rng = np.random.default_rng(5)
    X = [rng.normal(size=2) for _ in range(60)]
    y = [int(x[0] * x[1] > 0) for x in X]  # not linearly separable
    svm = StructuredSVM(TinyMulticlass(), 10.0, kernel="poly", degree=2).fit(X, y)
    assert svm.score(X, y) > -0.1
    assert svm.certificate_ == "exact"
    assert StructuredSVM(TinyMulticlass(), 10.0).fit(X, y).score(X, y) < -0.3
    rows = [rng.normal(size=(3, 2)) for _ in range(40)]
    right = [int(np.abs(x[:, 0]).argmax()) for x in rows]  # needs a quadratic function
    choice = StructuredSVM(Enumerable(), 10.0, kernel="poly", degree=2).fit(rows, right)
    assert choice.score(rows, right) > -0.1
    assert StructuredSVM(Enumerable(), 10.0).fit(rows, right).score(rows, right) < -0.3


class Parity(Task):
    """A user-defined task: the label of a bag of rows, -1 or 1, by the sum of a function over its rows."""

    def setup(self, X, Y):
        self.d = X[0].shape[1]
        return self.d + 1

    def joint_feature(self, x, y):
        return 0.5 * y * np.append(x.sum(axis=0), 1.0)

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def inference(self, x, w):
        return max((-1, 1), key=lambda y: self.joint_feature(x, y) @ w)

    def loss_augmented_inference(self, x, y, w):
        return max((-1, 1), key=lambda z: self.loss(y, z) + self.joint_feature(x, z) @ w)

    def kernel_inputs(self, x):
        return x

    def with_kernel_inputs(self, x, rows):
        return rows


def test_a_users_task_in_plain_python():
    rng = np.random.default_rng(6)
    X = [rng.normal(size=(3, 2)) for _ in range(60)]
    y = [1 if np.prod(x, axis=1).sum() > 0 else -1 for x in X]
    check_kernel_inputs(Parity(), X[:3], y[:3])
    svm = StructuredSVM(Parity(), 5.0, kernel="poly", degree=2, n_jobs=2).fit(X, y)
    assert svm.score(X, y) > -0.1
    assert svm.certificate_ == "exact"
    # the binary problem with a sum of kernels, solved in another way
    k = Polynomial(gamma=svm.kernel_features_.kernel.gamma, degree=2)
    assert svm.kernel_features_.kernel == k


def test_words_of_certificates():
    X, Y = chains(np.random.default_rng(7), 8, 3)
    sigmoid = StructuredSVM(Chain(2), kernel="sigmoid", gamma=0.1).fit(X, Y)
    assert sigmoid.certificate_ == "measured"
    assert sigmoid.lower_bound_ == -np.inf
    assert not hasattr(sigmoid, "restricted_gap_")
    good = StructuredSVM(Chain(2), kernel=lambda A, B: (A @ B.T) ** 2).fit(X, Y)
    assert good.certificate_ == "exact"
    same = StructuredSVM(Chain(2), kernel="poly", gamma=1.0, degree=2).fit(X, Y)
    assert good.objective_ == pytest.approx(same.objective_, rel=1e-9)
    false = StructuredSVM(Chain(2), kernel=lambda A, B: 1.0 - (A @ B.T) ** 2).fit(X, Y)
    assert false.certificate_ == "measured"  # the undeclared property is detected
    triangles = [Graph(x, [[0, 1], [1, 2], [2, 0]]) for x in X]
    relaxed = StructuredSVM(GraphLabeling(2, inference="lp"), kernel="rbf").fit(triangles, Y)
    assert relaxed.certificate_ == "relaxed"
    assert relaxed.converged_
    few = StructuredSVM(Chain(2), kernel="rbf", kernel_method=Nystrom(3)).fit(X, Y)
    assert few.certificate_ == "restricted"
    assert few.kernel_method_ == "as asked"
    few.set_params(kernel=None).fit(X, Y)  # no state of the kernel remains
    assert few.certificate_ == "exact"
    assert few.kernel_features_ is None
    assert not hasattr(few, "restricted_gap_")


@pytest.mark.parametrize("method", ["map", Nystrom(2)])
def test_rows_of_zeros(method):
    """Only the rest of the joint feature remains."""
    _, Y = chains(np.random.default_rng(15), 6, 3)
    X = [np.zeros((3, 2)) for _ in Y]
    svm = StructuredSVM(Chain(2), tol=1e-6, kernel="linear", kernel_method=method).fit(X, Y)
    plain = StructuredSVM(Chain(2), tol=1e-6).fit(X, Y)
    assert svm.objective_ == pytest.approx(plain.objective_, rel=1e-5)
    assert all(map(np.array_equal, svm.predict(X), plain.predict(X)))


def test_cutting_planes_and_dual_coordinates_agree_under_a_kernel():
    X, Y = chains(np.random.default_rng(8), 20, 3)
    fits = [
        StructuredSVM(Chain(2), 0.5, tol=1e-5, kernel="rbf", solver=solver).fit(X, Y)
        for solver in ("auto", CuttingPlane())
    ]
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1e-4)


@pytest.mark.slow
def test_paths_grids_and_warm_starts():
    X, Y = chains(np.random.default_rng(9), 20, 3)
    for method in ("map", Nystrom(10)):
        params = {"kernel": "rbf", "kernel_method": method, "tol": 1e-4}
        path = structured_path(Chain(2), X, Y, [0.1, 1.0], **params)
        for svm, C in zip(path, [0.1, 1.0], strict=True):
            alone = StructuredSVM(Chain(2), C, **params).fit(X, Y)
            assert svm.objective_ == pytest.approx(alone.objective_, rel=3e-4)
            assert svm.certificate_ == alone.certificate_
            assert all(map(np.array_equal, svm.predict(X), alone.predict(X)))
        search = StructuredSVMCV(Chain(2), [0.1, 1.0], cv=2, **params).fit(X, Y)
        best = search.best_estimator_
        again = StructuredSVM(Chain(2), best.C, **params).fit(X, Y)
        assert best.objective_ == pytest.approx(again.objective_, rel=3e-4)
        assert search.score(X, Y) == pytest.approx(again.score(X, Y), abs=0.2)
        warm = StructuredSVM(Chain(2), 1.0, warm_start=True, **params).fit(X, Y)
        first = warm.n_iter_
        objective = warm.objective_
        warm.fit(X, Y)
        assert warm.n_iter_ <= first
        assert warm.objective_ <= objective * (1 + 1e-4)
        warm.set_params(kernel="poly").fit(X, Y)
        fresh = StructuredSVM(Chain(2), 1.0, **{**params, "kernel": "poly"}).fit(X, Y)
        assert warm.objective_ == pytest.approx(fresh.objective_, rel=1e-9)


def test_same_bits_for_any_number_of_workers():
    X, Y = chains(np.random.default_rng(10), 70, 3)
    fits = [
        StructuredSVM(Chain(2), 0.5, kernel="rbf", kernel_method=Nystrom(20), n_jobs=n).fit(X, Y)
        for n in (1, 3)
    ]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].objective_ == fits[1].objective_


class Deaf(TinyChain):
    """A task without the two kernel methods."""

    kernel_inputs = Task.kernel_inputs
    with_kernel_inputs = Task.with_kernel_inputs


def test_refusals():
    X, Y = chains(np.random.default_rng(11), 4)
    with pytest.raises(
        NotImplementedError, match=r"Deaf cannot use a kernel: define kernel_inputs"
    ):
        StructuredSVM(Deaf(), kernel="rbf")
    with pytest.raises(ValueError, match="nonnegative: weights of single features do not exist"):
        StructuredSVM(Chain(2), kernel="rbf", nonnegative=[0]).fit(X, Y)
    with pytest.raises(ValueError, match="more rows than max_rows=5"):
        StructuredSVM(Chain(2), kernel="rbf", kernel_method=EmpiricalMap(5)).fit(X, Y)
    svm = StructuredSVM(Chain(2), kernel="rbf").fit(X, Y)
    with pytest.raises(
        ValueError, match="rows of the inputs have 3 entries; the model was fitted on"
    ):
        svm.predict([np.ones((2, 3))])
    with pytest.raises(ValueError, match="different lengths"):
        StructuredSVM(Chain(2), kernel="rbf").fit([X[0], np.ones((2, 3))], Y[:2])
    with pytest.raises(ValueError, match="NaN or infinite values in the rows of input 1"):
        StructuredSVM(Chain(2), kernel="rbf").fit([X[0], np.full((2, 2), np.nan)], Y[:2])


# -- check_task on kernel tasks ----------------------------------------------------------------------


class Squares(Parity):
    """A joint feature that is not linear in the rows."""

    def joint_feature(self, x, y):
        return 0.5 * y * np.append((x**2).sum(axis=0), 1.0)


class Favourite(Parity):
    """Linear, but one column counts twice: not a function of inner products."""

    def joint_feature(self, x, y):
        psi = 0.5 * y * np.append(x.sum(axis=0), 1.0)
        psi[0] *= 2.0
        return psi


@pytest.mark.parametrize(
    ("task", "word"),
    [(Squares(), "not affine in the rows"), (Favourite(), "inner products of joint features")],
)
def test_the_check_finds_what_may_not_have_a_kernel(task, word):
    rng = np.random.default_rng(12)
    X, y = [rng.normal(size=(3, 2)) for _ in range(4)], [1, -1, 1, 1]
    with pytest.raises(AssertionError, match=word):
        check_kernel_inputs(task, X, y)


@pytest.mark.parametrize("edges", first(1, ["potts", "symmetric", "full"]))
def test_the_check_passes_what_may(edges):
    rng = np.random.default_rng(13)
    X, Y = chains(rng, 3, 3)
    check_kernel_inputs(Chain(2), X, Y)
    check_kernel_inputs(TinyChain(), X, [tuple(y) for y in Y])
    check_kernel_inputs(Enumerable(), X, [0, 1, 2])
    check_kernel_inputs(TinyMulticlass(), [x[0] for x in X], [0, 1, 2])
    graphs = [Graph(x, [[0, 1], [1, 2], [0, 2]], rng.normal(size=(3, 2))) for x in X]
    check_kernel_inputs(GraphLabeling(2, edges=edges), graphs, Y)
