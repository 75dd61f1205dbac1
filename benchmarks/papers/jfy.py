"""Rows of Joachims, Finley and Yu, "Cutting-plane training of structural SVMs" (2009)."""

from __future__ import annotations

from benchmarks.common import Bench, Cell

# ruff: isort: split
import functools
import math
from typing import Any

from benchmarks.papers import structured
from benchmarks.papers.record import (
    Figures,
    Judgment,
    Row,
    beside,
    column,
    judged,
    pick,
    read,
    slope,
    words,
)
from benchmarks.papers.structured import LIMIT, METHODS, TASKS

NAMES = ("1-slack", "1-slack + cache", "n-slack 2009", "n-slack", "default")
#: rows of the fits that vary the cache, epsilon and C
CACHE_ROWS = 1000
COLUMNS = ("task", "n", "method", "iterations", "passes", "support", "seconds", "finished")


def sweep(task: str, bench: Bench) -> list[Cell]:
    """Every method at every size, to the paper's epsilon."""
    sizes = TASKS[task].quick if bench.quick else TASKS[task].sizes
    return [
        bench.inline(f"{task} {n} {method}", functools.partial(structured.fit, task, n, method))
        for n in sizes
        for method in METHODS
    ]


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
    return "; ".join(parts) + f"; at most {LIMIT:g} CPU seconds per fit"


def largest(figures: Figures) -> dict[str, dict[str, Any]]:
    """The lines of the largest n by method."""
    top = max(f["n"] for f in figures)
    return {f["method"]: f for f in figures if f["n"] == top}


def by_method(bench: Bench, *names: str) -> Figures:
    """Some columns of the sweeps of all tasks."""
    kept = ("task", "n", "method", *names, "finished")
    return [{k: c[k] for k in kept} for task in TASKS for c in sweep(task, bench)]


#: the papers' curves begin at about as many examples
LEAST = 450


def ended(figures: Figures, task: str, method: str) -> Figures:
    """The lines of a curve: from the least n on, and of fits that finished."""
    lines = pick(figures, task=task, method=method)
    return [f for f in lines if f["finished"] and (f["n"] >= LEAST or task == "parsing")]


def sizes_of(figures: Figures, *tasks: str) -> str:
    """The largest n of each task."""
    return "; ".join(f"{t} {max(f['n'] for f in pick(figures, task=t)):,}" for t in tasks)


def growth(figures: Figures, name: str, task: str, method: str) -> float:
    """Exponent of a column in n, over the sizes whose fits finished; not a number if there is only one."""
    lines = ended(figures, task, method)
    if len(lines) < 2:
        return math.nan
    return slope(column(lines, "n"), column(lines, name))


def figure_1(figures: Figures) -> Judgment:
    """Slope of time at most 1.1 with and without a cache, over the sizes whose fits finished."""
    slopes, cut = {}, []
    for task in ("multiclass", "tagging"):
        for method in ("1-slack", "1-slack + cache"):
            name = f"{task}, {method}"
            if not all(f["finished"] for f in pick(figures, task=task, method=method)):
                cut.append(name)
            slopes[name] = growth(figures, "seconds", task, method)
    known = {k: v for k, v in slopes.items() if not math.isnan(v)}
    figure = f"slope of CPU seconds from n = {LEAST} on: "
    figure += "; ".join(f"{k}: {v:.2f}" for k, v in known.items())
    figure += f"; not finished at the largest n: {'; '.join(cut)}" if cut else ""
    high = [name for name, value in known.items() if value > 1.1]
    why = f"The slope is above 1.1 for {'; '.join(high)}." if high else "No slope is above 1.1."
    size = sizes_of(figures, "multiclass", "tagging")
    return judged(bool(known) and not high, figure, why, size, far=True)


def figure_3(figures: Figures) -> Judgment:
    """Iterations at the largest n at most 1.3 times those at the smallest, plus 5."""
    texts, good = [], []
    for task in TASKS:
        for method in ("1-slack", "1-slack + cache"):
            its = [int(f["iterations"]) for f in ended(figures, task, method)]
            texts.append(f"{task}, {method}: {words(its, 'd') if len(its) > 1 else 'cut off'}")
            if task != "parsing" and len(its) > 1:
                good.append(its[-1] <= 1.3 * its[0] + 5)
    figure = f"iterations by n, from {LEAST} on: " + "; ".join(texts)
    grown = good.count(False)
    why = "No growth beyond 30 % for multiclass and tagging."
    if grown:
        why = f"In {grown} of {len(good)} series iterations grow by more than 30 %."
    return judged(bool(good) and not grown, figure, why, sizes_of(figures, *TASKS), far=True)


