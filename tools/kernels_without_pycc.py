"""Compile a file of src/maxmargin/compiled without numba.pycc: the trial of plan B (decision 183).

    python tools/kernels_without_pycc.py FOLDER vectors distances

Numba compiles the functions, its code generator for ahead-of-time compilation emits one object file through
llvmlite, and a C file that is generated here takes the arguments apart: NumPy's arrays, integers, and floats.
Named tuples, None, and bool, which other files of the table have, are not done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: by the first letter of a type: the type in C, and what reads it from an object
SCALARS = {"f": ("double", "PyFloat_AsDouble"), "i": ("int64_t", "PyLong_AsLongLong")}
HEAD = """#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#define A(k) ((PyArrayObject *)args[k])
#define D(k, d) (int64_t)PyArray_DIM(A(k), d)
#define S(k, d) (int64_t)PyArray_STRIDE(A(k), d)
#define ARRAY(k) NULL, NULL, (int64_t)PyArray_SIZE(A(k)), (int64_t)PyArray_ITEMSIZE(A(k)), PyArray_DATA(A(k))
"""
FUNCTION = """
extern int {symbol}({declared});
static PyObject *call_{number}(PyObject *self, PyObject *const *args, Py_ssize_t n)
{{
    {result} out = 0;
    void *raised = NULL;
    int status;
    if (n != {n}) return PyErr_SetString(PyExc_TypeError, "another number of arguments"), NULL;
    {checks}
    Py_BEGIN_ALLOW_THREADS
    status = {symbol}({passed});
    Py_END_ALLOW_THREADS
    if (status != 0 && status != -2) return PyErr_SetString(PyExc_RuntimeError, "failed"), NULL;
    {give}
}}
"""
TAIL = """
static PyMethodDef methods[] = {{ {methods} {{NULL}} }};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}", NULL, -1, methods}};
PyMODINIT_FUNC PyInit_{name}(void) {{ import_array(); return PyModule_Create(&module); }}
"""


def _glue(number: int, symbol: str, types: list[str], returns: str) -> str:
    """The function in C that takes the arguments of a call apart."""
    declared, passed, checks = ["void *", "void **"], ["&out", "&raised"], []
    for k, text in enumerate(types):
        if "[" in text:
            dims = range(int(text.partition("[")[2][0]))
            declared += ["void *"] * 2 + ["int64_t"] * 2 + ["void *"] + ["int64_t"] * 2 * len(dims)
            passed += [
                f"ARRAY({k})",
                *(f"D({k}, {d})" for d in dims),
                *(f"S({k}, {d})" for d in dims),
            ]
        else:
            kind, read = SCALARS[text[0]]
            declared.append(kind)
            checks.append(f"{kind} x{k} = {read}(args[{k}]);")
            passed.append(f"x{k}")
    return FUNCTION.format(
        symbol=symbol,
        number=number,
        n=len(types),
        declared=", ".join(declared),
        passed=", ".join(passed),
        checks=" ".join(checks),
        result="double" if returns == "float64" else "int64_t",
        give="return PyFloat_FromDouble(out);" if returns == "float64" else "Py_RETURN_NONE;",
    )


def build(folder: Path, name: str, files: list[str]) -> Path:
    """Compile all functions of the files in the table, and return the path of the extension module."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]
    import numpy as np
    from build_kernels import _compile_extra, numba_types, split, suffix
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target
    from setuptools import Distribution, Extension

    from maxmargin.compiled.precompiled import signatures, target

    context: Any = cpu_target.target_context.with_aot_codegen(name, cpu_name=target())  # type: ignore[no-untyped-call]
    parts, methods = [HEAD], []
    with tempfile.TemporaryDirectory() as temporary:
        with global_compiler_lock:
            library = context.codegen().create_library(name)
            for signature in signatures():
                file, function = signature.function.split(".")
                if file not in files:
                    continue
                module = import_module(f"maxmargin.compiled.{file}")
                types = numba_types(signature.types, vars(module))
                made = _compile_extra(
                    cpu_target.typing_context,
                    context,
                    getattr(module, function),
                    types,
                    None,
                    None,
                    {},
                    library,
                    wrapper=False,
                )
                compiled = library.get_function(made.fndesc.llvm_func_name)
                compiled.name = f"kernel_{signature.number}"
                returns = str(made.signature.return_type)
                parts.append(
                    _glue(signature.number, compiled.name, [*split(signature.types)], returns)
                )
                methods.append(
                    f'{{"_{signature.number}", (PyCFunction)call_{signature.number}, METH_FASTCALL}},'
                )
            library.finalize()
            Path(temporary, "kernels.o").write_bytes(library.emit_native_object())
        parts.append(TAIL.format(name=name, methods=" ".join(methods)))
        Path(temporary, "glue.c").write_text("".join(parts))
        extension = Extension(
            name,
            [f"{temporary}/glue.c"],
            include_dirs=[np.get_include()],
            extra_objects=[f"{temporary}/kernels.o"],
            extra_compile_args=["-g0"],
        )
        command = Distribution({"ext_modules": [extension]}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder), temporary
        command.ensure_finalized()
        command.run()
    return folder / (name + suffix())


def main(arguments: list[str]) -> None:
    """Compile in an environment of its own, as the platform wheel is."""
    if os.environ.get("MAXMARGIN_JIT") != "1":
        again = {
            **os.environ,
            "MAXMARGIN_JIT": "1",
            "NUMBA_CPU_FEATURES": "",
            "MAXMARGIN_QUIET": "1",
        }
        sys.exit(subprocess.run([sys.executable, __file__, *arguments], env=again).returncode)
    print(build(Path(arguments[0]), "without_pycc", arguments[1:]))
    if "numba.pycc" in sys.modules:
        sys.exit("numba.pycc was imported")


if __name__ == "__main__":
    main(sys.argv[1:])
