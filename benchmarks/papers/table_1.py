"""Table 1 of Joachims, Finley and Yu: 1-slack against n-slack, ours and the authors' own programs."""

from __future__ import annotations

from benchmarks.common import Bench

# ruff: isort: split
from typing import Any

from benchmarks.papers import programs, structured
from benchmarks.papers.jfy import FIXED, PAIR, is_far, settings, shown, table, theirs, together
from benchmarks.papers.record import TIE, Figures, Judgment, Row, beside, judged, pick, words
from benchmarks.papers.structured import LIMIT, PHASES, TASKS


def measure(task: str, bench: Bench) -> Figures:
    """Every method at every size, and the authors' program if it is there."""
    cells = [*structured.sweep(task, bench), *programs.sweep(task, bench)]
    return table(cells, "score", "qp %")


def of_program(figures: Figures, task: str) -> Figures:
    """Both algorithms of the authors' program at the largest n at which both end, if there is one."""
    if task not in FIXED:
        return []
    return together(figures, task, theirs(task, "1-slack + cache"), theirs(task, "n-slack"))


def table_1(figures: Figures) -> Judgment:
    """The rule: all three of time, oracle calls and support vectors. The authors' own program decides, at the
    largest n at which both of its algorithms end; without it our 1-slack against algorithm 1."""
    task = figures[0]["task"]
    ours, pair = together(figures, task, *PAIR), of_program(figures, task)
    one, _ = pair or ours
    good, sentence = compared(pair or ours)
    why = (
        f"By {programs.TASKS[task][0]} itself, {sentence}"
        if pair
        else f"By our form of both, {sentence}"
    )
    if pair:
        why += f" By our form of both, {compared(ours)[1]}"
    own, default = together(figures, task, "1-slack + cache", "default")
    why += f" At n = {own['n']:,} our 1-slack takes {seconds(own)} s, today's default {seconds(default)} s."
    figure = f"{in_words(ours)}{words_on_program(figures, task)}{at_the_top(figures)}"
    today, far = beside(default["seconds"], own["seconds"]), is_far({task: one["n"]})
    size = f"{one['n']:,} ({programs.TASKS[task][0]})" if pair else ""
    size += f"{', ' if size else ''}{ours[0]['n']:,}{' (ours)' if pair else ''}"
    return judged(good, figure, why, size, far=far, today=today)


def compared(pair: Figures) -> tuple[bool, str]:
    """Whether 1-slack needs less time, oracle calls and support vectors than n-slack, and which of them."""
    one, old = pair
    holds = {
        "time": one["seconds"] * TIE < old["seconds"],
        "oracle calls": one["passes"] < old["passes"],
        "support vectors": one["support"] < old["support"],
    }
    good = [name for name, value in holds.items() if value]
    bad = [name for name, value in holds.items() if not value]
    text = f"{words(good, 's') if good else 'nothing'} hold"
    return not bad, text + (f", {words(bad, 's')} do not." if bad else ".")


def seconds(line: dict[str, Any]) -> str:
    """CPU seconds in two digits or more."""
    return f"{line['seconds']:.2g}" if line["seconds"] < 100 else f"{line['seconds']:.0f}"


def in_words(pair: Figures) -> str:
    """1-slack with a cache against n-slack."""
    one, many = pair
    return (
        f"n = {one['n']:,}: {seconds(one)} against {seconds(many)} s, {one['passes']:.3g} "
        f"against {many['passes']:.3g} passes of the oracle, {one['support']:.0f} against "
        f"{many['support']:,.0f} support vectors"
    )


def words_on_program(figures: Figures, task: str) -> str:
    """What the authors' program needs, and how far its n-slack comes."""
    if task not in FIXED:
        return ""
    name = programs.TASKS[task][0]
    lines = {m: pick(figures, method=theirs(task, m)) for m in ("1-slack + cache", "n-slack")}
    if not lines["n-slack"]:
        return f". {name} was not there"
    pair = of_program(figures, task)
    text = f". {name} did not end within {LIMIT:g} s"
    if pair:
        text = (
            f". {name} itself, {in_words(pair)}; its n-slack spends {pair[1]['qp %']:.0f} % on QPs"
        )
    for cut in (f for f in lines["n-slack"] if not f["finished"]):
        text += f", and does not end within {LIMIT:g} s at n = {cut['n']:,}"
    return text


def at_the_top(figures: Figures) -> str:
    """Seconds of all methods that end at the largest n."""
    top = max(f["n"] for f in figures if f["finished"])
    texts = [f"{seconds(f)} ({f['method']})" for f in pick(figures, n=top, finished=True)]
    return f". Seconds at n = {top:,}: {', '.join(texts)}"


def phases(bench: Bench) -> Figures:
    """Shares of time at the largest size at which each method ends."""
    out = []
    for task in TASKS:
        cells = structured.sweep(task, bench)
        for method in structured.METHODS:
            c = pick(cells, method=method, finished=True)[-1]
            whole = sum(c["split"].values()) or 1.0
            shares = {f"{k} %": round(100 * c["split"][k] / whole) for k in PHASES}
            out.append({"task": task, "n": c["n"], "method": method, **shares})
    return out


def judge_phases(figures: Figures) -> Judgment:
    """QP shares of both, and the order of the oracle's shares in 1-slack with its cache, as in the paper."""
    lines = {(f["task"], f["method"]): f for f in figures}
    qp = [lines["multiclass", m]["qp %"] for m in PAIR]
    shares = {t: lines[t, PAIR[0]]["oracle %"] for t in TASKS}
    figure = (
        f"QP (multiclass): {qp[0]} % for 1-slack with a cache, {qp[1]} % for n-slack; oracle of 1-slack with "
        f"a cache: {words(shares.values())} % for {', '.join(TASKS)}"
    )
    qps = qp[1] > 2 * qp[0]
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    why = (
        f"The shares of QPs {'hold' if qps else 'do not hold'}; the oracle's share is smallest for {least}, "
        f"largest for {most}."
    )
    good = qps and least == "multiclass" and most == "parsing"
    sizes: dict[str, Any] = {t: lines[t, PAIR[0]]["n"] for t in TASKS}
    return judged(good, figure, why, shown(sizes), far=is_far(sizes))


def rows() -> list[Row]:
    """One row for each task, and the profile of all."""
    methods = ", ".join(f"{name} is {code}" for name, code in structured.METHODS.items())
    note = f". {methods}; n-slack 2009 solves its QP after every 100 oracle calls, by coordinate ascent from "
    note += "the last solution, and not by the QP solver of that time"
    out = [
        Row(
            f"jfy-table-1-{t}",
            lambda bench, t=t: measure(t, bench),  # type: ignore[misc]
            table_1,
            settings(t) + note,
        )
        for t in TASKS
    ]
    return [*out, Row("jfy-table-1-phases", phases, judge_phases, settings(*TASKS))]
