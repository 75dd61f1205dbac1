"""Cuts made of few examples: what is drawn from, who draws, and what every draw must satisfy.

A cut of R(v) = sum_i R_i(v) is a sum over the examples, offset = sum_i c_i and plane = sum_i g_i. Where a
plane is a sum of kernel functions, one for each example in it, it is drawn instead (Yu and Joachims):

    plane ~ sum_j f_j g_{S_j}        S a few of the examples that add something, f_j their factors

With factors that make up for those left out (f = n / r for r of n, drawn with equal chances) the expectation
of the drawn plane is the exact one. A drawn cut may lie above the risk, so what a bundle of them says is *no
lower bound*. Their theorem 1, that few cuts suffice, holds for every sampler whose cuts satisfy

    (i)    0 <= offset <= ceiling         no offset of any cut is larger than the ceiling
    (ii)   |plane| <= radius              no plane of any cut is longer than the radius
    (iii)  if the exact cut is violated at the reduced problem's solution, then so is the drawn one

Draws are checked for that, whoever drew. How far above the risk a drawn cut may be at the optimum v* is
bounded by Hoeffding's inequality: see :func:`excess_bound`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.vectors import Array, IntArray

#: draws of one cut after which condition (iii) is out of reach
MAX_DRAWS = 200
#: rounding that the conditions forgive
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """The exact cut at a point, example by example, as seen from a second one, the ``trial`` w_t.

    Its value there is ``fixed + sum(pulls)``.
    """

    #: what is never drawn: the offset, and the part of the plane in free coordinates times those of w_t
    fixed: float
    #: <g_i, w_t> of each example, without free coordinates
    pulls: Array
    #: |g_i| of each example, or a bound of it: zero where an example adds nothing
    sizes: Array
    #: R_i at the point where the cut is tight: what an example loses there
    losses: Array
    #: the offset alone
    offset: float
    #: no offset of any cut is larger
    ceiling: float
    #: no plane of any cut is longer
    radius: float
    #: the exact cut at the trial, where it is not the sum: if what is drawn is the change of a drawn plane
    exact: float | None = None
    #: by how much the plane that is changed may be off: see :func:`spread_of`
    spread: float = 0.0
    #: how many examples may be drawn without further thought, because many were drawn before
    allowance: int = 0

    @property
    def expected(self) -> float:
        """The expectation of the drawn cut at the trial."""
        return self.fixed + float(self.pulls.sum())

    @property
    def value(self) -> float:
        """The exact cut at the trial."""
        return self.expected if self.exact is None else self.exact


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Examples, of which some may come several times, and the factor of each.

    ``spread`` bounds by how much the drawn plane may be off: sqrt(sum_j u_j^2), where u_j is the largest
    ``f_j |g_i|`` that the j-th of the draws, those that add nothing included, *could* have had. It must not
    depend on what was drawn. A sampler that does not say has no bound.
    """

    examples: IntArray
    factors: Array
    spread: float = float("inf")


@runtime_checkable
class Sampler(Protocol):
    """Draws the examples of a cut. A small frozen dataclass will do.

    The theorem on the quality of the result (:func:`excess_bound`) needs independent draws, or such without
    replacement, in which the expected sum of an example's factors is one, and their ``spread``.
    """

    def draw(self, terms: Terms, size: int, rng: np.random.Generator) -> Draw:
        """At most about ``size`` of the examples of a cut."""


def _some(among: IntArray, size: int, terms: Terms, rng: np.random.Generator) -> Draw:
    """So many of these, without replacement; all, exactly, where there are no more."""
    if len(among) <= size:
        return Draw(among, np.ones(len(among)), 0.0)
    chosen = np.sort(rng.choice(among, size, replace=False, shuffle=False))
    spread = float(terms.sizes.max(initial=0.0)) * len(among) / np.sqrt(size)
    return Draw(chosen, np.full(size, len(among) / size), spread)


