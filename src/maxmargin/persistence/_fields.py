"""Declarations of fitted attributes: what each holds, and one reader and one writer for all of them.

A table names attributes and the check of each. A shape may contain names: the first length found for a name
is the one that all others must have. Names without an underscore at an end are no attributes: a function of
the model makes these entries.

    {"n_features_in_": size("d", least=1), "coef_": array("d"), "feature_names_in_": optional(names("d"))}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core import stored_values
from maxmargin.files.codec import FormatError, shown
from maxmargin.persistence._labels import check_label, is_label, section

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
    prepare: Callable[[Any], Any] | None = None


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
            out[name] = value if field.prepare is None else field.prepare(value)
    return out


def optional(field: Field) -> Field:
    """The same attribute, where it may be missing."""
    return field._replace(optional=True)


def checked(check: Check) -> Field:
    """An attribute with a check of its own."""
    return Field(check)


# -- kinds of attributes ---------------------------------------------------------------------------


def _wanted(shape: tuple[Length, ...], sizes: Sizes) -> tuple[int | None, ...]:
    return tuple(sizes.get(n) if isinstance(n, str) else n for n in shape)


def _note(found: tuple[int, ...], shape: tuple[Length, ...], sizes: Sizes) -> None:
    for name, n in zip(shape, found, strict=True):
        if isinstance(name, str) and sizes.setdefault(name, n) != n:
            raise FormatError(f"an array has the shape {found}, with two lengths for {name}")


def array(*shape: Length) -> Field:
    """Finite numbers in double precision."""

    def check(value: Any, name: str, sizes: Sizes) -> Any:
        out = stored_values.floats(value, f"the numbers of {name}", _wanted(shape, sizes))
        _note(out.shape, shape, sizes)
        return out

    return Field(check)


def integers(*shape: Length, below: str | None = None, least: int = 0) -> Field:
    """Integers from ``least`` on, below the length ``below``."""

    def check(value: Any, name: str, sizes: Sizes) -> Any:
        end = 2**62 if below is None else sizes[below]
        what = f"the integers of {name}"
        stored_values.integers(value, what, _wanted(shape, sizes), least, end)
        _note(value.shape, shape, sizes)
        return value

    return Field(check)


def flags(*shape: Length) -> Field:
    """Booleans."""
    return Field(
        lambda value, name, sizes: stored_values.flags(
            value, f"the flags of {name}", _wanted(shape, sizes)
        )
    )


def size(name: str, least: int = 0) -> Field:
    """A length that others are compared with."""

    def check(value: Any, what: str, sizes: Sizes) -> int:
        sizes[name] = stored_values.count(value, what, least)
        return sizes[name]

    return Field(check, prepare=int)


def count(least: int = 0) -> Field:
    """An integer of at least ``least``."""
    return Field(lambda value, name, sizes: stored_values.count(value, name, least), prepare=int)


def number() -> Field:
    """A float that may be infinite or NaN."""
    return of_type(float)._replace(prepare=float)


def of_type(kind: Any) -> Field:
    """A value of exactly this type or, for several, an instance of one of them."""

    def check(value: Any, name: str, sizes: Sizes) -> Any:
        if not (isinstance(value, kind) if isinstance(kind, tuple) else type(value) is kind):
            expected = getattr(kind, "__name__", "another type")
            raise FormatError(f"{name} must be a {expected}; the file has {shown(value)}")
        return value

    return Field(check)


def one_of(*values: Any) -> Field:
    """One of these values."""

    def check(value: Any, name: str, sizes: Sizes) -> Any:
        if type(value) not in (str, int) or value not in values:
            raise FormatError(f"{name} is {shown(value)}, which is not known")
        return value

    return Field(check)


def labels(length: str, kind: type | None = None) -> Field:
    """A list of distinct labels, of one type if it is given."""

    def check(value: Any, name: str, sizes: Sizes) -> Any:
        if not isinstance(value, list) or not all(is_label(label) for label in value):
            raise FormatError(f"{name} must be a list of labels; the file has {shown(value)}")
        if kind is not None and not all(type(label) is kind for label in value):
            raise FormatError(f"the entries of {name} must be {kind.__name__}")
        if len(set(value)) != len(value):
            raise FormatError(f"the entries of {name} are not distinct")
        if sizes.get(length, len(value)) != len(value):
            raise FormatError(f"{name} has {len(value)} entries where {sizes[length]} are needed")
        sizes[length] = len(value)
        return value

    return Field(check, prepare=checked_labels)


def checked_labels(values: Any) -> Any:
    """The values, if a file can hold them as labels."""
    for label in values:
        check_label(label)
    return values


def names(length: str) -> Field:
    """Feature names: an array of distinct strings."""
    strings = labels(length, str).check

    def check(value: Any, name: str, sizes: Sizes) -> Any:
        strings(list(value) if isinstance(value, np.ndarray) else None, name, sizes)
        return value

    return Field(check)


def classes(length: str) -> Field:
    """An array of distinct labels: numbers, strings or objects."""

    def check(value: Any, name: str, sizes: Sizes) -> Any:
        known = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biufUO"
        if not known or (value.dtype.kind == "f" and not np.isfinite(value).all()):
            raise FormatError(f"{name} must be an array of labels; the file has {shown(value)}")
        if len(set(value.tolist())) != len(value):
            raise FormatError(f"{name} are not distinct")
        sizes[length] = len(value)
        return value

    def prepare(value: Any) -> Any:
        if value.dtype.kind not in "biufUO":
            raise ValueError(
                f"classes of type {value.dtype} cannot be saved; use numbers, strings or objects."
            )
        return checked_labels(value) if value.dtype.kind == "O" else value

    return Field(check, prepare=prepare)
