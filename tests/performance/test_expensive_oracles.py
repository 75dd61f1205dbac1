"""Expensive oracles: fewer calls, none repeated, and progress reports and limits between calls."""

import signal
import time

import numpy as np
import pytest
from tests.ctrl_c import interrupted
from tests.data import datasets, require
from tests.slow_tasks import examples
from tests.tiny_tasks import TinyMulticlass

from maxmargin import SequenceTagger, StructuredSVM
from maxmargin.solvers import DualCoordinate
from maxmargin.testing import structured_objective

EXPENSIVE = DualCoordinate(oracle="expensive")


class Counting(TinyMulticlass):
    """Counts its calls across copies; can be slow, and can simulate Ctrl-C."""

    calls = 0
    pause = 0.0
    press_at = -1

    def loss_augmented_inference(self, x, y, w):
        cls = type(self)
        cls.calls += 1
        time.sleep(cls.pause)
        if cls.calls == cls.press_at:
            signal.raise_signal(signal.SIGINT)
        return super().loss_augmented_inference(x, y, w)


@pytest.fixture(autouse=True)
def fresh_counter():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    Counting.calls, Counting.pause, Counting.press_at = 0, 0.0, -1
    yield
    signal.signal(signal.SIGINT, before)


def test_no_call_is_made_twice():
    """``oracle_calls`` counts all calls; the last pass is the certificate."""
    X, y = examples(50)
    svm = StructuredSVM(Counting(), 1.0, tol=1e-3, oracle="expensive").fit(X, y)
    assert svm.converged_
    assert Counting.calls == pytest.approx(50 * svm.history_[-1]["oracle_calls"])
    F = structured_objective(svm.task_, X, y, svm.coef_, 1.0)
    assert svm.objective_ == pytest.approx(F, rel=1e-12)


def test_fewer_calls_than_streaming():
    X, y = examples(100, d=8)
    passes = [0.0, 0.0]
    for seed in range(3):  # the number depends on the order of visits: one seed decides nothing
        for k, solver in enumerate((DualCoordinate(batch_size=1), EXPENSIVE)):
            svm = StructuredSVM(TinyMulticlass(), 1.0, tol=1e-3, solver=solver, random_state=seed)
            passes[k] += svm.fit(X, y).history_[-1]["oracle_calls"]
    assert passes[1] <= 0.9 * passes[0]


@pytest.mark.data
def test_fewer_calls_than_streaming_on_letters():
    X, Y, folds = require(datasets.ocr_letters)
    some = np.flatnonzero(folds == 0)[:150]
    X, Y = [X[i] for i in some], [Y[i] for i in some]
    passes = [
        SequenceTagger(C=0.1, tol=1e-2, solver=solver).fit(X, Y).history_[-1]["oracle_calls"]
        for solver in (DualCoordinate(), EXPENSIVE)
    ]
    assert passes[1] <= 0.9 * passes[0]


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_progress_is_told_after_every_batch(batch_size):
    reported = []

    def callback(record):
        return False

    callback.on_oracle = lambda done, total: reported.append((done, total))
    X, y = examples(20)
    solver = DualCoordinate(oracle="expensive", batch_size=batch_size)
    StructuredSVM(Counting(), solver=solver, oracle="expensive", callbacks=[callback]).fit(X, y)
    assert {total for _, total in reported} == {20}
    # pieces of at least a batch: 20 of one, 6 of three or four, one of all
    first = [done for done, _ in reported[: {1: 20, 3: 8, 16: 2}[batch_size]]]
    assert first == sorted(set(first))
    assert first[-1] == 20
    assert max(done for done, _ in reported) == 20


def test_the_progress_line_shows_it():
    from io import StringIO

    from maxmargin.callbacks import Progress

    class Terminal(StringIO):
        def isatty(self):
            return True

    line = Progress(Terminal())
    X, y = examples(20)
    StructuredSVM(TinyMulticlass(), oracle="expensive", callbacks=[line]).fit(X, y)
    assert "oracle 20/20" in line.to.getvalue()


def test_a_time_limit_ends_a_pass():
    X, y = examples(60)
    # compile before the time limit starts
    StructuredSVM(TinyMulticlass(), 1.0, oracle="expensive", max_iter=1).fit(X, y)
    Counting.pause = 0.01
    svm = StructuredSVM(Counting(), 1.0, oracle="expensive", max_seconds=0.1).fit(X, y)
    assert svm.stop_reason_ == "max_seconds"
    # part of the first pass, and one confirming pass
    assert Counting.calls < 60 + 40
    assert svm.lower_bound_ <= svm.objective_
    assert svm.objective_ <= structured_objective(svm.task_, X, y, np.zeros(9), 1.0)
    assert svm.objective_ == pytest.approx(structured_objective(svm.task_, X, y, svm.coef_, 1.0))


def test_ctrl_c_between_two_calls():
    X, y = examples(60)
    Counting.press_at = 25
    svm = interrupted(StructuredSVM(Counting(), 1.0, oracle="expensive").fit, X, y).estimator
    assert svm.stop_reason_ == "interrupted"
    assert Counting.calls <= 25 + 60  # plus the confirming pass
    F = structured_objective(svm.task_, X, y, svm.coef_, 1.0)
    assert svm.objective_ == pytest.approx(F, rel=1e-9)
    assert 0.0 < svm.lower_bound_ <= svm.objective_


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match="batch_size=0: use a positive integer"):
        DualCoordinate(oracle="expensive", batch_size=0)
    X, y = examples(5)
    with pytest.raises(ValueError, match="'cheap' or 'expensive'"):
        StructuredSVM(TinyMulticlass(), oracle="slow").fit(X, y)
