"""The optimum of a small problem, proved by a dual point.

clarabel proposes a point z and multipliers. The multipliers are corrected to feasible ones, a >= 0 with
sums of at most c_g in each group, and

    D(a) = <a, h> + min over lower <= z <= upper of [ 1/2 (z - m)' P (z - m) + <A'a, z> ]  <=  F*  <=  F(z)

must agree up to ``ACCURACY``, or an error is raised.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from tests.reference_optima.attained import Scaling, solve
from tests.reference_optima.program import Array, Program, by_group

#: relative difference of the two values that is accepted as optimal
ACCURACY = 1e-9


class Optimum(NamedTuple):
    """``lower <= F* <= upper``; ``upper`` is F at ``z``, ``lower`` the dual value of ``alpha``."""

    upper: float
    lower: float
    z: Array
    alpha: Array


def program_of(
    A: Any,
    h: Any,
    group: Any,
    cost: Any,
    penalized: Any = None,
    nonnegative: Any = (),
    **others: Any,
) -> Program:
    """A program with the center 0 and the penalty 1, or 0 for weights that are not ``penalized``."""
    A = np.asarray(A.todense() if hasattr(A, "todense") else A, dtype=float)
    p = A.shape[1]
    lower = np.full(p, -np.inf)
    lower[np.asarray(nonnegative, dtype=int)] = 0.0
    norm = {
        "center": np.zeros(p),
        "precision": np.ones(p) if penalized is None else np.asarray(penalized, dtype=float),
        "lower": lower if np.size(nonnegative) else None,
    }
    return Program(
        **{**norm, **others},
        A=A,
        h=np.asarray(h, dtype=float),
        group=np.asarray(group, dtype=np.int64),
        cost=np.asarray(cost, dtype=float),
    )


def optimum(program: Program) -> Optimum:
    """Find primal and dual points whose values agree, or raise an ArithmeticError."""
    used = program.cost[program.group] > 0.0
    best = Optimum(math.inf, -math.inf, np.empty(0), np.zeros(len(used)))
    if not used.any():
        return Optimum(0.0, 0.0, program.feasible(program.center).astype(float), best.alpha)
    whole = _changed(program, A=program.A[used], h=program.h[used], group=program.group[used])
    # Divided by the largest cost, all multipliers are in [0, 1]: best if many are at their caps. Without
    # division is better for separable data, whose multipliers do not grow with C.
    largest = float(program.cost.max())
    units = (largest, 1.0, math.sqrt(largest), 1.0)
    attempts: list[tuple[float, Scaling, bool]] = [(unit, "none", False) for unit in units]
    attempts.append((largest, "columns", False))
    if program.precision.ndim == 1 and not (program.lower is None and program.upper is None):
        attempts += [(unit, "none", True) for unit in units]
    posed, alpha = whole, np.zeros(int(used.sum()))
    for unit, scaling, at_bounds in attempts:
        found = solve(_held(posed, alpha) if at_bounds else posed, scaling, unit, 1e-14)
        if found is None:
            continue
        alpha = _feasible(whole, found[1])
        # costs far above all multipliers have no effect but reduce the accuracy: lower them
        if alpha.any():
            posed = _changed(whole, cost=np.minimum(whole.cost, 10.0 * alpha.max()))
        z = whole.feasible(found[0]).astype(float)
        # With separable data and a large C, a rounding error in the margin costs C times as much, and a
        # slightly larger z costs almost nothing.
        for point in (z, _implied(whole, alpha, found[2], z)):
            for t in (0.0, 1e-13, 1e-12, 1e-11):
                moved = whole.feasible(whole.center + (1.0 + t) * (point - whole.center)).astype(
                    float
                )
                upper = _value(whole, moved)
                if upper < best.upper:
                    best = best._replace(upper=upper, z=moved)
        lower = _dual_value(whole, alpha, found[2], z)
        if lower > best.lower:
            best.alpha[used] = alpha
            best = best._replace(lower=lower)
        if best.upper - best.lower <= 1e-2 * ACCURACY * abs(best.upper):
            break
    if not best.upper - best.lower <= ACCURACY * max(abs(best.upper), 1e-12):
        raise ArithmeticError(
            f"the reference optimum is not accurate enough: {best.lower!r} <= F* <= {best.upper!r}"
        )
    return best


def _changed(program: Program, **changes: Any) -> Program:
    return dataclasses.replace(program, **changes, _long=[])


def _held(program: Program, alpha: Array) -> Program:
    """The program without bounds, with the weights that seem to be at their bounds fixed there."""
    free = program.center - (program.A.T @ alpha) / np.where(
        program.precision > 0, program.precision, 1
    )
    held = program.feasible(free).astype(float)
    at_bound = held != free
    return _changed(
        program,
        center=np.where(at_bound, held, program.center),
        A=np.where(at_bound, 0.0, program.A),
        h=program.h + program.A[:, at_bound] @ held[at_bound],
        lower=None,
        upper=None,
    )


def _value(program: Program, z: Array) -> float:
    """F(z), with correctly rounded sums."""
    off = z - program.center
    spread = program.precision * off if program.precision.ndim == 1 else program.precision @ off
    worst = by_group(program.A @ z + program.h, program.group, len(program.cost))
    return 0.5 * math.fsum(off * spread) + math.fsum(program.cost * worst)


def _implied(program: Program, alpha: Array, pushes: Array, z: Array) -> Array:
    """The minimizer of the Lagrangian; weights without a penalty are those of ``z``."""
    pull, P = program.A.T @ alpha, program.precision
    if P.ndim == 2:
        return program.feasible(program.center - np.linalg.solve(P, pull + pushes)).astype(float)
    moved = program.center - pull / np.where(P > 0.0, P, 1.0)
    return program.feasible(np.where(P > 0.0, moved, z)).astype(float)


def _dual_value(program: Program, alpha: Array, pushes: Array, z: Array) -> float:
    """D of feasible multipliers, less a penalty for the equations of weights without a penalty."""
    pull, P, center = program.A.T @ alpha, program.precision, program.center
    gain = math.fsum(alpha * program.h)
    if P.ndim == 2:  # with multipliers of the bounds, the minimum is that of a quadratic form
        at = np.zeros(program.size)
        for bound, sign in ((program.lower, -1.0), (program.upper, 1.0)):
            active = sign * pushes > 0.0
            at[active] = 0.0 if bound is None else bound[active]
        pull = pull + pushes
        return (
            gain
            - math.fsum(pushes * at)
            + float(center @ pull - 0.5 * pull @ np.linalg.solve(P, pull))
        )
    inner = _implied(program, alpha, pushes, z)
    free = P == 0.0
    terms = np.where(free, 0.0, 0.5 * P * (inner - center) ** 2 + pull * inner)
    return gain + math.fsum(terms) - math.fsum((np.abs(pull) * (1.0 + 2.0 * np.abs(z)))[free])


def _feasible(program: Program, multipliers: Array) -> Array:
    """Feasible multipliers: clip them at zero, and scale those of a group whose sum exceeds its cost."""
    alpha = np.maximum(multipliers, 0.0)
    total = np.bincount(program.group, alpha, minlength=len(program.cost))
    shrink = np.where(total > program.cost, program.cost / np.maximum(total, 1e-300), 1.0)
    return np.asarray(alpha * shrink[program.group], dtype=float)
