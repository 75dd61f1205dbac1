"""Rows of Joachims, Finley and Yu, "Cutting-plane training of structural SVMs" (2009)."""

from __future__ import annotations

from benchmarks.common import Bench, Cell

# ruff: isort: split
import functools
import math
from typing import Any

from benchmarks.papers import programs, structured
from benchmarks.papers.record import (
    NOT_RUN,
    TIE,
    Figures,
    Judgment,
    Row,
    beside,
    column,
    judged,
    pick,
    slope,
    words,
)
from benchmarks.papers.structured import LIMIT, TASKS

#: rows of the fits that vary the cache, epsilon and C
CACHE_ROWS = 10_000
#: a run is far below the paper's size if the paper's is as many times as large
FAR = 5
#: the tasks whose oracle costs the same at every n; a grammar grows with its trees
FIXED = ("multiclass", "tagging")
#: what the paper compares: 1-slack as it runs it, and algorithm 1
PAIR = ("1-slack + cache", "n-slack 2009")
COLUMNS = ("task", "n", "method", "iterations", "passes", "support", "seconds", "finished")


def table(cells: list[Cell], *more: str) -> Figures:
    """The columns that all figures share."""
    return [{k: c.get(k) for k in (*COLUMNS, *more)} for c in cells]


def settings(*tasks: str) -> str:
    """Data, sizes and settings in words."""
    data = {
        "multiclass": "covertype, 7 classes, standardized",
        "tagging": "CoNLL-2000 chunks",
        "parsing": f"GUM trees of at most {structured.LONGEST} words, 0/1 loss",
    }
    parts = [
        f"{task}: {data[task]}, n = {words(TASKS[task].sizes, ',')}, C on the mean "
        f"{TASKS[task].C_mean:g}, epsilon {TASKS[task].epsilon:g}"
        for task in tasks
    ]
    limit = f"at most {LIMIT:g} CPU seconds per fit; a method that would need more at the next n, even if "
    return "; ".join(parts) + f"; {limit}its time grew linearly, is not run there"


def by_method(bench: Bench, *names: str) -> Figures:
    """Some columns of the sweeps of all tasks, ours and those of the authors' programs."""
    kept = ("task", "n", "method", *names, "finished")
    sweeps = [sweep(task, bench) for task in TASKS for sweep in (structured.sweep, programs.sweep)]
    return [{k: c.get(k) for k in kept} for cells in sweeps for c in cells]


#: the papers' curves begin at about as many examples
LEAST = 450


def ended(figures: Figures, task: str, method: str) -> Figures:
    """The lines of a curve: fits that finished, from the least n on if there are two of them."""
    lines = pick(figures, task=task, method=method, finished=True)
    above = [f for f in lines if f["n"] >= LEAST]
    return above if len(above) > 1 else lines


def together(figures: Figures, task: str, *methods: str) -> Figures:
    """A line for each method, at the largest n at which all of them end; none if there is no such n."""
    at = [{f["n"]: f for f in pick(figures, task=task, method=m, finished=True)} for m in methods]
    common = set(at[0]).intersection(*at[1:])
    return [by_n[max(common)] for by_n in at] if common else []


def theirs(task: str, method: str) -> str:
    """The name of a method of the authors' program for a task."""
    return f"{programs.TASKS[task][0]}, {method}"


def is_far(sizes: dict[str, int]) -> bool:
    """Whether a task was run far below the paper's size."""
    return any(FAR * n < TASKS[task].paper for task, n in sizes.items())


def shown(sizes: dict[str, int]) -> str:
    """The n of each task in words."""
    return "; ".join(f"{task} {n:,}" for task, n in sizes.items())


# -- growth in n -----------------------------------------------------------------------------------

Curve = tuple[str, str]
#: task and method; the authors' own programs have some of the tasks
ONE_SLACK = [(t, m) for t in FIXED for m in ("1-slack", "1-slack + cache")]
ONE_SLACK += [(t, theirs(t, m)) for t, m in ONE_SLACK]
N_SLACK = [(t, m) for t in FIXED for m in ("n-slack 2009", theirs(t, "n-slack"))]


def slopes(figures: Figures, name: str, curves: list[Curve]) -> dict[Curve, float]:
    """The exponent of a column in n, over the sizes whose fits finished, of curves with two sizes or more."""
    known = {}
    for curve in curves:
        lines = ended(figures, *curve)
        if len(lines) > 1:
            known[curve] = slope(column(lines, "n"), column(lines, name))
    return known


def tops(figures: Figures, curves: list[Curve]) -> dict[str, int]:
    """The largest n of these curves by task."""
    found: dict[str, int] = {}
    for task, method in curves:
        lines = ended(figures, task, method)
        found[task] = max([found.get(task, 0), *(f["n"] for f in lines)])
    return found


