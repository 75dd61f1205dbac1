"""Results do not depend on what was compiled first."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin.compiled
from maxmargin.compiled.precompiled import precompiled, target

ROOT = Path(__file__).resolve().parents[2]


def golden_bits(*options, **environment):
    """Start a process that prints the hashes of fits."""
    return subprocess.Popen(
        [sys.executable, ROOT / "tools" / "golden_bits.py", *options],
        env={**os.environ, "MAXMARGIN_JIT": "1", "MAXMARGIN_QUIET": "1", **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def lines(process):
    """What it printed, in any order."""
    return sorted(process.communicate()[0].splitlines())


@pytest.mark.slow
@pytest.mark.nightly
def test_results_do_not_depend_on_what_was_compiled_first_or_ahead_of_time(tmp_path):
    """Two empty caches that are filled in opposite orders, a full one, and precompiled code."""
    same = {"NUMBA_CPU_NAME": target(), "NUMBA_CPU_FEATURES": ""}
    one, two = ({**same, "NUMBA_CACHE_DIR": str(tmp_path / name)} for name in "ab")
    both = golden_bits(**one), golden_bits("--backward", **two)
    forward, backward = map(lines, both)
    assert len(forward) > 70
    assert not [line for line in forward if line[40:].split()[-1] == "error"]
    assert forward == backward
    assert lines(golden_bits(**one)) == forward
    if precompiled().functions:
        assert lines(golden_bits(MAXMARGIN_JIT="0")) == forward


def decorated():
    """By name of a compiled function: its decorator and the names that it calls."""
    functions = {}
    for path in sorted(Path(maxmargin.compiled.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text())
        imported = {
            alias.asname or alias.name: (node.module.rpartition(".")[2], alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                called = set()
                for call in (n.func for n in ast.walk(node) if isinstance(n, ast.Call)):
                    if isinstance(call, ast.Name):
                        called.add(imported.get(call.id, (path.stem, call.id)))
                    elif isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name):
                        called.add((imported.get(call.value.id, ("", ""))[1], call.attr))
                decorator = getattr(node.decorator_list[0], "id", "")
                functions[path.stem, node.name] = decorator, called
    return functions


def test_functions_with_fast_math_are_inlined_or_not_called_by_compiled_code():
    """LLVM optimizes a leaf again in each of its callers, and fast math lets the copies differ."""
    functions = decorated()

    def is_fast(name):
        decorator, called = functions[name]
        return decorator.count("_") > 0 or any(
            is_fast(other)
            for other in called
            if other in functions and functions[other][0].startswith("inlined")
        )

    called = {other for _, names in functions.values() for other in names} & set(functions)
    assert len(called) > 50
    wrong = [
        ".".join(name)
        for name in sorted(called)
        if not functions[name][0].startswith("inlined") and is_fast(name)
    ]
    assert wrong == []
