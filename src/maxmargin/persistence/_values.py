"""Python values as strict JSON and back, with their types.

JSON has null, booleans, numbers, texts and lists; what it lacks is an object whose one key names the type:

    {"tuple": [...]}  {"set": [...]}  {"frozenset": [...]}  {"dict": [[key, value], ...]}  {"float": "inf"}

The numbers 1 and 1.0 stay different because JSON's ``1`` and ``1.0`` are read as int and float.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

#: nesting allowed in labels and parameters, so that a file cannot exhaust the stack
MAX_DEPTH = 32
#: characters of a file's content that an error shows
ECHO = 200
_PLAIN = (type(None), bool, int, str)
_COLLECTIONS: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_SPECIAL_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class ModelFileError(ValueError):
    """A model file is damaged, was made by something else, or contradicts itself."""

    __module__ = "maxmargin.persistence"  # where users find it


class NotStorableError(TypeError):
    """A value has no place in a model file; the text says why. Does not leave this package."""


# -- labels ----------------------------------------------------------------------------------------


def is_label(value: Any, depth: int = 0) -> bool:
    """Whether a value is a str, int, float, bool, None or a (nested) tuple of them; NaN is not."""
    if type(value) is tuple:
        return depth < MAX_DEPTH and all(is_label(part, depth + 1) for part in value)
    return type(value) in _PLAIN or (type(value) is float and not math.isnan(value))


def check_label(label: Any) -> None:
    """Refuse to save a label that the file cannot hold."""
    if not is_label(label):
        kind = f"{type(label).__module__}.{type(label).__qualname__}".removeprefix("builtins.")
        raise ValueError(
            f"the label {shown(label)} ({kind}) cannot be saved: labels in a file are str, int, float (not "
            "NaN), bool, None, or tuples of these, exactly. Rename the labels before fit, as with str(label)."
        )


def are_unique(values: list[Any]) -> bool:
    """Whether no two of these labels are equal."""
    return len(set(values)) == len(values)


# -- to JSON ---------------------------------------------------------------------------------------


def encode(value: Any, depth: int = 0) -> Any:
    """A value as JSON. NumPy scalars become Python's, mappings become dicts."""
    if depth > MAX_DEPTH:
        raise NotStorableError(f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        value = value.item()
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is list:
        return [encode(part, depth + 1) for part in value]
    if isinstance(value, Mapping):
        pairs = [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]
        return {"dict": pairs}
    for name, collection in _COLLECTIONS.items():
        if kind is collection:
            parts = [encode(part, depth + 1) for part in value]
            # the order of a set may differ from run to run; the file shall not
            return {name: parts if collection is tuple else sorted(parts, key=json.dumps)}
    raise NotStorableError(f"it holds a {kind.__name__}")


def dumps(document: Any) -> bytes:
    """JSON text in one fixed form, in UTF-8."""
    options: dict[str, Any] = {"allow_nan": False, "separators": (",", ":")}
    try:
        try:
            return json.dumps(document, ensure_ascii=False, **options).encode("utf-8")
        except UnicodeEncodeError:  # half of a surrogate pair; only an escape can hold it
            return json.dumps(document, **options).encode("ascii")
    except ValueError as error:  # an int of thousands of digits
        raise ValueError(f"the model cannot be written as JSON: {error}") from error


# -- from JSON -------------------------------------------------------------------------------------


def loads(text: str | bytes, what: str) -> Any:
    """Parse strict JSON; ``what`` names the part of the file in errors."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        _check_depth(document, what)
        return document
    except ModelFileError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"{what} is not valid JSON: {shown(error)}") from error


def _check_depth(document: Any, what: str) -> None:
    """Refuse nesting that is deeper than any model's, before something recurses over it."""
    level, depth = [document], 0
    while level := [
        part
        for value in level
        if isinstance(value, dict | list)
        for part in (value.values() if isinstance(value, dict) else value)
        if isinstance(part, dict | list)
    ]:
        depth += 1
        if depth > 4 * MAX_DEPTH:
            raise ModelFileError(f"{what} is nested more than {4 * MAX_DEPTH} deep")


def _no_constant(name: str) -> Any:
    raise ModelFileError(f"the JSON holds {name}, which is not a JSON value")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ModelFileError(f"the JSON repeats a name: {shown(sorted(key for key, _ in pairs))}")
    return out


def decode(stored: Any, what: str, depth: int = 0) -> Any:
    """The value that :func:`encode` wrote; ``what`` names it in errors."""
    if depth > MAX_DEPTH:
        raise ModelFileError(f"{what} is nested more than {MAX_DEPTH} deep")
    if isinstance(stored, float):
        if not math.isfinite(stored):
            raise ModelFileError(f"{what} holds a number too large for a float")
        return stored
    if isinstance(stored, list):
        return [decode(part, what, depth + 1) for part in stored]
    if not isinstance(stored, dict):
        return stored
    if len(stored) != 1:
        raise ModelFileError(f"{what} holds an object of unknown form: {shown(stored)}")
    ((tag, content),) = stored.items()
    if tag == "float" and isinstance(content, str) and content in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[content]
    if tag in _COLLECTIONS and isinstance(content, list):
        parts = [decode(part, what, depth + 1) for part in content]
        if tag == "tuple":
            return tuple(parts)
        if not all(is_label(part) for part in parts) or not are_unique(parts):
            raise ModelFileError(f"{what} holds a {tag} whose members are not distinct labels")
        return _COLLECTIONS[tag](parts)
    if tag == "dict" and isinstance(content, list):
        return _decode_dict(content, what, depth)
    raise ModelFileError(f"{what} holds an object of unknown form: {shown(stored)}")


def _decode_dict(content: list[Any], what: str, depth: int) -> dict[Any, Any]:
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in content):
        raise ModelFileError(f"{what} holds a dict that is not a list of pairs")
    keys = [decode(pair[0], what, depth + 1) for pair in content]
    if not all(is_label(key) for key in keys) or not are_unique(keys):
        raise ModelFileError(f"{what} holds a dict whose keys are not distinct labels")
    return dict(zip(keys, (decode(pair[1], what, depth + 1) for pair in content), strict=True))


def decode_labels(stored: Any, what: str) -> list[Any]:
    """A list of distinct labels."""
    labels = decode(stored, what)
    if not isinstance(labels, list) or not all(is_label(label) for label in labels):
        raise ModelFileError(f"{what} must be a list of labels; the file has {shown(stored)}")
    if not are_unique(labels):
        raise ModelFileError(f"{what} are not distinct")
    return labels


def section(
    stored: Any, what: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A JSON object with exactly the names that belong there."""
    if not isinstance(stored, dict):
        raise ModelFileError(f"{what} must be a JSON object; the file has {shown(stored)}")
    if missing := [name for name in required if name not in stored]:
        raise ModelFileError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(set(stored) - set(required) - set(optional)):
        raise ModelFileError(f"{what} has entries that do not belong there: {shown(unknown)}")
    return stored


def count(stored: Any, what: str, least: int = 0) -> int:
    """An int that is not a bool and not below ``least``."""
    if type(stored) is not int or not least <= stored < 2**62:
        raise ModelFileError(f"{what} must be an int of at least {least}, not {shown(stored)}")
    return stored


def shown(value: Any) -> str:
    """Content of a file in the text of an error: cut, and in letters that can be printed anywhere."""
    text = str(value) if isinstance(value, Exception) else repr(value)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= ECHO else text[: ECHO - 3] + "..."
