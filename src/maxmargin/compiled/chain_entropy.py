"""Dual coordinate ascent for the log loss of chains, in the parameters of exponential families.

    maximize   D(mu) = sum_i c_i H(mu_i) - 1/2 |w|^2,      w = sum_i c_i (Psi(x_i, y_i) - E_mu_i Psi(x_i, z))

Each mu_i is a distribution over the labelings of example i, H its entropy. It is given by scores theta_i, as
mu_i(z) ~ exp <theta_i, parts of z>: a score for each token and label, and for transitions, start and stop.
The block step of Collins et al. (2008, exponentiated gradient) moves them toward the scores at w:

    theta_i  <-  (1 - eta) theta_i + eta scores(w)

With eta = 1, mu_i becomes the distribution of the model. Forward-backward gives the marginals, from which the
changes of H and w follow. If D fell, the step is undone and eta_i is halved, otherwise eta_i grows a little.
The duality-gap contribution of an example is c_i KL(mu_i, model); KL(mu_i, new mu_i) / eta^2 estimates it.

Transitions have the same scores at all tokens, so theta_i has K^2 + 2 K numbers besides the T K of tokens.
Where those are too many for memory, neighboring examples share them: a *block* of examples takes one step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.compiled.chain import Chains, FloatArray, IntArray, emissions, parts
from maxmargin.compiled.chain_sums import (
    Backward,
    Moves,
    add_expected_token,
    backward_sums,
    forward_sums,
    new_backward,
    new_moves,
    set_moves,
    subtract_path,
)
from maxmargin.compiled.jit import entry, leaf

#: growth of eta after a step that raised D, and the smallest eta that is tried
GROWTH, SMALLEST = 1.1, 1e-6


class Duals(NamedTuple):
    """The dual point. Block g has the chains ``first[g] .. first[g+1]-1``; ``caps`` are c_i of chains.

    ``theta`` (tokens x K) and ``tails`` (blocks x tail) are scores; ``mu`` and ``sums`` the marginals of
    tokens and the expected tails that they define, ``sums`` weighted by c_i; ``entropy`` and ``size`` the
    weighted entropies of blocks and the sizes of their terms.
    """

    first: IntArray
    caps: FloatArray
    theta: FloatArray
    tails: FloatArray
    mu: FloatArray
    sums: FloatArray
    entropy: FloatArray
    size: FloatArray
    eta: FloatArray
    gaps: FloatArray


class Trial(NamedTuple):
    """A new dual point of one block: scores and marginals of its tokens, and its tail; with scratch."""

    scores: FloatArray
    theta: FloatArray
    mu: FloatArray
    tail: FloatArray
    sums: FloatArray
    messages: FloatArray
    row: FloatArray
    moves: Moves
    backward: Backward


@leaf
def new_trial(chains: Chains, first: IntArray) -> Any:
    """Room for the largest block."""
    K, most = chains.cost.shape[0], 0
    for g in range(first.size - 1):
        most = max(most, chains.starts[first[g + 1]] - chains.starts[first[g]])
    wide = np.empty((4, most, K))
    tail, sums = np.empty(chains.penalty.size), np.empty(chains.penalty.size)
    return Trial(
        wide[0], wide[1], wide[2], tail, sums, wide[3], np.empty(K), new_moves(K), new_backward(K)
    )


@leaf
def distribution(chains: Chains, lo: int, hi: int, caps: FloatArray, trial: Trial) -> Any:
    """Marginals and sums of the scores of a trial, for the chains ``lo .. hi-1``.

    Returns the weighted log Z, the weighted entropy, and the size of its terms.
    """
    base, K = chains.starts[lo], trial.row.size
    total, entropy, size = 0.0, 0.0, 0.0
    set_moves(trial.tail, chains.penalty, trial.moves)
    for k in range(trial.sums.size):
        trial.sums[k] = 0.0
    for i in range(lo, hi):
        first, last, c = chains.starts[i] - base, chains.starts[i + 1] - base, caps[i]
        if first == last or c == 0.0:
            continue
        nodes, mu, a = trial.theta[first:last], trial.mu[first:last], trial.messages[first:last]
        log_z = forward_sums(nodes, trial.moves, a, trial.row)
        backward_sums(nodes, trial.moves, a, log_z, trial.backward, mu, c, trial.sums)
        linear, terms = 0.0, 0.0
        for t in range(last - first):
            for s in range(K):
                linear += mu[t, s] * nodes[t, s]
                terms += mu[t, s] * abs(nodes[t, s])
        total += c * log_z
        entropy += c * (log_z - linear)
        size += c * (abs(log_z) + terms)
    for k in range(trial.sums.size):
        entropy -= trial.sums[k] * trial.tail[k]
        size += trial.sums[k] * abs(trial.tail[k])
    return total, max(entropy, 0.0), size


@leaf
def divergence(
    chains: Chains, lo: int, hi: int, duals: Duals, g: int, trial: Trial, total: float
) -> Any:
    """sum_i c_i KL(mu_i, mu_i of the trial)."""
    base, K = chains.starts[lo], trial.row.size
    out = total - duals.entropy[g]
    for i in range(lo, hi):
        linear = 0.0
        if duals.caps[i] > 0.0:
            for t in range(chains.starts[i], chains.starts[i + 1]):
                for s in range(K):
                    linear += duals.mu[t, s] * trial.theta[t - base, s]
        out -= duals.caps[i] * linear
    for k in range(trial.sums.size):
        out -= duals.sums[g, k] * trial.tail[k]
    return max(out, 0.0)


@leaf
def exchange(
    chains: Chains,
    lo: int,
    hi: int,
    duals: Duals,
    g: int,
    trial: Trial,
    W: FloatArray,
    tail: FloatArray,
    sign: float,
) -> Any:
    """Move w from the block's marginals to those of the trial (``sign = 1``) or back (-1).

    Returns the change of |w|^2.
    """
    base, K = chains.starts[lo], trial.row.size
    change, step = 0.0, trial.row
    for i in range(lo, hi):
        c = sign * duals.caps[i]
        if c == 0.0:
            continue
        for t in range(chains.starts[i], chains.starts[i + 1]):
            for s in range(K):
                step[s] = c * (duals.mu[t, s] - trial.mu[t - base, s])
            for k in range(chains.indptr[t], chains.indptr[t + 1]):
                feature = np.uint64(chains.indices[k])
                x = np.float64(chains.data[k])
                for s in range(K):
                    old, more = W[feature, s], x * step[s]
                    change += more * (2.0 * old + more)
                    W[feature, s] = old + more
    for k in range(tail.size):
        more = sign * (duals.sums[g, k] - trial.sums[k])
        change += more * (2.0 * tail[k] + more)
        tail[k] += more
    return change


@leaf
def mix(
    chains: Chains, lo: int, hi: int, duals: Duals, g: int, trial: Trial, tail: FloatArray
) -> None:
    """The trial's scores: eta of the way from those of the block to those at w."""
    eta, base = duals.eta[g], chains.starts[lo]
    for t in range(base, chains.starts[hi]):
        for s in range(trial.row.size):
            old = duals.theta[t, s]
            trial.theta[t - base, s] = old + eta * (trial.scores[t - base, s] - old)
    for k in range(tail.size):
        trial.tail[k] = duals.tails[g, k] + eta * (tail[k] - duals.tails[g, k])


