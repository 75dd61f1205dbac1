"""Structured risks over functions of a kernel with sampled planes, for
:class:`maxmargin.solvers.SampledCuts`.

    R(w) = sum_i s_i max_y^ [Delta(y_i, y^) + <w, dPsi_i(y^)>]        (or with slack rescaling)

with phi(row) in place of the rows of the inputs (``Task.kernel_inputs``). Then w is one function of the
kernel's space for each of the q entries of e (:mod:`maxmargin.risks.kernels.row_layout`), and weights that do
not depend on rows. Planes, points, and the scores of all rows, q numbers each, are those of
:mod:`maxmargin.risks.kernels.planes`. Inputs have one-hot rows: the weights of column r are the scores of row
r, so the task's own oracle finds the outputs, and its planes are the coefficients of the rows.

Columns are numbered anew in every tile of a few hundred rows, so w stays short. For n examples with N rows, a
plane sampled from r examples costs N kernel values for each of its rows that has a coefficient. Then the
oracle needs none, at any combination of planes. There is no line search, because the risk along a line is
not known without the oracle.

In constant time (:class:`GrowingStructuredRisk`), the scores are those of the sampled examples only.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.checks import one_of
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.cut import Cut
from maxmargin.core.ragged import flat_ranges
from maxmargin.core.sampling import Draw, Terms
from maxmargin.core.vectors import Array, IntArray, SparseVector, frozen
from maxmargin.kernels import Kernel, KernelRows, center_of
from maxmargin.risks.kernels.planes import SampledPlanes
from maxmargin.risks.kernels.pool import GrowingPlanes
from maxmargin.risks.kernels.row_layout import RowLayout
from maxmargin.risks.lines.evaluation import check_weights
from maxmargin.risks.scores.wide_columns import GramNorm
from maxmargin.risks.structured.python_examples import PlainExamples, Rescaling
from maxmargin.tasks.base import Task

#: rows of a tile of compiled examples
ROWS = 512


class _PackedExamples(NamedTuple):
    """A few examples: which of those known, their rows among those known, and their inputs with one-hot rows.
    The first of them is example ``lo`` of ``inputs``."""

    examples: slice
    rows: slice
    inputs: Any
    lo: int


class SampledStructuredRisk(SampledPlanes):
    """The structured risk of a task with a kernel, over combinations of sampled planes.

    Parameters
    ----------
    task : Task
        A task that defines ``kernel_inputs``. It is not changed.
    X, Y : sequences
        Inputs and labeled outputs.
    rows : array or CSR matrix
        The rows of all inputs, stacked.
    ends : array of int
        Where the rows of each input end.
    kernel : Kernel
        The kernel.
    rescaling : {"margin", "slack"}
        Margin or slack rescaling of the loss.
    sample_weight : array, optional
        Weight of each example.
    memory : int, default 2**31
        Bytes for scores of planes (at least 48 planes are always held) and cached kernel columns.

    Attributes
    ----------
    regularizer : GramNorm
        Half the squared norm of points.
    kernel_values : int
        Number of kernel values computed so far.
    """

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        rows: Any,
        ends: IntArray,
        kernel: Kernel,
        *,
        rescaling: Rescaling = "margin",
        sample_weight: Any = None,
        memory: int = 2**31,
    ) -> None:
        one_of("rescaling", rescaling, ("margin", "slack"))
        self._X, self._Y, self._rescaling, self.n_examples = X, Y, rescaling, len(Y)
        self._counts = np.diff(ends, prepend=0).astype(np.int64)
        self._starts = np.asarray(ends, dtype=np.int64) - self._counts
        self._weight = check_weights(sample_weight, self.n_examples)
        self._layout = RowLayout(task, X, Y, self._counts)
        widest = max(1, int(self._counts.max()))
        small, dim, *_ = self._layout.at(widest)
        # examples in Python are asked one by one
        first = task.with_kernel_inputs(X[0], np.zeros((int(self._counts[0]), widest)))
        plain = isinstance(self._packed(small, dim, [first], [0]), PlainExamples)
        self._tile = widest if plain else max(widest, ROWS)
        self._task, self._width, self._table, self._rest_at = self._layout.at(self._tile)
        self._one_hot = np.eye(self._tile)
        self._plain: Any = None
        if plain:
            inputs = [
                task.with_kernel_inputs(x, self._one_hot[:n])
                for x, n in zip(X, self._counts, strict=True)
            ]
            self._plain = self._packed(self._task, self._width, inputs, range(self.n_examples))
        self._know(np.arange(0))
        center = center_of(rows) if kernel.shift_invariant else None
        prepared = KernelRows(kernel, rows, np.float64, center)
        super().__init__(prepared, self._layout.n_outputs, memory)
        #: by slot: the weights of a plane that do not depend on rows
        self._rest: Array = np.zeros((self._slots, self._layout.n_rest))
        self.regularizer = GramNorm(times_gram=self._times_gram)
        self._live: weakref.WeakSet[DrawnEvaluation] = weakref.WeakSet()

    def _begin(self, n_columns: int) -> int:
        self._know(np.arange(self.n_examples))
        return super()._begin(n_columns)

    # -- inputs ----------------------------------------------------------------------------------------

    def _know(self, ids: IntArray) -> None:
        """The risk is that of these examples."""
        self._tiles = self._tiles_of(ids)
        self._share = self._weight[ids] * (self.n_examples / max(1, len(ids)))

    def _tiles_of(self, ids: IntArray) -> list[_PackedExamples]:
        ends, out, lo = np.cumsum(self._counts[ids]), [], 0
        while lo < len(ids):
            start = int(ends[lo] - self._counts[ids[lo]])
            hi = lo + 1
            if self._plain is None:
                hi = max(hi, int(np.searchsorted(ends, start + self._tile, side="right")))
            here, rows = ids[lo:hi], slice(start, int(ends[hi - 1]))
            if self._plain is None:
                inputs, first = self._packed(self._task, self._width, self._columns(here), here), 0
            else:
                inputs, first = self._plain, int(ids[lo])
            out.append(_PackedExamples(slice(lo, hi), rows, inputs, first))
            lo = hi
        return out

    def _columns(self, ids: IntArray) -> list[Any]:
        """These examples with one-hot rows, one column for each row."""
        ends = np.cumsum(self._counts[ids])
        parts = zip(ids, ends - self._counts[ids], ends, strict=True)
        return [self._task.with_kernel_inputs(self._X[i], self._one_hot[a:b]) for i, a, b in parts]

    def _packed(self, task: Task, dim: int, inputs: Sequence[Any], ids: Iterable[Any]) -> Any:
        """Examples in the task's compiled form, if there is one."""
        Y = [self._Y[i] for i in ids]
        packed = task.pack(inputs, Y) if self._rescaling == "margin" else task.pack_slack(inputs, Y)
        return PlainExamples(task, inputs, Y, dim, self._rescaling) if packed is None else packed

    # -- points ----------------------------------------------------------------------------------------

    def evaluate(self, w: Array, *, exact: bool = True) -> DrawnEvaluation:
        """Call the oracle for all known examples."""
        scores: Array = np.zeros((0, self._outputs))
        if self._tiles:
            scores = np.concatenate(self.engine.gather(self._shard.mixed, w))
        found = DrawnEvaluation(self, frozen(w), self._answers(self._tiles, scores, w @ self._rest))
        self._live.add(found)
        return found

    def _answers(self, tiles: list[_PackedExamples], scores: Array, rest: Array) -> list[Answers]:
        out = []
        for tile in tiles:
            V, here = np.zeros(self._width), scores[tile.rows]
            V[self._table[: len(here)]], V[self._rest_at] = here, rest
            out.append(tile.inputs.oracle(V, tile.lo, tile.lo + _len(tile.examples)))
        return out

    def measure(self, w: Array) -> float:
        """The risk of all examples at a point, by one pass over them."""
        ids, coef = self._combined(w)
        self.kernel_values += self.n_all * len(ids)
        scores = self._rows.times(self._rows.take(ids), coef)
        tiles = self._tiles_of(np.arange(self.n_examples))
        uppers = [answers.uppers for answers in self._answers(tiles, scores, w @ self._rest)]
        return float(self._weight @ np.concatenate(uppers))

    def model(self, w: Array) -> tuple[Task, Array, IntArray]:
        """The task set up for columns of kernel values, the weights of a point there, and the rows that the
        columns refer to."""
        ids, coef = self._combined(w)
        used = coef.any(axis=1)
        ids, coef = (
            (ids[used], coef[used]) if used.any() else (np.arange(1), np.zeros((1, self._outputs)))
        )
        task, dim, table, rest = self._layout.at(len(ids))
        V = np.zeros(dim)
        V[table], V[rest] = coef, w @ self._rest
        return task, V, ids

    def terms(self, at: DrawnEvaluation) -> Terms:
        """The exact cut at a point, example by example, evaluated there."""
        s = self._share
        contributes = (s > 0.0) & ((at.losses > 0.0) | (at.values > 0.0))
        return Terms(float(s @ at.losses), s * (at.values - at.losses), contributes)

    # -- planes ----------------------------------------------------------------------------------------

    def sampled_cut(self, at: DrawnEvaluation, draw: Draw) -> Cut:
        """A new plane from the sampled examples, in its own slot."""
        factors = np.bincount(draw.examples, draw.factors, len(self._share)) * self._share
        ids, coefs = [np.empty(0, dtype=np.int64)], [np.zeros((0, self._outputs))]
        rest = np.zeros(self._layout.n_rest)
        for tile, answers in zip(self._tiles, at.answers, strict=True):
            here = factors[tile.examples]
            if not here.any():
                continue
            plane = tile.inputs.cut(answers, here).plane
            dense = plane.to_dense() if isinstance(plane, SparseVector) else plane
            rest += dense[self._rest_at]
            coef = dense[self._table[: _len(tile.rows)]]
            there = np.flatnonzero(coef.any(axis=1))
            ids.append(self._known[tile.rows][there])
            coefs.append(coef[there])
        slot = self._new_plane(np.concatenate(ids), np.concatenate(coefs))
        self._rest[slot] = rest
        self._gram[slot] += self._rest @ rest
        self._gram[:, slot] = self._gram[slot]
        offset = float(self._share @ at.losses)
        return Cut(offset, SparseVector(np.array([slot]), np.ones(1), self.dim))

    def _combine_into(self, slot: int, factors: Array) -> None:
        self._rest[slot] = factors @ self._rest
        super()._combine_into(slot, factors)

    def _evaluations(self) -> Any:
        return list(self._live)


