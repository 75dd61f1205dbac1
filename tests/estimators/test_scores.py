"""score: the measure a model was trained for, within queries, and by the labels that a data set has."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    fbeta_score,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import cross_val_score

from maxmargin import (
    KernelSVC,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    StructuredSVM,
    data,
    load,
)
from maxmargin.tasks import Chain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
NOISY = X[:, 0] + RNG.normal(size=120) > 0.7
Y = np.where(NOISY, "yes", "no")
QUERIES = RNG.integers(0, 6, 120)
RELEVANCE = (X[:, 0] + 3.0 * QUERIES + 0.3 * RNG.normal(size=120)).round()


def top(k, scores):
    return np.isin(np.arange(len(scores)), np.argsort(-scores)[:k])


BY_SKLEARN = {
    "error": lambda y, p, s: accuracy_score(y, p),
    "balanced_error": lambda y, p, s: balanced_accuracy_score(y, p),
    "f1": lambda y, p, s: f1_score(y, p),
    "fbeta": lambda y, p, s: fbeta_score(y, p, beta=2.0),
    "roc_auc": lambda y, p, s: roc_auc_score(y, s),
    "prbep": lambda y, p, s: precision_score(y, top(y.sum(), s)),
    "precision_at_k": lambda y, p, s: precision_score(y, top(17, s)),
    "recall_at_k": lambda y, p, s: recall_score(y, top(17, s)),
    "ae": lambda y, p, s: 1 - abs(p.mean() - y.mean()),
    "nae": lambda y, p, s: 1 - abs(p.mean() - y.mean()) / max(y.mean(), 1 - y.mean()),
}


@pytest.mark.parametrize("measure", BY_SKLEARN)
def test_the_score_is_the_measure(measure):
    half = slice(0, 60), slice(60, 120)
    svc = MeasureSVC(measure, beta=2.0, k=17).fit(X[half[0]], Y[half[0]])
    for part in half:
        scores, y = svc.decision_function(X[part]), NOISY[part]
        expected = BY_SKLEARN[measure](y, scores > 0, scores)
        assert svc.score(X[part], Y[part]) == pytest.approx(expected, abs=1e-12)
    assert svc.score(X, svc.predict(X)) == pytest.approx(1.0) or measure.endswith("_at_k")


@pytest.mark.parametrize("measure", ["rae", "kld", "nkld", "q"])
def test_losses_of_prevalence_and_recall(measure):
    svc = MeasureSVC(measure).fit(X, Y)
    called = svc.predict(X) == "yes"
    n, P, m, tp = 120, NOISY.sum(), called.sum(), (called & NOISY).sum()
    p, q = (P + 0.5) / (n + 1), (m + 0.5) / (n + 1)
    kld = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    r, c = tp / P, 1 - abs(m - P) / max(P, n - P)
    loss = {
        "rae": abs(m - P) * (1 / (P + 0.5) + 1 / (n - P + 0.5)) / 2,
        "kld": kld,
        "nkld": 2 * np.exp(kld) / (1 + np.exp(kld)) - 1,
        "q": 1 - 2 * c * r / (r + c),
    }
    assert svc.score(X, Y) == pytest.approx(1 - loss[measure], abs=1e-12)


def test_weights_count_as_copies_and_ties_in_part():
    weight = RNG.integers(0, 3, 120)
    copies = np.repeat(np.arange(120), weight)
    for measure in ("f1", "error", "roc_auc", "prbep", "kld"):
        svc = MeasureSVC(measure).fit(X, Y)
        found = svc.score(X, Y, sample_weight=weight)
        assert found == pytest.approx(svc.score(X[copies], Y[copies]), abs=1e-12)
    with pytest.raises(ValueError, match="whole numbers"):
        MeasureSVC("f1").fit(X, Y).score(X, Y, sample_weight=np.full(120, 0.5))
    ranked = MeasureSVC("precision_at_k", k=3).fit(X, Y)
    tied = np.repeat(X[:1], 4, axis=0)  # three of four rows that tie: 3/4 of one hit, of 3
    assert ranked.score(tied, ["yes", "no", "no", "no"]) == pytest.approx(0.25)


def test_the_measure_of_a_callable_and_in_a_search():
    def jaccard(tp, fp, fn, tn):
        return 1 - tp / (tp + fp + fn)

    svc = MeasureSVC(jaccard).fit(X, Y)
    called = svc.predict(X) == "yes"
    assert svc.score(X, Y) == pytest.approx((called & NOISY).sum() / (called | NOISY).sum())
    found = cross_val_score(MeasureSVC("f1"), X, NOISY, cv=3)
    np.testing.assert_allclose(
        found, cross_val_score(MeasureSVC("f1"), X, NOISY, cv=3, scoring="f1")
    )


def test_a_measure_of_two_classes_needs_both():
    with pytest.raises(ValueError, match="all negative: roc_auc compares two classes"):
        MeasureSVC("roc_auc").fit(X, Y).score(X[~NOISY], Y[~NOISY])
    with pytest.raises(ValueError, match="label 'maybe', which is not one of the classes"):
        MeasureSVC("f1").fit(X, Y).score(X[:2], ["yes", "maybe"])
    with pytest.raises(ValueError, match=r"k=17 samples .* there are 5"):
        MeasureSVC("precision_at_k", k=17).fit(X, Y).score(X[:5], Y[:5])


def test_queries_are_not_compared_with_each_other(tmp_path):
    ranker = RankSVM().fit(X, RELEVANCE, QUERIES)
    assert ranker.n_queries_ == 6
    ranker.save(tmp_path / "ranker")
    for fitted in (ranker, load(tmp_path / "ranker")):
        with pytest.raises(ValueError, match=r"fitted on 6 queries.*pass groups"):
            fitted.score(X, RELEVANCE)
        inside = fitted.score(X, RELEVANCE, QUERIES)
        assert inside > fitted.score(X, RELEVANCE, np.zeros(120)) + 0.05
    frame = pd.DataFrame(X, columns=["a", "b", "c", "group"])  # a feature, not the queries
    assert RankSVM().fit(frame, RELEVANCE).n_queries_ == 1
    alone = RankSVM().fit(X, RELEVANCE)
    assert alone.score(X, RELEVANCE) == alone.score(X, RELEVANCE, np.zeros(120))


@pytest.mark.parametrize(
    "estimator",
    [
        LinearSVC(loss="hinge"),
        MeasureSVC("f1"),
        LinearSVCCV(Cs=[0.1, 1.0], cv=2, loss="hinge"),
        KernelSVC(method="exact"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_data_set_is_scored_by_its_own_labels(estimator, tmp_path):
    stored = data.write(tmp_path / "d", [(X, Y)])
    fitted = estimator.fit(stored)
    assert fitted.score(stored) == fitted.score(X, Y)
    assert fitted.score(stored, np.roll(Y, 1)) == fitted.score(X, np.roll(Y, 1))
    weight = RNG.integers(0, 3, 120)
    weighted = data.write(tmp_path / "w", [(X, Y, weight)])
    assert fitted.score(weighted) == fitted.score(X, Y, weight)
    with pytest.raises(ValueError, match="score requires y"):
        fitted.score(X)


def test_a_data_set_of_numbers_queries_or_sequences(tmp_path):
    stored = data.write(tmp_path / "r", [(X, RELEVANCE, np.ones(120), QUERIES)])
    svr, ranker = LinearSVR().fit(stored), RankSVM().fit(stored)
    assert svr.score(stored) == pytest.approx(r2_score(RELEVANCE, svr.predict(X)))
    assert ranker.score(stored) == ranker.score(X, RELEVANCE, QUERIES)
    sequences = [x.reshape(4, 4) for x in RNG.normal(size=(10, 16))]
    labels = [x.argmax(axis=1) for x in sequences]
    chains = data.write(tmp_path / "s", [(sequences, labels)])
    svm = StructuredSVM(Chain(n_labels=4)).fit(chains)
    assert svm.score(chains) == svm.score(sequences, labels)
    assert [y.tolist() for y in svm.predict(chains)] == [y.tolist() for y in svm.predict(sequences)]


@pytest.mark.parametrize(
    "estimator",
    [LinearSVC(), LinearSVR(), MeasureSVC(), RankSVM(), KernelSVC(), StructuredSVM(Chain(2)), LinearSVCCV()],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_the_path_of_a_data_set_is_not_a_data_set(estimator, tmp_path):
    data.write(tmp_path / "d", [(X, Y)])
    for path in (tmp_path / "d", str(tmp_path / "d")):
        with pytest.raises(
            TypeError, match=r"To train on a data set .*maxmargin\.data\.open\(path\)"
        ):
            estimator.fit(path)
        with pytest.raises(TypeError, match=r"maxmargin\.data\.open\(path\)"):
            estimator.fit(path, Y)
