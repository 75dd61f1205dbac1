"""Random problems for LatentStructuredSVM: its objective, and that no convex step decreases it by much."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from tests.latent_tasks import Rows, WrongRows
from tests.reference_optima.program import EPS
from tests.reference_optima.program import LONG as LD
from tests.reference_optima.structured import Example, Problem, referee

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz.framework import Case, Finding, Outcome
from maxmargin import LatentStructuredSVM

NAME = "LatentStructuredSVM"
NAMES = ("coef_", "objective_")


def draw(rng: np.random.Generator) -> Case:
    """A few bags of rows."""
    tame = draws.maybe(rng, 0.5)
    n, d, K = int(rng.integers(1, 11)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
    factors = draws.columns(rng, d, tame)
    X = [draws.rows(rng, (int(rng.integers(1, 5)), d), factors, tame) for _ in range(n)]
    params: dict[str, Any] = {"C": draws.strength(rng, tame)}
    params |= draws.tolerance(rng, tame)
    task = str(rng.choice(["Rows", "WrongRows"]))
    data = {
        "tame": tame,
        "task": task,
        "K": K,
        "spread": float(rng.choice([0.0, 0.5])),
        "X": X,
        "y": [int(v) for v in rng.integers(0, K, n)],
        "sample_weight": draws.weights(rng, n),
        "params": params,
        "more": "n_jobs" if draws.maybe(rng, 0.15) else "",
    }
    return Case(NAME, f"{task} {'tame' if tame else 'wild'}", 0, data)


def _task(case: Case) -> Any:
    kind = WrongRows if case.data["task"] == "WrongRows" else Rows
    return kind(case.data["K"], case.data["spread"])


def _psi(case: Case, x: Any, y: int, h: int) -> Any:
    out = np.zeros((case.data["K"], x.shape[1]), dtype=LD)
    out[y] = x[h]
    return out.ravel()


def _caps(case: Case) -> Any:
    n = len(case.data["X"])
    s = np.array(case.data["sample_weight"] or [1.0] * n, dtype=LD)
    return LD(case.data["params"]["C"]) * s


def _pairs(case: Case, x: Any, y: int) -> tuple[Any, Any]:
    """Joint features and losses of all pairs of class and row."""
    K, spread = case.data["K"], LD(case.data["spread"])
    both = [(k, h) for k in range(K) for h in range(len(x))]
    psi = np.array([_psi(case, x, k, h) for k, h in both])
    losses = np.array([LD(k != y) * (1 + spread * h) for k, h in both], dtype=LD)
    return psi, losses


def _objective(case: Case, w: Any) -> tuple[Any, float]:
    """F, and a bound on the error of double precision."""
    w = np.asarray(w, dtype=LD)
    total, size = (w @ w) / 2, float(w @ w)
    for cap, x, y in zip(_caps(case), case.data["X"], case.data["y"], strict=True):
        psi, losses = _pairs(case, x, y)
        own = max(_psi(case, x, y, h) @ w for h in range(len(x)))
        total += cap * ((losses + psi @ w).max() - own)
        size += float(cap * (losses.max() + 2 * (np.abs(psi) @ np.abs(w)).max()))
    return total, size


def _convex(case: Case, latent: Any) -> Problem:
    """The convex problem with these completions."""
    examples = []
    for x, y, h in zip(case.data["X"], case.data["y"], latent, strict=True):
        psi, losses = _pairs(case, x, y)
        own = _psi(case, x, y, h)
        if case.data["task"] == "WrongRows":  # other classes, or the completed output itself
            keep = losses > 0
            psi, losses = psi[keep], losses[keep]
        psi, losses = np.vstack([own, psi]), np.concatenate([[LD(0)], losses])
        examples.append(Example.of(psi, 0, losses))
    return Problem(examples, _caps(case))


def _fit(case: Case, **changes: Any) -> LatentStructuredSVM:
    X, y, weight = case.data["X"], case.data["y"], case.data["sample_weight"]
    model = LatentStructuredSVM(_task(case), **checks.params(case, **changes))
    return model.fit(X, y, sample_weight=weight)


def run(case: Case) -> Outcome:
    """Fit and check."""
    return checks.attempt(case, lambda: _fit(case), lambda fit: _check(case, fit))


def _check(case: Case, fit: checks.Fit) -> list[Finding]:
    model, w = fit.model, fit.model.coef_
    if not np.isfinite(w).all() or not np.isfinite(model.objective_):
        return [
            Finding("nan", f"objective_ {model.objective_}, weights finite: {np.isfinite(w).all()}")
        ]
    F, size = _objective(case, w)
    noise = 64.0 * EPS * size * np.sqrt(len(w) + 16.0)
    found = []
    if float(LD(model.objective_) - F) < -1e-9 * abs(float(F)) - noise:
        found.append(Finding("objective", f"objective_ {model.objective_!r}, F(w) = {float(F)!r}"))
    claims = (model.lower_bound_, model.gap_, model.converged_, model.certificate_)
    if claims != (-np.inf, np.inf, False, "local"):
        found.append(Finding("claims", f"{claims}"))
    for i, (x, y, h) in enumerate(zip(case.data["X"], case.data["y"], model.latent_, strict=True)):
        psi = np.array([_psi(case, x, y, r) for r in range(len(x))])
        scores, lost = checks.scores_of(psi, w)
        found += checks.argmax(scores, h, lost, f"completion of example {i}")
    values = [record["objective"] for record in model.history_]
    if any(b > a * (1 + 1e-9) + noise for a, b in pairwise(values)):
        found.append(Finding("rises", f"the objective rises from step to step: {values}"))
    tol = case.data["params"].get("tol", 1e-2)
    if model.stop_reason_ == "cccp":
        problem = _convex(case, model.latent_)
        _, value = referee(problem, w)
        if float(value) < float(F) * (1 - tol * (1 + 1e-6)) - 1e-9 * float(F) - noise:
            share = 1 - float(value) / float(F)
            found.append(Finding("step", f"a convex step lowers F by {share:.3g}, tol {tol:g}"))
    elif case.data["tame"]:
        found.append(
            Finding(checks.unproved(model), f"{model.stop_reason_} after {model.n_iter_} steps")
        )
    return found + checks.repeated(case, model, partial(_fit, case), NAMES)


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    data = case.data
    return draws.code(
        "from maxmargin.tasks import LatentTask",
        inspect.getsource(Rows),
        inspect.getsource(WrongRows),
        f"X = {draws.text(data['X'])}",
        f"y = {data['y']}",
        f"m = LatentStructuredSVM({data['task']}({data['K']}, {data['spread']}), "
        f"{draws.keywords(data['params'])})",
        f"m.fit(X, y, sample_weight={data['sample_weight']})",
        "print(m.objective_, m.stop_reason_, m.latent_, m.coef_)",
    )


def smaller(case: Case) -> Iterator[Case]:
    """Fewer bags, parameters and numbers."""
    yield from draws.fewer_examples(case, ("X", "y", "sample_weight"))
    yield from draws.fewer_options(case, keep=("C",))
    yield from draws.simpler_numbers(case)