class GrowingStructuredRisk(GrowingPlanes, SampledStructuredRisk):
    """The same risk of the examples sampled last, each with an equal share of the total weight; parameters as
    for :class:`SampledStructuredRisk`. Its values are estimates."""

    @property
    def offers(self) -> Capabilities:
        return Capabilities(numbered_planes=self, growing=self)

    def extend(self, size: int, seed: int, held: int) -> IntArray:
        """See :class:`maxmargin.core.contract.sampled.GrowingRisk`. Points do not move along lines, so
        ``held`` is 1."""
        rng, n = np.random.default_rng(seed), self.n_examples
        drawn = np.sort(rng.choice(n, min(size, n), replace=False, shuffle=False))
        rows = flat_ranges(self._starts[drawn], self._counts[drawn])
        self._know(drawn[:0])  # until all is there: Ctrl-C may come at any time
        self._exchange(np.empty(0, dtype=np.int64), rows)
        self._know(drawn)
        return np.arange(len(drawn))


class DrawnEvaluation:
    """A structured risk with a kernel evaluated at a point; its cuts are sampled."""

    def __init__(self, risk: SampledStructuredRisk, w: Array, answers: list[Answers]) -> None:
        self.w, self.answers = w, answers
        self._risk = risk
        none = np.empty(0)
        self.losses: Array = np.concatenate([none, *(a.losses for a in answers)])
        self.values: Array = np.concatenate([none, *(a.values for a in answers)])
        self.value = float(risk._share @ self.values)
        whole = len(self.values) == risk.n_examples
        uppers = np.concatenate([none, *(a.uppers for a in answers)])
        self.upper = float(risk._share @ uppers) if whole else float("inf")

    def rename(self, w: Array) -> None:
        """Replace the representation of the point."""
        self.w = w

    def terms(self, trial: Any, examples: IntArray | None = None) -> Terms:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        if id(trial) != id(self):
            raise TypeError(
                "cuts of a structured risk are sampled at the point of the oracle calls only."
            )
        return self._risk.terms(self)

    def sampled_cut(self, draw: Draw, whole: bool) -> Cut:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        return self._risk.sampled_cut(self, draw)

    def cut(self) -> Cut:
        """The exact cut: all examples with factor 1."""
        n = len(self.values)
        return self._risk.sampled_cut(self, Draw(np.arange(n), np.ones(n)))


def _len(part: slice) -> int:
    return int(part.stop - part.start)
