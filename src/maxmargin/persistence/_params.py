"""Parameters of estimators in a model file: plain values, arrays, and objects of :mod:`._objects`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.estimators.kernel.methods import METHODS
from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.files.codec import CONTRADICTIONS, Decoder, Encoder, FormatError
from maxmargin.losses import ScoreLoss
from maxmargin.persistence._fields import is_label, is_number, section
from maxmargin.persistence._objects import (
    RULES,
    SOLVERS,
    convert,
    is_numeric,
    makers,
    own_loss,
)

#: parameters that are code or belong to one fit: a loaded estimator has no callbacks and no checkpoint, and
#: the caller passes its task
NOT_STORED = frozenset({"callbacks", "task", "checkpoint"})
#: length of a string
_LONGEST = 200


# -- what a parameter may hold ---------------------------------------------------------------------


def _word(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _seed(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 2**63)


def _plain(value: Any) -> bool:
    return value is None or _word(value) or is_number(value)


def _dict_of(fits: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, dict) and all(is_label(k) and fits(v) for k, v in value.items())


def _matrix(value: Any) -> bool:
    return (
        isinstance(value, list | tuple | np.ndarray) and is_numeric(value) and np.ndim(value) == 2
    )


def _dependencies(value: Any) -> bool:
    return _word(value) or (_matrix(value) and np.asarray(value).dtype.kind in "iu")


def _pairs(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and is_label(tuple(pair))
        for pair in value
    )


def _weight_names(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and all(map(is_label, value)))


#: a parameter that is not listed must be None, a number or a string
_HOLDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("C", "degree", "coef0", "memory", "max_kernel_values", "beta"), is_number),
    **dict.fromkeys(("epsilon", "intercept_scaling", "verbose", "wrong_cost"), is_number),
    **dict.fromkeys(("min_count", "max_exact_length"), is_number),
    **dict.fromkeys(
        ("k", "max_iter", "max_seconds", "n_jobs", "horizontal", "beam"),
        lambda value: value is None or is_number(value),
    ),
    **dict.fromkeys(
        ("fit_intercept", "penalize_intercept", "warm_start", "parents", "attributes"),
        lambda value: isinstance(value, int),
    ),
    **dict.fromkeys(("decision_function_shape", "multi_class", "edges", "inference"), _word),
    **dict.fromkeys(
        ("loss", "measure"), lambda value: _word(value) or isinstance(value, ScoreLoss)
    ),
    **dict.fromkeys(
        ("method", "kernel_method"), lambda value: _word(value) or type(value) in METHODS
    ),
    **dict.fromkeys(("nonnegative", "nonpositive"), _weight_names),
    "query_weight": _word,
    "dependencies": _dependencies,
    "random_state": _seed,
    "max_support": lambda value: is_number(value) and math.isfinite(value),
    "tol": lambda value: is_number(value) or isinstance(value, RULES),
    "solver": lambda value: _word(value) or isinstance(value, SOLVERS),
    "kernel": lambda value: value is None or _word(value),
    "gamma": lambda value: _word(value) or is_number(value),
    "rescaling": lambda value: value in ("margin", "slack"),
    "order": lambda value: value in (1, 2),
    "engine": lambda value: value in ("threads", "processes", "ray"),  # no addresses, no objects
    "oracle": lambda value: value in ("cheap", "expensive"),
    "partial": lambda value: value in (None, "complete"),
    "class_weight": lambda value: value is None or _word(value) or _dict_of(is_number, value),
    "cost": lambda value: value is None or _dict_of(is_number, value) or _matrix(value),
    "fixed": lambda value: value is None or _dict_of(is_numeric, value),
    "prior": lambda value: value is None or isinstance(value, GaussianPrior),
    "pair_weight": lambda value: _word(value) or _matrix(value),
    "forbidden_transitions": lambda value: value is None or _word(value) or _pairs(value),
}


# -- writing and reading ---------------------------------------------------------------------------


def storable_params(estimator: Any) -> dict[str, Any]:
    """The parameters that a file can hold. Others are left out, with a warning."""
    out: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in NOT_STORED:
            continue
        own = own_loss(value)
        encoder = Encoder(share=False, convert=convert)
        try:  # what could not be loaded is not written
            stored = encoder.encode(value)
            _check(name, Decoder(encoder.arrays, makers(own)).decode(stored))
            out[name] = value
        except CONTRADICTIONS as error:
            if own is not None:
                raise
            warnings.warn(
                f"the parameter {name}={value!r} cannot be stored ({error}); the loaded estimator will have "
                "the default instead. Its predictions do not depend on it.",
                UserWarning,
                stacklevel=4,
            )
    return out


def read_params(cls: Any, stored: Any) -> dict[str, Any]:
    """The parameters, checked by name and type."""
    known = tuple(name for name in cls._get_param_names() if name not in NOT_STORED)
    out = section(stored, f"the parameters of {cls.__name__}", (), known)
    for name, value in out.items():
        _check(name, value)
    if cls is LinearSVC and isinstance(out.get("cost"), dict):  # other estimators take these
        raise FormatError("the parameter cost holds a value of a type that it cannot have")
    return out


def _check(name: str, value: Any) -> None:
    if not _HOLDS.get(name, _plain)(value):
        raise FormatError(f"the parameter {name} holds a value of a type that it cannot have")
