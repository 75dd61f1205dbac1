"""Formulas of the papers that are wrong as printed, each with a small run of both forms.

Ramanan (2013), with h the squared distance, g the gradient of the dual, and alpha the dual variables:

- section 5 clips the stored weights, ``w = max(w, 0)``, after a step. The right form keeps
  ``u = sum alpha x`` and clips a copy: otherwise a later step starts from weights that alpha does not have;
- (12) clips a step of alpha_ij at ``-alpha_i``, the sum over j; the right limit is ``-alpha_ij``;
- (15) has ``max`` in the lower limit of a step for a pair, and g / h where the difference of both belongs;
- algorithm 2 updates its cache by an intersection, ``A := A and (ij)``, which stays empty; it is a union.

Franc and Sonnenburg (2009): by (21) a new cutting plane is violated, times C, by at least
``epsilon + C / 2 |w_c - w|^2``. The proof gives ``epsilon + 1 / 2 |w_c - w|^2``.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell

# ruff: isort: split
import functools
import itertools
from typing import Any

import numpy as np

from benchmarks.papers.ram import load
from benchmarks.papers.record import Figures, Judgment, Row, pick

EPOCHS = 30
#: rows of the set
ROWS = 1000


def signed(rows: int, printed: bool) -> Cell:
    """Coordinate ascent with nonnegative weights on a9a, the sum of C over the rows 1,000."""
    problem = load("a9a", rows)
    X, y = problem.X.toarray(), np.sign(np.asarray(problem.y, dtype=float))
    C, norms = 1000.0 / len(y), np.einsum("ij,ij->i", X, X)
    alpha, u = np.zeros(len(y)), np.zeros(X.shape[1])
    rng, best = np.random.default_rng(0), np.inf
    for _ in range(EPOCHS):
        for i in rng.permutation(len(y)):
            w = np.maximum(u, 0.0)
            new = np.clip(alpha[i] + (1.0 - y[i] * (X[i] @ w)) / norms[i], 0.0, C)
            u += (new - alpha[i]) * y[i] * X[i]
            alpha[i] = new
            if printed:
                u = np.maximum(u, 0.0)
        w = np.maximum(u, 0.0)
        F = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - y * (X @ w)).sum()
        best = min(best, float(F))
    exact = np.maximum((alpha * y) @ X, 0.0)  # the dual point that alpha is
    return {"F": best, "lower bound": float(alpha.sum() - 0.5 * exact @ exact)}


def classes(rows: int, form: str) -> Cell:
    """Three constraints for every example (each wrong class of four), by single steps and steps of pairs."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=rows)
    X = rng.normal(size=(rows, 5)) + rng.normal(size=(4, 5))[y]
    planes: Any = np.zeros((rows, 3, 4, 5))
    for i in range(rows):
        for j, wrong in enumerate(np.delete(np.arange(4), y[i])):
            planes[i, j, y[i]], planes[i, j, wrong] = X[i], -X[i]
    planes = planes.reshape(rows, 3, 20)
    C = 10.0 / rows
    alpha, w = np.zeros((rows, 3)), np.zeros(20)

    def move(i: int, j: int, step: float) -> None:
        nonlocal w
        alpha[i, j] += step
        w = w + step * planes[i, j]

    for _ in range(EPOCHS):
        for i, j in itertools.product(rng.permutation(rows), range(3)):
            g = 1.0 - planes[i] @ w
            room = C - alpha[i].sum()
            low = -alpha[i].sum() if form == "(12) as printed" else -alpha[i, j]
            move(i, j, float(np.clip(g[j] / (planes[i, j] @ planes[i, j]), low, room)))
            for k in range(3):
                if k == j or alpha[i].sum() < C - 1e-12:
                    continue
                g = 1.0 - planes[i] @ w
                apart = planes[i, j] - planes[i, k]
                if form == "(15) as printed":
                    step = g[j] / (planes[i, j] @ planes[i, j])
                    low = max(-alpha[i, j], alpha[i, k] - C)
                else:
                    step, low = (g[j] - g[k]) / (apart @ apart), -alpha[i, j]
                step = float(np.clip(step, low, alpha[i, k]))
                move(i, j, step)
                move(i, k, -step)
    w = np.einsum("ij,ijk->k", alpha, planes)
    F = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - (planes @ w).min(axis=1)).sum()
    return {"F": float(F), "lower bound": float(alpha.sum() - 0.5 * w @ w)}


def cached(rows: int, union: bool) -> Cell:
    """Algorithm 2: a stream, and optimization over its cache."""
    problem = load("a9a", rows)
    X, y = problem.X.toarray(), np.sign(np.asarray(problem.y, dtype=float))
    C, alpha, w = 1000.0 / len(y), np.zeros(len(y)), np.zeros(X.shape[1])
    cache: set[int] = set()
    for start in range(0, len(y), 100):
        for i in range(start, min(start + 100, len(y))):
            if y[i] * (X[i] @ w) < 1.0:
                cache = cache | {i} if union else cache & {i}
        for _ in range(5):
            for i in sorted(cache):
                new = np.clip(alpha[i] + (1.0 - y[i] * (X[i] @ w)) / (X[i] @ X[i]), 0.0, C)
                w += (new - alpha[i]) * y[i] * X[i]
                alpha[i] = new
    F = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - y * (X @ w)).sum()
    return {"F": float(F), "lower bound": float(alpha.sum() - 0.5 * w @ w)}


