"""The problems of the kernel benchmark, and one fit of one of them.

gamma and C are close to the best values of a small search on held-out samples with LIBSVM, and the same for
all methods. Data are dense and in double precision: LIBSVM is up to three times slower on the same data
stored sparse.
"""

from __future__ import annotations

from benchmarks.common import Cell, cpu, peak_memory_gb

# ruff: isort: split
import resource
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks import datasets

#: CPU seconds after which LIBSVM or oneDAL is killed and ours is stopped
LIMIT = 600
#: rows whose prediction is timed, the same for all
TIMED_ROWS = 5_000
#: CPU seconds that the test error may take
ERROR_SECONDS = 600
#: megabytes of LIBSVM's and oneDAL's cache
CACHE = 1_000
#: the methods that are not ours: scikit-learn's SVC (LIBSVM), and that of scikit-learn-intelex (oneDAL)
PEERS = ("svc", "onedal", "onedal (2 threads)")
#: rows of the fit that loads the compiled functions
WARM = 400


@dataclass(frozen=True)
class Problem:
    """A data set with its kernel's gamma, and C."""

    gamma: float
    C: float


PROBLEMS = {
    "a9a": Problem(0.05, 1.0),
    "ijcnn1": Problem(2.0, 32.0),
    "covtype": Problem(0.2, 10.0),
    "mnist": Problem(0.02, 10.0),
    "checkerboard": Problem(10.0, 10.0),
    "mnist10": Problem(0.02, 10.0),
}
#: data set and rows of the main table, by name
MAIN = {
    "a9a": ("a9a", 32_561),
    "ijcnn1": ("ijcnn1", 49_990),
    "covtype-20k": ("covtype", 20_000),
    "covtype-50k": ("covtype", 50_000),
    "covtype-100k": ("covtype", 100_000),
    "covtype-all": ("covtype", 522_910),
    "mnist-20k": ("mnist", 20_000),
    "mnist-60k": ("mnist", 60_000),
    "checkerboard-50k": ("checkerboard", 50_000),
    "checkerboard-200k": ("checkerboard", 200_000),
    "checkerboard-1m": ("checkerboard", 1_000_000),
    "mnist-10": ("mnist10", 60_000),
}
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)
#: small problems, to find the crossover points
SMALL = {
    f"{name}-{n // 1000}k": (name, n)
    for name in ("a9a", "ijcnn1", "covtype", "mnist", "checkerboard")
    for n in SIZES
    if f"{name}-{n // 1000}k" not in MAIN
}
CELLS = {**SMALL, **MAIN}


def seeds(cell: str) -> range:
    """Three seeds up to 50,000 samples, one above."""
    return range(3 if CELLS[cell][1] <= 50_000 else 1)


class Rows(NamedTuple):
    """Training and test rows."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def load(cell: str, seed: int) -> Rows:
    """The samples of a cell. The seed draws and orders the training samples. The test samples are always the
    same, except for covtype, which has no split: 20,000 of those that were not drawn."""
    name, n = CELLS[cell]
    rng = np.random.default_rng(seed)
    if name == "checkerboard":
        return Rows(
            *datasets.checkerboard(n, seed=seed), *datasets.checkerboard(20_000, seed=1_000)
        )
    if name == "covtype":
        X, y = datasets.covtype(dense=True)
        y = np.where(y == 2, 1, -1)
        order = rng.permutation(len(y))
        train, test = order[:n], order[-20_000:]
        return Rows(X[train], y[train], X[test], y[test])
    loader = datasets.mnist if name.startswith("mnist") else getattr(datasets, name)
    (X, y), (X_test, y_test) = loader("train"), loader("test")
    if name == "mnist":
        y, y_test = np.where(y < 5, 1, -1), np.where(y_test < 5, 1, -1)
    train = rng.permutation(len(y))[:n]
    return Rows(_dense(X[train]), y[train], _dense(X_test), y_test)


def _dense(X: Any) -> Any:
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X)


# -- one fit ---------------------------------------------------------------------------------------


def model(cell: str, method: str) -> Any:
    """The estimator."""
    from sklearn.svm import SVC

    problem = PROBLEMS[CELLS[cell][0]]
    if method == "svc":
        return SVC(C=problem.C, gamma=problem.gamma, cache_size=CACHE)
    method, _, several = method.partition(" (")
    threads = int(several[0]) if several else 1
    if method == "onedal":
        import daal4py
        import sklearnex.svm

        daal4py.daalinit(threads)
        return sklearnex.svm.SVC(C=problem.C, gamma=problem.gamma, cache_size=CACHE)
    from maxmargin import KernelSVC

    return KernelSVC(
        problem.C, gamma=problem.gamma, method=method, max_seconds=LIMIT, n_jobs=threads
    )


def cache_misses() -> int:
    """Number of functions that this process had to compile because they were not cached."""
    return sum(
        sum(thing.stats.cache_misses.values())
        for name, module in list(sys.modules.items())
        if name.startswith("maxmargin")
        for thing in vars(module).values()
        if hasattr(thing, "overloads") and hasattr(thing, "stats")
    )


def run(cell: str, seed: int, method: str) -> Cell:
    """One fit and its predictions, in this process: CPU seconds, and the reported bounds."""
    warnings.simplefilter("ignore")
    rows = load(cell, seed)
    warm = _some(rows)
    model(cell, method).fit(*warm).predict(warm[0])
    held, compiled = peak_memory_gb(), cache_misses()
    svc = model(cell, method)
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if method in PEERS:  # they cannot be stopped in any other way
        limit = int(np.ceil(cpu() + LIMIT)) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
    began, clock = cpu(), time.perf_counter()
    svc.fit(rows.X, rows.y)
    seconds, wall = cpu() - began, time.perf_counter() - clock
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    memory, compiled = peak_memory_gb(), cache_misses() - compiled
    out = {"seconds": seconds, "wall": wall, "memory": memory, "held": held, "compiled": compiled}
    return {**out, "SVs": len(svc.support_), **_certificate(svc), **_predictions(svc, rows)}


def _some(rows: Rows) -> tuple[Any, Any]:
    """A few rows of every class."""
    classes = np.unique(rows.y)
    few = [np.flatnonzero(rows.y == c)[: WARM // len(classes)] for c in classes]
    which = np.concatenate(few)
    return rows.X[which], rows.y[which]


def _certificate(svc: Any) -> Cell:
    if not hasattr(svc, "certificate_"):
        return {}
    names = ("objective", "lower_bound", "gap", "certificate", "stop_reason", "n_iter")
    names += ("restricted_gap", "kernel_values")
    out = {name: getattr(svc, name + "_", None) for name in names}
    said = svc.method_
    out["method_said"] = said if isinstance(said, str) else said[0]
    return out


def _predictions(svc: Any, rows: Rows) -> Cell:
    """Seconds for the first samples, and the error on all samples, or on as many as time allows."""
    head = min(TIMED_ROWS, len(rows.y_test))
    wrong = svc.predict(rows.X_test[:200]) != rows.y_test[:200]  # touches all of the model once
    began = cpu()
    wrong = svc.predict(rows.X_test[:head]) != rows.y_test[:head]
    seconds = cpu() - began
    some = min(len(rows.y_test) - head, int(head * ERROR_SECONDS / max(seconds, 1e-9)))
    if some:
        more = slice(head, head + some)
        wrong = np.r_[wrong, svc.predict(rows.X_test[more]) != rows.y_test[more]]
    out = {"error": float(wrong.mean()), "test_rows": len(wrong)}
    return {**out, "predict_seconds": seconds, "predict_rows": head}
