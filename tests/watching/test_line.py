"""``verbose=1`` shows one live line in a terminal, and lines with the time elsewhere."""

from __future__ import annotations

import io
import itertools
import os
import pty
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris

from maxmargin import LinearSVC, LinearSVCCV, SequenceTagger, StructuredSVM, svc_path
from maxmargin.callbacks import Progress
from maxmargin.core.result import IterationRecord
from maxmargin.core.stopping import RelativeGap
from maxmargin.tasks import Chain

X, Y = load_breast_cancer(return_X_y=True)
CHAINS = [np.eye(3)[[0, 1, 2, 1]], np.eye(3)[[2, 1, 0, 0]]], [[0, 1, 2, 1], [2, 1, 0, 0]]
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
FITS = {
    "LinearSVC": (LinearSVC, (X, Y)),
    "SequenceTagger": (SequenceTagger, CHAINS),
    "StructuredSVM": (
        lambda **options: StructuredSVM(Chain(n_labels=3), **options),
        (CHAINS[0], [np.array(y) for y in CHAINS[1]]),
    ),
}
SLOW_FIT = """
import time
from sklearn.datasets import load_breast_cancer
from maxmargin import LinearSVC
X, y = load_breast_cancer(return_X_y=True)
svc = LinearSVC(C=100.0, loss="hinge", tol=1e-5, verbose=1)
svc.callbacks = [lambda record: time.sleep(0.12)]
svc.fit(X / X.std(axis=0), y)
"""


@pytest.fixture(params=FITS)
def fit(request):
    return FITS[request.param]


def record(iteration, gap, elapsed, **more):
    values = {"objective": 1.0, "lower_bound": 1.0 - gap, "n_cuts": 0, "n_active": 0, "step": None}
    values |= {"oracle_calls": 2.0, "seconds_oracle": 0.0, "seconds_plane": 0.0, "seconds_qp": 0.0}
    values |= {"seconds_line_search": 0.0, "method": "newton", "C": 1.0, **more}
    return IterationRecord(iteration=iteration, gap=gap, elapsed=elapsed, **values)


def in_terminal(code: str) -> str:
    """What a program shows on a real pseudo-terminal as standard error."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # closed at the other end
                return
            if not data:
                return
            shown.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run([sys.executable, "-c", code], stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    reader.join(30)
    os.close(ours)
    assert done.returncode == 0, b"".join(shown)
    assert done.stdout == b""
    return b"".join(shown).decode()


def test_terminal_shows_one_live_line_and_the_final_state():
    shown = in_terminal(SLOW_FIT)
    assert shown.count("\n") == 1
    *live, final = shown.removesuffix("\r\n").strip("\r").split("\r")
    assert len(live) > 2
    for state in live:
        assert re.search(r"\w+  objective \S+  gap \S+  \S+ passes  \S+ s", state), state
    assert any("left" in state for state in live)
    assert re.fullmatch(
        r"LinearSVC: stopped by gap  certificate exact  gap \S+  objective \S+  \d+ iterations  \S+ s *",
        final,
    )
    # nothing of a longer state is left behind a shorter one
    states = [*live, final]
    for one, other in itertools.pairwise(states):
        assert len(other) >= len(one.rstrip())


def test_pipe_gets_the_final_line_with_the_time():
    done = subprocess.run([sys.executable, "-c", SLOW_FIT], capture_output=True, text=True)
    assert done.stdout == ""
    assert "\r" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert re.match(STAMP + "LinearSVC: stopped by gap  certificate exact  gap", last)


def test_lines_off_a_terminal_keep_the_interval():
    stream = io.StringIO()
    LinearSVC(callbacks=[Progress(stream, interval=0.0)], loss="hinge").fit(X, Y)
    lines = stream.getvalue().splitlines()
    assert len(lines) > 2
    assert all(re.match(STAMP, line) for line in lines)
    rare = io.StringIO()
    LinearSVC(callbacks=[Progress(rare, interval=600.0)], loss="hinge").fit(X, Y)
    assert rare.getvalue().count("\n") == 1


def test_verbose_writes_to_stderr_only(fit, capfd):
    make, data = fit
    est = make(verbose=1).fit(*data)
    out, err = capfd.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    assert f"stopped by {est.stop_reason_}  certificate {est.certificate_}" in last
    assert f"gap {est.gap_:.2e}" in last


def test_silence_is_the_default(fit, capfd):
    make, data = fit
    make().fit(*data)
    assert capfd.readouterr() == ("", "")


def test_one_final_line_for_all_classes(capfd):
    LinearSVC(multi_class="ovr", verbose=1, loss="hinge").fit(*load_iris(return_X_y=True))
    assert capfd.readouterr().err.count("stopped by") == 1


def test_time_left_from_the_trend_of_the_gap():
    line = Progress(io.StringIO())
    line.begin(rule=RelativeGap(1e-4))
    for k in range(1, 6):  # a tenth of the gap every second; 1e-3 when half of the time is over
        line.follow(record(k, 10.0 ** (-k / 2), float(k)))
    # from 10^-2.5 to 10^-4 at half a decade per second
    assert "about 3 s left" in line.text()
    line.begin(rule=RelativeGap(1e-4), seconds=6.5)
    for k in range(1, 6):
        line.follow(record(k, 10.0 ** (-k / 2), float(k)))
    assert "about 2 s left" in line.text()  # the time limit is sooner


@pytest.mark.parametrize(
    "gaps", [[0.5], [0.5] * 6, [np.inf] * 6, [0.5 - 1e-6 * k for k in range(6)]]
)
def test_no_time_left_without_a_trend(gaps):
    line = Progress(io.StringIO())
    line.begin(rule=RelativeGap(1e-4))
    for k, gap in enumerate(gaps, 1):
        line.follow(record(k, gap, float(k)))
    assert "left" not in line.text()


def test_error_ends_the_line(capfd):
    def fail(record):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        LinearSVC(verbose=1, callbacks=[fail], loss="hinge").fit(X, Y)
    assert "stopped by" not in capfd.readouterr().err


def test_estimator_with_a_line_can_be_cloned(capfd):
    clone(LinearSVC(callbacks=[Progress()], loss="hinge")).fit(X, Y)
    assert "stopped by gap" in capfd.readouterr().err


def test_paths_name_each_fit(capfd):
    svc_path(X / X.std(axis=0), Y, [1.0, 0.1], verbose=1, loss="hinge")
    first, second = [one for one in capfd.readouterr().err.splitlines() if "stopped" in one]
    assert "fit 1 of 2, C=0.1  stopped by gap" in first
    assert "fit 2 of 2, C=1  stopped by gap" in second


def test_cross_validation_counts_cells():
    stream = io.StringIO()
    line = Progress(stream, interval=0.0)
    LinearSVCCV([0.1, 1.0], cv=3, callbacks=[line], loss="hinge").fit(X / X.std(axis=0), Y)
    lines = stream.getvalue().splitlines()
    for k, text in enumerate(lines[:-1], 1):
        assert re.match(STAMP + rf"cell {k} of 6  C=\S+, class_weight=None, fold \d  gap \S+", text)
    assert "left" in lines[2]
    assert re.search(r"LinearSVCCV: best C=\S+, class_weight=None  score 0\.9\d+", lines[-1])
