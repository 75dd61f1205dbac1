"""Every estimator, the same bits on every engine; engines given as objects; what travels to the workers."""

from __future__ import annotations

import os
import pickle
import warnings
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.latent_tasks import Bags
from tests.slow_tasks import Sleepy, examples
from tests.tiny_tasks import TinyMulticlass

from maxmargin import (
    GrammarParser,
    GraphLabeler,
    LatentStructuredSVM,
    LinearSVC,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    StructuredSVMCV,
    data,
    load,
    svc_path,
)
from maxmargin.engines import ProcessEngine, SerialEngine, ThreadEngine
from maxmargin.risks import TaskRisk
from maxmargin.risks.lines.shard import LineShard
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Graph

PLANES = CuttingPlane()
CERTIFICATE = ("objective_", "lower_bound_", "gap_", "stop_reason_", "n_iter_")


def rows(n=3000, d=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n)


def labeled(n_classes=2):
    X, f = rows()
    return X, np.digitize(f, np.quantile(f, np.arange(1, n_classes) / n_classes))


def sparse():
    X, y = labeled()
    X[np.abs(X) < 1.0] = 0.0
    return sp.csr_matrix(X), y


def queries():
    X, f = rows()
    return X, np.digitize(f, [-1.0, 1.0]), np.repeat(np.arange(150), 20)


def sequences():
    rng = np.random.default_rng(0)
    Y = [rng.integers(0, 3, size=6) for _ in range(130)]
    return [np.eye(3)[y] + rng.normal(size=(6, 3)) for y in Y], Y


def graphs():
    rng = np.random.default_rng(0)
    ring = [[i, (i + 1) % 5] for i in range(5)]
    Y = [rng.integers(0, 2, size=5) for _ in range(70)]
    return [Graph(np.eye(2)[y] + rng.normal(size=(5, 2)), ring) for y in Y], Y


def trees():
    rng = np.random.default_rng(0)
    nouns = ["(NP (DT the) (NN cat))", "(NP (NN dogs))", "(NP (DT a) (NN man))"]
    pick = lambda options: options[rng.integers(len(options))]  # noqa: E731
    # of nouns and verbs alike, so that training has something to do
    verb = ["(VP (VBD saw) {0} (PP (IN with) {1}))", "(VP (VBD saw) (NP {0} (PP (IN with) {1})))"]
    return None, [
        f"(S {pick(nouns)} {pick(verb).format(pick(nouns), pick(nouns))})" for _ in range(70)
    ]


def bags():
    rng = np.random.default_rng(0)
    Y = rng.choice([-1, 1], size=70)
    return [rng.normal(size=(4, 3)) + (y > 0) * (np.arange(4) == 2)[:, None] for y in Y], Y


FITS = {
    "binary": (LinearSVC(C=0.01, solver=PLANES, loss="hinge"), labeled()),
    "binary, coordinates": (LinearSVC(C=0.01, loss="hinge"), sparse()),
    "classes": (LinearSVC(C=0.01, solver=PLANES, loss="hinge"), labeled(4)),
    "one against the rest": (
        LinearSVC(C=0.01, solver=PLANES, multi_class="ovr", loss="hinge"),
        labeled(3),
    ),
    "prior": (
        LinearSVC(C=0.01, solver=PLANES, nonnegative=[0], fixed={1: 0.1}, loss="hinge"),
        labeled(),
    ),
    "regression": (LinearSVR(0.01, solver=PLANES), rows()),
    "ranking": (RankSVM(0.01), queries()),
    "f1": (MeasureSVC("f1", C=0.01), labeled()),
    "roc area": (MeasureSVC("roc_auc", C=0.01), sparse()),
    "measure of errors": (MeasureSVC("error", C=0.01, solver=PLANES), labeled()),
    "tags": (SequenceTagger(0.1, solver=PLANES), sequences()),
    "tags, sets": (SequenceTagger(0.1), sequences()),
    "tags, slack": (SequenceTagger(0.1, solver=PLANES, rescaling="slack"), sequences()),
    "graphs": (GraphLabeler(0.1, solver=PLANES), graphs()),
    "trees": (GrammarParser(0.1, solver=PLANES), trees()),
    "own task": (StructuredSVM(TinyMulticlass(), 0.1, solver=PLANES), examples(100)),
    "own task, expensive": (StructuredSVM(TinyMulticlass(), 0.1, oracle="expensive"), examples(40)),
    "latent": (LatentStructuredSVM(Bags(), 0.1, solver=PLANES), bags()),
}


