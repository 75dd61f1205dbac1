"""Records reach logging and validation scores."""

from __future__ import annotations

import logging
import time

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import get_scorer
from tests.latent_tasks import Bags

from maxmargin import (
    KernelSVC,
    LatentStructuredSVM,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    MeasureSVC,
    SequenceTagger,
    StructuredSVM,
    StructuredSVMCV,
    minimize,
)
from maxmargin.callbacks import Progress, ValidationScore
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.tasks import Chain

X, Y = load_breast_cancer(return_X_y=True)
X = X / X.std(axis=0)
D, T = load_diabetes(return_X_y=True)
RNG = np.random.default_rng(0)
LABELS = [RNG.integers(0, 2, 4) for _ in range(12)]
CHAINS = [np.eye(2)[y] + 0.3 * RNG.normal(size=(4, 2)) for y in LABELS]
BAGS = [np.array([[2.0], [0.5]]), np.array([[-1.0]])], [1, -1]

FITS = {
    "LinearSVC": (LinearSVC, (X, Y)),
    "LinearSVR": (LinearSVR, (D, T)),
    "MeasureSVC": (MeasureSVC, (X, Y)),
    "SequenceTagger": (SequenceTagger, (CHAINS, LABELS)),
    "StructuredSVM": (lambda **p: StructuredSVM(Chain(n_labels=2), **p), (CHAINS, LABELS)),
    "LatentStructuredSVM": (lambda **p: LatentStructuredSVM(Bags(), **p), BAGS),
}
ONLY_RECORDS = {
    "KernelSVC": (KernelSVC, (X[:150], Y[:150])),
    "one-vs-rest": (
        lambda **p: LinearSVC(multi_class="ovr", **p, loss="hinge"),
        load_iris(return_X_y=True),
    ),
}


@pytest.fixture(params=FITS)
def fit(request):
    return FITS[request.param]


# -- logging ---------------------------------------------------------------------------------------


def test_logging_is_silent_by_default(capfd):
    assert any(
        isinstance(handler, logging.NullHandler)
        for handler in logging.getLogger("maxmargin").handlers
    )
    LinearSVC(loss="hinge").fit(X, Y)
    assert capfd.readouterr() == ("", "")


def test_the_log_gets_the_final_state(fit, caplog):
    make, data = fit
    with caplog.at_level(logging.INFO, logger="maxmargin"):
        est = make().fit(*data)
    message = [one.getMessage() for one in caplog.records if one.name == "maxmargin"][-1]
    assert message.startswith(f"{type(est).__name__}: stopped by {est.stop_reason_}")


def test_info_at_every_interval(caplog):
    risk = ScoreRisk(X, 2.0 * Y - 1.0, Hinge())
    with caplog.at_level(logging.INFO, logger="maxmargin"):
        result = minimize(risk, 1.0, callbacks=[Progress("log", interval=0.0)])
    assert len(caplog.records) == result.n_iter
    assert "gap" in caplog.records[-1].getMessage()


def test_disabled_logging_does_no_work(monkeypatch):
    def fail(*args):
        raise AssertionError("a disabled logger formats no text")

    for name in ("follow", "text", "outcome"):
        monkeypatch.setattr(Progress, name, fail)
    LinearSVC(loss="hinge").fit(X, Y)


# -- validation scores -----------------------------------------------------------------------------


def test_scores_are_those_of_the_incumbent(fit):
    make, data = fit
    watch = ValidationScore(*data)
    est = make(callbacks=[watch]).fit(*data)
    assert [iteration for iteration, _ in watch.scores] == list(range(1, est.n_iter_ + 1))
    assert watch.scores[-1][1] == pytest.approx(est.score(*data), abs=0.02)


def test_scores_do_not_change_the_fit():
    watched = LinearSVC(callbacks=[ValidationScore(X, Y)], loss="hinge").fit(X, Y)
    assert watched.coef_.tobytes() == LinearSVC(loss="hinge").fit(X, Y).coef_.tobytes()


