"""RankSVM keeps scikit-learn's law, takes its groups through its tools, and says what is wrong."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone, is_regressor
from sklearn.metrics import average_precision_score, ndcg_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.data import datasets, require

from maxmargin import RankSVM
from maxmargin.solvers import CuttingPlane


def _expected(estimator):
    if estimator.loss != "ndcg":
        return {}
    why = "weights are those of queries: a row that is there twice is another ranking"
    return {
        "check_sample_weight_equivalence_on_dense_data": why,
        "check_sample_weight_equivalence_on_sparse_data": why,
        "check_sample_weights_not_overwritten": why,
    }


@parametrize_with_checks(
    [
        # weights and repeated rows lead to one optimum by ways that differ: go to its end
        RankSVM(tol=1e-10),
        RankSVM(tol=1e-10, query_weight="equal", pair_weight="difference", n_jobs=2),
        RankSVM(loss="ndcg", k=5),
    ],
    expected_failed_checks=_expected,
)
def test_scikit_learn_law(estimator, check):
    check(estimator)


def data(seed=0, n=200, d=6):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 12, n)
    X = rng.normal(size=(n, d)) + 3.0 * rng.normal(size=(12, d))[groups]
    within = X @ rng.normal(size=d)
    within -= (np.bincount(groups, within) / np.bincount(groups))[groups]
    return X, np.digitize(within + 0.3 * rng.normal(size=n), [-1.0, 1.0, 2.0]), groups


@pytest.mark.parametrize("loss", ["pairs", "map", "ndcg"])
def test_it_learns_the_order_within_queries(loss):
    X, y, groups = data()
    est = RankSVM(C=0.01 if loss == "pairs" else 1.0, loss=loss)
    est.fit(X, y > 1 if loss == "map" else y, groups)
    assert est.converged_
    assert est.certificate_ == "exact"
    assert est.lower_bound_ <= est.objective_
    assert est.score(X, y, groups) > 0.9
    assert est.predict(X) == pytest.approx(X @ est.coef_)
    assert est.coef_.shape == (6,)
    assert is_regressor(est)


def test_groups_matter():
    """Queries at levels of their own, which are misleading across queries."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 6)
    level = rng.normal(size=30)[groups]
    y = rng.integers(0, 4, 180)
    X = np.stack([y - 10.0 * level, rng.normal(size=180)], axis=1)
    with_groups = RankSVM().fit(X, y + 100.0 * level, groups)
    without = RankSVM().fit(X, y + 100.0 * level)
    assert with_groups.score(X, y, groups) == 1.0
    assert without.score(X, y, groups) < 0.5


def test_sparse_and_float32_and_frames():
    X, y, groups = data()
    X[np.abs(X) < 1.0] = 0.0
    dense = RankSVM(C=0.1, tol=1e-7).fit(X, y, groups)
    for other in (sp.csr_matrix(X), sp.csc_array(X), pd.DataFrame(X, columns=list("abcdef"))):
        est = RankSVM(C=0.1, tol=1e-7).fit(other, y, groups)
        assert est.objective_ == pytest.approx(dense.objective_, rel=1e-6)
        assert est.predict(other) == pytest.approx(X @ est.coef_)
    narrow = RankSVM(C=0.1).fit(X.astype(np.float32), y, groups)
    assert narrow.converged_
    assert narrow.predict(X.astype(np.float32)) == pytest.approx(X @ narrow.coef_, abs=1e-4)


def test_groups_through_searches():
    X, y, groups = data()
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), RankSVM())
        search = GridSearchCV(pipe, {"ranksvm__C": [1e-4, 1e-2]}, cv=GroupKFold(3))
        search.fit(X, y, groups=groups)
        assert search.best_score_ > 0.9
        scores = cross_validate(pipe, X, y, params={"groups": groups}, cv=GroupKFold(3))
        assert scores["test_score"].mean() > 0.9


