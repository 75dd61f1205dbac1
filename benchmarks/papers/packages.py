"""Competitors from PyPI on two-class problems without an intercept: Vowpal Wabbit and skglm, if installed."""

from __future__ import annotations

from benchmarks.common import Cell, cpu, scratch

# ruff: isort: split
import contextlib
import importlib.metadata
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.problems import Problem

#: passes of Vowpal Wabbit over the rows, as many as of SGD
PASSES = 10
#: working sets of skglm; its default of 50 is too few for these problems
WORKING_SETS = 5000
#: CPU seconds that a fit of skglm may take
SKGLM_LIMIT = 10.0

NOTES = (
    f"skglm is stopped after {SKGLM_LIMIT:g} s; Vowpal Wabbit makes {PASSES} passes with its default "
    "updates, whose rates differ by feature, so that its L2 is not exactly that of F"
)


def version(name: str) -> str | None:
    """The version of a package, or None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def vowpal_wabbit(problem: Problem, C: float, limit: float = 0.0) -> Cell:
    """Online gradient descent with rates per feature. CPU seconds include reading the file once."""
    from vowpalwabbit import Workspace

    with scratch() as folder:
        _write(problem, folder / "rows")
        began = cpu()
        options = f"--loss_function hinge --l2 {1.0 / (C * problem.n):.17g} --noconstant -b 18"
        files = f"-d {folder / 'rows'} -c -k --readable_model {folder / 'model'}"
        Workspace(f"{files} --passes {PASSES} --holdout_off --quiet {options}").finish()
        seconds = cpu() - began
        w = _weights((folder / "model").read_text(), problem.X.shape[1])
    return {"seconds": seconds, "iterations": PASSES, "w": w, "finished": True}


def _write(problem: Problem, path: Path) -> None:
    """Rows in Vowpal Wabbit's format, shuffled: it visits them as they are stored."""
    X, signs = problem.X.tocsr(), np.sign(problem.y).astype(int)
    with path.open("w") as file:
        for i in np.random.default_rng(0).permutation(problem.n):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[entries], X.data[entries], strict=True)
            file.write(f"{signs[i]} | " + " ".join(f"{j}:{x:.9g}" for j, x in pairs) + "\n")


def _weights(model: str, d: int) -> np.ndarray:
    """The weights of a readable model, which stores them without the factor that L2 shrinks all by."""
    w = np.zeros(d)
    for index, value in re.findall(r"^(\d+):(\S+)", model, re.MULTILINE):
        w[int(index)] = float(value)
    shrunk = re.search(r"l2_state (\S+)", model)
    return w if shrunk is None else w * float(shrunk[1])


def skglm(problem: Problem, C: float, limit: float = 0.0) -> Cell:
    """Coordinate descent on the dual with working sets."""
    from skglm import LinearSVC

    svc = LinearSVC(C=C, tol=1e-3, fit_intercept=False, max_iter=WORKING_SETS)
    few = problem.some()
    svc.fit(few.X, few.y)  # compiles
    began, done = cpu(), False
    with contextlib.suppress(TimeoutError), _limited(SKGLM_LIMIT):
        svc.fit(problem.X, problem.y)
        done = svc.n_iter_ < WORKING_SETS
    out: Cell = {"seconds": cpu() - began, "finished": done}
    return {**out, "iterations": int(svc.n_iter_), "w": svc.coef_.ravel()} if done else out


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after so many CPU seconds: skglm has no limit of its own."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
