"""partial_fit and verify: after every batch, a lower bound over all samples seen so far."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.reference_optima.attained import best_point
from tests.reference_optima.program import LONG

import maxmargin
from fuzz import linear, svc, svr, wild
from fuzz.checks import (
    attributes,
    check_arithmetic,
    check_bound,
    check_program,
    check_warnings,
    excuse,
    watched,
)
from fuzz.framework import Case, Finding, Outcome
from maxmargin import LinearSVC, LinearSVR

NAME = "partial_fit"
#: parameters that partial_fit does not support
NOT_HERE = (
    "penalize_intercept",
    "prior",
    "fixed",
    "nonnegative",
    "nonpositive",
    "solver",
    "max_iter",
)


def draw(rng: np.random.Generator) -> Case:
    """Samples in batches, some of which are repeated."""
    regression = wild.chance(rng, 0.35)
    case = (svr if regression else svc).draw(rng)
    while case.data["params"].get("loss") == "logistic":  # it has no partial_fit
        case = svc.draw(rng)
    data = {
        **case.data,
        "sample_epsilon": None,
        "regression": regression,
        "tame": False,
    }
    params = {k: v for k, v in data["params"].items() if k not in NOT_HERE}
    if params.get("class_weight") == "balanced":
        del params["class_weight"]
    params["max_support"] = int(wild.pick(rng, 1, 3, 10, 1000))
    n = len(data["y"])
    data["batches"] = int(rng.integers(1, min(n, 5) + 1))
    data |= {"params": params, "also": wild.pick(rng, "", "", "file")}
    variant = case.kind.split("/")[0].split("+")[0]
    return replace(case, family=NAME, kind=f"{'SVR' if regression else 'SVC'} {variant}", data=data)


def run(case: Case) -> Outcome:
    """Learn batch by batch and check."""
    data = case.data
    y, s = np.asarray(data["y"]), data["sample_weight"]
    fitted: Any = (LinearSVR if data["regression"] else LinearSVC)(**linear.arguments(case))
    more: dict[str, Any] = {} if data["regression"] else {"classes": np.unique(y)}
    found: list[Finding] = []
    seen: list[tuple[Any, ...]] = []
    with watched() as caught:
        try:
            for part in np.array_split(np.arange(len(y)), data["batches"]):
                X = wild.given(
                    data["X"][part], None if data["stored"] is None else data["stored"][part]
                )
                seen.append((X, y[part]) if s is None else (X, y[part], s[part]))
                weight = {} if s is None else {"sample_weight": s[part]}
                fitted.partial_fit(X, y[part], **more, **weight)
                if data["also"] == "file":
                    fitted = reloaded(fitted, found)
                found += bound_so_far(case, fitted, int(part[-1]) + 1)
            fitted.verify(seen)
        except (ValueError, TypeError) as error:
            return linear.refused(case, error)
    certificate = attributes(fitted)
    program, z = (svr if data["regression"] else svc).program_of(case, fitted)
    tol = data["params"].get("tol", 1e-3)
    found += check_program(
        certificate, program, z, tol, tame=data["tame"], rescaled=linear.rescaled(case)
    )
    found += check_warnings(certificate, caught, silent=True)
    return Outcome("certified" if fitted.converged_ else "warned", found)


def reloaded(fitted: Any, found: list[Finding]) -> Any:
    """The same model after save and load."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        fitted.save(path)
        other = maxmargin.load(path)
    found += linear.differences(fitted, other, "save and load")
    return other


def bound_so_far(case: Case, fitted: Any, n: int) -> list[Finding]:
    """Check the bound with F of the returned weights, and of the referee's, over the samples seen."""
    data = case.data
    found = check_arithmetic(attributes(fitted), None)
    if not data["regression"] and len(np.unique(data["y"][:n])) < len(np.unique(data["y"])):
        return found  # the referee's problem would have fewer classes
    part = {k: v[:n] for k, v in data.items() if k in wild.BY_ROW and v is not None}
    program, z = (svr if data["regression"] else svc).program_of(case.with_data(**part), fitted)
    if not np.isfinite(np.asarray(z, dtype=float)).all():
        return [*found, Finding("objective", "weights that are not finite")]
    _, attained, error = best_point(program, [z])
    error += excuse(data["tame"], program, attained)
    return found + check_bound(fitted.lower_bound_, LONG(attained), error)


def reproduce(case: Case) -> str:
    """Python code that reproduces the stream."""
    data = case.data
    name = "LinearSVR" if data["regression"] else "LinearSVC"
    out = wild.lines(case, f"from maxmargin import {name}")
    more = "" if data["regression"] else ", classes=np.unique(y)"
    out.append(f"s = {wild.written(data['sample_weight'])}")
    out.append(f"m = {name}({wild.parameters(data['params'])})")
    out.append(f"for part in np.array_split(np.arange(len(y)), {data['batches']}):")
    out.append(
        f"    m.partial_fit(X[part], y[part]{more}, sample_weight=None if s is None else s[part])"
    )
    out.append("    print(m.lower_bound_)")
    out.append("m.verify(X, y, s)")
    out.append("print(m.lower_bound_, m.objective_, m.gap_, m.converged_)")
    return "\n".join(out)


def smaller(case: Case) -> Iterator[Case]:
    """One batch, then simpler problems."""
    if case.data["batches"] > 1:
        yield case.with_data(batches=1)
    for candidate in wild.smaller(case, keep=("cost",)):
        n = len(candidate.data["y"])
        same = len(np.unique(candidate.data["y"])) == len(np.unique(case.data["y"]))
        if case.data["regression"] or same:
            yield candidate.with_data(batches=min(n, candidate.data["batches"]))
