"""What structured shards remember can get lost at any moment, and the fit goes on to true bounds."""

import numpy as np
import pytest
from tests.ctrl_c import interrupted
from tests.killed_shards import Kill, KillingEngine
from tests.latent_tasks import Bags, Rows
from tests.nightly import first
from tests.rebuilt_shards import RebuildingEngine
from tests.tiny_tasks import TinyMulticlass

from maxmargin import StructuredSVM, minimize
from maxmargin.engines import SerialEngine
from maxmargin.risks import CompletedRisk, TaskRisk
from maxmargin.risks.structured import risk as task
from maxmargin.risks.structured import shard as task_shard
from maxmargin.solvers import CuttingPlane, DualCoordinate, RelativeGap, minimize_latent
from maxmargin.tasks import Chain, Enumerable


def chain(engine, n=200):
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(rng.integers(1, 6), 4)) for _ in range(n)]
    Y = [(x[:, :3] + rng.normal(size=(len(x), 3))).argmax(axis=1) for x in X]
    chain = Chain(3)
    dim = chain.setup(X, Y)
    return TaskRisk(chain, X, Y, dim, sample_weight=rng.integers(0, 3, n), engine=engine)


def candidates(engine):
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(rng.integers(2, 6), 4)) for _ in range(150)]
    Y = [int(np.argmax(x[:, 0] + rng.normal(size=len(x)))) for x in X]
    choice = Enumerable()
    return TaskRisk(choice, X, Y, choice.setup(X, Y), engine=engine)


def expensive(engine):
    rng = np.random.default_rng(3)
    X, Y = list(rng.normal(size=(60, 3))), list(rng.integers(0, 3, 60))
    tiny = TinyMulticlass()
    dim = tiny.setup(X, Y)
    return TaskRisk(tiny, X, Y, dim, engine=engine, expensive=True)


@pytest.fixture
def small_cache(monkeypatch):
    """Constraints are evicted all the time."""
    monkeypatch.setattr(task_shard, "CACHE_SIZE", 3)
    monkeypatch.setattr(task, "CACHE_SIZE", 3)


def fit(risk, **options):
    return minimize(risk, 0.05, stopping=RelativeGap(1e-3), **options)


@pytest.mark.parametrize(
    ("problem", "solver"),
    [
        (chain, CuttingPlane(use_cache=True)),
        (chain, CuttingPlane(use_cache=False)),
        (chain, CuttingPlane(cache_size=2)),
        (chain, DualCoordinate(batch_size="all")),
        (chain, DualCoordinate(oracle="expensive")),
        (candidates, CuttingPlane(use_cache=True)),
        (candidates, DualCoordinate(batch_size="all")),
        (expensive, CuttingPlane()),
        (expensive, DualCoordinate(oracle="expensive")),
    ],
)
def test_fits_on_shards_that_forget(problem, solver, small_cache):
    best = fit(problem(SerialEngine()), solver=DualCoordinate())
    deaths = 0
    for seed, rate in enumerate((0.02, 0.05, 0.1)):
        engine = RebuildingEngine(seed, rate)
        found = fit(problem(engine), solver=solver)
        assert found.converged
        assert max(found.lower_bound, best.lower_bound) <= min(found.objective, best.objective)
        deaths += engine.deaths
    assert deaths > 0


def test_cutting_planes_with_a_cache_learn_from_a_dear_oracle():
    """What is known of a point is not enough when the caches need its answers."""
    out = minimize(expensive(SerialEngine()), 0.05, stopping=RelativeGap(1e-3))
    assert out.converged
    best = minimize(expensive(SerialEngine()), 0.05, solver=DualCoordinate(oracle="expensive"))
    assert out.lower_bound <= best.objective


def test_the_cached_model_is_a_minorant_whatever_is_lost(small_cache):
    risk, truth = chain(RebuildingEngine(1, 0.1)), chain(SerialEngine())
    rng = np.random.default_rng(1)
    risk.evaluate(np.zeros(risk.dim), exact=False)
    for _ in range(25):
        w, v = rng.normal(size=(2, risk.dim))
        assert risk.evaluate(w).value == pytest.approx(truth.evaluate(w).value, rel=1e-12)
        model, value = risk.evaluate(v, exact=False), truth.evaluate(v).value
        cut = model.cut()
        assert model.value <= value + 1e-9
        assert cut.offset + cut.plane @ v <= value + 1e-9
        assert cut.offset + cut.plane @ w <= truth.evaluate(w).value + 1e-9
    assert risk.engine.deaths > 0