def figure_4(figures: Figures) -> Judgment:
    """Slopes of support vectors: below 0.3 for 1-slack, above 0.5 for n-slack."""
    one = {t: growth(figures, "support", t, "1-slack + cache") for t in TASKS}
    many = {t: growth(figures, "support", t, "n-slack") for t in TASKS}
    figure = (
        f"slope in n: {words(one.values(), '.2f')} (1-slack with cache), {words(many.values(), '.2f')} "
        f"(n-slack) for {', '.join(TASKS)}"
    )
    high = [t for t, value in one.items() if not value < 0.3]
    good = not high and min(many.values()) > 0.5
    why = "Only the support vectors of n-slack grow with n."
    if not good:
        why = f"1-slack's support vectors grow for {', '.join(high) or 'no task'}."
    return judged(good, figure, why, sizes_of(figures, *TASKS), far=True)


def figure_5(figures: Figures) -> Judgment:
    """Passes of the oracle do not grow, and 1-slack with a cache needs the fewest."""
    least = {}
    for task in TASKS:
        at = {m: f for m, f in largest(pick(figures, task=task)).items() if m in NAMES[:4]}
        least[task] = min(at, key=lambda m: (not at[m]["finished"], at[m]["passes"]))
    at = {t: largest(pick(figures, task=t)) for t in TASKS}
    parts = [
        f"{t}: {at[t]['1-slack + cache']['passes']:.3g} against {at[t]['n-slack 2009']['passes']:.3g} "
        f"(n-slack of 2009) and {at[t]['n-slack']['passes']:.3g} (ours)"
        for t in TASKS
    ]
    figure = "passes at the largest n: " + "; ".join(parts)
    won = [t for t, m in least.items() if m == "1-slack + cache"]
    why = f"1-slack with a cache needs the fewest passes for {', '.join(won) or 'no task'}."
    default = max(at[t]["default"]["passes"] / at[t]["1-slack + cache"]["passes"] for t in TASKS)
    why += f" Today's default needs at most {default:.2g} times its passes."
    good = len(won) == len(TASKS)
    return judged(
        good, figure, why, sizes_of(figures, *TASKS), far=True, today=beside(default, 1.0)
    )


def figure_7(figures: Figures) -> Judgment:
    """Lower bounds of finished fits differ by at most what epsilon allows."""
    worst, score = 0.0, 0.0
    for task in TASKS:
        at = {m: f for m, f in largest(pick(figures, task=task)).items() if f["finished"]}
        if {"1-slack + cache", "n-slack"} <= set(at):
            a, b = at["1-slack + cache"], at["n-slack"]
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
    return judged(good, figure, why, sizes_of(figures, *TASKS))


def with_dual(bench: Bench) -> Figures:
    """The sweeps with bounds and test scores."""
    more = ("objective", "lower_bound", "score")
    return [line for task in TASKS for line in table(sweep(task, bench), *more)]


# -- the cache, epsilon and C ----------------------------------------------------------------------


def cache_sizes(bench: Bench) -> Figures:
    """Multiclass at f constraints per example; f = 0 is no cache."""
    n = TASKS["multiclass"].quick[0] if bench.quick else CACHE_ROWS
    sizes = (0, 1, 5) if bench.quick else (0, 1, 2, 5, 10, 20)

    def one(f: int) -> Cell:
        method = "1-slack + cache" if f else "1-slack"
        return structured.fit("multiclass", n, method, cache_size=f or None)

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
    for value in values:
        for method in ("1-slack", "1-slack + cache"):
            work = functools.partial(structured.fit, "multiclass", n, method, **{name: value})
            cell = bench.inline(f"{name} {value:g} {n} {method}", work)
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
    """1-slack at the C that is best on the test rows, for each n."""
    sizes = TASKS["multiclass"].quick if bench.quick else TASKS["multiclass"].sizes[:3]
    out = []
    for n in sizes:
        cells = []
        for C in (100.0, 1000.0):
            work = functools.partial(structured.fit, "multiclass", n, "1-slack + cache", C_mean=C)
            cells.append(bench.inline(f"best C {n} {C:g}", work))
        best = max(cells, key=lambda c: c["score"])
        out += [{"C_mean": best["C_mean"], **line} for line in table([best])]
    return out


