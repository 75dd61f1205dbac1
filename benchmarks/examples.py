"""The tasks of the gallery, for benchmarks and tests: what an example defines, without running it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def find(name: str) -> Path:
    """The file of the example NAME, in any folder of the gallery."""
    return next(FOLDER.rglob(f"{name}.py"))


@cache
def definitions(name: str) -> ModuleType:
    """The imports, functions and classes of the example NAME as a module."""
    path = find(name)
    tree = ast.parse(path.read_text())
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    tree.body = [node for node in tree.body if isinstance(node, kinds)]
    module = ModuleType(name)
    exec(compile(tree, path, "exec"), vars(module))
    return module
