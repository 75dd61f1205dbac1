"""A row of the page: what a paper says, how we measure it, and the rule that compares the two."""

from __future__ import annotations

import csv
import json
import math
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.common import HERE, Bench, Cell, cpu, machine, source_mark

Figures = list[dict[str, Any]]
Verdict = Literal["holds", "better", "reversed", "not reproduced", "not run yet"]
#: what the papers say, with the place where they say it
CLAIMS = Path(__file__).with_name("claims.csv")
TABLES = HERE / "results"


@dataclass(frozen=True)
class Judgment:
    """The verdict, our figure in a few words, and one sentence why. All three come from the figures."""

    verdict: Verdict
    figure: str
    why: str


@dataclass(frozen=True)
class Row:
    """How the claim of this name is measured and judged."""

    id: str
    measure: Callable[[Bench], Figures]
    judge: Callable[[Figures], Judgment]
    #: what was run: data, sizes, settings
    setup: str
    #: tables in results/ from which the figures are taken, if they are not measured here
    tables: tuple[str, ...] = ()


class Recording(Bench):
    """Stored fits that remember which of them a row has used."""

    def __init__(self, name: str, *, quick: bool = False, fresh: bool = False) -> None:
        super().__init__(name, quick=quick, fresh=fresh)
        self.used: list[Cell] = []

    def inline(self, key: str, work: Callable[[], Cell]) -> Cell:
        """As before; also note the fit."""
        found = super().inline(key, work)
        self.used.append(found)
        return found


def claims() -> dict[str, dict[str, str]]:
    """The papers' own words and figures by the id of the claim, in the order of the page."""
    with CLAIMS.open(newline="", encoding="utf-8") as file:
        return {line["id"]: line for line in csv.DictReader(file)}


def commit() -> str:
    """The commit that is checked out, or nothing outside of a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True
    )
    return done.stdout.strip()


def folder(bench: Bench) -> Path:
    """Where the rows are written."""
    path = bench.folder / "papers"
    path.mkdir(parents=True, exist_ok=True)
    return path


def run(row: Row, bench: Recording) -> dict[str, Any]:
    """Measure a row, judge it, and store both."""
    began = cpu()
    bench.used.clear()
    figures = row.measure(bench)
    judgment = row.judge(figures) if figures else NOT_RUN
    kept = {
        "id": row.id,
        "verdict": judgment.verdict,
        "figure": judgment.figure,
        "why": judgment.why,
        "setup": row.setup,
        "command": f"python -m benchmarks.papers --only {row.id}",
        **_origin(row, bench),
        "cpu_seconds_now": round(cpu() - began, 1),
        "figures": [{k: _plain(v) for k, v in line.items()} for line in figures],
    }
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    (folder(bench) / f"{row.id}.json").write_text(text, encoding="utf-8")
    return kept


NOT_RUN = Judgment("not run yet", "", "Nothing was measured.")


def _origin(row: Row, bench: Recording) -> dict[str, Any]:
    """When and with what the figures were measured: here, or in the tables they are taken from."""
    if row.tables:
        commands = [f"python -m benchmarks.{_bench(name)}" for name in row.tables]
        texts = [_head(name) for name in row.tables]
        return {
            "tables": list(row.tables),
            "commands": list(dict.fromkeys(commands)),
            "measured": " ".join(dict.fromkeys(texts)),
            "commit": commit(),
        }
    dates = sorted({c["date"] for c in bench.used})
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    marks = sorted({c["sources"] for c in bench.used})
    others = "" if marks == [source_mark()] else f" Fits with library sources {', '.join(marks)}."
    return {"measured": f"Measured {when}. {machine()}.{others}", "commit": commit()}


def _bench(table: str) -> str:
    """The benchmark that wrote a table: the longest name in results/ that the table begins with."""
    names = [path.stem for path in TABLES.glob("*.md") if table.startswith(path.stem)]
    return max(names, key=len)


def _head(table: str) -> str:
    lines = (TABLES / f"{_bench(table)}.md").read_text(encoding="utf-8").splitlines()
    return " ".join(line for line in lines[:6] if line.startswith(("Measured", "Cells")))


def read(table: str) -> list[dict[str, str]]:
    """A table that another benchmark has written."""
    with (TABLES / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.6g}")
    return value


# -- rules -----------------------------------------------------------------------------------------


def slope(x: Iterable[float], y: Iterable[float]) -> float:
    """The exponent e of y ~ x^e: least squares in logarithms."""
    pairs = [(math.log(a), math.log(max(b, 1e-9))) for a, b in zip(x, y, strict=True)]
    mean_x = sum(a for a, _ in pairs) / len(pairs)
    mean_y = sum(b for _, b in pairs) / len(pairs)
    over = sum((a - mean_x) * (b - mean_y) for a, b in pairs)
    return over / sum((a - mean_x) ** 2 for a, _ in pairs)


#: times whose ratio is below this are a tie, on a machine that other work shares
TIE = 1.5


def time_against(own: float, other: float) -> str:
    """A comparison of two times in words: less, more, or about as much."""
    if other > TIE * own:
        return "less time than"
    return "more time than" if own > TIE * other else "about as much time as"


def pick(figures: Sequence[Mapping[str, Any]], **keys: Any) -> list[dict[str, Any]]:
    """The lines with these values."""
    return [dict(f) for f in figures if all(f.get(k) == v for k, v in keys.items())]


def column(figures: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """One column as numbers."""
    return [float(f[name]) for f in figures]


def words(items: Iterable[float | str], form: str = ".3g") -> str:
    """Numbers, or names with the form "s", as a list in a sentence."""
    texts = [f"{x:{form}}" for x in items]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]
