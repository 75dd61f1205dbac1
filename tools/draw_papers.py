"""Write the tables of the page "The papers, re-run" from benchmarks/results/papers.

    python tools/draw_papers.py

Reads one file per claim, which ``python -m benchmarks.papers`` has written, and the papers' own figures in
benchmarks/papers/claims.csv. Writes docs/_papers.inc. A claim without a file is shown as not run yet.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "papers"
CLAIMS = ROOT / "benchmarks" / "papers" / "claims.csv"
MADE_BY = ".. made by tools/draw_papers.py from benchmarks/results/papers; do not edit"

PAPERS = {
    "JFY": "T. Joachims, T. Finley, C.-N. Yu: Cutting-plane training of structural SVMs (2009)",
    "OCA": "V. Franc, S. Sonnenburg: Optimized cutting plane algorithm for large-scale risk "
    "minimization (2009)",
    "YJ": "C.-N. Yu, T. Joachims: Training structural SVMs with kernels using sampled cuts (2008)",
    "RAM": "D. Ramanan: Dual coordinate solvers for large-scale structural SVMs (2013)",
}
VERDICTS = ("holds", "better", "reversed", "not reproduced", "not run yet")
#: lines of measured figures shown for a claim; the file has all of them
MOST = 60


def load() -> list[dict[str, Any]]:
    """One entry per claim, numbered, with what was measured."""
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        claims = list(csv.DictReader(file))
    out: list[dict[str, Any]] = []
    for number, claim in enumerate(claims, 1):
        path = RESULTS / f"{claim['id']}.json"
        found: dict[str, Any] = {"verdict": "not run yet", "figures": []}
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
        # both have a "figure": the paper's, and ours
        ours = found.get("figure", "")
        out.append(
            {**found, **claim, "paper figure": claim["figure"], "ours": ours, "number": number}
        )
    return out


def text(value: Any) -> str:
    """A cell of a table of measured figures."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and len(value) > 7:  # tables of other benchmarks have all digits
        try:
            value = float(value)
        except ValueError:
            return value
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def escaped(words: str) -> str:
    """Words that reStructuredText shows as they are."""
    for sign in ("\\", "*", "`", "|", "_"):
        words = words.replace(sign, "\\" + sign)
    return words


def csv_table(
    header: list[str], lines: list[list[str]], options: tuple[str, ...] = ()
) -> list[str]:
    """A csv-table directive."""
    quoted = [
        ", ".join('"' + x.replace('"', '""') + '"' for x in line) for line in [header, *lines]
    ]
    return [
        ".. csv-table::",
        f"   :header: {quoted[0]}",
        *(f"   {option}" for option in options),
        "",
        *(f"   {line}" for line in quoted[1:]),
        "",
    ]


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """How many claims have which verdict, by paper."""
    lines = []
    for paper in PAPERS:
        count = Counter(row["verdict"] for row in rows if row["paper"] == paper)
        lines.append([paper, *(str(count[v] or "") for v in VERDICTS)])
    count = Counter(row["verdict"] for row in rows)
    lines.append(["all", *(str(count[v] or "") for v in VERDICTS)])
    return csv_table(["paper", *VERDICTS], lines)


def overview(rows: list[dict[str, Any]]) -> list[str]:
    """One line per claim."""
    lines = [
        [
            f":ref:`{row['number']} <paper_{row['id'].replace('-', '_')}>`",
            escaped(f"{row['paper']}, {row['where']}"),
            escaped(row["claim"]),
            f"**{row['verdict']}**",
        ]
        for row in rows
    ]
    widths = (":widths: 5 25 55 15",)
    return csv_table(["", "where", "claim", "verdict"], lines, widths)


def details(row: dict[str, Any]) -> list[str]:
    """Everything about one claim."""
    title = f"{row['number']}. {row['where']}: {row['verdict']}"
    name = row["id"].replace("-", "_")
    out = [f".. _paper_{name}:", "", escaped(title), "^" * len(escaped(title)), ""]
    out += [escaped(row["claim"]) + ".", ""]
    out += [f"- **The paper:** {escaped(row['paper figure'])}."]
    command = row.get("command", f"python -m benchmarks.papers --only {row['id']}")
    if row["verdict"] == "not run yet":
        out += [f"- **Here:** not run yet. Command: ``{command}``.", ""]
        return out
    out += [
        f"- **Here:** {escaped(row['ours'])}.",
        f"- **Verdict:** {row['verdict']}. {escaped(row['why'])}",
        f"- **Setting:** {escaped(row['setup'])}.",
        f"- **Command:** ``{command}``{_from(row)}. {escaped(row['measured'])} Commit {row['commit']}.",
        "",
    ]
    return out + figures(row)


def _from(row: dict[str, Any]) -> str:
    if not row.get("tables"):
        return ""
    tables = ", ".join(f"``{name}.csv``" for name in row["tables"])
    commands = ", ".join(f"``{command}``" for command in dict.fromkeys(row["commands"]))
    return f", from {tables}, which {commands} wrote"


def figures(row: dict[str, Any]) -> list[str]:
    """What was measured."""
    lines = row["figures"]
    names = list(dict.fromkeys(name for line in lines for name in line))
    # what is the same in every line is said once, and an empty column not at all
    values = {name: {text(line.get(name)) for line in lines} for name in names}
    same = {n: next(iter(v)) for n, v in values.items() if len(v) == 1 and len(lines) > 2}
    names = [name for name in names if name not in same]
    shown = [[escaped(text(line.get(name))) for name in names] for line in lines[:MOST]]
    out = csv_table([escaped(name) for name in names], shown)
    said = ", ".join(f"{name} {value}" for name, value in same.items() if value)
    if said:
        out = [f"In all lines: {escaped(said)}.", "", *out]
    if len(lines) > MOST:
        path = f"benchmarks/results/papers/{row['id']}.json"
        out += [f"The first {MOST} of {len(lines)} lines; all of them are in ``{path}``.", ""]
    return out


def page(rows: list[dict[str, Any]]) -> list[str]:
    """The part of the page that is made."""
    out = [MADE_BY, "", *summary(rows), "All claims", "----------", "", *overview(rows)]
    for paper, title in PAPERS.items():
        heading = escaped(f"{paper}: {title}")
        out += [heading, "-" * len(heading), ""]
        for row in rows:
            if row["paper"] == paper:
                out += details(row)
    return out


def main() -> None:
    lines = page(load())
    path = ROOT / "docs" / "_papers.inc"
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
