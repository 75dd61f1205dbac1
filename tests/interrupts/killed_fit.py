"""Run by test_killed_fits: a fit in a process of its own that is killed again and again, and resumed.

Compiles first, then forks one process per attempt: each is killed by SIGKILL after a random number of
iterations and a random moment more. Prints what was seen, as JSON.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np
from sklearn.base import clone
from tests.tiny_tasks import TinyMulticlass

from maxmargin import Checkpoint, LinearSVC, SequenceTagger, StructuredSVM
from maxmargin.checkpoints import read_file
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.testing import binary_objective, structured_objective

KILLS = 20


def linear():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 60))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + rng.normal(size=1500) > 1.0, 1.0, -1.0)
    return X, y


def sequences():
    rng = np.random.default_rng(1)
    S = [rng.normal(size=(6, 5)) for _ in range(40)]
    return S, [(s[:, :4] + rng.normal(size=(6, 4))).argmax(axis=1) for s in S]


def points():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 4))
    return list(X), [int(k) for k in (X + rng.normal(size=X.shape)).argmax(axis=1)]


def linear_objective(svc, X, y):
    return binary_objective(svc.coef_[0], svc.intercept_[0], X, y, svc.C)


def structured(svm, X, y):
    w = svm.weights_ if isinstance(svm, SequenceTagger) else svm.coef_
    return structured_objective(svm.task_, X, y, w, svm.C)


FITS = {
    "planes": (
        LinearSVC(C=1.0, solver=CuttingPlane(), loss="hinge"),
        linear,
        linear_objective,
        1e-5,
    ),
    "coordinate": (
        LinearSVC(C=10.0, solver=DualCoordinate(), loss="hinge"),
        linear,
        linear_objective,
        1e-3,
    ),
    "tagger": (SequenceTagger(C=10.0), sequences, structured, 1e-4),
    "plain": (StructuredSVM(TinyMulticlass(), C=10.0), points, structured, 1e-4),
}


def attempt(estimator, data, path, write_end):
    """In the forked process: fit, a little slower than it could, until somebody kills it."""

    def slowly(record):
        os.write(write_end, b"%d\n" % record.iteration)
        time.sleep(0.002)

    estimator.set_params(tol=1e-15, callbacks=[slowly])
    estimator.fit(*data, resume_from=path if path.exists() else None)


def kill_once(estimator, data, path, rng):
    """(signal that ended the process, last iteration it reported)."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            attempt(estimator, data, path, write_end)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end) as lines:
        for _ in range(int(rng.integers(2, 5))):
            last = lines.readline()
        time.sleep(
            rng.uniform(0.0, 0.006)
        )  # in the callback, in the write, or in the next iteration
        os.kill(child, signal.SIGKILL)
        reported = [last, *lines.readlines()]
    status = os.waitpid(child, 0)[1]
    numbers = [int(line) for line in reported if line.endswith("\n")]
    return os.WTERMSIG(status), max(numbers, default=0)


def main(kind, folder):
    estimator, make, objective, tol = FITS[kind]
    data, path, rng = make(), Path(folder) / "fit.checkpoint", np.random.default_rng(0)
    fresh = clone(estimator.set_params(tol=tol)).fit(*data)
    seen = []
    estimator.set_params(checkpoint=Checkpoint(path, seconds=None, iterations=1))
    for limit in (2, 4):  # compiles what a resume needs, so that no child has to
        before = path if path.exists() else None
        estimator.set_params(max_iter=limit).fit(*data, resume_from=before)
    estimator.set_params(max_iter=None)
    path.unlink()
    for _ in range(KILLS):
        ended_by, last = kill_once(estimator, data, path, rng)
        assert ended_by == signal.SIGKILL, "the fit ended before it was killed"
        part = read_file(path)[1]["parts"][0]
        kept = {"n_iter": len(part["history"]["iteration"]), "reported": last, "signal": ended_by}
        seen.append(kept | {"lower": part["lower"], "upper": part["upper"]})
    before = part["history"]["objective"]
    straight = clone(estimator).set_params(tol=1e-15, max_iter=len(before), checkpoint=None)
    straight = [r["objective"] for r in straight.fit(*data).history_]
    estimator.set_params(tol=tol, callbacks=None).fit(*data, resume_from=path)
    records = estimator.history_
    report = {
        "kills": seen,
        "fresh": [fresh.lower_bound_, fresh.objective_],
        "bounds": [estimator.lower_bound_, estimator.objective_],
        "recomputed": objective(estimator, *data),
        "gap": estimator.gap_,
        "tol": tol,
        "stop": estimator.stop_reason_,
        "numbered": [r["iteration"] for r in records] == list(range(1, estimator.n_iter_ + 1)),
        "old records": [r["objective"] for r in records][: len(before)] == before.tolist(),
        "straight": straight[:-1] == before[:-1].tolist(),  # the last record of a fit is its end
        "n_iter": estimator.n_iter_,
        "files": sorted(os.listdir(folder)),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
