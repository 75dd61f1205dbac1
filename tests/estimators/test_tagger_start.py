"""A tagger that begins with the weights of another one, and vocabularies that are cut or hashed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxmargin import GaussianPrior, SequenceTagger, load
from maxmargin.solvers import CuttingPlane, DualCoordinate

LABELS = ("A", "B", "C")


def sentences(
    n: int, seed: int, words: int = 40, labels: tuple[str, ...] = LABELS
) -> tuple[Any, Any]:
    """Random sentences in which a word, its neighbor and some noise decide on the label."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        tokens = rng.integers(words, size=rng.integers(2, 9))
        noisy = np.where(
            rng.random(len(tokens)) < 0.15, rng.integers(100, size=len(tokens)), tokens
        )
        Y.append([labels[k % len(labels)] for k in noisy])
        X.append(
            [[f"w={t}", f"previous={p}"] for t, p in zip(tokens, [-1, *tokens[:-1]], strict=True)]
        )
    return X, Y


def objective(tagger: SequenceTagger, like: SequenceTagger, X: Any, Y: Any) -> float:
    """F of a tagger's weights, by names, from predictions with a cost: no code of the solver."""
    total = 0.5 * float(tagger.weights_ @ tagger.weights_)
    names = {name: k for k, name in enumerate(tagger.vectorizer_.feature_names_)}
    for x, y in zip(X, Y, strict=True):
        scores = np.array(
            [tagger.coef_[:, [names[f] for f in token if f in names]].sum(axis=1) for token in x]
        )
        codes = [tagger.classes_.index(label) for label in y]
        best = scores[0] + tagger.starts_ + (np.arange(len(tagger.classes_)) != codes[0])
        true = scores[0, codes[0]] + tagger.starts_[codes[0]] + tagger.stops_[codes[-1]]
        for t in range(1, len(y)):
            wrong = np.arange(len(tagger.classes_)) != codes[t]
            best = (best[:, None] + tagger.transitions_).max(axis=0) + scores[t] + wrong
            true += scores[t, codes[t]] + tagger.transitions_[codes[t - 1], codes[t]]
        total += like.C * (float((best + tagger.stops_).max()) - true)
    return total


@pytest.fixture(scope="module")
def old() -> SequenceTagger:
    return SequenceTagger(C=0.1, tol=1e-3).fit(*sentences(150, 1, words=30))


@pytest.mark.parametrize(
    "solver", ["auto", DualCoordinate(), DualCoordinate(batch_size="all"), CuttingPlane()]
)
def test_the_optimum_does_not_depend_on_the_start(old, solver):
    X, Y = sentences(200, 2)
    new = SequenceTagger(C=0.1, tol=1e-3, solver=solver).fit(X, Y, start_from=old)
    alone = SequenceTagger(C=0.1, tol=1e-3, solver=solver).fit(X, Y)
    assert new.converged_
    assert new.lower_bound_ <= alone.objective_
    assert alone.lower_bound_ <= new.objective_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_is_stopped_is_at_least_as_good_as_the_start(old):
    X, Y = sentences(200, 2)
    new = SequenceTagger(C=0.1, tol=1e-6, max_iter=1).fit(X, Y, start_from=old)
    before = objective(old, new, X, Y)
    assert new.objective_ <= before * (1 + 1e-9)


def test_weights_are_assigned_by_name_and_label(old):
    X, Y = sentences(100, 3, words=35, labels=("C", "A", "B"))
    X = [[[*token, "new"] for token in x] for x in X]
    tagger = SequenceTagger().fit(X, Y, start_from=old)
    named = old._named_weights()
    flat = named.aligned(
        tagger.vectorizer_.feature_names_, tagger.n_features_in_, LABELS, "start_from"
    )
    there = tagger.vectorizer_.vocabulary_["w=3"]
    expected = old.coef_[:, old.vectorizer_.vocabulary_["w=3"]]
    np.testing.assert_array_equal(flat[: 3 * tagger.n_features_in_].reshape(-1, 3)[there], expected)


def test_a_start_that_cannot_be_used_is_refused(old):
    X, Y = sentences(20, 4)
    with pytest.raises(TypeError, match="fitted SequenceTagger, but it is dict"):
        SequenceTagger().fit(X, Y, start_from={})
    with pytest.raises(ValueError, match="without a kernel"):
        SequenceTagger(kernel="rbf").fit(X, Y, start_from=old)
    columns = [np.ones((len(x), 3)) for x in X]
    with pytest.raises(
        ValueError, match="start_from: the features of the earlier tagger are names"
    ):
        SequenceTagger().fit(columns, Y, start_from=old)


def test_hashed_names_are_saved_without_a_vocabulary(tmp_path):
    X, Y = sentences(100, 5)
    tagger = SequenceTagger(n_hashed=512).fit(X, Y)
    assert tagger.n_features_in_ == 512
    tagger.save(tmp_path / "tagger")
    assert load(tmp_path / "tagger").predict(X) == tagger.predict(X)
    assert "column" in str(tagger.explain(n=1))
    more = SequenceTagger(n_hashed=512).fit(*sentences(120, 6), start_from=tagger)
    assert more.converged_


def test_rare_features_are_left_out():
    X, Y = sentences(60, 7)
    X[0][0] = ["once", *X[0][0]]
    tagger = SequenceTagger(min_count=2).fit(X, Y)
    assert "once" not in tagger.vectorizer_.vocabulary_
    assert "w=3" in tagger.vectorizer_.vocabulary_
    assert tagger.predict([[["once"]]])


def test_weights_of_zero_are_not_stored(tmp_path):
    X, Y = sentences(100, 8, labels=tuple("ABCDEFGHIJKL"))
    X = [[[*token, f"rare={i}.{t}"] for t, token in enumerate(x)] for i, x in enumerate(X)]
    tagger = SequenceTagger(C=0.01).fit(X, Y)
    zeros = np.count_nonzero(tagger.weights_ == 0.0)
    assert zeros > 0.5 * tagger.weights_.size
    names = sum(len(repr(name)) + 2 for name in tagger.vectorizer_.feature_names_)
    tagger.save(tmp_path / "tagger")
    again = load(tmp_path / "tagger")
    assert again.weights_.tobytes() == tagger.weights_.tobytes()
    size = (tmp_path / "tagger").stat().st_size
    assert size < 8 * (tagger.weights_.size - zeros) + tagger.weights_.size / 8 + names + 10_000


@pytest.mark.parametrize("parameter", ["start_from", "prior"])
def test_a_tagger_without_a_common_label_is_refused(old, parameter):
    X, Y = sentences(20, 3, labels=("N", "V"))
    start = {"start_from": old} if parameter == "start_from" else {}
    prior = GaussianPrior.around(old) if parameter == "prior" else None
    with pytest.raises(ValueError, match=f"{parameter}: the earlier tagger has no label in common"):
        SequenceTagger(prior=prior).fit(X, Y, **start)
    with pytest.raises(ValueError, match="the same order of the chain"):
        SequenceTagger(order=2, prior=prior).fit(*sentences(20, 3), **start)
