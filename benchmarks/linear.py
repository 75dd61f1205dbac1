"""LinearSVC compared to scikit-learn's LinearSVC (LIBLINEAR): problems x C over five decades x precisions.

Ours is ``LinearSVC(C=C, loss="hinge", tol=eps)``: the time until the *certified* gap is eps,
including the certificate. Theirs is ``LinearSVC(loss="hinge")``, with ``multi_class="crammer_singer"`` for
several classes: the same objective. Its tolerance is the loosest of a ladder for which F, recomputed from the
weights by independent code, is at most F_best (1 + eps), where F_best is the smallest F that any fit of that
problem and C reached. Tuning time is not counted.

Both sides: one thread, CPU time of ``fit`` on the same arrays in memory, interleaved, medians, at most 60 CPU
seconds per fit. Two kinds of cells are stored: ``cells/linear-known`` (F_best and LIBLINEAR's tolerances,
which do not depend on our solver) and ``cells/linear`` (the times, and the traces of the plot). The search
for the tolerances takes longer than the measurement, so a tolerance of the committed table is used if its
fit still reaches the precision; ``--fresh`` searches again.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row

# ruff: isort: split
import argparse
import csv
import json
import sys
import time

import numpy as np

from benchmarks.datasets import DatasetMissing
from benchmarks.linear_fits import FIRST, LADDER, Search, fit_ours, fit_theirs
from benchmarks.linear_plot import plot
from benchmarks.problems import PROBLEMS, Problem, load, warm

TITLE = "LinearSVC against scikit-learn's at equal precision"
#: small ones first, for early results
BINARY = ("a9a", "ijcnn1", "w8a", "ccat", "reuters", "imdb", "mnist-0-4", "covtype-2", "ccat-like")
SEVERAL = ("news20", "mnist-10", "covtype-7")
#: not used while the solvers were tuned
UNSEEN = ("reuters",)
C_MEANS = {**dict.fromkeys(BINARY, (1e3, 1e4, 1e5, 1e6, 1e7))}
C_MEANS |= dict.fromkeys(SEVERAL, (1e1, 1e2, 1e3, 1e4, 1e5))
EPSILONS = (1e-2, 1e-3)
#: precision of the fits that find F_best and draw the plot
FINE = 1e-4
LIMIT = 60.0
#: the smoke run: one problem of each kind, the generated one among them
QUICK, QUICK_LIMIT, QUICK_REPEATS = ("a9a", "ccat-like", "news20"), 1.0, 2
#: repeats of a fit; of one that takes more than SLOW seconds; of one that is stopped by the limit
REPEATS, SLOW, SLOW_REPEATS = 5, 20.0, 2


def decades(name: str, quick: bool) -> tuple[float, ...]:
    """The values of C_mean for a problem."""
    return C_MEANS[name][1:4:2] if quick else C_MEANS[name]


def middle(name: str, quick: bool) -> float:
    """The C_mean that is plotted."""
    return decades(name, quick)[0 if quick else 2]


def limit_of(bench: Bench) -> float:
    """CPU seconds per fit."""
    return QUICK_LIMIT if bench.quick else LIMIT


# -- cells -----------------------------------------------------------------------------------------


def know(problem: Problem, C_mean: float, limit: float, neighbor: Cell | None) -> Cell:
    """F_best, and for each eps LIBLINEAR's loosest tolerance that reaches it."""
    C = C_mean / problem.n
    mine = fit_ours(problem, C, FINE, limit)
    search = Search(problem, C, limit, neighbor["search"]["pace"] if neighbor else None)
    F_best = float("inf") if mine["F"] is None else mine["F"]
    places: dict[str, int | None] = {}
    first = FIRST
    while True:
        for eps in EPSILONS:
            near = neighbor["places"][f"{eps:g}"] if neighbor else None
            begin = max(first, near) if near is not None else first
            places[f"{eps:g}"] = found = search.loosest(F_best, eps, begin)
            first = FIRST if found is None else found
        if mine["gap"] is None or mine["gap"] > 2 * FINE:
            # F_best also includes all fits of theirs
            k = max([0, *search.fits])
            while k < len(LADDER) and search.fit(k) is not None:
                k += 1
        if search.best() >= F_best:
            break
        F_best = search.best()  # a stricter bound: search again; fits are cached
    kept = {k: v for k, v in mine.items() if k != "trace"}
    return {"F_best": F_best, "ours": kept, "places": places, "search": search.state()}


