"""Parts of examples and designs: alone they answer with the same bits, they travel light, nothing is lost."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.latent_tasks import Rows
from tests.tiny_tasks import TinyMulticlass

from maxmargin import data
from maxmargin.compiled.chain import oracle_range
from maxmargin.core.vectors import SparseVector
from maxmargin.data import KmerDesign, hstack
from maxmargin.data.design import as_design
from maxmargin.engines import SerialEngine
from maxmargin.risks import TaskRisk
from maxmargin.risks.structured import risk as structured_risk
from maxmargin.risks.structured.latent import CompletedTask, PlainLatentExamples
from maxmargin.risks.structured.python_examples import PlainExamples
from maxmargin.risks.structured.shard import ExamplePart
from maxmargin.risks.weight_map import WeightMap
from maxmargin.tasks import Chain, Choice, Enumerable
from maxmargin.tasks.enumerable_examples import EnumerableExamples
from maxmargin.tasks.latent import Completed


def from_a_store(thing: Any) -> Any:
    """What an object store gives back: the same, its arrays read-only."""
    buffers: list[Any] = []
    stream = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(stream, buffers=[bytes(b.raw()) for b in buffers])


def chains(rng: Any, n: int) -> Any:
    X = [rng.normal(size=(rng.integers(1, 7), 4)) * (rng.random(4) < 0.7) for _ in range(n)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    task = Chain(3)
    task.setup(X, Y)
    return task.pack(X, Y, [rng.random(len(y)) for y in Y])


def candidates(rng: Any, n: int, rescaling: Any = "margin") -> Any:
    X = [sp.random_array((rng.integers(1, 6), 5), density=0.6, rng=rng) for _ in range(n)]
    Y: list[Any] = [int(rng.integers(x.shape[0])) for x in X]
    for i in range(0, n, 2):
        losses = rng.random(X[i].shape[0])
        losses[Y[i]] = 0.0
        Y[i] = Choice(Y[i], losses)
    return Enumerable().pack([sp.csr_matrix(x) for x in X], Y, rescaling)


def plain(rng: Any, n: int) -> Any:
    X, Y = rng.normal(size=(n, 3)), [0, 1, 2, *rng.integers(0, 3, n)][:n]
    task = TinyMulticlass()
    dim = task.setup(X, [0, 1, 2])
    weights = WeightMap(rng.normal(size=(dim, 1)), rng.random(dim)) if rng.random() < 0.5 else None
    some = X if rng.random() < 0.5 else list(X)
    return PlainExamples(task, some, Y, dim, "margin", weights)


def latent(rng: Any, n: int) -> Any:
    X, Y = [rng.normal(size=(rng.integers(1, 5), 3)) for _ in range(n)], [0, 1] * n
    task = Rows()
    dim = task.setup(X, Y[:n])
    pairs = [Completed(y, int(rng.integers(len(x)))) for x, y in zip(X, Y, strict=False)]
    return PlainLatentExamples(CompletedTask(task), X, pairs, dim)


def slack(rng: Any, n: int) -> Any:
    return candidates(rng, n, "slack")


KINDS = [chains, candidates, slack, plain, latent]


def bits(thing: Any) -> Any:
    """Something that is equal if and only if all bits are."""
    if isinstance(thing, np.ndarray):
        return str(thing.dtype), thing.shape, thing.tobytes()
    if isinstance(thing, SparseVector):
        return bits(thing.indices), bits(thing.values), thing.size
    if isinstance(thing, list | tuple):
        return [bits(member) for member in thing]
    if isinstance(thing, dict):
        return {name: bits(member) for name, member in thing.items()}
    if hasattr(thing, "__dataclass_fields__"):
        return [
            bits(getattr(thing, f)) for f in thing.__dataclass_fields__ if f not in ("lo", "hi")
        ]
    return thing


@pytest.mark.parametrize("make", KINDS)
@given(seed=st.integers(0, 10**6))
def test_a_part_of_the_examples_answers_like_the_whole(make: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 12))
    whole = make(rng, n)
    lo, hi = sorted(rng.choice(n + 1, 2, replace=False).tolist())
    mid = int(rng.integers(lo, hi))  # a part of a part
    own = from_a_store(whole.part(lo, n).part(0, hi - lo))
    assert (len(own), own.dim) == (hi - lo, whole.dim)
    w, v = rng.normal(size=(2, whole.dim))
    weights = rng.random(hi - lo)
    a, b = whole.oracle(w, lo, hi), own.oracle(w, 0, hi - lo)
    assert bits(a) == bits(b)
    assert bits(whole.oracle(w, mid, hi)) == bits(own.oracle(w, mid - lo, hi - lo))
    assert bits(whole.cut(a, weights)) == bits(own.cut(b, weights))
    assert bits(whole.predict(w, lo, hi)) == bits(own.predict(w, 0, hi - lo))
    caches = whole.cache(lo, hi, 3), own.cache(0, hi - lo, 3)
    for u in (w, v, w + v, w - v, 2 * v):
        caches[0].insert(whole.oracle(u, lo, hi))
        caches[1].insert(own.oracle(u, 0, hi - lo))
        assert bits(caches[0].scores(v)) == bits(caches[1].scores(v))
        chosen = caches[0].pointers[:-1].copy()
        chosen[np.diff(caches[0].pointers) == 0] = -1
        assert bits(caches[0].cut(chosen, weights)) == bits(caches[1].cut(chosen, weights))
        for cache in caches:
            cache.touch(chosen)
    if hasattr(whole, "complete"):
        assert bits(whole.complete(w, lo, hi)) == bits(own.complete(w, 0, hi - lo))


@pytest.mark.parametrize("make", KINDS)
@given(seed=st.integers(0, 10**6))
def test_working_sets_of_a_part(make: Any, seed: int) -> None:
    """The sets of the whole with no weight elsewhere are those of the part."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 12))
    whole = make(rng, n)
    lo, hi = sorted(rng.choice(n + 1, 2, replace=False).tolist())
    own = from_a_store(whole.part(lo, hi))
    caps = np.zeros(n)
    caps[lo:hi] = rng.random(hi - lo)
    a, b = whole.working_sets(caps), own.working_sets(caps[lo:hi])
    for _ in range(3):
        order = rng.permutation(hi - lo)
        a.stream(lo + order, 0.0)
        b.stream(order, 0.0)
        assert bits(a.w) == bits(b.w)
    # answers of the part, counted from the first of all, enter the sets of the whole
    answers = own.oracle(b.w, 0, hi - lo)
    moved = type(answers)(lo, hi, answers.labelings, answers.losses, answers.values, answers.uppers)
    assert a.confirm([moved]) == b.confirm([answers])
    assert a.dual_value() == b.dual_value()


