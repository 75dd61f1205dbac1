"""Passes of the oracle over working sets, and the epochs between them.

Each pass returns an estimate of the duality gap.

References:

- T. Joachims, T. Finley and C.-N. J. Yu, "Cutting-plane training of structural SVMs", Machine Learning 77
  (2009), 27-59: section 2, algorithm 1 (``n_slack``).
- D. Ramanan, "Dual coordinate solvers for large-scale structural SVMs" (2013), arXiv:1312.1743: algorithm 2
  (``in_pieces``, ``epochs``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.vectors import IntArray
from maxmargin.solvers.session import Session

#: pieces of a pass, with epochs over all sets after each, and their number
PIECES, PIECE_EPOCHS = 20, 3
#: epochs end when this many of them leave more than this fraction of the gap
STUCK, LEFT = 50, 0.99
#: schedule "n_slack": the share of the tolerance to which the reduced problem is solved, and as many times
#: more epochs
REDUCED, REDUCED_EPOCHS = 0.1, 30


def in_pieces(
    session: Session,
    sets: WorkingSets,
    rng: np.random.Generator,
    pieces: Sequence[IntArray],
    skip: float,
    size: int,
) -> float:
    """A pass with a few epochs over all examples after each piece; the sum of the gaps."""
    total, n = 0.0, sets.n_examples
    for piece in pieces:
        stats = session.batches(sets, piece, skip, size)
        total += stats.gap_estimate
        if stats.oracle_calls:
            for _ in range(PIECE_EPOCHS):
                session.epoch(sets, rng.permutation(n))
    return total


def n_slack(
    session: Session,
    sets: WorkingSets,
    rng: np.random.Generator,
    pieces: Sequence[IntArray],
    max_epochs: int,
) -> float:
    """A pass with the reduced problem solved after each piece; n times the largest gap of an example, or zero
    if no working set changed."""
    problem, worst, changed = session.problem, 0.0, False
    for piece in pieces:
        stats = session.batches(sets, piece, 0.0, len(piece))
        worst = max(worst, float(sets.gaps[piece].max()))
        if stats.new_planes:
            changed = True
            allowed = problem.stopping.allowed_gap(sets.dual_value(), problem.C)
            epochs(session, sets, rng, REDUCED * allowed, REDUCED_EPOCHS * max_epochs)
    return sets.n_examples * worst if changed else 0.0


def epochs(
    session: Session, sets: WorkingSets, rng: np.random.Generator, goal: float, limit: int
) -> None:
    """At most so many sweeps of block steps over the sets, until their gap is at most ``goal``."""
    before, n = np.inf, sets.n_examples
    for k in range(limit):
        stats = session.epoch(sets, rng.permutation(n))
        if stats.gap_estimate <= goal:
            return
        if k % STUCK == STUCK - 1:
            if stats.gap_estimate > LEFT * before:
                return
            before = stats.gap_estimate
