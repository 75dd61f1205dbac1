"""Integer programs as users have them, checked, and their solution by HiGHS (``scipy.optimize.milp``).

A program is ``min <c, y>`` over ``lower <= A y <= upper``, ``low <= y <= high``, y_j an integer where
``integrality_j`` is 1. The costs c come from the weights and change; all the rest is an example's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from maxmargin.core.matrices import canonical, check_dense
from maxmargin.core.vectors import Array, IntArray

#: how far an answer may miss a constraint, relative to the constraint's size; HiGHS' own tolerance is 1e-6
TOLERANCE = 1e-5
#: the largest cost that HiGHS sees, about: its absolute tolerances are then small against the costs
COST_SCALE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The parts of an example's program, in one form. No constraints: ``matrix`` is None."""

    features: Any
    matrix: sp.csr_array | None
    lower: Array
    upper: Array
    low: Array
    high: Array
    integrality: IntArray

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.low)

    def violation(self, y: Array) -> str | None:
        """The first thing that ``y`` violates, in words; None if it is feasible."""
        for name, values, low, high in (
            ("variable", y, self.low, self.high),
            ("constraint", self._rows(y), self.lower, self.upper),
        ):
            slack = TOLERANCE * (1.0 + np.abs(values))
            wrong = np.flatnonzero(~((values >= low - slack) & (values <= high + slack)))
            if len(wrong):
                k = wrong[0]
                return f"{name} {k} has the value {values[k]:g}, not in [{low[k]:g}, {high[k]:g}]"
        broken = np.flatnonzero((self.integrality == 1) & (np.abs(y - np.round(y)) > TOLERANCE))
        if len(broken):
            return f"variable {broken[0]} has the value {y[broken[0]]:g}, not an integer"
        return None

    def _rows(self, y: Array) -> Array:
        if self.matrix is None:
            return np.empty(0)
        rows: Array = self.matrix @ y
        return rows

    def box_bound(self, costs: Array) -> float:
        """The smallest cost within the bounds of the variables alone: below that of the program."""
        at = np.where(costs > 0.0, self.low, self.high)
        return float(np.sum(costs[costs != 0.0] * at[costs != 0.0]))


class Outcome(NamedTuple):
    """The best solution found, if any, and a number that no solution's cost is below (or is said to be the
    cost itself: ``exact``)."""

    y: Array | None
    bound: float
    exact: bool = True


def read_program(x: Any) -> Program:
    """A user's dict, named tuple or object as a :class:`Program`; raises ValueError with what is wrong."""
    features = _field(x, "features")
    if features is None:
        raise ValueError("it has no 'features' (a matrix with one row per variable)")
    if sp.issparse(features):
        features = sp.csr_array(canonical(features, "'features'"), dtype=np.float64)
    else:
        features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2:
        raise ValueError(f"'features' must be a matrix; it has shape {features.shape}")
    if not sp.issparse(features):
        check_dense(features, "'features'")
    n = features.shape[0]
    low, high = _bounds(_field(x, "bounds"), n)
    integrality = _field(x, "integrality")
    kinds = np.ones(n) if integrality is None else np.asarray(integrality)
    kinds = np.array(np.broadcast_to(kinds, (n,)), dtype=np.int64)
    if not np.isin(kinds, (0, 1)).all():
        raise ValueError("'integrality' must hold 1 (integer) or 0 (continuous)")
    matrix, lower, upper = _rows(_field(x, "constraints"), n)
    return Program(features, matrix, lower, upper, low, high, kinds)


def _field(x: Any, name: str) -> Any:
    return x.get(name) if isinstance(x, Mapping) else getattr(x, name, None)


def _bounds(bounds: Any, n: int) -> tuple[Array, Array]:
    if bounds is None:
        return np.zeros(n), np.ones(n)
    pair = (bounds.lb, bounds.ub) if isinstance(bounds, Bounds) else tuple(bounds)
    if len(pair) != 2:
        raise ValueError("'bounds' must be a scipy Bounds or a pair (lower, upper)")
    low, high = (np.array(np.broadcast_to(np.asarray(b, dtype=np.float64), (n,))) for b in pair)
    if not (low <= high).all():
        raise ValueError("'bounds' has a lower bound above its upper bound")
    return low, high


