"""SequenceTaggerCV: every cell is the fit of a SequenceTagger to its fold, certified, and faster to reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import GaussianPrior, SequenceTagger, SequenceTaggerCV, load
from maxmargin.metrics import span_f1_score

CS = [0.01, 0.1, 1.0]


def sentences(n: int = 60, seed: int = 0) -> tuple[Any, Any]:
    """Words of three kinds, one in six with a wrong label."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = rng.integers(30, size=rng.integers(2, 8))
        noisy = np.where(rng.random(len(words)) < 1 / 6, rng.integers(30, size=len(words)), words)
        X.append([{"word": f"w{k}", "long": float(k % 5)} for k in words])
        y.append([("O", "B-A", "B-B")[k % 3] for k in noisy])
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_every_cell_has_the_optimum_of_its_fold(loss):
    X, y = sentences()
    search = SequenceTaggerCV(Cs=CS, cv=3, tol=1e-3, loss=loss).fit(X, y)
    folds = np.array_split(np.arange(len(X)), 3)
    results = search.cv_results_
    for i, C in enumerate(CS):
        for k, fold in enumerate(folds):
            held = set(fold.tolist())
            there = [j for j in range(len(X)) if j not in held]
            alone = SequenceTagger(C=C, tol=1e-3, loss=loss)
            alone.fit([X[j] for j in there], [y[j] for j in there])
            assert results[f"split{k}_lower_bound"][i] <= alone.objective_
            assert alone.lower_bound_ <= results[f"split{k}_objective"][i]
            assert results[f"split{k}_converged"][i]


def test_the_best_tagger_is_that_of_all_sequences(tmp_path):
    X, y = sentences()
    search = SequenceTaggerCV(Cs=CS, cv=3, tol=1e-3).fit(X, y)
    best = search.best_estimator_
    alone = SequenceTagger(**search.best_params_, tol=1e-3).fit(X, y)
    assert best.lower_bound_ <= alone.objective_
    assert alone.lower_bound_ <= best.objective_
    assert best.get_params() == alone.get_params()
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.predict(X) == best.predict(X)
    assert search.score(X, y) == best.score(X, y)
    best.save(tmp_path / "tagger")
    assert load(tmp_path / "tagger").predict(X) == best.predict(X)


def test_scores_are_those_of_held_out_sequences():
    X, y = sentences()
    seen = []

    def spans(tagger: SequenceTagger, X_test: Any, y_test: Any) -> float:
        seen.append(len(X_test))
        return span_f1_score(y_test, tagger.predict(X_test))

    search = SequenceTaggerCV(Cs=CS, cv=4, scoring=spans, refit=False).fit(X, y)
    assert seen == [15] * 12
    assert not hasattr(search, "best_estimator_")
    alone = SequenceTagger(C=0.1).fit(X[15:], y[15:])
    score = span_f1_score(y[:15], alone.predict(X[:15]))
    assert search.cv_results_["split0_test_score"][1] == pytest.approx(score, abs=0.1)


def test_matrices_weights_groups_and_clones():
    X, y = sentences()
    rows = [np.array([[float(t["word"][1:]), t["long"]] for t in x]) for x in X]
    weight = np.arange(len(X)) % 3
    groups = np.arange(len(X)) // 20
    search = clone(SequenceTaggerCV(Cs=2, cv=3)).fit(rows, y, sample_weight=weight, groups=groups)
    assert search.n_splits_ == 3
    assert len(search.predict(rows)) == len(rows)


def test_misuse():
    X, y = sentences(10)
    with pytest.raises(ValueError, match=r"scoring='f1': use a function"):
        SequenceTaggerCV(scoring="f1").fit(X, y)
    with pytest.raises(ValueError, match="positive numbers"):
        SequenceTaggerCV(Cs=[0.0]).fit(X, y)
    with pytest.raises(ValueError, match="loss='log'"):
        SequenceTaggerCV(loss="log").fit(X, y)


def test_a_callback_ends_the_search():
    X, y = sentences()
    search = SequenceTaggerCV(Cs=CS, cv=2, callbacks=[lambda cell: cell.cell == 4]).fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"][2])
    assert search.best_params_["C"] in CS[:2]


def test_fits_begin_where_the_one_before_ended():
    X, y = sentences(200)
    iterations = []

    def counted(tagger: SequenceTagger, X_test: Any, y_test: Any) -> float:
        iterations.append((tagger.C, tagger.n_iter_))
        return tagger.score(X_test, y_test)

    Cs = np.geomspace(0.1, 0.2, 5)
    SequenceTaggerCV(Cs=Cs, cv=2, tol=1e-4, scoring=counted, refit=False).fit(X, y)
    alone = SequenceTagger(C=Cs[-1], tol=1e-4).fit(X[100:], y[100:])
    begun = [n_iter for C, n_iter in iterations if Cs[-1] == C]
    assert len(begun) == 2
    assert max(begun) < alone.n_iter_


def test_a_prior_with_a_variance_needs_another_solver():
    X, y = sentences()
    rows = [np.array([[float(t["word"][1:]), t["long"]] for t in x]) for x in X]
    prior = GaussianPrior(variance=2.0)
    search = SequenceTaggerCV(Cs=[0.1, 1.0], cv=2, prior=prior).fit(rows, y)
    alone = SequenceTagger(**search.best_params_, prior=prior).fit(rows, y)
    assert search.best_estimator_.converged_
    assert search.best_estimator_.lower_bound_ <= alone.objective_
    assert search.best_estimator_.get_params() == alone.get_params()
