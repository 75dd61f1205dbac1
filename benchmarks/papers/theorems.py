"""Theorems 5 and 6 of Joachims, Finley and Yu: bounds on the iterations of 1-slack, beside those needed.

With the risk on the mean, R^2 the largest squared distance of two joint features of an example, and Delta the
largest loss, the iterations to epsilon are at most

    ceil(log2(Delta / (4 R^2 C))) + ceil(16 R^2 C / epsilon)                margin rescaling (theorem 5)
    ceil(log2(1 / (4 R^2 Delta C))) + ceil(16 R^2 Delta^2 C / epsilon)      slack rescaling (theorem 6)
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, cpu

# ruff: isort: split
import functools
import math
from typing import Any

import numpy as np

from benchmarks.papers import jfy, structured
from benchmarks.papers.record import Figures, Judgment, Row, column, judged, pick, words
from benchmarks.papers.structured import LIMIT, TASKS
from benchmarks.problems import Watch

#: losses of the problem with slack rescaling: 2 between spruce or lodgepole pine and another tree, else 1
COMMON, LARGEST = (0, 1), 2.0


def squared_distance(X: Any) -> float:
    """R^2 for features in the block of a class."""
    return 2.0 * float(X.multiply(X).sum(axis=1).max())


def margin(bench: Bench) -> Figures:
    """Theorem 5: the fits of Table 1."""
    out = []
    for c in pick(structured.sweep("multiclass", bench), method="1-slack"):
        R2 = squared_distance(structured.multiclass(c["n"]).X)
        C, eps = c["C_mean"], c["epsilon"]
        theorem = max(0, math.ceil(math.log2(1.0 / (4 * R2 * C)))) + math.ceil(16 * R2 * C / eps)
        out.append({"n": c["n"], "R^2": R2, "bound": theorem, "iterations": c["iterations"]})
    return out


def costs(y: Any, n_classes: int) -> Any:
    """The loss of every class for every row, stacked."""
    classes = np.arange(n_classes)
    apart = np.isin(y, COMMON)[:, None] != np.isin(classes, COMMON)[None, :]
    return ((y[:, None] != classes[None, :]) * np.where(apart, LARGEST, 1.0)).ravel()


def fit_slack(n: int, C: float, epsilon: float) -> Cell:
    """1-slack with slack rescaling."""
    from maxmargin import minimize
    from maxmargin.losses import CandidateHinge
    from maxmargin.risks import ScoreRisk
    from maxmargin.solvers import CuttingPlane, RiskEpsilon

    data = structured.multiclass(n)
    counts = np.full(n, data.K)
    labels = CandidateHinge.labels(counts, data.y, costs(np.asarray(data.y), data.K))
    risk = ScoreRisk(structured.candidates(data), labels, CandidateHinge("slack"))
    watch, how = Watch(LIMIT), CuttingPlane(line_search=False, mu=1.0)
    watch.began = began = cpu()
    rule = RiskEpsilon(n * epsilon)
    result = minimize(risk, C / n, solver=how, stopping=rule, callbacks=[watch])
    return {
        "iterations": result.n_iter,
        "seconds": cpu() - began,
        "finished": result.converged,
        "R^2": squared_distance(data.X),
    }


def slack(bench: Bench) -> Figures:
    """Theorem 6: slack rescaling at the same C and epsilon."""
    setting = TASKS["multiclass"]
    C, eps = setting.C_mean, setting.epsilon
    out = []
    for n in setting.quick if bench.quick else setting.sizes[:3]:
        c = bench.inline(f"slack rescaling {n}", functools.partial(fit_slack, n, C, eps))
        R2 = c["R^2"]
        first = max(0, math.ceil(math.log2(1.0 / (4 * R2 * LARGEST * C))))
        theorem = first + math.ceil(16 * R2 * LARGEST**2 * C / eps)
        line = {"n": n, "R^2": R2, "bound": theorem, "iterations": c["iterations"]}
        out.append({**line, "finished": c["finished"]})
    return out


def judge(figures: Figures) -> Judgment:
    """Every count is below its bound."""
    ratio = min(f["bound"] / f["iterations"] for f in figures)
    figure = f"{words(column(figures, 'iterations'))} iterations; bound at least {ratio:.2g} times as large"
    cut = [f for f in figures if not f.get("finished", True)]
    if cut:
        figure += f"; {len(cut)} of {len(figures)} fits were cut off"
    good = ratio >= 1.0 and not cut
    why = (
        "The bound is true and far from tight on these data."
        if good
        else "The bound is violated, or a fit was cut off."
    )
    return judged(good, figure, why, f"{max(f['n'] for f in figures):,}")


def rows() -> list[Row]:
    """Both theorems."""
    setting = TASKS["multiclass"]
    costly = (
        f"covertype, 7 classes, n = {words(setting.sizes[:3], ',')}, C on the mean {setting.C_mean:g}, "
        f"epsilon {setting.epsilon:g}; slack rescaling, losses 1, and 2 between classes 1 or 2 and the others"
    )
    return [
        Row("jfy-theorem-5", margin, judge, jfy.settings("multiclass")),
        Row("jfy-theorem-6", slack, judge, costly),
    ]
