"""The state of a solver between two iterations, as plain values, and back.

What is kept is what bounds are proved with (the incumbent, cuts, multipliers), where the loop was, and the
record so far. What can be computed from that is not: scores, products of planes, weights of multipliers. So
the lower bound after a resume is that of the restored dual point, computed anew, and the objective of the
restored incumbent is compared with the one in the file when it is first evaluated.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

import numpy as np

from maxmargin.checkpoints import CheckpointError, shown
from maxmargin.core.bundle import Bundle
from maxmargin.core.bundle_solution import DualPoint
from maxmargin.core.contract.risk import Risk
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.cut import Cut
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Attained
from maxmargin.core.stored_values import count, entries, floats, integers, number
from maxmargin.core.vectors import Array, SparseVector, Vector, frozen
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.row_ascent import PlaneDual, RowsDual, ShardsDual
from maxmargin.solvers.sets_dual import SetsDual

LARGE = float(np.finfo(np.float64).max)
#: what a file may hold that cannot be this problem's: told as a CheckpointError
_UNFIT = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)


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
    kept: dict[str, Any], risk: Risk, problem: Problem, solver: DualCoordinate | None
) -> SolverState:
    """The state of a snapshot, with bounds that hold for this problem."""
    try:
        return _restore(kept, risk, problem, solver)
    except CheckpointError:
        raise
    except _UNFIT as error:
        raise CheckpointError(
            f"the checkpoint does not fit this problem: {shown(error)}"
        ) from error


def _restore(
    kept: dict[str, Any], risk: Risk, problem: Problem, solver: DualCoordinate | None
) -> SolverState:
    kept_planes, rows = risk.offers.kept_planes, risk.offers.row_duals
    if kept_planes is not None:  # what planes and points are over
        kept_planes.restore_columns(*entries(kept, "columns"))
    omega, dim = problem.regularizer, problem.dim
    names = ("w", "upper", "phase", "place", "duals", "memory", "dual")
    w, upper, phase, place, methods, memory, dual = entries(kept, *names)
    w = floats(w, "its weights", (dim,))
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(omega.value(w)):
            raise ValueError("its weights are so large that their norm overflows")
    state = SolverState(
        w=frozen(w),
        upper=number(upper, "its objective", -LARGE, finite=False),
        phase=count(phase, "its phase", most=1000),
    )
    state.resumed = _read_place(place, problem)
    if not isinstance(methods, dict) or not all(type(name) is str for name in methods):
        raise ValueError("its multipliers are not those of methods")
    for method, own in methods.items():
        (at,) = entries(own, "C")
        if rows is None or method not in problem.methods:
            raise ValueError("its multipliers are those of a method that is not for this problem")
        at = _positive(at, "C of its multipliers")
        streaming, blocks = (solver.streaming, solver.layout) if solver else (None, None)
        duals = rows.row_duals(method, at, omega, streaming, blocks)
        duals.restore(own)
        state.duals[method] = duals
    state.memory = _read_memory(memory, risk, problem)
    state.lower = problem.C * problem.base * problem.n_blocks
    point = _read_dual(dual, state, risk, problem)
    if kept_planes is not None:
        planes = list(state.memory.planes) if isinstance(state.memory, Bundle) else []
        planes += point.planes if isinstance(point, DualPoint) else ()
        kept_planes.require_columns([w, *planes])
    if point is not None:
        state.raise_lower(_finite(point.value(omega, dim, Attained(state.upper))), point)
    return state


def _read_memory(memory: Any, risk: Risk, problem: Problem) -> Any:
    if memory is None:
        return None
    omega, dim = problem.regularizer, problem.dim
    (kind,) = entries(memory, "kind")
    if type(kind) is str and kind == "bundle":
        planes, base = entries(memory, "planes", "base")
        if type(planes) is not list:
            raise ValueError("its planes are not a list")
        vectors = [_read_vector(plane, dim) for plane in planes]
        bundle = Bundle.from_state(dim, omega, {**memory, "planes": vectors})
        if bundle.n_blocks not in (1, problem.n_blocks):
            raise ValueError(f"planes of {bundle.n_blocks} blocks")
        lowest = problem.base * (problem.n_blocks if bundle.n_blocks == 1 else 1)
        if number(base, "the lower bound of its planes") > lowest:
            raise ValueError("its planes lie above the lower bound of the risk")
        return bundle
    return _read_sets(memory, risk, problem)


def _read_sets(kept: Any, risk: Risk, problem: Problem) -> WorkingSets:
    examples = risk.offers.working_sets
    if examples is None:
        raise ValueError("it holds working sets, which this problem has not")
    sets = examples.working_sets(problem.C, problem.regularizer)
    sets.restore(kept)
    _finite(sets.dual_value())
    return sets


def _read_dual(
    kept: dict[str, Any] | None, state: SolverState, risk: Risk, problem: Problem
) -> FeasibleDual | None:
    if kept is None:
        return None
    (kind,) = entries(kept, "kind")
    C, dim = problem.C, problem.dim
    if type(kind) is not str:
        raise ValueError("its dual point is of an unknown kind")
    if kind == "sets":
        (own,) = entries(kept, "own")
        if own is not None:
            return SetsDual(_read_sets(own, risk, problem))
        if not isinstance(state.memory, WorkingSets):
            raise ValueError("its dual point is over working sets that it has not")
        return SetsDual(state.memory)
    if kind == "rows":
        (method,) = entries(kept, "method")
        if type(method) is not str or method not in state.duals:
            raise ValueError("its dual point is of a method that it has not")
        duals = state.duals[method]
        if duals.C == C:
            return RowsDual(duals, C)
        # at another C multipliers may move on to what is worth less at this one: a plane does not move
        duals.dual_value(duals.C)
        return PlaneDual(duals.aggregate(), C)
    if kind == "plane":
        offset, plane, error = entries(kept, "offset", "plane", "error")
        error = number(error, "the error of a plane", 0.0)
        return PlaneDual(Cut(number(offset, "an offset"), _read_vector(plane, dim), error), C)
    if kind != "planes":
        raise ValueError("its dual point is of an unknown kind")
    names = ("planes", "offsets", "alpha", "base", "error")
    planes, offsets, alpha, base, error = entries(kept, *names)
    if type(planes) is not list:
        raise ValueError("its planes are not a list")
    alpha = floats(alpha, "its multipliers", (len(planes),))
    offsets = floats(offsets, "its offsets", (len(planes),))
    if not (alpha >= 0.0).all():
        raise ValueError("its multipliers are not feasible")
    if alpha.sum() > problem.n_blocks * C * (1.0 + 1e-9):
        raise ValueError(f"its multipliers add up to {alpha.sum()}, more than C allows")
    vectors = tuple(_read_vector(plane, dim) for plane in planes)
    base = number(base, "the base of its dual point")
    if problem.base == 0.0 and base > 0.0:
        raise ValueError("its zero planes lie above the lower bound of the risk")
    return DualPoint(vectors, offsets, alpha, base, number(error, "the error of planes", 0.0))


def _read_vector(kept: Any, dim: int) -> Vector:
    if not isinstance(kept, tuple):
        return floats(kept, "the entries of a plane", (dim,))
    if len(kept) != 3 or count(kept[2], "the length of a plane") != dim:
        raise ValueError("a plane of other weights")
    indices, values = kept[:2]
    values = floats(values, "the entries of a plane", (None,))
    integers(indices, "the indices of a plane", (len(values),), below=dim)
    if indices.dtype not in (np.int32, np.int64):  # for others all would be compiled anew
        raise ValueError("a plane whose indices are of an unknown type")
    return SparseVector(indices, values, dim)


#: numbers that a loop may note down of where it is, and the least that each can be
_PLACE = {
    "guess": 0.0, "ratio": 0.0, "spent": 0.0, "visited": 0.0, "upper_guess": -np.inf,
}  # fmt: skip


def _read_place(place: Any, problem: Problem) -> dict[str, Any] | None:
    """Where the loop was; which of these entries there must be, the loop itself says."""
    if place is None:
        return None
    if not isinstance(place, dict):
        raise ValueError("the place in its loop is not known")
    out: dict[str, Any] = {}
    for name, value in place.items():
        if name == "rng":
            _read_rng(value)
            out[name] = value
        elif name in ("unconfirmed", "passes", "iterations"):
            out[name] = count(value, name)
        elif name == "seen":
            if type(value) is not list or len(value) % 2:
                raise ValueError("the gaps it has seen are not a list of pairs")
            out[name] = [number(one, "a gap it has seen", finite=False) for one in value]
        elif name == "stages":
            if type(value) is not list:
                raise ValueError("its stages are not a list")
            out[name] = [_positive(C, "C of a stage") for C in value]
            if any(C > problem.C * (1.0 + 1e-9) for C in out[name]):
                raise ValueError("a stage beyond the last one")
        elif type(name) is str and name in _PLACE:
            out[name] = number(value, name, _PLACE[name], finite=name != "upper_guess")
        else:
            raise ValueError("the place in its loop is not known")
    return out


def _read_rng(state: Any) -> None:
    """NumPy's own check, of what is of plain numbers only."""
    plain = isinstance(state, dict) and all(
        type(part) in (str, int, dict) for part in state.values()
    )
    try:
        if not plain:
            raise TypeError
        np.random.default_rng(0).bit_generator.state = state
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError):
        raise ValueError("the state of its random numbers is not one") from None


