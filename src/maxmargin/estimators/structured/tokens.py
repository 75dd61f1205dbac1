"""Input validation of one sequence: a matrix of numbers, or tokens with named features.

All accepted forms of a sequence are defined here. Every error names the sequence, the token and the
feature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Complex, Real
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

#: types of values that DictVectorizer accepts
_PLAIN = {str, float, int, bool}
_NAMES = {str}
_FORMS = (
    "A sequence is a matrix with a row per token, or a list of tokens; a token is a dict of features, a list "
    "of strings, or a string."
)


def is_path(X: Any) -> bool:
    """Whether this is a string or a path instead of data."""
    return isinstance(X, str | bytes) or hasattr(X, "__fspath__")


def as_array(x: Any, what: str) -> npt.NDArray[Any]:
    """Convert a data frame or a tensor of another library to a NumPy array."""
    try:
        return np.asarray(x)
    except Exception as error:  # for example a tensor on a GPU, or one that requires a gradient
        raise TypeError(
            f"{what} is a {type(x).__name__} that NumPy cannot read: {error}"
        ) from error


def sequence(x: Any, i: int) -> Any:
    """One sequence: a 2-D array or sparse matrix of numbers, or a list of tokens with named features."""
    if sp.issparse(x):
        return x
    if is_path(x):
        raise TypeError(
            f"sequence {i} of X is the string {_cut(x)}, not a list of tokens. For one sequence, pass [X], "
            f"and [y] in fit. Split strings into tokens first. {_FORMS}"
        )
    if isinstance(x, Mapping):
        raise TypeError(
            f"sequence {i} of X is a dict, which is one token, not a list of tokens. X must be a list of "
            f"sequences: for one sequence, pass [X], and [y] in fit. {_FORMS}"
        )
    if not isinstance(x, np.ndarray | list | tuple) and hasattr(x, "__array__"):
        x = as_array(x, f"sequence {i} of X")
    if isinstance(x, np.ndarray):
        return _from_array(x, i)
    if not isinstance(x, Iterable):
        raise TypeError(f"sequence {i} of X is a {type(x).__name__}. {_FORMS}")
    tokens = list(x)
    if tokens and _is_row(tokens[0]):
        return _from_rows(tokens, i)
    return tokens


def _from_array(x: npt.NDArray[Any], i: int) -> Any:
    numbers = x.dtype.kind in "biuf"
    if x.ndim == 2 and x.dtype.kind not in "US":
        return x if numbers else _as_numbers(x, i)
    if x.ndim == 1 and not numbers:
        return sequence(x.tolist(), i)
    if x.ndim == 2:
        return x.tolist()
    raise ValueError(
        f"sequence {i} of X is an array of shape {x.shape}, but must be a matrix with one row per token. If "
        "X is one sequence, pass [X], and [y] in fit."
    )


def _as_numbers(x: npt.NDArray[Any], i: int) -> npt.NDArray[np.float64]:
    """Convert a matrix of objects, such as a data frame whose columns have different types."""
    try:
        return x.astype(np.float64)
    except (TypeError, ValueError) as error:
        t, j = next(
            (t, j)
            for t, row in enumerate(x)
            for j, value in enumerate(row)
            if not _is_number(value)
        )
        raise TypeError(
            f"sequence {i} of X is a matrix with {_cut(x[t, j])} at token {t}, column {j}, which is not a "
            "number. For features that are strings, pass tokens as dicts (for a data frame: "
            "frame.to_dict('records'))."
        ) from error


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes):  # strings of NumPy have a shape, too
        return False
    return isinstance(value, Real | np.bool_) or (
        getattr(value, "shape", None) == () and hasattr(value, "__array__")
    )


def _is_row(token: Any) -> bool:
    """Whether a token is a row of numbers."""
    if isinstance(token, np.ndarray) or (
        hasattr(token, "__array__") and not isinstance(token, np.generic)
    ):
        array = as_array(token, "a token")
        return array.ndim == 1 and array.dtype.kind in "biuf" and array.size > 0
    return isinstance(token, list | tuple) and len(token) > 0 and _is_number(token[0])


def _from_rows(tokens: list[Any], i: int) -> npt.NDArray[np.float64]:
    """Stack rows of numbers."""
    width = len(tokens[0])
    for t, token in enumerate(tokens):
        if not _is_row(token) or not all(map(_is_number, token)):
            raise TypeError(
                f"token 0 of sequence {i} is a row of numbers, but token {t} is {_cut(token)}: rows must "
                "contain only numbers. Names of features are strings; numbers with names are a dict "
                "{name: value}."
            )
        if len(token) != width:
            raise ValueError(
                f"token 0 of sequence {i} has {width} numbers, but token {t} has {len(token)}: all tokens "
                "must have the same number of features. (If the numbers are names of features, make them "
                "strings.)"
            )
    return np.array([np.asarray(token, dtype=np.float64) for token in tokens])


def named_features(tokens: Iterable[Any], i: int) -> Iterator[Mapping[Any, Any]]:
    """The features of the tokens of a sequence by name, in the form of DictVectorizer."""
    for t, token in enumerate(tokens):
        yield _features(token, i, t)


def _features(token: Any, i: int, t: int) -> Mapping[Any, Any]:
    if isinstance(token, Mapping):
        if _PLAIN.issuperset(map(type, token.values())):
            return token
        return _flat(token, i, t)
    if isinstance(token, str):
        return {token: 1.0}
    if isinstance(token, Iterable) and not isinstance(token, bytes):
        names = list(token)
        if not _NAMES.issuperset(map(type, names)):
            _require_strings(names, i, t)
        return dict.fromkeys(names, 1.0)
    raise TypeError(
        f"token {t} of sequence {i} is {_cut(token)}, a {type(token).__name__}: a token must be a dict of "
        "features, a list of strings or a string. For numeric features, pass one matrix per sequence. For "
        "one sequence, pass [X], and [y] in fit."
    )


def _require_strings(names: list[Any], i: int, t: int) -> None:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"token {t} of sequence {i} is a list of names that contains {_cut(name)}, a "
                f"{type(name).__name__}: names of features must be strings. Pass numbers with names as a "
                "dict {name: value}, and numbers alone as a matrix with a row per token."
            )


def _flat(token: Mapping[Any, Any], i: int, t: int) -> dict[Any, Any]:
    """The values of a dict, validated. Nested dicts are flattened as in python-crfsuite."""
    out: dict[Any, Any] = {}
    for name, value in token.items():
        if type(value) in _PLAIN:
            out[name] = value
        elif isinstance(value, Mapping):
            for inner, number in _nested(str(name), value, i, t):
                out[inner] = number
        elif _is_collection(value):
            out[name] = list(_strings(name, value, i, t))
        else:
            out[name] = _number(name, value, i, t)
    return out


def _nested(prefix: str, values: Mapping[Any, Any], i: int, t: int) -> Iterator[tuple[str, float]]:
    """``{"a": {"b": 2.0, "c": "x", "d": ["y"]}}`` is ``a:b = 2``, ``a:c:x = 1`` and ``a:d:y = 1``."""
    for key, value in values.items():
        name = f"{prefix}:{key}"
        if isinstance(value, str):
            yield f"{name}:{value}", 1.0
        elif isinstance(value, Mapping):
            yield from _nested(name, value, i, t)
        elif _is_collection(value):
            for inner in _strings(name, value, i, t):
                yield f"{name}:{inner}", 1.0
        else:
            yield name, _number(name, value, i, t)


def _is_collection(value: Any) -> bool:
    if isinstance(value, str | bytes) or getattr(value, "shape", None) == ():
        return False
    return isinstance(value, Iterable)


def _strings(name: Any, values: Iterable[Any], i: int, t: int) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            _refuse(name, f"a {type(values).__name__} that contains {_cut(value)}", i, t)
        yield value


def _number(name: Any, value: Any, i: int, t: int) -> float:
    """The value of one feature; anything but a number is an error."""
    if value is None:
        _refuse(name, "None", i, t, " Leave out unknown values.")
    if isinstance(value, bytes):
        _refuse(name, f"{_cut(value)}, of bytes", i, t, " Decode it first.")
    if isinstance(value, Complex) and not isinstance(value, Real):
        _refuse(name, f"the complex number {value}", i, t)
    try:
        return float(value)
    except (TypeError, ValueError):
        _refuse(name, f"a {type(value).__name__}", i, t)


def _refuse(name: Any, what: str, i: int, t: int, advice: str = "") -> NoReturn:
    raise TypeError(
        f"feature {_cut(name)} of token {t} in sequence {i} is {what}: the value of a feature must be a "
        f"number, a string, a list of strings, or a dict of these.{advice}"
    )


def _cut(value: Any) -> str:
    """The representation of a value, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
