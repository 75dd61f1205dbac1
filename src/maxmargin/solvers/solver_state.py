"""The state of a solver between two iterations, as plain values, and back.

What is kept is what bounds are proved with (the incumbent, cuts, multipliers), where the loop was, and the
record so far. What can be computed from that is not: scores, products of planes, weights of multipliers. So
the lower bound after a resume is that of the restored dual point, computed anew, and the objective of the
restored incumbent is compared with the one in the file when it is first evaluated.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from maxmargin.checkpoints import CONTRADICTIONS, CheckpointError, shown
from maxmargin.core.bundle import Bundle
from maxmargin.core.bundle_solution import DualPoint
from maxmargin.core.contract.risk import Risk, WideFit
from maxmargin.core.contract.row_duals import DualsInShards, RowDuals
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.cut import Cut
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.rounding import UpperBound
from maxmargin.core.stored_values import count, entries, floats, integers, number
from maxmargin.core.user_warnings import warn_user
from maxmargin.core.vectors import SparseVector, Vector, frozen
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.row_ascent import PlaneDual, RowsDual, ShardsDual
from maxmargin.solvers.sets_dual import SetsDual

#: the least C that can occur
TINY = float(np.finfo(np.float64).tiny)


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
        f"{_name(name)} was {shown(before.get(name))} and is {shown(now.get(name))}"
        for name in names
        if isinstance(before.get(name), np.ndarray) or before.get(name) != now.get(name)
    ]


def _name(name: Any) -> str:
    return shown(name)[1:-1] if isinstance(name, str) else shown(name)


# -- writing ---------------------------------------------------------------------------------------


def snapshot(state: SolverState, memory: Any, url: str | None = None) -> dict[str, Any]:
    """The state as plain values. ``memory`` is what :func:`kept_memory` made of the solver's own. If the
    checkpoint is at a URL, multipliers that are in shards are written there, by the shards."""
    return {
        "w": state.w,
        "upper": state.upper,
        "lower": state.lower,
        "stop": state.stop,
        "phase": state.phase,
        "place": state.resumed if state.place is None else state.place(),
        "memory": memory,
        "duals": {
            method: {"C": duals.C, **_state_of(duals, url)} for method, duals in state.duals.items()
        },
        "dual": _dual(state.dual, state),
    }


def _state_of(duals: RowDuals, url: str | None) -> dict[str, Any]:
    if url is None or not isinstance(duals, DualsInShards):
        return duals.state()
    name = f"part-{secrets.token_hex(8)}"
    try:
        duals.save_shards(url, name)
    except OSError as error:  # must not end a long fit
        warn_user(f"shards could not write their multipliers, which are gathered instead: {error}")
        return duals.state()
    return {"url": url, "part": name}


def parts_in_shards(parts: Sequence[dict[str, Any]]) -> list[str]:
    """The parts in shards that these states refer to."""
    return [own["part"] for kept in parts for own in kept["duals"].values() if "part" in own]


def kept_memory(memory: Any) -> dict[str, Any] | None:
    """A solver's own memory as plain values, those that change copied (they are few)."""
    if memory is None:
        return None
    if type(memory) is Bundle:
        kept = memory.state()
        return {"kind": "bundle", **kept, "planes": [_vector(plane) for plane in kept["planes"]]}
    if isinstance(memory, WorkingSets):
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
        case SetsDual(sets):
            # after cutting planes took over from working sets, the memory is theirs
            return {"kind": "sets", "own": None if sets is state.memory else sets.state()}
        case RowsDual(duals, C) | ShardsDual(duals, C):
            method = next(name for name, own in state.duals.items() if own is duals)
            return {"kind": "rows", "method": method, "C": C}
    raise CheckpointError(
        f"checkpoint=: a dual point of type {type(dual).__name__} cannot be written to a file."
    )


def _vector(v: Vector) -> Any:
    return (v.indices, v.values, v.size) if isinstance(v, SparseVector) else v


# -- reading ---------------------------------------------------------------------------------------


def restore(
    kept: dict[str, Any],
    risk: Risk,
    problem: Problem,
    solver: DualCoordinate | None,
    span: WideFit | None,
) -> SolverState:
    """The state of a snapshot. Kinds, shapes, types and index ranges are checked, because compiled code reads
    these arrays; whether a fit could have produced the numbers is not."""
    try:
        return _restore(kept, risk, problem, solver, span)
    except CheckpointError:
        raise
    except CONTRADICTIONS as error:
        raise CheckpointError(
            f"the checkpoint does not fit this problem: {shown(error)}"
        ) from error


