"""Enumerable examples for compiled code, with their constraint cache and working sets.

See :mod:`maxmargin.compiled.candidates` for the mathematics. A labeling is an integer: in answers, the index
of a candidate within its example; in caches and working sets, the index of its row in the stacked matrix.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.candidates import (
    Candidates,
    Held,
    Scratch,
    add_planes,
    confirm_range,
    epoch_sweep,
    oracle_range,
    predict_range,
    row_values,
    stream_sweep,
)
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.multiplier_sets import MultiplierSets
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.matrices import canonical, place_in
from maxmargin.core.stored_values import count, entries, floats, integers
from maxmargin.core.vectors import Array, IntArray, all_writable, sparsify, writable

#: multipliers are rescaled if their sum differs from the cap by more than this share of it
DRIFT = 1e-14


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

    def working_sets(self, caps: Array) -> CandidateSets:
        return CandidateSets(self, caps)

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


class CandidateSets(MultiplierSets):
    """The dual variables: one multiplier for each candidate (``core.WorkingSets``)."""

    _stored: Held

    def __init__(self, examples: EnumerableExamples, caps: Array) -> None:
        self._examples = examples
        c = self._candidates = examples.candidates
        caps = np.array(caps, dtype=np.float64)
        if caps.shape != c.truth.shape or not (np.isfinite(caps) & (caps >= 0)).all():
            raise ValueError(
                f"caps must hold {len(c.truth)} finite, nonnegative numbers, one per example."
            )
        rows, widest = len(c.loss), int(np.diff(c.starts).max(initial=0))
        gaps = np.where(caps > 0.0, np.inf, 0.0)
        self._stored = Held(caps, gaps, np.zeros(rows), np.full(rows, -1, dtype=np.int64))
        self._stored.alpha[c.truth] = caps
        self._w: Array = np.zeros(examples.dim)
        self._scratch = Scratch(
            dense=np.zeros(examples.dim),
            members=np.empty(widest + 1, dtype=np.int64),
            g=np.empty(widest + 1),
            alpha=np.empty(widest + 1),
            before=np.empty(widest + 1),
            distances=np.empty((widest + 1) ** 2),
        )

    @property
    def _truths(self) -> IntArray:
        return self._candidates.truth

    @property
    def _sizes(self) -> IntArray:
        return np.diff(self._candidates.starts)

    @property
    def n_planes(self) -> int:
        return int(np.count_nonzero(self._stored.used >= 0))

    def attach(self, w: Array, other: Self | None = None) -> None:
        self._w = w
        if other is not None:
            self._scratch = self._scratch._replace(dense=other._scratch.dense)

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        self._tick += 1
        calls, added, gap = stream_sweep(
            self._candidates, self._stored, self._scratch, self._w, order, skip_below, self._tick
        )
        return SweepStats(oracle_calls=calls, gap=gap, new_planes=added)

    def absorb(self, answers: Sequence[Answers]) -> SweepStats:
        before, total = self.n_planes, 0.0
        for part in answers:
            self._enter(part)
            gap = self.epoch(np.array([part.lo])).gap
            self._stored.gaps[part.lo] = gap
            total += gap
        return SweepStats(len(answers), total, self.n_planes - before)

    def epoch(self, order: IntArray) -> SweepStats:
        gap = epoch_sweep(self._candidates, self._stored, self._scratch, self._w, order)
        return SweepStats(oracle_calls=0, gap=gap, new_planes=0)

    def confirm(self, answers: Sequence[Answers]) -> tuple[float, float]:
        self._tick += 1
        terms: list[float] = []
        missing = self._stored.caps > 0.0
        for part in answers:
            self._enter(part)
            missing[part.lo : part.hi] = False
            terms.extend(self._stored.caps[part.lo : part.hi] * part.values)
        if missing.any():
            raise ValueError(
                f"some answers are missing: pass answers for all {self.n_examples} examples."
            )
        total = math.fsum(terms)
        return total, total

    def _enter(self, part: Answers) -> None:
        """Add the answers to the working sets and update the gaps."""
        confirm_range(
            self._candidates,
            self._stored,
            self._scratch,
            self._w,
            part.lo,
            self._examples.rows(part),
            self._tick,
        )

    def drop_idle(self, age: int) -> None:
        held = self._stored
        held.used[(held.alpha == 0.0) & (held.used < self._tick - age + 1)] = -1

    def _restart(self) -> float:
        c, held = self._candidates, self._stored
        total = np.add.reduceat(held.alpha, c.starts[:-1])
        far = (
            np.abs(total - held.caps) > DRIFT * held.caps
        )  # steps preserve the sums up to rounding
        if far.any():
            scale = np.divide(held.caps, total, out=np.ones(len(total)), where=far)
            held.alpha[:] *= np.repeat(scale, np.diff(c.starts))
        rows = np.flatnonzero((held.alpha != 0.0) & (held.used >= 0))
        owners = np.searchsorted(c.starts, rows, side="right") - 1
        self._w[:] = 0.0
        add_planes(c, rows, owners, -held.alpha[rows], self._w)
        return math.fsum(held.alpha[rows] * c.loss[rows]) - 0.5 * float(self._w @ self._w)

    def state(self) -> dict[str, Any]:
        """The rows in use and their multipliers."""
        held = self._stored
        rows = np.flatnonzero((held.alpha != 0.0) | (held.used >= 0))
        return {
            "rows": rows,
            "alpha": held.alpha[rows],
            "used": held.used[rows],
            "caps": held.caps.copy(),
            "gaps": held.gaps.copy(),
            "tick": self._tick,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        held = self._stored
        names = ("rows", "alpha", "used", "gaps", "tick")
        rows, some, used, gaps, tick = entries(state, *names)
        rows = integers(rows, "the candidates", (None,), below=len(held.alpha))
        alpha = np.zeros(len(held.alpha))
        alpha[rows] = floats(some, "the multipliers", rows.shape)
        used = integers(used, "the ages of candidates", rows.shape, -1, 2**31)
        held.alpha[:], held.used[:] = alpha, -1
        held.used[rows] = used
        held.gaps[:] = floats(gaps, "the gaps", held.gaps.shape, finite=False)
        self._tick = count(tick, "the number of sweeps", most=2**30)
        self.dual_value()
