"""Record the types that compiled functions are called with, for src/maxmargin/compiled/signatures.txt.

    python tools/record_signatures.py FOLDER -- python -m pytest -n 2
    python tools/record_signatures.py FOLDER --write

The first form runs a command so that every Python process of it, when it ends, writes into FOLDER the types
that Numba compiled each function for. The second form makes the table of all that was recorded: it adds what
users have and the command did not meet (float32 and float64, 32-bit and 64-bit indices), and finds out which
arrays are never written, so that they may be read-only.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "maxmargin" / "compiled" / "signatures.txt"
AT_EXIT = """
import atexit, os, sys

def write():
    if "maxmargin.compiled.jit" in sys.modules:
        sys.path.insert(0, {tools!r})
        import record_signatures
        record_signatures.dump({folder!r})

atexit.register(write)
"""


def spelled(kind: Any) -> str:
    """A type of Numba as the table spells it."""
    from numba import typeof
    from numba.core import types

    if isinstance(kind, types.Omitted):
        return spelled(typeof(kind.value))
    if isinstance(kind, types.Array):
        return f"{kind.dtype.name}[{kind.ndim}{kind.layout}{'' if kind.aligned else '?'}]"
    if isinstance(kind, types.BaseTuple):
        several: Any = kind
        name = several.instance_class.__name__ if isinstance(kind, types.BaseNamedTuple) else ""
        return f"{name}({','.join(map(spelled, several.types))})"
    return str(types.unliteral(kind).name)


def dispatchers() -> Iterator[tuple[str, Any]]:
    """The compiled functions of the library that are called from Python, by name."""
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("maxmargin.compiled.") or module is None:
            continue
        for function in vars(module).values():
            ours = getattr(function, "__module__", None) == name and hasattr(function, "signatures")
            if ours and not function.targetoptions.get("no_cpython_wrapper"):
                yield f"{name.rpartition('.')[2]}.{function.__name__}", function


def dump(folder: str) -> None:
    """Write the types that this process has compiled or loaded."""
    lines = sorted(
        {
            f"{name} {','.join(map(spelled, signature))}"
            for name, function in dispatchers()
            for signature in function.signatures
        }
    )
    if lines:
        Path(folder, f"{os.getpid()}.txt").write_text("\n".join(lines) + "\n")


def run(folder: Path, command: list[str]) -> int:
    """Run the command; Python reads sitecustomize in every process."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as hook:
        at_exit = AT_EXIT.format(tools=str(ROOT / "tools"), folder=str(folder.resolve()))
        Path(hook, "sitecustomize.py").write_text(at_exit)
        path = os.pathsep.join(p for p in (hook, os.environ.get("PYTHONPATH")) if p)
        environment = {**os.environ, "PYTHONPATH": path, "MAXMARGIN_JIT": "1"}
        return subprocess.run(command, env=environment).returncode


# -- the table ---------------------------------------------------------------------------------------------


def write(folder: Path) -> None:
    """Make the table of what was recorded."""
    recorded = {line for file in folder.glob("*.txt") for line in file.read_text().splitlines()}
    calls = [Call(line) for line in sorted(recorded) if "?" not in line]
    seen: dict[tuple[str, str], set[str]] = {}
    for call in calls:
        for k, role in call.roles.items():
            seen.setdefault(role, set()).add(call.tokens[k].partition("[")[0])
    wanted = {other for call in calls for other in variants(call, seen)}
    lines = with_marks([" ".join(parts) for parts in sorted(line.split(" ") for line in wanted)])
    TABLE.write_text("\n".join(lines) + "\n")
    print(f"{len(recorded)} kinds of calls were recorded; the table has {len(lines)}")


class Call:
    """A line, and what is known of its arguments."""

    def __init__(self, line: str) -> None:
        self.name, types = line.split(" ")
        self.tokens = re.findall(r"\w+\[\w+\]|\w+|[(),]", types)
        file, function = self.name.split(".")
        module = import_module(f"maxmargin.compiled.{file}")
        parameters = iter(inspect.signature(getattr(module, function).py_func).parameters)
        #: by token: the source file, or the class of a named tuple, and the name of the argument or field
        self.roles: dict[int, tuple[str, str]] = {}
        where, names = file, parameters
        for k, token in enumerate(self.tokens):
            if token == ")":
                where, names = file, parameters
            elif token == "(" and (k == 0 or self.tokens[k - 1] == ","):  # a plain tuple
                where, names = "", itertools.repeat(next(parameters))
            elif k + 1 < len(self.tokens) and self.tokens[k + 1] == "(":
                next(parameters)
                where, names = token, iter(getattr(module, token)._fields)
            elif token not in "(),":
                self.roles[k] = where, next(names)


