"""Small files that ask for much: valid to the last checksum, they take many times their size, or hours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.files import container

#: the modulus of the hashes of Python's ints
PRIME = 2**61 - 1

#: the text of each kind of bomb, and what its array holds, from a number of bytes
Made = tuple[str, dict[str, Any]]


def _repeated(part: str, size: int) -> str:
    return "[" + ",".join([part] * (size // len(part))) + "]"


def _scalars(size: int) -> Made:
    """Each reference to a scalar makes a string."""
    text = _repeated('{"$scalar":["long","<U50000",[]]}', size)
    return text, {"long": np.frombuffer(("x" * 50_000).encode("utf-32-le"), np.uint8)}


def _overlapping(size: int) -> Made:
    parts = ",".join(f'{{"$array":[{k % 4096},"|u1",[4095]]}}' for k in range(size // 30))
    return f"[{parts}]", {"small": np.zeros(8192, np.uint8)}


def _checked_again(size: int) -> Made:
    """Every shape of an array of strings is checked again."""
    parts = ",".join(
        f'{{"$array":["long","<U1",[{"1," * (k % 30)}{4 ** (k // 30 % 10)},{4 ** (10 - k // 30 % 10)}]]}}'
        for k in range(size // 60)
    )
    return f"[{parts}]", {"long": np.zeros(2**22, np.uint8)}


def _colliding(tag: str, member: Callable[[int], str], size: int) -> Made:
    parts = ",".join(member(k) for k in range(size // 25))
    return f'{{"{tag}":[{parts}]}}', {}


def _distinct_keys(size: int) -> Made:
    return "{" + ",".join(f'"{k:x}":0' for k in range(2**16, 2**16 + size // 10)) + "}", {}


def _shapes(size: int) -> Made:
    parts = ",".join(f'{{"$array":["few","|u1",[{"1," * (k % 30)}1]]}}' for k in range(size // 60))
    return f"[{parts}]", {"few": np.zeros(1, np.uint8)}


BOMBS: dict[str, Callable[[int], Made]] = {
    "scalars": _scalars,
    "overlapping": _overlapping,
    "checked again": _checked_again,
    "shapes": _shapes,
    "set": lambda size: _colliding("$set", lambda k: str(PRIME * k), size),
    "frozenset": lambda size: _colliding("$frozenset", lambda k: str(PRIME * k), size),
    "dict": lambda size: _colliding("$dict", lambda k: f"[{PRIME * k},0]", size),
    "equal": lambda size: (_repeated('{"$set":[1,1,1]}', size), {}),
    "nested lists": lambda size: (_repeated("[" * 60 + "]" * 60, size), {}),
    "empty lists": lambda size: (_repeated("[]", size), {}),
    "empty dicts": lambda size: (_repeated("{}", size), {}),
    "small dicts": lambda size: (_repeated('{"a":1}', size), {}),
    "nested dicts": lambda size: (_repeated('{"a":' * 60 + "1" + "}" * 60, size), {}),
    "small sets": lambda size: (_repeated('{"$set":[]}', size), {}),
    "small tuples": lambda size: (_repeated('{"$tuple":[]}', size), {}),
    "frozensets": lambda size: (_repeated('{"$frozenset":["a"]}', size), {}),
    "strings": lambda size: ("[" + ",".join(f'"{k:x}"' for k in range(256, size // 6)) + "]", {}),
    "numbers": lambda size: ("[" + ",".join(str(k) for k in range(300, size // 6)) + "]", {}),
    "keys": _distinct_keys,
}


def bomb(name: str, path: Path, size: int) -> None:
    """Write a checkpoint of about this size."""
    text, arrays = BOMBS[name](size)
    json.loads(text)
    container.write(path, "checkpoint", b"{}", text.encode(), arrays)
