"""Enumerable examples for compiled code, with their constraint cache and working sets.

See :mod:`maxmargin.compiled.candidates` for the mathematics. A labeling is an integer: in answers, the index
of a candidate within its example; in caches and working sets, the index of its row in the stacked matrix.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Literal, cast

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.candidates import (
    Candidates,
    add_planes,
    enter_range,
    oracle_range,
    predict_range,
    row_values,
    stream_sweep,
)
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.matrices import canonical, place_in
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.stored_values import count
from maxmargin.core.vectors import Array, IntArray, all_writable, sparsify, writable
from maxmargin.tasks.plane_sets import Labeling, PlainWorkingSets


class EnumerableExamples:
    """Examples whose candidates are stacked in one CSR matrix (``core.Examples``).

    Parameters
    ----------
    X : CSR matrix, (candidates of all examples, n_features)
        Data of type float32 or float64 is used without a copy.
    counts : (n,) ints
        Number of candidates of each example.
    truth : (n,) ints
        Index of the correct candidate within each example.
    losses : array
        The loss of each row; 0 for the correct ones.
    rescaling : {"margin", "slack"}
        The loss rescaling.
    """

    signed_sets: ClassVar[Literal[True]] = True

    def __init__(
        self,
        X: Any,
        counts: npt.ArrayLike,
        truth: npt.ArrayLike,
        losses: npt.ArrayLike,
        rescaling: str = "margin",
    ) -> None:
        sizes = np.asarray(counts, dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        right = starts[:-1] + np.asarray(truth, dtype=np.int64)
        loss = np.ascontiguousarray(losses, dtype=np.float64)
        if X.shape[0] != starts[-1] or loss.shape != (X.shape[0],) or right.shape != sizes.shape:
            raise ValueError(
                f"X has {X.shape[0]} rows, but counts sum to {starts[-1]} and losses has shape {loss.shape}."
            )
        if (loss < 0).any() or not np.isfinite(loss).all() or loss[right].any():
            raise ValueError("losses must be finite and nonnegative, and 0 for the correct rows.")
        X = canonical(X, "the candidates' features", place_in(starts[1:], "example", "candidate"))
        self.dim = int(X.shape[1])
        rho = loss if rescaling == "slack" else np.ones(len(loss))
        indptr = X.indptr.astype(np.int64)
        self.candidates = Candidates(indptr, X.indices, X.data, starts, right, loss, rho)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.candidates = Candidates(*all_writable(state["candidates"]))

    def __len__(self) -> int:
        return len(self.candidates.truth)

    def part(self, lo: int, hi: int) -> EnumerableExamples:
        """The examples ``lo .. hi-1``, as views of the same arrays."""
        c = self.candidates
        first, last = int(c.starts[lo]), int(c.starts[hi])
        entries = slice(int(c.indptr[first]), int(c.indptr[last]))
        other = copy.copy(self)
        other.candidates = Candidates(
            indptr=c.indptr[first : last + 1] - c.indptr[first],
            indices=c.indices[entries],
            data=c.data[entries],
            starts=c.starts[lo : hi + 1] - first,
            truth=c.truth[lo:hi] - first,
            loss=c.loss[first:last],
            rho=c.rho[first:last],
        )
        return other

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """``labelings`` holds indices of candidates: the correct one if no other violates the margin."""
        rows, values = np.empty(hi - lo, dtype=np.int64), np.empty(hi - lo)
        oracle_range(self.candidates, writable(w), lo, hi, rows, values)
        starts, losses = self.candidates.starts[lo:hi], self.candidates.loss[rows]
        return Answers(lo, hi, rows - starts, losses, values, values)

    def cut(self, answers: Answers, weights: Array) -> Cut:
        owners = np.arange(answers.lo, answers.hi)
        return _cut(self, self.rows(answers), owners, np.asarray(weights, dtype=np.float64))

    def rows(self, answers: Answers) -> IntArray:
        """The rows of the candidates in ``answers``."""
        rows: IntArray = answers.labelings + self.candidates.starts[answers.lo : answers.hi]
        return rows

    def cache(self, lo: int, hi: int, size: int) -> CandidateCache:
        return CandidateCache(self, lo, hi, size)

    def labeling(self, i: int, row: int) -> tuple[Labeling, float]:
        """A row of example i with its plane, and its loss."""
        if not self.candidates.starts[i] <= row < self.candidates.starts[i + 1]:
            raise ValueError(f"example {i} has no candidate in row {row}.")
        cut = _cut(self, np.array([row]), np.array([i]), np.ones(1))
        return Labeling(row, cut.offset, cut.plane), cut.offset

    def working_sets(self, caps: Array, regularizer: SquaredNorm | None = None) -> CandidateSets:
        return CandidateSets(self, caps, regularizer)

    def predict(self, w: Array, lo: int, hi: int) -> list[int]:
        out = np.empty(hi - lo, dtype=np.int64)
        predict_range(self.candidates, writable(w), lo, hi, out)
        return [int(k) for k in out]


def _cut(examples: EnumerableExamples, rows: IntArray, owners: IntArray, weights: Array) -> Cut:
    plane: Array = np.zeros(examples.dim)
    add_planes(examples.candidates, rows, owners, weights, plane)
    return Cut(float(np.sum(weights * examples.candidates.loss[rows])), sparsify(plane))


class CandidateCache:
    """The most recently used rows, at most ``size`` for each of the examples ``lo .. hi-1``."""

    def __init__(self, examples: EnumerableExamples, lo: int, hi: int, size: int) -> None:
        self._examples, self._lo = examples, lo
        self._rows = np.full((hi - lo, size), -1, dtype=np.int64)
        self._clock = np.full((hi - lo, size), -1, dtype=np.int64)
        self._now = 0

    @property
    def pointers(self) -> IntArray:
        held = (self._rows >= 0).sum(axis=1)
        return np.concatenate([[0], np.cumsum(held)]).astype(np.int64)

    def insert(self, answers: Answers) -> None:
        self._now += 1
        new = self._examples.rows(answers)
        known = (self._rows == new[:, None]).argmax(axis=1)
        is_known = (self._rows == new[:, None]).any(axis=1)
        place = np.where(
            is_known, known, self._clock.argmin(axis=1)
        )  # an empty slot, or the oldest
        which = np.flatnonzero(new != self._examples.candidates.truth[answers.lo : answers.hi])
        self._rows[which, place[which]] = new[which]
        self._clock[which, place[which]] = self._now

    def scores(self, w: Array) -> Array:
        rows = self._rows[self._rows >= 0]
        out = np.empty(len(rows))
        owners = self._lo + np.repeat(np.arange(len(self._rows)), np.diff(self.pointers))
        row_values(self._examples.candidates, writable(w), rows, owners, out)
        return out

    def touch(self, chosen: IntArray) -> None:
        self._now += 1
        entries = np.argwhere(self._rows >= 0)[chosen[chosen >= 0]]
        self._clock[entries[:, 0], entries[:, 1]] = self._now

    def cut(self, chosen: IntArray, weights: Array) -> Cut:
        used = chosen >= 0
        rows = self._rows[self._rows >= 0][chosen[used]]
        owners = self._lo + np.flatnonzero(used)
        return _cut(self._examples, rows, owners, np.asarray(weights, dtype=np.float64)[used])


class _Rows(dict[int, int]):
    """The row of each plane by its key, which is that number plus 1."""

    def __missing__(self, key: int) -> int:
        return key - 1

    def __setitem__(self, key: int, row: int) -> None: ...

    def __delitem__(self, key: int) -> None: ...


class CandidateSets(PlainWorkingSets):
    """Working sets whose outputs are rows, found and entered by compiled code."""

    def __init__(
        self, examples: EnumerableExamples, caps: Array, regularizer: SquaredNorm | None = None
    ) -> None:
        super().__init__(cast(Any, examples), caps, regularizer)
        self._outputs, self._candidates = _Rows(), examples.candidates

    @property
    def batch_size(self) -> int:
        return 1

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        self._tick += 1
        calls, new, total, c = 0, 0, 0.0, self._candidates
        while True:
            point = self._stored, self._u, self._w, self._floor
            found = stream_sweep(c, *point, order, skip_below, self._tick, self._scratch)
            calls, new, total = calls + found[1], new + found[2], total + found[3]
            order = order[found[0] :]
            if not len(order):
                return SweepStats(calls, total, new)
            self._reserve(int(order[0]))

    def _take(self, i: int, answer: Any) -> bool:
        before = int(self._stored.counts[i])
        self._enter(i, np.array([self._candidates.starts[i] + answer]))
        return bool(self._stored.counts[i] > before)

    def _take_all(self, part: Answers) -> None:
        self._enter(part.lo, part.labelings + self._candidates.starts[part.lo : part.hi])

    def _enter(self, lo: int, rows: IntArray) -> None:
        """Put one row into the working set of each example from ``lo``."""
        while len(rows):
            k = enter_range(self._candidates, self._stored, lo, rows, self._tick, self._scratch)
            lo, rows = lo + k, rows[k:]
            if len(rows):
                self._reserve(lo)

    def _reserve(self, i: int) -> None:
        """Make room for another plane of example i, and for one of each with planes of middle size."""
        c = self._candidates
        sizes = np.diff(c.indptr)
        own = sizes[c.truth[i]] + sizes[c.starts[i] : c.starts[i + 1]].max()
        n = int(max(own, 2 * len(c.indices) * self.n_examples // len(sizes)))
        self._make_room(n, n)

    def _key(self, output: Any) -> int:
        return count(output, "the number of a candidate", most=len(self._candidates.loss)) + 1
