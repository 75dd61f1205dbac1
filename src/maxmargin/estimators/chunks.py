"""Predictions and scores of a data set on disk, in chunks of rows that the workers of an engine share.

Memory holds a few chunks and the result, or only the chunks if the result is written to a file. Chunks depend
on the data and not on the engine.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar, cast

import numpy as np

from maxmargin.core.engine import Engine, TaskEngine
from maxmargin.core.matrices import AnyArray
from maxmargin.core.vectors import Array
from maxmargin.data.columns import CHUNK
from maxmargin.data.dataset import Dataset
from maxmargin.data.design import BLOCK
from maxmargin.engines import opened

#: bytes of the features of a chunk, and the number of chunks between two exchanges with the workers
BYTES, WAVE = 2**24, 64
#: attributes that no prediction needs: they belong to this process, or grow with the samples
_NOT_SENT = ("_watch", "_kept", "_streams", "_planes", "_multipliers")

Function = TypeVar("Function", bound=Callable[..., Any])


def chunked(method: Function) -> Function:
    """Add ``out=`` to a method that predicts, and predict data sets on disk in chunks."""

    @functools.wraps(method)
    def outer(self: Any, X: Any, *, out: Any = None) -> Any:
        if out is None and not isinstance(X, Dataset):
            return method(self, X)
        return _predicted(self, _Method(_owner(self, method), method.__name__), X, out)

    return cast("Function", outer)


def _predicted(estimator: Any, method: _Method, X: Any, out: Any) -> AnyArray:
    """The result of a method, in memory or in the file ``out``, from which it is then mapped."""
    if out is not None and not os.fspath(out).endswith(".npy"):
        raise ValueError(
            f"out={os.fspath(out)!r}: the result is a NumPy file; end its name in .npy."
        )
    if not isinstance(X, Dataset):
        values = np.asarray(method.of(estimator)(X))
        np.save(out, values, allow_pickle=False)
        return values
    like: AnyArray = method(estimator, X, 0, min(1, X.shape[0]))
    shape = (X.shape[0], *like.shape[1:])
    if out is None:
        result = np.empty(shape, like.dtype)
        for (lo, hi), values in _answers(estimator, X, method, like[:1].size):
            result[lo:hi] = values
        return result
    if like.dtype.hasobject:
        raise TypeError("out: labels that are Python objects cannot be written to a NumPy file.")
    part = Path(f"{os.fspath(out)}.part")
    try:
        file = np.lib.format.open_memmap(part, "w+", like.dtype, shape)
        job = functools.partial(_write, method, str(part.absolute()), file.offset)
        del file
        for _ in _answers(estimator, X, job, like[:1].size):
            pass
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    mapped: AnyArray = np.load(out, mmap_mode="r")
    return mapped


def _owner(estimator: Any, method: Callable[..., Any]) -> type:
    """The class that defines a method. A subclass may call it from its own method of the same name."""
    name = method.__qualname__.rpartition(".")[0]
    classes = type(estimator).__mro__
    return next(c for c in classes if (c.__module__, c.__qualname__) == (method.__module__, name))


class _Method(NamedTuple):
    """A method of a class, to be called with a chunk."""

    owner: type
    name: str

    def of(self, estimator: Any) -> Any:
        return vars(self.owner)[self.name].__get__(estimator, type(estimator))

    def __call__(self, estimator: Any, data: Dataset, lo: int, hi: int) -> Any:
        return self.of(estimator)(data.block(lo, hi))


def _write(method: _Method, path: str, offset: int, *chunk: Any) -> None:
    """Write the result of a chunk to its place in a file."""
    values, lo = method(*chunk), chunk[2]
    with open(path, "r+b") as file:
        file.seek(offset + lo * (values.nbytes // len(values)))
        file.write(values.tobytes())


def accuracy(estimator: Any, data: Dataset) -> float:
    """The weighted fraction of samples of a labeled data set whose label is right."""
    right, total = _sums(estimator, data, _right)
    return float(right / total)


def determination(estimator: Any, data: Dataset) -> float:
    """R^2 of the predictions, as :func:`sklearn.metrics.r2_score` defines it."""
    moment, total = _sums(estimator, data, _moments)
    residual, spread = _sums(estimator, data, functools.partial(_squares, mean=moment / total))
    return float(1.0 - residual / spread if spread > 0.0 else residual == 0.0)


def _sums(estimator: Any, data: Dataset, job: Callable[..., Array]) -> Array:
    total: Array = sum((part for _, part in _answers(estimator, data, job, 1)), np.zeros(2))
    return total


def _right(estimator: Any, data: Dataset, lo: int, hi: int) -> Array:
    y, weight = _labels(data, lo, hi)
    return np.array([weight @ (estimator.predict(data.block(lo, hi)) == y), weight.sum()])


def _moments(estimator: Any, data: Dataset, lo: int, hi: int) -> Array:
    y, weight = _labels(data, lo, hi)
    return np.array([weight @ y, weight.sum()])


def _squares(estimator: Any, data: Dataset, lo: int, hi: int, *, mean: float) -> Array:
    y, weight = _labels(data, lo, hi)
    error = y - estimator.predict(data.block(lo, hi))
    return np.array([weight @ error**2, weight @ (y - mean) ** 2])


def _labels(data: Dataset, lo: int, hi: int) -> tuple[AnyArray, AnyArray]:
    assert data.y is not None
    return data.y[lo:hi], np.ones(hi - lo) if data.weight is None else data.weight[lo:hi]


class _ChunkShard(NamedTuple):
    """A shard of an engine: one of the chunks of every wave."""

    estimator: Any
    data: Dataset
    job: Any
    size: int
    k: int

    def answer(self, start: int) -> Any:
        """The answer for this chunk of the wave that begins at a row."""
        lo, n = start + self.k * self.size, self.data.shape[0]
        hi = min(n, lo + self.size)
        return self.job(self.estimator, self.data, lo, hi) if lo < n else None


def _answers(
    estimator: Any, data: Dataset, job: Any, columns: int
) -> Iterator[tuple[tuple[int, int], Any]]:
    """The ranges of all chunks in order, and the answers of the job for them."""
    n = data.shape[0]
    rows = min(CHUNK // max(1, columns), BYTES // max(1, 8 * data.nnz // max(1, n)))
    size = max(BLOCK, rows // BLOCK * BLOCK)
    make = functools.partial(_ChunkShard, _light(estimator), data, job, size)
    with (getattr(estimator, "_workers", None) or opened)() as engine:  # searches: serial
        if not _is_here(engine):
            engine.open(make, range(min(WAVE, -(-n // size))))
        for start in range(0, n, WAVE * size):
            spans = [(lo, min(n, lo + size)) for lo in range(start, n, size)[:WAVE]]
            yield from zip(spans, _wave(engine, make, start, len(spans)), strict=False)


def _is_here(engine: Engine) -> TypeGuard[TaskEngine]:
    """Whether the engine's workers are threads of this process. (Others run functions here one by one.)"""
    return engine.durable and isinstance(engine, TaskEngine)


def _wave(engine: Engine, make: Callable[[int], _ChunkShard], start: int, count: int) -> list[Any]:
    if not _is_here(engine):
        return engine.gather(_ChunkShard.answer, start)
    found: list[Any] = [None] * count

    def work(k: int) -> None:
        found[k] = make(k).answer(start)

    engine.run(work, count)
    return found


def _light(estimator: Any) -> Any:
    """A copy without what its predictions do not need."""
    one = copy.copy(estimator)
    for name in _NOT_SENT:
        one.__dict__.pop(name, None)
    if getattr(one, "keep_duals", False):  # scores of kernels are made of theirs
        one.__dict__.pop("dual_coef_", None)
    for name in ("callbacks", "checkpoint", "engine", "solver"):
        if hasattr(one, name):
            setattr(one, name, None)
    return one
