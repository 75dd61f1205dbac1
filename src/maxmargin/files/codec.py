"""Plain values and arrays as JSON and raw arrays, and back, with their types.

JSON has null, booleans, numbers, strings, lists and objects, which are dicts with string keys. Every other
type is an object with one key, which names the type:

    {"$tuple": [...]}  {"$set": [...]}  {"$frozenset": [...]}  {"$dict": [[key, value], ...]}
    {"$float": "inf"}  {"$array": name}  {"$array": [place, dtype, shape]}  {"$scalar": as an array}
    {"$unknown": null}

Files may come from anywhere, so what is made from one is bounded by what was read: the decoder adds up the
bytes of all values, before it makes them where it can, and refuses a file that asks for too many.

``name`` is the name of a raw array. ``place`` is where the bytes of an array are: the name of a raw array, or
an offset in the one that small arrays share.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]

#: arrays of fewer bytes that are members of a list share one raw array
LARGE = 4096
#: allowed nesting of what is written
MAX_DEPTH = 64
#: characters of a file's content that an error shows
ECHO = 200
#: bytes that values may take for each byte that was read, and in any case; with copies of the file, and those
#: that its users make, all takes at most 20 times the file
TIMES, FREE = 16, 2**20
#: members of sets and dicts may be compared so many times on average, because their hashes are equal
COMPARISONS = 64
#: NumPy types that safetensors has, too; others are stored as bytes
TENSORS = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "|b1": "BOOL", "|i1": "I8", "|u1": "U8"} | {
    f"<{sign}{size}": f"{sign.upper()}{8 * size}" for sign in "iu" for size in (2, 4, 8)
}
#: names of raw arrays with a meaning of their own
TREE, POOL = "tree", "small"
_DTYPE = re.compile("[<>|](b1|[iu][1248]|f2|f4|f8|f16|c8|c16|c32|[US][0-9]{1,9})")
_SAME = (type(None), bool, int, str)
_COLLECTIONS: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}
_BY_TAG = {f"${name}": kind for kind, name in _COLLECTIONS.items()}
#: what Python and NumPy raise for values of another kind than they should be
CONTRADICTIONS = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


class FormatError(ValueError):
    """The content of a file is not what it should be."""


class NotPlainError(TypeError):
    """A value is not plain; the message says what it holds."""


class Unknown:
    """The type of :data:`UNKNOWN`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


#: replaces a value that was not plain
UNKNOWN = Unknown()


class Outputs(list[Any]):
    """A list of objects of any type: those that are not plain are stored as :data:`UNKNOWN`."""


class Tagged(NamedTuple):
    """Plain values from which the reader makes an object: ``makers[tag](content)``."""

    tag: str
    content: Any


