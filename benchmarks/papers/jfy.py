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
    Reason,
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
#: exponent in n above which a count is said to grow, and time to grow faster than n
GROWS, FASTER = 0.1, 1.1
#: exponents of the support vectors of 1-slack and of n-slack
FEW, MANY = 0.3, 0.5
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
THEIR_ONE_SLACK = [(t, theirs(t, m)) for t, m in ONE_SLACK]
N_SLACK = [(t, "n-slack 2009") for t in FIXED]
THEIR_N_SLACK = [(t, theirs(t, "n-slack")) for t in FIXED]


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


def faster(found: dict[Curve, float]) -> str:
    """The curves whose time grows faster than n, in words."""
    return "; ".join(", ".join(curve) for curve, value in found.items() if value > FASTER)


def figure_1(figures: Figures) -> Judgment:
    """Time of 1-slack grows at most linearly, with and without a cache. Ours decides: it goes further."""
    ours, other = (slopes(figures, "seconds", c) for c in (ONE_SLACK, THEIR_ONE_SLACK))
    high = [curve for curve, value in ours.items() if value > FASTER]
    why = f"No slope of ours is above {FASTER:g}."
    if high:
        why = f"The slope is above {FASTER:g} for {faster(ours)}."
    if faster(other):
        why += f" Of the authors' programs, that of {faster(other)} is."
    figure = f"slope of CPU seconds: {named(figures, ours | other)}"
    size, far = shown(tops(figures, list(ours))), is_far(tops(figures, high))
    return judged(not high, figure, why, size, far=far)


def n_slack(figures: Figures) -> Judgment:
    """Time of n-slack grows faster than n. The authors' programs decide, if they are there: nearly all of the
    time is that of the QP solver, and ours is another one."""
    ours, other = (slopes(figures, "seconds", c) for c in (N_SLACK, THEIR_N_SLACK))
    deciding = other or ours
    if not deciding:
        return NOT_RUN
    low = [curve for curve, value in deciding.items() if value <= FASTER]
    why = f"The slope is above {FASTER:g} for {faster(deciding) or 'no task'}."
    if other and ours and not faster(ours):
        why += " It is not for our algorithm 1, which has another QP solver: coordinate ascent from the last "
        why += "solution."
    figure = f"slope of CPU seconds: {named(figures, other | ours)}"
    size, far = shown(tops(figures, list(deciding))), is_far(tops(figures, low))
    return judged(not low, figure, why, size, far=far)


def figure_3(figures: Figures) -> Judgment:
    """Iterations do not grow for multiclass and tagging; with a cache at most twice as many as without."""
    curves = [(t, m) for t in TASKS for m in ("1-slack", "1-slack + cache")]
    texts, ratios = [], {}
    known = slopes(figures, "iterations", curves)
    for task, method in curves:
        its = [int(f["iterations"]) for f in ended(figures, task, method)]
        texts.append(f"{task}, {method}: {words(its, 'd')}")
        texts[-1] += f" (exponent {known[task, method]:.2f})" if (task, method) in known else ""
    for task in TASKS:
        plain, cached = together(figures, task, "1-slack", "1-slack + cache")
        ratios[task] = cached["iterations"] / plain["iterations"]
    grown = [curve for curve, value in known.items() if curve[0] in FIXED and value > GROWS]
    apart = [(t, "1-slack") for t, ratio in ratios.items() if max(ratio, 1 / ratio) > 2.0]
    why = f"For multiclass and tagging no exponent is above {GROWS:g}"
    if grown:
        why = f"The exponent is above {GROWS:g} for {'; '.join(', '.join(c) for c in grown)}"
    why += f". With a cache there are {words(ratios.values(), '.2g')} times as many ({', '.join(TASKS)})."
    figure = "iterations by n: " + "; ".join(texts)
    size, far = shown(tops(figures, curves)), is_far(tops(figures, [*grown, *apart]))
    return judged(not grown and not apart, figure, why, size, far=far)


def figure_4(figures: Figures) -> Judgment:
    """Support vectors of n-slack grow, and those of 1-slack do not."""
    one, many = (
        [(t, m) for t in TASKS for m in methods]
        for methods in (("1-slack", "1-slack + cache"), ("n-slack 2009",))
    )
    known = slopes(figures, "support", [*one, *many])
    wrong = [c for c, x in known.items() if not (x < FEW if c in one else x > MANY)]
    figure = f"slope in n: {named(figures, known)}"
    why = f"Only those of n-slack grow with n, by an exponent above {MANY:g}."
    if wrong:
        why = f"1-slack's exponent must be below {FEW:g}, n-slack's above {MANY:g}; this fails for "
        why += "; ".join(", ".join(c) for c in wrong) + "."
    tops_ = {t: max(f["support"] for f in pick(figures, task=t, method=PAIR[0])) for t in TASKS}
    why += f" 1-slack with a cache has at most {words(tops_.values(), 'd')} ({', '.join(TASKS)})."
    size, far = shown(tops(figures, list(known))), is_far(tops(figures, wrong))
    return judged(not wrong, figure, why, size, far=far)


