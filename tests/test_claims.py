"""Every number that README or the front page claims is in docs/notes/claims.rst, with its command."""

import csv
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from sklearn.datasets import load_breast_cancer

from maxmargin import LinearSVC

ROOT = Path(__file__).resolve().parent.parent
#: a number with a unit, or two bounds: what a reader takes for a measured fact
CLAIM = re.compile(
    r"\d[\d,.]*(?: (?:s\b|%|ms\b)| (?:random calls|samples|times faster)|(?= <= optimum))"
)


def test_every_number_has_its_command() -> None:
    listed = (ROOT / "docs" / "notes" / "claims.rst").read_text()
    for page in ("README.md", "docs/index.rst"):
        text = (ROOT / page).read_text()
        found = [match[0] for match in CLAIM.finditer(text)]
        assert len(found) >= 3, f"{page}: the pattern finds no claims"
        missing = [claim for claim in found if re.match(r"[\d,.]*\d", claim)[0] not in listed]  # type: ignore[index]
        assert not missing, f"{page} claims {missing}, which docs/notes/claims.rst does not list"


def test_the_table_of_the_readme_is_that_of_the_results() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "readme_table.py"), "--check"]
    assert subprocess.run(tool, check=False).returncode == 0, "run python tools/readme_table.py"


def test_the_bounds_of_the_readme_are_printed() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    svc = LinearSVC(C=1.0, loss="hinge", tol=1e-3).fit(X, y)
    text = (ROOT / "README.md").read_text()
    low, high = re.search(r"# ([\d.]+)\.\.\. <= optimum <= ([\d.]+)\.\.\.", text).groups()  # type: ignore[union-attr]
    assert f"{svc.lower_bound_}".startswith(low)
    assert f"{svc.objective_}".startswith(high)


def test_the_commands_exist() -> None:
    listed = (ROOT / "docs" / "notes" / "claims.rst").read_text()
    for name in re.findall(r"-m benchmarks\.(\w+)", listed):
        assert (ROOT / "benchmarks" / f"{name}.py").exists(), name
    for path in re.findall(r"(?:tools|tests)/[\w/]+\.py", listed):
        assert (ROOT / path).exists(), path


def test_the_paper_has_the_figures_of_the_tables() -> None:
    text = " ".join((ROOT / "paper" / "paper.md").read_text().split())
    numbers = (ROOT / "docs" / "_benchmark_numbers.inc").read_text()
    of = dict(re.findall(r"\|(\w+)\| replace:: (.+)", numbers))
    with open(ROOT / "benchmarks" / "papers" / "claims.csv", encoding="utf-8") as file:
        rows = [line["rows"].split()[0] for line in csv.DictReader(file)]
    stored = ROOT / "benchmarks" / "results" / "papers"
    verdicts = Counter(json.loads((stored / f"{row}.json").read_text())["verdict"] for row in rows)
    holds, differs, smaller = (verdicts[name] for name in ("holds", "differs", "other size"))
    for sentence in (
        f"| {of['linear_cells']} | {of['linear_mean']} times as fast (geometric mean), slower in "
        f"{of['linear_slower']}, at worst by {of['linear_worst']} |",
        f"| {of['dense_cells']} | {of['dense_mean']} times as fast, slower in {of['dense_slower']}, "
        f"at worst by {of['dense_worst']} |",
        f"{of['conll2000_lbfgs']} and {of['brown_lbfgs']} times as fast, reading included",
        f"is {of['kernel_least']} to {of['kernel_most']} times as fast",
        f"of {len(rows)} claims, {holds} hold, {differs} differ, and {smaller} could be run",
    ):
        assert sentence in text, f"paper/paper.md lacks: {sentence}"
    listed = (ROOT / "docs" / "notes" / "claims.rst").read_text()
    for claim in ("9 s", "24 %", "0.01 s", "49.95", "49.96"):  # as README has them
        assert claim in text
        assert claim in listed
    assert len(text.split()) <= 1000, "two pages"
