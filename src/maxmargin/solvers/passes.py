"""Passes of the oracle over working sets, and the epochs between them.

Each pass is a generator of requests that returns an estimate of the duality gap.

References:

- T. Joachims, T. Finley and C.-N. J. Yu, "Cutting-plane training of structural SVMs", Machine Learning 77
  (2009), 27-59: section 2, algorithm 1 (``n_slack``).
- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: algorithm 2
  (``in_pieces``, ``epochs``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import numpy as np

from maxmargin.core.contract.requests import Request, Steps, Sweep
from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.vectors import IntArray
from maxmargin.solvers.base import Problem

Asked: TypeAlias = Generator[Request, Any, float]
#: pieces of a pass, with epochs over all sets after each, and their number
PIECES, PIECE_EPOCHS = 20, 3
#: epochs end when this many of them leave more than this fraction of the gap
STUCK, LEFT = 50, 0.99
#: schedule "n_slack": the share of the tolerance to which the reduced problem is solved, and as many times
#: more epochs
REDUCED, REDUCED_EPOCHS = 0.1, 30


def in_pieces(
    sets: WorkingSets, rng: np.random.Generator, pieces: Sequence[IntArray], skip: float, size: int
) -> Asked:
    """A pass with a few epochs over all examples after each piece; the sum of the gaps."""
    total, n = 0.0, sets.n_examples
    for piece in pieces:
        stats: SweepStats = yield Sweep(sets, "batches", piece, skip, size)
        total += stats.gap
        if stats.oracle_calls:
            for _ in range(PIECE_EPOCHS):
                yield Sweep(sets, "epoch", rng.permutation(n))
    return total


def n_slack(
    sets: WorkingSets,
    rng: np.random.Generator,
    pieces: Sequence[IntArray],
    problem: Problem,
    max_epochs: int,
) -> Asked:
    """A pass with the reduced problem solved after each piece; n times the largest gap of an example, or zero
    if no working set changed."""
    worst, changed = 0.0, False
    for piece in pieces:
        stats: SweepStats = yield Sweep(sets, "batches", piece, 0.0, len(piece))
        worst = max(worst, float(sets.gaps[piece].max()))
        if stats.new_planes:
            changed = True
            allowed = problem.stopping.allowed_gap(sets.dual_value(), problem.C)
            yield from epochs(sets, rng, REDUCED * allowed, REDUCED_EPOCHS * max_epochs)
    return sets.n_examples * worst if changed else 0.0


def epochs(sets: WorkingSets, rng: np.random.Generator, goal: float, limit: int) -> Steps:
    """At most so many sweeps of block steps over the sets, until their gap is at most ``goal``."""
    before, n = np.inf, sets.n_examples
    for k in range(limit):
        stats: SweepStats = yield Sweep(sets, "epoch", rng.permutation(n))
        if stats.gap <= goal:
            return
        if k % STUCK == STUCK - 1:
            if stats.gap > LEFT * before:
                return
            before = stats.gap
