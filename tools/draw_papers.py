"""Write the tables of the page "The papers, re-run" from benchmarks/results/papers.

    python tools/draw_papers.py

Reads one file per row, which ``python -m benchmarks.papers`` has written, and the papers' own figures in
benchmarks/papers/claims.csv. Writes docs/notes/_papers.inc, which is not
committed: each build of the pages makes it. A row without a file is shown as not run yet.
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
VERDICTS = ("holds", "differs", "reversed", "other size", "not run yet")
TODAY = ("better", "same", "worse")
#: lines of measured figures shown for a row; the file has all of them
MOST = 60
#: what a row without a file has
NOT_RUN = {"verdict": "not run yet", "figures": [], "today": "", "reason": "", "size": ""}

Claim = dict[str, Any]


def load() -> list[Claim]:
    """One entry per claim, numbered, with the rows that measure it. The first row decides."""
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        claims: list[Claim] = list(csv.DictReader(file))
    for number, claim in enumerate(claims, 1):
        claim["number"], claim["measured"] = number, []
        for name in claim["rows"].split():
            path = RESULTS / f"{name}.json"
            found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            claim["measured"].append({**NOT_RUN, "id": name, **found})
        first = claim["measured"][0]
        claim |= {k: first[k] for k in ("verdict", "reason", "today")}
        claim["ours"], claim["old"] = first["size"], first.get("old", False)
    return claims


def text(value: Any) -> str:
    """A cell of a table of measured figures."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and len(value) > 7:  # some rows keep the digits of a table
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


def summary(claims: list[Claim]) -> list[str]:
    """How many claims have which verdict, by paper."""
    lines = []
    for paper in (*PAPERS, "all"):
        some = [c for c in claims if paper in (c["paper"], "all")]
        verdicts = Counter(c["verdict"] for c in some)
        today = Counter(c["today"] for c in some)
        counts = [*(verdicts[v] for v in VERDICTS), *(today[v] for v in TODAY)]
        lines.append([paper, *(str(n or "") for n in counts)])
    return csv_table(["paper", *VERDICTS, *(f"today: {v}" for v in TODAY)], lines)


def overview(claims: list[Claim]) -> list[str]:
    """One line per claim of a paper."""
    lines = [
        [
            f":ref:`{c['number']} <paper_{c['id'].replace('-', '_')}>`",
            escaped(c["where"].split(",")[0]),
            escaped(c["claim"]),
            f"**{c['verdict']}**" + (" †" if c["old"] else ""),
            c["today"] or "–",
            escaped(c["ours"] or "–") + " / " + escaped(c["size"] or "–"),
        ]
        for c in claims
    ]
    header = ["", "where", "claim", "the paper's algorithm", "today's default"]
    header += ["our size / the paper's"]
    return csv_table(header, lines, (":widths: 4 12 46 10 10 18", ":class: compact"))


def details(claim: Claim) -> list[str]:
    """Everything about one claim."""
    title = f"{claim['number']}. {claim['paper']}, {claim['where']}: {claim['verdict']}"
    name = claim["id"].replace("-", "_")
    out = [f".. _paper_{name}:", "", escaped(title), "^" * len(escaped(title)), ""]
    out += [escaped(claim["claim"]) + ".", ""]
    out += [f"- **The paper:** {escaped(claim['figure'])}.", ""]
    for row in claim["measured"]:
        out += measured(row, alone=len(claim["measured"]) == 1)
    return out


def measured(row: dict[str, Any], alone: bool) -> list[str]:
    """What was measured for a claim, or for a part of it."""
    begin = "" if alone else f"``{row['id']}``: "
    command = f"python -m benchmarks.papers --only {row['id']}"
    if row["verdict"] == "not run yet":
        return [f"- {begin}not run yet. Command: ``{command}``.", ""]
    today = f" Today's default: {row['today']}." if row["today"] else ""
    reason = f" Reason: {row['reason']}." if row["reason"] else ""
    out = [
        f"- **Here:** {begin}{escaped(row['figure'])}.",
        f"- **Verdict:** {row['verdict']}. {escaped(row['why'])}{today}{reason}",
        f"- **Setting:** {escaped(row['setup'])}.",
        f"- **Command:** ``{command}``{_where(row)}. {_when(row)}",
        "",
    ]
    return out + folded(row)


def _where(row: dict[str, Any]) -> str:
    """The commit that has the script, if it was removed since."""
    return f" of commit {row['script_in']}" if "script_in" in row else ""


def _when(row: dict[str, Any]) -> str:
    """The date and the commit; the machine and the versions stand once at the top of the page."""
    dates = row["measured"].split(". ")[0]
    old = " The library's sources have changed since." if row.get("old") else ""
    return f"{escaped(dates)}, commit {row['commit']}.{old}"


def folded(row: dict[str, Any]) -> list[str]:
    """The measured figures, behind a line that opens them."""
    label = f"Figures: {len(row['figures'])} lines"
    return [
        ".. raw:: html",
        "",
        f"   <details><summary>{label}</summary>",
        "",
        *figures(row),
        ".. raw:: html",
        "",
        "   </details>",
        "",
    ]


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


def provenance(claims: list[Claim]) -> list[str]:
    """Machine and versions, once for all rows that share them."""
    notes = Counter(
        row["measured"].partition(". ")[2].split(" Fits with")[0].split(" Cells were")[0]
        for claim in claims
        for row in claim["measured"]
        if row["figures"]
    )
    if not notes:
        return []
    note = notes.most_common(1)[0][0]
    return [f"Most rows were measured on this machine: {escaped(note)}", ""]


def page(claims: list[Claim]) -> list[str]:
    """The part of the page that is made: a table per paper, and below it everything about each claim."""
    out = [MADE_BY, "", *summary(claims), *provenance(claims)]
    out += ["† measured with older sources of the library than the present ones.", ""]
    of = {paper: [claim for claim in claims if claim["paper"] == paper] for paper in PAPERS}
    for paper, title in PAPERS.items():
        heading = escaped(f"{paper}: {title}")
        out += [heading, "-" * len(heading), "", *overview(of[paper])]
    out += ["Details", "-------", ""]
    for paper in PAPERS:
        for claim in of[paper]:
            out += details(claim)
    return out


def main() -> None:
    lines = page(load())
    path = ROOT / "docs" / "notes" / "_papers.inc"
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
