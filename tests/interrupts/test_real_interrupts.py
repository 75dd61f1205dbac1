"""One press of Ctrl-C in a real process ends what was called, and what was found is usable."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "tests.interrupts.interrupted_fit"
CASES = [
    *("fit", "returned", "structured"),
    *("grid_search", "cross_validation", "svc_cv", "path"),
]


def start(*cases):
    return subprocess.Popen(
        [sys.executable, "-m", SCRIPT, *cases],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def press(child):
    """Once, when a fit is under way."""
    line = child.stdout.readline()
    assert line == "fitting\n", line + child.stderr.read()
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)


@pytest.mark.slow
def test_one_press_ends_a_call_and_leaves_something_usable():
    child = start(*CASES)
    try:
        for case in CASES:
            press(child)
            line = child.stdout.readline()
            assert line == f"usable {case}\n", line + child.stderr.read()
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.communicate()


def test_one_press_ends_a_plain_script():
    child = start("script", "fit")
    try:
        press(child)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == -signal.SIGINT  # as every interrupted program of Python
    assert out == ""
    assert "KeyboardInterrupt" in err
    assert "LinearSVC: gap" in err