def named(figures: Figures, found: dict[Curve, float]) -> str:
    """Exponents with their curves and sizes."""
    texts = []
    for (task, method), value in found.items():
        n = [f["n"] for f in ended(figures, task, method)]
        texts.append(f"{task}, {method}: {value:.2f} (n = {min(n):,} to {max(n):,})")
    return "; ".join(texts)


def figure_1(figures: Figures) -> Judgment:
    """Slope of time at most 1.1 with and without a cache, over the sizes whose fits finished."""
    known = slopes(figures, "seconds", ONE_SLACK)
    high = [curve for curve, value in known.items() if value > 1.1]
    why = "No slope is above 1.1."
    if high:
        why = f"The slope is above 1.1 for {'; '.join(', '.join(curve) for curve in high)}."
    figure = f"slope of CPU seconds: {named(figures, known)}"
    size, far = shown(tops(figures, list(known))), is_far(tops(figures, high))
    return judged(not high, figure, why, size, far=far)


def n_slack(figures: Figures) -> Judgment:
    """Slope of the time of n-slack above 1.1, of algorithm 1 as printed and of the authors' program."""
    known = slopes(figures, "seconds", N_SLACK)
    if not known:
        return NOT_RUN
    low = [curve for curve, value in known.items() if value <= 1.1]
    why = "All slopes are above 1.1."
    if low:
        why = f"The slope is not above 1.1 for {'; '.join(', '.join(curve) for curve in low)}."
    cut = []
    for task, method in N_SLACK:
        lines = pick(figures, task=task, method=method, finished=False)
        cut += [f"{task}, {method} at n = {f['n']:,}" for f in lines]
    if cut:
        why += f" Cut off after {LIMIT:g} s: {'; '.join(cut)}."
    figure = f"slope of CPU seconds: {named(figures, known)}"
    size, far = shown(tops(figures, list(known))), is_far(tops(figures, low))
    return judged(not low, figure, why, size, far=far)


def figure_3(figures: Figures) -> Judgment:
    """Iterations at the largest n at most 1.3 times those at the smallest, plus 5; and with a cache at most
    twice as many as without."""
    curves = [(t, m) for t in TASKS for m in ("1-slack", "1-slack + cache")]
    texts, grown, ratios = [], [], {}
    for task, method in curves:
        its = [int(f["iterations"]) for f in ended(figures, task, method)]
        texts.append(f"{task}, {method}: {words(its, 'd')}")
        if task in FIXED and its[-1] > 1.3 * its[0] + 5:
            grown.append((task, method))
    for task in TASKS:
        plain, cached = together(figures, task, "1-slack", "1-slack + cache")
        ratios[task] = cached["iterations"] / plain["iterations"]
    apart = [(t, "1-slack") for t, ratio in ratios.items() if max(ratio, 1 / ratio) > 2.0]
    why = "For multiclass and tagging they do not grow by more than 30 %"
    if grown:
        why = f"They grow by more than 30 % for {'; '.join(', '.join(c) for c in grown)}"
    why += f". With a cache there are {words(ratios.values(), '.2g')} times as many."
    figure = "iterations by n: " + "; ".join(texts)
    size, far = shown(tops(figures, curves)), is_far(tops(figures, [*grown, *apart]))
    return judged(not grown and not apart, figure, why, size, far=far)


def figure_4(figures: Figures) -> Judgment:
    """Slopes of support vectors: below 0.3 for 1-slack, above 0.3 for n-slack."""
    one, many = (
        [(t, m) for t in TASKS for m in methods]
        for methods in (("1-slack", "1-slack + cache"), ("n-slack 2009",))
    )
    known = slopes(figures, "support", [*one, *many])
    wrong = [c for c, value in known.items() if (value < 0.3) != (c in one)]
    figure = f"slope in n: {named(figures, known)}"
    why = "Only the support vectors of n-slack grow with n."
    if wrong:
        why = "It is the other way round for " + "; ".join(", ".join(c) for c in wrong) + "."
    size, far = shown(tops(figures, list(known))), is_far(tops(figures, wrong))
    return judged(not wrong, figure, why, size, far=far)


