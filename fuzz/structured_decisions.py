"""Random problems for LinearObjective: SPO+ and distances over a few feasible points."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from tests.reference_optima.program import LONG as LD
from tests.reference_optima.structured import Example, Problem

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz.framework import Case, Finding, Outcome
from maxmargin import StructuredSVM
from maxmargin.tasks import LinearObjective

NAME = "LinearObjective"
NAMES = ("coef_", "objective_", "lower_bound_", "gap_", "converged_")


def draw(rng: np.random.Generator) -> Case:
    """A few examples with up to four variables and eight decisions."""
    tame = draws.maybe(rng, 0.5)
    n, m, d = int(rng.integers(1, 9)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    binary, shared = draws.maybe(rng, 0.7), draws.maybe(rng, 0.5)
    size = (int(rng.integers(1, 9)), m)
    points = rng.integers(0, 2, size).astype(float) if binary else draws.rows(rng, size, 1.0, True)
    factors = draws.columns(rng, d, tame)
    X = [draws.rows(rng, (d,) if shared else (m, d), factors, tame) for _ in range(n)]
    scale = draws.spread(rng, tame)
    costs = [scale * np.round(draws.rows(rng, (m,), 1.0, True), 3) for _ in range(n)]
    params: dict[str, Any] = {"C": draws.strength(rng, tame)}
    params |= draws.tolerance(rng, tame)
    if draws.maybe(rng, 0.2):
        params["oracle"] = "expensive"
    if draws.maybe(rng, 0.2):
        params["solver"] = "CuttingPlane()"
    data = {
        "tame": tame,
        "points": points,
        "function": binary and draws.maybe(rng, 0.4),
        "sense": str(rng.choice(["minimize", "maximize"])),
        "decisions": draws.maybe(rng, 0.3),
        "X": X,
        "costs": costs,
        "sample_weight": draws.weights(rng, n),
        "params": params,
        "more": str(rng.choice(["", "n_jobs", "saved"], p=[0.7, 0.15, 0.15])),
    }
    kind = f"{'function' if data['function'] else 'points'} {'tame' if tame else 'wild'}"
    return Case(NAME, kind, 0, data)


def _given(case: Case) -> tuple[LinearObjective, Any]:
    data = case.data
    points = data["points"]

    def argmin(costs: Any) -> Any:
        return points[np.argmin(points @ costs)]

    task = LinearObjective(argmin if data["function"] else points, sense=data["sense"])
    Y: list[Any] = list(task.labels(data["X"], data["costs"]))
    return task, [y.decision for y in Y] if data["decisions"] else Y


def _fit(case: Case, task: LinearObjective, Y: Any, **changes: Any) -> StructuredSVM:
    X, weight = case.data["X"], case.data["sample_weight"]
    return StructuredSVM(task, **checks.params(case, **changes)).fit(X, Y, sample_weight=weight)


def _problem(case: Case) -> tuple[Problem, list[Any]]:
    data = case.data
    sign = 1 if data["sense"] == "minimize" else -1
    points, examples, psis = data["points"].astype(LD), [], []
    for x, c in zip(data["X"], data["costs"], strict=True):
        if x.ndim == 1:
            psi = np.array([np.outer(y, x.astype(LD)).ravel() for y in points])
        else:
            psi = points @ x.astype(LD)
        psi = -2 * sign * psi
        truth = int(np.argmin(data["points"] @ (sign * c)))
        change = points - points[truth]
        if data["decisions"]:
            losses = np.abs(change).sum(axis=1)
        else:
            losses = np.maximum(change @ (sign * c.astype(LD)), 0)
        examples.append(Example.of(psi, truth, losses))
        psis.append(psi)
    s = np.array(data["sample_weight"] or [1.0] * len(examples), dtype=LD)
    return Problem(examples, LD(data["params"]["C"]) * s), psis


def run(case: Case) -> Outcome:
    """Fit and check."""
    task, Y = _given(case)
    return checks.attempt(case, lambda: _fit(case, task, Y), lambda fit: _check(case, fit, task, Y))


def _check(case: Case, fit: checks.Fit, task: LinearObjective, Y: Any) -> list[Finding]:
    data, model = case.data, fit.model
    problem, psis = _problem(case)
    demanding = data["tame"] and "solver" not in data["params"]
    tol = data["params"].get("tol", 5e-2)
    found = checks.certificate(fit, problem, model.coef_, tol, demanding=demanding)
    if np.isfinite(model.coef_).all():
        for i, y in enumerate(model.predict(data["X"])):
            scores, noise = checks.scores_of(psis[i], model.coef_)
            chosen = int(np.flatnonzero((data["points"] == y).all(axis=1))[0])
            found += checks.argmax(scores, chosen, noise, f"example {i}")
    again = partial(_fit, case, task, Y)
    return found + checks.repeated(case, model, again, NAMES, task=model.task_)


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    data = case.data
    argmin = "lambda c: points[np.argmin(points @ c)]"
    return draws.code(
        "from maxmargin.tasks import LinearObjective",
        f"points = {draws.text(data['points'])}",
        f"X = {draws.text(data['X'])}",
        f"task = LinearObjective({argmin if data['function'] else 'points'}, sense={data['sense']!r})",
        f"Y = task.labels(X, {draws.text(data['costs'])})",
        "Y = [y.decision for y in Y]" if data["decisions"] else "",
        f"m = StructuredSVM(task, {draws.keywords(data['params'])})",
        f"m.fit(X, Y, sample_weight={data['sample_weight']})",
        "print(m.objective_, m.lower_bound_, m.stop_reason_, m.coef_)",
    )


def smaller(case: Case) -> Iterator[Case]:
    """Fewer examples, parameters, points and numbers."""
    yield from draws.fewer_examples(case, ("X", "costs", "sample_weight"))
    yield from draws.fewer_options(case, keep=("C",))
    points = case.data["points"]
    for k in range(len(points) if len(points) > 1 else 0):
        yield case.with_data(points=np.delete(points, k, axis=0))
    yield from draws.simpler_numbers(case)
