"""Compile the functions of src/maxmargin/compiled for the types of its table, ahead of time.

    python tools/build_kernels.py                    # next to the sources: for development, and for tests
    python tools/build_kernels.py FOLDER             # elsewhere

It needs Numba, setuptools, and a C compiler, and takes about seven minutes of CPU time. Each of two processes
makes one extension module by numba.pycc, which is used here only: what it makes needs NumPy but not Numba.
All are for one generation of processors (`maxmargin.compiled.precompiled.TARGETS`), not for that of this
machine. Nothing is compiled if the folder already has the modules of these sources.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "maxmargin" / "compiled"
#: extension modules that are written in C
IN_C = ("_dispatch", "_names")
#: how many other modules, one a process; not by the cores of this machine: equal sources, equal wheels
PARTS = 2
#: information for debuggers has the folders of the build
NO_DEBUG = ("-g0",) if os.name == "posix" else ()


def build(folder: Path) -> list[Path]:
    """Write all extension modules into the folder, and return their paths."""
    sys.path.insert(0, str(SOURCES.parents[1]))
    folder.mkdir(parents=True, exist_ok=True)
    ready = modules(SOURCES) if is_current() else []
    if ready:
        for name in IN_C:
            if not is_current_in_c(name):
                build_in_c(SOURCES, name)
        ready = modules(SOURCES)
    if folder.resolve() == SOURCES and ready:
        return ready
    for old in modules(folder):
        old.unlink()
    if ready:
        return [Path(shutil.copy(path, folder)) for path in ready]
    # with a cache of its own, because Numba's depends on the processor that code was compiled for
    with tempfile.TemporaryDirectory() as cache:
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, str(folder), "--part", str(part)],
                env={**environment(), "NUMBA_CACHE_DIR": f"{cache}/{part}"},
            )
            for part in range(PARTS)
        ]
        for name in IN_C:
            build_in_c(folder, name)
        if max(process.wait() for process in processes):
            raise SystemExit("the functions could not be compiled: see above")
    return modules(folder)


def environment() -> dict[str, str]:
    """The environment of the processes that compile: the same code in each build."""
    from maxmargin.compiled.precompiled import target

    return {
        **os.environ,
        "PYTHONPATH": str(SOURCES.parents[1]),
        "MAXMARGIN_JIT": "1",
        "NUMBA_CPU_NAME": target(),
        "NUMBA_CPU_FEATURES": "",
        "MAXMARGIN_QUIET": "1",
        "PYTHONHASHSEED": "0",  # names of functions have options in the order of a set
        **_flags(),
    }


def _flags() -> dict[str, str]:
    """No information for debuggers, and no names of folders: Numba's own sources in C have assertions."""
    if os.name != "posix":
        return {}
    packages = Path(str(metadata.distribution("numba").locate_file("")))
    flags = " ".join([*NO_DEBUG, f"-ffile-prefix-map={packages}="])
    strip = "-Wl,-S" if sys.platform == "darwin" else "-Wl,--strip-debug"
    added = {"CFLAGS": flags, "CXXFLAGS": flags, "LDFLAGS": strip}
    return {name: f"{os.environ.get(name, '')} {text}".strip() for name, text in added.items()}


def modules(folder: Path) -> list[Path]:
    """The extension modules of a folder that this Python loads."""
    names = [f"{name}.*" for name in (*IN_C, "_kernels_*")]
    found = (path for name in names for path in folder.glob(name))
    return sorted(path for path in found if path.name.endswith(suffix()))


def is_current() -> bool:
    """Whether the modules next to the sources are of these sources and of this version of Numba."""
    from maxmargin.compiled.precompiled import precompiled

    return precompiled().reason.endswith(f"Numba {metadata.version('numba')}")


def is_current_in_c(name: str) -> bool:
    """Whether the module in C next to the sources is of its source."""
    from maxmargin.compiled import precompiled

    try:
        return precompiled.is_current(import_module(f"maxmargin.compiled.{name}"))
    except ImportError:
        return False


def suffix() -> str:
    """How the file names of extension modules end."""
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def build_in_c(folder: Path, name: str, flags: Sequence[str] = ()) -> None:
    """An extension module in C, which runs on every processor; compiler and linker get the flags."""
    import numpy as np
    from setuptools import Distribution, Extension

    from maxmargin.compiled.precompiled import source_stamp

    text, source = f"Numba {metadata.version('numba')}", SOURCES / f"{name}.c"
    extension = Extension(
        name,
        [str(source)],
        include_dirs=[np.get_include()],
        define_macros=[("BUILT_WITH", f'"{text}"'), ("BUILT_FROM", f'"{source_stamp(source)}"')],
        extra_compile_args=[*NO_DEBUG, *flags],
        extra_link_args=[*flags],
    )
    with tempfile.TemporaryDirectory() as temporary:
        command = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder), temporary
        command.ensure_finalized()
        command.run()


