"""The record of runs: counts by family and kind, one CSV row each, and their sums as Markdown."""

from __future__ import annotations

import csv
import datetime
import platform
import subprocess
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

COLUMNS = [
    *("date", "commit", "versions", "seed", "minutes", "family", "kind"),
    *("problems", "certified", "warned", "refused", "failed", "findings"),
]
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "clarabel")
STATUSES = ("certified", "warned", "refused", "failed")


def add_run(path: Path, report: Any, settings: Any) -> None:
    """Append a run to ``path``.csv and rewrite ``path``.md from all runs."""
    record = path.with_suffix(".csv")
    new = not record.exists()
    about = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "commit": _commit(),
        "versions": _versions(),
        "seed": settings.seed,
        "minutes": round(report.seconds / 60.0, 1),
    }
    with record.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        for (family, kind), counts in sorted(report.counts.items()):
            found = [f"{k[9:]} {n}" for k, n in sorted(counts.items()) if k.startswith("finding: ")]
            row = {name: counts[name] for name in ("problems", *STATUSES)}
            row |= {"family": family, "kind": kind, "findings": "; ".join(found)}
            writer.writerow(about | row)
    with record.open(newline="") as file:
        path.with_suffix(".md").write_text(markdown(list(csv.DictReader(file))))


def markdown(rows: list[dict[str, str]]) -> str:
    """All runs, and the sums over them by family and kind."""
    runs: dict[tuple[str, ...], Counter[str]] = {}
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        run = runs.setdefault(
            tuple(row[c] for c in ("date", "commit", "seed", "minutes")), Counter()
        )
        kind = sums.setdefault((row["family"], row["kind"]), Counter())
        found = [part.rsplit(" ", 1) for part in row["findings"].split("; ") if part]
        for counts in (run, kind):
            counts.update({name: int(row[name]) for name in ("problems", *STATUSES)})
            counts.update({f"finding: {check}": int(n) for check, n in found})
    out = ["# Random problems checked by the referee", "", f"Versions: {rows[-1]['versions']}.", ""]
    head = ["problems", *STATUSES, "findings"]
    out += _table(["date", "commit", "seed", "minutes", *head], runs) + [""]
    out += _table(["estimator", "kind", *head], sums)
    return "\n".join(out) + "\n"


def _table(head: list[str], rows: dict[tuple[str, ...], Counter[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    total: Counter[str] = Counter()
    for key, counts in rows.items():
        total.update(counts)
        lines.append(_line(key, counts))
    width = len(next(iter(rows)))
    lines.append(_line(("**sum**", *("",) * (width - 1)), total))
    return lines


def _line(key: tuple[str, ...], counts: Counter[str]) -> str:
    found = [f"{k[9:]} {n}" for k, n in sorted(counts.items()) if k.startswith("finding: ")]
    cells = [*key, *(str(counts[name]) for name in ("problems", *STATUSES))]
    return "| " + " | ".join([*cells, "; ".join(found) or "none"]) + " |"


def _commit() -> str:
    here = Path(__file__).resolve().parent
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def _versions() -> str:
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([f"Python {platform.python_version()}", *found])