@leaf
def accept(
    chains: Chains,
    lo: int,
    hi: int,
    duals: Duals,
    g: int,
    trial: Trial,
    entropy: float,
    size: float,
) -> None:
    """The trial becomes the block's dual point."""
    base = chains.starts[lo]
    for t in range(base, chains.starts[hi]):
        for s in range(trial.row.size):
            duals.theta[t, s] = trial.theta[t - base, s]
            duals.mu[t, s] = trial.mu[t - base, s]
    for k in range(trial.tail.size):
        duals.tails[g, k] = trial.tail[k]
        duals.sums[g, k] = trial.sums[k]
    duals.entropy[g], duals.size[g] = entropy, size


@entry
def ascent_sweep(
    chains: Chains, duals: Duals, w: FloatArray, order: IntArray, skip_below: float
) -> Any:
    """One step for each block in ``order`` whose last gap is at least ``skip_below``.

    Returns the number of examples visited and the estimated gap of all blocks in ``order``.
    """
    K = chains.cost.shape[0]
    W, tail = parts(w, chains.n_features, K)
    trial = new_trial(chains, duals.first)
    visited, gap = 0, 0.0
    for g in order:
        lo, hi = duals.first[g], duals.first[g + 1]
        if duals.gaps[g] >= skip_below and duals.gaps[g] > 0.0:
            visited += hi - lo
            begin, end = chains.starts[lo], chains.starts[hi]
            emissions(chains.indptr, chains.indices, chains.data, W, begin, end, trial.scores)
            while True:
                eta = duals.eta[g]
                mix(chains, lo, hi, duals, g, trial, tail)
                total, entropy, size = distribution(chains, lo, hi, duals.caps, trial)
                apart = divergence(chains, lo, hi, duals, g, trial, total)
                change = exchange(chains, lo, hi, duals, g, trial, W, tail, 1.0)
                if entropy - duals.entropy[g] - 0.5 * change >= 0.0:
                    duals.gaps[g] = apart / (eta * eta)
                    accept(chains, lo, hi, duals, g, trial, entropy, size)
                    duals.eta[g] = min(1.0, GROWTH * eta)
                    break
                exchange(chains, lo, hi, duals, g, trial, W, tail, -1.0)
                if eta <= SMALLEST:  # rounding hides the ascent
                    break
                duals.eta[g] = 0.5 * eta
        gap += duals.gaps[g]
    return visited, gap


@entry
def refresh(chains: Chains, duals: Duals) -> None:
    """Marginals, sums and entropies of all scores, computed anew."""
    trial = new_trial(chains, duals.first)
    for g in range(duals.first.size - 1):
        lo, hi = duals.first[g], duals.first[g + 1]
        base = chains.starts[lo]
        for t in range(base, chains.starts[hi]):
            for s in range(trial.row.size):
                trial.theta[t - base, s] = duals.theta[t, s]
                trial.mu[t - base, s] = 0.0
        for k in range(trial.tail.size):
            trial.tail[k] = duals.tails[g, k]
        _, entropy, size = distribution(chains, lo, hi, duals.caps, trial)
        accept(chains, lo, hi, duals, g, trial, entropy, size)


@entry
def dual_weights(chains: Chains, duals: Duals, w: FloatArray) -> Any:
    """``w = sum_i c_i (Psi(x_i, y_i) - E Psi(x_i, z))``; returns the size of its terms."""
    K = chains.cost.shape[0]
    W, tail = parts(w, chains.n_features, K)
    row, size = np.empty(K), 0.0
    w[:] = 0.0
    for i in range(chains.starts.size - 1):
        first, last, c = chains.starts[i], chains.starts[i + 1], duals.caps[i]
        if first == last or c == 0.0:
            continue
        subtract_path(tail, K, chains.truth[first:last], -c)
        for t in range(first, last):
            size += c * (add_expected_token(chains, t, -c, duals.mu[t], W, row) + 2.0)
    for g in range(duals.first.size - 1):
        for k in range(tail.size):
            tail[k] -= duals.sums[g, k]
    return size
