"""Run by test_real_interrupts: trains until Ctrl-C, in every case that its arguments name.

Says "fitting" when the press may come, and "usable" when what is left after it was looked at.
"""

import signal
import sys
import time

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from tests.tiny_tasks import TinyMulticlass

from maxmargin import LinearSVC, LinearSVCCV, StructuredSVM, return_on_interrupt, svc_path
from maxmargin.testing import binary_objective, structured_objective

X, Y = load_breast_cancer(return_X_y=True)
SIGNED = np.where(Y == 1, 1.0, -1.0)
C, FIRST = 1e4, 3
fits = []


def slowly(record):
    """A fit without an end, which is under way after its first iterations."""
    if record.iteration == 1:
        fits.append(record.C)
    if record.iteration == FIRST:
        print("fitting", flush=True)
    time.sleep(0.02)


ENDLESS = LinearSVC(C=C, tol=1e-15, callbacks=[slowly], loss="hinge")


def is_true(svc, rows, labels, C=C):
    """Usable, and with the bounds of its own weights."""
    F = binary_objective(svc.coef_[0], svc.intercept_[0], rows, labels, C)
    assert svc.predict(rows).shape == labels.shape
    assert abs(svc.objective_ - F) <= 1e-9 * F
    assert 0.0 <= svc.lower_bound_ <= svc.objective_
    assert svc.stop_reason_ == "interrupted"


def script():
    ENDLESS.fit(X, Y)


def fit():
    try:
        ENDLESS.fit(X, Y)
    except KeyboardInterrupt as error:
        is_true(error.estimator, X, SIGNED)


def returned():
    with return_on_interrupt():
        is_true(ENDLESS.fit(X, Y), X, SIGNED)


def first_fold():
    train, _ = next(StratifiedKFold(5).split(X, Y))
    return X[train], SIGNED[train]


def grid_search():
    search = GridSearchCV(ENDLESS, {"fit_intercept": [True, False]})
    try:
        search.fit(X, Y)
    except KeyboardInterrupt as error:
        is_true(error.estimator, *first_fold())
    assert len(fits) == 1  # the search is over, not a fold of it


def cross_validation():
    try:
        cross_val_score(ENDLESS, X, Y)
    except KeyboardInterrupt as error:
        is_true(error.estimator, *first_fold())
    assert len(fits) == 1


def svc_cv():
    scored = []

    def scoring(estimator, rows, labels):
        scored.append(estimator.C)
        if len(scored) == 8:
            print("fitting", flush=True)
            time.sleep(60.0)
        return 1.0

    search = LinearSVCCV(Cs=[0.01, 0.1, 1.0], cv=5, prune=True, scoring=scoring, loss="hinge")
    try:
        search.fit(X, Y)
    except KeyboardInterrupt as error:
        found = error.estimator
    assert found is search
    assert len(scored) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).tolist() == [True, False, False]
    assert search.cv_results_["split0_converged"].tolist() == [True, True, False]
    assert search.best_params_["C"] == 0.01
    assert not hasattr(search, "best_estimator_")


def path():
    def press(record):
        if record.C == C:
            slowly(record)

    try:
        svc_path(X, Y, [1e-4, C, 2 * C], tol=1e-8, callbacks=[press], loss="hinge")
    except KeyboardInterrupt as error:
        first, second = error.result
        assert first.C == 1e-4
        assert first.converged_
        is_true(second, X, SIGNED)
    assert fits == [C]


def structured():
    class Slow(TinyMulticlass):
        calls = 0

        def loss_augmented_inference(self, x, y, w):
            Slow.calls += 1
            if Slow.calls == 100:
                print("fitting", flush=True)
            time.sleep(0.003)
            return super().loss_augmented_inference(x, y, w)

    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    outputs = list((inputs + 0.5 * rng.normal(size=inputs.shape)).argmax(axis=1))
    try:
        StructuredSVM(Slow(), 10.0, tol=1e-12).fit(list(inputs), outputs)
    except KeyboardInterrupt as error:
        svm = error.estimator
    F = structured_objective(svm.task_, list(inputs), outputs, svm.coef_, 10.0)
    assert abs(svm.objective_ - F) <= 1e-9 * F
    assert 0.0 <= svm.lower_bound_ <= svm.objective_
    assert len(svm.predict(list(inputs))) == 60


if __name__ == "__main__":
    # a process started in the background by a shell ignores it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in sys.argv[1:]:
        fits.clear()
        globals()[name]()
        print("usable", name, flush=True)
