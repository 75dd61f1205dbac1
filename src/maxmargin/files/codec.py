"""Plain values and arrays as JSON and raw arrays, and back, with their types.

JSON has null, booleans, numbers, strings, lists and objects, which are dicts with string keys. Every other
type is an object with one key, which names the type:

    {"$tuple": [...]}  {"$set": [...]}  {"$frozenset": [...]}  {"$dict": [[key, value], ...]}
    {"$float": "inf"}  {"$array": [place, dtype, shape]}  {"$scalar": [place, dtype, []]}  {"$unknown": null}
    {"$packed": {"mask": array, "values": array, "shape": [...]}}

``place`` is the name of a raw array, or the offset of a small array in the one that small arrays share. A
packed array has one bit per entry that says whether it is nonzero, and its nonzero entries in order. Packed
positions cannot be unsorted, repeated or out of range, and an array never takes more than 64 times as much
memory as it has bytes in the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

#: arrays of fewer bytes share one raw array, if arrays are shared
LARGE = 4096
#: arrays with fewer entries are never packed
PACK_FROM = 256
#: allowed nesting, so that a file cannot exhaust the stack
MAX_DEPTH = 64
#: characters of a file's content that an error shows
ECHO = 200
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
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
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
    """Encodes values as JSON and collects their arrays.

    With ``share`` small arrays share one raw array, and an array that occurs twice is stored once. Otherwise
    every array has its own name, and arrays that are mostly zero are packed. ``convert`` is called with every
    value, and returns it or a plain or tagged value instead.
    """

    def __init__(self, *, share: bool = True, convert: Callable[[Any], Any] | None = None) -> None:
        #: raw arrays by name
        self.arrays: dict[str, AnyArray] = {}
        self._share, self._convert = share, convert
        self._pool = bytearray()
        self._known: dict[int, tuple[AnyArray, list[Any]]] = {}

    def finish(self) -> dict[str, AnyArray]:
        """All raw arrays."""
        pool = {POOL: np.frombuffer(self._pool, dtype=np.uint8)} if self._pool else {}
        return {**self.arrays, **pool}

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
            return [self._output(part, name) for part in value]
        if kind is np.ndarray:
            packed = None if self._share else _packed(value)
            if packed is not None:
                return {"$packed": self.encode(packed, name, depth + 1)}
            return {"$array": self._array(value, name)}
        if isinstance(value, np.generic):
            return {"$scalar": self._array(np.asarray(value), name)}
        raise NotPlainError(f"it holds a {kind.__module__}.{kind.__qualname__}")

    def _parts(self, values: Any, name: str, depth: int) -> list[Any]:
        return [
            self.encode(part, _joined(name, None, k), depth + 1) for k, part in enumerate(values)
        ]

    def _output(self, value: Any, name: str) -> Any:
        try:
            return self.encode(value, name, 1)
        except NotPlainError:
            return {"$unknown": None}

    def _array(self, array: AnyArray, name: str) -> list[Any]:
        known = self._known.get(id(array))
        if known is not None:
            return known[1]
        if not _DTYPE.fullmatch(array.dtype.str) or not array.itemsize:
            raise NotPlainError(f"it holds an array of {array.dtype}")
        flat = np.ascontiguousarray(array)
        spec: list[Any] = [len(self._pool), array.dtype.str, list(array.shape)]
        if self._share and flat.nbytes < LARGE:
            self._pool += flat.tobytes()
        else:
            while not name or name in self.arrays or name in (TREE, POOL, "__metadata__"):
                name = f"{name}_{len(self.arrays)}"
            spec[0] = name
            if array.dtype.str in TENSORS:
                self.arrays[name] = flat.reshape(array.shape)
            else:
                self.arrays[name] = flat.reshape(-1).view(np.uint8)
        if self._share:
            self._known[id(array)] = array, spec  # kept alive: no other array may get its id
        return spec


def _joined(name: str, key: Any, k: int) -> str:
    """The name of the arrays in one part of a value."""
    own = key if type(key) is str and key.isidentifier() and len(key) <= 40 else str(k)
    return f"{name}.{own}" if name else own


def _packed(array: AnyArray) -> dict[str, Any] | None:
    """A packed array, if that is smaller. Minus zero counts as nonzero, so that every bit is restored."""
    if array.size < PACK_FROM or array.dtype.str not in TENSORS:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    filled = flat.view(f"u{flat.itemsize}") != 0
    if filled.sum() * flat.itemsize + flat.size / 8 >= 0.9 * flat.nbytes:
        return None
    return {"mask": np.packbits(filled), "values": flat[filled], "shape": list(array.shape)}


class Decoder:
    """Makes values from JSON and raw arrays; content that does not fit is refused.

    ``makers`` are functions, by tag, that make objects from the contents of tagged values. With ``once`` no
    array may be used twice; :meth:`finish` refuses arrays that were not used.
    """

    def __init__(
        self,
        arrays: Mapping[str, AnyArray],
        makers: Mapping[str, Callable[[Any], Any]] | None = None,
        *,
        once: bool = False,
    ) -> None:
        self._arrays, self._once = arrays, once
        self._makers = makers or {}
        self._made: dict[tuple[str | int, str, tuple[int, ...]], AnyArray] = {}

    def decode(self, stored: Any, depth: int = 0) -> Any:
        """The value that was encoded."""
        if isinstance(stored, float) and not math.isfinite(stored):
            raise FormatError("the file holds a number too large for a float")
        if not isinstance(stored, list | dict):
            return stored
        if depth > MAX_DEPTH + 1:
            raise FormatError(f"the file's contents are nested more than {MAX_DEPTH} deep")
        if isinstance(stored, list):
            return [self.decode(part, depth + 1) for part in stored]
        if not any(key[:1] == "$" for key in stored):
            return {key: self.decode(part, depth + 1) for key, part in stored.items()}
        if len(stored) != 1:
            raise FormatError(f"the file holds an object of unknown form: {shown(stored)}")
        ((tag, content),) = stored.items()
        return self._tagged(tag, content, depth)

    def _tagged(self, tag: str, content: Any, depth: int) -> Any:
        if tag == "$float" and isinstance(content, str) and content in _SPECIAL:
            return _SPECIAL[content]
        if tag == "$unknown":
            return UNKNOWN
        if tag == "$array":
            return self._array(content)
        if tag == "$scalar":
            return self._array(content)[()]
        if tag == "$packed":
            return _unpacked(self.decode(content, depth + 1))
        if tag[1:] in self._makers:
            return self._made_by(tag[1:], self.decode(content, depth + 1))
        if not isinstance(content, list) or not (tag in _BY_TAG or tag == "$dict"):
            raise FormatError(f"the file holds an object of unknown form: {shown({tag: content})}")
        made: Any
        if tag == "$dict":
            made = {self.decode(k, depth + 1): self.decode(v, depth + 1) for k, v in content}
        else:
            made = _BY_TAG[tag](self.decode(part, depth + 1) for part in content)
        if len(made) != len(content):
            raise FormatError(f"the file holds a {tag[1:]} whose members are not distinct")
        return made

    def _made_by(self, tag: str, content: Any) -> Any:
        try:
            return self._makers[tag](content)
        except FormatError:
            raise
        except CONTRADICTIONS as error:
            name = content.get("class", tag) if isinstance(content, dict) else tag
            raise FormatError(f"the file holds an invalid {name!s:.80}: {shown(error)}") from error

    def finish(self) -> None:
        """Refuse arrays that were not used."""
        left = set(self._arrays) - {place for place, _, _ in self._made}
        if left:
            raise FormatError(
                f"the file has arrays that do not belong there: {shown(sorted(left))}"
            )

    def _array(self, content: Any) -> AnyArray:
        place, dtype, shape = key = _spec(content)
        if key not in self._made:
            kind = np.dtype(dtype)
            size = math.prod(shape) * kind.itemsize
            if isinstance(place, int):
                if (
                    size >= LARGE
                ):  # parts of one another would take more memory than the file has bytes
                    raise FormatError("the file holds a large array among the small ones")
                self._made[key] = view(self._arrays[POOL][place : place + size].copy(), kind, shape)
            else:
                if place not in self._arrays:
                    raise FormatError(f"the file lacks the array {shown(place)}")
                raw = self._arrays[place]
                known = dtype in TENSORS
                wanted = (kind, shape) if known else (np.dtype(np.uint8), (size,))
                if (raw.dtype, raw.shape) != wanted:
                    raise FormatError(
                        f"array {shown(place)} is {raw.dtype} {raw.shape}, but the file's JSON describes "
                        f"{wanted[0]} {wanted[1]}"
                    )
                self._made[key] = raw if known else view(raw, kind, shape)
        elif self._once:
            raise FormatError(f"the file uses the array {shown(place)} twice")
        return self._made[key]


def _spec(content: Any) -> tuple[str | int, str, tuple[int, ...]]:
    """Place, dtype and shape of an array, if they are valid."""
    if not isinstance(content, list) or len(content) != 3:
        raise FormatError(f"the file holds an array of unknown form: {shown(content)}")
    place, dtype, shape = content
    if not (type(place) is str or (type(place) is int and place >= 0)):
        raise FormatError(f"the file holds an array at {shown(place)}, which is no place")
    if type(dtype) is not str or not _DTYPE.fullmatch(dtype):
        raise FormatError(f"the file holds an array of type {shown(dtype)}, which is not allowed")
    return place, dtype, _shape(shape)


def _shape(shape: Any) -> tuple[int, ...]:
    counts = isinstance(shape, list) and len(shape) <= 8
    if not counts or not all(type(n) is int and 0 <= n < 2**62 for n in shape):
        raise FormatError(f"the file holds an array of shape {shown(shape)}")
    return tuple(shape)


def _unpacked(content: Any) -> AnyArray:
    if not isinstance(content, dict) or set(content) != {"mask", "values", "shape"}:
        raise FormatError("the file holds a packed array of unknown form")
    mask, values, shape = content["mask"], content["values"], _shape(content["shape"])
    size = math.prod(shape)
    plain = isinstance(mask, np.ndarray) and isinstance(values, np.ndarray)
    # before anything of this size is allocated
    if not plain or mask.dtype != np.uint8 or mask.shape != (-(-size // 8),):
        raise FormatError(f"the mask of a packed array does not fit its shape {shape}")
    bits = np.unpackbits(mask)
    if bits[size:].any():
        raise FormatError("a packed array has positions beyond its end")
    filled = bits[:size].view(np.bool_)
    if values.shape != (np.count_nonzero(filled),):
        raise FormatError(f"a packed array has {values.shape} values for {filled.sum()} positions")
    out = np.zeros(size, dtype=values.dtype)
    out[filled] = values
    return out.reshape(shape)


def view(raw: Bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> AnyArray:
    """Bytes as an array of this type and shape, if they are values of it."""
    if raw.size != math.prod(shape) * dtype.itemsize:
        raise FormatError(f"an array of {raw.size} bytes does not have the shape {shape}")
    if dtype.kind == "b" and raw.size and raw.max() > 1:
        raise FormatError("the file holds booleans that are neither 0 nor 1")
    if dtype.kind == "U":
        letters = raw.view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if letters.size and letters.max() > 0x10FFFF:
            raise FormatError("the file holds characters that do not exist")
    return raw.view(dtype).reshape(shape)


# -- JSON ------------------------------------------------------------------------------------------


def dumps(document: Any) -> bytes:
    """JSON text in one fixed form, in UTF-8."""
    options: dict[str, Any] = {"allow_nan": False, "separators": (",", ":")}
    try:
        return json.dumps(document, ensure_ascii=False, **options).encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, which needs an escape
        return json.dumps(document, **options).encode("ascii")


def loads(text: str | bytes, what: str) -> Any:
    """Parse strict JSON; ``what`` names the part of the file in errors."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except FormatError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise FormatError(f"{what} is not valid JSON: {shown(error)}") from error


def _no_constant(name: str) -> Any:
    raise FormatError(f"the JSON holds {name}, which is not a JSON value")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise FormatError(f"the JSON repeats a name: {shown(sorted(key for key, _ in pairs))}")
    return out


def shown(value: Any) -> str:
    """A file's content for an error message: in ASCII, and cut."""
    text = str(value) if isinstance(value, Exception) else repr(value)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= ECHO else text[: ECHO - 3] + "..."