def judge_best_C(figures: Figures) -> Judgment:
    """The slope of time."""
    value = slope(column(figures, "n"), column(figures, "seconds"))
    figure = f"slope {value:.2f} from n = {figures[0]['n']:,} to {figures[-1]['n']:,}"
    good = value <= 1.1
    why = "Not above 1.1." if good else "Above 1.1."
    return judged(good, figure, why, f"{figures[-1]['n']:,}", far=True)


EPSILONS = (1e-2, 3e-3, 1e-3)
CS = (10.0, 100.0, 1000.0)


def full_size(bench: Bench) -> Figures:
    """The paper's size, from the benchmark that has it."""
    lines = [r for r in read(FULL) if r["set"] == "covtype 523k"]
    names = ("solver", "gap", "iterations", "oracle calls", "CPU s", "support vectors")
    return [{k: r[k] for k in (*names, "test accuracy %")} for r in lines]


def judge_full_size(figures: Figures) -> Judgment:
    """Support vectors and time."""
    one, many = (pick(figures, solver=m)[0] for m in ("1-slack", "n-slack"))
    support = [int(f["support vectors"]) for f in (one, many)]
    seconds = [float(f["CPU s"]) for f in (one, many)]
    figure = (
        f"{support[0]:,} against {support[1]:,} support vectors; {seconds[0]:.3g} against {seconds[1]:.3g} "
        f"s; test accuracy {one['test accuracy %']} %"
    )
    good = support[0] < support[1] / 100
    why = (
        f"Support vectors {'hold' if good else 'do not hold'}. The n-slack of 2009 is not run at this size; "
        "the one here is today's, which goes on before its QP is solved."
    )
    return judged(good, figure, why, "522,911", today=beside(seconds[1], seconds[0]))


FULL = "multiclass_solvers_passes"


def large(bench: Bench) -> Figures:
    """Covertype up to the paper's size."""
    names = ("set", "solver", "iterations", "oracle calls", "support vectors")
    lines = [r for r in read(FULL) if r["set"].startswith("covtype")]
    kept = [r for r in lines if r["solver"] in ("1-slack", "1-slack + cache", "n-slack")]
    return [{k: r[k] for k in names} for r in kept]


def judge_large(name: str, figures: Figures) -> Judgment:
    """From the least to the largest size 1-slack's counts grow by at most 30 percent."""
    one = [int(f[name]) for f in pick(figures, solver="1-slack")]
    many = [int(f[name]) for f in pick(figures, solver="n-slack")]
    figure = f"{name} from 3,000 to 522,911 rows: {words(one, ',')} (1-slack), {words(many, ',')} (n-slack)"
    good = max(one) <= 1.3 * one[0] + 5
    why = (
        "1-slack's do not grow by more than 30 %." if good else "1-slack's grow by more than 30 %."
    )
    return judged(good, figure, why, "multiclass 522,911")


def rows() -> list[Row]:
    """All rows of this paper."""
    at_scale = "covertype, C on the mean 1000, to a certified relative gap of 0.01"
    every, small = (
        settings(*TASKS),
        (f"covertype, 7 classes, {CACHE_ROWS:,} rows, as in the row of Table 1"),
    )
    return [
        Row(
            "jfy-full-size-multiclass",
            full_size,
            judge_full_size,
            "covertype, 522,911 rows, C on the mean 1000, to a certified relative gap of 0.01",
            (FULL,),
        ),
        Row("jfy-figure-1", lambda b: by_method(b, "seconds"), figure_1, every),
        Row(
            "jfy-figure-2",
            best_C,
            judge_best_C,
            "covertype; the better C of 100 and 1000",
        ),
        Row("jfy-figure-3", lambda b: by_method(b, "iterations"), figure_3, every),
        Row("jfy-figure-3-large", large, lambda f: judge_large("iterations", f), at_scale, (FULL,)),
        Row(
            "jfy-figure-4-large",
            large,
            lambda f: judge_large("support vectors", f),
            at_scale,
            (FULL,),
        ),
        Row("jfy-figure-4", lambda b: by_method(b, "support"), figure_4, every),
        Row("jfy-figure-5", lambda b: by_method(b, "passes"), figure_5, every),
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
