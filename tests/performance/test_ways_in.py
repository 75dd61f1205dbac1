"""Diagram, cheat sheet, and word counts: what they name exists, and they are up to date."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import maxmargin
import maxmargin.testing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_diagram_is_drawn_of_estimators_and_guides_that_exist() -> None:
    choose = tool("draw_choose")
    assert choose.diagram() == (DOCS / "_static" / "choose.svg").read_text(encoding="utf-8")
    shown = {name for _, cases in choose.CHOICES for _, name, _ in cases}
    assert shown <= set(maxmargin.__all__)
    guides = {page for _, cases in choose.CHOICES for *_, page in cases}
    guides |= {page for *_, page in choose.ADDED}
    assert all((DOCS / f"{page}.rst").exists() for page in guides)
    # the diagram lacks no estimator but those that choose C
    estimators = {name for name in maxmargin.__all__ if re.search(r"SV[CMR]$|Regression$", name)}
    assert {name for name in estimators if not name.endswith("CV")} <= shown


def test_the_cheat_sheet_names_what_exists() -> None:
    text = (DOCS / "cheat_sheet.rst").read_text(encoding="utf-8")
    names = {*re.findall(r"\b([A-Z]\w+)\(", text)} - {"MyTask", "Task"}
    names |= {name.split(".")[0] for name in re.findall(r"maxmargin\.(\w+)\(", text)}
    assert len(names) > 12
    assert names <= set(maxmargin.__all__)
    assert set(re.findall(r"testing\.(\w+)\(", text)) <= set(maxmargin.testing.__all__)


def test_words_of_a_page_are_counted_without_markup() -> None:
    words = tool("count_words").words
    assert (
        words("Title\n=====\n\n.. image:: x.svg\n   :alt: A b\n\nThree :doc:`linear` words.\n") == 4
    )
