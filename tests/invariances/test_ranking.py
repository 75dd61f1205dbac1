"""What must not change a ranking, and what must change it in a known way."""

import numpy as np
import pytest

from maxmargin import RankSVM

PARAMS = [
    {},
    {"pair_weight": "difference"},
    {"query_weight": "equal"},
    {"loss": "map"},
    {"loss": "ndcg"},
    {"loss": "ndcg", "k": 3},
]


def data(loss="pairs", seed=0, n=240, d=5):
    rng = np.random.default_rng(seed)
    groups = np.sort(rng.integers(0, 15, n))
    X = rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(15, d))[groups]
    noisy = X @ rng.normal(size=d) + rng.normal(size=n)
    y = np.digitize(noisy, [-2.0, 0.0, 2.0])
    return X, (y > 1 if loss == "map" else y), groups


def fitted(X, y, groups, sample_weight=None, **params):
    params = {"C": 0.1, "tol": 1e-8, **params}
    est = RankSVM(**params).fit(X, y, groups, sample_weight)
    assert est.gap_ < 1e-7
    return est


def same(a, b):
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-7)
    assert a.coef_ == pytest.approx(b.coef_, abs=1e-3 * np.abs(b.coef_).max())


@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_rows_in_any_order_and_queries_of_any_name(params):
    X, y, groups = data(params.get("loss"))
    first = fitted(X, y, groups, **params)
    mixed = np.random.default_rng(1).permutation(len(y))
    names = np.array([f"query {chr(122 - q)}" for q in range(15)])
    again = fitted(X[mixed], y[mixed], names[groups][mixed], **params)
    same(again, first)
    assert again.score(X[mixed], y[mixed], groups[mixed]) == pytest.approx(
        first.score(X, y, groups), abs=2e-3
    )
    backwards = fitted(X[::-1], y[::-1], groups[::-1], **params)  # together, but descending
    same(backwards, first)


@pytest.mark.parametrize("params", PARAMS[:3], ids=str)
def test_a_row_of_weight_two_is_there_twice(params):
    X, y, groups = data()
    weight = np.random.default_rng(2).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    same(
        fitted(X, y, groups, weight, **params),
        fitted(X[repeated], y[repeated], groups[repeated], **params),
    )


@pytest.mark.parametrize("params", PARAMS[3:], ids=str)
def test_a_query_of_weight_two_is_there_twice(params):
    X, y, groups = data(params["loss"])
    weight = np.random.default_rng(2).integers(0, 3, 15)
    parts = [(copy, q) for q in range(15) for copy in range(weight[q])]
    rows = np.concatenate([np.flatnonzero(groups == q) for _, q in parts])
    names = np.concatenate([np.full((groups == q).sum(), 10 * q + copy) for copy, q in parts])
    same(
        fitted(X, y, groups, weight[groups], **params),
        fitted(X[rows], y[rows], names, **params),
    )


@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_what_a_query_shares_does_not_count(params):
    X, y, groups = data(params.get("loss"))
    moved = X + np.random.default_rng(3).normal(size=(15, 5))[groups]
    same(fitted(moved, y, groups, **params), fitted(X, y, groups, **params))


@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_queries_of_one_level_and_single_rows_do_not_count(params):
    X, y, groups = data(params.get("loss"))
    rng = np.random.default_rng(4)
    more = np.concatenate([X, rng.normal(size=(10, 5))])
    levels = np.concatenate([y, np.full(9, y[0]), y[:1]])
    names = np.concatenate([groups, np.full(9, 99), [100]])
    same(fitted(more, levels, names, **params), fitted(X, y, groups, **params))


@pytest.mark.parametrize(
    "params", [{}, {"pair_weight": "equal", "query_weight": "equal"}, {"loss": "map"}], ids=str
)
def test_levels_are_names_where_only_their_order_counts(params):
    X, y, groups = data(params.get("loss"))
    renamed = np.array([-7.0, 0.5, 100.0, 101.0])[y.astype(int)]
    first, again = fitted(X, y, groups, **params), fitted(X, renamed, groups, **params)
    np.testing.assert_array_equal(first.coef_, again.coef_)


@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_any_number_of_threads_same_bits(params):
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(0, 200, 4000))
    X = rng.normal(size=(4000, 60))
    y = rng.integers(0, 2 if params.get("loss") == "map" else 4, 4000)
    fits = [
        RankSVM(C=0.01, max_iter=8, n_jobs=n_jobs, **params).fit(X, y, groups)
        for n_jobs in (None, 2, 5)
    ]
    for fit in fits[1:]:
        assert fit.coef_.tobytes() == fits[0].coef_.tobytes()
        assert fit.lower_bound_ == fits[0].lower_bound_
