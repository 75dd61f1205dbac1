"""Arrays in a model file: as they are, or packed where most entries are zero.

A packed array is two tensors: one bit per entry that says whether it is zero (``name.mask``), and the
entries that are not, in order (``name.values``). Positions so stored cannot be unsorted, repeated or out of
range, and an array never takes more than 64 times the room in memory that it has in the file, whatever the
header claims.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.persistence._values import (
    ModelFileError,
    NotStorableError,
    count,
    decode_labels,
    dumps,
    encode,
    loads,
    section,
    shown,
)

AnyArray = npt.NDArray[Any]

#: element types that may occur in a file
DTYPES = frozenset(np.dtype(code).name for code in "?bhiqBHIQefd")
#: arrays with fewer entries are stored as they are
PACK_FROM = 256


class ArrayWriter:
    """Collects the arrays of a file and their description in the header."""

    def __init__(self) -> None:
        self.tensors: dict[str, AnyArray] = {}
        self.specs: dict[str, dict[str, Any]] = {}

    def add(self, name: str, array: AnyArray) -> None:
        """Add an array; NaN and infinite entries are refused."""
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        if array.dtype.name not in DTYPES:
            raise NotStorableError(f"it is an array of {array.dtype}")
        if not np.isfinite(array).all():
            raise ValueError(f"the model cannot be saved: {name} holds NaN or infinite numbers.")
        spec = {"dtype": array.dtype.name, "shape": list(array.shape), "packed": False}
        filled = _filled(array) if array.size >= PACK_FROM else None
        if (
            filled is not None
            and filled.sum() * array.itemsize + array.size / 8 < 0.9 * array.nbytes
        ):
            spec["packed"] = True
            self.tensors[f"{name}.mask"] = np.packbits(filled)
            self.tensors[f"{name}.values"] = array.ravel()[filled]
        else:
            self.tensors[name] = array
        self.specs[name] = spec

    def add_names(self, name: str, names: Iterable[Any]) -> None:
        """Add a list of names, as JSON text; a vocabulary may be too large for the header."""
        text = dumps([encode(value) for value in names])
        self.add(name, np.frombuffer(text, dtype=np.uint8))


def _filled(array: AnyArray) -> npt.NDArray[np.bool_]:
    """Which entries have any bit set: minus zero counts, so that every bit comes back."""
    bits = array.ravel().view(f"u{array.itemsize}")
    return np.asarray(bits != 0)


class ArrayReader:
    """Hands out the arrays of a file, each checked, and knows whether any was left over."""

    def __init__(self, specs: Any, tensors: Mapping[str, AnyArray]) -> None:
        if not isinstance(specs, dict):
            raise ModelFileError("the list of arrays in the header is not a JSON object")
        self._specs: dict[str, dict[str, Any]] = {
            name: _check_spec(name, spec) for name, spec in specs.items()
        }
        self._tensors = tensors
        #: the class of a loss of the user's own, which the file names and the caller handed in
        self.own_loss: Any = None
        expected: set[str] = set()
        for name, spec in self._specs.items():
            parts = {f"{name}.mask", f"{name}.values"} if spec["packed"] else {name}
            if parts & expected:
                raise ModelFileError(
                    f"the header describes the tensors of array {shown(name)} twice"
                )
            expected |= parts
        if expected != set(tensors):
            differing = sorted(expected ^ set(tensors))
            raise ModelFileError(f"the header and the tensors do not agree on {shown(differing)}")
        self._left = set(self._specs)

    def has(self, name: str) -> bool:
        """Whether the file has this array."""
        return name in self._specs

    def take(
        self,
        name: str,
        dtypes: Iterable[str] = ("float64",),
        shape: tuple[int | None, ...] = (None,),
    ) -> AnyArray:
        """The array, of one of these types and of this shape (None: any length), all finite."""
        if name not in self._specs:
            raise ModelFileError(f"the file lacks the array {name!r}")
        spec = self._specs[name]
        self._left.discard(name)
        if spec["dtype"] not in set(dtypes):
            raise ModelFileError(
                f"array {name!r} has type {spec['dtype']}, which is not expected there"
            )
        found = tuple(spec["shape"])
        if len(found) != len(shape) or any(
            b is not None and a != b for a, b in zip(found, shape, strict=True)
        ):
            wanted = tuple("any" if b is None else b for b in shape)
            raise ModelFileError(f"array {name!r} has shape {found}; {wanted} is needed")
        array = self._unpack(name, spec) if spec["packed"] else self._dense(name, spec)
        if not np.isfinite(array).all():
            raise ModelFileError(f"array {name!r} holds NaN or infinite numbers")
        return array

    def take_names(self, name: str) -> list[Any]:
        """A list of distinct names."""
        text = self.take(name, ("uint8",)).tobytes()
        return decode_labels(loads(text, f"the list {name!r}"), f"the entries of {name!r}")

    def finish(self) -> None:
        """Refuse arrays that nothing asked for."""
        if self._left:
            raise ModelFileError(
                f"the file has arrays that do not belong there: {shown(sorted(self._left))}"
            )

    def _dense(self, name: str, spec: dict[str, Any]) -> AnyArray:
        array = self._tensors[name]
        _agree(name, array, spec["dtype"], tuple(spec["shape"]))
        return np.array(array)  # own memory, writable

    def _unpack(self, name: str, spec: dict[str, Any]) -> AnyArray:
        mask, values = self._tensors[f"{name}.mask"], self._tensors[f"{name}.values"]
        size = math.prod(spec["shape"])
        # before anything of this size is made
        _agree(f"{name}.mask", mask, "uint8", (-(-size // 8),))
        bits = np.unpackbits(mask)
        if bits[size:].any():
            raise ModelFileError(f"array {name!r} has positions beyond its end")
        filled = bits[:size].view(np.bool_)
        _agree(f"{name}.values", values, spec["dtype"], (int(np.count_nonzero(filled)),))
        out = np.zeros(size, dtype=values.dtype)
        out[filled] = values
        return out.reshape(spec["shape"])


def _check_spec(name: str, spec: Any) -> dict[str, Any]:
    what = f"the description of array {shown(name)}"
    spec = section(spec, what, ("dtype", "shape", "packed"))
    if not isinstance(spec["dtype"], str) or spec["dtype"] not in DTYPES:
        raise ModelFileError(f"{what} names an unknown type")
    if not isinstance(spec["shape"], list) or len(spec["shape"]) > 2:
        raise ModelFileError(f"{what} has no shape of at most two numbers")
    for length in spec["shape"]:
        count(length, f"a length in {what}")
    if type(spec["packed"]) is not bool:
        raise ModelFileError(f"{what} does not say whether it is packed")
    return spec


def _agree(name: str, tensor: AnyArray, dtype: str, shape: tuple[int, ...]) -> None:
    if tensor.dtype.name != dtype or tensor.shape != shape:
        raise ModelFileError(
            f"tensor {name!r} is {tensor.dtype.name} {tensor.shape}, but the header calls for {dtype} {shape}"
        )
    if tensor.dtype == np.bool_ and tensor.size and tensor.view(np.uint8).max() > 1:
        raise ModelFileError(f"tensor {name!r} holds booleans that are neither 0 nor 1")