class Interrupting(RebuildingEngine):
    """Ctrl-C comes in the middle of some call of the oracle: some shards know the point, others do not."""

    def __init__(self, at):
        super().__init__(0, 0.0)
        self._at = at

    def _call(self, index, method, args):
        found = super()._call(index, method, args)
        if method == "measure" and index == 3:
            self._at -= 1
            if self._at == 0:
                self._rate = 0.1  # and from now on shards get lost
                raise KeyboardInterrupt
        return found


@pytest.mark.parametrize("at", range(1, 10, 2))
def test_an_interrupt_between_two_shards(at, small_cache):
    engine = Interrupting(at)
    risk = chain(engine)
    first = interrupted(minimize, risk, 0.05, stopping=RelativeGap(1e-3)).result
    assert first.stop_reason == "interrupted"
    assert first.lower_bound <= first.objective
    again = minimize(risk, 0.05, stopping=RelativeGap(1e-3))  # the same shards go on
    best = minimize(chain(SerialEngine()), 0.05, stopping=RelativeGap(1e-3))
    assert again.converged
    assert max(again.lower_bound, best.lower_bound) <= min(again.objective, best.objective)


# -- latent tasks ----------------------------------------------------------------------------------


def bags(engine):
    rng = np.random.default_rng(5)
    X, Y = [rng.normal(size=(rng.integers(1, 6), 3)) for _ in range(120)], [1, -1] * 60
    bags = Bags()
    dim = bags.setup(X, Y)
    H = [bags.initial(x, y) for x, y in zip(X, Y, strict=True)]
    return CompletedRisk(bags, X, Y, H, dim, engine=engine)


def rows(engine):
    rng = np.random.default_rng(6)
    X, Y = [rng.normal(size=(rng.integers(1, 4), 3)) for _ in range(70)], [0, 1] * 35
    rows = Rows(2)
    dim = rows.setup(X, Y)
    return CompletedRisk(rows, X, Y, [0] * 70, dim, engine=engine)


def latent_fit(problem, engine):
    out = minimize_latent(problem(engine), 0.2, solver=CuttingPlane(use_cache=True), max_iter=4)
    return out.w.tobytes(), out.objective, out.latent, len(out.history)


@pytest.mark.parametrize("problem", first(1, [rows, bags]))
def test_latent_fits(problem, processes, tmp_path):
    expected = latent_fit(problem, SerialEngine())
    assert latent_fit(problem, processes) == expected
    kills = [Kill(str(tmp_path), *d) for d in [("complete", 1, 1), ("line_slopes", 0, 2)]]
    deadly = KillingEngine(2, kills)
    try:
        objectives = [
            latent_fit(problem, e)[1]
            for e in (deadly, RebuildingEngine(0, 0.05), RebuildingEngine(1, 0.1))
        ]
    finally:
        deadly.close()
    assert all(kill.is_done() for kill in kills)
    assert objectives == pytest.approx([expected[1]] * 3, rel=0.05)


# -- errors of the user's task ---------------------------------------------------------------------


class Fails(TinyMulticlass):
    """Fails for one input, and notes that in a file."""

    def __init__(self, path="", after=0):
        super().__init__()
        self.path, self.after = path, after

    def loss_augmented_inference(self, x, y, w):
        if x[0] == 7.0:
            with open(self.path, "ab", buffering=0) as file:
                file.write(b"x")
                if file.tell() > self.after:
                    raise LookupError("no answer for seven")
        return super().loss_augmented_inference(x, y, w)


@pytest.mark.parametrize("solver", [CuttingPlane(), CuttingPlane(use_cache=False)])
def test_an_error_of_the_task_is_raised_once_and_never_retried(solver, processes, tmp_path):
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(130, 3)), rng.integers(0, 3, 130)
    X[101, 0] = 7.0
    path = tmp_path / "calls"
    svm = StructuredSVM(Fails(str(path), after=2), 0.1, solver=solver, engine=processes)
    with pytest.raises(LookupError, match="no answer for seven") as caught:
        svm.fit(list(X), list(Y))
    assert path.stat().st_size == 3
    notes = caught.value.__notes__
    assert "raised by the task's oracle for example 101" in notes
    assert sum("in shard 12 of 16" in note for note in notes) == 1