def _rows(constraints: Any, n: int) -> tuple[sp.csr_array | None, Array, Array]:
    """All constraints in one matrix."""
    if constraints is None:
        return None, np.empty(0), np.empty(0)
    if isinstance(constraints, LinearConstraint) or _is_triple(constraints):
        constraints = [constraints]
    if not isinstance(constraints, Sequence):
        raise ValueError(
            "'constraints' must be a scipy LinearConstraint, a triple (A, lower, upper), or a list of them"
        )
    blocks: list[Any] = []
    lowers: list[Array] = []
    uppers: list[Array] = []
    for part in constraints:
        triple = (part.A, part.lb, part.ub) if isinstance(part, LinearConstraint) else tuple(part)
        if len(triple) != 3:
            raise ValueError("a constraint must be a scipy LinearConstraint or (A, lower, upper)")
        A = triple[0] if sp.issparse(triple[0]) else sp.csr_array(np.atleast_2d(triple[0]))
        A = sp.csr_array(canonical(A, "the matrix of a constraint"), dtype=np.float64)
        if A.shape[1] != n:
            raise ValueError(f"a constraint has {A.shape[1]} columns for {n} variables")
        blocks.append(A)
        for out, side in ((lowers, triple[1]), (uppers, triple[2])):
            out.append(np.broadcast_to(np.asarray(side, dtype=np.float64), (A.shape[0],)))
    if not blocks:
        return None, np.empty(0), np.empty(0)
    return sp.csr_array(sp.vstack(blocks)), np.concatenate(lowers), np.concatenate(uppers)


def _is_triple(constraints: Any) -> bool:
    """(A, lower, upper) rather than a list of three constraints."""
    return (
        isinstance(constraints, tuple)
        and len(constraints) == 3
        and not any(isinstance(part, LinearConstraint | tuple) for part in constraints)
    )


def solve_program(
    program: Program, costs: Array, time_limit: float | None, mip_rel_gap: float
) -> Outcome:
    """Minimize by HiGHS.

    The bound is HiGHS' dual bound, so it holds within HiGHS' feasibility tolerance whether the search ended
    or was cut short.
    """
    largest = float(np.abs(costs).max(initial=0.0))
    # a power of two: no digit of the costs changes
    scale = 1.0 if largest == 0.0 else 2.0 ** (COST_SCALE - np.frexp(largest)[1])
    options: dict[str, Any] = {"mip_rel_gap": mip_rel_gap}
    if time_limit is not None:
        options["time_limit"] = time_limit
    rows = (
        []
        if program.matrix is None
        else [LinearConstraint(program.matrix, program.lower, program.upper)]  # type: ignore[arg-type]
    )
    result = milp(
        scale * costs,
        integrality=program.integrality,
        bounds=Bounds(program.low, program.high),
        constraints=rows,
        options=options,
    )
    if result.status == 2:
        raise ValueError("the program has no feasible solution.")
    if result.status not in (0, 1):
        raise ValueError(f"the program could not be solved: {result.message}")
    bound = program.box_bound(costs)
    if result.mip_dual_bound is not None and np.isfinite(result.mip_dual_bound):
        bound = max(bound, float(result.mip_dual_bound) / scale)
    elif result.status == 0 and result.fun is not None:  # no integers: a linear program
        bound = max(bound, float(result.fun) / scale)
    if result.x is None:
        return Outcome(None, bound, exact=False)
    y = np.where(program.integrality == 1, np.round(result.x), result.x)
    y = np.clip(y, program.low, program.high)
    broken = program.violation(y)
    if broken is not None:
        raise ArithmeticError(
            f"HiGHS' solution, rounded to integers, is not feasible: {broken}. The constraints hold very "
            "large coefficients beside small ones; scale them."
        )
    return Outcome(y, bound, exact=False)