def test_every_and_scoring():
    watch = ValidationScore(X, Y, every=3, scoring=get_scorer("roc_auc"))
    est = LinearSVC(tol=1e-6, callbacks=[watch], loss="hinge").fit(X, Y)
    assert [iteration for iteration, _ in watch.scores] == list(range(3, est.n_iter_ + 1, 3))
    assert watch.scores[-1][1] > 0.98


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR", "SequenceTagger"])
def test_a_score_can_stop_the_fit(name):
    make, data = FITS[name]
    watch = ValidationScore(*data, on_score=lambda record, score: np.bool_(True))
    est = make(tol=1e-12, callbacks=[watch]).fit(*data)
    assert (est.stop_reason_, est.n_iter_, len(watch.scores)) == ("callback", 1, 1)


def test_a_second_fit_begins_its_scores_anew():
    svc = LinearSVC(callbacks=[ValidationScore(X, Y)], loss="hinge").fit(X, Y).fit(X, Y)
    assert [iteration for iteration, _ in svc.callbacks[0].scores] == [*range(1, svc.n_iter_ + 1)]


@pytest.mark.parametrize("name", ONLY_RECORDS)
def test_estimators_that_cannot_predict_yet_refuse(name):
    make, data = ONLY_RECORDS[name]
    with pytest.raises(ValueError, match="ValidationScore needs an estimator that predicts"):
        make(callbacks=[ValidationScore(*data)]).fit(*data)


def test_misuse_of_validation_scores():
    with pytest.raises(TypeError, match="callbacks= of an estimator"):
        LinearSVCCV([1.0], callbacks=[ValidationScore(X, Y)], loss="hinge").fit(X, Y)
    with pytest.raises(ValueError, match="every=0"):
        ValidationScore(X, Y, every=0)
    with pytest.raises(ValueError, match=r"get_scorer\('f1'\)"):
        ValidationScore(X, Y, scoring="f1")


# -- cross-validation ------------------------------------------------------------------------------


SEARCHES = {
    "LinearSVCCV": (lambda **p: LinearSVCCV([0.1, 1.0, 10.0], cv=2, **p, loss="hinge"), (X, Y)),
    "StructuredSVMCV": (
        lambda **p: StructuredSVMCV(Chain(n_labels=2), [0.1, 1.0, 10.0], cv=2, **p),
        (CHAINS, LABELS),
    ),
}


@pytest.fixture(params=SEARCHES)
def search(request):
    return SEARCHES[request.param]


def test_callbacks_get_every_cell(search):
    make, data = search
    cells = []
    found = make(callbacks=[cells.append]).fit(*data)
    assert [cell.cell for cell in cells] == list(range(1, 7))
    assert {cell.n_cells for cell in cells} == {6}
    results = found.cv_results_
    for cell in cells:
        row = results["params"].index(cell.params)
        assert results[f"split{cell.fold}_gap"][row] == cell.gap


def test_callbacks_do_not_change_the_cells(search):
    make, data = search
    plain, watched = make().fit(*data), make(callbacks=[lambda cell: None]).fit(*data)
    np.testing.assert_array_equal(
        plain.cv_results_["split0_objective"], watched.cv_results_["split0_objective"]
    )


def test_time_limit_takes_the_best_finished_setting(search):
    make, data = search

    def slowly(cell):
        time.sleep(0.3 if cell.cell >= 2 else 0.0)

    make(refit=False).fit(*data)  # compiles
    with pytest.warns(UserWarning, match=r"stopped at max_seconds=\S+: . of 3 settings"):
        found = make(callbacks=[slowly], max_seconds=0.5).fit(*data)
    scores = found.cv_results_["mean_test_score"]
    assert 1 <= np.isfinite(scores).sum() < 3
    assert found.best_score_ == np.nanmax(scores)
    assert len(found.predict(data[0])) == len(data[1])


def test_a_callback_ends_the_cross_validation(search):
    make, data = search
    with pytest.raises(ValueError, match="stopped by a callback before any setting"):
        make(callbacks=[lambda cell: True]).fit(*data)
    found = make(callbacks=[lambda cell: cell.cell == 5]).fit(*data)
    assert np.isnan(found.cv_results_["mean_test_score"]).any()
    assert found.best_params_["C"] in (0.1, 1.0)


def _ends_early(record):
    if record.iteration == 2:
        next(iter(()))


@pytest.mark.parametrize("make", [LinearSVC, KernelSVC, MeasureSVC])
def test_an_exhausted_iterator_of_a_callback_is_an_error(make):
    with pytest.raises(StopIteration):
        make(callbacks=[_ends_early], tol=1e-6).fit(X, Y)
