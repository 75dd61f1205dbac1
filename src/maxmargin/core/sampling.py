"""Sampled cuts: the population, the samplers, and the conditions every sample must satisfy.

A cut of R(v) = sum_i R_i(v) is a sum over the examples, offset = sum_i c_i and plane = sum_i g_i. If a
plane is a sum of kernel functions, one per example, it is sampled instead (Yu and Joachims):

    plane ~ sum_j f_j g_{S_j}        S a sample of the contributing examples, f_j their factors

With factors that compensate for the examples left out (f = n / r for r of n, sampled uniformly), the
expectation of the sampled plane is the exact one. A sampled cut may lie above the risk, so the value of a
bundle of them is *not a lower bound*. Their theorem 1, that few cuts suffice, holds for every sampler whose
cuts satisfy

    (i)    0 <= offset <= ceiling         no cut has an offset above the ceiling
    (ii)   |plane| <= radius              no cut has a plane longer than the radius
    (iii)  if the exact cut is violated at the reduced problem's solution, then so is the sampled one

All samples are checked for these conditions. Hoeffding's inequality bounds how far above the risk a sampled
cut may be at the optimum v*: see :func:`excess_bound`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.vectors import Array, IntArray

#: number of attempts per cut before condition (iii) is reported as failed
MAX_DRAWS = 200
#: tolerance of the conditions for rounding
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """The exact cut at a point, example by example, evaluated at a second point, the ``trial`` w_t.

    Its value there is ``fixed + sum(pulls)``.
    """

    #: the part that is not sampled: the offset, and <plane, w_t> over the free coordinates
    fixed: float
    #: <g_i, w_t> of each example, without free coordinates
    pulls: Array
    #: |g_i| of each example, or an upper bound; zero if an example does not contribute
    sizes: Array
    #: R_i at the point where the cut is tight: the example's loss there
    losses: Array
    #: the offset alone
    offset: float
    #: upper bound of the offset of any cut
    ceiling: float
    #: upper bound of the norm of any plane
    radius: float
    #: value of the exact cut at the trial if it is not the sum (when the change of a sampled plane is
    #: sampled)
    exact: float | None = None
    #: error bound of the plane that is changed: see :func:`spread_of`
    spread: float = 0.0
    #: number of examples that may be sampled in any case, because many were sampled before
    allowance: int = 0

    @property
    def expected(self) -> float:
        """The expectation of the sampled cut at the trial."""
        return self.fixed + float(self.pulls.sum())

    @property
    def value(self) -> float:
        """The exact cut at the trial."""
        return self.expected if self.exact is None else self.exact


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A sample of examples, possibly with repetitions, and the factor of each.

    ``spread`` bounds the error of the sampled plane: sqrt(sum_j u_j^2), where u_j is the largest
    ``f_j |g_i|`` that the j-th draw *could* have had, including draws that contribute nothing. It must not
    depend on the outcome. A sampler that does not set it has no bound.
    """

    examples: IntArray
    factors: Array
    spread: float = float("inf")


@runtime_checkable
class Sampler(Protocol):
    """Samples the examples of a cut. A small frozen dataclass is enough.

    The theorem on the quality of the result (:func:`excess_bound`) requires draws that are independent, or
    without replacement, in which the expected sum of an example's factors is one. It also needs ``spread``.
    """

    def draw(self, terms: Terms, size: int, rng: np.random.Generator) -> Draw:
        """Sample at most about ``size`` of the examples of a cut."""


def _some(among: IntArray, size: int, terms: Terms, rng: np.random.Generator) -> Draw:
    """Sample ``size`` of these without replacement; take all of them, exactly, if there are no more."""
    if len(among) <= size:
        return Draw(among, np.ones(len(among)), 0.0)
    chosen = np.sort(rng.choice(among, size, replace=False, shuffle=False))
    spread = float(terms.sizes.max(initial=0.0)) * len(among) / np.sqrt(size)
    return Draw(chosen, np.full(size, len(among) / size), spread)


@dataclass(frozen=True, slots=True)
class NonZeroLoss:
    """Sample uniformly among the examples that contribute to the cut, as in the papers.

    Sampling is without replacement, so that a sample of all of them gives the exact cut.

    Examples
    --------
    >>> from maxmargin.solvers import NonZeroLoss, SampledCuts
    >>> SampledCuts(size=100, sampler=NonZeroLoss()).size
    100
    """

    def draw(self, terms: Terms, size: int, rng: np.random.Generator) -> Draw:
        """See :class:`Sampler`."""
        return _some(np.flatnonzero(terms.sizes), size, terms, rng)


