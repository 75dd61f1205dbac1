"""Sampled cuts: the population, the sample, and the condition that it must satisfy.

A cut of R(v) = sum_i R_i(v) is a sum over the examples, offset = sum_i c_i and plane = sum_i g_i. If a
plane is a sum of kernel functions, one per example, it is sampled instead (Yu and Joachims, "Training
structural SVMs with kernels using sampled cuts", KDD 2008):

    plane ~ n / r sum_j g_{S_j}        S a sample of r of the n contributing examples

The expectation of the sampled plane is the exact one. A sampled cut may lie above the risk, so the value of
a bundle of them is *not a lower bound*. By their theorem 1, few cuts suffice if offsets and planes are
bounded, as they are with uniform samples, and

    if the exact cut is violated at the reduced problem's solution, then so is the sampled one,

so samples are drawn until this holds (:func:`violated_sample`).

References:

- C.-N. J. Yu and T. Joachims, "Training structural SVMs with kernels using sampled cuts", KDD 2008:
  algorithms 2 and 3, theorem 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maxmargin.core.bundle import Bundle
from maxmargin.core.vectors import Array, IntArray

#: number of attempts per cut
MAX_DRAWS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """The exact cut at a point, example by example, evaluated at a second point, the ``trial`` w_t."""

    #: the part that is not sampled: the offset, and <plane, w_t> over the free coordinates
    fixed: float
    #: <g_i, w_t> of each example, without free coordinates
    pulls: Array
    #: whether g_i is not zero
    contributes: npt.NDArray[np.bool_]

    @property
    def value(self) -> float:
        """The exact cut at the trial."""
        return self.fixed + float(self.pulls.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A sample of examples without repetitions, and the factor of each."""

    examples: IntArray
    factors: Array


def sample(terms: Terms, size: int, rng: np.random.Generator) -> Draw:
    """Sample ``size`` of the examples that contribute, uniformly; take all if there are no more."""
    among = np.flatnonzero(terms.contributes)
    if len(among) <= size:
        return Draw(among, np.ones(len(among)))
    chosen = np.sort(rng.choice(among, size, replace=False, shuffle=False))
    return Draw(chosen, np.full(size, len(among) / size))


def violated_sample(terms: Terms, size: int, above: float, rng: np.random.Generator) -> Draw:
    """Sample until the sampled cut is above this value at the trial if the exact one is."""
    needed = terms.value > above
    for _ in range(MAX_DRAWS):
        drawn = sample(terms, size, rng)
        value = terms.fixed + float(drawn.factors @ terms.pulls[drawn.examples])
        if not needed or value > above or len(drawn.examples) < size:
            return drawn
    raise ValueError(
        f"the exact cut is {terms.value:.6g} at the reduced problem's solution, so it is violated (above "
        f"{above:.6g}), but none of {MAX_DRAWS} cuts of {size} examples each was; the last one is "
        f"{value:.6g}. Use a larger size, in particular if sample weights are very different."
    )


class SampledBundle(Bundle):
    """A bundle of sampled cuts: its dual value is *not* a lower bound."""

    #: the best value of a reduced problem: not a lower bound
    reduced: float = -float("inf")
