"""Parameters of estimators in a model file: plain values, and solvers, stopping rules and settings of kernel
methods from lists."""

from __future__ import annotations

import math
import types
import typing
import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from maxmargin.core.sampling import Sampler
from maxmargin.estimators.kernel.methods import METHODS
from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.losses import ScoreLoss
from maxmargin.persistence._arrays import DTYPES, ArrayReader, ArrayWriter
from maxmargin.persistence._losses import own_loss, read_loss, store_loss
from maxmargin.persistence._values import (
    ECHO,
    ModelFileError,
    NotStorableError,
    decode,
    encode,
    is_label,
    section,
    shown,
)
from maxmargin.solvers import (
    AbsoluteGap,
    Auto,
    ByMargin,
    CuttingPlane,
    DualCoordinate,
    Newton,
    NonZeroLoss,
    RelativeGap,
    RiskEpsilon,
    UniformSample,
)

#: parameters that are code; a loaded estimator has no callbacks, and its task comes from the caller. A
#: checkpoint is a file of the fit that was, not of the next one.
NOT_STORED = frozenset({"callbacks", "task", "checkpoint"})

#: what a prior holds
PRIOR = tuple(f.name for f in fields(GaussianPrior))

#: parameters that may be arrays
MATRICES = frozenset({"cost", "pair_weight"})

_RULES = (RelativeGap, AbsoluteGap, RiskEpsilon)
_SOLVERS = (Auto, CuttingPlane, DualCoordinate, Newton)
#: who draws examples: in the settings of sampled cuts
_SAMPLERS = (NonZeroLoss, UniformSample, ByMargin)
#: the only objects a file may ask for
OBJECTS: dict[str, type] = {cls.__name__: cls for cls in (*_RULES, *_SOLVERS, *_SAMPLERS)}


def _known() -> dict[str, type]:
    return OBJECTS | {cls.__name__: cls for cls in METHODS}


# -- what a parameter may hold ---------------------------------------------------------------------


def _number(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) < 2**63  # more than that is no number to NumPy
    return isinstance(value, float) and not math.isnan(value)


def _whole(value: Any) -> bool:
    return _number(value) and math.isfinite(value)


def _seed(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 2**63)


def _number_or_none(value: Any) -> bool:
    return value is None or _number(value)


def _flag(value: Any) -> bool:
    return isinstance(value, int)


