"""The real program: its start, exit codes, pipes, and Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import maxmargin
from maxmargin.command_line import main

COMMAND = [sys.executable, "-m", "maxmargin"]


def program(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom maxmargin.command_line import main\n"
        "try:\n    main(['fit', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numba', 'scipy', 'sklearn', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "maxmargin fit train.svm --output model.safetensors" in done.stdout
    assert "exit codes:" in done.stdout


def test_every_subcommand_has_help_that_fits_a_terminal(run):
    names = ["fit", "predict", "evaluate", "cv", "convert", "warmup", "versions"]
    listed = run("--help").out
    for name in names:
        assert f"\n    {name} " in listed
        text = run(name, "--help").out
        assert text.startswith("usage: maxmargin")
        assert max(map(len, text.splitlines())) <= 100


def test_version(run):
    outcome = run("--version")
    assert (outcome.code, outcome.out) == (0, f"maxmargin {maxmargin.__version__}\n")


@pytest.mark.slow
def test_exit_codes_of_a_fit(files, tmp_path):
    data, model = files["two classes"], tmp_path / "model.safetensors"
    certified = program("fit", data, "--output", model)
    assert certified.returncode == 0, certified
    assert "certified: " in certified.stdout
    assert certified.stderr == "" or certified.stderr.startswith("maxmargin: compiling")
    stopped = program("fit", data, "--output", model, "--max-iter", 1, "--tol", 1e-9)
    assert stopped.returncode == 3, stopped
    assert "not certified: " in stopped.stdout
    assert model.exists()
    wrong = program("fit", tmp_path / "missing.svm", "--output", model)
    assert wrong.returncode == 2
    assert wrong.stderr == f"maxmargin fit: {tmp_path}/missing.svm: there is no such file.\n"
    assert wrong.stdout == ""


def test_a_traceback_is_shown_on_request(run, tmp_path):
    assert "Traceback" in run("fit", tmp_path / "missing.svm", "--traceback").err
    assert "Traceback" not in run("fit", tmp_path / "missing.svm").err
    outcome = run("fit")
    assert outcome.code == 2
    assert "usage: maxmargin fit DATA [options]" in outcome.err


@pytest.mark.slow
def test_a_reader_that_ends_early_is_no_error(files, tmp_path):
    model = tmp_path / "model.safetensors"
    assert main(["fit", str(files["two classes"]), "--output", str(model), "--quiet"]) == 0
    many = tmp_path / "many.svm"
    many.write_text(files["two classes"].read_text() * 500)
    command = f"{' '.join(COMMAND)} predict {model} {many} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 141)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_closed_streams_are_no_error_of_ours(files, tmp_path, closed):
    model, code = tmp_path / "model.safetensors", 0
    command = f"{' '.join(COMMAND)} fit {files['two classes']} --output {model} {closed}>&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    if closed == 1:
        code, said = 2, "maxmargin fit: standard output is closed: redirect it to a file or to "
        assert done.stderr.startswith(said)
        assert len(done.stderr.splitlines()) == 1
    assert done.returncode == code, done
    assert model.exists() == (code == 0)


@pytest.mark.slow
def test_errors_without_a_reader_keep_their_exit_code(tmp_path):
    """The reader of standard error has ended before the message is written."""
    theirs, ours = os.pipe()
    os.close(theirs)
    try:
        child = subprocess.run([*COMMAND, "fit", tmp_path / "missing.svm"], stderr=ours)
    finally:
        os.close(ours)
    assert child.returncode == 2


def noise(path, n, d):
    """A file of samples with random labels."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), rng.integers(0, 2, n)
    names = ",".join([*(f"x{k}" for k in range(d)), "y"])
    np.savetxt(path, np.c_[X, y], delimiter=",", header=names, comments="", fmt="%.4g")
    return path


@pytest.fixture
def endless(tmp_path):
    """A file on which a fit takes minutes."""
    return noise(tmp_path / "endless.csv", 3000, 60)


@pytest.mark.slow
def test_ctrl_c_writes_what_was_found(run, endless, tmp_path):
    model = tmp_path / "model.safetensors"
    options = ["--estimator", "MeasureSVC", "--C", "1e6", "--tol", "1e-12", "--output", str(model)]
    terminal, theirs = pty.openpty()  # the progress line is for terminals
    child = subprocess.Popen(
        [*COMMAND, "fit", str(endless), *options], stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    try:
        shown = b""
        while b"gap" not in shown:
            shown += os.read(terminal, 1000)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=120)
    finally:
        child.kill()
        os.close(terminal)
    assert child.returncode == 130, out
    assert "not certified" in out
    assert "stopped by Ctrl-C" in out
    assert maxmargin.load(model).stop_reason_ == "interrupted"
    assert len(run("predict", model, endless).out.splitlines()) == 3000


@pytest.mark.slow
def test_a_terminal_shows_what_is_read_and_the_status_in_color(files, tmp_path):
    """On a pipe for the data, whose writer waits: reading takes a while."""
    pipe, model = tmp_path / "slow.svm", tmp_path / "m.safetensors"
    os.mkfifo(pipe)
    terminal, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    command = [*COMMAND, "fit", str(pipe), "--output", str(model)]
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        with pipe.open("w") as file:  # opened when the command reads
            while b" 2 s" not in shown:
                shown += os.read(terminal, 1000)
            file.write(files["two classes"].read_text())
        while b"model written" not in shown:
            shown += os.read(terminal, 1000)
        assert child.wait(timeout=120) == 0
    finally:
        child.kill()
        os.close(terminal)
    assert f"\rreading {pipe}: ".encode() in shown
    assert b"\x1b[32mcertified\x1b[0m: " in shown


@pytest.fixture
def half_done(tmp_path):
    """A file whose cross-validation with a kernel takes long, with a first value of C that does not."""
    return noise(tmp_path / "half_done.csv", 16000, 40)


@pytest.mark.slow
def test_ctrl_c_ends_a_search_at_once_and_prints_what_is_done(half_done):
    options = ["--estimator", "KernelSVC", "--Cs", "1e-4,10", "--folds", "2", "--verbose", "--json"]
    child = subprocess.Popen(
        [*COMMAND, "cv", str(half_done), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ended = 0
        while ended < 2:  # both folds of the first value of C
            ended += "stopped by" in child.stderr.readline()
        time.sleep(1)  # within a fit of the second value, which takes at least two
        pressed = time.perf_counter()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
    assert "stopped by" not in err  # no time was spent on the bounds of a fit that is not used
    assert time.perf_counter() - pressed < 10  # about 0.5 s on an idle machine
    assert child.returncode == 130
    assert err.endswith("maxmargin cv: interrupted; no model was written.\n")
    found = json.loads(out)
    assert [row["folds"] for row in found["table"]] == [2, 0]
    assert (found["best_C"], found["certified"]) == (1e-4, False)
    assert found["table"][1]["mean_score"] is None


def test_ctrl_c_in_a_search_over_linear_svcs_prints_what_is_done(run, files, monkeypatch):
    cells = []

    def press(self, record):
        cells.append(record)
        if len(cells) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("maxmargin.callbacks.Progress.__call__", press)
    outcome = run("cv", files["two classes"], "--Cs", "0.1,1", "--folds", 4, "--verbose")
    assert outcome.code == 130
    assert "of 4 folds" in outcome.out
    assert "interrupted; no model was written" in outcome.err