@pytest.mark.parametrize("make", KINDS)
def test_a_part_that_travels_is_a_share_of_the_whole(make: Any) -> None:
    whole = make(np.random.default_rng(0), 400)
    one, all_parts = [
        len(pickle.dumps(ExamplePart(whole, np.ones(hi - lo), 0, lo, hi), protocol=5))
        for lo, hi in [(100, 150), (0, 400)]
    ]
    assert one < all_parts * 50 / 400 + 6000
    a, b = (
        [len(pickle.dumps(whole.part(lo, lo + k), protocol=5)) for lo in (0, 300)]
        for k in (20, 100)
    )
    assert max(a) < min(b)


def test_a_part_of_a_travelled_part() -> None:
    """Shards that move on (a worker that died) are the same again."""
    whole = chains(np.random.default_rng(1), 10)
    first = from_a_store(ExamplePart(whole, np.ones(4), 2, 3, 7))
    again = from_a_store(first)
    assert (first.lo, first.hi, first.base) == (again.lo, again.hi, again.base) == (3, 7, 3)
    w = np.random.default_rng(2).normal(size=whole.dim)
    assert bits(again.examples.oracle(w, 0, 4)) == bits(whole.oracle(w, 3, 7))


def kinds_of_calls(function: Any) -> int:
    """For how many types of arguments the function was compiled, or found to be precompiled."""
    return len(function.known if hasattr(function, "known") else function.signatures)