class Encoder:
    """Encodes values as JSON and collects their arrays; an array that occurs twice is stored once.

    ``convert`` is called with every value, and returns it or a plain or tagged value instead.
    """

    def __init__(self, convert: Callable[[Any], Any] | None = None) -> None:
        self._arrays: dict[str, AnyArray] = {}
        self._convert = convert
        self._pool = bytearray()
        self._known: dict[int, tuple[AnyArray, Any]] = {}

    def finish(self) -> dict[str, AnyArray]:
        """All raw arrays by name."""
        pool = {POOL: np.frombuffer(self._pool, dtype=np.uint8)} if self._pool else {}
        return {**self._arrays, **pool}

    def encode(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """The value as JSON. Subclasses of plain types are refused: they may mean more than they hold."""
        if self._convert is not None and type(value) not in _SAME:
            value = self._convert(value)
        kind = type(value)
        if kind is int and value.bit_length() > 10_000:
            raise NotPlainError("it holds an int of thousands of digits")
        if kind in _SAME:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if depth > MAX_DEPTH:
            raise NotPlainError(f"it is nested more than {MAX_DEPTH} deep")
        if kind is list:
            return self._parts(value, name, depth)
        if kind is Tagged:
            return {f"${value.tag}": self.encode(value.content, name, depth + 1)}
        if kind is dict:
            values = [
                self.encode(part, _joined(name, key, k), depth + 1)
                for k, (key, part) in enumerate(value.items())
            ]
            if all(type(key) is str and key[:1] != "$" for key in value):
                return dict(zip(value, values, strict=True))
            keys = self._parts(value, name, depth)
            return {"$dict": [list(pair) for pair in zip(keys, values, strict=True)]}
        if kind in _COLLECTIONS:
            parts = self._parts(value, name, depth)
            # the order of a set may differ from run to run; that of the file must not
            return {
                f"${_COLLECTIONS[kind]}": parts if kind is tuple else sorted(parts, key=json.dumps)
            }
        if kind is Outputs:
            return [self._output(part, _joined(name, None, k)) for k, part in enumerate(value)]
        if kind is np.ndarray:
            return {"$array": self._array(value, name)}
        if isinstance(value, np.generic):
            return {"$scalar": self._array(np.asarray(value), name)}
        raise NotPlainError(f"it holds a {kind.__module__}.{kind.__qualname__}")

    def _parts(self, values: Any, name: str, depth: int) -> list[Any]:
        return [
            self.encode(part, _joined(name, None, k), depth + 1) for k, part in enumerate(values)
        ]

    def _output(self, value: object, name: str) -> Any:
        try:
            return self.encode(value, name, 1)
        except NotPlainError:
            return {"$unknown": None}

    def _array(self, array: AnyArray, name: str) -> Any:
        if id(array) in self._known:
            return self._known[id(array)][1]
        dtype = array.dtype.str
        if not _DTYPE.fullmatch(dtype) or not array.itemsize:
            raise NotPlainError(f"it holds an array of {array.dtype}")
        flat, listed = np.ascontiguousarray(array), any(map(str.isdigit, name.split(".")))
        spec: Any = [len(self._pool), dtype, list(array.shape)]
        if listed and flat.nbytes < LARGE:
            self._pool += flat.tobytes()
        else:
            while not name or name in self._arrays or name in (TREE, POOL, "__metadata__"):
                name = f"{name}_{len(self._arrays)}"
            known = dtype in TENSORS
            self._arrays[name] = flat.reshape(array.shape if known else -1)
            spec = name if known else [name, *spec[1:]]
        self._known[id(array)] = array, spec  # kept alive: no other array may get its id
        return spec


def _joined(name: str, key: object, k: int) -> str:
    """The name of the arrays in one part of a value."""
    own = key if type(key) is str and key.isidentifier() and len(key) <= 40 else str(k)
    return f"{name}.{own}" if name else own


class Decoder:
    """Makes values from JSON and raw arrays, and takes a bounded number of bytes for each byte of theirs.

    ``makers`` are functions, by tag, that make objects from the contents of tagged values.
    """

    def __init__(
        self,
        arrays: Mapping[str, AnyArray],
        makers: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._arrays, self._makers = arrays, makers or {}
        self._made: dict[Any, Any] = {}
        #: bytes that values may still take
        self.room = FREE + TIMES * sum(array.nbytes for array in arrays.values())

    def decode(self, text: bytes, what: str) -> Any:
        """The value that was encoded; ``what`` names the part of the file in errors."""
        self.room += TIMES * len(text)
        self._spend(parsed_size(text, self.room))
        return loads(text, what, self._object)

    def _spend(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise FormatError(
                f"it asks for more than {TIMES} times the memory that it takes itself"
            )

    def _object(self, stored: dict[str, Any]) -> Any:
        """The value of a JSON object whose parts were decoded before."""
        if not any(key[:1] == "$" for key in stored):
            return self._kept(stored)
        if len(stored) != 1:
            raise FormatError(f"the file holds an object of unknown form: {shown(stored)}")
        ((tag, content),) = stored.items()
        try:
            return self._tagged(tag, content)
        except FormatError:
            raise
        except CONTRADICTIONS as error:
            name = content.get("class") if isinstance(content, dict) else tag
            name = name if type(name) is str else tag[1:]
            raise FormatError(f"the file holds an invalid {name:.80}: {shown(error)}") from error

    def _tagged(self, tag: str, content: object) -> Any:
        if tag == "$float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if tag == "$unknown":
            return UNKNOWN
        if tag in ("$array", "$scalar"):
            return self._array(content, tag == "$scalar")
        if tag[1:] in self._makers:
            return self._makers[tag[1:]](content)
        if tag == "$dict" and isinstance(content, list):
            _require_quick([key for key, _ in content])
            return self._kept(dict(content))
        if tag == "$tuple" and isinstance(content, list):
            return tuple(content)
        if tag in _BY_TAG and isinstance(content, list):
            _require_quick(content)
            return self._kept(_BY_TAG[tag](content))
        raise FormatError(f"the file holds an object of unknown form: {shown({tag: content})}")

    def _kept(self, made: Any) -> Any:
        self._spend(sys.getsizeof(made))
        return made

    def _array(self, content: Any, scalar: bool) -> Any:
        if isinstance(content, str):
            if content not in self._arrays:
                raise FormatError(f"the file lacks the array {shown(content)}")
            return self._arrays[content][()] if scalar else self._arrays[content]
        place, dtype, shape = content
        counts = isinstance(shape, list) and all(type(n) is int and 0 <= n < 2**62 for n in shape)
        if not counts or type(dtype) is not str or not _DTYPE.fullmatch(dtype):
            raise FormatError(f"the file holds an array of unknown form: {shown(content)}")
        key = place, dtype, scalar, *shape
        if key not in self._made:  # what it takes beside its bytes, its JSON took before
            size = math.prod(shape) * np.dtype(dtype).itemsize
            if type(place) is int and place >= 0 and size < LARGE:
                self._spend(size)
                raw = self._arrays[POOL][place : place + size].copy()
            else:
                raw = self._arrays[place].reshape(-1)
            raw = raw.view(np.uint8)
            if dtype[1] == "U":
                self._spend(raw.nbytes)  # of time
                if raw.view(f"{dtype[0]}u4").max(initial=0) > 0x10FFFF:
                    raise FormatError("the file holds characters that do not exist")
            array = raw.view(dtype).reshape(shape)
            self._made[key] = array[()] if scalar else array
        return self._made[key]


def _require_quick(members: list[Any]) -> None:
    """Refuse members of a set or keys of a dict that were chosen to have the same hash: to find each, all
    others would be compared with it."""
    if len(members) <= COMPARISONS:
        return
    hashes = np.fromiter(map(hash, members), np.int64, len(members))
    counts = np.unique(hashes, return_counts=True)[1].astype(np.float64)
    if counts @ counts > COMPARISONS * len(members):
        raise FormatError("the members of a set or a dict have the same hash")


# -- JSON ------------------------------------------------------------------------------------------


def dumps(document: object) -> bytes:
    """JSON text in one fixed form, in ASCII."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


#: a string, which may lack its end; or a list, a place in one, or a number that is no small int, which Python
#: has already; and the bytes that each takes when it is parsed
_PART = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(\[)|(,)|([0-9][-+.0-9eE]{2,})', re.DOTALL)
_STRING, _LIST, _PLACE, _NUMBER = 64, 88, 9, 32


def parsed_size(text: bytes, room: int) -> int:
    """At most so many bytes will JSON text take when it is parsed, without the dicts; if this is far below
    ``room``, it is a quick estimate."""
    lists, places, quotes = (text.count(mark) for mark in (b"[", b",", b'"'))
    most = len(text) + _LIST * lists + (_PLACE + _NUMBER) * places + _STRING * (quotes // 2)
    if most <= room // 2:
        return most
    parts = Counter(map(attrgetter("lastindex"), _PART.finditer(text)))
    sizes = {None: _STRING, 1: _LIST, 2: _PLACE, 3: _NUMBER}
    return len(text) + sum(sizes[part] * count for part, count in parts.items())


def loads(text: bytes, what: str, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Parse JSON in ASCII; ``what`` names the part of the file in errors, and ``hook`` makes values from
    objects."""
    try:
        return json.loads(text.decode("ascii"), object_hook=hook)
    except FormatError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise FormatError(f"{what} is not valid JSON: {shown(error)}") from error


class _Shown(reprlib.Repr):
    """Text for errors: of long values the beginning, of arrays only what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 4, ECHO, ECHO, ECHO
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 20

    def repr_ndarray(self, array: AnyArray, level: int) -> str:
        return f"array of {array.dtype} with shape {array.shape}"


_shown = _Shown()


def shown(value: object) -> str:
    """A file's content for an error message: in ASCII, and cut."""
    text = str(value) if isinstance(value, Exception) else _shown.repr(value)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= ECHO else text[: ECHO - 3] + "..."
