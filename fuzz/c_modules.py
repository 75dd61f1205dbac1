"""Random calls of the two modules in C under AddressSanitizer; results are compared with plain Python.

    python -m fuzz.c_modules --seconds 60 --seed 0

It compiles both modules with gcc's sanitizers and calls them in another process, with arguments of all kinds:
the usual ones, and those that no caller in the library has. A read or write outside of an object ends that
process with a report; a wrong result raises an error.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from array import array
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
LETTERS = ["a", "b", "=", "\0", "é", "字", "😀", "\ud800"]
Pair = namedtuple("Pair", "first second")


class Own(str):
    """A string that is not exactly one."""

    __slots__ = ()


# -- _names.c --------------------------------------------------------------------------------------


def a_name(rng: random.Random) -> str:
    """A short name, rarely a long one."""
    if rng.random() < 0.001:
        return rng.choice(LETTERS) * rng.choice([16_000, 17_000, 70_000])
    return "".join(rng.choices(LETTERS, [9, 9, 3, 1, 2, 1, 1, 0.05], k=rng.randrange(4)))


def a_value(rng: random.Random) -> Any:
    """A value of a feature."""
    kind = rng.randrange(8)
    if kind < 3:
        return a_name(rng)
    if kind < 6:
        return rng.choice([rng.random(), rng.randrange(-3, 3), 10 ** rng.randrange(400), True])
    if kind == 6:
        return [a_name(rng) for _ in range(1100 if rng.random() < 0.005 else rng.randrange(4))]
    return rng.choice([None, ("a",), {"a": 1.0}, ["a", 1], Own("a"), b"a"])


def a_token(rng: random.Random) -> Any:
    """A token: mostly of the usual types."""
    if rng.random() < 0.01:  # one that fills a buffer
        n, size = rng.choice([(1023, 1), (1024, 1), (1025, 1), (2, 16_000), (5, 16_000), (20, 800)])
        letter, first = rng.choice("aé字😀"), rng.randrange(10**6)
        names = [letter * size + str(first + k) for k in range(n)]
        return names if rng.random() < 0.5 else dict.fromkeys(names, 2.0)
    n, kind = rng.randrange(6), rng.randrange(8)
    if kind < 3:
        return {a_name(rng) + str(k): a_value(rng) for k in range(n)}
    if kind < 7:
        return [a_name(rng) for _ in range(n)] if kind < 6 else a_name(rng)
    return rng.choice([None, 5, ("a", "b"), {1: "a"}, ["a", None], Own("a"), {Own("a"): "b"}])


def features(token: Any) -> list[tuple[str, float]]:
    """The features of a token of the usual types."""
    if isinstance(token, str):
        return [(token, 1.0)]
    if isinstance(token, list):
        return [(name, 1.0) for name in token]
    pairs = [
        (name, part)
        for name, value in token.items()
        for part in (value if type(value) is list else [value])
    ]
    return [(f"{name}={v}", 1.0) if isinstance(v, str) else (name, float(v)) for name, v in pairs]


def joined(entries: list[tuple[int, float]], is_list: bool) -> list[tuple[int, float]]:
    """The entries sorted by column; those of one column are added up, except in a list."""
    found = []
    for column in sorted({column for column, _ in entries}):
        values = [value for other, value in entries if other == column]
        found.append((column, 1.0 if is_list else sum(values)))
    return found


def call_names(Names: Any, rng: random.Random) -> None:
    """A table of names from its beginning to its end."""
    names: list[Any] = [a_name(rng) for _ in range(rng.choice([0, 3, 200]))]
    for k in range(5, len(names), 10):
        names[k] = rng.choice([1, None, Own("a")])
    made = Names(rng.choice([list, tuple, iter])(names))
    columns = {name: k for k, name in enumerate(names) if is_plain(name)}
    for _ in range(rng.randrange(30)):
        kind = rng.random()
        if kind < 0.6:  # as the library calls it
            tokens = [a_token(rng) for _ in range(rng.randrange(8))]
            adding = rng.random() < 0.5
            found, values, ends = bytearray(), bytearray(), bytearray(8)
            t = made.read(tokens, 0, found, values, ends, adding)
            expected: list[tuple[int, float]] = []
            sizes = [0]
            for token in tokens[:t]:
                entries: list[tuple[int, float]] = []
                for name, value in features(token):
                    assert is_plain(name), name
                    if name not in columns and adding:
                        columns[name] = len(names)
                        names.append(name)
                    if name in columns:
                        entries.append((columns[name], value))
                expected += entries if adding else joined(entries, isinstance(token, list))
                sizes.append(len(expected))
            assert array("i", found).tolist() == [column for column, _ in expected]
            for value, (_, sum_) in zip(array("d", values), expected, strict=True):
                assert value == sum_ or math.isclose(value, sum_, rel_tol=1e-15)  # another order
            assert array("q", ends).tolist() == sizes
        elif kind < 0.75:
            name = rng.choice([a_name(rng), Own(a_name(rng)), rng.randrange(5)])
            assert made.append(name) == len(names)
            if is_plain(name):
                columns[name] = len(names)
            names.append(name)
        elif kind < 0.9:  # as nobody should
            tokens = [a_token(rng) for _ in range(rng.randrange(8))]
            several = [bytearray(rng.randrange(100)) for _ in range(3)]
            if rng.random() < 0.5:
                several[rng.randrange(3)] = several[rng.randrange(3)]
            held = memoryview(several[rng.randrange(3)]) if rng.random() < 0.2 else None
            t = rng.choice([0, 0, 1, -1, -(10**6), 10**6, 2**62])
            with contextlib.suppress(ValueError, BufferError):
                made.read(tokens, t, *several, False)
            del held
        else:
            copy = made.names
            rng.choice([copy.clear, copy.sort if columns.keys() == set(copy) else copy.reverse])()
            with contextlib.suppress(TypeError, OverflowError):
                made.read(*[a_value(rng) for _ in range(rng.randrange(8))])
        assert made.names == names


def is_plain(name: Any) -> bool:
    """Whether the table has the name itself: other names are found in Python."""
    return type(name) is str and not any("\ud800" <= letter < "\ue000" for letter in name)


# -- _dispatch.c -----------------------------------------------------------------------------------


def an_argument(rng: random.Random, depth: int) -> tuple[Any, Any]:
    """An argument of a function, and what its key has to distinguish (None: it has no key)."""
    kind = rng.random()
    if kind < 0.4:
        dtype = rng.choice(
            ["f8", "f4", "i4", "i8", "u1", "?", ">f8", "U3", "O", "f8,i4", "f2", "M8[s]"]
        )
        x = np.zeros(rng.choice([(3,), (2, 3), (), (0, 2), (1,) * 20]), dtype)
        x = rng.choice([x, x.T, x[..., ::2] if x.ndim else x, x.view(np.recarray)])
        x.flags.writeable = rng.random() < 0.5
        known = x.dtype.num <= np.dtype("c16").num and x.dtype.isnative
        flags = ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED")
        about = (x.dtype.num, x.ndim, *(x.flags[flag] for flag in flags))
        return x, about if known else None
    if kind < 0.7 or depth > 200:
        value = rng.choice([1.0, 1, None, True, "a", np.float64(1.0), np.int32(1), b"", int])
        return value, type(value)
    parts = [an_argument(rng, depth + 1) for _ in range(rng.choice([0, 1, 2, 3]))]
    values, about = tuple(value for value, _ in parts), tuple(known for _, known in parts)
    cls: Any = tuple
    if len(parts) == 2 and rng.random() < 0.3:
        values, cls = Pair(*values), Pair
    if rng.random() < 0.1:
        for _ in range(rng.randrange(150)):
            values, about, cls = (values,), ((cls, about),), tuple
    return values, None if None in about else (cls, about)


def call_dispatcher(Dispatcher: Any, rng: random.Random) -> None:
    """A function with many types of arguments."""

    class Recorder(Dispatcher):  # type: ignore[misc]
        def missing(self, key: Any, args: Any, named: Any) -> Any:
            return key

    recorder, keys = Recorder(), {}
    recorder.itself = recorder  # for the garbage collector
    for _ in range(20):
        several = [an_argument(rng, 0) for _ in range(rng.choice([0, 1, 2, 3, 4, 90]))]
        args, about = tuple(value for value, _ in several), tuple(known for _, known in several)
        if rng.random() < 0.1:
            assert recorder(*args, named=1) is None
            continue
        key = recorder(*args)
        if callable(key):
            key = key()
        assert (key is None) or len(key) <= 1024
        assert key is None or None not in about
        if key is not None:
            assert keys.setdefault(key, about) == about, (keys[key], about)
            recorder.known[key] = lambda *_, key=key: lambda: key
    if rng.random() < 0.1:
        recorder.known.clear()
    with contextlib.suppress(AttributeError):
        Dispatcher()(1.0)


# -- processes -------------------------------------------------------------------------------------


def work(folder: Path, seconds: float, seed: int) -> None:
    """Call the modules in a folder, in this process."""
    modules = {}
    for name in ("_names", "_dispatch"):
        (path,) = folder.glob(f"{name}.*")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        rng = random.Random(f"{seed} {n}")
        try:
            call_names(modules["_names"].Names, rng)
            call_dispatcher(modules["_dispatch"].Dispatcher, rng)
        except BaseException:
            print(f"found by seed {seed}, round {n}", flush=True)
            raise
        n += 1
    print(f"{n} rounds with seed {seed}: nothing found")


def main() -> int:
    """Compile the modules, and call them in a process with the sanitizer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="other seeds are other calls")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.folder is not None:
        work(chosen.folder, chosen.seconds, chosen.seed)
        return 0
    sys.path.insert(0, str(ROOT / "tools"))
    from build_kernels import IN_C, build_in_c

    libraries = [
        subprocess.run(
            ["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("asan", "ubsan")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(libraries),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    with tempfile.TemporaryDirectory() as folder:
        for name in IN_C:
            build_in_c(Path(folder), name, FLAGS)
        command = [sys.executable, "-m", "fuzz.c_modules", "--folder", folder]
        command += ["--seconds", str(chosen.seconds), "--seed", str(chosen.seed)]
        return subprocess.run(command, env=environment, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
