"""Pages, headers and comments name files, modules, functions and folders that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.rst").read_text()
SOURCE = ROOT / "src" / "maxmargin"
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples", "tools", "fuzz")
#: by path: pages, and the code whose docstrings refer to other code
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for pattern in ("*.md", "docs/**/*.rst", "src/**/*.py", "tests/**/*.py", "benchmarks/**/*.py")
    for path in ROOT.glob(pattern)
}


def test_every_algorithm_of_the_papers_is_where_the_table_says() -> None:
    table = PAGE.split("Where the papers' algorithms are")[1].split("Four concepts")[0]
    rows = re.findall(r"   \* - (\w+)\n     - (.+)\n     - ``(.+)``\n     - ``(.+)``\n", table)
    assert {paper for paper, *_ in rows} == {"JFY", "OCA", "RAM", "YJ"}
    assert len(rows) >= 15
    for _, algorithm, file, name in rows:
        assert re.search(rf"(def|class) {name}\b", (SOURCE / file).read_text()), (
            algorithm,
            file,
            name,
        )


def test_files_that_are_named_exist() -> None:
    paths = [
        f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
    ]
    paths.append("/hatch_build.py")
    for text, content in TEXTS.items():
        for name in re.findall(r"``([\w/]+\.py)``", content):
            placeholder = Path(name).stem.lower() == "name"
            assert placeholder or any(path.endswith(f"/{name}") for path in paths), (text, name)


def test_names_in_maxmargin_exist() -> None:
    missing = [
        (text, name)
        for text, content in TEXTS.items()
        for name in re.findall(r"`~?(maxmargin(?:\.\w+)+)(?:\(\))?`", content)
        if not _exists(name)
    ]
    assert not missing


def _exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute or a field of something in one."""
    module, *attributes = name.split(".")
    found = import_module(module)
    for attribute in attributes:
        module = f"{module}.{attribute}"
        if hasattr(found, attribute):
            found = getattr(found, attribute)
            continue
        try:
            found = import_module(module)
        except ModuleNotFoundError:
            return attribute in getattr(found, "__annotations__", ())
    return True