def figure_5(figures: Figures) -> Judgment:
    """1-slack with a cache needs fewer passes of the oracle than without and than n-slack. The authors' own
    program decides where there is one and its n-slack ends."""
    texts, lost, sizes, default = [], [], {}, 0.0
    for task in TASKS:
        for methods in (_program(task), ("1-slack + cache", "1-slack", "n-slack 2009")):
            lines = together(figures, task, *methods) if methods else []
            if not lines:
                continue
            one, *others = lines
            n, passes = one["n"], words(column(others, "passes"))
            texts.append(
                f"{one['method']} {one['passes']:.3g} against {passes} ({task}, n = {n:,})"
            )
            if task not in sizes:  # the first pair of a task decides
                sizes[task] = n
                lost += [task] if one["passes"] >= min(column(others, "passes")) else []
        one, today = together(figures, task, "1-slack + cache", "default")
        default = max(default, today["passes"] / one["passes"])
    figure = f"passes of the oracle, 1-slack with a cache against the others: {'; '.join(texts)}"
    won = [t for t in TASKS if t not in lost]
    why = f"1-slack with a cache needs the fewest passes for {', '.join(won) or 'no task'}."
    why += f" Today's default needs at most {default:.2g} times its passes."
    far = is_far({t: sizes[t] for t in lost})
    return judged(not lost, figure, why, shown(sizes), far=far, today=beside(default, 1.0))


def _program(task: str) -> tuple[str, ...]:
    """The methods of the authors' program for a task, if it has one."""
    names = ("1-slack + cache", "1-slack", "n-slack")
    return tuple(theirs(task, name) for name in names) if task in FIXED else ()


def figure_7(figures: Figures) -> Judgment:
    """Lower bounds of finished fits differ by at most what epsilon allows."""
    worst, score, sizes = 0.0, 0.0, {}
    for task in TASKS:
        a, b = together(figures, task, *PAIR)
        sizes[task] = a["n"]
        allowed = TASKS[task].C_mean * TASKS[task].epsilon
        worst = max(worst, abs(a["lower_bound"] - b["lower_bound"]) / allowed)
        if a["score"] is not None and not math.isnan(a["score"]):
            score = max(score, 100 * abs(a["score"] - b["score"]))
    figure = (
        f"dual values differ by at most {worst:.2g} C epsilon; test scores by {score:.2g} points"
    )
    good = worst <= 1.0 and score <= 1.0
    why = (
        "The difference is within what the stopping rule allows."
        if good
        else "They differ by more."
    )
    return judged(good, figure, why, shown(sizes), far=is_far(sizes))


def with_dual(bench: Bench) -> Figures:
    """The sweeps with bounds and test scores."""
    more = ("objective", "lower_bound", "score")
    return [line for task in TASKS for line in table(structured.sweep(task, bench), *more)]


# -- the cache, epsilon and C ----------------------------------------------------------------------


def judge_cache(figures: Figures) -> Judgment:
    """Time without the cache over time with it, at the largest n at which both end: clearly above 1 for every
    task, and for parsing at every n."""
    texts, lost, sizes = [], [], {}
    for task in TASKS:
        pairs = [("1-slack", "1-slack + cache")]
        pairs += [(theirs(task, m[0]), theirs(task, m[1])) for m in pairs if task in FIXED]
        for plain, cached in pairs:
            both = _ratios(figures, task, plain, cached)
            if not both:
                continue
            n = max(both)
            who = "" if plain == "1-slack" else f" by {programs.TASKS[task][0]}"
            texts.append(f"{both[n]:.2g} ({task}{who}, n = {n:,})")
            if not who:
                sizes[task] = n
                least = both[n] if task in FIXED else min(both.values())
                lost += [task] if least <= TIE else []
    figure = f"time without the cache over time with it: {'; '.join(texts)}"
    won = [t for t in TASKS if t not in lost]
    why = f"The cache clearly saves time for {words(won, 's') if won else 'no task'}"
    why += f", and not for {words(lost, 's')}." if lost else "."
    far = is_far({t: sizes[t] for t in lost})
    return judged(not lost, figure, why, shown(sizes), far=far)


def _ratios(figures: Figures, task: str, plain: str, cached: str) -> dict[int, float]:
    """Time without a cache over time with it, by n."""
    lines = pick(figures, task=task, finished=True)
    a, b = ({f["n"]: f["seconds"] for f in pick(lines, method=m)} for m in (plain, cached))
    return {n: a[n] / b[n] for n in a if n in b}


def cache_sizes(bench: Bench) -> Figures:
    """Multiclass at f constraints per example; f = 0 is no cache."""
    n = TASKS["multiclass"].quick[0] if bench.quick else CACHE_ROWS
    sizes = (0, 1, 5) if bench.quick else (0, 1, 2, 5, 10, 20)

    def one(f: int) -> Cell:
        method = "1-slack + cache" if f else "1-slack"
        return structured.fit("multiclass", method, n, cache_size=f or None)

    cells = [bench.inline(f"cache {n} {f}", functools.partial(one, f)) for f in sizes]
    return [{"f": f, **line} for f, line in zip(sizes, table(cells), strict=True)]


