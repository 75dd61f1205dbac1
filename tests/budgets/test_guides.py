"""Guides address users: a task and a figure first, code that fits on the screen, no machines of ours."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: characters of a line of code that fit beside both sidebars at 1280 pixels, and in a card of the front page
WIDTH, CARD_WIDTH = 100, 52
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
#: guides about files and other packages have nothing to draw
WITHOUT_FIGURE = {"saving", "data", "integrations"}


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


@pytest.mark.parametrize("page", pages("Guides", "Scale"))
def test_a_guide_opens_with_a_figure_and_ends_with_what_to_read_next(page: str) -> None:
    sections = re.split(r"\n(?=[^\n]+\n-{3,}\n)", (DOCS / f"{page}.rst").read_text())
    if page not in WITHOUT_FIGURE:
        assert ".. figure:: " in sections[0]
    names = [section.splitlines()[0] for section in sections]
    assert "What to read next" in names[-1 if names[-1] != "References" else -2]


@pytest.mark.parametrize("page", pages("Migrating")[1:])
def test_a_page_on_migrating_begins_with_code_before_and_after(page: str) -> None:
    source = text(page)
    first_table = source.find(".. list-table::")
    code = [match.start() for match in re.finditer(r"^(>>> |\.\. code-block::)", source, re.M)]
    ours = re.search(r"^>>> .*\bmaxmargin\b", source, re.MULTILINE)
    assert ours is not None
    assert code[0] < ours.start() < (first_table if first_table >= 0 else len(source))


def code_lines(path: Path) -> list[str]:
    """The lines of a page that are shown as code, without the indentation of their block."""
    source = path.read_text(encoding="utf-8") + "\n"
    marked = re.finditer(r"^( *)\.\. code-block::.*\n\n((?:\1 +.*\n|\n)+)", source, re.MULTILINE)
    prompted = re.finditer(r"^( *)(?=>>> )((?:.*\S.*\n)+)", source, re.MULTILINE)
    blocks = [match.group(2) for match in marked] + [match.group() for match in prompted]
    return [line for block in blocks for line in dedent(block).splitlines()]


@pytest.mark.parametrize("page", ["index", *pages("Start", "Guides", "Scale", "Migrating")])
def test_code_on_a_page_is_not_wider_than_the_screen(page: str) -> None:
    width = CARD_WIDTH if page == "index" else WIDTH
    lines = code_lines(DOCS / f"{page}.rst")
    if page == "index":
        lines = [line for line in lines if line.startswith((">>> ", "... "))]
    assert [line for line in lines if len(line.rstrip()) > width] == []


def topics() -> list[str]:
    """The folders of the gallery."""
    found = re.search(r"^TOPICS = \[(.*)\]$", (DOCS / "conf.py").read_text(), re.MULTILINE)
    assert found is not None
    return re.findall(r'"(\w+)"', found.group(1))


def test_code_of_examples_is_not_wider_than_the_screen() -> None:
    files = [path for topic in topics() for path in (ROOT / "examples" / topic).glob("*.py")]
    for path in [*files, DOCS / "huber_hinge.py", DOCS / "jaccard.py", DOCS / "pool_engine.py"]:
        body = re.sub(r'\A""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        code = [line for line in body.splitlines() if not line.startswith("# ")]
        assert [line for line in code if len(line) > WIDTH] == [], path


def test_every_example_of_the_gallery_is_in_a_topic() -> None:
    examples = ROOT / "examples"
    assert list(examples.glob("*.py")) == []
    assert {path.parent.name for path in examples.rglob("plot_*.py")} == set(topics())
    assert [topic for topic in topics() if not (examples / topic / "README.txt").exists()] == []
