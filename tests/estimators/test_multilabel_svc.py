"""MultiLabelSVC: scikit-learn's multilabel conventions, exact inference, and the meaning of C."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import GraphLabeler, LinearSVC, MultiLabelSVC, load
from maxmargin.estimators.structured.multilabel_svc import SCALE
from maxmargin.tasks import chow_liu_tree, multilabel_graphs


class AnyTarget(MultiLabelSVC):
    """Turns the targets of scikit-learn's checks, one column of two values, into indicators."""

    def fit(self, X, y, **options):
        if y is not None:
            y = np.asarray(y)
            y = (y == y.max()).astype(int) if y.dtype.kind in "if" and np.isfinite(y).all() else y
        return super().fit(X, y, **options)


#: checks whose targets are not indicators, or that compare predictions with the original targets
NOT_INDICATORS = {
    "check_classifiers_train": "compares predictions with targets that are not indicators",
    "check_classifiers_classes": "string targets",
    "check_classifiers_one_label": "expects the only class of a single-label target",
    "check_classifiers_one_label_sample_weights": "as above",
    "check_classifiers_regression_target": "the subclass turns such targets into indicators",
    "check_supervised_y_2d": "one-dimensional targets are rejected",
    "check_classifier_not_supporting_multiclass": "the subclass turns such targets into indicators",
}


