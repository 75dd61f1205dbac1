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
#: times whose ratio is below this are a tie, on a machine that other work shares
TIE = 1.5
#: of the paper's algorithm, by the paper's rule; "other size": it fails far below the paper's size
Verdict = Literal["holds", "differs", "reversed", "other size", "not run yet"]
#: today's default for the same purpose, beside what the paper recommends
Today = Literal["better", "same", "worse", ""]
#: why the figures are not those of the paper
Reason = Literal["", "size", "setting", "machine", "our code", "a real result"]
#: what the papers say, with the place where they say it
CLAIMS = Path(__file__).with_name("claims.csv")
#: what every fit of these benchmarks runs
SOURCES = ("compiled", "core", "duals", "losses", "risks", "solvers", "tasks")


@dataclass(frozen=True)
class Judgment:
    """Two verdicts, our figure in a few words, and one sentence why. All of them come from the figures."""

    verdict: Verdict
    figure: str
    why: str
    #: our size, in the unit of the paper's
    size: str = ""
    reason: Reason = ""
    today: Today = ""


def judged(
    good: bool,
    figure: str,
    why: str,
    size: str,
    *,
    far: bool = False,
    reason: Reason = "a real result",
    today: Today = "",
) -> Judgment:
    """The verdict of a claim that holds or not; ``far``: the run is far below the paper's size."""
    if good:
        return Judgment("holds", figure, why, size, today=today)
    return Judgment(
        "other size" if far else "differs", figure, why, size, "size" if far else reason, today
    )


def beside(default: float, paper: float) -> Today:
    """The verdict on today's default, by its time and that of the paper's algorithm."""
    if paper > TIE * default:
        return "better"
    return "worse" if default > TIE * paper else "same"


@dataclass(frozen=True)
class Row:
    """How the claim of this name is measured and judged."""

    id: str
    measure: Callable[[Bench], Figures]
    judge: Callable[[Figures], Judgment]
    #: what was run: data, sizes, settings
    setup: str
    #: folders of the library whose changes make the figures old
    sources: tuple[str, ...] = SOURCES


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
    """The papers' own words and figures by the id of the claim, in the order of the page. A claim is measured
    by one row or several; the first one, with the largest run, decides."""
    with CLAIMS.open(newline="", encoding="utf-8") as file:
        return {line["id"]: line for line in csv.DictReader(file)}


def row_names() -> list[str]:
    """The rows of all claims."""
    return [name for claim in claims().values() for name in claim["rows"].split()]


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
        "size": judgment.size,
        "reason": judgment.reason,
        "today": judgment.today,
        "setup": row.setup,
        "sources": list(row.sources),
        "old": False,
        "command": f"python -m benchmarks.papers --only {row.id}",
        **_origin(row, bench),
        "cpu_seconds_now": round(cpu() - began, 1),
        "figures": [{k: _plain(v) for k, v in line.items()} for line in figures],
    }
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    (folder(bench) / f"{row.id}.json").write_text(text, encoding="utf-8")
    return kept


def judge_again(row: Row, bench: Recording) -> dict[str, Any] | None:
    """Apply the present rule to the stored figures, without a new measurement; None if there are none."""
    path = folder(bench) / f"{row.id}.json"
    if not path.exists():
        return None
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = row.judge(kept["figures"])
    kept |= {"verdict": found.verdict, "figure": found.figure, "why": found.why}
    kept |= {"size": found.size, "reason": found.reason, "today": found.today}
    kept |= {"setup": row.setup, "sources": list(row.sources)}
    kept["old"] = stale(kept)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return kept


def stale(kept: Mapping[str, Any]) -> bool:
    """Whether a folder of the library that the figures depend on has changed since they were measured."""
    # not the table of compiled types: it changes no figures
    folders = [f":(glob)src/maxmargin/{name}/**/*.py" for name in kept.get("sources", SOURCES)]
    command = ["git", "diff", "--quiet", str(kept["commit"]), "HEAD", "--", *folders]
    return subprocess.run(command, cwd=HERE, capture_output=True).returncode != 0


NOT_RUN = Judgment("not run yet", "", "Nothing was measured.")


def _origin(row: Row, bench: Recording) -> dict[str, Any]:
    """When and with what the figures were measured."""
    dates = sorted({c["date"] for c in bench.used})
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    marks = sorted({c["sources"] for c in bench.used if c["sources"]})  # none: a program of others
    others = (
        "" if set(marks) <= {source_mark()} else f" Fits with library sources {', '.join(marks)}."
    )
    return {"measured": f"Measured {when}. {machine()}.{others}", "commit": commit()}


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
