"""The dual of a kernel machine, optimized over blocks of samples.

    maximize  D(beta) = <t, beta> - <width, |beta|> - 1/2 beta' K beta    over  lo <= beta <= hi
                                                                         (and sum beta = 0)

with the targets t, widths and bounds of :mod:`maxmargin.duals.kernels.terms`. f = K beta, and v = t - f is
the gradient without the widths.

start     cluster the samples and solve the dual on each cluster alone; joined, this is a feasible point
blocks    take the samples with the largest duality-gap contributions: with r_i = v_i - b, that of sample i is
          its loss minus beta_i r_i - width_i |beta_i|, and these sum to F - D; then those strictly between
          their bounds. Solve the dual over the block with the others fixed (:mod:`maxmargin.compiled.smo`),
          and update the scores of the others by one product. Kernel values dominate the cost, so a block is
          solved accurately
kinks     of |beta_i| are at zero: solve the block with the signs fixed, give multipliers at zero the sign in
          which they would move, and repeat. The pair that violates optimality most can always move, so the
          dual increases until the block is solved
shrink    once the gap is small, maintain scores for *active* samples only: those with nonzero multiplier, and
          those whose margin a few moves as large as the last one could reach
columns   of samples strictly between their bounds, which move in every block, are cached if that pays
          (:mod:`maxmargin.duals.kernels.rows`)

All this runs in single precision first, and in double precision where that is not enough. D and F from such
scores steer the loop. The reported bounds are computed by :meth:`KernelDual.value` and the risk, in double
precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.smo import pair_steps, single_steps
from maxmargin.core.box_qp import solve_box
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound
from maxmargin.core.vectors import Array, IntArray, frozen
from maxmargin.duals.kernels.rows import KernelColumns
from maxmargin.duals.kernels.terms import KernelTerms
from maxmargin.kernels.clusters import clusters
from maxmargin.kernels.extent import LARGEST
from maxmargin.kernels.functions import FromCallable
from maxmargin.kernels.rounding import UNIT

#: steps per call of compiled code, between which Ctrl-C takes effect; maximum steps per sample of a block
STEPS, EFFORT = 20_000, 50
#: fractions of the memory for a block and for cached columns; the rest is for temporaries
BLOCK_SHARE, HELD_SHARE = 0.3, 0.5
#: cluster size; minimum block size; block size per sample between its bounds; as a fraction of all samples
CLUSTER, LEAST, PER_FREE, SHARE = 4000, 6000, 2.0, 0.125
#: clusters are solved in pieces of about this many kernel values
PIECE = 200_000_000
#: number of features from which on a kernel value costs more than the memory to cache it
HOLD_FROM = 100
#: maximum number of samples for which all multipliers are optimized at once
DIRECT = 1000
#: fraction of the violation at which a block counts as solved
INNER = 0.03
#: with kinks, signs are fixed until the violation is this fraction of what it was
COARSER = 0.1
#: relative gap below which samples are shrunk; how many moves like the last one their margins must withstand
NEAR, MOVES = 0.2, 3.0
#: shrink only if at most this fraction of the active samples remains
WORTH_IT = 0.8


def feasible(beta: Array, lo: Array, hi: Array, balanced: bool) -> Array:
    """The multipliers clipped to their box and, if ``balanced``, with a sum of zero: the difference goes to
    those farthest from their bound."""
    beta = np.clip(beta, lo, hi)
    if not balanced:
        return beta
    rest = math.fsum(beta[beta != 0.0])
    while rest != 0.0:
        room, before = beta - lo if rest > 0.0 else hi - beta, rest
        most = min(16, len(beta))
        for k in np.argpartition(-room, most - 1)[:most]:
            beta[k] = min(max(beta[k] - rest, lo[k]), hi[k])
            rest = math.fsum(beta[beta != 0.0])
            if rest == 0.0:
                break
        if abs(rest) >= abs(before):
            break  # below the rounding of any multiplier
    return beta


@dataclass(frozen=True, slots=True, eq=False)
class KernelDual:
    """Feasible multipliers that do not change any more."""

    risk: Any
    beta: Array
    terms: KernelTerms

    def value(self, regularizer: SquaredNorm, dim: int, attained: UpperBound) -> float:
        """D(beta) in double precision, minus a bound on the rounding error."""
        value = float(self.beta @ (self.terms.target - 0.5 * self.risk.values(self.beta)))
        value -= float(self.terms.width @ np.abs(self.beta))
        linear = (len(self.beta) + 1) * UNIT * self.terms.sizes(self.beta)
        return value - float(self.risk.rounding.of_norm(self.beta)) - linear


class KernelDuals:
    """Multipliers of the samples and their scores; see
    :class:`maxmargin.core.contract.block_duals.BlockDuals`."""

    def __init__(self, risk: Any, C: float) -> None:
        self.risk, self.C = risk, C
        n = self.n_examples = risk.n_examples
        self._terms = risk.terms.times(C)
        self._lo, self._hi = self._terms.lo, self._terms.hi
        # multipliers and their scores are always replaced together
        self._now = (np.zeros(n), np.zeros(n))
        self._move = np.inf
        self._rng = np.random.default_rng(0)
        self.n_rows = 0
        self.steps = 0
        #: returns whether the time limit is reached; the driver sets it
        self.late: Callable[[], bool] = lambda: False
        self._hold = isinstance(risk.kernel, FromCallable) or risk.X.shape[1] >= HOLD_FROM
        self._open(risk.dtype)
        self._start = self._clusters() if n > min(self._most, LEAST) else None

    def _open(self, dtype: npt.DTypeLike) -> None:
        memory = self.risk.memory
        self.dtype = np.dtype(dtype)
        self._columns = KernelColumns(self.risk, int(HELD_SHARE * memory), dtype)
        share = BLOCK_SHARE if self._hold else BLOCK_SHARE + HELD_SHARE
        self._most = max(64, int(np.sqrt(share * memory / self.dtype.itemsize)))

    # -- the interface of the solver's loop --------------------------------------------------------

    @property
    def whole(self) -> bool:
        """Whether the scores of all samples are up to date."""
        return bool(self.n_active == self.n_examples)

    @property
    def n_active(self) -> int:
        """Number of samples whose scores are maintained."""
        return len(self._columns.active)

    @property
    def n_support(self) -> int:
        """Number of samples with a nonzero multiplier."""
        return int(np.count_nonzero(self._now[0]))

    def bounds(self) -> tuple[float, float, float]:
        """(F, D, b) at the current point, from the current scores. F covers the active samples only; the
        others are expected to have no loss."""
        active = self._columns.active
        (beta, f), terms = (a[active] for a in self._now), self._terms.take(active)
        square, v = float(beta @ f), terms.target - f
        b = terms.best_intercept(v) if self.risk.fit_intercept else 0.0
        loss = float(terms.slope(v - b) @ np.maximum(0.0, terms.short(v - b)))
        return 0.5 * square + loss, terms.linear(beta) - 0.5 * square, b

    def kept(self, b: float) -> tuple[Array, KernelDual]:
        """The current point w, and its multipliers as a dual point."""
        beta = frozen(feasible(self._now[0], self._lo, self._hi, self.risk.fit_intercept))
        w = frozen(np.append(beta, b)) if self.risk.fit_intercept else beta
        return w, KernelDual(self.risk, beta, self._terms)

    def load(self, beta: Array) -> None:
        """Start from these multipliers, projected to the feasible set."""
        beta = feasible(beta, self._lo, self._hi, self.risk.fit_intercept)
        self._now, self._start = (beta, self._scores(beta)), None

    def refresh(self, sharper: bool) -> None:
        """Make all samples active, with scores in double precision. ``sharper``: keep double precision."""
        beta = feasible(self._now[0], self._lo, self._hi, self.risk.fit_intercept)
        f = np.array(self.risk.values(beta))
        if sharper and self.dtype == np.float32:
            self._open(np.float64)
        else:
            self._columns.follow(np.arange(self.n_examples), np.zeros(self.n_examples, dtype=bool))
        # the next block is of all samples: without those just shrunk it could be the last one again
        self._now, self._move = (beta, f), np.inf

    def solve_directly(self) -> bool:
        """Optimize all multipliers at once by :func:`maxmargin.core.box_qp.solve_box`. Return False if
        there are too many samples or no improvement."""
        terms, kinked = self._terms, bool(self._terms.kinked.any())
        if self.n_examples > (DIRECT // 2 if kinked else DIRECT):
            return False
        self.refresh(sharper=True)  # so that the bounds before and after are of all samples
        kept = np.flatnonzero(self._hi > self._lo)
        packed = self.risk.rows(kept, np.float64)
        K = np.asarray(packed.block(packed), dtype=np.float64)
        self.risk.kernel_values += K.size
        K, t, lo, hi = 0.5 * (K + K.T), terms.target[kept], self._lo[kept], self._hi[kept]
        if kinked:  # positive and negative parts
            width, none = terms.width[kept], np.zeros(len(kept))
            K, t = np.tile(K, (2, 2)), np.concatenate([t - width, t + width])
            lo, hi = np.concatenate([none, lo]), np.concatenate([hi, none])
        found = solve_box(K, t, lo, hi, self.risk.fit_intercept) if len(kept) else None
        if found is None:
            return False
        if kinked:
            found = found[: len(kept)] + found[len(kept) :]
        beta, before = np.zeros(self.n_examples), self._now
        beta[kept] = found
        beta = feasible(beta, self._lo, self._hi, self.risk.fit_intercept)
        F, D, _ = self.bounds()
        self._now, self._start = (beta, np.array(self.risk.values(beta))), None
        better_F, better_D, _ = self.bounds()
        if better_F - better_D < F - D:
            return True
        self._now = before
        return False

    def improve(self, seed: int) -> SweepStats:
        """Solve one piece of the start, or one block."""
        if self._start is not None:
            if next(self._start, None) is not None:
                return SweepStats(0, np.inf, 0)
            self._start = None
        F, D, b = self.bounds()
        self._shrink(NEAR * abs(F) >= F - D, b)
        rows = self._choose(b)
        if not len(rows):
            return SweepStats(0, F - D, 0)
        beta, f = self._now
        # pairs use differences of v only; subtracting b keeps more digits of values near b
        part, v = beta[rows], (self._terms.target - f)[rows] - b
        self._solve(self._columns.block(rows), rows, part, v, INNER * self._violation)
        changed = part != beta[rows]
        moved = beta.copy()
        moved[rows] = part
        scores = self._moved(moved, rows[changed], (part - beta[rows])[changed], rows)
        scores[rows] = self._terms.target[rows] - (v + b)
        self._now = (moved, scores)
        return SweepStats(self.n_active, F - D, int(changed.sum()))

    # -- the start ---------------------------------------------------------------------------------

    def _clusters(self) -> Iterator[int]:
        """Solve the dual on each cluster alone, a few clusters at a time."""
        n = self.n_examples
        beta, work = np.zeros(n), 0
        for rows in self._parted(np.arange(n)):
            packed = self.risk.rows(rows)
            K = packed.block(packed)
            self.risk.kernel_values += K.size
            part, v = np.zeros(len(rows)), self._terms.target[rows]
            tol = 2.0 * INNER
            if self._terms.two_sided:
                if self.risk.fit_intercept:
                    v -= self._terms.take(rows).best_intercept(v)
                tol *= float(np.abs(v).mean())
            self._solve(K, rows, part, v, tol)
            beta[rows], work = part, work + K.size
            if self.late():
                break  # the clusters so far are a feasible point, too
            if work > PIECE:
                work = 0
                yield 0
        support = np.flatnonzero(beta)
        self._now = (beta, self._moved(beta, support, beta[support], support[:0]))

    # -- blocks ------------------------------------------------------------------------------------

    def _solve(self, K: Any, rows: IntArray, beta: Array, v: Array, tol: float) -> None:
        """Solve the dual over these samples with the others fixed; update ``beta`` and the gradient ``v``."""
        terms, balanced = self._terms.take(rows), self.risk.fit_intercept
        top = float(np.diagonal(K).max(initial=0.0))
        # rescale to fit single precision, which the compiled code uses in places
        unit = math.ldexp(1.0, math.frexp(top)[1]) if LARGEST < top < np.inf else 1.0
        if unit != 1.0:
            K /= unit
            beta *= unit
            terms = terms.times(unit)
        steps = pair_steps if balanced else single_steps
        diagonal = np.ascontiguousarray(np.diagonal(K), dtype=np.float32)
        floor = 4.0 * float(np.finfo(K.dtype).eps) * max(float(np.abs(diagonal).max()), 1e-30)
        left, b, kinked = EFFORT * len(rows), 0.0, bool(terms.kinked.any())
        while left > 0:
            lo, hi, goal = terms.lo, terms.hi, tol
            if kinked:
                shift, lo, hi = terms.orthant(beta, v - b)
                goal = max(tol, COARSER * terms.violation(beta, v, balanced)[0])
                v -= shift
            done, violation = steps(K, diagonal, beta, lo, hi, v, floor, goal, min(STEPS, left))
            self.steps += done
            left -= done
            if kinked:
                v += shift
                violation, b = terms.violation(beta, v, balanced)
            if done < (1 if kinked else STEPS) or violation <= tol or self.late():
                break
        beta /= unit

    def _moved(self, beta: Array, rows: IntArray, change: Array, known: IntArray) -> Array:
        """The scores after the multipliers of some rows changed to ``beta``; arbitrary for ``known`` rows."""
        if len(known) == self.n_active and not self._hold:
            # all scores are known, and no columns are cached
            self._move = 0.0
            return self._now[1].copy()
        worth = self._free(beta) if self._hold else np.zeros(self.n_examples, dtype=bool)
        difference = self._columns.times(rows, change, worth, known)
        self._move = float(np.abs(difference).max(initial=0.0))
        f = self._now[1].copy()
        f[self._columns.active] += difference
        return f

    def _free(self, beta: Array) -> Any:
        """Which multipliers are strictly between their bounds."""
        return self._terms.free(beta)

    def _scores(self, beta: Array) -> Array:
        support = np.flatnonzero(beta)
        scores: Array = self.risk.products(self.risk.rows(support, self.dtype), beta[support])
        return scores

    def _shrink(self, near: bool, b: float) -> None:
        """Shrink: drop samples with zero multiplier whose margin is unlikely to be reached."""
        if not near:
            return
        active, (beta, f) = self._columns.active, self._now
        terms = self._terms.take(active)
        short = terms.short(terms.target - f[active] - b)
        stay = active[(beta[active] != 0.0) | (short > -MOVES * self._move)]
        if len(stay) <= WORTH_IT * len(active):
            self._columns.follow(stay, self._free(beta))

    def _choose(self, b: float) -> IntArray:
        """The active samples with the largest gap contributions, then those between their bounds."""
        active = self._columns.active
        (beta, f), terms = (a[active] for a in self._now), self._terms.take(active)
        r = terms.target - f - b
        self._violation, _ = terms.violation(beta, r, self.risk.fit_intercept)
        if not self._violation > 0.0:
            return active[:0]
        lost = terms.slope(r) * np.maximum(0.0, terms.short(r))
        lack = lost - beta * r + terms.width * np.abs(beta)
        free = terms.free(beta)
        lack[free] += 1e-9 * terms.slope(0.0)[free]
        n_free = int(np.count_nonzero(free))
        size = min(self._most, int(max(LEAST, PER_FREE * n_free, SHARE * self.n_examples)))
        chosen = np.flatnonzero(lack > 0.0)
        if len(active) <= min(size, LEAST):
            chosen = np.arange(len(active))
        elif len(chosen) > size:
            chosen = self._of_clusters(chosen, lack, size)
        self.n_rows = len(chosen)
        return active[chosen]

    def _of_clusters(self, rows: IntArray, lack: Array, size: int) -> IntArray:
        """Choose as many of these samples as a block holds: whole clusters, those with the largest gap
        contributions first. (The single samples with the largest contributions would all move on behalf of
        those left out, and too far. With the same clusters every time, their boundaries would not move.)"""
        parts = self._parted(self._columns.active[rows])
        number = np.empty(self.n_examples, dtype=np.int64)
        for k, part in enumerate(parts):
            number[part] = k
        label = number[self._columns.active[rows]]
        order = np.argsort(-np.bincount(label, weights=lack[rows]), kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        sequence = np.lexsort((-lack[rows], rank[label]))
        return np.sort(rows[sequence[:size]])

    def _parted(self, rows: IntArray) -> list[IntArray]:
        """The samples in newly computed clusters."""
        largest = min(CLUSTER, self._most)
        if isinstance(self.risk.kernel, FromCallable):  # inputs may be arbitrary objects
            parts = np.array_split(self._rng.permutation(rows), math.ceil(len(rows) / largest))
            return [np.sort(part) for part in parts]
        return [np.sort(part) for part in clusters(self.risk.X, rows, largest, self._rng)]