def test_nothing_is_compiled_again_for_what_comes_out_of_a_store() -> None:
    whole = chains(np.random.default_rng(3), 10)
    w = np.zeros(whole.dim)
    whole.oracle(w, 0, 10)
    before = kinds_of_calls(oracle_range)
    own = from_a_store(whole.part(2, 7))
    own.oracle(from_a_store(w), 0, 5)
    assert kinds_of_calls(oracle_range) == before
    answers = from_a_store(own.oracle(w, 0, 5))
    assert answers.labelings.flags.writeable
    assert answers.values.flags.writeable


def test_a_plain_task_never_sees_an_array_that_is_read_only() -> None:
    """Code that is not ours may refuse those: typed memoryviews do."""
    X, Y = [{"a": np.arange(3.0)}], [[np.ones(2)]]
    task = TinyMulticlass()
    task.table = np.eye(2)
    own = from_a_store(PlainExamples(task, X, Y, 3, "margin").part(0, 1))
    assert own._X[0]["a"].flags.writeable
    assert own._Y[0][0].flags.writeable
    assert own.task.table.flags.writeable


def test_errors_call_examples_of_a_part_by_their_numbers() -> None:
    class Failing(TinyMulticlass):
        def loss_augmented_inference(self, x: Any, y: Any, w: Any) -> Any:
            raise LookupError("no")

    X = np.ones((9, 2))
    task = Failing()
    dim = task.setup(X, [0, 1, 2])
    part = PlainExamples(task, X, [0] * 9, dim, "margin").part(2, 9).part(3, 6)
    with pytest.raises(LookupError) as caught:
        part.oracle(np.zeros(dim), 1, 2)
    assert caught.value.__notes__ == ["raised by the task's oracle for example 6"]


# -- designs ---------------------------------------------------------------------------------------


def strings(rng: Any, n: int, length: int | None) -> list[str]:
    letters = np.array(list("ACGTN"))
    sizes = [length or int(rng.integers(0, 12)) for _ in range(n)]
    share = [0.24, 0.24, 0.24, 0.24, 0.04]
    return ["".join(rng.choice(letters, size, p=share)) for size in sizes]


def positional(rng: Any, n: int, folder: Any) -> Any:
    return KmerDesign(strings(rng, n, 8), orders=(1, 3), normalize=bool(rng.random() < 0.5))


def spectrum(rng: Any, n: int, folder: Any) -> Any:
    return KmerDesign(strings(rng, n, None), orders=3, kind="spectrum", normalize=True)


def side_by_side(rng: Any, n: int, folder: Any) -> Any:
    dense = rng.normal(size=(n, 3))
    sparse = sp.random_array((n, 4), density=0.4, rng=rng, format="csr")
    parts = [positional(rng, n, folder), dense, sparse, spectrum(rng, n, folder)]
    return hstack(parts, scale=[1.0, 0.5, 2.0, 1.0])


def with_a_file(rng: Any, n: int, folder: Any) -> Any:
    path = folder / f"{rng.integers(2**40)}"
    data.write(path, [(rng.normal(size=(n, 3)), np.zeros(n))])
    return hstack([data.open(path), spectrum(rng, n, folder)])


@pytest.mark.parametrize("make", [positional, spectrum, side_by_side, with_a_file])
@pytest.mark.parametrize("seed", range(8))
def test_a_part_of_a_design_gives_the_same_products(make: Any, seed: int, tmp_path: Any) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    whole = make(rng, n, tmp_path)
    lo, hi = sorted(rng.choice(n + 1, 2, replace=False).tolist())
    own = from_a_store(whole.part(lo, hi))
    d = whole.shape[1]
    assert own.shape == (hi - lo, d)
    for columns in ((), (3,)):
        W, coef = rng.normal(size=(d, *columns)), rng.normal(size=(hi - lo, *columns))
        assert bits(whole.dot(W, lo, hi)) == bits(own.dot(W, 0, hi - lo))
        out = np.zeros((2, d, *columns))
        whole.accumulate(coef, lo, hi, out[0])
        own.accumulate(coef, 0, hi - lo, out[1])
        assert bits(out[0]) == bits(out[1])
    if hasattr(whole, "squared_norms"):
        assert bits(whole.squared_norms[lo:hi]) == bits(own.squared_norms)
        assert bits(vars(whole.block(lo, hi))) == bits(vars(own.block(0, hi - lo)))
        assert own.nnz == own.block(0, hi - lo).nnz