@dataclass(frozen=True, slots=True)
class UniformSample:
    """Sample uniformly among all examples. Those that do not contribute cost nothing and are dropped.

    Examples
    --------
    >>> from maxmargin.solvers import SampledCuts, UniformSample
    >>> SampledCuts(sampler=UniformSample()).sampler
    UniformSample()
    """

    def draw(self, terms: Terms, size: int, rng: np.random.Generator) -> Draw:
        """See :class:`Sampler`."""
        drawn = _some(np.arange(len(terms.sizes)), size, terms, rng)
        there = terms.sizes[drawn.examples] > 0.0
        return Draw(drawn.examples[there], drawn.factors[there], drawn.spread)


@dataclass(frozen=True, slots=True)
class ByMargin:
    """Sample at different rates near the margin, where examples end as free support vectors, and far inside
    it, where they end at their bound.

    Parameters
    ----------
    free_share : float, default 0.5
        Fraction of the sample taken from examples near the margin.
    width : float, default 0.5
        Examples whose loss is at most this multiple of the mean loss in the cut count as near the margin.

    Examples
    --------
    >>> from maxmargin.solvers import ByMargin, SampledCuts
    >>> SampledCuts(sampler=ByMargin(free_share=0.7)).sampler
    ByMargin(free_share=0.7, width=0.5)
    """

    free_share: float = 0.5
    width: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.free_share < 1.0:
            raise ValueError(f"free_share={self.free_share!r}: it must be in (0, 1).")
        if not self.width > 0.0:
            raise ValueError(f"width={self.width!r}: it must be positive.")

    def draw(self, terms: Terms, size: int, rng: np.random.Generator) -> Draw:
        """See :class:`Sampler`."""
        there = np.flatnonzero(terms.sizes)
        if len(there) <= size or size == 1:  # no need to split
            return _some(there, size, terms, rng)
        losses = terms.losses[there]
        near = losses <= self.width * losses.mean()
        n_free = int(np.clip(round(self.free_share * size), 1, size - 1))
        n_free = max(n_free, size - int((~near).sum()))  # use the quota the other group cannot fill
        parts = [_some(there[near], n_free, terms, rng)]
        parts.append(_some(there[~near], size - len(parts[0].examples), terms, rng))
        return Draw(
            np.concatenate([p.examples for p in parts]),
            np.concatenate([p.factors for p in parts]),
            float(np.hypot(parts[0].spread, parts[1].spread)),
        )


@dataclass(slots=True)
class SamplingRecord:
    """Statistics of the sampling, as :func:`excess_bound` needs them."""

    #: number of all draws, including rejected ones
    n_draws: int = 0
    #: the largest value of :func:`spread_of`
    spread: float = 0.0
    #: the largest square root of sum_j (f_j max_i s_i Delta_i)^2 if offsets are sampled, too; otherwise zero
    offset_spread: float = 0.0
    #: the best value of a reduced problem: not a lower bound
    reduced: float = -float("inf")

    def count(self, draw: Draw, terms: Terms) -> None:
        """Record one draw."""
        self.n_draws += 1
        self.spread = max(self.spread, spread_of(draw, terms))


def is_whole(draw: Draw, terms: Terms) -> bool:
    """Whether the sample has every contributing example exactly once with factor 1: then it is exact."""
    there = np.count_nonzero(terms.sizes)
    once = len(draw.examples) == there and bool((draw.factors == 1.0).all())
    return once and np.array_equal(np.sort(draw.examples), np.flatnonzero(terms.sizes))


def spread_of(draw: Draw, terms: Terms) -> float:
    """The spread for Hoeffding's inequality: that of the draw, or 0 if it is exact. If a sampled plane is
    changed, the plane's own spread is added."""
    return terms.spread if is_whole(draw, terms) else terms.spread + draw.spread


class SampledBundle(Bundle):
    """A bundle of sampled cuts: its dual value is *not* a lower bound."""

    record: SamplingRecord