def weights_of(fitted):
    return np.asarray(fitted.weights_ if hasattr(fitted, "weights_") else fitted.coef_)


def fit(name, **how):
    estimator, problem = FITS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # methods that work here; see below
        return clone(estimator).set_params(tol=1e-2, **how).fit(*problem)


@pytest.mark.parametrize("name", FITS)
def test_every_engine_gives_the_same_bits(name, processes):
    one = fit(name)
    engines = [
        {"engine": SerialEngine()},
        *({"n_jobs": k} for k in (1, 2, 7)),
        {"engine": processes},
    ]
    for how in engines:
        other = fit(name, **how)
        assert weights_of(other).tobytes() == weights_of(one).tobytes(), how
        assert [getattr(other, a) for a in CERTIFICATE] == [getattr(one, a) for a in CERTIFICATE]
    assert one.n_iter_ > 1


def test_paths_and_grids_take_engines(processes):
    X, y = labeled()
    options = {"solver": PLANES, "tol": 1e-2}
    here = svc_path(X, y, [0.001, 0.01], **options, loss="hinge")
    there = svc_path(X, y, [0.001, 0.01], engine=processes, **options, loss="hinge")
    assert [a.coef_.tobytes() for a in here] == [b.coef_.tobytes() for b in there]
    grids = [
        StructuredSVMCV(TinyMulticlass(), [0.1, 1.0], cv=2, oracle="expensive", engine=engine).fit(
            *examples(30)
        )
        for engine in ("threads", processes)
    ]
    assert grids[0].coef_.tobytes() == grids[1].coef_.tobytes()


# -- engines as objects ----------------------------------------------------------------------------


def test_an_engine_object_is_not_closed():
    engine = ThreadEngine(2)
    first, second = (fit("binary", engine=engine) for _ in range(2))
    assert first.coef_.tobytes() == second.coef_.tobytes()
    value = engine.reduce(LineShard.line_value_toward, *[max(engine._shards[0]._scores)] * 2, 0.0)
    assert value > 0.0  # its shards are still there
    engine.close()
    with pytest.raises(RuntimeError, match="no shards"):
        engine.reduce(LineShard.line_value, 0)


def test_copies_of_engines_stand_for_the_same_kind():
    for engine in (SerialEngine(), ThreadEngine(3), ProcessEngine(2)):
        svc = LinearSVC(engine=engine, loss="hinge")
        copies = [clone(svc).engine, pickle.loads(pickle.dumps(svc)).engine]
        for copy in copies:
            assert type(copy) is type(engine)
            assert copy is not engine
            assert getattr(copy, "n_workers", 1) == getattr(engine, "n_workers", 1)


def test_a_fitted_estimator_with_an_engine_can_be_copied(processes):
    svc = fit("binary", engine=processes)  # whose workers run
    again = pickle.loads(pickle.dumps(svc))
    assert again.coef_.tobytes() == svc.coef_.tobytes()
    assert not again.engine._workers
    clone(svc)


def test_a_model_file_names_local_engines_only(tmp_path, processes):
    for name in ("processes", "ray"):
        svc = fit("binary").set_params(engine=name, n_jobs=2)
        assert load(svc.save(tmp_path / "model") and tmp_path / "model").engine == name
    for engine in (processes, "ray://somewhere:10001"):
        svc = fit("binary").set_params(engine=engine)
        with pytest.warns(UserWarning, match="parameter engine="):
            svc.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.engine == "threads"
        assert loaded.coef_.tobytes() == svc.coef_.tobytes()


