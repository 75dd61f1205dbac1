"""Targeted damage: JSON, arrays and bytes are changed so that later checks are reached, not only the first.

Everything depends on the given generator, so a number identifies a file.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

LONG = "long " * 3000

#: placeholders for text that no JSON library writes
_RAW = {
    "\x01deep list": "[" * 100_000 + "]" * 100_000,
    "\x01deep object": '{"a":' * 5000 + "1" + "}" * 5000,
    "\x01nearly too deep": "[" * 900 + "]" * 900,
    "\x01some depth": "[" * 150 + "]" * 150,
    "\x01digits": "9" * 5000,
    "\x01many digits": "1" + "0" * 400,
    "\x01NaN": "NaN",
    "\x01Infinity": "Infinity",
    "\x01overflow": "1e999",
    "\x01minus": "-1e999",
}
_VALUES: list[Any] = [
    None, True, False, 0, 1, 2, -1, 3, 7, 255, -(2**31), 2**31, 2**32, 2**62, 2**63, 2**64, 10**18, 10**30,
    0.0, -0.0, 0.5, 1.0, 1.5, -1.0, 1e-300, 1e300, -1e300, 5e-324, "", "x", "a b", LONG, "\ud800", "\x00",
    "../../x", "/dev/zero", "é", "1", "-1", "nan", "inf", "object", "|O", "<f8", ">f8", "<i8", "<U5", "|V8",
    "<M8[s]", "<c16", "f8,i4", "F64", "I64", "float64", "uint8", "str", "U", "<f8,<f8", "O", "i8", "bool",
    [], {}, [0], [1, 2], [-1], [[]], [None], {"x": 1}, {"$dict": []}, {"$dict": [[1, 2]]}, {"$tuple": []},
    {"$tuple": [1, {"$tuple": [2]}]}, {"$set": [1]}, {"$frozenset": [[1]]}, {"$float": "nan"},
    {"$float": "inf"}, {"$float": []}, {"$float": {}}, {"$array": [0, "<f8", [1]]},
    {"$array": [0, "|O", [1]]}, {"$array": ["coef_", "<f8", [-1]]}, {"$array": [0, "<f8", [10**18]]},
    {"$array": [-8, "<i8", [1]]},
    {"$scalar": [0, "<f8", []]}, {"$scalar": [0, "<U9", []]}, {"$unknown": []}, {"$set": [{"$dict": []}]},
    {"$object": {"class": "CuttingPlane"}}, {"$object": {"class": "DualCoordinate", "batch_size": "all"}},
    {"$object": {"class": "RelativeGap", "tol": 0.1}}, {"$object": []}, {"$objects": ["a", 1, None]},
    {"$object": {"class": "RBF", "gamma": -1.0}}, {"$loss": {"class": "Hinge"}}, {"$loss": {"class": "x"}},
    {"$stream": {}},
    {"$matrix": {"shape": [1, 1]}}, *_RAW,
]  # fmt: skip


def dumps(document: Any, rng: np.random.Generator | None = None, repeat: bool = False) -> bytes:
    """JSON text with placeholders replaced; with ``repeat`` one key occurs twice."""
    text = json.dumps(document, separators=(",", ":"))
    for name, raw in _RAW.items():
        text = text.replace(json.dumps(name), raw)
    if repeat and rng is not None:
        at = [k for k in range(len(text)) if text[k] == "{" and text[k + 1 : k + 2] == '"']
        if at:
            k = at[rng.integers(len(at))] + 1
            key = text[k : text.index('"', k + 1) + 1]
            text = f"{text[:k]}{key}:{json.dumps(draw_value(rng))},{text[k:]}"
    return text.encode("utf-8", "surrogatepass")


def draw_value(rng: np.random.Generator) -> Any:
    """A random value of the list."""
    return copy.deepcopy(_VALUES[rng.integers(len(_VALUES))])


def places(document: Any) -> list[tuple[Any, Any]]:
    """All (container, key) pairs of a document."""
    out: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        here = waiting.pop()
        keys: Any = list(here) if isinstance(here, dict) else range(len(here))
        out += [(here, key) for key in keys]
        waiting += [here[key] for key in keys if isinstance(here[key], dict | list)]
    return out


def mutate_json(document: Any, rng: np.random.Generator, others: list[Any]) -> Any:
    """The document with one to three changes; ``others`` are documents to take parts from."""
    document = copy.deepcopy(document)
    for _ in range(int(rng.integers(1, 4)) if rng.random() < 0.4 else 1):
        found = places(document) if isinstance(document, dict | list) else []
        if not found or rng.random() < 0.005:
            return draw_value(rng)
        document = _change(document, *found[rng.integers(len(found))], rng, others)
    return document


def _change(
    document: Any, holder: Any, key: Any, rng: np.random.Generator, others: list[Any]
) -> Any:
    value, kind = holder[key], int(rng.integers(12))
    if kind <= 3:
        holder[key] = draw_value(rng)
    elif kind == 4:
        del holder[key]
    elif kind == 5:  # close to the old value
        holder[key] = _near(value, rng)
    elif kind == 6:  # another key, or an additional one
        if isinstance(holder, dict):
            name = rng.choice(["x", LONG, "w", "C", "$x", "values", "_streams", "basis", "\ud800"])
            holder[str(name)] = holder.pop(key) if rng.random() < 0.5 else draw_value(rng)
        else:
            holder.insert(key, copy.deepcopy(value))
    elif kind == 7:
        holder[key] = (
            [value] if rng.random() < 0.5 else {str(rng.choice(["$tuple", "x", "$set"])): [value]}
        )
    elif kind == 8 and others:  # from another document, of the same key if it has that
        other = others[rng.integers(len(others))]
        found = places(other)
        same = [(h, k) for h, k in found if k == key] or found
        theirs, name = same[rng.integers(len(same))]
        holder[key] = copy.deepcopy(theirs[name])
    elif kind == 9:  # swap two values
        found = places(document)
        theirs, name = found[rng.integers(len(found))]
        holder[key], theirs[name] = copy.deepcopy(theirs[name]), copy.deepcopy(value)
    elif kind == 10 and isinstance(value, list):
        holder[key] = value[: int(rng.integers(len(value) + 1))]
    else:
        holder[key] = _near(value, rng)
    return document


def _near(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        choices = [
            value + 1,
            value - 1,
            -value,
            2 * value,
            value + 10**6,
            float(value),
            str(value),
            0,
        ]
        return choices[rng.integers(len(choices))]
    if isinstance(value, float):
        factors = [-1.0, 2.0, 1e8, 1e-8, 1e200, 1.0 + 1e-9, 0.0]
        return value * factors[rng.integers(len(factors))]
    if isinstance(value, str):
        words = [value + "x", value[:-1], value.upper(), value[::-1], [value], value * 50, ""]
        return words[rng.integers(len(words))]
    if isinstance(value, list):
        return value + value if rng.random() < 0.5 else value[::-1]
    return value


def mutate_bytes(data: bytes, rng: np.random.Generator, other: bytes) -> bytes:
    """Truncate, flip bits, splice, or overwrite a part."""
    kind, n = int(rng.integers(7)), len(data)
    at = int(rng.integers(n + 1)) if rng.random() < 0.5 else int(rng.integers(min(n, 4000) + 1))
    size = int(2 ** rng.uniform(0, 9))
    if kind == 0:
        return data[:at]
    if kind == 1:
        out = bytearray(data)
        for _ in range(int(rng.integers(1, 9))):
            out[int(rng.integers(n))] ^= 1 << int(rng.integers(8))
        return bytes(out)
    if kind == 2:
        return data[:at] + rng.bytes(size) + data[at + size :]
    if kind == 3:
        return data[:at] + rng.bytes(size) + data[at:]
    if kind == 4:
        return data[:at] + data[at + size :]
    if kind == 5:
        start = int(rng.integers(len(other)))
        return data[:at] + other[start : start + size] + data[at + size :]
    lengths = [0, 1, 2**31, 2**63, 2**64 - 1, n, n - 8, int(rng.integers(n))]
    return lengths[rng.integers(len(lengths))].to_bytes(8, "little") + data[8:]


_DTYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")


def mutate_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Change numbers, the length or the type."""
    kind = int(rng.integers(10))
    out = np.array(array)
    if kind <= 5 and out.size and out.dtype.kind in "fiub":
        flat = out.reshape(-1)
        where = rng.integers(out.size, size=int(rng.integers(1, 4)))
        with np.errstate(all="ignore"):
            flat[where] = _extremes(out.dtype, rng)
        return out
    if kind == 6:
        return out[: int(rng.integers(len(out) + 1))] if out.ndim else out
    if kind == 7:
        return np.concatenate([out, out]) if out.ndim else np.array([out, out])
    if kind == 8:
        shapes = [(-1,), (1, -1), (-1, 1), (1, 1, -1)]
        return out.reshape(shapes[rng.integers(len(shapes))])
    if kind == 9 and out.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            return np.nan_to_num(out).astype(_DTYPES[rng.integers(len(_DTYPES))])
    if out.size > 1 and out.ndim:
        return np.ascontiguousarray(out[rng.permutation(len(out))])
    return np.zeros_like(out)


def _extremes(dtype: np.dtype[Any], rng: np.random.Generator) -> Any:
    if dtype.kind == "b":
        return bool(rng.integers(2))
    if dtype.kind == "f":
        top = float(np.finfo(dtype).max)
        values = [np.nan, np.inf, -np.inf, top, -top, 0.0, -1.0, 1.0, 1e-300, 1e30, 2.0, 0.5, -1e10]
        return values[rng.integers(len(values))]
    info = np.iinfo(dtype)
    values = [info.max, info.min, 0, 1, -1, 2, 100, 2**20, 2**30, 127, 91, 34]
    value = int(values[rng.integers(len(values))])
    return value if info.min <= value <= info.max else int(info.max)