def excess_bound(
    record: SamplingRecord,
    objective: float,
    C: float,
    delta: float,
    *,
    free_norm: float = 0.0,
    choices: int = 1,
) -> float:
    """A bound on F(w) - F* that holds with probability 1 - delta, given the measured F(w).

    This is theorem 2 of Yu and Joachims for risks that are sums, with quantities known after the fit in place
    of those known before it. Let D be the value of the reduced problem over the sampled cuts, v* the optimum,
    and gamma how much one of these cuts lies above its exact one at v*. Then D <= F(v*) + C gamma.
    Hoeffding's inequality bounds gamma for one draw: it is at least ``|v*| spread sqrt(2 log(1/p))`` with
    probability at most p. With p = delta / (m (m + 1)) for the m-th draw, including rejected ones, this holds
    for all draws together, whichever were accepted and however many there were. Finally, ``1/2 |v*|^2 <= F*
    <= F(w)``. So

        F(w) - F*  <=  max(0, F(w) - D) + C sqrt(2 F(w)) spread sqrt(2 log(N (N + 1) / delta)).

    The papers' form, for n examples of weight one, R the largest ``|g_i|`` and C' = C n, has spread <= n R /
    sqrt(r), F(w) <= C' Delta, and 8 C' Delta R^2 / epsilon^2 in place of N (N + 1); both are no smaller.
    ``free_norm`` bounds the free coordinates of v* if they are sampled, too; they and the offsets increase
    the bound on a term (theorem 3). If the point of a cut depends on earlier samples, ``choices`` is the
    number of cuts that could have been sampled instead, and p is divided by it. Infinite if a sampler sets no
    spread.
    """
    if record.n_draws == 0 or np.isnan(objective):
        return float("nan")
    if record.spread == np.inf:
        return float("inf")
    log = np.log(choices * record.n_draws * (record.n_draws + 1.0) / delta)
    length = np.sqrt(2.0 * max(0.0, objective)) + free_norm
    spread = length * record.spread + 0.5 * record.offset_spread
    gamma = float(spread * np.sqrt(2.0 * log))
    return max(0.0, objective - record.reduced) + C * gamma


def checked_draw(
    draw: Callable[[], Draw], terms: Terms, above: float, record: SamplingRecord
) -> Draw:
    """Sample until condition (iii) holds: the sampled cut is above this value at the trial if the exact one
    is. An empty sample is accepted only from samplers that set ``spread``."""
    if not terms.sizes.any():  # nothing to draw from
        return Draw(np.empty(0, dtype=np.int64), np.empty(0))
    needed = terms.value > above
    value, some = -np.inf, False
    for _ in range(MAX_DRAWS):
        drawn = draw()
        _check_form(drawn, len(terms.sizes))
        record.count(drawn, terms)
        if drawn.spread == np.inf and not (drawn.factors @ terms.sizes[drawn.examples]) > 0.0:
            continue
        some = True
        value = terms.fixed + float(drawn.factors @ terms.pulls[drawn.examples])
        if not needed or value > above:
            return drawn
    if not some:
        raise ValueError(
            f"a sampler drew nothing, {MAX_DRAWS} times: it must choose among the "
            f"{np.count_nonzero(terms.sizes)} examples with terms.sizes > 0, with factors > 0."
        )
    raise ValueError(
        f"condition (iii) fails: the exact cut is {terms.value:.6g} at the reduced problem's solution, so it "
        f"is violated (above {above:.6g}), but none of {MAX_DRAWS} sampled cuts was; the last one is "
        f"{value:.6g}. The sampler must be able to choose the examples with the largest losses, with factors "
        "that compensate for those left out."
    )


def _check_form(draw: Draw, n: int) -> None:
    if not isinstance(draw, Draw):
        raise TypeError(
            f"a sampler's draw(terms, size, rng) returned {type(draw).__name__}: it must return "
            "maxmargin.core.Draw(examples, factors, spread)."
        )
    if not (isinstance(draw.examples, np.ndarray) and isinstance(draw.factors, np.ndarray)):
        raise TypeError("a sampler's examples and factors must be NumPy arrays.")
    if not draw.spread >= 0.0:
        raise ValueError(f"a sampler's spread is {draw.spread!r}: it must not be negative.")
    examples, factors = draw.examples, draw.factors
    if examples.ndim != 1 or examples.shape != factors.shape:
        raise ValueError(
            f"a sampler drew examples of shape {examples.shape} and factors of shape {factors.shape}: there "
            "must be one factor for each example."
        )
    if not np.issubdtype(examples.dtype, np.integer):
        raise ValueError(
            f"a sampler drew examples of type {examples.dtype}: they must be integer indices."
        )
    if len(examples) and not 0 <= examples.min() <= examples.max() < n:
        raise ValueError(f"a sampler drew an example outside 0 .. {n - 1}.")
    if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
        raise ValueError("a sampler's factors must be finite and nonnegative.")


def too_long(length: float, terms: Terms) -> bool:
    """Whether a sampled plane of this norm violates condition (ii)."""
    return length > (1.0 + ROUNDING) * terms.radius


def check_cut(offset: float, length: float, terms: Terms) -> None:
    """Check conditions (i) and (ii) for a sampled cut."""
    if not -ROUNDING * terms.ceiling <= offset <= (1.0 + ROUNDING) * terms.ceiling:
        raise ValueError(
            f"condition (i) fails: the sampled cut's offset {offset:.6g} is not between 0 and "
            f"{terms.ceiling:.6g}, the largest loss of any labeling of all examples. Are the sampler's "
            "factors too large?"
        )
    if too_long(length, terms):
        raise ValueError(
            f"condition (ii) fails: the sampled plane's norm {length:.6g} is above {terms.radius:.6g}, that "
            "of the longest plane of all examples. Are the sampler's factors too large?"
        )
