"""The state of a solver between two iterations, as plain values, and back.

What is kept is what bounds are proved with (the incumbent, cuts, multipliers), where the loop was, and the
record so far. What can be computed from that is not: scores, products of planes, weights of multipliers. So
the lower bound after a resume is that of the restored dual point, computed anew, and the objective of the
restored incumbent is compared with the one in the file when it is first evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

from maxmargin.checkpoints import CheckpointError
from maxmargin.core.bundle import Bundle
from maxmargin.core.cut import Cut
from maxmargin.core.dual_point import DualPoint
from maxmargin.core.protocols import ProvedRisk
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import FeasibleDual, IterationRecord
from maxmargin.core.vectors import Array, SparseVector, Vector, frozen
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.dual_coordinate import SetsDual
from maxmargin.solvers.row_dual import PlaneDual, RowsDual

#: what a file may hold that cannot be this problem's: told as a CheckpointError
_UNFIT = (KeyError, IndexError, TypeError, ValueError, AttributeError)


def identity(problem: Problem, solver: Any) -> dict[str, Any]:
    """What must be the same for a state to fit, whoever computes."""
    omega = problem.regularizer
    own = repr(solver) if is_dataclass(solver) else type(solver).__qualname__
    return {
        "C": problem.C,
        "solver": own,
        "weights": problem.dim,
        "examples": problem.n_examples,
        "blocks": problem.n_blocks,
        "free weights": len(omega.free),
        "signed weights": len(omega.nonnegative),
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """In words: what is not the same."""
    names = [*now, *(name for name in before if name not in now)]
    return [
        f"{name} was {before.get(name)!r} and is {now.get(name)!r}"
        for name in names
        if before.get(name) != now.get(name)
    ]


# -- writing ---------------------------------------------------------------------------------------


def snapshot(state: SolverState, memory: Any) -> dict[str, Any]:
    """The state as plain values. ``memory`` is what :func:`kept_memory` made of the solver's own."""
    return {
        "w": state.w,
        "upper": state.upper,
        "lower": state.lower,
        "stop": state.stop,
        "phase": state.phase,
        "place": state.resumed if state.place is None else state.place(),
        "memory": memory,
        "duals": {method: {"C": duals.C, **duals.state()} for method, duals in state.duals.items()},
        "dual": _dual(state.dual, state),
    }


def kept_memory(memory: Any) -> dict[str, Any] | None:
    """A solver's own memory as plain values, those that change copied (they are few)."""
    if memory is None:
        return None
    if type(memory) is Bundle:
        kept = memory.state()
        return {"kind": "bundle", **kept, "planes": [_vector(plane) for plane in kept["planes"]]}
    if hasattr(memory, "absorb"):
        return {"kind": "sets", **memory.state()}
    raise CheckpointError(
        f"checkpoint=: what this solver keeps, a {type(memory).__name__}, cannot be written to a file. Leave "
        "the checkpoint out, or use another solver."
    )


def _dual(dual: FeasibleDual | None, state: SolverState) -> dict[str, Any] | None:
    match dual:
        case None:
            return None
        case DualPoint(planes, offsets, alpha, base, error):
            vectors = [_vector(plane) for plane in planes]
            return {
                "kind": "planes", "planes": vectors, "offsets": offsets, "alpha": alpha, "base": base,
                "error": error,
            }  # fmt: skip
        case PlaneDual(cut, C):
            plane = _vector(cut.plane)
            return {
                "kind": "plane", "offset": cut.offset, "plane": plane, "error": cut.error, "C": C,
            }  # fmt: skip
        case SetsDual():
            return {"kind": "sets"}
        case RowsDual(duals, C):
            method = next(name for name, own in state.duals.items() if own is duals)
            return {"kind": "rows", "method": method, "C": C}
    raise CheckpointError(
        f"checkpoint=: a dual point of type {type(dual).__name__} cannot be written to a file."
    )


def _vector(v: Vector) -> Any:
    return (v.indices, v.values, v.size) if isinstance(v, SparseVector) else v


# -- reading ---------------------------------------------------------------------------------------


def restore(kept: dict[str, Any], risk: Any, problem: Problem, streaming: Any) -> SolverState:
    """The state of a snapshot, with bounds that hold for this problem."""
    try:
        return _restore(kept, risk, problem, streaming)
    except CheckpointError:
        raise
    except _UNFIT as error:
        raise CheckpointError(f"the checkpoint does not fit this problem: {error}") from error


def _restore(kept: dict[str, Any], risk: Any, problem: Problem, streaming: Any) -> SolverState:
    if hasattr(risk, "restore_columns"):  # what planes and points are over
        risk.restore_columns(kept["columns"])
    omega, dim = problem.regularizer, problem.dim
    w = np.asarray(kept["w"], dtype=np.float64)
    if w.shape != (dim,) or not np.isfinite(w).all():
        raise ValueError(f"its weights are not {dim} finite numbers")
    state = SolverState(w=frozen(w), upper=float(kept["upper"]), phase=int(kept["phase"]))
    state.resumed = kept["place"]
    for method, own in kept["duals"].items():
        duals = risk.row_duals(method, own["C"], omega, streaming)
        duals.restore(own)
        state.duals[method] = duals
    memory = kept["memory"]
    if memory is not None and memory["kind"] == "bundle":
        vectors = [_read_vector(plane, dim) for plane in memory["planes"]]
        state.memory = Bundle.from_state(dim, omega, {**memory, "planes": vectors})
        if state.memory.n_blocks not in (1, problem.n_blocks):
            raise ValueError(f"planes of {state.memory.n_blocks} blocks")
    elif memory is not None:
        state.memory = risk.working_sets(problem.C, omega)
        state.memory.restore(memory)
    state.lower = problem.C * problem.base * problem.n_blocks
    dual = _read_dual(kept["dual"], state, problem)
    if dual is not None:
        state.raise_lower(dual.value(omega, dim, state.upper), dual)
    return state


