"""Run the Python code blocks of Markdown files, and fail if one of them fails.

    python tools/run_readme.py README.md [MORE.md ...]

Blocks fenced as ```python run in order. Blocks under the same heading share a namespace; each heading starts
a new one. Blocks in other languages, or without one, are ignored.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEADING = re.compile(r"#{1,6}\s+(.*)")
FENCE = re.compile(r"(`{3,}|~{3,})\s*(\S*)")


@dataclass
class Group:
    """The blocks under one heading: (number of the block's first line, its source)."""

    title: str
    blocks: list[tuple[int, str]] = field(default_factory=list)


def find_groups(text: str) -> list[Group]:
    """The headings of a Markdown text that have Python blocks under them."""
    groups = [Group("")]
    fence, language, start = "", "", 0
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        mark = FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2]:
                if language == "python":
                    groups[-1].blocks.append((start, "\n".join(lines[start - 1 : number - 1])))
                fence = ""
        elif mark:
            fence, language, start = mark[1], mark[2], number + 1
        elif heading := HEADING.match(line):
            groups.append(Group(heading[1].strip()))
    if fence:
        raise SystemExit(f"the code block that starts at line {start - 1} has no end")
    return [group for group in groups if group.blocks]


def run(path: Path) -> int:
    """Execute the blocks of one file; returns how many there were."""
    n_blocks = 0
    for group in find_groups(path.read_text(encoding="utf-8")):
        names: dict[str, Any] = {"__name__": "__main__"}
        for line, source in group.blocks:
            print(f"-- {path.name}:{line} ({group.title})", flush=True)
            # blank lines in front make tracebacks show the line of the file
            exec(compile("\n" * (line - 1) + source, str(path), "exec"), names)
            n_blocks += 1
    return n_blocks


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for argument in arguments:
        if not (n_blocks := run(Path(argument).resolve())):
            print(f"{argument} has no ```python block to run", file=sys.stderr)
            return 1
        print(f"{argument}: {n_blocks} blocks ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
