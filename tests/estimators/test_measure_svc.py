"""MeasureSVC: scikit-learn's law, and what each measure promises."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVC, MeasureSVC
from maxmargin.solvers import CuttingPlane

NAMES = [
    "error",
    "balanced_error",
    "f1",
    "fbeta",
    "prbep",
    "precision_at_k",
    "recall_at_k",
    "roc_auc",
    "ae",
    "nae",
    "rae",
    "kld",
    "nkld",
    "q",
]


@parametrize_with_checks(
    [MeasureSVC(), MeasureSVC("roc_auc"), MeasureSVC("error", n_jobs=2, tol=1e-8)]
)
def test_scikit_learn_law(estimator, check):
    check(estimator)


def rare(seed=0, n=300, **options):
    options = {"weights": [0.85], "class_sep": 0.5, "flip_y": 0.05} | options
    return make_classification(n, 8, random_state=seed, **options)


@pytest.mark.parametrize("measure", NAMES)
def test_every_measure_converges(measure):
    X, y = rare()
    labels = np.array(["no", "yes"])[y]
    svc = MeasureSVC(measure, k=30, beta=2.0, tol=1e-4).fit(X, labels)
    assert svc.converged_
    assert svc.certificate_ == "exact"
    assert svc.gap_ <= 1e-4
    assert svc.coef_.shape == (1, 8)
    assert svc.intercept_.shape == (1,)
    assert set(svc.predict(X)) <= {"no", "yes"}
    np.testing.assert_allclose(
        svc.decision_function(X), X @ svc.coef_[0] + svc.intercept_[0] - svc.threshold_, atol=1e-12
    )


@pytest.mark.parametrize("measure", ["f1", "roc_auc", "q"])
def test_dense_sparse_and_float32_agree(measure):
    X, y = rare()
    X = np.round(X, 2) * (np.abs(X) > 0.3)
    fits = [
        MeasureSVC(measure, tol=1e-5).fit(Z, y).objective_
        for Z in (X, sp.csr_matrix(X), X.astype(np.float32), sp.csc_array(X.astype(np.float32)))
    ]
    np.testing.assert_allclose(fits, fits[0], rtol=2e-5)


def test_f1_beats_the_plain_classifier_where_positives_are_rare():
    X, y = rare(n=1000, weights=[0.92])
    plain = f1_score(y, LinearSVC(loss="hinge").fit(X, y).predict(X))
    assert f1_score(y, MeasureSVC("f1").fit(X, y).predict(X)) > plain + 0.1


def test_beta_moves_the_balance_of_precision_and_recall():
    X, y = rare(n=1000)
    called = [MeasureSVC("fbeta", beta=beta).fit(X, y).predict(X).sum() for beta in (0.3, 1.0, 3.0)]
    assert called[0] < called[1] < called[2]
    one, f1 = MeasureSVC("fbeta", tol=1e-6).fit(X, y), MeasureSVC("f1", tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(one.coef_, f1.coef_)


@pytest.mark.parametrize("measure", ["roc_auc", "prbep"])
def test_where_an_intercept_cannot_matter_it_is_set_afterwards(measure):
    X, y = rare(n=500)
    svc = MeasureSVC(measure, tol=1e-6).fit(X, y)
    assert svc.predict(X).sum() == y.sum()
    shifted = MeasureSVC(measure, tol=1e-6).fit(X + 3.0, y)
    assert shifted.objective_ == pytest.approx(svc.objective_, rel=1e-5)
    assert shifted.predict(X + 3.0).sum() == y.sum()
    without = MeasureSVC(measure, tol=1e-6, fit_intercept=False).fit(X, y)
    np.testing.assert_array_equal(without.coef_, svc.coef_)
    assert without.intercept_[0] == 0.0


def test_roc_auc_beats_the_plain_classifier():
    X, y = rare(n=2000, flip_y=0.2)
    plain = LinearSVC(C=0.01, loss="hinge").fit(X, y).decision_function(X)
    area = MeasureSVC("roc_auc", C=0.01).fit(X, y).decision_function(X)
    assert roc_auc_score(y, area) > roc_auc_score(y, plain)


@pytest.mark.parametrize("measure", ["ae", "rae", "kld", "nkld"])
def test_quantifiers_call_about_as_many_rows_as_there_are(measure):
    X, y = rare(n=1000)
    called = MeasureSVC(measure, C=10.0).fit(X, y).predict(X).sum()
    plain = LinearSVC(C=10.0, loss="hinge").fit(X, y).predict(X).sum()
    assert abs(called - y.sum()) < abs(plain - y.sum())


@pytest.mark.parametrize("measure", ["f1", "prbep", "kld"])
def test_whole_weights_are_copies(measure):
    X, y = rare(n=80)
    copies = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = MeasureSVC(measure, tol=1e-6).fit(X, y, sample_weight=copies)
    repeated = MeasureSVC(measure, tol=1e-6).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)
    with pytest.raises(ValueError, match="whole numbers"):
        MeasureSVC(measure).fit(X, y, sample_weight=np.full(len(y), 0.5))


@pytest.mark.parametrize("measure", ["error", "balanced_error", "roc_auc"])
def test_sums_take_any_weights(measure):
    X, y = rare(n=80)
    copies = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = MeasureSVC(measure, C=0.5, tol=1e-7).fit(X, y, sample_weight=copies)
    repeated = MeasureSVC(measure, C=0.5, tol=1e-7).fit(
        np.repeat(X, copies, axis=0), np.repeat(y, copies)
    )
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    half = MeasureSVC(measure, C=1.0, tol=1e-7).fit(X, y, sample_weight=0.5 * copies)
    assert half.objective_ == pytest.approx(repeated.objective_, rel=1e-6)


def test_refusals():
    X, y = rare()
    for options, text in [
        ({"measure": "f3"}, "precision_at_k"),
        ({"measure": "precision_at_k"}, "requires k"),
        ({"measure": "recall_at_k", "k": 1000}, "k=1000"),
        ({"measure": "roc_auc", "rescaling": "slack"}, "pairs of samples"),
        ({"measure": lambda tp, fp, fn, tn: tp}, "must return a loss"),
    ]:
        with pytest.raises(ValueError, match=text):
            MeasureSVC(**options).fit(X, y)
    with pytest.raises(ValueError, match="4,000,000"):
        MeasureSVC(rescaling="slack").fit(np.zeros((10_000, 1)), np.arange(10_000) % 2)
    with pytest.raises(ValueError, match="Only binary"):
        MeasureSVC().fit(*load_iris(return_X_y=True))
    with pytest.raises(ValueError, match="class 1 are zero"):
        MeasureSVC("roc_auc").fit(X, y, sample_weight=1.0 - y)


def test_in_a_search_over_c():
    X, y = load_breast_cancer(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), MeasureSVC("f1"))
    search = GridSearchCV(pipe, {"measuresvc__C": [0.01, 0.1]}, cv=3, scoring="f1").fit(X, y)
    assert search.best_score_ > 0.97


def test_clone_pickle_and_warm_start():
    X, y = rare()
    svc = MeasureSVC("q", solver=CuttingPlane(mu=0.2), warm_start=True).fit(X, y)
    again = pickle.loads(pickle.dumps(svc))
    np.testing.assert_array_equal(again.predict(X), svc.predict(X))
    assert clone(svc).solver == CuttingPlane(mu=0.2)
    first = svc.n_iter_
    assert svc.fit(X, y).n_iter_ <= first
    assert svc.history_[0]["objective"] <= again.objective_ * (1 + 1e-12)


def overlapping():
    """3 % positives, for which zero weights minimize the convex bound of F1 for every C."""
    return make_classification(
        3000, 30, n_informative=8, weights=[0.97], flip_y=0.02, class_sep=0.7, random_state=3
    )


def test_zero_weights_give_a_warning_with_a_remedy():
    X, y = overlapping()
    with pytest.warns(UserWarning, match="All weights are zero.*TunedThreshold") as seen:
        svc = MeasureSVC("f1").fit(X, y)
    assert not svc.coef_.any()
    assert seen[0].filename == __file__  # the user's line
    assert svc.score(X, y) > 0.0  # at least the better of the two constant predictions


@pytest.mark.parametrize("measure", ["f1", "q", "kld", lambda tp, fp, fn, tn: (fp + 2 * fn) / 500])
@pytest.mark.parametrize("seed", range(3))
def test_no_other_threshold_has_a_better_score_on_the_training_data(measure, seed):
    X, y = rare(seed)
    svc = MeasureSVC(measure, C=0.1).fit(X, y)
    best, scores = svc.score(X, y), np.sort(X @ svc.coef_[0] + svc.intercept_[0])
    chosen = svc.threshold_
    for other in (0.0, scores[0] - 1.0, scores[-1] + 1.0, *(0.5 * (scores[1:] + scores[:-1]))):
        svc.threshold_ = other
        assert svc.score(X, y) <= best + 1e-12
    svc.threshold_ = chosen
    called = X @ svc.coef_[0] + svc.intercept_[0] > chosen
    assert (svc.predict(X) == svc.classes_[called.astype(int)]).all()


@pytest.mark.parametrize("measure", ["error", "balanced_error", "roc_auc", "prbep"])
def test_sums_and_rankings_keep_the_threshold_zero(measure):
    X, y = rare()
    assert MeasureSVC(measure).fit(X, y).threshold_ == 0.0


@pytest.mark.parametrize("measure", ["precision_at_k", "recall_at_k"])
def test_k_training_samples_are_predicted_as_positive(measure):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    svc = MeasureSVC(measure, k=30).fit(X, y)
    assert np.sum(svc.predict(X) == svc.classes_[1]) == 30
