"""The architecture page names files, functions and folders that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.rst").read_text()
SOURCE = ROOT / "src" / "maxmargin"


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


def test_folders_of_sources_and_of_tests_exist() -> None:
    index = PAGE.split("Those that guard a folder:")[1].split("There are no import cycles")[0]
    for folder in re.findall(r"``(tests/\w+)``", index):
        assert (ROOT / folder).is_dir(), folder
    named = set(re.findall(r"``(\w+)/``", index))
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} >= named
