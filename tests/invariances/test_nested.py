"""n_jobs of an estimator inside a search with n_jobs of its own, and in forked processes: no more threads
than cores, no deadlock, and the same results."""

from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pytest
from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.invariances.nested_fits import count, planes
from tests.nightly import first
from threadpoolctl import threadpool_info, threadpool_limits

from maxmargin import LinearSVC
from maxmargin.engines import ProcessEngine, RayEngine, ThreadEngine
from maxmargin.estimators.threads import one_blas_thread
from maxmargin.solvers import CuttingPlane, DualCoordinate

fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)


@pytest.fixture(autouse=True)
def no_workers_left():
    """joblib keeps its processes for the next call; other tests count processes."""
    yield
    get_reusable_executor().shutdown(wait=True)


@pytest.fixture(scope="module")
def problem():
    X = np.random.default_rng(0).normal(size=(60_000, 10))
    return X, X[:, 0] + X[:, 1] ** 2 > 1.0


def search(problem, backend, n_jobs):
    """The number of engine threads in each cell of a search with two workers of joblib."""
    grid = GridSearchCV(
        planes(n_jobs), {"C": [0.01, 0.02]}, cv=2, n_jobs=2, scoring=count, refit=False
    )
    with parallel_config(backend=backend):
        found = grid.fit(*problem).cv_results_
    return [found[f"split{k}_test_score"].tolist() for k in range(2)]


def test_without_a_search_threads_are_used(problem):
    assert planes(2).fit(*problem).threads_ == 1  # and the calling one
    grid = GridSearchCV(planes(2), {"C": [0.01]}, cv=2, scoring=count, refit=False).fit(*problem)
    assert grid.cv_results_["mean_test_score"] == [1.0]  # a search without workers


@pytest.mark.parametrize("n_jobs", first(1, [2, -1]))
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_fits_in_workers_of_a_search_share_the_cores(problem, backend, n_jobs, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = max(1, cpu_count() // 2) if backend == "loky" else 1
    found = np.unique(search(problem, backend, n_jobs)) + 1.0  # with the calling thread
    assert found == [min(n_jobs, cores)] if n_jobs > 0 else found.max() <= cores


@fork
def test_processes_of_a_search_use_the_threads_that_they_are_granted(problem, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert np.unique(search(problem, "multiprocessing", 4)) == [2.0]


def test_blocks_and_processes_inside_a_search_give_the_same_results(problem):
    X, y = problem
    for own in (
        {"solver": DualCoordinate(blocks=4)},
        {"solver": CuttingPlane(), "engine": "processes"},
    ):
        svc = LinearSVC(C=0.01, n_jobs=2, **own, loss="hinge")
        alone = clone(svc).set_params(engine=None).fit(X, y)
        with parallel_config(backend="threading"):
            fits = Parallel(n_jobs=2)(delayed(clone(svc).fit)(X, y) for _ in range(2))
        for fit in fits:
            assert fit.coef_.tobytes() == alone.coef_.tobytes()


def blas_threads():
    return {own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"}


def test_fits_in_several_threads_restore_the_number_of_blas_threads():
    inside, leave = threading.Event(), threading.Event()

    def short():
        with one_blas_thread:
            inside.set()
            leave.wait(10.0)

    with threadpool_limits(2, user_api="blas"):
        first = threading.Thread(target=short)
        first.start()
        inside.wait(10.0)
        with one_blas_thread:
            leave.set()
            first.join()
            assert blas_threads() == {1}  # the end of the other fit does not end this limit
        assert blas_threads() == {2}


def in_fork(function):
    """The result of a function in a forked process; fails if it does not end."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(function()))
    child.start()
    try:
        assert ours.poll(30.0), "the forked process is blocked"
        return ours.recv()
    finally:
        child.kill()
        child.join()


@fork
@pytest.mark.parametrize("solver", [CuttingPlane(), DualCoordinate(blocks=4)])
def test_a_forked_process_can_fit_after_a_fit_with_threads(problem, solver):
    X, y = problem
    svc = LinearSVC(C=0.01, n_jobs=2, solver=solver, loss="hinge").fit(X, y)
    assert in_fork(lambda: clone(svc).fit(X, y).coef_.tobytes()) == svc.coef_.tobytes()


@fork
def test_a_forked_process_can_use_an_engine_with_threads(problem):
    X, y = problem
    engine = ThreadEngine(3)
    svc = LinearSVC(C=0.01, engine=engine, solver=CuttingPlane(), loss="hinge").fit(X, y)
    assert in_fork(lambda: clone(svc).fit(X, y).coef_.tobytes()) == svc.coef_.tobytes()
    engine.close()


@fork
def test_a_forked_process_cannot_use_workers_of_its_parent():
    engine = ProcessEngine(2).open(np.asarray, [[1.0, 2.0], [3.0]])

    def refused(call):
        try:
            call()
        except RuntimeError as error:
            return str(error)
        return ""

    def child():
        found = [refused(lambda: engine.reduce(np.ndarray.sum))]
        found.append(refused(lambda: engine.open(np.asarray, [[1.0]])))
        engine.close()  # leaves the workers to the parent
        return found

    for message in in_fork(child):
        assert f"created in process {os.getpid()}" in message
        assert "create another ProcessEngine here" in message
    assert engine.reduce(np.ndarray.sum) == 6.0
    engine.close()
    cluster = RayEngine(n_workers=2)
    message = in_fork(lambda: refused(lambda: cluster.open(np.asarray, [[1.0]])))
    assert "create another RayEngine here" in message
