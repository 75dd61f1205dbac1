"""Move the fragments of changelog.d/ into CHANGELOG.md under the heading of a release.

    python tools/collect_changelog.py 0.1.0

A fragment is a Markdown file whose first word, before the colon, is one of the kinds below. The fragments
are deleted once they are in CHANGELOG.md.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

KINDS = ("Added", "Changed", "Fixed", "Removed")
ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- releases are added below this line -->"


def read_fragments(folder: Path) -> dict[Path, tuple[str, str]]:
    """Each fragment's kind and text."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        kind, colon, text = path.read_text(encoding="utf-8").strip().partition(":")
        if not colon or kind not in KINDS:
            raise SystemExit(f"{path.name} must start with one of: {', '.join(KINDS)}, and a colon")
        found[path] = (kind, " ".join(text.split()))
    return found


def section(version: str, fragments: list[tuple[str, str]]) -> str:
    """The Markdown of one release."""
    lines = [f"## {version} ({date.today().isoformat()})", ""]
    for kind in KINDS:
        if entries := [text for k, text in fragments if k == kind]:
            lines += [f"### {kind}", "", *(f"- {text}" for text in entries), ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    changelog = ROOT / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    if MARK not in text:
        raise SystemExit(f"CHANGELOG.md has lost the line {MARK!r}")
    fragments = read_fragments(ROOT / "changelog.d")
    release = section(arguments[0], list(fragments.values()))
    changelog.write_text(text.replace(MARK, f"{MARK}\n\n{release}", 1), encoding="utf-8")
    for path in fragments:
        path.unlink()
    print(f"{len(fragments)} fragments moved to CHANGELOG.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
