"""The accepted forms of a token with named features, and their validation.

A token is a dict of features, a list or set of strings, or a string. Every error names the sequence, the
token and the feature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Complex, Real
from typing import Any, NoReturn

#: types of values that need no validation
PLAIN = {str, float, int, bool}
_NAMES = {str}


def features_of(token: object, i: int, t: int) -> Mapping[Any, Any]:
    """The features of token t of sequence i by name: numbers, strings, or lists of strings."""
    if isinstance(token, Mapping):
        if PLAIN.issuperset(map(type, token.values())):
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
        f"token {t} of sequence {i} is {cut(token)}, a {type(token).__name__}: a token must be a dict of "
        "features, a list of strings or a string. For numeric features, pass one matrix per sequence. For "
        "one sequence, pass [X], and [y] in fit."
    )


def _require_strings(names: list[Any], i: int, t: int) -> None:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"token {t} of sequence {i} is a list of names that contains {cut(name)}, a "
                f"{type(name).__name__}: names of features must be strings. Pass numbers with names as a "
                "dict {name: value}, and numbers alone as a matrix with a row per token."
            )


def _flat(token: Mapping[Any, Any], i: int, t: int) -> dict[Any, Any]:
    """The values of a dict, validated. Nested dicts are flattened as in python-crfsuite."""
    out: dict[Any, Any] = {}
    for name, value in token.items():
        if type(value) in PLAIN:
            out[name] = value
        elif isinstance(value, Mapping):
            for inner, amount in _nested(str(name), value, i, t):
                out[inner] = amount
        elif _is_collection(value):
            out[name] = list(_strings(name, value, i, t))
        else:
            out[name] = number(name, value, i, t)
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
            yield name, number(name, value, i, t)


def _is_collection(value: object) -> bool:
    if isinstance(value, str | bytes) or getattr(value, "shape", None) == ():
        return False
    return isinstance(value, Iterable)


def _strings(name: object, values: Iterable[object], i: int, t: int) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            _refuse(name, f"a {type(values).__name__} that contains {cut(value)}", i, t)
        yield value


def number(name: object, value: Any, i: int, t: int) -> float:
    """The value of one feature; anything but a number is an error."""
    if value is None:
        _refuse(name, "None", i, t, " Leave out unknown values.")
    if isinstance(value, bytes):
        _refuse(name, f"{cut(value)}, of bytes", i, t, " Decode it first.")
    if isinstance(value, Complex) and not isinstance(value, Real):
        _refuse(name, f"the complex number {value}", i, t)
    try:
        return float(value)
    except OverflowError:
        _refuse(name, "too large a number", i, t)
    except (TypeError, ValueError):
        _refuse(name, f"a {type(value).__name__}", i, t)


def _refuse(name: object, what: str, i: int, t: int, advice: str = "") -> NoReturn:
    raise TypeError(
        f"feature {cut(name)} of token {t} in sequence {i} is {what}: the value of a feature must be a "
        f"number, a string, a list of strings, or a dict of these.{advice}"
    )


def cut(value: object) -> str:
    """The representation of a value, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
