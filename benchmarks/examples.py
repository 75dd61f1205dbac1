"""The tasks of the gallery, for benchmarks and tests: what an example defines, without running it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[1] / "examples"


@cache
def definitions(name: str) -> ModuleType:
    """The imports, functions and classes of the example NAME, in any folder, as a module."""
    path = next(FOLDER.rglob(f"{name}.py"))
    tree = ast.parse(path.read_text())
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    tree.body = [node for node in tree.body if isinstance(node, kinds)]
    module = ModuleType(name)
    exec(compile(tree, path, "exec"), vars(module))
    return module
