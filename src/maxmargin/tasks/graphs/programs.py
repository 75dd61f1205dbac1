"""The best labeling of a graph as an integer or a linear program, solved by HiGHS.

Variables are indicators of labels, mu_i(k), and of pairs of labels, mu_e(k, l):

    maximize   sum theta_i(k) mu_i(k) + sum theta_e(k, l) mu_e(k, l)
    subject to sum_k mu_i(k) = 1,  sum_l mu_e(k, l) = mu_lo(k),  sum_k mu_e(k, l) = mu_hi(l),  mu >= 0

With mu_i(k) in {0, 1} this is the labeling problem. Without, it is the linear relaxation, whose optimum is at
least as large. The multipliers of the last two constraints are messages (see
:mod:`maxmargin.compiled.messages`). They give a bound that holds for any tolerance of the solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from maxmargin.core.vectors import Array, IntArray

#: tolerance for HiGHS; it is absolute, so scores are scaled to at most 1
_PRECISION = 1e-9
#: absolute gap at which HiGHS may stop an integer program; it cannot be set
_OPEN = 2e-6


class Scores(NamedTuple):
    """Scores ``nodes[i, k]`` of labels, and ``pairs[e, k, l]`` of label k at ``lo[e]`` and l at ``hi[e]``."""

    nodes: Array
    lo: IntArray
    hi: IntArray
    pairs: Array


@dataclass(frozen=True, eq=False)
class Relaxed:
    """A fractional labeling: weights of labels, (n, K), and of pairs of labels, (m, K, K).

    Pairs are in the order of the graph's edges: [label of the first node, label of the second node].
    """

    nodes: Array
    pairs: Array


class _ReducedProgram(NamedTuple):
    """The remaining variables and their constraints."""

    kept_nodes: npt.NDArray[np.bool_]
    kept_pairs: npt.NDArray[np.bool_]
    matrix: Any
    right: Array
    objective: Array


def _program(scores: Scores, alive: npt.NDArray[np.bool_]) -> _ReducedProgram:
    nodes, lo, hi, pairs = scores
    n, m = len(nodes), len(lo)
    kept = alive[lo][:, :, None] & alive[hi][:, None, :]
    n_nodes, n_pairs = int(alive.sum()), int(kept.sum())
    number = np.cumsum(alive).reshape(alive.shape) - 1  # index of the variable of a label
    e, k, l = np.nonzero(kept)
    at = n_nodes + np.arange(n_pairs)
    # one constraint per (edge, label of its lower node), then one per (edge, label of its higher node)
    low_e, low_k = np.nonzero(alive[lo])
    high_e, high_k = np.nonzero(alive[hi])
    low_row = np.zeros((m, alive.shape[1]), dtype=np.int64)
    low_row[low_e, low_k] = n + np.arange(len(low_e))
    high_row = np.zeros_like(low_row)
    high_row[high_e, high_k] = n + len(low_e) + np.arange(len(high_e))
    i, _ = np.nonzero(alive)
    parts = (
        (i, np.arange(n_nodes), 1.0),
        (low_row[e, k], at, 1.0),
        (high_row[e, l], at, 1.0),
        (low_row[low_e, low_k], number[lo[low_e], low_k], -1.0),
        (high_row[high_e, high_k], number[hi[high_e], high_k], -1.0),
    )
    rows = np.concatenate([row for row, _, _ in parts])
    columns = np.concatenate([column for _, column, _ in parts])
    values = np.concatenate([np.full(len(row), value) for row, _, value in parts])
    n_rows = n + len(low_e) + len(high_e)
    matrix = sp.csr_matrix((values, (rows, columns)), (n_rows, n_nodes + n_pairs))
    right = np.zeros(n_rows)
    right[:n] = 1.0
    return _ReducedProgram(alive, kept, matrix, right, np.concatenate([nodes[alive], pairs[kept]]))


def _scale(program: _ReducedProgram) -> float:
    return float(np.abs(program.objective).max(initial=0.0)) or 1.0


def best_integer(scores: Scores, alive: npt.NDArray[np.bool_]) -> tuple[IntArray, float]:
    """The best labeling with labels in ``alive``, and an upper bound of the scores of all of them."""
    program = _program(scores, alive)
    scale = _scale(program)
    integral = np.zeros(program.matrix.shape[1])
    integral[: int(alive.sum())] = 1
    found = milp(
        -program.objective / scale,
        integrality=integral,
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(program.matrix, program.right, program.right),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        raise RuntimeError(f"HiGHS could not solve the integer program of a graph: {found.message}")
    weights = np.where(alive, 0.0, -1.0)
    weights[alive] = found.x[: int(alive.sum())]
    bound = -found.mip_dual_bound if found.mip_dual_bound is not None else -found.fun
    return weights.argmax(axis=1), scale * (float(bound) + _OPEN)


def best_relaxed(scores: Scores) -> tuple[Array, Array, float]:
    """The optimum of the relaxation, as weights of labels and of pairs (lower, higher node), and a bound."""
    nodes, lo, hi, pairs = scores
    n, K = nodes.shape
    m = len(lo)
    program = _program(scores, np.ones((n, K), dtype=bool))
    scale = _scale(program)
    found = linprog(
        -program.objective / scale,
        A_eq=program.matrix,
        b_eq=program.right,
        bounds=(0.0, None),
        method="highs",
        options={
            "primal_feasibility_tolerance": _PRECISION,
            "dual_feasibility_tolerance": _PRECISION,
        },
    )
    if found.x is None:
        raise RuntimeError(
            f"HiGHS could not solve the linear relaxation of a graph: {found.message}"
        )
    messages = scale * np.asarray(found.eqlin.marginals[n:])
    to_lo, to_hi = messages[: m * K].reshape(m, K), messages[m * K :].reshape(m, K)
    moved = nodes.copy()
    # HiGHS minimizes, so the signs of its multipliers are reversed
    np.add.at(moved, lo, -to_lo)
    np.add.at(moved, hi, -to_hi)
    left = pairs + to_lo[:, :, None] + to_hi[:, None, :]
    bound = moved.max(axis=1).sum() + left.max(axis=(1, 2)).sum()
    solution = np.maximum(found.x, 0.0)
    return solution[: n * K].reshape(n, K), solution[n * K :].reshape(m, K, K), float(bound)