def _word(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= ECHO


def _plain(value: Any) -> bool:
    return value is None or _word(value) or _number(value)


def _label_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(_number(factor) for factor in value.values())


def _matrix(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 2
    return isinstance(value, list | tuple) and all(
        isinstance(row, list | tuple) and all(_number(entry) for entry in row) for row in value
    )


def _row_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu"


def _fixed_weights(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _number(v) or (isinstance(v, list | tuple) and all(_number(one) for one in v))
        for v in value.values()
    )


def _pairs(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and is_label(tuple(pair))
        for pair in value
    )


def _weight_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(is_label(name) for name in value)


#: a parameter that is not listed must be None, a number or a text
_HOLDS: dict[str, Callable[[Any], bool]] = {
    "C": _number,
    "tol": lambda value: _number(value) or isinstance(value, _RULES),
    "solver": lambda value: _word(value) or isinstance(value, _SOLVERS),
    "kernel": lambda value: value is None or _word(value),
    "kernel_method": lambda value: _word(value) or type(value) in METHODS,
    "gamma": lambda value: _word(value) or _number(value),
    "degree": _number,
    "coef0": _number,
    "method": lambda value: _word(value) or type(value) in METHODS,
    "decision_function_shape": _word,
    "memory": _number,
    "max_kernel_values": _number,
    "loss": lambda value: _word(value) or isinstance(value, ScoreLoss),
    "multi_class": _word,
    "measure": lambda value: _word(value) or isinstance(value, ScoreLoss),
    "beta": _number,
    "k": _number_or_none,
    "rescaling": lambda value: value in ("margin", "slack"),
    "order": lambda value: value in (1, 2),
    "engine": lambda value: value in ("threads", "processes", "ray"),  # no addresses, no objects
    "oracle": lambda value: value in ("cheap", "expensive"),
    "partial": lambda value: value in (None, "complete"),
    "fit_intercept": _flag,
    "penalize_intercept": _flag,
    "warm_start": _flag,
    "epsilon": _number,
    "intercept_scaling": _number,
    "max_iter": _number_or_none,
    "max_support": _whole,
    "max_seconds": _number_or_none,
    "n_jobs": _number_or_none,
    "random_state": _seed,
    "verbose": _number,
    "class_weight": lambda value: value is None or _word(value) or _label_numbers(value),
    "cost": lambda value: value is None or _label_numbers(value) or _matrix(value),
    "edges": _word,
    "inference": _word,
    "fixed": lambda value: value is None or _fixed_weights(value),
    "nonnegative": lambda value: value is None or _weight_names(value),
    "nonpositive": lambda value: value is None or _weight_names(value),
    "prior": lambda value: value is None or isinstance(value, GaussianPrior),
    "pair_weight": lambda value: _word(value) or _matrix(value),
    "query_weight": _word,
    "wrong_cost": _number,
    "horizontal": _number_or_none,
    "parents": _flag,
    "attributes": _flag,
    "min_count": _number,
    "beam": _number_or_none,
    "max_exact_length": _number,
    "forbidden_transitions": lambda value: value is None or _word(value) or _pairs(value),
}


# -- writing ---------------------------------------------------------------------------------------


def store_params(estimator: Any, writer: ArrayWriter) -> dict[str, Any]:
    """The parameters as JSON. What cannot be stored is left out, with a warning."""
    out: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in NOT_STORED:
            continue
        try:
            stored = _store(name, value, writer)
            # the same check as on loading, on the value as it will come back
            if not isinstance(value, np.ndarray | GaussianPrior):
                _restore(name, stored, None, own_loss(value))
            out[name] = stored
        except (NotStorableError, ModelFileError) as error:
            warnings.warn(
                f"the parameter {name}={value!r} cannot be stored ({error}); the loaded estimator will have "
                "the default instead. Its predictions do not depend on it.",
                UserWarning,
                stacklevel=4,
            )
    return out


def _store(name: str, value: Any, writer: ArrayWriter) -> Any:
    if type(value) in _known().values():
        contents = {f.name: _store(f.name, getattr(value, f.name), writer) for f in fields(value)}
        return {"object": type(value).__name__, "fields": contents}
    if isinstance(value, ScoreLoss):
        return {"loss_object": store_loss(value)}
    if name == "prior" and isinstance(value, GaussianPrior):
        return {"gaussian_prior": _store_prior(value, writer)}
    if name == "landmarks" and _row_numbers(value):
        return {"row_numbers": [int(number) for number in value]}
    if isinstance(value, np.ndarray):
        if name not in MATRICES or value.ndim != 2 or not np.isfinite(value).all():
            raise NotStorableError("it is an array that does not belong there")
        writer.add(f"param.{name}", value)
        return {"array": f"param.{name}"}
    return encode(value)


def _store_prior(prior: GaussianPrior, writer: ArrayWriter) -> dict[str, list[int]]:
    """Arrays to the writer, one or several (blocks) of a field; their numbers of dimensions as JSON."""
    arrays: dict[str, list[Any]] = {}
    for name in PRIOR:
        value: Any = getattr(prior, name)
        if value is None:
            continue
        if not isinstance(value, np.ndarray | list | tuple | float | int | np.number):
            raise NotStorableError(f"its {name} is a {type(value).__name__}")
        parts: list[Any] = [value]
        if isinstance(value, list | tuple) and all(np.ndim(part) == 2 for part in value):
            parts = list(value)
        arrays[name] = [np.asarray(part, dtype=np.float64) for part in parts]
    for name, found in arrays.items():
        for k, array in enumerate(found):
            writer.add(f"param.prior.{name}.{k}", np.atleast_1d(array))
    return {name: [array.ndim for array in found] for name, found in arrays.items()}


# -- reading ---------------------------------------------------------------------------------------


def read_params(
    cls: Any, stored: Any, reader: ArrayReader, loss: type[ScoreLoss] | None = None
) -> dict[str, Any]:
    """The parameters, checked by name and type; ``loss`` is the class of a loss of the user's own."""
    known = tuple(name for name in cls._get_param_names() if name not in NOT_STORED)
    entries = section(stored, f"the parameters of {cls.__name__}", (), known)
    out = {name: _restore(name, value, reader, loss) for name, value in entries.items()}
    if cls is LinearSVC and isinstance(out.get("cost"), dict):  # other estimators take these
        raise ModelFileError(
            "the parameter cost holds a value of a kind that does not belong there"
        )
    return out


def _restore(
    name: str, stored: Any, reader: ArrayReader | None, loss: type[ScoreLoss] | None = None
) -> Any:
    what = f"the parameter {name}"
    value: Any
    if isinstance(stored, dict) and "loss_object" in stored:
        value = read_loss(section(stored, what, ("loss_object",))["loss_object"], what, loss)
    elif isinstance(stored, dict) and "object" in stored:
        value = _restore_object(stored, what)
    elif isinstance(stored, dict) and "gaussian_prior" in stored and reader is not None:
        value = _restore_prior(stored, what, reader)
    elif stored == {"array": f"param.{name}"} and name in MATRICES and reader is not None:
        value = reader.take(f"param.{name}", DTYPES, (None, None))
    else:
        value = decode(stored, what)
    if not _HOLDS.get(name, _plain)(value):
        raise ModelFileError(f"{what} holds a value of a kind that does not belong there")
    return value


def _restore_object(stored: dict[str, Any], what: str) -> Any:
    stored = section(stored, what, ("object", "fields"))
    name = stored["object"]
    known = _known()
    if not isinstance(name, str) or name not in known:
        raise ModelFileError(
            f"{what} asks for an object {shown(name)}, which a model file may not hold"
        )
    cls = known[name]
    hints = typing.get_type_hints(cls)
    own = tuple(f.name for f in fields(cls))
    contents = section(stored["fields"], f"{name} in {what}", (), own)
    values = {key: _restore_field(value, f"{name}.{key}") for key, value in contents.items()}
    for key, value in values.items():
        if not _matches(value, hints[key]):
            raise ModelFileError(f"{name}.{key} in {what} is {shown(value)}, not {hints[key]}")
    try:
        return cls(**values)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{name} in {what} is not valid: {shown(error)}") from error


def _restore_field(stored: Any, what: str) -> Any:
    if type(stored) is dict and "object" in stored:
        return _restore_object(stored, what)
    if type(stored) is dict and "row_numbers" in stored:
        numbers = section(stored, what, ("row_numbers",))["row_numbers"]
        known = isinstance(numbers, list) and all(type(n) is int for n in numbers)
        if not known or not all(abs(n) < 2**63 for n in numbers):
            raise ModelFileError(f"{what} are not numbers of rows")
        return np.array(numbers, dtype=np.int64)
    return decode(stored, what)


def _restore_prior(stored: dict[str, Any], what: str, reader: ArrayReader) -> GaussianPrior:
    held = section(stored, what, ("gaussian_prior",))["gaussian_prior"]
    values: dict[str, Any] = {}
    for name, dims in section(held, what, (), PRIOR).items():
        known = isinstance(dims, list) and all(type(n) is int and 0 <= n <= 2 for n in dims)
        if not (known and dims):
            raise ModelFileError(f"{name} of {what} does not say what it holds")
        shapes: list[Any] = [(None,) * n or (1,) for n in dims]  # a number is an array of one
        arrays = [reader.take(f"param.prior.{name}.{k}", shape=s) for k, s in enumerate(shapes)]
        values[name] = arrays if len(arrays) > 1 else arrays[0] if dims[0] else float(arrays[0][0])
    try:
        return GaussianPrior(**values)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{what} is not valid: {shown(error)}") from error


def _matches(value: Any, hint: Any) -> bool:
    """Whether a value fits a field's type: float, int, bool, None, Literal, Any, Sampler or a union."""
    if isinstance(value, _SAMPLERS):
        return hint is Sampler
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_matches(value, part) for part in typing.get_args(hint))
    if hint is typing.Any:  # a word or a number, or numbers of rows
        if isinstance(value, list):
            return all(type(number) is int for number in value)
        return isinstance(value, np.ndarray) or is_label(value)
    if hint is float:
        return type(value) in (int, float) and _number(value)
    return type(value) is hint and (hint is not int or _number(value))
