"""The dual variables of chains with the log loss: a distribution over the labelings of each example.

See :mod:`maxmargin.compiled.chain_entropy` for the mathematics. The distributions take the place of working
sets, so the loop is that of :class:`maxmargin.solvers.DualCoordinate`: a pass takes one step per example, and
there is nothing to cache between two passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.compiled.chain import Chains
from maxmargin.compiled.chain_entropy import Duals, ascent_sweep, dual_weights, refresh
from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.multiplier_sets import CenteredDuals
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.rounding import gamma
from maxmargin.core.stored_values import entries, floats
from maxmargin.core.vectors import Array, IntArray
from maxmargin.files.scratch import scratch_zeros

#: bytes of the scores and sums of transitions, beyond which neighboring examples share them
MEMORY = 2**29
#: score of the true label at the beginning: nearly all probability is at the true labelings, so w is nearly 0
FIRST_SCORE = 10.0
#: first step sizes
FIRST_ETA = 0.5


class LogLossDuals(CenteredDuals):
    """Distributions over the labelings of all examples (``core.WorkingSets``).

    Parameters
    ----------
    chains : Chains
        The packed examples.
    caps : (n,) array
        c_i = C s_i of each example.
    on_disk : bool, default False
        Whether distributions are in temporary files.
    """

    batch_size = 1
    n_planes = 0

    def __init__(self, chains: Chains, caps: Array, on_disk: bool = False) -> None:
        zeros: Any = scratch_zeros if on_disk else np.zeros
        n, K, tail = len(chains.starts) - 1, chains.cost.shape[0], len(chains.penalty)
        n_tokens, n_blocks = int(chains.starts[-1]), max(1, min(n, MEMORY // (16 * tail)))
        first = np.array([round(g * n / n_blocks) for g in range(n_blocks + 1)], dtype=np.int64)
        self._chains = chains
        self._w = np.zeros(chains.n_features * K + tail)
        self._duals = Duals(
            first=first,
            caps=np.array(caps, dtype=np.float64),
            theta=zeros((n_tokens, K)),
            tails=np.zeros((n_blocks, tail)),
            mu=zeros((n_tokens, K)),
            sums=np.zeros((n_blocks, tail)),
            entropy=np.zeros(n_blocks),
            size=np.zeros(n_blocks),
            eta=np.full(n_blocks, FIRST_ETA),
            gaps=np.zeros(n_blocks),
        )
        # the larger the change of scores that a probability brings about, the smaller it must be
        reach = np.log1p(np.repeat(caps, np.diff(chains.starts)) * _squares(chains))
        self._duals.theta[np.arange(n_tokens), chains.truth] = FIRST_SCORE + reach
        self.rescale(caps)

    @property
    def n_examples(self) -> int:
        return len(self._duals.caps)

    @property
    def n_support(self) -> int:
        return int(np.count_nonzero(self._duals.caps))

    @property
    def gaps(self) -> Array:
        sizes = np.diff(self._duals.first)
        return np.repeat(self._duals.gaps / np.maximum(sizes, 1), sizes)

    def stream(self, order: IntArray, skip_below: float) -> SweepStats:
        blocks = np.searchsorted(self._duals.first, order, side="right") - 1
        if len(self._duals.gaps) < self.n_examples:
            blocks = blocks[np.sort(np.unique(blocks, return_index=True)[1])]
        visited, gap = ascent_sweep(self._chains, self._duals, self._w, blocks, skip_below)
        return SweepStats(oracle_calls=visited, gap_estimate=gap, new_planes=0)

    def epoch(self, order: IntArray) -> SweepStats:
        return SweepStats(oracle_calls=0, gap_estimate=0.0, new_planes=0)

    def begin(self, order: IntArray, skip_below: float) -> IntArray:
        raise ValueError(
            "with the log loss, examples are visited one at a time: use solver='auto', or DualCoordinate() "
            "without batch_size, oracle and schedule."
        )

    def absorb(self, answers: Sequence[Answers]) -> SweepStats:
        raise NotImplementedError  # begin has refused

    def confirm(self, answers: Sequence[Answers]) -> tuple[float, float]:
        caps = self._duals.caps
        values = [caps[part.lo : part.hi] * part.values for part in answers]
        uppers = [caps[part.lo : part.hi] * part.uppers for part in answers]
        return math.fsum(np.concatenate(values)), math.fsum(np.concatenate(uppers))

    def drop_idle(self, age: int) -> None:
        """Do nothing: there are no planes."""

    def _restart(self) -> float:
        duals, n_tokens = self._duals, int(self._chains.starts[-1])
        size = dual_weights(self._chains, duals, self._w)
        square = float(self._w @ self._w)
        longest = int(np.diff(self._chains.starts).max(initial=0))
        # first order, as in core.rounding: entropies, weights, and the square
        lost = gamma(longest) * math.fsum(duals.size) + gamma(self._w.size) * square
        lost += gamma(n_tokens) * size * math.sqrt(square)
        if self._center is not None:  # the product with it, too
            lost += gamma(self._w.size) * math.sqrt(float(self._center @ self._center) * square)
        return math.fsum(duals.entropy) - 0.5 * square - lost

    def rescale(self, caps: Array) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        duals = self._duals
        duals.caps[:] = caps
        some = np.add.reduceat(duals.caps, duals.first[:-1]) > 0.0
        duals.gaps[:] = np.where(some, np.inf, 0.0)
        self._recompute()

    def state(self) -> dict[str, Any]:
        """Scores, from which all else follows, and step sizes."""
        duals = self._duals
        names = ("caps", "theta", "tails", "eta", "gaps")
        return {name: getattr(duals, name).copy() for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`maxmargin.core.WorkingSets`."""
        names = ("theta", "tails", "eta", "gaps")
        for name, value in zip(names, entries(state, *names), strict=True):
            own = getattr(self._duals, name)
            own[:] = floats(value, f"the {name} of chains", own.shape, finite=name != "gaps")
        self._recompute()

    def _recompute(self) -> None:
        refresh(self._chains, self._duals)
        self.dual_value()


def _squares(chains: Chains) -> Array:
    """|x|^2 of the features of each token."""
    ends = np.concatenate([[0.0], np.cumsum(np.square(chains.data, dtype=np.float64))])
    return np.diff(ends[chains.indptr])
