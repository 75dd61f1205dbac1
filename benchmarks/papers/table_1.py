"""Table 1 of Joachims, Finley and Yu: 1-slack against n-slack, ours and the authors' own programs."""

from __future__ import annotations

from benchmarks.common import Bench, Cell

# ruff: isort: split
import functools

from benchmarks.papers import programs
from benchmarks.papers.jfy import NAMES, largest, settings, sweep, table
from benchmarks.papers.record import Figures, Judgment, Row, pick, time_against, words
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
    """The rule: all three of time, oracle calls and support vectors, against the n-slack of 2009 and ours."""
    task = figures[0]["task"]
    at = largest([f for f in figures if f["method"] in NAMES])
    one, old, new = at["1-slack + cache"], at["n-slack 2009"], at["n-slack"]
    support, calls = one["support"] < old["support"], one["passes"] < old["passes"]
    cut = "" if old["finished"] else "at least "
    own = "" if one["finished"] else "at least "
    figure = (
        f"n = {one['n']:,}: {own}{one['seconds']:.2g} s against {cut}{old['seconds']:.2g} s (QP every 100 "
        f"constraints) and {new['seconds']:.2g} s (ours); {one['passes']:.3g} against {cut}"
        f"{old['passes']:.3g} and {new['passes']:.3g} passes of the oracle; {one['support']:,} against "
        f"{old['support']:,} and {new['support']:,} support vectors"
    ) + words_on_program(figures, task)
    then, now = (time_against(one["seconds_to_end"], f["seconds_to_end"]) for f in (old, new))
    why = (
        f"Support vectors {'hold' if support else 'do not'}, oracle calls {'hold' if calls else 'do not'}. "
        f"1-slack takes {then} the n-slack of 2009, and {now} ours"
    )
    if now.startswith("more"):
        why += ", which goes on before its QP is solved"
        return Judgment("reversed", figure, why + ".")
    good = support and calls and then.startswith("less") and now.startswith("less")
    return Judgment("holds" if good else "not reproduced", figure, why + ".")


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
    """QP share of both, and the order of the oracle's shares."""
    qp = {m: pick(figures, task="multiclass", method=m)[0]["qp %"] for m in NAMES}
    oracle = [pick(figures, task=t, method="1-slack")[0]["oracle %"] for t in TASKS]
    figure = (
        f"QP (multiclass): {qp['1-slack']} % for 1-slack, {qp['n-slack 2009']} % for the n-slack of 2009; "
        f"oracle of 1-slack: {words(oracle)} % for {', '.join(TASKS)}"
    )
    shares = dict(zip(TASKS, oracle, strict=True))
    qps = qp["n-slack 2009"] > 2 * qp["1-slack"]
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    good = qps and least == "multiclass" and most == "parsing"
    why = (
        f"The shares of QPs {'hold' if qps else 'do not hold'}; the oracle's share is smallest for {least}, "
        f"largest for {most}."
    )
    return Judgment("holds" if good else "not reproduced", figure, why)


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
