"""The three structured problems of Joachims, Finley and Yu on our data, and one fit of each by any solver.

The papers' epsilon bounds the mean risk and their C multiplies it: tol = n epsilon and C = C_mean / n here.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, cpu

# ruff: isort: split
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks import datasets, parsing, sequence
from benchmarks.problems import Watch

#: CPU seconds after which a fit is cut off
LIMIT = 150.0
PHASES = ("oracle", "plane", "line_search", "qp")


@dataclass(frozen=True)
class Setting:
    """A task: its C on the mean, the papers' epsilon in our units of loss, our sizes, and the paper's."""

    C_mean: float
    epsilon: float
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    paper: int


#: the papers' loss is 100 times ours in the first and third task: epsilon = 0.1 there is 0.001 here
TASKS = {
    "multiclass": Setting(
        1000.0, 1e-3, (1000, 3000, 10_000, 30_000, 100_000, 522_911), (100, 150), 522_911
    ),
    "tagging": Setting(50.0, 0.1, (450, 900, 2700, 8936), (20, 40), 35_531),
    "parsing": Setting(200.0, 1e-3, (450, 900, 1800, 3899), (10, 20), 9780),
}
METHODS = {
    "1-slack": "CuttingPlane(use_cache=False, line_search=False, mu=1.0)",
    "1-slack + cache": "CuttingPlane(use_cache=True, line_search=False, mu=1.0)",
    "n-slack 2009": 'DualCoordinate(schedule="n_slack")',
    "n-slack": 'DualCoordinate(batch_size="all")',
    "default": "DualCoordinate()",
}
#: longest sentence of the parsing problem, in words
LONGEST = 10


def solver(name: str) -> Any:
    """The solver object."""
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    return {
        "1-slack": CuttingPlane(use_cache=False, line_search=False, mu=1.0),
        "1-slack + cache": CuttingPlane(use_cache=True, line_search=False, mu=1.0),
        "n-slack 2009": DualCoordinate(schedule="n_slack"),
        "n-slack": DualCoordinate(batch_size="all"),
        "default": DualCoordinate(),
    }[name]


class Data(NamedTuple):
    """Samples with a constant feature, and classes 0 .. K-1; and test samples."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    K: int


@functools.lru_cache(maxsize=2)
def _covtype() -> Data:
    X, y = datasets.covtype()
    y = y - 1
    X = sp.csr_matrix(sp.hstack([X, np.ones((X.shape[0], 1))], format="csr"))
    rows = np.random.default_rng(0).permutation(X.shape[0])
    train, test = rows[:522_911], rows[-10_000:]
    return Data(X[train], y[train], X[test], y[test], int(y.max()) + 1)


def candidates(data: Data) -> Any:
    """Every sample K times, once in the block of each class."""
    n, d = data.X.shape
    X = data.X[np.repeat(np.arange(n), data.K)]
    block = np.repeat(np.tile(np.arange(data.K), n), np.diff(X.indptr))
    indices = X.indices.astype(np.int32) + np.int32(d) * block.astype(np.int32)
    return sp.csr_matrix((X.data, indices, X.indptr), (n * data.K, d * data.K))


def multiclass_risk(data: Data) -> Any:
    """Every class as a candidate of a task, so that all solvers see the same structured problem."""
    from maxmargin.losses import CandidateHinge
    from maxmargin.risks import TaskRisk
    from maxmargin.tasks import Enumerable
    from maxmargin.tasks.enumerable_examples import EnumerableExamples

    X, counts = candidates(data), np.full(len(data.y), data.K)
    labels = CandidateHinge.labels(counts, data.y)
    examples = EnumerableExamples(X, counts, data.y, labels[:, 1])
    return TaskRisk(Enumerable(), (), (), X.shape[1], examples=examples)


@functools.lru_cache(maxsize=2)
def multiclass(n: int) -> Any:
    """The first n rows of a random sample of covertype."""
    data = _covtype()
    return data._replace(X=data.X[:n], y=data.y[:n])


@functools.lru_cache(maxsize=4)
def sentences(n: int) -> Any:
    """The first n training sentences of CoNLL-2000 as one matrix, and 500 test sentences."""
    train, test = sequence.split("conll2000", "full", quick=False)
    return sequence.Matrices(train[:n], test[:500])


@functools.lru_cache(maxsize=2)
def _trees(split: str) -> list[Any]:
    return parsing.trees(split, LONGEST, quick=False)


