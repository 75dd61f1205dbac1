"""What structured shards remember can get lost at any moment; a cache that began anew is the same again."""

import pickle

import numpy as np
import pytest
from tests.ctrl_c import interrupted
from tests.killed_shards import Kill, KillingEngine
from tests.latent_tasks import Rows
from tests.nightly import first
from tests.tiny_tasks import TinyMulticlass

from maxmargin import StructuredSVM, minimize
from maxmargin.engines import ProcessEngine, SerialEngine
from maxmargin.risks import CompletedRisk, TaskRisk
from maxmargin.risks.structured import risk as task
from maxmargin.risks.structured import shard as task_shard
from maxmargin.risks.structured.shard import TaskShard
from maxmargin.solvers import CuttingPlane, DualCoordinate, RelativeGap, minimize_latent
from maxmargin.tasks import Chain, Enumerable, MultipleInstance


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


class Forgetful(SerialEngine):
    """Builds shards anew before calls, by a coin, as if a worker had died. Some travel, as specs do."""

    durable = False

    def __init__(self, seed, share=0.3):
        super().__init__()
        self._rng, self._share, self.deaths = np.random.default_rng(seed), share, 0

    def open(self, factory, specs):
        self._made_of = factory, specs
        return super().open(factory, specs)

    def _call(self, index, method, args):
        if self._rng.random() < self._share:
            factory, specs = self._made_of
            spec = specs[index]
            if self._rng.random() < 0.5:
                factory, spec = pickle.loads(pickle.dumps((factory, spec)))
            self._shards[index] = factory(spec)
            self.deaths += 1
        return super()._call(index, method, args)


@pytest.fixture
def short_past(monkeypatch):
    """Caches begin anew after few points, with fewer."""
    monkeypatch.setattr(task_shard, "CACHE_SIZE", 3)
    monkeypatch.setattr(task, "CACHE_SIZE", 3)
    monkeypatch.setattr(task_shard, "MAX_SPAN", 6)


def fit(risk, **options):
    out = minimize(risk, 0.05, stopping=RelativeGap(1e-3), **options)
    bounds = [(r.objective, r.lower_bound) for r in out.history]
    return out.w.tobytes(), out.objective, out.lower_bound, bounds


@pytest.mark.parametrize(
    ("problem", "solver"),
    [
        (chain, CuttingPlane()),
        (chain, CuttingPlane(slacks="blocks")),
        (chain, CuttingPlane(use_cache=False)),
        (chain, CuttingPlane(cache_size=2)),
        (chain, DualCoordinate(batch_size="all")),
        (chain, DualCoordinate(oracle="expensive")),
        (candidates, CuttingPlane()),
        (candidates, DualCoordinate(batch_size="all")),
        (expensive, CuttingPlane()),
        (expensive, DualCoordinate(oracle="expensive")),
    ],
)
def test_fits_on_shards_that_forget(problem, solver, short_past):
    expected = fit(problem(SerialEngine()), solver=solver)
    deaths = 0
    for share in (0.01, 0.02, 0.03):
        engine = Forgetful(0, share)
        assert fit(problem(engine), solver=solver) == expected
        deaths += engine.deaths
    assert deaths > 0


def test_cutting_planes_with_a_cache_learn_from_a_dear_oracle():
    """What is known of a point is not enough when the caches need its answers."""
    out = minimize(expensive(SerialEngine()), 0.05, stopping=RelativeGap(1e-3))
    assert out.converged
    best = minimize(expensive(SerialEngine()), 0.05, solver=DualCoordinate(oracle="expensive"))
    assert out.lower_bound <= best.objective


