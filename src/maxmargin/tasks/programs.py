"""Read and validate integer programs, and solve them by HiGHS (``scipy.optimize.milp``).

A program is ``min <c, y>`` subject to ``lower <= A y <= upper``, ``low <= y <= high``, and y_j an integer if
``integrality_j`` is 1. The costs c depend on the weights; the rest is part of the example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from maxmargin.core.checks import nonnegative
from maxmargin.core.matrices import canonical, check_dense
from maxmargin.core.vectors import Array, IntArray
from maxmargin.tasks.base import Bounded

#: relative violation of a constraint that is accepted; the tolerance of HiGHS is 1e-6
TOLERANCE = 1e-5
#: binary exponent of the largest cost passed to HiGHS, so that its absolute tolerances are relatively small
COST_SCALE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The program of an example. Without constraints, ``matrix`` is None."""

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
        """A description of the first constraint that ``y`` violates, or None if it is feasible."""
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
        """The smallest cost within the bounds of the variables, a lower bound of the optimum."""
        at = np.where(costs > 0.0, self.low, self.high)
        return float(np.sum(costs[costs != 0.0] * at[costs != 0.0]))


class Outcome(NamedTuple):
    """The best solution found, or None, and a lower bound of the optimum.

    If ``exact``, the solution is optimal and ``bound`` is its cost.
    """

    y: Array | None
    bound: float
    exact: bool = True


def read_program(x: Any) -> Program:
    """Convert a dict, named tuple or object to a :class:`Program`, or raise a ValueError."""
    features = _field(x, "features")
    if features is None:
        raise ValueError("'features' is missing (a matrix with one row per variable)")
    if sp.issparse(features):
        features = sp.csr_array(canonical(features, "'features'"), dtype=np.float64)
    else:
        features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2:
        raise ValueError(f"'features' must be a matrix, got shape {features.shape}")
    if not sp.issparse(features):
        check_dense(features, "'features'")
    n = features.shape[0]
    low, high = _bounds(_field(x, "bounds"), n)
    integrality = _field(x, "integrality")
    kinds = np.ones(n) if integrality is None else np.asarray(integrality)
    kinds = np.array(np.broadcast_to(kinds, (n,)), dtype=np.int64)
    if not np.isin(kinds, (0, 1)).all():
        raise ValueError("'integrality' must be 1 (integer) or 0 (continuous) for each variable")
    matrix, lower, upper = _rows(_field(x, "constraints"), n)
    return Program(features, matrix, lower, upper, low, high, kinds)


def check_solution(program: Program, values: Array, weights: Array) -> None:
    """Require a feasible labeled solution, at a bound where its weight is positive."""
    n = program.n_variables
    if values.shape != (n,) or weights.shape != (n,):
        raise ValueError(
            f"the label has {values.shape[0]} values and {weights.shape[0]} weights, but there are {n} "
            "variables"
        )
    nonnegative("the weights of the label", weights)
    broken = program.violation(values)
    if broken is not None:
        raise ValueError(f"the labeled solution is not feasible: {broken}")
    inside = (values > program.low) & (values < program.high) & (weights > 0.0)
    if inside.any():
        k = np.flatnonzero(inside)[0]
        raise ValueError(
            f"variable {k} is labeled {float(values[k])!r}, inside its bounds [{program.low[k]:g}, "
            f"{program.high[k]:g}], where the loss |y - label| is not linear. If a solver produced it, "
            "round it. Otherwise give the variable weight 0 in a WeightedSolution, or use 0/1 variables"
        )


def read_answer(answer: Any, costs: Array) -> Outcome:
    """The answer of a user's solver: a solution with the smallest costs, or a Bounded."""
    bound = None
    if isinstance(answer, Bounded):
        answer, bound = answer.y, -float(answer.upper)
        if np.isnan(bound):
            raise ValueError(
                "the bound returned by the solver is NaN. Return infinity if there is no bound."
            )
    y = np.array(answer, dtype=np.float64)  # a copy: the solver may reuse its array
    if y.shape != costs.shape:
        raise ValueError(
            f"the solver returned an array of shape {y.shape} for {len(costs)} variables."
        )
    return Outcome(y, float(costs @ y)) if bound is None else Outcome(y, bound, exact=False)


def _field(x: Any, name: str) -> Any:
    return x.get(name) if isinstance(x, Mapping) else getattr(x, name, None)


def _bounds(bounds: Any, n: int) -> tuple[Array, Array]:
    if bounds is None:
        return np.zeros(n), np.ones(n)
    pair = (bounds.lb, bounds.ub) if isinstance(bounds, Bounds) else tuple(bounds)
    if len(pair) != 2:
        raise ValueError("'bounds' must be a SciPy Bounds or a pair (lower, upper)")
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
            "'constraints' must be a SciPy LinearConstraint, a triple (A, lower, upper), or a list of these"
        )
    blocks: list[Any] = []
    lowers: list[Array] = []
    uppers: list[Array] = []
    for part in constraints:
        triple = (part.A, part.lb, part.ub) if isinstance(part, LinearConstraint) else tuple(part)
        if len(triple) != 3:
            raise ValueError(
                "each constraint must be a SciPy LinearConstraint or (A, lower, upper)"
            )
        A = triple[0] if sp.issparse(triple[0]) else sp.csr_array(np.atleast_2d(triple[0]))
        A = sp.csr_array(canonical(A, "the matrix of a constraint"), dtype=np.float64)
        if A.shape[1] != n:
            raise ValueError(f"a constraint has {A.shape[1]} columns, but there are {n} variables")
        blocks.append(A)
        for out, side in ((lowers, triple[1]), (uppers, triple[2])):
            out.append(np.broadcast_to(np.asarray(side, dtype=np.float64), (A.shape[0],)))
    if not blocks:
        return None, np.empty(0), np.empty(0)
    return sp.csr_array(sp.vstack(blocks)), np.concatenate(lowers), np.concatenate(uppers)


def _is_triple(constraints: Any) -> bool:
    """Whether this is (A, lower, upper) and not a list of three constraints."""
    return (
        isinstance(constraints, tuple)
        and len(constraints) == 3
        and not any(isinstance(part, LinearConstraint | tuple) for part in constraints)
    )


def solve_program(
    program: Program, costs: Array, time_limit: float | None, mip_rel_gap: float
) -> Outcome:
    """Solve the program by HiGHS.

    The bound is the dual bound of HiGHS. It holds up to the feasibility tolerance of HiGHS, also if the
    search stopped early.
    """
    largest = float(np.abs(costs).max(initial=0.0))
    # a power of two, so that scaling causes no rounding
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
        raise ValueError("the integer program has no feasible solution.")
    if result.status not in (0, 1):
        raise ValueError(f"HiGHS could not solve the integer program: {result.message}")
    bound = program.box_bound(costs)
    if result.mip_dual_bound is not None and np.isfinite(result.mip_dual_bound):
        bound = max(bound, float(result.mip_dual_bound) / scale)
    elif result.status == 0 and result.fun is not None:  # no integer variables: a linear program
        bound = max(bound, float(result.fun) / scale)
    if result.x is None:
        return Outcome(None, bound, exact=False)
    y = np.where(program.integrality == 1, np.round(result.x), result.x)
    y = np.clip(y, program.low, program.high)
    broken = program.violation(y)
    if broken is not None:
        raise ArithmeticError(
            f"the solution of HiGHS, rounded to integers, is not feasible: {broken}. The coefficients of the "
            "constraints differ too much in size; scale them."
        )
    return Outcome(y, bound, exact=False)