def figure_5(figures: Figures) -> Judgment:
    """1-slack with a cache needs fewer passes of the oracle than without and than n-slack. The authors' own
    program decides where there is one."""
    texts, lost, sizes, default = [], {}, {}, 0.0
    ours: list[str] = []
    for task in TASKS:
        for one, *others in (_program(task), ("1-slack + cache", "1-slack", "n-slack 2009")):
            pairs = [p for other in others if (p := together(figures, task, one, other))]
            if not pairs:
                continue
            passes = [f"{b['passes']:.3g} ({b['method']}, n = {b['n']:,})" for _, b in pairs]
            texts.append(
                f"{task}, {one}: {pairs[-1][0]['passes']:.3g} against {words(passes, 's')}"
            )
            more = any(a["passes"] >= b["passes"] for a, b in pairs)
            ours += [task] if more and one == "1-slack + cache" else []
            if task not in lost:  # the first form of a task decides
                lost[task], sizes[task] = more, pairs[-1][0]["n"]
        own, today = together(figures, task, "1-slack + cache", "default")
        default = max(default, today["passes"] / own["passes"])
    figure = f"passes of the oracle, 1-slack with a cache against the others: {'; '.join(texts)}"
    won = [t for t in TASKS if not lost[t]]
    why = (
        f"1-slack with a cache needs the fewest passes for {words(won, 's') if won else 'no task'}."
    )
    if ours:
        why += f" Of ours, n-slack needs as few or fewer for {words(ours, 's')}."
    why += f" Today's default needs at most {default:.2g} times the passes of 1-slack with a cache."
    far = is_far({t: sizes[t] for t in TASKS if lost[t]})
    return judged(
        len(won) == len(TASKS), figure, why, shown(sizes), far=far, today=beside(default, 1.0)
    )


def _program(task: str) -> tuple[str, ...]:
    """The methods of the authors' program for a task, if it has one."""
    names = ("1-slack + cache", "1-slack", "n-slack")
    return tuple(theirs(task, name) for name in names) if task in FIXED else ("",)


def figure_7(figures: Figures) -> Judgment:
    """Lower bounds of 1-slack and n-slack, at the largest n, differ by at most what epsilon allows."""
    worst, texts, scores, sizes = 0.0, [], [], {}
    for task in TASKS:
        forms = [
            pair
            for one in ("1-slack + cache", "1-slack")
            for many in ("n-slack 2009", "n-slack")
            if (pair := together(figures, task, one, many))
        ]
        a, b = max(forms, key=lambda pair: pair[0]["n"])
        sizes[task] = a["n"]
        allowed = TASKS[task].C_mean * TASKS[task].epsilon
        apart = abs(a["lower_bound"] - b["lower_bound"]) / allowed
        worst = max(worst, apart)
        texts.append(
            f"{apart:.2g} C epsilon ({task}, n = {a['n']:,}: {a['method']} and {b['method']})"
        )
        if a["score"] is not None and not math.isnan(a["score"]):
            scores.append((100 * a["score"], 100 * b["score"]))
            texts[-1] += f", test score {scores[-1][0]:.2f} and {scores[-1][1]:.2f} %"
    figure = f"difference of the dual values: {'; '.join(texts)}"
    good = worst <= 1.0 and all(abs(a - b) <= 1.0 for a, b in scores)
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
    task, and for parsing at every n. What the authors' program shows does not fail for its size."""
    texts, won, size, code = [], [], {}, []
    for task in TASKS:
        ours = _ratios(figures, task, "1-slack", "1-slack + cache")
        size[task] = max(ours)
        texts.append(f"{ours[size[task]]:.2g} ({task}, n = {size[task]:,})")
        least = ours[size[task]] if task in FIXED else min(ours.values())
        won += [task] if least > TIE else []
        other = _ratios(figures, task, *_program(task)[1::-1]) if task in FIXED else {}
        if other:
            n, name = max(other), programs.TASKS[task][0]
            texts.append(f"{other[n]:.2g} ({task} by {name}, n = {n:,})")
            if task not in won and other[n] > TIE:
                code.append(_beside_program(figures, task))
    lost = [t for t in TASKS if t not in won]
    why = f"The cache clearly saves time for {words(won, 's') if won else 'no task'}"
    why += f", and not for {words(lost, 's')}." if lost else "."
    if code:
        why += " The authors' programs do gain by it; without it they take more time than ours. Seconds "
        why += f"without and with it: {'; '.join(code)}."
    figure = f"time without the cache over time with it: {'; '.join(texts)}"
    far = is_far({t: size[t] for t in lost}) and not code
    reason: Reason = "our code" if code else "a real result"
    return judged(not lost, figure, why, shown(size), far=far, reason=reason)


def _beside_program(figures: Figures, task: str) -> str:
    """Seconds without and with a cache, ours and those of the authors' program."""
    cached, plain, _ = _program(task)
    own, own_cached, other, other_cached = together(
        figures, task, "1-slack", "1-slack + cache", plain, cached
    )
    return (
        f"{own['seconds']:.3g} and {own_cached['seconds']:.3g} (ours), {other['seconds']:.3g} and "
        f"{other_cached['seconds']:.3g} ({programs.TASKS[task][0]}, n = {own['n']:,})"
    )


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
