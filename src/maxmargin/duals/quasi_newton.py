"""L-BFGS with a spectral metric: smooth losses of one or many scores per sample, on dense rows.

    minimize  F(W) = 1/2 |W|^2 + sum_i c_i l(W x_i, y_i)

W has one row per score. The metric of L-BFGS is I + h_k lambda_j in the eigenvectors of the weighted mean of
x x', with its eigenvalues lambda and the second derivatives h_k of the loss with respect to a shift of score
k, which every pass over the rows gives for nothing. The metric is applied to W, so that the rows are neither
rotated nor copied: they are read in blocks that fit in a cache, in their own type, twice per pass (scores and
gradient). There is no array of samples x classes. If a number that is added to all scores does not change the
loss, the rows of W sum to zero at the optimum, and so do those of all steps.

Lower bound: the tangent plane of the loss at W, a cut, gives the dual value F(W) - 1/2 |grad F(W)|^2. While
steps are taken it is known in the type of the rows, and correct up to rounding. What :meth:`proved_value`
returns is computed in double precision (:mod:`maxmargin.duals.tangent`), and the rounding errors of that are
subtracted.

An unpenalized intercept b costs the bound |dF/db| times the largest possible |b|, which is small only long
after the minimum is known well enough. So when the rest of the gap allows to end, Newton steps in the
intercepts alone make dF/db nearly zero; the last one is in double precision. In the metric, they stand for
the scores of the mean row, which makes them independent of W, on average.

For few rows the calls of a pass take longer than its arithmetic. Then several steps are taken at once, or
Newton steps instead, where :mod:`maxmargin.duals.exact_steps` says so.

Where single precision limits the progress, blocks of them are converted to double precision one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound
from maxmargin.core.stored_values import floats, number
from maxmargin.core.vectors import Array
from maxmargin.data.design import DenseDesign, DenseRows
from maxmargin.duals.exact_steps import ExactSteps, pays
from maxmargin.duals.row_blocks import Run, in_order
from maxmargin.duals.rows import Rows, same_shape
from maxmargin.duals.tangent import Tangent, blocks

#: entries and rows of a block, which stays in the cache; pairs that L-BFGS keeps
ENTRIES, BLOCK, MEMORY = 2**17, (256, 4096), 10
#: parts of a pass that may be computed at the same time, and the blocks from which there are so many
PARTS, MANY = 4, 16
#: the most features; and the most features squared per row and score for which eigenvectors are worth it
MOST_FEATURES, WORTH = 3000, 32
#: rows per feature from which the eigenvectors are computed
SPECTRUM = 8
#: rows on which the first step is chosen, and the powers of two that are tried
SAMPLE, TRIALS = 2048, 2.0 ** np.arange(-3, 6)
#: relative noise of F in single precision, and the decrease that a step must have
NOISE, ARMIJO, SHORTEST = 1e-6, 1e-4, 1e-6
#: steps in a row without progress after which the type of the rows is given up
PATIENCE = 5
#: entries of all scores and rows up to which several steps are taken at once, how many, and the relative gap
#: below which it is one
FEW, AT_ONCE, NEAR = 2**17, 3, 3e-3
#: the part of the allowed gap that the weights may have before the intercepts are minimized alone
SURE = 0.6
#: how much further than the last step in log C the next point of a path is extrapolated
LONGEST = 1.5
#: the relative gap at which Newton steps end, and how much less it is in the next call
ENOUGH, LESS = 9e-4, 1e-4

#: weights and gradients in the type of the rows
Weights = npt.NDArray[Any]
Block = tuple[Weights, Weights, Weights, Weights | None]


def too_wide(rows: Rows) -> bool:
    """Whether the eigenvectors take longer than a fit without them."""
    d = rows.dim // rows.n_columns
    return d > MOST_FEATURES or (d > 64 and d * d > WORTH * rows.n * rows.n_columns)


class QuasiNewton:
    """A point and its gradient; see :class:`maxmargin.core.RowDuals`. The multipliers are the slopes of the
    losses at the point with the best lower bound."""

    n_steps = 1

    def __init__(self, rows: Rows, C: float, regularizer: SquaredNorm, run: Run = in_order) -> None:
        terms = rows.loss.column_terms()
        design = rows.design
        assert isinstance(design, DenseRows)
        assert terms is not None
        self.rows, self.C, self.regularizer, self._terms = rows, C, regularizer, terms
        self._K, self._run = rows.n_columns, run
        self._design, self._d = design, design.shape[1]
        self._height = min(BLOCK[1], max(BLOCK[0], ENTRIES // max(1, self._d)))
        self._spans = blocks(rows, self._height)
        self.n_examples = self.n_active = rows.n
        self.n_support = 0
        penalty = np.ones(rows.dim)
        penalty[regularizer.free] = 0.0
        self._penalty = self._unflat(penalty)
        self._type: Any = design.dtype
        self._exact: ExactSteps | None = None
        if isinstance(design, DenseDesign) and pays(rows, terms):
            self._exact = ExactSteps(rows, terms, self._penalty, design.X)
            self._type = np.dtype(np.float64)
        self._enough = ENOUGH
        few = rows.n * (self._penalty.shape[1] + self._K) <= FEW
        self._at_once = AT_ONCE if few else 1
        self._spectrum: tuple[Weights, Weights] | None = None
        #: the mean row over the entry of the intercepts, if they are not penalized
        self._mean: Weights | None = None
        last = not self._penalty[:, self._d :].any() and self._penalty[:, : self._d].all()
        self._free = rows.intercept != 0.0 and last
        #: the gap at which the fit ends
        self.goal = 0.0
        self._tangent: Tangent | None = None
        #: the solution at the last C of a path, and this C
        self._before: tuple[float, Weights] | None = None
        self._set(np.zeros_like(self._penalty))

    # -- the point -----------------------------------------------------------------------------------------

    def _unflat(self, w: Array) -> Array:
        """One row per score."""
        return np.ascontiguousarray(w.reshape(-1, self._K).T)

    @property
    def w(self) -> Array:
        """The point. A common part of free intercepts, which is arbitrary, is removed."""
        W = self._W.T.astype(np.float64)
        if self._free and self._terms.shift_invariant:
            W[-1] -= W[-1].mean()
        return W.ravel()

    @property
    def easy_C(self) -> float:
        """See :class:`maxmargin.core.RowDuals`; not used by this method."""
        return 1.0

    def _set(self, W: Array) -> None:
        """Start at this point, without pairs."""
        self._pairs: list[tuple[Weights, Weights, float]] = []
        self._idle = 0
        self._cast(W)
        self._begin()

    def _begin(self) -> None:
        """Forget all bounds, and compute those of W, unless Newton steps from there come first."""
        self._best, self._lower, self._tangent = self._W, 0.0, None
        self._upper = np.inf
        if self._exact is None:
            self._evaluate()

    def _cast(self, W: Weights) -> None:
        """Use the present type."""
        self._W = W.astype(self._type)
        self._P = self._penalty.astype(self._type)

    def _evaluate(self) -> None:
        """Loss, gradient and bounds at W."""
        if self._exact is not None:
            self._evaluate_exactly()
            return
        self._loss, self._slopes, self._h = self._pass(self._W)
        self._update()

    def _evaluate_exactly(self) -> None:
        """The bounds alone, from the tangent in double precision."""
        tangent, w = self._tangent_at(self._W), self.w
        risk = tangent.cut.offset + float(np.vdot(np.asarray(tangent.cut.plane), w))
        self._upper = self.regularizer.value(w) + self.C * risk
        lower = tangent.value(self.regularizer, self.C)
        if lower > self._lower or self._tangent is None:
            self._lower, self._best, self._tangent = lower, self._W, tangent

    def _update(self) -> None:
        penalized = self._P * self._W
        self._upper = 0.5 * float(np.vdot(penalized, self._W)) + self._loss
        self._G = penalized + self._slopes
        inside = self._P * self._G
        free = float(np.abs(self._G - inside).sum(dtype=np.float64)) * self.regularizer.free_bound
        lower = self._upper - 0.5 * float(np.vdot(inside, inside)) - free
        if lower > self._lower:
            self._lower, self._best, self._tangent = lower, self._W, None

    # -- passes over the rows ------------------------------------------------------------------------------

    def _blocks(self, spans: list[tuple[int, int]], kind: Any) -> Iterator[Block]:
        """Rows, labels, weights times C, and offsets of one block after the other."""
        rows = self.rows
        scratch = np.empty((self._height, self._d), kind)
        for lo, hi in spans:
            y, c = np.asarray(rows.y[lo:hi]), self.C * rows.weight[lo:hi]
            yield (
                self._design.entries(slice(lo, hi), kind, scratch),
                y if y.dtype.kind in "iu" else y.astype(kind),
                c.astype(kind, copy=False),
                None if rows.offset is None else rows.offset[lo:hi].reshape(hi - lo, -1).T,
            )

    def _scores(self, X: Weights, W: Weights, offset: Weights | None) -> Weights:
        d = X.shape[1]
        s: Weights = np.matmul(W[:, :d], X.T) if W.any() else np.zeros((len(W), len(X)), W.dtype)
        if self.rows.intercept != 0.0:
            s += W[:, d:] * W.dtype.type(self.rows.intercept)
        if offset is not None:
            s += offset
        return s

    def _pass(self, W: Weights) -> tuple[float, Weights, Weights]:
        """The loss, its gradient, and the second derivatives h. Parts of many blocks may be summed at the
        same time; they do not depend on the number of workers."""
        n = len(self._spans)
        count = PARTS if n >= MANY else 1
        sums: list[Any] = [None] * count

        def work(k: int) -> None:
            sums[k] = self._sum(W, self._spans[k * n // count : (k + 1) * n // count])

        self._run(work, count)
        total, G, h = sums[0]
        for more, others, curved in sums[1:]:
            total, G, h = total + more, np.add(G, others, out=G), h + curved
        return total, G, h

    def _sum(self, W: Weights, spans: list[tuple[int, int]]) -> tuple[float, Weights, Weights]:
        d, total = self._d, 0.0
        G, h = np.zeros_like(W), np.zeros(self._K)
        for X, y, c, offset in self._blocks(spans, self._type):
            s = self._scores(X, W, offset)
            loss, curved = self._terms.fill(s, y, c)
            total += loss
            h += curved
            G[:, :d] += s @ X
            if self.rows.intercept != 0.0:
                G[:, d] += W.dtype.type(self.rows.intercept) * s.sum(axis=1)
        return total, G, h

    def _eigen(self) -> tuple[Weights, Weights]:
        """Eigenvalues and eigenvectors of the weighted mean of x x', over some rows if there are many; around
        the mean row if intercepts are not penalized."""
        if self._spectrum is None:
            rows, kind = self.rows, self._type
            here = np.concatenate([np.arange(lo, hi) for lo, hi in rows.ranges])
            here = here[:: max(1, len(here) // (SPECTRUM * self._W.shape[1]))]
            X = np.empty((len(here), self._W.shape[1]), kind)
            X[:, : self._d] = self._design.entries(here, kind)
            X[:, self._d :] = rows.intercept
            c = np.asarray(rows.weight[:])[here]
            c = (c / max(float(c.sum()), 1e-300)).astype(kind)
            if self._free:
                X = X[:, : self._d]
                self._mean = c @ X / kind.type(rows.intercept)
                X -= c @ X
            lengths, vectors = np.linalg.eigh((X * c[:, None]).T @ X)
            self._spectrum = np.maximum(lengths, 0.0), vectors
        return self._spectrum

    # -- steps ---------------------------------------------------------------------------------------------

    def improve(self, seed: int) -> SweepStats:
        """A step, or a few; ``stats.gap_estimate`` is F - D, or infinite if steps no longer help."""
        before, single, moved = self._upper, self._type == np.float32, True
        if self._exact is not None:
            self._W = self._W.copy()
            self._exact.take(self._W, self.C, self._enough)
            self._enough *= LESS
            self._evaluate()
        else:
            for _ in range(self._at_once):
                moved = self._step()
                if not moved or self._upper - self._lower < NEAR * self._upper:
                    break
            if self._free and self._upper - self._lower > self.goal:
                self._free_intercepts()
        self._idle = 0 if self._upper < before else self._idle + 1
        noise = NOISE * abs(self._upper) if single else 0.0
        gap, stuck = self._upper - self._lower, not moved or self._idle >= PATIENCE
        if single and (stuck or gap < 4.0 * noise):
            self._refine()
            gap, noise, stuck = self._upper - self._lower, 0.0, False
        return SweepStats(self.n_examples, float("inf") if stuck else gap + noise, 0)

    def _free_intercepts(self) -> None:
        """Minimize over the intercepts alone, and prove a bound, if the rest of the gap allows to end."""
        self._eigen()
        rest = self._G[:, : self._d] - self._G[:, self._d :] * self._mean
        if 0.5 * float(np.vdot(rest, rest)) > SURE * self.goal:
            return
        W, F = self._W, self._upper
        self._W = self._newton(W)
        self._evaluate()
        if not self._upper <= F + NOISE * abs(F):
            self._W = W
            self._evaluate()
            return
        inside = self._P * self._G
        if 0.5 * float(np.vdot(inside, inside)) <= self.goal:
            before = self._best, self._lower, self._tangent
            self._best, self._tangent = self._newton(self._W), None
            self._lower = self._proof().value(self.regularizer, self.C)
            if self._upper - self._lower > self.goal:
                self._best, self._lower, self._tangent = before

    def _newton(self, W: Weights) -> Weights:
        """W after a Newton step in the intercepts alone, in its type; a pass without the gradient of W."""
        K, r = self._K, np.zeros(self._K)
        H = np.zeros((K, K))
        for X, y, c, offset in self._blocks(self._spans, W.dtype):
            s = self._scores(X, W, offset)
            _, h = self._terms.fill(s, y, c)
            r += s.sum(axis=1)
            H += self._terms.second(s, y, c, h)
        size = max(float(np.trace(H)) / K, 1e-300)
        H.flat[:: K + 1] += 1e-9 * size
        if self._terms.shift_invariant:
            H += size / K
        step = np.linalg.solve(H, r / self.rows.intercept)
        if not np.isfinite(step).all():  # no curvature is left at these scores
            return W
        W = W.copy()
        W[:, self._d] -= step
        return W

    def _refine(self) -> None:
        """Go on in double precision."""
        self._type = np.dtype(np.float64)
        self._pairs = [(s.astype(self._type), v.astype(self._type), r) for s, v, r in self._pairs]
        if self._spectrum is not None:
            values, vectors = self._spectrum
            self._spectrum = values.astype(self._type), vectors.astype(self._type)
            self._mean = None if self._mean is None else self._mean.astype(self._type)
        self._idle, self._lower = 0, 0.0
        self._cast(self._W)
        self._evaluate()

    def _direction(self) -> Weights:
        """The L-BFGS step, to be subtracted."""
        values, U = self._eigen()
        D = 1.0 / (1.0 + self._h[:, None] * values)
        h = np.maximum(self._h, 1e-9 * self._h.max()).astype(self._type)
        D, mean, d = D.astype(self._type), self._mean, self._d

        def metric(A: Weights) -> Weights:
            out = np.empty_like(A)
            if mean is None:
                np.matmul((A @ U) * D, U.T, out=out)
            else:  # the intercepts of rows around their mean, and back
                out[:, :d] = (((A[:, :d] - A[:, d:] * mean) @ U) * D) @ U.T
                out[:, d] = A[:, d] / (self.rows.intercept**2 * h) - out[:, :d] @ mean
            return out - out.mean(axis=0) if self._terms.shift_invariant else out

        V, steps = self._G.copy(), []
        for s, v, r in reversed(self._pairs):
            steps.append(float(np.vdot(s, V)) * r)
            V -= v * self._type.type(steps[-1])
        V = metric(V)
        if self._pairs:
            s, v, r = self._pairs[-1]
            V *= self._type.type(1.0 / (r * float(np.vdot(v, metric(v)))))
        for (s, v, r), a in zip(self._pairs, reversed(steps), strict=True):
            V += s * self._type.type(a - float(np.vdot(v, V)) * r)
        return V

    def _step(self) -> bool:
        """Move W; whether F decreased."""
        V = self._direction()
        slope = -float(np.vdot(self._G, V))
        if not slope < 0.0:
            if not self._pairs:
                return False
            self._pairs = []
            return self._step()
        W, F, G = self._W, self._upper, self._G
        length = 1.0 if self._pairs else self._first_length(V)
        allowed = (NOISE if self._type == np.float32 else 1e-15) * abs(F)
        while True:  # nearly always one trial
            self._W = W - self._type.type(length) * V
            self._evaluate()
            if self._upper <= F + ARMIJO * length * slope + allowed:
                break
            curved = 2.0 * (self._upper - F - slope * length)
            length = max(0.1 * length, min(0.5 * length, -slope * length * length / curved))
            if not length > SHORTEST:
                self._W = W
                self._evaluate()
                return False
        s, v = self._W - W, self._G - G
        product = float(np.vdot(s, v))
        if product > 0.0:
            self._pairs = [*self._pairs, (s, v, 1.0 / product)][-MEMORY:]
        return True

    def _first_length(self, V: Weights) -> float:
        """The best power of two along -V on some of the rows: at the start the metric may be far off."""
        rows = self.rows
        here = np.concatenate([np.arange(lo, hi) for lo, hi in rows.ranges])
        here = here[:: max(1, len(here) // SAMPLE)]
        X = self._design.entries(here, self._type)
        y = np.asarray(rows.y[:])[here]
        y = y if y.dtype.kind in "iu" else y.astype(self._type)
        c = np.asarray(rows.weight[:])[here] * (self.C * rows.n / len(here))
        offset = None if rows.offset is None else rows.offset[here].reshape(len(here), -1).T
        s, t = self._scores(X, self._W, offset), self._scores(X, V, None)
        values = []
        for length in TRIALS:
            step = self._type.type(length)
            W = self._W - step * V
            loss, _ = self._terms.fill(s - step * t, y, c.astype(self._type))
            values.append(0.5 * float(np.vdot(self._P * W, W)) + loss)
        return float(TRIALS[int(np.argmin(values))])

    # -- bounds --------------------------------------------------------------------------------------------

    def dual_estimate(self, C: float) -> float:
        """The best lower bound so far, in the type of the rows."""
        return self._lower if C == self.C else 0.0

    def dual_value(self, C: float) -> float:
        """The same in double precision, from the weights alone."""
        self._lower = self._proof().value(self.regularizer, C)
        if self._type == np.float32 and not self._lower > 0.0:
            self._refine()
        return self._lower

    def proved_value(self, C: float, attained: UpperBound) -> float:
        """The same minus a bound on the rounding error."""
        omega = self.regularizer.near(attained.upper)
        return self._proof().proved(self.rows, omega, C, attained.negligible)

    def aggregate(self) -> Cut:
        """The cut of the risk at the point with the best lower bound, in double precision."""
        return self._proof().cut

    def _proof(self) -> Tangent:
        if self._tangent is None:
            self._tangent = self._tangent_at(self._best)
        return self._tangent

    def _tangent_at(self, W: Weights) -> Tangent:
        W = W.astype(np.float64)
        if self._free and self._exact is None:
            W = self._newton(W)
        return Tangent.at(self.rows, np.ascontiguousarray(W.T), self._height)

    # -- other points --------------------------------------------------------------------------------------

    def check(self, scores: Array) -> None:
        """See :class:`maxmargin.core.RowDuals`: there is nothing to select."""

    @property
    def multipliers(self) -> Array:
        """Minus C times the slopes of the losses at the point with the best lower bound."""
        rows, w = self.rows, self._best.T.astype(np.float64)
        d = self._d
        s = rows.design.dot(np.ascontiguousarray(w[:d]), 0, rows.design.shape[0])
        s += rows.intercept * w[-1] if rows.intercept != 0.0 else 0.0
        s = s.reshape(-1) if rows.loss.n_outputs() is None else s
        s += 0.0 if rows.offset is None else rows.offset
        inside = np.zeros(len(s))
        for lo, hi in rows.ranges:
            inside[lo:hi] = rows.weight[lo:hi]
        out: Array = -self.C * rows.loss.cut(s, rows.y[:], inside)[1]
        return out

    def load(self, multipliers: Array) -> None:
        """Start from the point of these multipliers."""
        self.start_at(self.regularizer.penalized(self.rows.accumulate(multipliers)), 1.0)

    def start_at(self, w: Array, gap: float) -> None:
        """Start at the point of another method."""
        W = self._unflat(w)
        self._set(W - W.mean(axis=0) if self._terms.shift_invariant else W)

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Convert to another C: the loss and its slopes are proportional to it, and pairs are changed so.

        On a path, continue on the line in log C through the last two solutions, if that is the better start.
        """
        t = C / self.C
        secant = self._secant(C)
        self._before = self.C, self._W
        kind = self._type.type
        self.C, self.regularizer = C, regularizer
        if self._exact is not None:
            self._enough = ENOUGH
            self._W = self._W if secant is None else secant
            self._begin()
            return
        self._loss, self._slopes, self._h = t * self._loss, kind(t) * self._slopes, t * self._h
        pairs = [(s, self._P * s + kind(t) * (v - self._P * s)) for s, v, _ in self._pairs]
        self._pairs = [(s, v, 1.0 / float(np.vdot(s, v))) for s, v in pairs]
        self._best, self._lower, self._tangent = self._W, 0.0, None
        self._update()
        if secant is not None:
            W, F, self._W = self._W, self._upper, secant.astype(self._type)
            self._evaluate()
            if not self._upper < F:
                self._W = W
                self._evaluate()

    def _secant(self, C: float) -> Weights | None:
        """The point for C on the line in log C through the last two solutions."""
        if self._before is None or not self._before[0] < self.C < C:
            return None
        before, W = self._before
        further = min(LONGEST, log(C / self.C) / log(self.C / before))
        out: Weights = self._W + further * (self._W - W)
        return out

    def state(self) -> dict[str, Any]:
        """See :class:`maxmargin.core.RowDuals`."""
        shape = (len(self._pairs), *self._W.shape)
        s, v = (np.array([p[k] for p in self._pairs], np.float64).reshape(shape) for k in (0, 1))
        W, best = self._W.astype(np.float64), self._best.astype(np.float64)
        return {
            "enough": self._enough,
            "w": W,
            "best": best,
            "s": s,
            "v": v,
            "double": bool(self._type == np.float64),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.RowDuals`: everything else follows from these."""
        if state["double"]:
            self._type = np.dtype(np.float64)
        self._enough = number(state["enough"], "the tolerance of steps")
        W, best = same_shape(state["w"], self._penalty), same_shape(state["best"], self._penalty)
        s, v = (floats(state[k], "pairs of weights", (None, *W.shape)) for k in ("s", "v"))
        self._set(best)
        if self._exact is not None:
            self._evaluate()
        self._cast(W)
        self._evaluate()
        pairs = [(a.astype(self._type), b.astype(self._type)) for a, b in zip(s, v, strict=True)]
        self._pairs = [(a, b, 1.0 / float(np.vdot(a, b))) for a, b in pairs]
