"""An estimator that counts the threads of its fits, importable in worker processes."""

from __future__ import annotations

import threading

from maxmargin import LinearSVC
from maxmargin.solvers import CuttingPlane


def engine_threads() -> int:
    """Number of threads of the library's engines in this process, without the calling ones."""
    return sum(thread.name.startswith("maxmargin") for thread in threading.enumerate())


class CountingSVC(LinearSVC):
    """``threads_``: the largest number of engine threads in this process during the fit."""

    def fit(self, X, y):
        found = []
        self.set_params(callbacks=[lambda record: found.append(engine_threads()) and None])
        super().fit(X, y)
        self.set_params(callbacks=None)
        self.threads_ = max(found)
        return self


def count(estimator, X, y):
    """A score: the number of threads."""
    return float(estimator.threads_)


def planes(n_jobs):
    """A small fit that uses all shards in every iteration."""
    return CountingSVC(C=0.01, solver=CuttingPlane(), n_jobs=n_jobs)