def from_table(
    name: str, problem: Problem, C_mean: float, limit: float, bench: Bench
) -> Cell | None:
    """What ``know`` would find, with the tolerances of the committed table, one fit for each.

    None if the table has not both of them, or if a fit does not reach its precision any more. A tolerance
    that the table says does not exist is not searched again.
    """
    table = "binary" if problem.n_classes == 2 else "multiclass"
    with (bench.folder / f"linear_{table}.csv").open(newline="") as file:
        stored = {
            float(line["eps"]): line
            for line in csv.DictReader(file)
            if line["set"] == name and float(line["C_mean"]) == C_mean
        }
    if set(stored) != set(EPSILONS):
        return None
    C = C_mean / problem.n
    mine = fit_ours(problem, C, FINE, limit)
    if mine["F"] is None or mine["gap"] is None or mine["gap"] > 2 * FINE:
        return None
    search = Search(problem, C, limit)
    places: dict[str, int | None] = {}
    for eps, line in stored.items():
        if not line["their tol"]:
            places[f"{eps:g}"] = None
            if line["their precision"]:
                F = mine["F"] * (1 + float(line["their precision"]))
                search.cut_short = {"tol": None, "F": F}
            continue
        places[f"{eps:g}"] = place = LADDER.index(float(line["their tol"]))
        fit = search.fits.get(place) or fit_theirs(problem, C, LADDER[place], limit)
        if fit is None or fit["F"] > mine["F"] * (1 + eps):
            return None
        search.fits[place] = fit
    kept = {k: v for k, v in mine.items() if k != "trace"}
    F_best = min(mine["F"], search.best())
    return {"F_best": F_best, "ours": kept, "places": places, "search": search.state()}


