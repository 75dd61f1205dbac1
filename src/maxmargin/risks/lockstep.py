"""Many score risks over the same rows, answered together: one pass over X for all of them.

Problem p is R_p(w) = sum_k s_pk R_k(w), where k runs over the classes, s_p are its class weights
and the sums go over the rows of its *split* (the training rows of one fold). Rows are ordered once
by class and by the set of splits they belong to; a shard is a piece of one such run, so it belongs
to a problem as a whole or not at all, and a class weight is one factor per shard. Nothing is masked.

Scores of the points a problem has pinned stay with the shards. To hold two of them per problem and
not three or four, a point on a line is a recipe ``a + t (b - a)`` until it is needed as an end of
a line, and after a cut only the incumbent stays. As for single risks
(:mod:`maxmargin.risks.lines.evaluation`) all of that is a cache: whatever was dropped can be computed anew
from its w.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from maxmargin.compiled.products import blend
from maxmargin.core.contract.requests import Breakpoints, Slopes, Toward
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.core.matrices import is_finite
from maxmargin.core.shared_bundle import PartedCut
from maxmargin.core.summation import tree_sum
from maxmargin.core.vectors import Array, frozen
from maxmargin.data.design import DenseDesign
from maxmargin.risks.lines.shard import NOT_FINITE
from maxmargin.risks.shared_rows import RowRun, SharedRows

#: columns multiplied at a time: beyond 16 a column costs no less, and the block leaves the cache
COLUMNS = 16
#: rows of a shard: a block of 16 columns stays in the second-level cache
SHARD_ROWS = 16_384
#: kinks that are collected: with scores at hand a round of slopes is cheaper than sorting more
KINKS = 4_000
#: rows of a dense block that is cast to float64
CAST_ROWS = 2_048

Pinned = tuple[int, Array]
"""Key and w of a pinned point."""


@dataclass(slots=True, eq=False)
class _Shelf:
    """What a shard keeps for one problem: scores by key, and recipes for points on lines."""

    scores: dict[int, Array]
    recipes: dict[int, tuple[int, int, float]]


class _Shard:
    """A piece of one run."""

    def __init__(self, rows: SharedRows, run: RowRun, lo: int, hi: int) -> None:
        self._rows, self._run, self._lo, self._hi = rows, run, lo, hi
        self._y, self._weight = rows.y[lo:hi], rows.weight[lo:hi]
        self._shelves: dict[int, _Shelf] = {}

    # -- passes over X ---------------------------------------------------------------------------

    def evaluate(self, asked: Sequence[tuple[int, int, int]], W: Array) -> Array:
        """Values of (problem, split, key) at the rows of ``W``, of this shard's part."""
        mine = [j for j, (_, split, _) in enumerate(asked) if split in self._run.splits]
        out: Array = np.zeros((len(asked), self._rows.n_parts))
        for start in range(0, len(mine), COLUMNS):
            block = mine[start : start + COLUMNS]
            scores = self._scores(W[block])
            for j, column in zip(block, scores, strict=True):
                problem, _, key = asked[j]
                shelf = self._shelves.setdefault(problem, _Shelf({}, {}))
                shelf.scores[key] = column.copy()  # a view would hold the whole block
                out[j, self._run.part] = self._rows.loss.value(column, self._y, self._weight)
        return out

    def _scores(self, W: Array) -> Array:
        """One row of scores per row of ``W``."""
        rows, lo, hi = self._rows, self._lo, self._hi
        d = rows.design.shape[1]
        if isinstance(rows.design, DenseDesign):
            out = np.empty((len(W), hi - lo))
            features = np.ascontiguousarray(W[:, :d])
            for start in range(lo, hi, CAST_ROWS):
                stop = min(hi, start + CAST_ROWS)
                block = rows.design.X[start:stop].astype(np.float64, copy=False)
                np.matmul(features, block.T, out=out[:, start - lo : stop - lo])
        elif len(W) == 1:
            out = rows.design.dot(np.ascontiguousarray(W[0, :d]), lo, hi)[None]
        else:
            out = rows.design.dot(np.ascontiguousarray(W[:, :d].T), lo, hi).T
        if rows.intercept != 0.0:
            out = out + rows.intercept * W[:, d, None]
        if not is_finite(out):  # a loss would drop it
            raise ValueError(NOT_FINITE)
        return out

    def cuts(
        self, asked: Sequence[tuple[int, int, Pinned]], live: Sequence[frozenset[int]]
    ) -> tuple[Array, Array]:
        """Offsets and planes, by part, of the cuts at pinned points of (problem, split)."""
        n_parts, dim = self._rows.n_parts, self._rows.dim
        mine = [j for j, (_, split, _) in enumerate(asked) if split in self._run.splits]
        offsets, planes = np.zeros((len(asked), n_parts)), np.zeros((len(asked), n_parts, dim))
        for start in range(0, len(mine), COLUMNS):
            block = mine[start : start + COLUMNS]
            gradients = np.empty((len(block), self._hi - self._lo))
            for row, j in enumerate(block):
                problem, _, point = asked[j]
                scores = self._at(problem, point, keep=False)
                offset, gradient = self._rows.loss.cut(scores, self._y, self._weight)
                offsets[j, self._run.part] = offset
                gradients[row] = gradient
            planes[block, self._run.part] = self._planes(gradients)
        for j in mine:
            self._settle(asked[j][0], asked[j][2][0], live[j])
        return offsets, planes

    def _planes(self, gradients: Array) -> Array:
        rows, lo, hi = self._rows, self._lo, self._hi
        d = rows.design.shape[1]
        out = np.zeros((len(gradients), rows.dim))
        if isinstance(rows.design, DenseDesign):
            for start in range(lo, hi, CAST_ROWS):
                stop = min(hi, start + CAST_ROWS)
                block = rows.design.X[start:stop].astype(np.float64, copy=False)
                out[:, :d] += gradients[:, start - lo : stop - lo] @ block
        elif len(gradients) == 1:
            features = np.zeros(d)
            rows.design.accumulate(gradients[0], lo, hi, features)
            out[0, :d] = features
        else:
            columns = np.zeros((d, len(gradients)))
            rows.design.accumulate(np.ascontiguousarray(gradients.T), lo, hi, columns)
            out[:, :d] = columns.T
        if rows.intercept != 0.0:
            out[:, d] = rows.intercept * gradients.sum(axis=1)
        return out

    # -- lines -----------------------------------------------------------------------------------

    def lines(self, asked: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Answers to questions about lines; a question begins (kind, problem, split, scale, live)."""
        return [
            getattr(self, "_" + kind)(problem, scale[self._run.part], live, *rest)
            if split in self._run.splits
            else None
            for kind, problem, split, scale, live, *rest in asked
        ]

    def _toward(
        self,
        problem: int,
        scale: float,
        live: frozenset[int],
        a: Pinned,
        b: Pinned,
        t: float,
        key: int,
        value: bool,
    ) -> float:
        self._forget(problem, live)
        start, end = self._at(problem, a), self._at(problem, b)
        self._shelves[problem].recipes[key] = (a[0], b[0], t)
        if not value:
            return 0.0
        moved = np.empty_like(start)
        blend(start, end, t, moved)
        return scale * self._rows.loss.value(moved, self._y, self._weight)

    def _slopes(
        self, problem: int, scale: float, live: frozenset[int], a: Pinned, b: Pinned, ts: Array
    ) -> Array:
        s, r = self._at(problem, a), self._at(problem, b)
        return scale * self._rows.loss.slopes(s, r, self._y, self._weight, ts)

    def _kinks(
        self,
        problem: int,
        scale: float,
        live: frozenset[int],
        a: Pinned,
        b: Pinned,
        lo: float,
        hi: float,
        limit: int,
    ) -> tuple[Array, Array] | bool:
        s, r = self._at(problem, a), self._at(problem, b)
        found = self._rows.loss.breakpoints(s, r, self._y, self._weight, lo, hi, limit)
        return False if found is None else (found[0], scale * found[1])

    # -- the shelves -----------------------------------------------------------------------------

    def _at(self, problem: int, point: Pinned, keep: bool = True) -> Array:
        shelf = self._shelves.setdefault(problem, _Shelf({}, {}))
        key, w = point
        if key in shelf.scores:
            return shelf.scores[key]
        recipe = shelf.recipes.get(key)
        if recipe and recipe[0] in shelf.scores and recipe[1] in shelf.scores:
            scores = np.empty(self._hi - self._lo)
            blend(shelf.scores[recipe[0]], shelf.scores[recipe[1]], recipe[2], scores)
        else:
            scores = np.array(self._scores(w[None])[0])
        if keep:
            shelf.recipes.pop(key, None)
            shelf.scores[key] = scores
        return scores

    def _forget(self, problem: int, live: frozenset[int]) -> None:
        """Drop what no live evaluation owns; recipes that need it are carried out first."""
        shelf = self._shelves.get(problem)
        if shelf is None:
            return
        for key, (a, b, _) in list(shelf.recipes.items()):
            if key not in live:
                del shelf.recipes[key]
            elif not (a in live and b in live) and a in shelf.scores and b in shelf.scores:
                self._at(problem, (key, np.empty(0)))
        for key in [key for key in shelf.scores if key not in live]:
            del shelf.scores[key]

    def _settle(self, problem: int, cut_at: int, live: frozenset[int]) -> None:
        """After a cut only the incumbent's scores are needed: those of the recipes left, or of the
        start of the line that the cut was taken on."""
        shelf = self._shelves[problem]
        recipe = shelf.recipes.pop(cut_at, None)
        stay = {recipe[0]} if recipe else set()
        for key, (a, b, _) in list(shelf.recipes.items()):
            if key in live and a in shelf.scores and b in shelf.scores:
                self._at(problem, (key, np.empty(0)))
                stay.add(key)
        if not stay:
            stay = {max((key for key in shelf.scores if key != cut_at), default=cut_at)}
        shelf.recipes.clear()
        shelf.scores = {key: s for key, s in shelf.scores.items() if key in stay}

    def close(self, problem: int) -> None:
        """Forget a problem."""
        self._shelves.pop(problem, None)


def _make_shard(rows: SharedRows, spec: tuple[int, int, int]) -> _Shard:
    return _Shard(rows, rows.runs[spec[0]], spec[1], spec[2])


class LockstepEvaluation:
    """One problem's risk, pinned at w."""

    def __init__(self, risk: LockstepRisk, problem: int, key: int, w: Array, value: float) -> None:
        self.risk, self.problem = risk, problem
        self.point: Pinned = (key, w)
        self.w = w
        self.value = self.upper = value

    def cut(self) -> Cut:
        """The cut that is tight here, with its parts."""
        return self.risk.cuts([self])[0]

    def cuts(self) -> list[Cut]:
        """The same, as a list."""
        return [self.cut()]

    def toward(self, other: LockstepEvaluation, t: float) -> LockstepEvaluation:
        """The evaluation at ``w + t (other.w - w)``."""
        out: LockstepEvaluation = self.risk.lines([Toward(self, other, t)])[0]
        return out

    def slopes(self, other: LockstepEvaluation, ts: Array) -> Array:
        """Right derivatives on the line."""
        out: Array = self.risk.lines([Slopes(self, other, ts)])[0]
        return out

    def breakpoints(
        self, other: LockstepEvaluation, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """Kinks on the line."""
        out: tuple[Array, Array] | None = self.risk.lines(
            [Breakpoints(self, other, lo, hi, limit)]
        )[0]
        return out


@dataclass(slots=True, eq=False)
class _Open:
    """A problem that is being solved."""

    split: int
    scale: Array
    #: plain references, for a Ctrl-C in the code of a WeakSet would be forgotten
    live: list[weakref.ref[LockstepEvaluation]]

    def alive(self) -> list[LockstepEvaluation]:
        return [e for e in (reference() for reference in self.live) if e is not None]


class LockstepRisk:
    """The risks of all problems over the same rows.

    Parameters
    ----------
    rows : SharedRows
        The rows, ordered by :func:`order_rows`.
    engine : Engine, optional
        Where the shards live; the calling thread by default.
    """

    lower_bound = 0.0

    def __init__(self, rows: SharedRows, engine: Engine | None = None) -> None:
        self.rows = rows
        self.dim, self.n_parts = rows.dim, rows.n_parts
        self.engine: Engine = engine or SerialEngine()
        self.engine.open(partial(_make_shard, rows), self._shards())
        self._keys = itertools.count()
        self._problems: dict[int, _Open] = {}
        self._numbers = itertools.count()

    def _shards(self) -> list[tuple[int, int, int]]:
        specs = []
        for number, run in enumerate(self.rows.runs):
            if not run.splits:
                continue
            n = run.hi - run.lo
            pieces = -(-n // SHARD_ROWS)
            bounds = [run.lo + round(k * n / pieces) for k in range(pieces + 1)]
            specs += [(number, lo, hi) for lo, hi in itertools.pairwise(bounds)]
        return specs

    def n_examples(self, split: int) -> int:
        """Rows of a split."""
        return sum(run.hi - run.lo for run in self.rows.runs if split in run.splits)

    def open(self, split: int, scale: Array) -> int:
        """A new problem: a split, and one weight per part."""
        number = next(self._numbers)
        self._problems[number] = _Open(split, scale, [])
        return number

    def close(self, problem: int) -> None:
        """Forget a problem's scores."""
        self._problems.pop(problem, None)
        self.engine.gather(_Shard.close, problem)

    def evaluate(self, asked: Sequence[tuple[int, Array]]) -> list[LockstepEvaluation]:
        """Several (problem, w) in one pass over X."""
        points = [frozen(w) for _, w in asked]
        specs = [(p, self._problems[p].split, next(self._keys)) for p, _ in asked]
        handle = self.engine.publish(np.array(points))
        values = self.engine.reduce(_Shard.evaluate, specs, handle)
        return [
            self._pin(p, key, w, float(self._problems[p].scale @ parts))
            for (p, _, key), w, parts in zip(specs, points, values, strict=True)
        ]

    def _pin(self, problem: int, key: int, w: Array, value: float) -> LockstepEvaluation:
        evaluation = LockstepEvaluation(self, problem, key, w, value)
        held = self._problems[problem]
        held.live = [*(weakref.ref(e) for e in held.alive()), weakref.ref(evaluation)]
        return evaluation

    def _live(self, problem: int) -> frozenset[int]:
        return frozenset(e.point[0] for e in self._problems[problem].alive())

    def cuts(self, asked: Sequence[LockstepEvaluation]) -> list[Cut]:
        """The cuts at several points in one transposed pass."""
        specs = [(e.problem, self._problems[e.problem].split, e.point) for e in asked]
        live = [self._live(e.problem) for e in asked]
        offsets, planes = self.engine.reduce(_Shard.cuts, specs, live)
        out: list[Cut] = []
        for e, b, a in zip(asked, offsets, planes, strict=True):
            scale = self._problems[e.problem].scale
            out.append(PartedCut(float(scale @ b), scale @ a, offsets=b, planes=a))
        return out

    def lines(self, asked: Sequence[Toward | Slopes | Breakpoints]) -> list[Any]:
        """Answers to questions about lines, of any problems, in one round."""
        questions = [self._question(request) for request in asked]
        parts = self.engine.gather(_Shard.lines, questions)
        return [
            self._answer(request, question, [part[j] for part in parts if part[j] is not None])
            for j, (request, question) in enumerate(zip(asked, questions, strict=True))
        ]

    def _question(self, request: Toward | Slopes | Breakpoints) -> tuple[Any, ...]:
        a, b = request.a, request.b
        assert isinstance(a, LockstepEvaluation)
        assert isinstance(b, LockstepEvaluation)
        problem = self._problems[a.problem]
        head = (a.problem, problem.split, problem.scale, self._live(a.problem), a.point, b.point)
        match request:
            case Toward():
                return ("toward", *head, request.t, next(self._keys), request.value)
            case Slopes():
                return ("slopes", *head, request.ts)
            case Breakpoints():
                limit = min(request.limit, KINKS)
                n_shards = max(1, self.n_examples(problem.split) // SHARD_ROWS)
                share = min(limit, max(64, 4 * limit // n_shards))
                return ("kinks", *head, request.lo, request.hi, share)

    def _answer(
        self, request: Toward | Slopes | Breakpoints, question: tuple[Any, ...], parts: list[Any]
    ) -> Any:
        match request:
            case Toward(a, b, t, asked):
                w = frozen(a.w + t * (b.w - a.w))
                value = float(tree_sum(parts)) if asked else float("nan")
                return self._pin(question[1], question[-2], w, value)
            case Slopes():
                return tree_sum(parts)
            case Breakpoints():
                if any(part is False for part in parts):
                    return None
                return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