def _read_dual(
    kept: dict[str, Any] | None, state: SolverState, problem: Problem
) -> FeasibleDual | None:
    if kept is None:
        return None
    kind, C, dim = kept["kind"], problem.C, problem.dim
    if kind == "sets":
        return SetsDual(state.memory)
    if kind == "rows":
        duals = state.duals[kept["method"]]
        if duals.C == C:
            return RowsDual(duals, C)
        # at another C multipliers may move on to what is worth less at this one: a plane does not move
        duals.dual_value(duals.C)
        return PlaneDual(duals.aggregate(), C)
    if kind == "plane":
        return PlaneDual(_read_cut(kept, dim), C)
    alpha, offsets = np.asarray(kept["alpha"]), np.asarray(kept["offsets"])
    planes = tuple(_read_vector(plane, dim) for plane in kept["planes"])
    if not (len(planes) == len(alpha) == len(offsets) and (alpha >= 0.0).all()):
        raise ValueError("its multipliers are not feasible")
    if alpha.sum() > problem.n_blocks * C * (1.0 + 1e-9):
        raise ValueError(f"its multipliers add up to {alpha.sum()}, more than C allows")
    return DualPoint(planes, offsets, alpha, float(kept["base"]), _error(kept))


def _read_cut(kept: dict[str, Any], dim: int) -> Cut:
    return Cut(float(kept["offset"]), _read_vector(kept["plane"], dim), _error(kept))


def _error(kept: dict[str, Any]) -> float:
    error = float(kept["error"])
    if not error >= 0.0:
        raise ValueError(f"a plane with the error {error}")
    return error


def _read_vector(kept: Any, dim: int) -> Vector:
    if isinstance(kept, tuple):
        indices, values, size = kept
        if size != dim or len(indices) != len(values):
            raise ValueError(f"a plane of {size} weights")
        if len(indices) and not 0 <= indices.min() <= indices.max() < dim:
            raise ValueError("a plane with indices beyond the weights")
        return SparseVector(indices, values, size)
    plane: Array = np.asarray(kept, dtype=np.float64)
    if plane.shape != (dim,):
        raise ValueError(f"a plane of shape {plane.shape}")
    return plane


def compare(
    risk: Any,
    problem: Problem,
    state: SolverState,
    expected: tuple[Array, float] | None,
    w: Array,
    upper: float,
) -> None:
    """What was restored must be true of the risk, whose value at ``w`` is at most ``upper``: the incumbent
    is worth what was expected, and planes lie nowhere above."""
    if expected is not None and w is expected[0]:
        before, now = expected[1], problem.regularizer.value(w) + problem.C * upper
        noise = 2.0 * problem.C * risk.rounding(w, upper) if isinstance(risk, ProvedRisk) else 0.0
        if np.isfinite(before) and abs(now - before) > 1e-6 * max(abs(now), abs(before)) + noise:
            raise _untrue(f"its weights had the objective {before:.9g} and have {now:.9g}")
    plain = (
        type(problem.regularizer) is SquaredNorm
    )  # combinations of rows have a product of their own
    if isinstance(state.memory, Bundle) and plain and risk.oracle != "undergenerating":
        model = state.memory.value(w)
        if model > upper + 1e-6 * (abs(upper) + abs(model)):
            raise _untrue(f"its planes say {model:.9g} of a risk that is {upper:.9g}")


def _untrue(how: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint is not true here: {how}. Features or losses are not what they were; does setup "
        "number features in the same order every time?"
    )


# -- the record ------------------------------------------------------------------------------------


def history_columns(history: Sequence[IterationRecord]) -> dict[str, Any]:
    """One array for each entry of the records; texts are numbered, None is NaN."""
    columns: dict[str, Any] = {}
    for field in fields(IterationRecord):
        values = [getattr(record, field.name) for record in history]
        if field.type == "str":
            names = sorted(set(values))
            number = {name: k for k, name in enumerate(names)}
            columns[field.name] = (names, np.array([number[v] for v in values], dtype=np.int64))
        elif field.type == "int":
            columns[field.name] = np.array(values, dtype=np.int64)
        else:
            columns[field.name] = np.array(values, dtype=np.float64)
    return columns


def read_history(columns: dict[str, Any]) -> list[IterationRecord]:
    """The records again."""
    read: dict[str, list[Any]] = {}
    for field in fields(IterationRecord):
        kept = columns.get(field.name)
        if kept is None:
            if field.default is MISSING:
                raise CheckpointError(f"the checkpoint's history has no {field.name}")
            continue
        if isinstance(kept, tuple):
            names, codes = kept
            read[field.name] = [names[k] for k in codes.tolist()]
        else:
            values = kept.tolist()
            if "None" in str(field.type):
                values = [None if v != v else v for v in values]
            read[field.name] = values
    return [
        IterationRecord(**dict(zip(read, row, strict=True)))
        for row in zip(*read.values(), strict=True)
    ]
