"""Plain values (numbers, texts, None, lists, tuples, dicts, sets, NumPy arrays) as JSON and raw arrays.

JSON has null, booleans, numbers, texts and lists. The rest is an object whose one key names the type:

    {"tuple": [...]}  {"set": [...]}  {"frozenset": [...]}  {"dict": [[key, value], ...]}  {"float": "inf"}
    {"array": [place, dtype, shape]}  {"scalar": [place, dtype, []]}

``place`` is the name of a raw array of its own, or, for small ones, where it begins in one that all small
ones share. An array that occurs twice is stored once, and is one array again when it is read.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.checkpoints._settings import CheckpointError

AnyArray = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

#: bytes from which on an array is stored by itself
LARGE = 4096
#: nesting allowed, so that a file cannot exhaust the stack
MAX_DEPTH = 64
#: kinds of NumPy types that are numbers or texts and nothing else
KINDS = "biufcUS"
_KIND = re.compile("[<>|](b1|[iu][1248]|f2|f4|f8|f16|c8|c16|c32|[US][0-9]{1,9})")
#: characters of a file's content that an error shows
ECHO = 200
_SAME = (type(None), bool, int, str)
_COLLECTIONS: dict[str, type] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class NotPlainError(TypeError):
    """A value is not plain; the text says what it holds."""


class Unknown:
    """Stands for a value that was not plain."""

    def __repr__(self) -> str:
        return "UNKNOWN"


#: the only one of its kind
UNKNOWN = Unknown()


class Outputs(list[Any]):
    """A list of anybody's objects: those that are not plain are stored as :data:`UNKNOWN`."""


class Packer:
    """Collects the arrays of packed values."""

    def __init__(self) -> None:
        self.large: dict[str, AnyArray] = {}
        self._small: list[bytes] = []
        self._size = 0
        self._known: dict[int, tuple[AnyArray, list[Any]]] = {}

    @property
    def small(self) -> Bytes:
        """All small arrays, one after the other."""
        return np.frombuffer(b"".join(self._small), dtype=np.uint8)

    def pack(self, value: Any, depth: int = 0) -> Any:
        """The value as JSON; only exactly these types, for others might mean more than they hold."""
        kind = type(value)
        if kind in _SAME:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if depth > MAX_DEPTH:
            raise NotPlainError(f"it is nested more than {MAX_DEPTH} deep")
        if kind is list:
            return [self.pack(part, depth + 1) for part in value]
        if kind is dict:
            items = value.items()
            pairs = [[self.pack(k, depth + 1), self.pack(v, depth + 1)] for k, v in items]
            return {"dict": pairs}
        if kind is Outputs:
            return [self._output(part) for part in value]
        if kind is np.ndarray:
            return {"array": self._array(value)}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value))}
        for name, collection in _COLLECTIONS.items():
            if kind is collection:
                return {name: [self.pack(part, depth + 1) for part in value]}
        raise NotPlainError(f"it holds a {kind.__module__}.{kind.__qualname__}")

    def _output(self, value: Any) -> Any:
        try:
            return self.pack(value, 1)
        except NotPlainError:
            return {"unknown": []}

    def _array(self, array: AnyArray) -> list[Any]:
        known = self._known.get(id(array))
        if known is not None:
            return known[1]
        if array.dtype.kind not in KINDS:
            raise NotPlainError(f"it holds an array of {array.dtype}")
        flat = np.ascontiguousarray(array)
        place: str | int
        if flat.nbytes >= LARGE:
            place = f"array.{len(self.large)}"
            self.large[place] = flat
        else:
            place = self._size
            self._small.append(flat.tobytes())
            self._size += flat.nbytes
        spec = [place, array.dtype.str, list(array.shape)]
        self._known[id(array)] = array, spec  # held: its id must not be another's
        return spec