def measure(
    problem: Problem, C_mean: float, eps: float, limit: float, known: Cell, repeats: int
) -> Cell:
    """Both sides, interleaved."""
    C, place = C_mean / problem.n, known["places"][f"{eps:g}"]
    ours: list[Cell] = []
    theirs: list[float] = []
    needed = {"ours": 1, "theirs": 0 if place is None else 1}
    for turn in range(repeats):
        # alternate the order, so that other load affects both sides
        for side in ("ours", "theirs") if turn % 2 == 0 else ("theirs", "ours"):
            if turn >= needed[side]:
                continue
            if side == "ours":
                ours.append(fit_ours(problem, C, eps, limit))
                ours[-1].pop("trace")
                seconds, stopped = ours[-1]["seconds"], ours[-1]["late"]
            else:
                found = fit_theirs(problem, C, LADDER[place], limit)
                # it ended in time during the search: count a late one as the limit
                seconds, stopped = (limit, True) if found is None else (found["seconds"], False)
                theirs.append(seconds)
            needed[side] = 1 if stopped else SLOW_REPEATS if seconds > SLOW else repeats
    middle_one = sorted(ours, key=lambda fit: fit["seconds"])[len(ours) // 2]
    return {
        "ours": {**middle_one, "seconds": float(np.median([fit["seconds"] for fit in ours]))},
        "ours_all": [fit["seconds"] for fit in ours],
        "theirs": float(np.median(theirs)) if theirs else None,
        "theirs_all": theirs,
        "limit": limit,
    }


def trace(problem: Problem, C_mean: float, limit: float, known: Cell) -> Cell:
    """Data of the plot: our bounds against CPU time, and LIBLINEAR's fits."""
    C = C_mean / problem.n
    search = Search(problem, C, limit).restore(known["search"])
    for k in range(LADDER.index(1e-4) + 1):
        if search.fit(k) is None:
            break
    mine = fit_ours(problem, C, FINE, limit)
    best = min(known["F_best"], search.best(), *([mine["F"]] if mine["F"] is not None else []))
    return {"C_mean": C_mean, "F_best": best, "ours": mine, "theirs": search.state()}


def one_problem(name: str, bench: Bench, known: Bench, fresh: bool) -> None:
    """All missing cells of one problem; ``fresh``: search without the committed table."""
    problem = load(name, bench.quick)
    warm(problem)
    limit, repeats = limit_of(bench), QUICK_REPEATS if bench.quick else REPEATS
    neighbor: Cell | None = None
    for C_mean in decades(name, bench.quick):

        def search(C_mean: float = C_mean, neighbor: Cell | None = neighbor) -> Cell:
            stored = (
                None if fresh or bench.quick else from_table(name, problem, C_mean, limit, bench)
            )
            return stored or know(problem, C_mean, limit, neighbor)

        neighbor = found = known.inline(f"{name} {C_mean:g}", search)
        for eps in EPSILONS:

            def both(C_mean: float = C_mean, eps: float = eps, found: Cell = found) -> Cell:
                return measure(problem, C_mean, eps, limit, found, repeats)

            bench.inline(f"{name} {C_mean:g} {eps:g}", both)
        if C_mean == middle(name, bench.quick):

            def drawn(C_mean: float = C_mean, found: Cell = found) -> Cell:
                return trace(problem, C_mean, limit, found)

            bench.inline(f"trace {name}", drawn)


def finished(name: str, bench: Bench) -> bool:
    """Whether nothing is left to measure for a problem."""
    keys = [f"{name} {C:g} {eps:g}" for C in decades(name, bench.quick) for eps in EPSILONS]
    return all(bench.path(key).exists() for key in [*keys, f"trace {name}"])


def forget(names: list[str], bench: Bench, known: Bench | None) -> None:
    """Delete the times of some problems, and their known optima if ``known`` is given."""
    for name in names:
        for C_mean in C_MEANS[name]:
            for eps in EPSILONS:
                bench.path(f"{name} {C_mean:g} {eps:g}").unlink(missing_ok=True)
            if known is not None:
                known.path(f"{name} {C_mean:g}").unlink(missing_ok=True)
        bench.path(f"trace {name}").unlink(missing_ok=True)


# -- tables ----------------------------------------------------------------------------------------


def row(name: str, C_mean: float, eps: float, c: Cell, known: Cell, best: float) -> Row:
    """One line of the table; ``ratio`` is theirs / ours, a bound if one side hit the limit."""
    ours, theirs, limit = c["ours"], c["theirs"], c["limit"]
    certified = not ours["late"] and ours["gap"] is not None and ours["gap"] <= eps
    at_limit = ours["stop"] in ("callback", "CPU limit") or ours["seconds"] > limit
    place = known["places"][f"{eps:g}"]
    search = known["search"]
    fits = search["fits"] + ([search["cut_short"]] if search["cut_short"] else [])
    if place is None:
        F_theirs = min((fit["F"] for fit in fits), default=None)
    else:
        F_theirs = next(fit["F"] for fit in search["fits"] if fit["tol"] == LADDER[place])
    ratio: str | float | None
    if certified and theirs is not None:
        ratio = theirs / ours["seconds"]
    elif certified:
        ratio = f"> {limit / ours['seconds']:.3g}"
    else:
        ratio = None if theirs is None else f"< {theirs / limit:.2g}"
    return {
        "set": name,
        "C_mean": f"{C_mean:.0e}",
        "eps": f"{eps:.0e}",
        "ours s": ours["seconds"] if certified else f"> {limit:.0f}" if at_limit else "stalled",
        "theirs s": theirs if theirs is not None else f"> {limit:.0f}",
        "ratio": ratio,
        "our certified gap": ours["gap"],
        "our methods": ours["methods"],
        "our precision": None if ours["F"] is None else max(0.0, ours["F"] / best - 1),
        "their precision": None if F_theirs is None else max(0.0, F_theirs / best - 1),
        "their tol": None if place is None else f"{LADDER[place]:g}",
        "repeats": f"{len(c['ours_all'])}/{len(c['theirs_all'])}",
    }


def rows_of(names: tuple[str, ...], bench: Bench, known: Bench) -> list[Row]:
    """The lines of the finished cells."""
    out = []
    for name in names:
        for C_mean in decades(name, bench.quick):
            k = known.get(f"{name} {C_mean:g}")
            cells = {eps: bench.get(f"{name} {C_mean:g} {eps:g}") for eps in EPSILONS}
            if k is None:
                continue
            F = [c["ours"]["F"] for c in cells.values() if c and c["ours"]["F"] is not None]
            out += [
                row(name, C_mean, eps, c, k, min(k["F_best"], *F)) for eps, c in cells.items() if c
            ]
    return out


def number(ratio: str | float) -> float:
    """The ratio, or its bound."""
    return float(ratio.lstrip("<> ")) if isinstance(ratio, str) else ratio


def speed(what: str, rows: list[Row], eps: float) -> Row:
    """A line of the summary: speed over the cells where LIBLINEAR reaches eps within the limit."""
    met = [r for r in rows if r["eps"] == f"{eps:.0e}" and not isinstance(r["theirs s"], str)]
    out: Row = {"over": f"{what}, {eps:.0e}, where theirs reaches it", "cells": len(met)}
    if not met:
        return {
            **out,
            "geometric mean of ratios": None,
            "worst": None,
            "slower": None,
            "> 1.5x slower": None,
        }
    ratios = np.array([number(r["ratio"]) for r in met])
    least = met[int(ratios.argmin())]
    return {
        **out,
        "geometric mean of ratios": float(np.exp(np.log(ratios).mean())),
        "worst": f"{ratios.min():.2g} ({least['set']}, {least['C_mean']})",
        "slower": int((ratios < 1).sum()),
        "> 1.5x slower": int((ratios < 1 / 1.5).sum()),
    }


def beyond(what: str, rows: list[Row], least: float) -> str:
    """How many cells are certified where LIBLINEAR is off by more than max(eps, ``least``)."""
    parts = []
    for eps in EPSILONS:
        failed = [
            r
            for r in rows
            if r["eps"] == f"{eps:.0e}"
            and isinstance(r["theirs s"], str)
            and (r["their precision"] is None or r["their precision"] > least)
        ]
        ours = [r for r in failed if not isinstance(r["ours s"], str)]
        missed = ", ".join(f"{r['set']} {r['C_mean']}" for r in failed if r not in ours)
        parts.append(
            f"{eps:.0e}: ours certifies {len(ours)} of {len(failed)}"
            + (f" (not: {missed})" if missed else "")
        )
    return f"- {what}: " + "; ".join(parts) + "."


def report(bench: Bench, known: Bench) -> None:
    """Tables and plot from the finished cells."""
    binary, several = rows_of(BINARY, bench, known), rows_of(SEVERAL, bench, known)
    if not binary + several:
        return
    limit = limit_of(bench)
    unseen = [r for r in binary if r["set"] in UNSEEN]
    summary = [
        speed(what, rows, eps)
        for what, rows in (
            ("two classes", binary),
            (f"of these {', '.join(UNSEEN)}, not looked at while tuning", unseen),
            ("several classes", several),
        )
        for eps in reversed(EPSILONS)
        if rows
    ]
    slower = sorted(
        (r for r in binary + several if r["ratio"] is not None and number(r["ratio"]) < 1),
        key=lambda r: number(r["ratio"]),
    )
    losses = "; ".join(
        f"{r['set']} {r['C_mean']} to {r['eps']}: {number(r['ratio']):.2g}"
        + (" at most" if isinstance(r["ratio"], str) else "")
        for r in slower
    )
    planned = sum(len(decades(s, bench.quick)) * len(EPSILONS) for s in BINARY + SEVERAL)
    notes = f"""
*ratio* is theirs / ours: above 1 ours is faster. If ours hits the limit and theirs does not, the cell counts
as theirs / {limit:.0f}, an upper bound on the ratio. {len(binary) + len(several)} of {planned} planned
cells were measured.

Where LIBLINEAR does not reach the precision within {limit:.0f} CPU seconds:

{beyond("two classes", binary, 0.0)}
{beyond("two classes, theirs more than 10 % off", binary, 0.1)}
{beyond("several classes", several, 0.0)}

**Cells where ours is slower ({len(slower)} of {len(binary) + len(several)})**: {losses or "none"}.

![objective against CPU time](linear.png)

*One panel per problem, at a middle C. Blue: our objective relative to the best known F; dashed: our lower
bound relative to it; if both are below a line, that precision is certified. Orange: LIBLINEAR, one fit per
dot, from tol 10 to 1e-4; a cross is a fit that hit the limit.*
"""
    reading = f"""
*ours s*, *theirs s*: CPU seconds, medians of *repeats* (ours/theirs) interleaved fits; fewer if one
takes more than {SLOW:.0f} s. *our certified gap* is the gap that the fit reports; *precision* is
F / F_best − 1, where F is recomputed by `maxmargin.testing` and F_best is the smallest F of any fit of the
cell, including ours at {FINE:.0e}. *their tol* is the loosest tolerance that reaches eps; tuning
time is not counted. Where theirs is “> {limit:.0f}”, *their precision* is its best within
the limit. Ratios between 0.67 and 1.5 are ties on a shared machine.

{chr(10).join(f"- **{s}**: {PROBLEMS[s]}" for s in BINARY + SEVERAL)}
"""
    bench.save(
        TITLE,
        [
            ("summary", "Summary", summary, notes),
            ("binary", "Two classes", binary, reading),
            ("multiclass", "Several classes (Crammer and Singer)", several, ""),
        ],
    )
    names = [s for s in BINARY + SEVERAL if bench.get(f"trace {s}")]
    plot({s: bench.get(f"trace {s}") or {} for s in names}, bench.folder / "linear.png")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linear", description=TITLE)
    parser.add_argument("--quick", action="store_true", help="small data, a smoke run")
    parser.add_argument("--only", help="problems, separated by commas; default: all")
    parser.add_argument("--forget-times", action="store_true", help="measure the times anew")
    parser.add_argument("--fresh", action="store_true", help="measure and search everything anew")
    parser.add_argument("--report", action="store_true", help="tables and plot only")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--key", help=argparse.SUPPRESS)
    options = parser.parse_args()
    bench = Bench("linear", quick=options.quick)
    known = Bench("linear-known", quick=options.quick)
    if options.cell is not None:
        try:
            spec = json.loads(options.cell)
            one_problem(spec["set"], bench, known, spec["fresh"])
        except DatasetMissing as missing:
            sys.exit(str(missing))
        return
    names = options.only.split(",") if options.only else list(QUICK if options.quick else C_MEANS)
    if unknown := set(names) - set(C_MEANS):
        parser.error(
            f"no such problem: {', '.join(sorted(unknown))}; there are {', '.join(C_MEANS)}"
        )
    if options.fresh or options.forget_times:
        forget(names, bench, known if options.fresh else None)
    for name in [] if options.report else names:
        if finished(name, bench):
            continue
        began = time.time()
        status = bench.start(name, {"set": name, "fresh": options.fresh}).wait()
        print(f"  [linear] {name}: {time.time() - began:.0f} s, status {status}", file=sys.stderr)
    report(bench, known)


if __name__ == "__main__":
    main()