def ramanan(bench: Bench) -> Figures:
    """Every formula as printed and as it should be."""
    rows = 200 if bench.quick else ROWS
    work: dict[tuple[str, str], Any] = {
        ("section 5", "printed"): functools.partial(signed, rows, True),
        ("section 5", "right"): functools.partial(signed, rows, False),
        ("(12)", "printed"): functools.partial(classes, rows // 5, "(12) as printed"),
        ("(12)", "right"): functools.partial(classes, rows // 5, ""),
        ("(15)", "printed"): functools.partial(classes, rows // 5, "(15) as printed"),
        ("(15)", "right"): functools.partial(classes, rows // 5, ""),
        ("algorithm 2", "printed"): functools.partial(cached, rows, False),
        ("algorithm 2", "right"): functools.partial(cached, rows, True),
    }
    out: Figures = []
    for (formula, form), one in work.items():
        c = bench.inline(f"erratum {formula} {form} {rows}", one)
        out.append({"formula": formula, "form": form, "F": c["F"], "lower bound": c["lower bound"]})
    return out


def judge_ramanan(figures: Figures) -> Judgment:
    """Only the right forms end with an F near their lower bound, and with a bound that is one."""
    texts, good = [], True
    for formula in dict.fromkeys(f["formula"] for f in figures):
        lines = {f["form"]: f for f in pick(figures, formula=formula)}
        right, printed = lines["right"], lines["printed"]
        best = min(right["F"], printed["F"])
        above = printed["F"] / best - 1.0
        false = printed["lower bound"] > best * (1 + 1e-9)
        good &= right["F"] <= best * (1 + 1e-9) and (above > 0.01 or false)
        texts.append(f"{formula}: F = {printed['F']:.5g} as printed, {right['F']:.5g} corrected")
        texts[-1] += (
            f"; the printed lower bound {printed['lower bound']:.5g} is false" if false else ""
        )
    why = "Each printed form misses the optimum or proves a false bound; the library has the corrected ones."
    if not good:
        why = "A printed form does as well as the corrected one on these data."
    size = f"{ROWS:,}"
    return Judgment("holds" if good else "differs", "; ".join(texts), why, size)


def planes(rows: int) -> Cell:
    """Violations of new cutting planes in a run of OCA's formulas, beside both right sides of (21)."""
    from scipy.optimize import minimize as solve

    problem = load("a9a", rows)
    X, y = problem.X.toarray(), np.sign(np.asarray(problem.y, dtype=float))
    C = 100.0  # on the mean

    def risk(w: Any) -> tuple[float, Any]:
        margin = 1.0 - y * (X @ w)
        on = margin > 0.0
        return float(margin[on].sum() / len(y)), -(y[on] @ X[on]) / len(y)

    def F(w: Any) -> float:
        return float(0.5 * w @ w + C * risk(w)[0])

    value, a = risk(np.zeros(X.shape[1]))
    A, b = [a], [value]
    best = np.zeros(X.shape[1])
    broken = violations = 0
    worst = np.inf
    for _ in range(25):
        # the reduced problem: min 1/2 |w|^2 + C max(0, A w + b), by its dual over the simplex
        G, beta = np.array(A) @ np.array(A).T, np.array(b)
        found = solve(
            lambda v, G=G, beta=beta: (0.5 * C * v @ G @ v - v @ beta, C * G @ v - beta),
            np.full(len(b), 1.0 / len(b)), jac=True, method="SLSQP",
            bounds=[(0, 1)] * len(b), constraints={"type": "ineq", "fun": lambda v: 1 - v.sum()},
            options={"maxiter": 500, "ftol": 1e-12},
        )  # fmt: skip
        w = -C * found.x @ np.array(A)
        xi = max(0.0, float((np.array(A) @ w + beta).max()))
        steps = np.linspace(0.0, 1.0, 1001)
        best = min((best + k * (w - best) for k in steps), key=F)
        eps = F(best) - float(0.5 * w @ w + C * xi)
        if eps < 1e-3 * F(best):
            break
        at = best * 0.9 + w * 0.1
        value, a = risk(at)
        offset = value - float(a @ at)
        left = C * (offset + float(w @ a) - xi)
        apart = float((at - w) @ (at - w))
        violations += 1
        broken += left < eps + 0.5 * C * apart
        worst = min(worst, left - eps - 0.5 * apart)
        A.append(a)
        b.append(offset)
    return {"planes": violations, "broken": broken, "least": worst}


def franc(bench: Bench) -> Figures:
    """Planes that violate the reduced problem by less than (21) says."""
    rows = 200 if bench.quick else ROWS
    c = bench.inline(f"erratum oca 21 {rows}", functools.partial(planes, rows))
    return [{k: c[k] for k in ("planes", "broken", "least")}]


def judge_franc(figures: Figures) -> Judgment:
    """Some planes break the printed form, and none the other."""
    f = figures[0]
    figure = (
        f"{f['broken']} of {f['planes']} planes break the printed form at C = 100; with 1 / 2 in place of "
        f"C / 2 the least difference is {f['least']:.3g}"
    )
    good = f["broken"] > 0 and f["least"] >= -1e-6
    why = (
        "The theorem itself is not touched: it uses the first term only."
        if good
        else "No plane does."
    )
    return Judgment("holds" if good else "differs", figure, why, f"{ROWS:,}")


def rows() -> list[Row]:
    """The errata of two papers."""
    data = f"a9a, {ROWS:,} rows; and {ROWS // 5:,} generated rows of four classes; {EPOCHS} epochs"
    return [
        Row("oca-errata", franc, judge_franc, f"a9a, {ROWS:,} rows, C on the mean 100, mu 0.1"),
        Row("ram-errata", ramanan, judge_ramanan, data),
    ]