def figure_6(figures: Figures) -> Judgment:
    """Passes at f = 5 at most 1.5 times those at the largest f."""
    passes = {f["f"]: f["passes"] for f in figures}
    figure = "passes by f: " + ", ".join(f"{f}: {p:.3g}" for f, p in passes.items())
    most = max(passes)
    good = passes[5] <= 1.5 * passes[most]
    why = f"f = {most} needs {'about as many passes as' if good else 'fewer passes than'} f = 5."
    return judged(good, figure, why, f"{figures[0]['n']:,}", far=True)


def against(name: str, values: tuple[float, ...], bench: Bench) -> Figures:
    """Multiclass at several epsilon or C, with and without a cache."""
    n = TASKS["multiclass"].quick[0] if bench.quick else CACHE_ROWS
    out = []
    usual = getattr(TASKS["multiclass"], name)
    for value in values:
        changed: dict[str, Any] = {name: value}
        for method in ("1-slack", "1-slack + cache"):
            work = functools.partial(structured.fit, "multiclass", method, n, **changed)
            key = structured.key("multiclass", method).format(n=n)  # that of the sweep
            key = key if value == usual else f"{name} {value:g} {n} {method}"
            cell = bench.inline(key, work)
            out += [{name: value, **line} for line in table([cell])]
    return out


def judge_against(name: str, sign: int, figures: Figures) -> Judgment:
    """Passes with a cache grow with an exponent below 0.25; iterations without it below 1."""
    lines = [f for f in pick(figures, method="1-slack + cache") if f["finished"]]
    plain = [f for f in pick(figures, method="1-slack") if f["finished"]]
    calls = sign * slope(column(lines, name), column(lines, "passes"))
    its = sign * slope(column(plain, name), column(plain, "iterations"))
    figure = (
        f"passes with a cache: {words(column(lines, 'passes'))} (exponent {calls:.2f}); iterations without: "
        f"{words(column(plain, 'iterations'))} (exponent {its:.2f})"
    )
    good = calls <= 0.25 and its < 1.0
    why = (
        "Oracle calls are nearly flat, iterations grow more slowly than the bound."
        if good
        else "Growth is stronger than the paper's figure shows."
    )
    return judged(good, figure, why, f"{lines[0]['n']:,}", far=True)


def best_C(bench: Bench) -> Figures:
    """1-slack with a cache at the C that is best on the test rows; at C = 1000, the fits of the sweep."""
    task, method = "multiclass", "1-slack + cache"
    out = []
    for cell in pick(structured.sweep(task, bench), method=method, finished=True):
        n = cell["n"]
        work = functools.partial(structured.fit, task, method, n, C_mean=SMALL_C)
        cells = [cell, bench.inline(f"best C {n} {SMALL_C:g}", work)]
        best = max(cells, key=lambda c: c["score"])
        out += [{"C_mean": best["C_mean"], **line} for line in table([best])]
    return out


def judge_best_C(figures: Figures) -> Judgment:
    """The slope of time."""
    value = slope(column(figures, "n"), column(figures, "seconds"))
    top = figures[-1]["n"]
    figure = f"slope {value:.2f} from n = {figures[0]['n']:,} to {top:,}"
    good = value <= 1.1
    why = "Not above 1.1." if good else "Above 1.1."
    return judged(good, figure, why, f"multiclass {top:,}", far=is_far({"multiclass": top}))


EPSILONS = (1e-2, 3e-3, 1e-3)
CS = (10.0, 100.0, 1000.0)
SMALL_C = 100.0


def rows() -> list[Row]:
    """All rows of this paper but those of its tables."""
    every, small = (
        settings(*TASKS),
        f"covertype, 7 classes, {CACHE_ROWS:,} rows, as in the row of Table 1",
    )
    figure_2 = (
        f"covertype, 1-slack with a cache; the better C of {SMALL_C:g} and 1000; n as in Figure 1"
    )
    return [
        Row("jfy-figure-1", lambda b: by_method(b, "seconds"), figure_1, every),
        Row("jfy-figure-1-n-slack", lambda b: by_method(b, "seconds"), n_slack, every),
        Row("jfy-figure-2", best_C, judge_best_C, figure_2),
        Row("jfy-figure-3", lambda b: by_method(b, "iterations"), figure_3, every),
        Row("jfy-figure-4", lambda b: by_method(b, "support"), figure_4, every),
        Row("jfy-figure-5", lambda b: by_method(b, "passes"), figure_5, every),
        Row("jfy-cache", lambda b: by_method(b, "seconds"), judge_cache, every),
        Row("jfy-figure-6", cache_sizes, figure_6, small),
        Row("jfy-figure-7", with_dual, figure_7, every),
        Row(
            "jfy-figure-8",
            lambda b: against("epsilon", EPSILONS, b),
            lambda f: judge_against("epsilon", -1, f),
            small,
        ),
        Row(
            "jfy-figure-9",
            lambda b: against("C_mean", CS, b),
            lambda f: judge_against("C_mean", 1, f),
            small,
        ),
    ]