@pytest.mark.parametrize(
    "name", ["binary", "regression", "ranking", "f1", "tags", "graphs", "trees"]
)
def test_an_unknown_engine_is_refused(name):
    with pytest.raises(ValueError, match="use 'threads', 'processes', 'ray'"):
        fit(name, engine="cluster")


# -- methods that work in this process -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "solver", "what"),
    [
        ("binary", DualCoordinate(), "coordinate method .* pass solver=CuttingPlane"),
        ("binary", DualCoordinate(max_cached=500), "stream method"),
        ("tags", DualCoordinate(), r"batch_size=1 calls the oracle.*oracle='expensive'"),
    ],
)
def test_methods_that_leave_the_workers_idle_say_so_once(name, solver, what, processes):
    estimator, problem = FITS[name]
    estimator = clone(estimator).set_params(solver=solver, tol=1e-2)
    with pytest.warns(UserWarning, match=what) as caught:
        estimator.set_params(engine=processes).fit(*problem)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.set_params(engine="threads", n_jobs=2).fit(*problem)


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("binary", PLANES),
        ("tags", PLANES),
        ("graphs", DualCoordinate()),
        ("own task", DualCoordinate()),
        ("own task", DualCoordinate(oracle="expensive")),
    ],
)
def test_methods_that_use_the_workers_say_nothing(name, solver, processes):
    estimator, problem = FITS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(estimator).set_params(solver=solver, engine=processes, tol=1e-2).fit(*problem)


def test_every_batch_is_shared_by_the_workers(processes, tmp_path):
    X, y = examples(96)
    task = Sleepy(seconds=0.0, log=str(tmp_path / "calls"))
    risk = TaskRisk(task, X, y, task.setup(X, y), engine=processes)
    sets = risk.working_sets(1.0)
    order = np.random.default_rng(0).permutation(96)
    visited = risk.in_turn(sets.begin(order, 0.0))
    assert sorted(visited) == list(range(96))
    for k in range(0, 96, sets.batch_size):
        (tmp_path / "calls").write_text("")
        risk.answers_for(sets.w, visited[k : k + sets.batch_size])
        calls = (tmp_path / "calls").read_text().splitlines()
        shares = Counter(line.split()[0] for line in calls)
        assert sorted(shares.values()) == [2, 2]


def test_few_examples_of_an_own_task_use_the_workers(processes, tmp_path):
    log = tmp_path / "calls"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StructuredSVM(Sleepy(0.0, str(log)), engine=processes).fit(*examples(16))
    pids = {int(line.split()[0]) for line in log.read_text().splitlines()}
    assert len(pids) == 2
    assert os.getpid() not in pids


# -- what travels ----------------------------------------------------------------------------------


class Noting(SerialEngine):
    """Notes how large the pickled factory and specs are, and builds its shards from them."""

    def open(self, factory, specs):
        sent = [pickle.dumps(factory), *(pickle.dumps(spec) for spec in specs)]
        self.sizes = [len(one) for one in sent]
        factory, *specs = [pickle.loads(one) for one in sent]
        return super().open(factory, specs)


@pytest.mark.parametrize(
    "estimator", [LinearSVC(C=0.01, solver=PLANES, loss="hinge"), MeasureSVC("f1", C=0.01)]
)
def test_rows_on_disk_are_read_where_the_workers_are(tmp_path, processes, estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 10)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=40_000) > 0).astype(int)
    stored = data.write(tmp_path / "rows", [(X, y)])
    noting = Noting()
    fits = [
        clone(estimator).set_params(max_iter=5, engine=engine).fit(stored)
        for engine in ("threads", noting, processes)
    ]
    assert len({fitted.coef_.tobytes() for fitted in fits}) == 1
    assert len(noting.sizes) > 3
    assert max(noting.sizes) < 20_000  # of 1.6 MB of rows