def _restore(
    kept: dict[str, Any],
    risk: Risk,
    problem: Problem,
    solver: DualCoordinate | None,
    span: WideFit | None,
) -> SolverState:
    rows = risk.offers.row_duals
    if span is not None:  # what planes and points are over
        span.restore_columns(*entries(kept, "columns"))
    omega, dim = problem.regularizer, problem.dim
    names = ("w", "upper", "phase", "place", "duals", "memory", "dual")
    w, upper, phase, place, methods, memory, dual = entries(kept, *names)
    w = floats(w, "its weights", (dim,))
    state = SolverState(
        w=frozen(w),
        upper=number(upper, "its objective", finite=False),
        phase=count(phase, "its phase"),
        resumed=_read_place(place),
    )
    for method, own in methods.items():
        (at,) = entries(own, "C")
        if rows is None or method not in problem.methods:
            raise ValueError("its multipliers are those of a method that is not for this problem")
        streaming, blocks = (solver.streaming, solver.layout) if solver else (None, None)
        duals = rows.row_duals(method, number(at, "its C", TINY), omega, streaming, blocks)
        if "part" in own:
            if not isinstance(duals, DualsInShards):
                raise ValueError("its multipliers were written by the shards of an engine")
            duals.restore_shards(*entries(own, "url", "part"))
        else:
            duals.restore(own)
        state.duals[method] = duals
    state.memory = _read_memory(memory, risk, problem)
    state.lower = problem.C * problem.base * problem.n_blocks
    point = _read_dual(dual, state, risk, problem)
    if span is not None:
        planes = list(state.memory.planes) if isinstance(state.memory, Bundle) else []
        planes += point.planes if isinstance(point, DualPoint) else ()
        span.require_columns([w, *planes])
    if point is not None:
        value = number(point.value(omega, dim, UpperBound(state.upper)), "its dual value")
        state.raise_lower(value, point)
    return state


def _read_memory(memory: Any, risk: Risk, problem: Problem) -> Any:
    if memory is None:
        return None
    kind, dim = entries(memory, "kind")[0], problem.dim
    if kind != "bundle":
        return _read_sets(memory, risk, problem)
    vectors = [_read_vector(plane, dim) for plane in entries(memory, "planes")[0]]
    return Bundle.from_state(dim, problem.regularizer, {**memory, "planes": vectors})


def _read_sets(kept: Any, risk: Risk, problem: Problem) -> WorkingSets:
    examples = risk.offers.working_sets
    if examples is None:
        raise ValueError("it holds working sets, which this problem has not")
    sets = examples.working_sets(problem.C, problem.regularizer)
    sets.restore(kept)
    return sets


def _read_dual(
    kept: dict[str, Any] | None, state: SolverState, risk: Risk, problem: Problem
) -> FeasibleDual | None:
    if kept is None:
        return None
    (kind,) = entries(kept, "kind")
    C, dim = problem.C, problem.dim
    match kind:
        case "sets":
            (own,) = entries(kept, "own")
            sets = state.memory if own is None else _read_sets(own, risk, problem)
            if not isinstance(sets, WorkingSets):
                raise ValueError("its dual point is over working sets that it has not")
            return SetsDual(sets)
        case "rows":
            duals = state.duals[entries(kept, "method")[0]]
            if duals.C == C:
                return RowsDual(duals, C)
            # at another C multipliers may move on to what is worth less at this one: a plane does not move
            duals.dual_value(duals.C)
            return PlaneDual(duals.aggregate(), C)
        case "plane":
            offset, plane, error = entries(kept, "offset", "plane", "error")
            offset, error = number(offset, "an offset"), number(error, "the error of a plane")
            return PlaneDual(Cut(offset, _read_vector(plane, dim), error), C)
        case "planes":
            names = ("planes", "offsets", "alpha", "base", "error")
            planes, offsets, alpha, base, error = entries(kept, *names)
            return DualPoint(
                tuple(_read_vector(plane, dim) for plane in planes),
                floats(offsets, "its offsets", (len(planes),)),
                floats(alpha, "its multipliers", (len(planes),)),
                number(base, "the base of its dual point"),
                number(error, "the error of planes"),
            )
    raise ValueError("its dual point is of an unknown kind")


def _read_vector(kept: Any, dim: int) -> Vector:
    if not isinstance(kept, tuple):
        return floats(kept, "the entries of a plane", (dim,))
    indices, values, size = kept
    values = floats(values, "the entries of a plane", (None,))
    integers(indices, "the indices of a plane", (len(values),), below=dim)
    if indices.dtype not in (np.int32, np.int64) or size != dim:
        raise ValueError("a plane of other weights")  # for other types all would be compiled anew
    return SparseVector(indices, values, dim)


def _read_place(place: Any) -> dict[str, Any] | None:
    """Where the loop was: numbers, lists of numbers, and the state of its random numbers. Which of these
    entries there must be, the loop itself says."""
    if place is None:
        return None
    for name, value in place.items():
        if name == "rng":
            np.random.default_rng(0).bit_generator.state = value  # NumPy checks it
        else:
            for one in value if isinstance(value, list) else [value]:
                number(one, name, finite=False)
    return dict(place)
