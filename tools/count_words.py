"""Count the words of the documentation's sources, and compare them with their limits.

    python tools/count_words.py          # each page, longest first, and the sums
    python tools/count_words.py --check  # fail if a guide or a sum is over its limit

Words of prose and of code blocks count, markup of directives does not. Notes, and pages for
developers, have no limit.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
#: words of one guide, and of guides, API page, gallery, and tutorials together
GUIDE, ALL = 1800, 45_000
#: what no user has to read
DEVELOPERS = {"architecture", "own_engine", "benchmarks"}
MARKUP = re.compile(
    r"^\.\. [\w-]+::.*$|^\s+:[\w-]+:.*$|:[\w:]+:`|``?|\*\*?|^[=~^\"'-]{3,}$|^\.\. _.*:$",
    re.MULTILINE,
)


def words(text: str) -> int:
    """The words of a page in reStructuredText."""
    return len(re.findall(r"\w[\w'’.,/-]*", MARKUP.sub(" ", text)))


def prose(path: Path) -> int:
    """The words of the text blocks of a gallery example or a tutorial: its docstring and long comments."""
    source = path.read_text(encoding="utf-8")
    blocks = [ast.get_docstring(ast.parse(source)) or ""]
    blocks += [line.lstrip("# ") for line in source.splitlines() if line.startswith("# ")]
    return words("\n".join(blocks))


def counted() -> dict[str, dict[str, int]]:
    """By kind, the words of each page."""
    pages = [
        path
        for path in DOCS.rglob("*.rst")
        if not {"gallery", "_build", "generated"} & {*path.parts}
    ]
    found: dict[str, dict[str, int]] = {"guides": {}, "gallery": {}, "notes": {}, "developers": {}}
    for path in pages:
        name = path.relative_to(DOCS).as_posix().removesuffix(".rst")
        kind = "notes" if name.startswith("notes/") else "guides"
        kind = "developers" if name in DEVELOPERS else kind
        found[kind][name] = words(path.read_text(encoding="utf-8"))
    for path in (ROOT / "examples").rglob("*.py"):
        found["gallery"][path.stem] = prose(path)
    return found


def problems(found: dict[str, dict[str, int]]) -> list[str]:
    """What is over its limit."""
    out = [
        f"{name}: {count:,} words, limit {GUIDE:,}"
        for name, count in found["guides"].items()
        if count > GUIDE
    ]
    total = sum(found["guides"].values()) + sum(found["gallery"].values())
    return [*out, f"guides and gallery: {total:,} words, limit {ALL:,}"] if total > ALL else out


if __name__ == "__main__":
    found = counted()
    for kind, pages in found.items():
        print(f"{sum(pages.values()):7,} {kind}")
        if "--check" not in sys.argv:
            for name, count in sorted(pages.items(), key=lambda page: -page[1]):
                print(f"    {count:7,} {name}")
    over = problems(found)
    print("\n".join(over))
    sys.exit(bool(over) and "--check" in sys.argv)