def test_a_cache_that_begins_anew_is_told_in_few_points(short_past):
    """The model is the same in every bit whatever is lost, and the past has an end."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 12 + 15))
    asked = []

    class Watching(Forgetful):
        def gather(self, method, *args):
            if method is TaskShard.tell:
                asked.append(len(args[3]))
            return super().gather(method, *args)

    durable, mortal = chain(SerialEngine()), chain(Watching(1, 0.02))
    assert durable.dim == points.shape[1]
    for risk in (durable, mortal):
        risk.evaluate(points[0], exact=False)
    values = []
    for risk in (durable, mortal):
        seen = []
        for w in points:
            at = risk.evaluate(w)
            model = risk.evaluate(0.3 * w, exact=False)
            cut = model.cut()
            seen.append((at.value, at.cut().offset, model.value, cut.offset, cut.plane.tobytes()))
            # never below what the last answers alone say
            assert model.value >= at.cut().offset + at.cut().plane @ (0.3 * w) - 1e-9
        values.append(seen)
    assert values[0] == values[1]
    assert max(asked) <= 6 + 3


def test_the_cached_model_is_a_minorant_after_it_began_anew(short_past):
    risk = chain(SerialEngine())
    rng = np.random.default_rng(1)
    risk.evaluate(np.zeros(risk.dim), exact=False)
    for _ in range(25):
        w, v = rng.normal(size=(2, risk.dim))
        risk.evaluate(w)
        truth = chain(SerialEngine()).evaluate(v).value
        assert risk.evaluate(v, exact=False).value <= truth + 1e-9


def test_a_long_past_is_bounded_by_its_size():
    assert task_shard.span(1000, 10) == 256
    assert task_shard.span(10**6, 10) == 67
    assert task_shard.span(10**8, 10) == 20


class Interrupting(Forgetful):
    """Ctrl-C comes in the middle of some call of the oracle: some shards know the point, others do not."""

    def __init__(self, at):
        super().__init__(0, 0.0)
        self._at = at

    def _call(self, index, method, args):
        found = super()._call(index, method, args)
        if method == "measure" and index == 3:
            self._at -= 1
            if self._at == 0:
                self._share = 0.05  # and from now on shards get lost
                raise KeyboardInterrupt
        return found


@pytest.mark.parametrize("at", range(1, 10, 2))
def test_an_interrupt_between_two_shards(at, short_past):
    engine = Interrupting(at)
    risk = chain(engine)
    first = interrupted(minimize, risk, 0.05, stopping=RelativeGap(1e-3)).result
    assert first.stop_reason == "interrupted"
    assert first.lower_bound <= first.objective
    again = minimize(risk, 0.05, stopping=RelativeGap(1e-3))  # the same shards go on
    best = minimize(chain(SerialEngine()), 0.05, stopping=RelativeGap(1e-3))
    assert again.converged
    assert max(again.lower_bound, best.lower_bound) <= min(again.objective, best.objective)


@pytest.fixture(scope="module")
def processes():
    engine = ProcessEngine(2)
    yield engine
    engine.close()


# -- latent tasks ----------------------------------------------------------------------------------


def bags(engine):
    rng = np.random.default_rng(5)
    X, Y = [rng.normal(size=(rng.integers(1, 6), 3)) for _ in range(120)], [1, -1] * 60
    bags = MultipleInstance()
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
    out = minimize_latent(problem(engine), 0.2, solver=CuttingPlane(), max_iter=4)
    return out.w.tobytes(), out.objective, out.latent, len(out.history)


@pytest.mark.parametrize("problem", first(1, [rows, bags]))
def test_latent_fits(problem, processes, tmp_path):
    expected = latent_fit(problem, SerialEngine())
    for seed in range(2):
        assert latent_fit(problem, Forgetful(seed, 0.02)) == expected
    kills = [Kill(str(tmp_path), *d) for d in [("complete", 1, 1), ("line_slopes", 0, 2)]]
    assert latent_fit(problem, processes) == expected
    deadly = KillingEngine(2, kills)
    try:
        assert latent_fit(problem, deadly) == expected
    finally:
        deadly.close()
    assert all(kill.is_done() for kill in kills)


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
