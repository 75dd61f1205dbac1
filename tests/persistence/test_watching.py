"""A fit can be watched and stopped: by ``callbacks`` and by scikit-learn's callbacks."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC, SequenceTagger, StructuredSVM
from maxmargin.core.result import IterationRecord
from maxmargin.tasks import Chain

X, Y = load_breast_cancer(return_X_y=True)
CHAINS = [np.eye(3)[[0, 1, 2, 1]], np.eye(3)[[2, 1, 0, 0]]], [[0, 1, 2, 1], [2, 1, 0, 0]]
ARRAYS = CHAINS[0], [np.array(y) for y in CHAINS[1]]

FITS = {
    "LinearSVC": (LinearSVC, (X, Y)),
    "SequenceTagger": (SequenceTagger, CHAINS),
    "StructuredSVM": (lambda **options: StructuredSVM(Chain(n_labels=3), **options), ARRAYS),
}


@pytest.fixture(params=FITS)
def fit(request):
    make, data = FITS[request.param]
    return make, data


# -- callbacks -------------------------------------------------------------------------------------


def test_callbacks_receive_every_record(fit):
    make, data = fit
    seen: list[IterationRecord] = []
    est = make(callbacks=[seen.append]).fit(*data)
    assert [record.iteration for record in seen] == list(range(1, est.n_iter_ + 1))
    for record, kept in zip(seen, est.history_, strict=True):
        assert record.objective == kept["objective"]
        assert record.lower_bound == kept["lower_bound"]
    lowers = [record.lower_bound for record in seen]
    assert lowers == sorted(lowers)
    assert lowers[-1] <= est.objective_ * (1 + 1e-12)


def test_a_callback_can_stop_the_fit():
    late: list[int] = []
    est = LinearSVC(
        callbacks=[
            lambda record: record.iteration == 3,
            lambda record: late.append(record.iteration),
        ],
        loss="hinge",
    ).fit(X, Y)
    assert est.stop_reason_ == "callback"
    assert est.n_iter_ == 3
    assert late == [1, 2, 3]  # the other callback saw the last record too
    assert not est.converged_
    assert est.lower_bound_ <= est.objective_
    assert est.predict(X).shape == Y.shape


def test_only_true_stops():
    est = LinearSVC(callbacks=[lambda record: 1, lambda record: "stop"], loss="hinge").fit(X, Y)
    assert est.stop_reason_ == "gap"
    est = LinearSVC(callbacks=[lambda record: np.bool_(True)], loss="hinge").fit(X, Y)
    assert est.stop_reason_ == "callback"


def test_a_callback_stops_structured_fits_too():
    for name in ("SequenceTagger", "StructuredSVM"):
        make, data = FITS[name]
        est = make(tol=1e-12, callbacks=[lambda record: True]).fit(*data)
        assert (est.stop_reason_, est.n_iter_) == ("callback", 1)
        assert np.isfinite(est.objective_)


def test_errors_of_callbacks_are_not_hidden():
    def fail(record):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        LinearSVC(callbacks=[fail], loss="hinge").fit(X, Y)


# -- scikit-learn's callbacks ----------------------------------------------------------------------


class Recorder:
    """A scikit-learn FitCallback: writes down what it is told and may stop."""

    def __init__(self, stop_after=None, fail_after=None):
        self.log, self.estimators = [], []
        self.stop_after, self.fail_after = stop_after, fail_after

    def setup(self, estimator, context):
        self.log.append("setup")

    def teardown(self, estimator, context):
        self.log.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.log.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.log.append(f"end {context.task_name}")
        if context.task_name != "iteration":
            return False
        self.estimators.append(fitted_estimator)
        if self.fail_after == len(self.estimators):
            raise RuntimeError("mine")
        return self.stop_after == len(self.estimators)


@pytest.fixture
def sklearn_callback():
    return pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or later")


def test_fit_callback_counts_tasks(fit, sklearn_callback):
    make, data = fit
    recorder = Recorder()
    est = make().set_callbacks(recorder).fit(*data)
    assert isinstance(recorder, sklearn_callback.FitCallback)
    iterations = ["begin iteration", "end iteration"] * est.n_iter_
    assert recorder.log == ["setup", "begin fit", *iterations, "end fit", "teardown"]


def test_fit_callback_gets_an_estimator_that_predicts(fit, sklearn_callback):
    make, (inputs, outputs) = fit
    recorder = Recorder()
    est = make().set_callbacks(recorder).fit(inputs, outputs)
    scores = [fitted.score(inputs, outputs) for fitted in recorder.estimators]
    assert len(scores) == est.n_iter_
    assert scores[-1] == pytest.approx(est.score(inputs, outputs))


@pytest.mark.parametrize("max_iter", [None, 100])
def test_fit_callback_can_stop(max_iter, sklearn_callback):
    recorder = Recorder(stop_after=2)
    est = LinearSVC(max_iter=max_iter, loss="hinge").set_callbacks(recorder).fit(X, Y)
    assert (est.stop_reason_, est.n_iter_) == ("callback", 2)
    assert recorder.log[-2:] == ["end fit", "teardown"]


def test_fit_callback_that_fails(sklearn_callback):
    recorder = Recorder(fail_after=2)
    est = LinearSVC(loss="hinge").set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="mine"):
        est.fit(X, Y)
    assert recorder.log[-2:] == ["end iteration", "teardown"]  # the fit did not end
    assert est.set_callbacks().fit(X, Y).converged_


@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_iteration_limit_with_callbacks(max_iter, sklearn_callback):
    recorder = Recorder()
    est = LinearSVC(max_iter=max_iter, loss="hinge").set_callbacks(recorder).fit(X, Y)
    assert est.stop_reason_ == "max_iter"
    assert len(recorder.estimators) == est.n_iter_ == max(1, max_iter)


def test_callbacks_do_not_change_the_fit(fit, sklearn_callback):
    make, data = fit
    plain, watched = make().fit(*data), make(callbacks=[lambda record: None])
    watched.set_callbacks(Recorder()).fit(*data)
    name = "weights_" if hasattr(plain, "weights_") else "coef_"
    assert getattr(plain, name).tobytes() == getattr(watched, name).tobytes()
    assert plain.n_iter_ == watched.n_iter_


def test_progress_bar(fit, sklearn_callback, capfd):
    pytest.importorskip("rich")
    make, data = fit
    make().set_callbacks(sklearn_callback.ProgressBar()).fit(*data)
    out, _ = capfd.readouterr()
    assert "fit" in out
    assert "100%" in out


def test_notebooks_show_the_certificate(fit):
    make, data = fit
    est = make()
    assert "certificate" not in est._repr_html_()
    est.fit(*data)
    line = est._repr_html_().rpartition("<div>")[2]
    assert (
        f"gap {est.gap_:.2g} (objective {est.objective_:.6g}, lower bound {est.lower_bound_:.6g})"
        in line
    )
    assert f"stopped by {est.stop_reason_}, certificate exact" in line
    assert ("<b>✓ proven</b>" in line) == est.converged_
    assert est._repr_mimebundle_()["text/html"].endswith(line)
    with sklearn.config_context(display="text"):
        assert list(est._repr_mimebundle_()) == ["text/plain"]


def test_notebooks_show_at_a_glance_what_is_not_proven():
    with pytest.warns(ConvergenceWarning):
        early = LinearSVC(max_iter=1, tol=1e-9).fit(X, Y)
    assert "<b>⚠ not converged</b>" in early._repr_html_()
    stream = LinearSVC(loss="hinge").partial_fit(X, Y, classes=np.unique(Y))
    assert "<b>⚠ not proven</b>" in stream._repr_html_()


def test_progress_bar_through_pipeline_and_grid(sklearn_callback, capfd):
    pytest.importorskip("rich")
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LinearSVC(max_iter=50, loss="hinge")),
        {"linearsvc__C": [0.1, 1.0]},
        cv=2,
    )
    search.set_callbacks(sklearn_callback.ProgressBar(max_propagation_depth=None)).fit(X, Y)
    out, _ = capfd.readouterr()
    assert "LinearSVC" in out


def test_scoring_monitor(sklearn_callback):
    monitor = sklearn_callback.ScoringMonitor(scoring="accuracy")
    est = LinearSVC(loss="hinge").set_callbacks(monitor).fit(X, Y)
    rows = monitor.get_logs().data
    assert len(rows) == est.n_iter_
    assert rows[-1]["accuracy"] == pytest.approx(est.score(X, Y), abs=0.01)