def variants(call: Call, seen: dict[tuple[str, str], set[str]]) -> Iterator[str]:
    """The call for all kinds of feature matrices: float32 and float64, 32-bit and 64-bit indices.

    Only where functions of the same file have met both. A row can begin at a 64-bit offset and have 32-bit
    columns, but not the reverse.
    """
    at: dict[str, list[int]] = {"float": [], "indptr": [], "indices": []}
    for k, role in call.roles.items():
        kind = "float" if role[1] in ("X", "data") else role[1]
        if (
            kind in at
            and call.tokens[k].startswith(("int", "float"))
            and len(seen[role] - {"none"}) > 1
        ):
            at[kind].append(k)
    both = (32, 64)
    for width in itertools.product(*(both if places else (0,) for places in at.values())):
        if at["indptr"] and width[1] < width[2]:
            continue
        tokens = list(call.tokens)
        for bits, places in zip(width, at.values(), strict=True):
            for k in places:
                tokens[k] = re.sub(r"\d+\[", f"{bits}[", tokens[k])
        yield f"{call.name} {''.join(tokens)}"


def with_marks(lines: list[str]) -> list[str]:
    """Mark the arrays that a function does not write: Numba accepts read-only ones there."""
    marks: dict[tuple[str, str], str] = {}
    marked = []
    for line in lines:
        name, types = line.split(" ")
        # whether an array is written does not depend on these
        key = name, re.sub(r"float32|float64|int32|int64", "", types)
        if key not in marks:
            marks[key] = _marks(name, types)
            print(name, marks[key], flush=True)
        parts = types.split("]")
        ends = [mark.strip() + "]" for mark in marks[key]] + [""]
        marked.append(f"{name} {''.join(map(''.join, zip(parts, ends, strict=True)))}")
    return marked


def _marks(name: str, types: str) -> str:
    """``r`` for every array that may be read-only, a space for the others."""
    count = types.count("]")
    alone = [
        "r" if _is_typed(name, types, " " * k + "r" + " " * (count - k - 1)) else " "
        for k in range(count)
    ]
    together = "".join(alone)
    return together if _is_typed(name, types, together) else " " * count


def _is_typed(name: str, types: str, marks: str) -> bool:
    """Whether Numba accepts the function for these types."""
    from build_kernels import numba_types
    from numba.core import compiler, errors
    from numba.core.registry import cpu_target

    file, function = name.split(".")
    module = import_module(f"maxmargin.compiled.{file}")
    try:
        compiler.compile_extra(
            cpu_target.typing_context,
            cpu_target.target_context,
            getattr(module, function).py_func,
            numba_types(types, vars(module), (mark == "r" for mark in marks)),
            None,
            compiler.DEFAULT_FLAGS,
            {},
            pipeline_class=_types_only(),
        )
    except errors.TypingError:
        return False
    return True


@cache
def _types_only() -> Any:
    """Numba's compiler as far as it finds types."""
    from numba.core import compiler, compiler_machinery, typed_passes

    @compiler_machinery.register_pass(mutates_CFG=False, analysis_only=True)
    class Done(compiler_machinery.FunctionPass):
        _name = "types_are_found"

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            state.cr = "typed"
            return False

    class TypesOnly(compiler.CompilerBase):
        def define_pipelines(self) -> Any:
            passes = compiler.DefaultPassBuilder.define_untyped_pipeline(self.state)
            passes._finalized = False
            passes.add_pass(typed_passes.NopythonTypeInference, "types")
            passes.add_pass(Done, "end")
            passes.finalize()
            return [passes]

    return TypesOnly


def main(arguments: list[str]) -> int:
    """Read the arguments; record, or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("command", nargs="*", help="record what this command calls")
    chosen = parser.parse_args(arguments)
    if chosen.write:
        write(chosen.folder)
        return 0
    return run(chosen.folder, chosen.command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