def build_part(folder: Path, part: int, parts: int) -> None:
    """Compile the functions of some of the source files into one extension module."""
    import numba.pycc.compiler as pycc
    from numba import njit
    from numba.pycc import CC

    from maxmargin.compiled.precompiled import Signature, signatures, stamp

    gc.disable()  # an eighth of the time; all jobs together need about 4 GB without it
    warnings.simplefilter("ignore")  # pycc will be replaced one day: Numba is pinned for the build
    setattr(pycc, "compile_extra", _compile_extra)  # noqa: B010 - mypy refuses the assignment
    _same_in_every_folder()
    compiler: Any = CC(f"_kernels_{part}", source_module="maxmargin")
    compiler.output_dir = str(folder)
    compiler.target_cpu = os.environ["NUMBA_CPU_NAME"]
    by_file: dict[str, list[Signature]] = {}
    for signature in signatures():
        by_file.setdefault(signature.function.split(".")[0], []).append(signature)
    load = [0] * parts
    work = {file: len(several) * _size(file) for file, several in by_file.items()}
    for file, several in sorted(by_file.items(), key=lambda item: (-work[item[0]], item[0])):
        chosen = load.index(min(load))
        load[chosen] += work[file]
        if chosen != part:
            continue
        module = import_module(f"maxmargin.compiled.{file}")
        for signature in several:
            function = getattr(module, signature.function.split(".")[1])
            types = numba_types(signature.types, vars(module))
            compiler.export(f"_{signature.number}", types)(function)
    found = stamp()
    compiler.export("stamp", ())(njit(lambda: found))
    compiler.compile()


def _same_in_every_folder() -> None:
    """Keep addresses of objects and names of folders out of the modules: else no two builds are equal."""
    from numba.core import ir
    from numba.np.ufunc import array_exprs

    numbers = itertools.count()
    # Numba names a function for an expression of arrays by its hash, which is an address
    setattr(array_exprs, "hex", lambda _: hex(next(numbers)))  # noqa: B010
    original = ir.Loc.__init__

    def __init__(self: Any, filename: Any, *arguments: Any, **options: Any) -> None:
        """Without the folder of the sources or of the environment: exceptions name the file."""
        inside = re.split(r"site-packages[\\/]|src[\\/](?=maxmargin)", str(filename))[-1]
        original(self, inside, *arguments, **options)

    setattr(ir.Loc, "__init__", __init__)  # noqa: B010


def _size(file: str) -> int:
    """The number of lines of a source file: compiling one of its functions takes about as long."""
    return (SOURCES / f"{file}.py").read_text().count("\n")


def _compile_extra(
    typing: Any,
    target: Any,
    function: Any,
    args: Any,
    return_type: Any,
    flags: Any,
    locals: Any,
    library: Any,
    wrapper: bool = True,
) -> Any:
    """pycc compiles plain functions with its own options: take those of the decorators instead.

    Without a wrapper it is a function for C, which cannot allocate arrays.
    """
    from numba.core.compiler import Flags, compile_extra
    from numba.core.registry import cpu_target

    own: Any = Flags()
    cpu_target.options.parse_as_flags(own, function.targetoptions)
    own.no_compile = own.no_cfunc_wrapper = True
    own.nrt, own.no_cpython_wrapper = wrapper, not wrapper
    own.enable_pyobject = own.enable_looplift = False
    return compile_extra(
        typing, target, function.py_func, args, return_type, own, locals=locals, library=library
    )


def numba_types(
    spelled: str, names: dict[str, Any], read_only: Iterable[bool] = ()
) -> tuple[Any, ...]:
    """Numba's types of the arguments; ``names`` has the classes of named tuples.

    All arrays are writable by default. Code for read-only ones is not the same in the last bits: LLVM chooses
    other fused operations. So precompiled functions get read-only arrays as if they were writable.
    """
    from numba import types

    array: Any = types.Array
    marks = iter(read_only)
    scalars = {"none": types.none, "bool": types.boolean}

    def scalar(name: str) -> Any:
        return scalars[name] if name in scalars else getattr(types, name)

    def read(text: str) -> Any:
        name, bracket, rest = text.partition("(")
        if bracket:
            parts = [read(part) for part in split(rest[:-1])]
            return types.NamedTuple(parts, names[name]) if name else types.Tuple(parts)
        name, bracket, rest = text.partition("[")
        if bracket:
            return array(scalar(name), int(rest[0]), rest[1], readonly=next(marks, False))
        return scalar(name)

    return tuple(read(part) for part in split(spelled))


def split(text: str) -> Iterator[str]:
    """The parts between commas outside of parentheses."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    if part:
        yield part


def main(arguments: list[str]) -> None:
    """Read the arguments and compile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCES)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.part is None:
        for path in build(chosen.folder):
            print(path, path.stat().st_size)
    else:
        build_part(chosen.folder, chosen.part, PARTS)


if __name__ == "__main__":
    main(sys.argv[1:])