@pytest.mark.parametrize("make", [positional, spectrum, side_by_side])
def test_a_part_of_a_design_is_a_share_of_it(make: Any, tmp_path: Any) -> None:
    whole = make(np.random.default_rng(0), 2000, tmp_path)
    few, many = (len(pickle.dumps(whole.part(500, 500 + k))) for k in (100, 1000))
    assert few < 0.1 * many + 3000


def test_a_stack_with_a_part_that_cannot_be_cut_stays_whole() -> None:
    class Elsewhere:
        def __init__(self) -> None:
            self.inner = as_design(np.ones((3, 2)))
            self.shape, self.nnz = self.inner.shape, self.inner.nnz
            self.dot, self.accumulate = self.inner.dot, self.inner.accumulate

    assert hasattr(hstack([np.ones((3, 1))]), "part")
    assert not hasattr(hstack([Elsewhere(), np.ones((3, 1))]), "part")


def test_many_examples_are_many_shards() -> None:
    """On a cluster more workers than shards would have nothing to do."""
    n = 120_000
    X = sp.csr_matrix(np.ones((2 * n, 1)))
    examples = EnumerableExamples(X, np.full(n, 2), np.zeros(n, int), np.tile([0.0, 1.0], n))
    risk = TaskRisk(Enumerable(), [], [], 1, examples=examples)
    assert risk.n_blocks == n // 4096
    assert risk.evaluate(np.zeros(1)).value == n


@pytest.mark.parametrize(
    ("n", "dim", "expected"),
    [
        (20_000, 100, 16),
        (20_000, 10**7, 2),
        (100_000, 10**7, 16),
        (120_000, 1, 29),
        (2**20 + 5, 10**7, 256),
        (10**7, 50, 2048),
    ],
)
def test_the_examples_determine_the_shards_of_many_examples(
    n: int, dim: int, expected: int
) -> None:
    bounds = structured_risk._shard_bounds(n, dim, "compiled")
    assert len(bounds) - 1 == expected
    assert (bounds[0], bounds[-1]) == (0, n)


def test_a_cut_of_examples_is_summed_where_the_shards_are() -> None:
    """One vector comes back, not one for each shard."""

    class Watching(SerialEngine):
        def gather(self, method: Any, *args: Any) -> list[Any]:
            raise AssertionError(f"{method} is gathered")

    n = 5000
    X = sp.csr_matrix(np.random.default_rng(0).normal(size=(2 * n, 3)))
    examples = EnumerableExamples(X, np.full(n, 2), np.zeros(n, int), np.tile([0.0, 1.0], n))
    w = np.array([1.0, -0.5, 0.1])
    cuts = [
        TaskRisk(Enumerable(), [], [], 3, examples=examples, engine=engine).evaluate(w).cut()
        for engine in (Watching(), SerialEngine())
    ]
    risk = TaskRisk(Enumerable(), [], [], 3, examples=examples)
    assert risk.n_blocks > 1

    for cut in cuts:
        assert bits(cut.plane) == bits(cuts[1].plane)
        assert cut.offset == cuts[1].offset


def test_examples_of_a_dear_oracle_travel_once() -> None:
    """Every shard can answer for every example, and none takes them along."""

    class Watching:
        durable = True

        def open(self, factory: Any, specs: Any) -> Any:
            self.maker, self.specs = (
                len(pickle.dumps(factory)),
                [len(pickle.dumps(s)) for s in specs],
            )
            return self

        def publish(self, array: Any) -> Any: ...

    X, Y = list(np.ones((100, 50))), [0, 1] * 50
    task = TinyMulticlass()
    dim = task.setup(X, Y)
    sizes = {}
    for expensive in (True, False):
        engine = Watching()
        TaskRisk(task, X, Y, dim, engine=engine, expensive=expensive)  # type: ignore[arg-type]
        sizes[expensive] = engine.maker, max(engine.specs)
    assert sizes[True][0] > 100 * 50 * 8 > 500 > sizes[True][1]
    assert sizes[False][0] < 500
    assert sizes[False][1] < 0.6 * sizes[True][0]
