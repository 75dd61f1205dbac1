"""Move the fragments of changelog.d/ into CHANGELOG.md under the heading of a release.

    python tools/collect_changelog.py 0.1.0

A fragment is a Markdown file with one or more entries. An entry begins on a new line with one of the kinds
below and a colon. The fragments are deleted once their entries are in CHANGELOG.md. If it already has a
section of this version, the entries are added to it, and its date becomes today's.
"""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path

KINDS = ("Added", "Changed", "Fixed", "Removed")
ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- releases are added below this line -->"
ENTRY = re.compile(rf"^({'|'.join(KINDS)}):", re.MULTILINE)


def read_fragments(folder: Path) -> dict[Path, list[tuple[str, str]]]:
    """The entries of each fragment: kind and text."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        before, *parts = ENTRY.split(path.read_text(encoding="utf-8"))
        if before.strip() or not parts:
            raise SystemExit(f"{path.name} must start with one of: {', '.join(KINDS)}, and a colon")
        texts = (" ".join(text.split()) for text in parts[1::2])
        found[path] = list(zip(parts[::2], texts, strict=True))
    return found


def collected(text: str, version: str) -> tuple[str, str, list[tuple[str, str]]]:
    """The changelog without the section of a version; the introduction and the entries of that section."""
    found = re.search(rf"^## {re.escape(version)} \(.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        return text, "", []
    introduction = found.group().partition("\n")[2].partition("### ")[0].strip()
    entries, kind = [], ""
    for line in found.group().splitlines():
        if line.startswith("### "):
            kind = line.removeprefix("### ")
        elif line.startswith("- "):
            entries.append((kind, line.removeprefix("- ")))
    rest = text[: found.start()].rstrip() + "\n" + text[found.end() :]
    return rest, introduction, entries


def section(version: str, introduction: str, entries: list[tuple[str, str]]) -> str:
    """The Markdown of one release."""
    lines = [f"## {version} ({date.today().isoformat()})", ""]
    if introduction:
        lines += [introduction, ""]
    for kind in KINDS:
        if texts := [text for k, text in entries if k == kind]:
            lines += [f"### {kind}", "", *(f"- {text}" for text in texts), ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    changelog = ROOT / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    if MARK not in text:
        raise SystemExit(f"CHANGELOG.md has no line {MARK!r}")
    fragments = read_fragments(ROOT / "changelog.d")
    text, introduction, known = collected(text, arguments[0])
    new = [entry for entries in fragments.values() for entry in entries]
    release = section(arguments[0], introduction, [*known, *new])
    changelog.write_text(text.replace(MARK, f"{MARK}\n\n{release}", 1), encoding="utf-8")
    for path in fragments:
        path.unlink()
    print(f"{len(fragments)} fragments moved to CHANGELOG.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
