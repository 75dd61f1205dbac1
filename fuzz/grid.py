"""LinearSVCCV: the bounds of every grid point, and the fit of the best one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from tests.reference_optima.attained import best_point

from fuzz import linear, svc, wild
from fuzz.checks import (
    attributes,
    check_arithmetic,
    check_bound,
    check_program,
    excuse,
    watched,
)
from fuzz.framework import Case, Finding, Outcome
from maxmargin import LinearSVCCV

NAME = "LinearSVCCV"
TAKEN = ("tol", "loss", "multi_class", "fit_intercept", "intercept_scaling", "penalize_intercept")


def draw(rng: np.random.Generator) -> Case:
    """A classification problem as for LinearSVC, with values of C and folds."""
    case = svc.draw(rng)
    while "cost" in case.kind:
        case = svc.draw(rng)
    data = {**case.data, "also": ""}
    n = len(data["y"])
    params = {k: v for k, v in data["params"].items() if k in TAKEN}
    decades = (-4, 6) if data["tame"] else (-8, 8)
    params["Cs"] = [wild.power(rng, *decades) for _ in range(int(rng.integers(1, 4)))]
    if not data["tame"] and wild.chance(rng, 0.5):
        wild.pick(rng, 0, 1)  # formerly a parameter: keeps the problems of known seeds
        params["max_iter"] = 300
    if not data["tame"] and params.get("loss") == "logistic":
        params["max_iter"] = 100  # cells have no time limit, and each step of a hard one is slow
    fold = rng.integers(0, 2, n)
    data |= {"params": params, "fold": fold, "sample_weight": None}
    loss = params.get("multi_class", params.get("loss", "squared_hinge"))
    return replace(case, family=NAME, kind=f"{loss}{'/tame' if data['tame'] else ''}", data=data)


def splits(case: Case) -> list[Any]:
    """Training and test samples of the folds with all classes on both sides."""
    y, fold = np.asarray(case.data["y"]), case.data["fold"]
    out = []
    for k in (0, 1):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(test) and len(np.unique(y[train])) == len(np.unique(y)):
            out.append((train, test))
    return out


def run(case: Case) -> Outcome:
    """Search and check."""
    data, cv = case.data, splits(case)
    if not cv or len(np.unique(data["y"])) < 2:
        return Outcome("refused")
    X, y = wild.given(data["X"], data["stored"]), data["y"]
    with watched():
        try:
            search = LinearSVCCV(cv=cv, **data["params"]).fit(X, y)
        except (ValueError, TypeError) as error:
            return linear.refused(case, error)
    found: list[Finding] = []
    tol = data["params"].get("tol", 1e-3)
    plain = {k: v for k, v in data["params"].items() if k in TAKEN}
    results, done = search.cv_results_, True
    for number, (train, _) in enumerate(cv):
        for cell, setting in enumerate(results["params"]):
            names = ("objective", "lower_bound", "gap", "converged")
            certificate = {name: results[f"split{number}_{name}"][cell] for name in names}
            certificate["stop_reason"] = "grid"
            done = done and bool(certificate["converged"])
            found += check_arithmetic(certificate, tol)
            part = {k: v[train] for k, v in data.items() if k in wild.BY_ROW and v is not None}
            own = case.with_data(**part, params={**plain, "C": setting["C"]})
            program, z = svc.program_of(own, search.best_estimator_)
            _, attained, error = best_point(program, [z])
            error += excuse(data["tame"], program, attained)
            found += check_bound(float(certificate["lower_bound"]), attained, error)
            found += linear.certified(case, certificate, program, z)
    best = search.best_estimator_
    own = case.with_data(params={**plain, "C": search.best_params_["C"]})
    program, z = svc.program_of(own, best)
    found += check_program(
        attributes(best), program, z, tol, tame=data["tame"], rescaled=linear.rescaled(case)
    )
    return Outcome("certified" if done and best.converged_ else "warned", found)


def reproduce(case: Case) -> str:
    """Python code that reproduces the search."""
    out = wild.lines(case, "from maxmargin import LinearSVCCV")
    cv = [(train.tolist(), test.tolist()) for train, test in splits(case)]
    out.append(f"m = LinearSVCCV(cv={cv}, {wild.parameters(case.data['params'])}).fit(X, y)")
    out.append(
        "print({k: v for k, v in m.cv_results_.items() if 'bound' in k or 'objective' in k})"
    )
    return "\n".join(out)


def smaller(case: Case) -> Iterator[Case]:
    """Fewer values of C, then simpler problems."""
    Cs = case.data["params"]["Cs"]
    for k in range(len(Cs) if len(Cs) > 1 else 0):
        yield case.with_data(params={**case.data["params"], "Cs": Cs[:k] + Cs[k + 1 :]})
    for candidate in svc.smaller(case):
        if "Cs" in candidate.data["params"]:
            yield candidate