def trees(n: int) -> list[Any]:
    """n trees, spread over the corpus."""
    # a quick run reads the smaller file
    found = _trees("dev" if n in TASKS["parsing"].quick else "train")
    return found[:: len(found) // n][:n]


def sweep(task: str, bench: Bench) -> list[Cell]:
    """Every method at growing n, to the papers' epsilon."""
    sizes = TASKS[task].quick if bench.quick else TASKS[task].sizes
    return [
        cell
        for method in METHODS
        for cell in growing(bench, sizes, key(task, method), functools.partial(fit, task, method))
    ]


def key(task: str, method: str) -> str:
    """The name of a fit of the sweep, in which n is to be filled in."""
    return f"{task} {{n}} {method}"


def growing(
    bench: Bench, sizes: tuple[int, ...], name: str, work: Callable[[int], Cell]
) -> Iterator[Cell]:
    """One fit for each n, until one is cut off, or the next one would be even if time grew linearly."""
    for n, following in zip(sizes, (*sizes[1:], 0), strict=True):
        cell = bench.inline(name.format(n=n), functools.partial(work, n))
        yield cell
        if not cell["finished"] or cell["seconds"] * following / n > LIMIT:
            return


def fit(
    task: str,
    method: str,
    n: int,
    *,
    C_mean: float | None = None,
    epsilon: float | None = None,
    cache_size: int | None = None,
    limit: float = LIMIT,
) -> Cell:
    """One fit to the papers' epsilon; the first one of a kind loads the compiled functions beforehand."""
    setting = TASKS[task]
    C_mean, epsilon = C_mean or setting.C_mean, epsilon or setting.epsilon
    if n not in setting.quick:  # nobody reads the times of a quick run
        _warm(task, method)
    return {
        "task": task,
        "n": n,
        "method": method,
        "C_mean": C_mean,
        "epsilon": epsilon,
        **_fit(task, n, method, C_mean, epsilon, limit, cache_size),
    }


@functools.lru_cache(maxsize=64)
def _warm(task: str, method: str) -> None:
    n = TASKS[task].quick[0]
    _fit(task, n, method, TASKS[task].C_mean, 10 * TASKS[task].epsilon, 5.0)


def _fit(
    task: str,
    n: int,
    method: str,
    C_mean: float,
    epsilon: float,
    limit: float,
    cache_size: int | None = None,
) -> Cell:
    from maxmargin.solvers import RiskEpsilon

    watch, rule, C, how = Watch(limit), RiskEpsilon(n * epsilon), C_mean / n, solver(method)
    if cache_size is not None:
        how = replace(how, cache_size=cache_size)
    out = _FITS[task](n, how, C, rule, watch)
    upper, lower, seconds = out["objective"], out["lower_bound"], out["seconds"]
    allowed = C_mean * epsilon
    done = upper - lower <= allowed * (1 + 1e-9)
    out["finished"] = done
    # iterations grow as 1 / gap at worst (Theorem 5): what a fit that was cut off would have needed at most
    out["seconds_to_end"] = seconds if done else seconds * (upper - lower) / allowed
    return out


def _history(records: list[dict[str, Any]]) -> Cell:
    last = records[-1]
    split = {k: sum(r[f"seconds_{k}"] for r in records) for k in PHASES}
    return {"passes": last["oracle_calls"], "support": last["n_active"], "split": split}


def _multiclass(n: int, how: Any, C: float, rule: Any, watch: Watch) -> Cell:
    import dataclasses

    from maxmargin import minimize

    data = multiclass(n)
    risk = multiclass_risk(data)
    watch.began = began = cpu()
    result = minimize(risk, C, solver=how, stopping=rule, callbacks=[watch])
    seconds = cpu() - began
    scores = data.X_test @ np.reshape(result.w, (data.K, -1)).T
    return {
        "seconds": seconds,
        "iterations": result.n_iter,
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "score": float(np.mean(scores.argmax(axis=1) == data.y_test)),
        **_history([dataclasses.asdict(r) for r in result.history]),
    }


def _estimator(model: Any, seconds: float, score: float) -> Cell:
    return {
        "seconds": seconds,
        "iterations": model.n_iter_,
        "objective": model.objective_,
        "lower_bound": model.lower_bound_,
        "score": score,
        **_history(model.history_),
    }


def _tagging(n: int, how: Any, C: float, rule: Any, watch: Watch) -> Cell:
    from maxmargin import SequenceTagger

    data = sentences(n)
    watch.began = began = cpu()
    tagger = SequenceTagger(C=C, tol=rule, solver=how, callbacks=[watch])
    tagger.fit(data.X, data.y, lengths=data.lengths)
    seconds = cpu() - began
    score = tagger.score(data.X_test, data.y_test, lengths=data.lengths_test)
    return _estimator(tagger, seconds, float(score))


def _parsing(n: int, how: Any, C: float, rule: Any, watch: Watch) -> Cell:
    from maxmargin import GrammarParser

    watch.began = began = cpu()
    parser = GrammarParser(C=C, loss="zero_one", tol=rule, solver=how, callbacks=[watch])
    parser.fit(None, trees(n))
    out = _estimator(parser, cpu() - began, float("nan"))
    return {**out, "rules": len(parser.grammar_.rules)}


_FITS = {"multiclass": _multiclass, "tagging": _tagging, "parsing": _parsing}
