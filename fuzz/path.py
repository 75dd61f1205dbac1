"""svc_path: every fit of a path is certified like a single fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz import linear, svc, wild
from fuzz.checks import attributes, check_program, check_warnings, watched
from fuzz.framework import Case, Finding, Outcome
from maxmargin import svc_path

NAME = "svc_path"


def draw(rng: np.random.Generator) -> Case:
    """A classification problem as for LinearSVC, with up to five values of C."""
    case = svc.draw(rng)
    data = {**case.data, "also": ""}
    params = {k: v for k, v in data["params"].items() if k != "C"}
    decades = (-4, 6) if data["tame"] else (-10, 10)
    data["Cs"] = [wild.power(rng, *decades) for _ in range(int(rng.integers(1, 6)))]
    data["params"] = params
    return replace(case, family=NAME, data=data)


def run(case: Case) -> Outcome:
    """Fit and check."""
    data = case.data
    X, y = wild.given(data["X"], data["stored"]), data["y"]
    with watched() as caught:
        try:
            params = linear.arguments(case)
            path = svc_path(X, y, data["Cs"], sample_weight=data["sample_weight"], **params)
        except (ValueError, TypeError) as error:
            return linear.refused(case, error)
    found: list[Finding] = []
    in_time = all(fitted.stop_reason_ != "max_seconds" for fitted in path)
    if in_time and sorted(fitted.C for fitted in path) != sorted(data["Cs"]):
        found.append(Finding("path", f"{len(path)} fits for {len(data['Cs'])} values of C"))
    for fitted in path:
        own = case.with_data(params={**data["params"], "C": fitted.C})
        certificate = attributes(fitted)
        program, z = svc.program_of(own, fitted)
        tol = data["params"].get("tol", 1e-3)
        found += check_program(
            certificate, program, z, tol, tame=data["tame"], rescaled=linear.rescaled(case)
        )
        found += linear.certified(case, certificate, program, z)
    done = all(fitted.converged_ for fitted in path)
    certificate = {"converged": done, "gap": max(f.gap_ for f in path), "stop_reason": "path"}
    warned = [w for w in caught if not issubclass(w.category, RuntimeWarning)]
    wrong = check_warnings(certificate, caught if done else caught[:0], silent=True)
    if not done and not warned:
        wrong.append(
            Finding("warning", "fits of the path did not converge, and no warning said so")
        )
    return Outcome("certified" if done else "warned", found + wrong)


def reproduce(case: Case) -> str:
    """Python code that reproduces the path."""
    prior = ", GaussianPrior" if "prior" in case.data["params"] else ""
    out = wild.lines(case, f"from maxmargin import svc_path{prior}")
    weight: Any = case.data["sample_weight"]
    more = "" if weight is None else f"sample_weight={wild.written(weight)}, "
    out.append(
        f"path = svc_path(X, y, {case.data['Cs']}, {more}{wild.parameters(case.data['params'])})"
    )
    out.append("for m in path:")
    out.append("    print(m.C, m.lower_bound_, m.objective_, m.gap_, m.converged_, m.stop_reason_)")
    return "\n".join(out)


def smaller(case: Case) -> Iterator[Case]:
    """Fewer values of C, then simpler problems."""
    Cs = case.data["Cs"]
    for k in range(len(Cs) if len(Cs) > 1 else 0):
        yield case.with_data(Cs=Cs[:k] + Cs[k + 1 :])
    yield from svc.smaller(case)
