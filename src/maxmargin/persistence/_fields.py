"""Declarations of fitted attributes: what each holds, and one reader and one writer for all of them.

A table names attributes and the check of each. A shape may contain names: the first length found for a name
is the one that all others must have. Names without an underscore at an end are no attributes: a function of
the model makes these entries.

    {"n_features_in_": count(1, "d"), "coef_": array("d"), "feature_names_in_": optional(classes("d", str))}
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core import stored_values
from maxmargin.files.codec import FormatError, shown

#: nesting allowed in labels
_DEPTH = 32

#: so many labels of an array become Python objects at a time: these take far more memory
_AT_A_TIME = 10_000

#: lengths by name
Sizes = dict[str, int]
#: a value from a file, its name and the lengths known so far: the value, or an error
Check = Callable[[Any, str, Sizes], Any]
Length = int | str | None


class Field(NamedTuple):
    """One attribute."""

    check: Check
    #: it may be missing; None is not stored
    optional: bool = False
    #: is called with the attribute before it is written
    prepare: Callable[[Any], Any] = lambda value: value


Fields = dict[str, Field]


def read_fields(stored: Any, fields: Fields, what: str, sizes: Sizes) -> dict[str, Any]:
    """The attributes of a file, checked in the order of the table; lengths are added to ``sizes``."""
    required = tuple(name for name, field in fields.items() if not field.optional)
    stored = section(stored, what, required, tuple(fields))
    present = [name for name in fields if name in stored]
    return {name: fields[name].check(stored[name], name, sizes) for name in present}


def attributes_of(fields: Fields) -> Fields:
    """The fields that are attributes of an estimator."""
    return {k: field for k, field in fields.items() if k.endswith("_") or k.startswith("_")}


def write_fields(owner: Any, fields: Fields) -> dict[str, Any]:
    """The attributes of an estimator that are in the table."""
    out: dict[str, Any] = {}
    for name, field in attributes_of(fields).items():
        value = getattr(owner, name, None) if field.optional else getattr(owner, name)
        if value is not None or not field.optional:
            out[name] = field.prepare(value)
    return out


def optional(field: Field) -> Field:
    """The same attribute, where it may be missing."""
    return field._replace(optional=True)


# -- kinds of attributes ---------------------------------------------------------------------------


def _measure(length: Length, n: int, name: str, sizes: Sizes) -> None:
    if isinstance(length, str) and sizes.setdefault(length, n) != n:
        raise FormatError(f"{name} has {n} entries where {sizes[length]} are needed")


def array(*shape: Length, of: str = "floats", below: str | None = None) -> Field:
    """Finite numbers in double precision; or ``flags``, or ``integers`` from 0 on, below this length."""

    def check(value: Any, name: str, sizes: Sizes) -> Any:
        wanted = tuple(sizes.get(n) if isinstance(n, str) else n for n in shape)
        options = {} if below is None else {"below": sizes[below]}
        getattr(stored_values, of)(value, f"the entries of {name}", wanted, **options)
        for length, n in zip(shape, value.shape, strict=True):
            _measure(length, n, name, sizes)
        return value

    return Field(check)


def count(least: int = 0, length: str = "") -> Field:
    """An integer of at least ``least``; it may be a length that others are compared with."""

    def check(value: object, name: str, sizes: Sizes) -> int:
        sizes[length] = stored_values.count(value, name, least)
        return sizes[length]

    return Field(check)


def of_type(*kinds: type) -> Field:
    """A value of one of these types; numbers may be infinite or NaN."""

    def check(value: object, name: str, sizes: Sizes) -> Any:
        if type(value) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise FormatError(f"{name} must be a {expected}; the file has {shown(value)}")
        return value

    return Field(check)


def labels(length: str, kind: type = object) -> Field:
    """A list of labels, of one type if it is given."""

    def check(value: object, name: str, sizes: Sizes) -> Any:
        if not isinstance(value, list) or not all(map(is_label, value)):
            raise FormatError(f"{name} must be a list of labels; the file has {shown(value)}")
        if not all(isinstance(label, kind) for label in value):
            raise FormatError(f"the entries of {name} must be {kind.__name__}")
        _measure(length, len(value), name, sizes)
        return value

    return Field(check, prepare=checked_labels)


def classes(length: str, kind: type = object) -> Field:
    """An array of labels: numbers, strings or objects."""

    def check(value: object, name: str, sizes: Sizes) -> Any:
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            raise FormatError(f"{name} must be an array of labels; the file has {shown(value)}")
        for start in range(0, max(1, len(value)), _AT_A_TIME):
            labels("", kind).check(value[start : start + _AT_A_TIME].tolist(), name, {})
        _measure(length, len(value), name, sizes)
        return value

    return Field(check, prepare=lambda value: checked_labels(value.tolist()) and value)


# -- labels and plain values -----------------------------------------------------------------------


def is_label(value: object, depth: int = 0) -> bool:
    """Whether a value is a str, int, float, bool, None or a (nested) tuple of these; NaN is not a label."""
    if type(value) is tuple:
        return depth < _DEPTH and all(is_label(part, depth + 1) for part in value)
    plain = type(value) in (type(None), bool, int, str)
    return plain or (type(value) is float and not math.isnan(value))


def checked_labels(values: Any) -> Any:
    """The values, if a file can hold them as labels."""
    for label in values:
        if not is_label(label):
            kind = f"{type(label).__module__}.{type(label).__qualname__}".removeprefix("builtins.")
            raise ValueError(
                f"the label {shown(label)} ({kind}) cannot be saved: labels in a file are str, int, float "
                "(not NaN), bool, None, or tuples of these, exactly. Rename the labels before fit, as with "
                "str(label)."
            )
    return values


def section(
    stored: Any, what: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A dict with the required names, and no others than the optional ones."""
    if not isinstance(stored, dict):
        raise FormatError(f"{what} must be a JSON object; the file has {shown(stored)}")
    if missing := [name for name in required if name not in stored]:
        raise FormatError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(map(str, set(stored) - set(required) - set(optional))):
        raise FormatError(f"{what} has entries that do not belong there: {shown(unknown)}")
    return dict(stored)