def test_qid_is_another_name_of_groups():
    X, y, groups = data()
    shuffled = np.random.default_rng(1).permutation(len(y))
    names = groups.astype(str)[shuffled]
    by_groups = RankSVM(0.1).fit(X[shuffled], y[shuffled], names)
    by_qid = RankSVM(0.1).fit(X[shuffled], y[shuffled], qid=names)
    np.testing.assert_array_equal(by_qid.coef_, by_groups.coef_)
    contiguous = RankSVM(0.1).fit(X, y, qid=groups)
    assert by_qid.lower_bound_ <= contiguous.objective_ * (1.0 + 1e-12)
    assert contiguous.lower_bound_ <= by_qid.objective_ * (1.0 + 1e-12)
    score = by_qid.score(X[shuffled], y[shuffled], qid=names)
    assert score == by_groups.score(X[shuffled], y[shuffled], names)
    with pytest.raises(ValueError, match="pass groups"):
        by_qid.score(X, y)
    both = RankSVM(0.1).fit(X, y, groups // 2, qid=groups)
    np.testing.assert_array_equal(both.coef_, contiguous.coef_)
    with pytest.raises(ValueError, match="several groups"):
        RankSVM().fit(X, y, np.arange(len(y)) % 3, qid=groups)


@pytest.mark.parametrize("both", [False, True])
def test_a_search_scores_held_out_queries(both):
    X, y, groups = data()
    folds = groups // 2 if both else groups  # a splitter may keep several queries together
    given = {"groups": folds, "qid": groups} if both else {"groups": folds}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(RankSVM(), {"C": [1e-4, 1e-2]}, cv=GroupKFold(3)).fit(X, y, **given)
    for C, mean in zip([1e-4, 1e-2], search.cv_results_["mean_test_score"], strict=True):
        own = [
            RankSVM(C).fit(X[i], y[i], groups[i]).score(X[j], y[j], groups[j])
            for i, j in GroupKFold(3).split(X, y, folds)
        ]
        assert mean == pytest.approx(np.mean(own))


def test_a_search_without_routing_has_no_score_by_queries():
    X, y, groups = data()
    search = GridSearchCV(RankSVM(), {"C": [1e-2]}, cv=GroupKFold(3), refit=False)
    with pytest.warns(UserWarning, match="enable_metadata_routing=True"):
        search.fit(X, y, groups=groups, qid=groups)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()


def test_clone_pickle_and_warm_start():
    X, y, groups = data()
    est = RankSVM(0.1, pair_weight=np.ones((4, 4)), solver=CuttingPlane(mu=0.2), warm_start=True)
    est.fit(X, y, groups)
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(again.predict(X), est.predict(X))
    assert repr(clone(est)) == repr(est)
    cold = est.n_iter_
    assert est.fit(X, y, groups).n_iter_ < cold


def test_limits_and_callbacks():
    X, y, groups = data()
    est = RankSVM(C=10.0, tol=1e-9, max_iter=3).fit(X, y, groups)
    assert (est.stop_reason_, est.n_iter_, est.converged_) == ("max_iter", 3, False)
    assert est.lower_bound_ <= est.objective_
    seen = []
    est = RankSVM(callbacks=[lambda record: seen.append(record) or len(seen) == 2]).fit(
        X, y, groups
    )
    assert est.stop_reason_ == "callback"
    assert len(est.history_) == 2


@pytest.mark.parametrize(
    ("params", "changes", "text"),
    [
        ({"pair_weight": np.ones((2, 2))}, {}, "y has 4 levels"),
        ({"pair_weight": -np.ones((4, 4))}, {}, "nonnegative"),
        ({"loss": "map", "pair_weight": "difference"}, {}, "require loss='pairs'"),
        ({"loss": "ndcg", "query_weight": "equal"}, {}, "require loss='pairs'"),
        ({"k": 3}, {}, "requires loss='ndcg'"),
        ({"loss": "map"}, {}, "two levels"),
        ({"loss": "ndcg"}, {"y": -np.arange(200.0)}, "must not be negative"),
        ({}, {"groups": np.zeros(199)}, "199 entries, but X has 200 samples"),
        ({}, {"groups": np.full(200, np.nan)}, "groups contains NaN"),
        ({}, {"groups": np.zeros((200, 2))}, "1d array"),
        ({}, {"groups": np.arange(200)}, "no pair to learn from"),
        ({}, {"y": np.ones(200)}, "no pair to learn from"),
        ({"loss": "map"}, {"y": np.ones(200)}, "no pair to learn from"),
        ({"loss": "ndcg"}, {"y": np.zeros(200)}, "no pair to learn from"),
        ({}, {"y": np.full(200, np.nan)}, "NaN"),
        ({}, {"sample_weight": np.arange(200) == 7}, "no pair to learn from"),
        ({}, {"sample_weight": -np.ones(200)}, "[Nn]egative"),
        ({"loss": "ndcg"}, {"sample_weight": np.arange(200.0)}, "differs within a query"),
        ({"C": -1.0}, {}, "C=-1.0"),
        ({"solver": "other"}, {}, "solver='other'"),
    ],
)
def test_mistakes_are_told(params, changes, text):
    X, y, groups = data()
    given = {"y": y, "groups": groups, "sample_weight": None, **changes}
    with pytest.raises(ValueError, match=text):
        RankSVM(**params).fit(X, **given)


def test_weights_of_scores_are_repetitions():
    X, y, groups = data()
    est, weight = RankSVM(max_iter=1).fit(X, y, groups), np.arange(200) % 3
    rows = np.repeat(np.arange(200), weight)
    assert est.score(X, y, groups, weight) == pytest.approx(
        est.score(X[rows], y[rows], groups[rows])
    )


def test_scores_of_nothing():
    X, y, groups = data()
    est = RankSVM().fit(X, y, groups)
    with pytest.raises(ValueError, match="no pair to score"):
        est.score(X, y, np.arange(200))
    with pytest.raises(ValueError, match="inconsistent"):
        est.score(X, y[:-1])


@pytest.mark.data
def test_web_search():
    X, y, groups = require(datasets.lambdarank, "train")
    Z, z, others = require(datasets.lambdarank, "test")
    for params in ({"C": 1e-4}, {"C": 1e-3, "loss": "ndcg"}):
        est = RankSVM(**params).fit(X, y, groups)
        assert est.converged_
        assert est.score(Z, z, others) > 0.65


def test_missing_groups_in_a_search_give_a_warning():
    X, y, q = _three_levels()
    with pytest.warns(UserWarning, match="enable_metadata_routing"):
        GridSearchCV(RankSVM(), {"C": [1.0]}, cv=GroupKFold(3)).fit(X, y, groups=q)


@pytest.mark.parametrize("k", [None, 3])
def test_the_score_is_the_metric_of_the_loss(k):
    X, y, q = _three_levels()
    ranker = RankSVM(loss="ndcg", k=k).fit(X, y, q)
    scores = ranker.predict(X)
    each = [ndcg_score(y[q == g][None], scores[q == g][None], k=k) for g in np.unique(q)]
    assert ranker.score(X, y, q) == pytest.approx(np.mean(each))
    ranker = RankSVM(loss="map").fit(X, y > 1, q)
    scores = ranker.predict(X)
    each = [average_precision_score(y[q == g] > 1, scores[q == g]) for g in np.unique(q)]
    assert ranker.score(X, y > 1, q) == pytest.approx(np.mean(each))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"query_id": [0, 1]}, TypeError, "use qid"),
        ({"qid": [20, 40]}, ValueError, "sizes of queries"),
        ({"qid": np.zeros(60), "groups": np.arange(60)}, ValueError, "several groups"),
        ({"group": [60]}, TypeError, "np.repeat"),
        ({"other": 1}, TypeError, "unexpected keyword argument 'other'$"),
        ({"groups": [20, 40]}, ValueError, "sizes of queries"),
    ],
)
def test_names_and_forms_of_other_libraries(options, error, text):
    X, y, _ = _three_levels()
    with pytest.raises(error, match=text):
        RankSVM().fit(X, y, **options)


def _three_levels():
    rng = np.random.default_rng(0)
    X, q = rng.normal(size=(60, 4)), np.repeat(np.arange(6), 10)
    y = np.tile([0, 0, 0, 0, 1, 1, 1, 2, 2, 2], 6)
    return X + 0.3 * y[:, None], y, q


@pytest.mark.parametrize("loss", ["ndcg", "map"])
def test_queries_without_pairs_are_not_scored(loss):
    X = np.array([[0.0], [1.0], [5.0], [6.0]])
    y, q = np.array([1.0, 0.0, 1.0, 1.0]), [0, 0, 1, 1]
    ranker = RankSVM(loss=loss).fit(X, 1.0 - y, q)
    assert ranker.score(X, y, q) == ranker.score(X[:2], y[:2], q[:2]) < 0.9
    with pytest.raises(ValueError, match="no query to score"):
        ranker.score(X[2:], y[2:], q[2:])
