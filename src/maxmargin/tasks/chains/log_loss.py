"""The log loss of chains, and probabilities of labels and labelings.

The value of an example is log Z - <w, Psi(x, y)>, the negative log probability of its labels. It is smooth
and convex in w. Its cut at w has the plane E Psi(x, z) - Psi(x, y), and its offset is the entropy of the
labelings at w: log Z(v) >= H + <E Psi(x, z), v> for every v. So the dual value of the cut is that of the
marginals at w. See :mod:`maxmargin.compiled.chain_sums` for the sums over labelings.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.chain import Chains
from maxmargin.compiled.chain_sums import gradient_range, log_sums_range, marginals_range
from maxmargin.core.contract.answers import Answers
from maxmargin.core.cut import Cut
from maxmargin.core.rounding import Scale, gamma
from maxmargin.core.vectors import Array, writable
from maxmargin.tasks.chains.examples import ChainExamples, ChainTask, no_labeling, unlabeled
from maxmargin.tasks.chains.log_duals import LogLossDuals

#: maximum number of scores of tokens in memory during a prediction
MAX_SCORES = 8_000_000


class LogSums(NamedTuple):
    """Sums over the labelings of a range of chains: token scores and forward messages (one row per token),
    log Z and the score of the true labeling of each chain, and the size of the terms of both."""

    w: Array
    nodes: Array
    forward: Array
    log_z: Array
    truth: Array
    sizes: Array


def log_sums(chains: Chains, w: Array, lo: int, hi: int) -> LogSums:
    """The forward pass over the chains ``lo .. hi-1``."""
    n_tokens, K = int(chains.starts[hi] - chains.starts[lo]), chains.cost.shape[0]
    per_token, per_chain = (n_tokens, K), hi - lo
    sums = LogSums(
        writable(w),
        np.empty(per_token),
        np.empty(per_token),
        np.empty(per_chain),
        np.empty(per_chain),
        np.empty(per_chain),
    )
    log_sums_range(chains, sums.w, lo, hi, *sums[1:])
    if _has_no_choice(chains.penalty, K):  # the probability of the only labeling is exactly 1
        allowed = sums.truth > -np.inf
        sums.log_z[allowed], sums.sizes[allowed] = sums.truth[allowed], 0.0
    return sums


class LogLossExamples(ChainExamples):
    """Sequences with the log loss. Costs and token weights do not enter it.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks.chains.chain import Chain
    >>> from maxmargin.tasks.chains.log_loss import LogLossExamples
    >>> examples = LogLossExamples.from_stacked(Chain(2, 3), np.eye(3), [1, 2], [0, 1, 1])
    >>> np.exp(-examples.oracle(np.zeros(14), 0, 2).values)  # one of two and one of four labelings
    array([0.5 , 0.25])
    """

    smooth: ClassVar[Literal[True]] = True

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """Negative log probabilities of the labels; ``labelings`` are sums over all labelings."""
        sums = log_sums(self.chains, w, lo, hi)
        values = np.maximum(sums.log_z - sums.truth, 0.0)
        lengths = np.diff(self.chains.starts[lo : hi + 1])
        uppers = values + gamma(int(lengths.max(initial=0))) * sums.sizes
        return Answers(lo, hi, sums, np.zeros(hi - lo), values, uppers)

    def cut(self, answers: Answers, weights: Array) -> Cut:
        """The weighted sum of gradients, with the weighted entropies as the offset."""
        sums: LogSums = answers.labelings
        plane = np.zeros(self.dim)
        size = gradient_range(
            self.chains,
            sums.w,
            answers.lo,
            answers.hi,
            sums.nodes,
            sums.forward,
            sums.log_z,
            writable(weights),
            plane,
        )
        values = float(weights @ answers.values)
        scale = Scale(
            values + float(weights @ sums.sizes), float(size), self.n_tokens(answers.lo, answers.hi)
        )
        return Cut(values - float(plane @ sums.w), plane, scale.of_cut())

    def working_sets(self, caps: Array) -> LogLossDuals:  # type: ignore[override]
        """Distributions over labelings."""
        return LogLossDuals(self.chains, caps, self._mapped is not None)


def marginals_stacked(task: ChainTask, w: Array, X: Any, lengths: npt.ArrayLike) -> Array:
    """The probability of each label at each token, one row per token of a stacked matrix."""
    chains = unlabeled(task, X, lengths)
    out = np.empty((int(chains.starts[-1]), task.n_labels))
    for lo, hi in _ranges(chains):
        sums = _allowed_sums(chains, w, lo, hi)
        own = out[chains.starts[lo] : chains.starts[hi]]
        marginals_range(chains, sums.w, lo, hi, sums.nodes, sums.forward, sums.log_z, own)
    return out


def log_z_stacked(task: ChainTask, w: Array, X: Any, lengths: npt.ArrayLike) -> Array:
    """log Z of each sequence of a stacked matrix."""
    chains = unlabeled(task, X, lengths)
    found = [_allowed_sums(chains, w, lo, hi).log_z for lo, hi in _ranges(chains)]
    return np.concatenate([np.empty(0), *found])


def log_probabilities_stacked(
    task: ChainTask, w: Array, X: Any, lengths: npt.ArrayLike, labels: npt.NDArray[Any]
) -> Array:
    """The log probability of the labels of each sequence of a stacked matrix; -inf if they are forbidden."""
    chains = unlabeled(task, X, lengths)
    chains = chains._replace(truth=labels.astype(chains.truth.dtype))
    found = [_allowed_sums(chains, w, lo, hi) for lo, hi in _ranges(chains)]
    return np.concatenate([np.empty(0), *(np.minimum(s.truth - s.log_z, 0.0) for s in found)])


def _has_no_choice(penalty: Array, K: int) -> bool:
    """Whether there is at most one first label, and at most one after each label."""
    moves, starts = penalty[: K * K].reshape(K, K) == 0.0, penalty[K * K : K * K + K] == 0.0
    return bool(starts.sum() <= 1 and moves.sum(axis=1).max() <= 1)


def _allowed_sums(chains: Chains, w: Array, lo: int, hi: int) -> LogSums:
    sums = log_sums(chains, w, lo, hi)
    stuck = np.flatnonzero(sums.log_z == -np.inf)
    if stuck.size:
        raise no_labeling(chains, lo + int(stuck[0]))
    return sums


def _ranges(chains: Chains) -> list[tuple[int, int]]:
    """As many sequences at a time as MAX_SCORES allows."""
    starts, n, ranges, lo = chains.starts, len(chains.starts) - 1, [], 0
    most = max(1, MAX_SCORES // chains.cost.shape[0])
    while lo < n:
        hi = max(lo + 1, int(np.searchsorted(starts, starts[lo] + most, side="right")) - 1)
        ranges.append((lo, hi))
        lo = hi
    return ranges
