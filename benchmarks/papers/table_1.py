"""Table 1 of Joachims, Finley and Yu: 1-slack against n-slack, ours and the authors' own programs."""

from __future__ import annotations

from benchmarks.common import Bench, Cell

# ruff: isort: split
import functools
from typing import Any

from benchmarks.papers import programs
from benchmarks.papers.jfy import NAMES, largest, settings, sweep, table
from benchmarks.papers.record import TIE, Figures, Judgment, Row, beside, judged, pick, words
from benchmarks.papers.structured import PHASES, TASKS


def measure(task: str, bench: Bench) -> Figures:
    """Every method at every size, and the authors' program if it is there."""
    return table([*sweep(task, bench), *theirs(task, bench)], "score", "seconds_to_end", "qp %")


def theirs(task: str, bench: Bench) -> list[Cell]:
    """The authors' program at growing n, until it is stopped."""
    if task not in programs.TASKS or programs.path(task) is None:
        return []
    out = []
    for method in programs.ALGORITHMS:
        for n in TASKS[task].quick if bench.quick else TASKS[task].sizes:
            work = functools.partial(programs.fit, task, n, method)
            out.append(bench.inline(f"program {task} {n} {method}", work))
            if not out[-1]["finished"]:
                break
    return out


def words_on_program(figures: Figures, task: str) -> str:
    """What the authors' program needs, at the largest n at which both of its algorithms end."""
    if task not in programs.TASKS:
        return ""
    name = programs.TASKS[task][0]
    one, many = (pick(figures, method=f"{name}, {m}") for m in programs.ALGORITHMS)
    if not one:
        return f". {name} was not there"
    ends = [n for n in (f["n"] for f in many if f["finished"]) if pick(one, n=n, finished=True)]
    if not ends:
        return f". {name} did not end within {programs.LIMIT:g} s"
    a, b = (pick(lines, n=max(ends))[0] for lines in (one, many))
    text = (
        f". {name} itself at n = {max(ends):,}: {a['seconds']:.2g} against {b['seconds']:.2g} s, of which "
        f"{b['qp %']:.0f} % for QPs; {a['passes']:.3g} against {b['passes']:.3g} passes; "
        f"{a['support']:,} against {b['support']:,} support vectors"
    )
    cut = [f["n"] for f in many if not f["finished"]]
    if cut:
        text += f"; at n = {cut[0]:,} its n-slack was stopped after {programs.LIMIT:g} s"
    top = max((f for f in one if f["finished"]), key=lambda f: f["n"])
    own, best = (pick(figures, n=top["n"], method=m)[0] for m in ("1-slack + cache", "default"))
    return (
        f"{text}. Its 1-slack takes {top['seconds']:.2g} s at n = {top['n']:,}, ours "
        f"{own['seconds']:.2g} s, our default solver {best['seconds']:.2g} s"
    )


def table_1(figures: Figures) -> Judgment:
    """The rule: all three of time, oracle calls and support vectors. The authors' own program decides, at the
    largest n at which both of its algorithms end; without it our 1-slack against the n-slack of 2009."""
    task = figures[0]["task"]
    at = largest([f for f in figures if f["method"] in NAMES])
    one, old, new = at["1-slack + cache"], at["n-slack 2009"], at["n-slack"]
    own, cut = ("" if f["finished"] else "at least " for f in (one, old))
    figure = (
        f"n = {one['n']:,}: {own}{one['seconds']:.2g} s against {cut}{old['seconds']:.2g} s (QP every 100 "
        f"constraints) and {new['seconds']:.2g} s (ours); {one['passes']:.3g} against {cut}"
        f"{old['passes']:.3g} and {new['passes']:.3g} passes of the oracle; {one['support']:,} against "
        f"{old['support']:,} and {new['support']:,} support vectors"
    ) + words_on_program(figures, task)
    pair = _of_program(figures, task)
    a, b = pair or (one, old)
    holds = {
        "time": a["seconds_to_end"] * TIE < b["seconds_to_end"],
        "oracle calls": a["passes"] < b["passes"],
        "support vectors": a["support"] < b["support"],
    }
    good, bad = ([k for k, v in holds.items() if v is wanted] for wanted in (True, False))
    who = f"{programs.TASKS[task][0]} itself" if pair else "our form of both"
    why = f"By {who}, {' and '.join(good) or 'nothing'} {'hold' if len(good) > 1 else 'holds'}"
    why += f", {' and '.join(bad)} {'do' if len(bad) > 1 else 'does'} not" if bad else ""
    default = at["default"]["seconds"]
    why += f". Today's default takes {default:.2g} s at n = {one['n']:,}."
    today = beside(default, one["seconds_to_end"])
    return judged(not bad, figure, why, f"{a['n']:,}", far=True, today=today)


def _of_program(figures: Figures, task: str) -> tuple[Any, Any] | None:
    """Both algorithms of the authors' program at the largest n at which both end, if there is one."""
    if task not in programs.TASKS:
        return None
    name = programs.TASKS[task][0]
    one, many = (
        {f["n"]: f for f in pick(figures, method=f"{name}, {m}", finished=True)}
        for m in programs.ALGORITHMS
    )
    ends = set(one) & set(many)
    return (one[max(ends)], many[max(ends)]) if ends else None


def phases(bench: Bench) -> Figures:
    """Shares of time at the largest size of each task."""
    out = []
    for task in TASKS:
        cells = sweep(task, bench)
        top = max(c["n"] for c in cells)
        for c in pick(cells, n=top):
            whole = sum(c["split"].values()) or 1.0
            shares = {f"{k} %": round(100 * c["split"][k] / whole) for k in PHASES}
            out.append({"task": task, "n": top, "method": c["method"], **shares})
    return out


def judge_phases(figures: Figures) -> Judgment:
    """QP shares of both, and the order of the oracle's shares in 1-slack with its cache, as in the paper."""
    name = "1-slack + cache"
    qp = {m: pick(figures, task="multiclass", method=m)[0]["qp %"] for m in (name, "n-slack 2009")}
    shares = {t: pick(figures, task=t, method=name)[0]["oracle %"] for t in TASKS}
    figure = (
        f"QP (multiclass): {qp[name]} % for 1-slack with a cache, {qp['n-slack 2009']} % for the n-slack of "
        f"2009; oracle of 1-slack with a cache: {words(shares.values())} % for {', '.join(TASKS)}"
    )
    qps = qp["n-slack 2009"] > 2 * qp[name]
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    why = (
        f"The shares of QPs {'hold' if qps else 'do not hold'}; the oracle's share is smallest for {least}, "
        f"largest for {most}."
    )
    good = qps and least == "multiclass" and most == "parsing"
    size = "; ".join(f"{t} {pick(figures, task=t)[0]['n']:,}" for t in TASKS)
    return judged(good, figure, why, size, far=True)


def rows() -> list[Row]:
    """One row for each task, and the profile of all."""
    out = [
        Row(
            f"jfy-table-1-{t}",
            lambda bench, t=t: measure(t, bench),  # type: ignore[misc]
            table_1,
            settings(t)
            + ". The n-slack of 2009 solves its QP after every 100 oracle calls, by coordinate ascent with a "
            "warm start, not by the QP solver of that time",
        )
        for t in TASKS
    ]
    return [*out, Row("jfy-table-1-phases", phases, judge_phases, settings(*TASKS))]
