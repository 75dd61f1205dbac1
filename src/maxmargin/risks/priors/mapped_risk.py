"""A risk composed with an affine map of its weights: R'(v) = R(center + T v).

Points are mapped to w, and cuts are mapped back to cuts of v. The shards are not aware of the map, and no
data is copied. Only methods that visit single rows need transformed rows, X T with the offsets X center;
if T is the identity these are the rows of X itself.

References:

- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: section 6,
  equation (33).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.contract.evaluation import Evaluation, LineEvaluation
from maxmargin.core.contract.risk import Capabilities, Risk
from maxmargin.core.contract.row_duals import (
    AT_SHARDS,
    NO_ROWS,
    RowDuals,
    RowSample,
    RowShape,
    refused,
)
from maxmargin.core.contract.sweeps import Blocks, Streaming
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, frozen
from maxmargin.data.design import CSRDesign, DenseDesign, Design
from maxmargin.duals.choice import METHODS, refusal, row_duals
from maxmargin.duals.rows import Rows
from maxmargin.risks.scores.risk import ScoreRisk
from maxmargin.risks.weight_map import WeightMap

#: maximum number of entries of a copy of the rows
MAX_ENTRIES = 2**27
#: maximum density of a block matrix for which products with sparse rows stay sparse
SPARSE_BLOCKS = 0.02
#: number of rows transformed at a time
CHUNK = 1024


class MappedEvaluation:
    """See :class:`maxmargin.core.Evaluation`."""

    def __init__(self, weights: WeightMap, inner: Any, w: Array) -> None:
        self._weights, self.inner, self._v = weights, inner, w

    @property
    def w(self) -> Array:
        """The point."""
        return self._v

    @property
    def value(self) -> float:
        """R."""
        return float(self.inner.value)

    @property
    def upper(self) -> float:
        """An upper bound of R."""
        return float(self.inner.upper)

    def cut(self) -> Cut:
        """The cut that is tight here."""
        return self._weights.pull_cut(self.inner.cut())


class MappedLine(MappedEvaluation):
    """See :class:`maxmargin.core.LineEvaluation`."""

    def __init__(self, weights: WeightMap, inner: Any, w: Array | None, line: Any = None) -> None:
        super().__init__(weights, inner, w if w is not None else np.empty(0))
        self._line: tuple[MappedLine, MappedLine, float] | None = line

    @property
    def w(self) -> Array:
        """The point."""
        if self._line is not None:
            a, b, t = self._line
            self._v, self._line = frozen(a.w + t * (b.w - a.w)), None
        return self._v

    def toward(self, other: MappedLine, t: float) -> MappedLine:
        """The evaluation at ``w + t (other.w - w)``."""
        inner = self.inner.toward(other.inner, t)
        return MappedLine(self._weights, inner, None, (self, other, t))

    def slopes(self, other: MappedLine, ts: Array) -> Array:
        """Right derivatives on the line."""
        out: Array = self.inner.slopes(other.inner, ts)
        return out

    def breakpoints(
        self, other: MappedLine, lo: float, hi: float, limit: int
    ) -> tuple[Array, Array] | None:
        """Kinks on the line."""
        found: tuple[Array, Array] | None = self.inner.breakpoints(other.inner, lo, hi, limit)
        return found


class MappedRisk:
    """R(center + T v) of a risk R.

    Parameters
    ----------
    risk : Risk
        The risk of w.
    weights : WeightMap
        The map from v to w.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.losses import Hinge
    >>> from maxmargin.risks import ScoreRisk
    >>> from maxmargin.risks.priors.mapped_risk import MappedRisk
    >>> from maxmargin.risks.weight_map import WeightMap
    >>> risk = ScoreRisk(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), Hinge())
    >>> weights = WeightMap(np.array([[3.0]]), np.ones(1))
    >>> result = minimize(MappedRisk(risk, weights), C=1.0)     # w = 3 costs nothing
    >>> result.objective, weights.whole(result.w)
    (0.0, array([3.]))
    """

    def __init__(self, risk: Risk, weights: WeightMap) -> None:
        self.inner, self.weights = risk, weights
        self._scores = risk if isinstance(risk, ScoreRisk) else None
        self.dim = risk.dim
        self.n_blocks = risk.n_blocks
        self.lower_bound = risk.lower_bound
        self.oracle = risk.oracle
        self.n_examples = risk.n_examples
        self.shape = NO_ROWS if self._scores is None else _work(self._scores, weights)
        self._rows: Rows | None = None

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """Evaluate at a point."""
        w = frozen(w)
        inner = self.inner.evaluate(self.weights.whole(w), exact=exact)
        kind = MappedLine if isinstance(inner, LineEvaluation) else MappedEvaluation
        return kind(self.weights, inner, w)

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        inner = self.inner.offers
        return Capabilities(
            row_duals=None if self._scores is None else self,
            proved=None if inner.proved is None else self,
            caching=inner.caching,
            engine=inner.engine,
        )

    @property
    def engine(self) -> Engine:
        """The engine that holds the shards of the risk."""
        return self._score_risk().engine

    def scores(self, at: LineEvaluation) -> Array:
        """The scores of an evaluated point, one per row."""
        assert isinstance(at, MappedLine)
        return self._score_risk().scores(at.inner)

    def check(self, duals: RowDuals, at: LineEvaluation) -> None:
        """See :class:`maxmargin.core.contract.row_duals.RowDualRisk`."""
        duals.check(self.scores(at))

    def _score_risk(self) -> ScoreRisk:
        assert self._scores is not None  # called only if ``offers`` includes it
        return self._scores

    def methods(self, regularizer: SquaredNorm) -> frozenset[str]:
        """The methods that :meth:`row_duals` supports for this problem."""
        return frozenset(m for m in METHODS if self.refusal(m, regularizer) is None)

    def refusal(self, method: str, regularizer: SquaredNorm) -> str | None:
        """See :class:`maxmargin.core.contract.row_duals.RowDualRisk`."""
        rows = self._score_risk().rows
        if method == "sample":
            return "a prior transforms the samples, all of them"
        if method == AT_SHARDS:
            return "a prior transforms the samples, and the shards do not have the transformed ones"
        if self.weights.shifts and rows.offset is None:
            rows = replace(rows, offset=np.empty(0))
        if method != "stream" and self.weights.blocks and self.shape.nnz > MAX_ENTRIES:
            return "the prior correlates features, and the transformed rows would not fit in memory"
        return refusal(method, rows, regularizer)

    def row_duals(
        self,
        method: str,
        C: float,
        regularizer: SquaredNorm,
        streaming: Streaming | None = None,
        blocks: Blocks | None = None,
    ) -> RowDuals:
        """A new dual point over the rows, optimized by this method."""
        why = self.refusal(method, regularizer)
        if why is not None:
            raise TypeError(refused(method, why))
        if self._rows is None:
            self._rows = self._transformed()
        run = self._score_risk().run
        return row_duals(method, self._rows, C, regularizer, streaming, blocks, run)

    def row_sample(self, C: float, regularizer: SquaredNorm) -> RowSample:
        """See :class:`maxmargin.core.contract.row_duals.RowDualRisk`; refused."""
        raise TypeError(refused("sample", str(self.refusal("sample", regularizer))))

    def _transformed(self) -> Rows:
        risk = self._score_risk()
        rows, offset = risk.rows, risk.rows.offset
        if self.weights.shifts:
            offset = risk.scores(risk.evaluate(self.weights.center.ravel()))
        return replace(
            rows,
            design=stretched(rows.design, self.weights),
            offset=offset,
            relative_error=rows.relative_error + self.weights.relative_error(rows.dim),
        )

    def value(self, w: Array) -> float:
        """See :class:`maxmargin.core.contract.risk.ProvedRisk`."""
        proved = self.inner.offers.proved
        assert proved is not None
        return proved.value(self.weights.whole(w))

    def raised(self, w: Array, value: float, rest: float) -> float:
        """See :class:`maxmargin.core.contract.risk.ProvedRisk`."""
        proved = self.inner.offers.proved
        return value if proved is None else proved.raised(self.weights.whole(w), value, rest)

    def rounding(self, w: Array, value: float) -> float:
        """See :class:`maxmargin.core.contract.risk.ProvedRisk`."""
        proved = self.inner.offers.proved
        return 0.0 if proved is None else proved.rounding(self.weights.whole(w), value)


class StretchedDesign:
    """Rows T'x of a feature matrix outside memory, computed on demand."""

    def __init__(self, design: Any, weights: WeightMap) -> None:
        self.design, self.shape = design, design.shape
        self.nnz = int(design.nnz)
        d = design.shape[1]  # without the constant feature
        self.weights = WeightMap(np.zeros((d, 1)), weights.scale[:d], weights.blocks)

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """See :class:`maxmargin.data.Design`."""
        TW = self.weights.stretch(W.reshape(len(W), -1)).reshape(W.shape)
        scores: Array = self.design.dot(TW, lo, hi)
        return scores

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`maxmargin.data.Design`."""
        plane = np.zeros(out.shape)
        self.design.accumulate(coef, lo, hi, plane)
        out += self.weights.stretch_back(plane.reshape(len(plane), -1)).reshape(out.shape)

    def block(self, lo: int, hi: int) -> Any:
        """See :class:`maxmargin.data.design.BlockDesign`."""
        return stretched(self.design.block(lo, hi), self.weights)


def _work(risk: ScoreRisk, weights: WeightMap) -> RowShape:
    """The shape of the transformed rows, as methods for single rows would use them."""
    n, d = risk.rows.design.shape
    if not weights.blocks:
        return risk.shape
    entries = n * d
    if _sparse_product(risk.rows.design, weights):
        entries = min(entries, risk.shape.nnz * max(len(where) for where, _ in weights.blocks))
    return replace(risk.shape, nnz=int(entries))


def _sparse_product(design: Design, weights: WeightMap) -> bool:
    d = design.shape[1]
    entries = sum(len(where) ** 2 for where, _ in weights.blocks)
    return isinstance(design, CSRDesign) and entries <= SPARSE_BLOCKS * d * d


def stretched(design: Any, weights: WeightMap) -> Any:
    """The rows x transformed to T'x, in float64: a lower precision would change the problem."""
    if not weights.stretches:
        return design
    if not isinstance(design, CSRDesign | DenseDesign):
        return StretchedDesign(design, weights)
    d = design.shape[1]
    scale = weights.scale[:d]
    if not weights.blocks:
        if isinstance(design, CSRDesign):
            data = design.data * scale[design.indices]
            return CSRDesign.of(design.indptr, design.indices, data, design.shape)
        return DenseDesign(design.X * scale)
    if _sparse_product(design, weights):
        return CSRDesign(sp.csr_matrix(_matrix(design) @ _sparse_T(scale, weights)))
    out = np.empty(design.shape)
    X = _matrix(design)
    for lo in range(0, design.shape[0], CHUNK):
        part = X[lo : lo + CHUNK]
        part = part.toarray() if sp.issparse(part) else part
        part = part.astype(np.float64, copy=False)
        out[lo : lo + CHUNK] = part * scale
        for where, T in weights.blocks:
            out[lo : lo + CHUNK, where] = (T.T @ part[:, where].T).T
    return DenseDesign(out)


def _matrix(design: Any) -> Any:
    if isinstance(design, DenseDesign):
        return design.X
    arrays = (design.data, design.indices, design.indptr)
    return sp.csr_matrix(arrays, shape=design.shape, copy=False)


def _sparse_T(scale: Array, weights: WeightMap) -> Any:
    """T as a sparse matrix."""
    diagonal = scale.copy()
    rows, columns, values = [], [], []
    for where, T in weights.blocks:
        diagonal[where] = 0.0
        i, j = np.nonzero(T)
        rows.append(where[i])
        columns.append(where[j])
        values.append(T[i, j])
    some = np.flatnonzero(diagonal)
    rows.append(some)
    columns.append(some)
    values.append(diagonal[some])
    triple = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sp.csr_matrix(triple, shape=(len(scale), len(scale)))
