"""A first fit says that it compiles, and a warmed-up cache leaves nothing to compile."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
from sklearn.base import BaseEstimator

import maxmargin
from maxmargin.command_line import main, warm_up
from maxmargin.command_line.warm_up import TINY_FITS
from maxmargin.compiled import notice

FIT = """
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_iris
from maxmargin import LinearSVC
for X, y in (load_breast_cancer(return_X_y=True), load_iris(return_X_y=True)):
    LinearSVC(tol=0.1).fit(X, y).predict(X)
    LinearSVC(tol=0.1).fit(csr_matrix(X), y)
from maxmargin.compiled.notice import notice
print(notice.functions)
"""


def fit_elsewhere(cache):
    return run_elsewhere(cache, "-W", "ignore", "-c", FIT)


def run_elsewhere(cache, *arguments):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "MAXMARGIN_JIT": "1"}
    environment.pop("MAXMARGIN_QUIET", None)
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.slow
@pytest.mark.nightly
def test_the_first_process_says_once_that_it_compiles_and_the_second_compiles_nothing(tmp_path):
    first = fit_elsewhere(tmp_path)
    assert first.stderr == notice.NOTICE
    assert int(first.stdout) > 10
    second = fit_elsewhere(tmp_path)
    assert (second.stdout.strip(), second.stderr) == ("0", "")


@pytest.mark.slow
@pytest.mark.nightly
def test_after_a_warm_up_a_fit_compiles_nothing(tmp_path):
    warmed = run_elsewhere(tmp_path, "-m", "maxmargin", "warmup", "LinearSVC")
    name, seconds, _ = warmed.stdout.splitlines()[0].split()
    assert name == "LinearSVC"
    assert float(seconds) > 0.0
    fitted = fit_elsewhere(tmp_path)
    assert (fitted.stdout.strip(), fitted.stderr) == ("0", "")


def compilation(module="maxmargin.compiled.chain"):
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(__module__=module)})


def compile_with_notice(*events):
    """What a notice writes about these compilations, one after the other."""
    listener = notice.CompileNotice()
    for event in events:
        listener.on_start(event)
        listener.on_end(event)
    return listener


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(notice, "PATIENCE", -1.0)
    monkeypatch.delenv("MAXMARGIN_QUIET", raising=False)


def test_the_notice_is_written_once(impatient, capsys):
    compile_with_notice(compilation(), compilation())
    assert capsys.readouterr().err == notice.NOTICE


def test_short_compilations_are_silent(capsys):
    compile_with_notice(compilation())
    assert capsys.readouterr().err == ""


def test_functions_of_others_do_not_count(impatient, capsys):
    listener = compile_with_notice(compilation("numba.np.arraymath"), compilation("mine"))
    assert listener.functions == 0
    assert capsys.readouterr().err == ""


def test_nested_compilations_count_their_time_once(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(notice.time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setenv("MAXMARGIN_QUIET", "1")
    listener = notice.CompileNotice()
    listener.on_start(compilation())  # begins at 0, looks again at 1
    listener.on_start(compilation())  # 2
    listener.on_end(compilation())  # 3
    listener.on_end(compilation())  # 4
    assert listener.seconds == 4.0
    assert listener.functions == 2


def test_the_environment_hides_the_notice(impatient, monkeypatch, capsys):
    monkeypatch.setenv("MAXMARGIN_QUIET", "1")
    compile_with_notice(compilation())
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("MAXMARGIN_QUIET", "0")
    compile_with_notice(compilation())
    assert capsys.readouterr().err == notice.NOTICE


def test_the_level_of_the_logger_hides_the_notice(impatient, capsys):
    logger = logging.getLogger("maxmargin")
    before = logger.level
    try:
        logger.setLevel(logging.ERROR)
        compile_with_notice(compilation())
    finally:
        logger.setLevel(before)
    assert capsys.readouterr().err == ""


def test_every_estimator_can_be_warmed_up():
    estimators = {
        name
        for name in maxmargin.__all__
        if isinstance(getattr(maxmargin, name), type)
        and issubclass(getattr(maxmargin, name), BaseEstimator)
    }
    assert set(TINY_FITS) == estimators


def test_warm_up_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="unknown estimators: SVC"):
        maxmargin.warm_up(["SVC"])
    with pytest.raises(ValueError, match="must be 'all' or a list"):
        maxmargin.warm_up("LinearSVC")


def test_the_command_prints_the_seconds_of_each_estimator(monkeypatch, capsys):
    asked = []
    for name in TINY_FITS:
        monkeypatch.setitem(TINY_FITS, name, partial(asked.append, name))
    monkeypatch.setattr(warm_up, "_seconds", lambda fit: fit() or 1.25)
    assert main(["warmup"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["LinearSVC", "1.2", "s"]
    assert asked == list(warm_up.COMMON)
    asked.clear()
    assert main(["warmup", "--all"]) == 0
    assert asked == list(TINY_FITS)
    assert main(["warmup", "Unknown"]) == 2


def test_the_command_is_a_module_and_prints_versions():
    out = subprocess.run(
        [sys.executable, "-m", "maxmargin", "versions"], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines()[0].split() == ["maxmargin", maxmargin.__version__]
    assert "numba" in out.stdout
