"""Damaged models, data sets and checkpoints, each with valid checksums.

A file is taken apart, one of its parts is changed, and it is reassembled so that redundant information
is consistent (in most cases: contradictions are damage, too).
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.file_bombs import BOMBS
from fuzz.file_mutations import (
    draw_value,
    dumps,
    mutate_array,
    mutate_bytes,
    mutate_json,
    places,
)
from maxmargin.checkpoints import UNKNOWN, NotPlainError, Outputs, read_file, write_file
from maxmargin.data.manifest import SectionSums

_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "|b1"} | {
    f"{sign.upper()}{8 * size}": f"<{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)
}
_NAMES = {np.dtype(code): name for name, code in _NUMPY.items()}


class Parts:
    """A file in the layout of safetensors: its header and its arrays."""

    def __init__(self, data: bytes) -> None:
        length = int.from_bytes(data[:8], "little")
        self.header: dict[str, Any] = json.loads(data[8 : 8 + length])
        self.metadata = self.header.pop("__metadata__")
        self.arrays: dict[str, np.ndarray] = {}
        for name, spec in self.header.items():
            lo, hi = (8 + length + at for at in spec["data_offsets"])
            flat = np.frombuffer(data[lo:hi], dtype=_NUMPY[spec["dtype"]])
            self.arrays[name] = flat.reshape(spec["shape"])

    def join(self, rng: np.random.Generator, header_too: bool = False) -> bytes:
        """The file; with ``header_too`` the outer header is damaged last."""
        header: dict[str, Any] = {"__metadata__": self.metadata}
        body, at = [], 0
        for name, array in self.arrays.items():
            raw = np.ascontiguousarray(array).tobytes()
            kind = _NAMES.get(array.dtype, "U8")
            header[name] = {
                "dtype": kind,
                "shape": list(array.shape),
                "data_offsets": [at, at + len(raw)],
            }
            body.append(raw)
            at += len(raw)
        if header_too:
            header = mutate_json(header, rng, [])
        text = dumps(header, rng, repeat=header_too and rng.random() < 0.1)
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text + b"".join(body)


# -- models ----------------------------------------------------------------------------------------


def damage_model(good: Path, target: Path, rng: np.random.Generator, corpus: list[Path]) -> None:
    """Write a damaged model file."""
    data = good.read_bytes()
    other = corpus[rng.integers(len(corpus))].read_bytes()
    way = rng.random()
    if way < 0.12:
        damaged = mutate_bytes(data, rng, other)
        target.write_bytes(rechecked(damaged) if rng.random() < 0.8 else damaged)
        return
    if way < 0.14 and odd_file(target, rng):
        return
    parts = Parts(data)
    if way < 0.22:
        target.write_bytes(rechecked(parts.join(rng, header_too=True)))
        return
    header, fitted = _documents(parts)
    if way < 0.225:
        text, arrays = _bomb(rng)
        name = list(fitted)[rng.integers(len(fitted))]
        parts.arrays |= arrays
        text = dumps({**fitted, name: None}).replace(b"null", text, 1)
        parts.arrays["tree"] = np.frombuffer(text, dtype=np.uint8)
        target.write_bytes(rechecked(parts.join(rng)))
        return
    if way < 0.70:
        theirs = [header, fitted, *_documents(Parts(other))]
        at = ["fitted", "params", "certificate", "fitted"][rng.integers(4)]
        if rng.random() < 0.1:
            header = mutate_json(header, rng, theirs)
        elif at == "fitted":
            fitted = mutate_json(fitted, rng, theirs)
        else:
            header[at] = mutate_json(header[at], rng, theirs)
    else:
        for _ in range(int(rng.integers(1, 3))):
            _damage_tensor(parts, [header, fitted], rng)
    repeat = rng.random() < 0.03
    parts.metadata["about"] = dumps(header, rng, repeat).decode("utf-8", "surrogatepass")
    parts.arrays["tree"] = np.frombuffer(dumps(fitted, rng, repeat), dtype=np.uint8)
    target.write_bytes(rechecked(parts.join(rng)))


def _bomb(rng: np.random.Generator) -> tuple[bytes, dict[str, Any]]:
    text, arrays = BOMBS[list(BOMBS)[rng.integers(len(BOMBS))]](3_000_000)
    return text.encode(), arrays


def _documents(parts: Parts) -> tuple[Any, Any]:
    """The JSON of the header and that of the fitted attributes."""
    return json.loads(parts.metadata["about"]), json.loads(parts.arrays["tree"].tobytes())


def _damage_tensor(parts: Parts, documents: list[Any], rng: np.random.Generator) -> None:
    names = [name for name in parts.arrays if name != "tree"]
    if not names:
        return
    name = names[rng.integers(len(names))]
    array = parts.arrays[name]
    if rng.random() < 0.1:
        new = copy.copy(parts.arrays[names[rng.integers(len(names))]])
    else:
        new = mutate_array(array, rng)
    parts.arrays[name] = new
    for holder, key in [place for document in documents for place in places(document)]:
        spec = holder[key]
        if new.shape and array.shape and key == "n_features_in_" and spec == array.shape[-1]:
            holder[key] = new.shape[-1]


# -- data sets -------------------------------------------------------------------------------------


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _sum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def damage_dataset(good: Path, target: Path, rng: np.random.Generator, corpus: list[Path]) -> None:
    """Write a damaged data set folder."""
    shutil.copytree(good, target)
    manifest = target / "manifest.json"
    content = manifest.read_bytes()
    body = json.loads(content)
    way = rng.random()
    if way < 0.08:
        manifest.write_bytes(mutate_bytes(content, rng, content))
        return
    if way < 0.14:
        entries = sorted(target.iterdir())
        chosen = entries[rng.integers(len(entries))] if rng.random() < 0.6 else manifest
        if odd_file(chosen, rng):
            return
    others = [json.loads((corpus[rng.integers(len(corpus))] / "manifest.json").read_text())]
    if way < 0.35:
        _damage_column(target, body, rng)
    elif way < 0.6:  # one entry of one file or shard
        holder = body["shards"][rng.integers(len(body["shards"]))]
        if rng.random() < 0.7:
            name = list(holder["files"])[rng.integers(len(holder["files"]))]
            holder["files"][name] = mutate_json(holder["files"][name], rng, others)
        else:
            body["shards"][0] = mutate_json(holder, rng, others)
    elif way < 0.75:
        body["labels"] = mutate_json(body["labels"], rng, others)
    elif way < 0.9:
        top = [key for key in body if key not in ("shards", "labels", "checksum")]
        body[top[rng.integers(len(top))]] = draw_value(rng)
    else:
        body = mutate_json(body, rng, others)
    manifest.write_bytes(sealed(body, rng))


def sealed(body: Any, rng: np.random.Generator) -> bytes:
    """A manifest with valid checksums of its content, as far as possible."""
    raw = rng.random() < 0.97
    text = dumps(body)
    try:
        body = json.loads(text)
        if raw:
            for shard in body["shards"]:
                files = {
                    k: [f["dtype"], f["shape"], f["checksum"]] for k, f in shard["files"].items()
                }
                content = [shard["rows"], shard["sequences"], shard["new_classes"], files]
                shard["checksum"] = _sum(_canonical(content))
        body.pop("checksum", None)
        checksum = _sum(_canonical(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        try:
            checksum = _sum(_canonical({k: v for k, v in body.items() if k != "checksum"}))
        except (ValueError, AttributeError, RecursionError):
            return text
    body["checksum"] = checksum
    return dumps(body, rng, repeat=rng.random() < 0.02)


def _damage_column(target: Path, body: Any, rng: np.random.Generator) -> None:
    shard = body["shards"][rng.integers(len(body["shards"]))]
    names = list(shard["files"])
    file = shard["files"][names[rng.integers(len(names))]]
    path = target / file["name"]
    flat = np.frombuffer(path.read_bytes(), dtype=file["dtype"])
    new = mutate_array(flat, rng)
    path.write_bytes(new.tobytes())
    if rng.random() < 0.9:
        sections = SectionSums()
        sections.update(new.tobytes())
        file["bytes"], file["checksum"] = new.nbytes, _sum(new.tobytes())
        file["sections"] = sections.digest().hex()
        if new.dtype != flat.dtype:
            file["dtype"] = new.dtype.str
        if new.size != flat.size and rng.random() < 0.7:
            file["shape"] = [new.size] if len(file["shape"]) == 1 else file["shape"]


# -- checkpoints -----------------------------------------------------------------------------------


def rechecked(data: bytes) -> bytes:
    """The file with a valid checksum of its content, if it can be read."""
    try:
        parts = Parts(data)
        metadata = {key: value for key, value in parts.metadata.items() if key != "checksum"}
        content = hashlib.blake2b(compact(sorted(metadata.items())), digest_size=32)
        for name, array in sorted(parts.arrays.items()):
            content.update(compact([name, array.dtype.str, list(array.shape)]))
            content.update(array.tobytes())
        wrong = parts.metadata["checksum"].encode("ascii")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data
    return data.replace(wrong, content.hexdigest().encode("ascii"), 1) if wrong else data


def compact(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def damage_checkpoint(
    good: Path, target: Path, rng: np.random.Generator, corpus: list[Path]
) -> None:
    """Write a damaged checkpoint with a valid checksum."""
    data = good.read_bytes()
    other = corpus[rng.integers(len(corpus))]
    way = rng.random()
    if way < 0.10:
        data = mutate_bytes(data, rng, other.read_bytes())
        target.write_bytes(rechecked(data) if rng.random() < 0.9 else data)
        return
    if way < 0.12 and odd_file(target, rng):
        return
    if way < 0.55:  # the Python values
        about, tree = read_file(good)
        theirs = read_file(other)[1]
        changed = _damage_tree(tree, rng, theirs)
        try:
            write_file(target, about, changed)
            return
        except (NotPlainError, TypeError, ValueError, RecursionError):
            pass
    parts = Parts(data)
    if way < 0.555:
        text, arrays = _bomb(rng)
        parts.arrays |= {**arrays, "tree": np.frombuffer(text, dtype=np.uint8)}
    elif way < 0.90:  # the JSON of the values
        tree = json.loads(parts.arrays["tree"].tobytes())
        changed = mutate_json(
            tree, rng, [json.loads(Parts(other.read_bytes()).arrays["tree"].tobytes())]
        )
        text = dumps(changed, rng, repeat=rng.random() < 0.03)
        parts.arrays["tree"] = np.frombuffer(text, dtype=np.uint8)
    elif way < 0.94:
        about = mutate_json(json.loads(parts.metadata["about"]), rng, [])
        parts.metadata["about"] = dumps(about).decode("utf-8", "surrogatepass")
    else:
        name = list(parts.arrays)[rng.integers(len(parts.arrays))]
        parts.arrays[name] = mutate_array(parts.arrays[name], rng)
    target.write_bytes(rechecked(parts.join(rng, header_too=rng.random() < 0.1)))


_ODD: list[Any] = [
    None, True, 0, 1, -1, 2**31, 2**63, 10**30, 0.0, -1.0, 0.5, 1e300, float("nan"), float("inf"), "", "rows",
    [], {}, (), set(), (1, 2), [[0]], {"kind": "bundle"}, {1: 2}, UNKNOWN, np.zeros(0), np.zeros(3),
    np.float64(3.0), np.int64(-1), np.array("x"), np.array([b"x"]), np.array([1j]), np.zeros((2, 2)),
    np.full(4, 2**62), np.full(7, np.nan), frozenset([1]), "coordinate", "newton", "x" * 10_000,
]  # fmt: skip


def _damage_tree(tree: Any, rng: np.random.Generator, theirs: Any) -> Any:
    tree = _copied(tree)
    for _ in range(int(rng.integers(1, 3))):
        found = _places(tree)
        if not found:
            break
        leaves = [(h, k) for h, k in found if isinstance(h[k], np.ndarray)]
        pool = leaves if leaves and rng.random() < 0.5 else found
        holder, key = pool[rng.integers(len(pool))]
        value = holder[key]
        way = rng.random()
        if isinstance(value, np.ndarray) and way < 0.7:
            holder[key] = mutate_array(value, rng)
        elif way < 0.15:
            del holder[key]
        elif way < 0.35 and (same := [(h, k) for h, k in _places(theirs) if k == key]):
            other, name = same[rng.integers(len(same))]
            holder[key] = _copied(other[name])
        elif isinstance(value, int | float) and not isinstance(value, bool) and way < 0.6:
            holder[key] = [value + 1, -value, value * 10**9, float(value), value * 1e300][
                rng.integers(5)
            ]
        else:
            holder[key] = _ODD[rng.integers(len(_ODD))]
    return tree


def _copied(value: Any) -> Any:
    """A copy whose tuples are replaced by lists that are read back as tuples."""
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_copied(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else Outputs(parts)
    return value


def _places(tree: Any) -> list[tuple[Any, Any]]:
    out: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        keys: Any = list(here) if isinstance(here, dict) else range(len(here))
        if not isinstance(here, tuple):
            out += [(here, key) for key in keys]
        waiting += [here[key] for key in keys if isinstance(here[key], dict | list | tuple)]
    return out


# -- not regular files -----------------------------------------------------------------------------


def odd_file(path: Path, rng: np.random.Generator) -> bool:
    """Put a folder, a pipe, a device, a broken link, or a sparse file of a terabyte in its place."""
    if path.is_file():
        path.unlink()
    kind = int(rng.integers(8))
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind in (2, 3):
        path.symlink_to("/dev/zero" if kind == 2 else "/dev/null")
    elif kind == 4:
        path.symlink_to("nowhere")
    elif kind == 5:
        path.symlink_to(path.name)
    elif kind == 6:
        with path.open("wb") as file:
            file.truncate(2**40)
    return True  # kind 7: no file at all