@parametrize_with_checks(
    [AnyTarget(max_iter=20)], expected_failed_checks=lambda estimator: NOT_INDICATORS
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_law(estimator, check):
    check(estimator)


def problem(n=50, n_labels=4, seed=0):
    """Labels that depend on the features and, by a chain, on each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = np.empty((n, n_labels), dtype=int)
    before = 0.0
    for label in range(n_labels):
        Y[:, label] = X[:, label % 3] + 1.5 * before + 0.5 * rng.normal(size=n) > 0.0
        before = 2.0 * Y[:, label] - 1.0
    return X, Y


def scores_of_all_sets(svc, X):
    """Every set of labels and its score, by the formula of the docstring."""
    sets = np.array(list(itertools.product([0, 1], repeat=len(svc.classes_))))
    weights = svc._node_weights()
    rows = SCALE * np.hstack([X, np.ones((len(X), 1))])
    nodes = np.einsum("id,ldv->ilv", rows, weights)
    scores = np.stack([nodes[:, np.arange(sets.shape[1]), y].sum(axis=1) for y in sets], axis=1)
    for (u, v), table in zip(svc.dependencies_, svc.pair_coef_, strict=True):
        scores += table[sets[:, u], sets[:, v]]
    return sets, scores


@pytest.mark.parametrize("dependencies", ["none", "tree", "full", [[2, 0], [0, 1], [3, 2], [1, 3]]])
def test_predictions_and_decisions_are_those_of_brute_force(dependencies):
    X, Y = problem()
    svc = MultiLabelSVC(C=1.0, dependencies=dependencies).fit(X, Y)
    sets, scores = scores_of_all_sets(svc, X)
    np.testing.assert_array_equal(svc.predict(X), sets[scores.argmax(axis=1)])
    with_label = np.stack([scores[:, sets[:, k] == 1].max(axis=1) for k in range(4)], axis=1)
    without = np.stack([scores[:, sets[:, k] == 0].max(axis=1) for k in range(4)], axis=1)
    np.testing.assert_allclose(svc.decision_function(X), with_label - without, atol=1e-9)


def test_without_dependencies_it_is_one_linear_svc_per_label_with_the_same_C():
    X, Y = problem(n_labels=3)
    svc = MultiLabelSVC(C=0.3, dependencies="none", tol=1e-5).fit(X, Y)
    singles = [LinearSVC(C=0.3, tol=1e-5).fit(X, y) for y in Y.T]
    total = sum(single.objective_ for single in singles)
    assert abs(svc.objective_ - total) <= 2e-5 * total
    np.testing.assert_allclose(svc.coef_, np.vstack([s.coef_ for s in singles]), atol=2e-2)
    np.testing.assert_allclose(svc.intercept_, [s.intercept_[0] for s in singles], atol=2e-2)
    np.testing.assert_allclose(
        svc.decision_function(X), X @ svc.coef_.T + svc.intercept_, atol=1e-10
    )


def test_it_solves_the_problem_of_a_graph_labeler():
    X, Y = problem()
    tree = chow_liu_tree(Y)
    rows = SCALE * np.hstack([X, np.ones((len(X), 1))])
    labeler = GraphLabeler(C=1.0).fit(multilabel_graphs(rows, tree, 4), list(Y))
    svc = MultiLabelSVC(C=1.0).fit(X, Y)
    np.testing.assert_array_equal(svc.dependencies_, tree)
    np.testing.assert_array_equal(svc.weights_, labeler.weights_)
    assert (svc.objective_, svc.lower_bound_) == (labeler.objective_, labeler.lower_bound_)


def test_dependencies_help_where_labels_depend_on_each_other():
    X, Y = problem(n=300)
    hit = {}
    for dependencies in ("none", "tree"):
        svc = MultiLabelSVC(C=0.1, dependencies=dependencies).fit(X[:150], Y[:150])
        assert svc.certificate_ == "exact"
        assert svc.lower_bound_ <= svc.objective_
        hit[dependencies] = svc.score(X[150:], Y[150:])
    assert hit["tree"] > hit["none"] + 0.03, hit


def test_dense_and_sparse_inputs_agree():
    X, Y = problem()
    dense = MultiLabelSVC().fit(X, Y)
    sparse = MultiLabelSVC().fit(sp.csr_matrix(X), sp.csr_matrix(Y))
    np.testing.assert_allclose(sparse.weights_, dense.weights_, atol=1e-8)
    np.testing.assert_array_equal(sparse.predict(sp.csr_matrix(X)), dense.predict(X))


def test_a_data_frame_gives_the_labels_their_names():
    pandas = pytest.importorskip("pandas")
    X, Y = problem(n_labels=2)
    svc = MultiLabelSVC().fit(
        pandas.DataFrame(X, columns=["a", "b", "c"]), pandas.DataFrame(Y, columns=["cat", "dog"])
    )
    assert svc.classes_.tolist() == ["cat", "dog"]
    assert svc.feature_names_in_.tolist() == ["a", "b", "c"]


def test_weight_two_is_a_doubled_sample():
    X, Y = problem(n=30)
    weight = np.where(np.arange(30) < 10, 2.0, 1.0)
    weighted = MultiLabelSVC(tol=1e-4).fit(X, Y, sample_weight=weight)
    doubled = MultiLabelSVC(tol=1e-4).fit(np.vstack([X, X[:10]]), np.vstack([Y, Y[:10]]))
    if weighted.dependencies_.tolist() == doubled.dependencies_.tolist():
        assert weighted.objective_ == pytest.approx(doubled.objective_, rel=3e-4)


def test_one_label_and_labels_that_never_change():
    X, Y = problem(n_labels=1)
    assert MultiLabelSVC().fit(X, Y).predict(X).shape == Y.shape
    Y = np.hstack([Y, np.zeros_like(Y), np.ones_like(Y)])
    found = MultiLabelSVC().fit(X, Y).predict(X)
    assert not found[:, 1].any()
    assert found[:, 2].all()


def test_a_model_file_keeps_everything(tmp_path):
    X, Y = problem()
    svc = MultiLabelSVC(dependencies="full", fit_intercept=False).fit(X, Y)
    svc.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), svc.decision_function(X))
    np.testing.assert_array_equal(again.pair_coef_, svc.pair_coef_)
    assert again.get_params() == svc.get_params()
    assert (again.objective_, again.certificate_) == (svc.objective_, svc.certificate_)


def test_clone_and_cross_validation():
    X, Y = problem(n=60)
    svc = clone(MultiLabelSVC(C=0.1, dependencies=[[0, 1]]))
    assert cross_val_score(svc, X, Y, cv=3).mean() > 0.2  # of sets that are right as a whole


@pytest.mark.parametrize(
    ("params", "target", "message"),
    [
        ({}, [0, 1, 1], "matrix of indicators with one column per label"),
        ({}, [[0, 2], [1, 0], [1, 1]], "zeros and ones"),
        ({}, [[0, 1], [1, 0]], "X has 3 samples, but y has 2 rows"),
        ({"dependencies": "chain"}, [[0, 1], [1, 0], [1, 1]], "dependencies must be 'tree'"),
        ({"dependencies": [[0, 2]]}, [[0, 1], [1, 0], [1, 1]], "pairs of different labels 0 .. 1"),
        ({"dependencies": [[1, 1]]}, [[0, 1], [1, 0], [1, 1]], "pairs of different labels"),
        ({"dependencies": [[0.5, 1]]}, [[0, 1], [1, 0], [1, 1]], "array of integers"),
    ],
)
def test_wrong_inputs_are_refused(params, target, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelSVC(**params).fit(np.eye(3), target)
