"""Guides address users: no machines of ours, no commands of benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: what belongs on the pages of the group "Developers"
FORBIDDEN = {
    "a date": r"\b20\d\d-\d\d-\d\d\b|\b(January|February|March|April|May|June|July|August|September"
    r"|October|November|December) 20\d\d\b",
    "a machine": r"\b(shared|loaded|noisy) machine\b|\bmachine with \w+ cores\b",
    "a benchmark": r"\bpython -m (benchmarks|tests)\b|\bbenchmarks/",
    "a tool": r"\btools/",
    "a test": r"\btests/",
    "a decision": r"decision[- ]\d",
}


def pages(*captions: str) -> list[str]:
    """The pages of these groups of the front page's toctrees."""
    groups = re.findall(
        r"\.\. toctree::\n   :hidden:\n   :caption: (\w+)\n\n((?:   .+\n)+)",
        (DOCS / "index.rst").read_text(encoding="utf-8"),
    )
    assert {caption for caption, _ in groups} > set(captions)
    found = [re.findall(r"<(\S+)>", lines) for caption, lines in groups if caption in captions]
    return [page for group in found for page in group if not page.startswith("gallery/")]


def text(page: str) -> str:
    """A page with the files that it includes."""
    source = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    included = re.findall(r"^\.\. include:: (\S+)", source, re.MULTILINE)
    parts = [(DOCS / name).read_text(encoding="utf-8") for name in included]
    return "\n".join([source, *(re.sub(r"\A\.\. made by .*", "", part) for part in parts)])


@pytest.mark.parametrize("page", ["index", *pages("Start", "Guides", "Scale", "Migrating")])
def test_a_guide_has_no_dates_machines_commands_of_benchmarks_or_decisions(page: str) -> None:
    found = {what: re.search(pattern, text(page)) for what, pattern in FORBIDDEN.items()}
    assert {what: match.group() for what, match in found.items() if match} == {}


def topics() -> list[str]:
    """The folders of the gallery."""
    found = re.search(r"^TOPICS = \[(.*)\]$", (DOCS / "conf.py").read_text(), re.MULTILINE)
    assert found is not None
    return re.findall(r'"(\w+)"', found.group(1))


def test_every_example_of_the_gallery_is_in_a_topic() -> None:
    examples = ROOT / "examples"
    assert list(examples.glob("*.py")) == []
    assert {path.parent.name for path in examples.rglob("plot_*.py")} == set(topics())
    assert [topic for topic in topics() if not (examples / topic / "README.txt").exists()] == []