@dataclass(frozen=True, slots=True)
class NonZeroLoss:
    """Examples that add something to the cut, all with the same chance: the papers' choice.

    Without replacement, so that a sample as large as all of them gives the exact cut.

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
    """Any examples, all with the same chance. Those that add nothing cost nothing, and teach nothing.

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
    """Different rates for examples near the margin, which end as free support vectors, and far inside it,
    which end at their bound.

    Parameters
    ----------
    free_share : float, default 0.5
        The part of the sample that is drawn among examples near the margin.
    width : float, default 0.5
        How much of a loss is near, relative to the mean loss of the examples in the cut.

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
        if len(there) <= size or size == 1:  # nothing to divide
            return _some(there, size, terms, rng)
        losses = terms.losses[there]
        near = losses <= self.width * losses.mean()
        n_free = int(np.clip(round(self.free_share * size), 1, size - 1))
        n_free = max(n_free, size - int((~near).sum()))  # what one group does not need
        parts = [_some(there[near], n_free, terms, rng)]
        parts.append(_some(there[~near], size - len(parts[0].examples), terms, rng))
        return Draw(
            np.concatenate([p.examples for p in parts]),
            np.concatenate([p.factors for p in parts]),
            float(np.hypot(parts[0].spread, parts[1].spread)),
        )


@dataclass(slots=True)
class SamplingRecord:
    """What happened: enough for :func:`excess_bound`."""

    #: all draws, those that were not taken included
    n_draws: int = 0
    #: the largest of :func:`spread_of`
    spread: float = 0.0
    #: the largest square root of sum_j (f_j max_i s_i Delta_i)^2, where offsets are drawn too; else zero
    offset_spread: float = 0.0
    #: the best value of a reduced problem: no lower bound of anything
    reduced: float = -float("inf")

    def count(self, draw: Draw, terms: Terms) -> None:
        """One more draw."""
        self.n_draws += 1
        self.spread = max(self.spread, spread_of(draw, terms))


def is_whole(draw: Draw, terms: Terms) -> bool:
    """Whether every example is in the draw as often as it should be: then nothing was left to chance."""
    there = np.count_nonzero(terms.sizes)
    once = len(draw.examples) == there and bool((draw.factors == 1.0).all())
    return once and np.array_equal(np.sort(draw.examples), np.flatnonzero(terms.sizes))


def spread_of(draw: Draw, terms: Terms) -> float:
    """What Hoeffding's inequality takes: the draw's own, if it is not whole. Where a drawn plane is changed,
    that of the plane comes on top."""
    return terms.spread if is_whole(draw, terms) else terms.spread + draw.spread


class SampledBundle(Bundle):
    """A bundle whose cuts were drawn: its dual value is *not* a lower bound."""

    record: SamplingRecord


def excess_bound(
    record: SamplingRecord,
    objective: float,
    C: float,
    delta: float,
    *,
    reach: float = 0.0,
    choices: int = 1,
) -> float:
    """A bound of F(w) - F* that holds with probability 1 - delta, given the measured F(w).

    Theorem 2 of Yu and Joachims, in the sum form and with what a fit knows at its end in place of what is
    known before it. With D the value of the reduced problem over the drawn cuts, v* the optimum and gamma by
    how much one of these cuts lies above its exact one at v*, D <= F(v*) + C gamma. Hoeffding's inequality
    bounds gamma for one draw: it is at least ``|v*| spread sqrt(2 log(1/p))`` with probability p only.
    With p = delta / (m (m + 1)) for the m-th draw, those rejected included, this holds for all draws
    together, whichever were taken and however many there were. Last, ``1/2 |v*|^2 <= F* <= F(w)``. So

        F(w) - F*  <=  max(0, F(w) - D) + C sqrt(2 F(w)) spread sqrt(2 log(N (N + 1) / delta)).

    The papers' own form, for n examples of weight one, R the largest ``|g_i|`` and C' = C n: spread <= n R /
    sqrt(r), F(w) <= C' Delta and N (N + 1) replaced by 8 C' Delta R^2 / epsilon^2; both are no smaller.
    ``reach`` bounds the free coordinates of v* where they are drawn too; offsets and they add to what a term
    may be (theorem 3). Where the point of a cut depends on what was drawn, ``choices`` is the number of cuts
    that could have been drawn from instead: p is divided by it. Infinite where a sampler has no spread.
    """
    if record.n_draws == 0 or np.isnan(objective):
        return float("nan")
    if record.spread == np.inf:
        return float("inf")
    log = np.log(choices * record.n_draws * (record.n_draws + 1.0) / delta)
    length = np.sqrt(2.0 * max(0.0, objective)) + reach
    spread = length * record.spread + 0.5 * record.offset_spread
    gamma = float(spread * np.sqrt(2.0 * log))
    return max(0.0, objective - record.reduced) + C * gamma


def checked_draw(
    draw: Callable[[], Draw], terms: Terms, above: float, record: SamplingRecord
) -> Draw:
    """Draw until condition (iii) holds: the drawn cut is above this value at the trial, if the exact one
    is. A draw of nothing is taken from samplers only that know what it does to the bound."""
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
            f"a sampler drew nothing, {MAX_DRAWS} times: no example with terms.sizes > 0, of which there are "
            f"{np.count_nonzero(terms.sizes)}, and a factor > 0. Draw among these."
        )
    raise ValueError(
        f"condition (iii) fails: the exact cut is {terms.value:.6g} at the reduced problem's solution, so it "
        f"is violated (above {above:.6g}), but none of {MAX_DRAWS} drawn cuts was; the last one is "
        f"{value:.6g}. The sampler must be able to draw examples that lose most, with factors that make up "
        "for those left out."
    )


def _check_form(draw: Draw, n: int) -> None:
    if not isinstance(draw, Draw):
        raise TypeError(
            f"a sampler's draw(terms, size, rng) gave {type(draw).__name__}: it must return "
            "maxmargin.core.Draw(examples, factors, spread)."
        )
    if not (isinstance(draw.examples, np.ndarray) and isinstance(draw.factors, np.ndarray)):
        raise TypeError("a sampler's examples and factors must be NumPy arrays.")
    if not draw.spread >= 0.0:
        raise ValueError(f"a sampler's spread is {draw.spread!r}: it must not be negative.")
    examples, factors = draw.examples, draw.factors
    if examples.ndim != 1 or examples.shape != factors.shape:
        raise ValueError(
            f"a sampler drew examples of shape {examples.shape} and factors of shape {factors.shape}: one "
            "factor for each example is needed."
        )
    if not np.issubdtype(examples.dtype, np.integer):
        raise ValueError(
            f"a sampler drew examples of type {examples.dtype}: numbers of examples are needed."
        )
    if len(examples) and not 0 <= examples.min() <= examples.max() < n:
        raise ValueError(f"a sampler drew an example that is none of 0 .. {n - 1}.")
    if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
        raise ValueError("a sampler's factors must be finite and not negative.")


def too_long(length: float, terms: Terms) -> bool:
    """Whether a drawn plane of this length fails condition (ii)."""
    return length > (1.0 + ROUNDING) * terms.radius


def check_cut(offset: float, length: float, terms: Terms) -> None:
    """Conditions (i) and (ii) for a cut that was drawn."""
    if not -ROUNDING * terms.ceiling <= offset <= (1.0 + ROUNDING) * terms.ceiling:
        raise ValueError(
            f"condition (i) fails: the drawn cut's offset {offset:.6g} is not between 0 and "
            f"{terms.ceiling:.6g}, the most that any labelling of all examples costs. Are the sampler's "
            "factors too large?"
        )
    if too_long(length, terms):
        raise ValueError(
            f"condition (ii) fails: the drawn plane's length {length:.6g} is above {terms.radius:.6g}, that "
            "of the longest plane of all examples. Are the sampler's factors too large?"
        )
