"""Every number that README or the front page claims is in docs/claims.rst, with its command."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: a number with a unit, or two bounds: what a reader takes for a measured fact
CLAIM = re.compile(
    r"\d[\d,.]*(?: (?:s\b|%|ms\b)| (?:random calls|samples|times faster)|(?= <= optimum))"
)


def test_every_number_has_its_command() -> None:
    listed = (ROOT / "docs" / "claims.rst").read_text()
    for page in ("README.md", "docs/index.rst"):
        text = (ROOT / page).read_text()
        found = [match[0] for match in CLAIM.finditer(text)]
        assert len(found) >= 3, f"{page}: the pattern finds no claims"
        missing = [claim for claim in found if re.match(r"[\d,.]*\d", claim)[0] not in listed]  # type: ignore[index]
        assert not missing, f"{page} claims {missing}, which docs/claims.rst does not list"


def test_the_commands_exist() -> None:
    listed = (ROOT / "docs" / "claims.rst").read_text()
    for name in re.findall(r"-m benchmarks\.(\w+)", listed):
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name
    for path in re.findall(r"(?:tools|tests)/[\w/]+\.py", listed):
        assert (ROOT / path).exists(), path