class Unpacker:
    """Makes values from JSON and the arrays of a file. What does not fit is refused."""

    def __init__(self, large: dict[str, Bytes], small: Bytes) -> None:
        self._large, self._small = large, small
        self._made: dict[tuple[str | int, str, tuple[int, ...]], AnyArray] = {}

    def unpack(self, stored: Any, depth: int = 0) -> Any:
        """The value that was packed."""
        if depth > 2 * MAX_DEPTH:
            raise CheckpointError("the file's contents are nested too deep")
        if isinstance(stored, list):
            return [self.unpack(part, depth + 1) for part in stored]
        if not isinstance(stored, dict):
            return stored
        if len(stored) != 1:
            raise CheckpointError("the file holds an object of unknown form")
        ((tag, content),) = stored.items()
        if tag == "float" and type(content) is str and content in _SPECIAL:
            return _SPECIAL[content]
        if not isinstance(content, list):
            raise CheckpointError("the file holds an object of unknown form")
        if tag == "array":
            return self._array(content)
        if tag == "scalar":
            return self._array(content)[()]
        if tag == "unknown":
            return UNKNOWN
        parts = [self.unpack(part, depth + 1) for part in content]
        if tag in _COLLECTIONS:
            return _COLLECTIONS[tag](parts)
        if tag == "dict":
            return dict(parts)
        raise CheckpointError(f"the file holds an object of unknown type {shown(tag)}")

    def _array(self, content: list[Any]) -> AnyArray:
        place, kind, shape = _spec(content)
        key = (place, kind, shape)
        if key not in self._made:
            dtype = np.dtype(kind)
            size = math.prod(shape) * dtype.itemsize
            if isinstance(place, str):
                raw = self._large[place]
            elif (
                size >= LARGE
            ):  # parts of one another would take more memory than the file has bytes
                raise CheckpointError("the file holds a large array where small ones are")
            else:
                raw = self._small[place : place + size].copy()
            if raw.size != size:
                raise CheckpointError("the file holds an array that has not the size of its shape")
            self._made[key] = _checked(raw, dtype).reshape(shape)
        return self._made[key]


def _spec(content: list[Any]) -> tuple[str | int, str, tuple[int, ...]]:
    """(place, type, shape) of an array, if they can be."""
    if len(content) != 3:
        raise CheckpointError("the file holds an array of unknown form")
    place, kind, shape = content
    if not (type(place) is str or (type(place) is int and place >= 0)):
        raise CheckpointError("the file holds an array that is nowhere")
    if type(kind) is not str or not _KIND.fullmatch(kind):
        raise CheckpointError(f"the file holds an array of {shown(kind)}")
    if not isinstance(shape, list) or len(shape) > 8:
        raise CheckpointError("the file holds an array without a shape")
    if not all(type(n) is int and 0 <= n < 2**62 for n in shape):
        raise CheckpointError(f"the file holds an array of shape {shown(shape)}")
    return place, kind, tuple(shape)


def _checked(raw: Bytes, dtype: np.dtype[Any]) -> AnyArray:
    """Bytes as this type, if they are values of it."""
    if dtype.kind == "b" and raw.size and raw.max() > 1:
        raise CheckpointError("the file holds booleans that are neither 0 nor 1")
    if dtype.kind == "U":
        letters = raw.view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if letters.size and letters.max() > 0x10FFFF:
            raise CheckpointError("the file holds letters that do not exist")
    return raw.view(dtype)


def shown(value: Any) -> str:
    """Content of a file in the text of an error."""
    text = str(value) if isinstance(value, Exception) else repr(value)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= ECHO else text[: ECHO - 3] + "..."


def loads(text: str | bytes) -> Any:
    """Strict JSON; objects that repeat a name are refused."""
    return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise CheckpointError("a name occurs twice in the file's JSON")
    return out


def dumps(document: Any) -> bytes:
    """JSON text."""
    text = json.dumps(
        document, allow_nan=False, separators=(",", ":")
    )  # ASCII: any str can be held
    return text.encode("ascii")