def _positive(given: Any, what: str) -> float:
    value = number(given, what)
    if not value > 0.0:
        raise ValueError(f"{what} is not positive")
    return value


def _finite(value: float) -> float:
    if not np.isfinite(value):
        raise ValueError("its dual point overflows")
    return value


def compare(
    risk: Risk,
    problem: Problem,
    state: SolverState,
    expected: tuple[Array, float] | None,
    w: Array,
    upper: float,
) -> None:
    """What was restored must be true of the risk, whose value at ``w`` is at most ``upper``: the incumbent
    is worth what was expected, and planes lie nowhere above."""
    proved = risk.offers.proved
    if expected is not None and w is expected[0]:
        before, now = expected[1], problem.regularizer.value(w) + problem.C * upper
        noise = 0.0 if proved is None else 2.0 * problem.C * proved.rounding(w, upper)
        if isinstance(state.memory, Bundle):  # of losses that say nothing of rounding
            noise += problem.C * state.memory.value_error(w)
        if np.isfinite(before) and abs(now - before) > 1e-6 * max(abs(now), abs(before)) + noise:
            raise _untrue(f"its weights had the objective {before:.9g} and have {now:.9g}")
    plain = (
        type(problem.regularizer) is SquaredNorm
    )  # combinations of rows have a product of their own
    if isinstance(state.memory, Bundle) and plain and risk.oracle != "undergenerating":
        model = state.memory.value(w)
        noise = state.memory.value_error(w)
        if proved is not None:
            noise += proved.rounding(w, upper)
        if model > upper + 1e-6 * (abs(upper) + abs(model)) + noise:
            raise _untrue(f"its planes say {model:.9g} of a risk that is {upper:.9g}")


def _untrue(how: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint is not true here: {how}. Features or losses are not what they were; does setup "
        "number features in the same order every time?"
    )
