"""The common parts of the linear families: the fit, its checks, and the referee's problem."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.reference_optima.attained import best_point
from tests.reference_optima.program import EPS, Array, Program

import maxmargin
from fuzz import wild
from fuzz.checks import attributes, check_program, check_warnings, is_refusal, watched
from fuzz.framework import WILD_SECONDS, Case, Finding, Outcome
from maxmargin import solvers

#: attributes that must be bit-identical for any number of workers, and after save and load
KEPT = (
    *("coef_", "intercept_", "thresholds_", "objective_", "lower_bound_", "gap_", "converged_"),
    "stop_reason_",
)

#: errors that the library may raise
REFUSALS = (
    "all sample weights are zero",
    "Sample weights must contain at least one non-zero number",
    "needs samples of at least 2 classes|contains only one class|n_classes must be an integer of at least 2",
    "all sample weights of class .* are zero",
    "there is no pair to learn from",
    "exceeds the number of samples",
    "class .* has no weight",
    "the threshold between .* has no weight on one side",
    "cost has shape .* but there are .* classes",
    "DualCoordinate penali[sz]es every coordinate",
    "cannot use the (newton|coordinate|stream) method here",
    "requires one weight per feature, but multi_class=.crammer_singer. has two",
)

#: the C up to which tame problems must be certified: beyond it, rounding may prevent that
LARGE = 1e4


def arguments(case: Case) -> dict[str, Any]:
    """Parameters of an estimator from those of a problem."""
    out = dict(case.data["params"])
    if not case.data["tame"]:
        out.setdefault("max_seconds", WILD_SECONDS)
    if "prior" in out:
        out["prior"] = maxmargin.GaussianPrior(**out["prior"])
    if out.get("solver", "auto") != "auto":
        out["solver"] = eval(out["solver"], vars(solvers).copy())
    return out


def fit_parts(case: Case) -> dict[str, Any]:
    """The arguments of ``fit`` besides X and y."""
    names = ("sample_weight", "sample_epsilon", "groups")
    return {name: case.data[name] for name in names if case.data.get(name) is not None}


def run_fit(
    case: Case,
    estimator: type,
    program_of: Callable[[Case, Any], tuple[Program, Array]],
    *,
    loose: float = 1e-9,
) -> Outcome:
    """Fit, let the referee check, and fit again in the ways that ``also`` requests."""
    X, y = wild.given(case.data["X"], case.data["stored"]), case.data["y"]
    params = arguments(case)
    with watched() as caught:
        try:
            fitted = estimator(**params).fit(X, y, **fit_parts(case))
        except (ValueError, TypeError) as error:
            return refused(case, error)
    certificate = attributes(fitted)
    found = check_warnings(certificate, caught)
    program, z = program_of(case, fitted)
    found += certified(case, certificate, program, z)
    tol = case.data["params"].get("tol", 1e-3)
    options: Any = {"tame": case.data["tame"], "loose": loose, "rescaled": rescaled(case)}
    found += check_program(certificate, program, z, tol, **options)
    if case.data["also"] == "resume":
        with watched():
            other = resumed(estimator, params, X, y, fit_parts(case))
        program, z = program_of(case, other)
        found += check_program(attributes(other), program, z, tol, **options)
    found += again(case, estimator, fitted, X, y)
    return Outcome("certified" if fitted.converged_ else "warned", found)


def refused(case: Case, error: Exception) -> Outcome:
    """Handle a refusal of the library; tame problems must not be refused."""
    if not is_refusal(error):
        raise error
    if not any(re.search(pattern, str(error)) for pattern in REFUSALS):
        return Outcome("refused", [Finding("refusal", f"{type(error).__name__}: {error}")])
    return Outcome("refused")


def rescaled(case: Case) -> bool:
    """Whether ``intercept_`` is rounded once more, when it is multiplied by ``intercept_scaling``."""
    return math.frexp(case.data["params"].get("intercept_scaling", 1.0))[0] != 0.5


def certified(case: Case, certificate: dict[str, Any], program: Any, z: Any) -> list[Finding]:
    """A tame problem must be certified by the default solver, if double-precision weights can show it."""
    if (
        not case.data["tame"]
        or certificate["converged"]
        or case.data["params"].get("C", 1.0) > LARGE
    ):
        return []
    best, F, _ = best_point(program, [z])
    # a logistic loss can be smaller than the rounding errors of margins of 1
    if program.rounding(best, EPS) > 1e-4 * F or EPS * program.total > F:
        return []
    gap, why = certificate["gap"], certificate["stop_reason"]
    return [Finding("tame", f"gap {gap:.2e} of a tame problem ({why})")]


def again(case: Case, estimator: type, fitted: Any, X: Any, y: Any) -> list[Finding]:
    """The same fit with three workers, or after save and load, must be bit-identical."""
    params, parts = arguments(case), fit_parts(case)
    also = case.data.get("also", "")
    with watched():
        if also == "jobs":
            return differences(fitted, estimator(**params, n_jobs=3).fit(X, y, **parts), "n_jobs=3")
        if also == "file":
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.safetensors"
                fitted.save(path)
                other = maxmargin.load(path)
            found = differences(fitted, other, "save and load")
            if not np.array_equal(fitted.predict(X), other.predict(X)):
                found.append(Finding("file", "predictions differ after save and load"))
            return found
    return []


def resumed(estimator: type, params: dict[str, Any], X: Any, y: Any, parts: dict[str, Any]) -> Any:
    """The same fit, stopped after two iterations and resumed from its checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        keep = maxmargin.Checkpoint(Path(folder) / "fit.checkpoint", None, 1)
        short = {**params, "max_iter": 2, "checkpoint": keep}
        estimator(**short).fit(X, y, **parts)
        path = Path(folder) / "fit.checkpoint"
        if not path.exists():
            return estimator(**params).fit(X, y, **parts)
        return estimator(**params).fit(X, y, **parts, resume_from=path)


def differences(a: Any, b: Any, what: str) -> list[Finding]:
    """A finding if any attribute is not bit-identical."""
    if what != "save and load":
        # where they ended depends on timing; of several problems, one per class, any one may have been late
        late = "max_seconds" in (a.stop_reason_, b.stop_reason_)
        if late or (getattr(a, "multi_class", "") == "ovr" and not a.converged_):
            return []
    for name in KEPT:
        if not hasattr(a, name):
            continue
        x, y = getattr(a, name), getattr(b, name)
        if not np.array_equal(x, y):
            return [Finding("bits", f"{what}: {name} {x!r} became {y!r}")]
    return []


def shown(case: Case, name: str) -> str:
    """The fit as a few lines of Python code."""
    prior = ", GaussianPrior" if "prior" in case.data["params"] else ""
    out = wild.lines(case, f"from maxmargin import {name}{prior}")
    params, parts = wild.parameters(case.data["params"]), wild.fit_arguments(case)
    out.append(f"m = {name}({params}).fit({parts})")
    report = "print({0}.lower_bound_, {0}.objective_, {0}.gap_, {0}.converged_, {0}.stop_reason_)"
    out.append(report.format("m"))
    also = case.data.get("also", "")
    if also == "jobs":
        out.append(f"b = {name}({params}, n_jobs=3).fit({parts})")
    elif also == "file":
        out += ["from maxmargin import load", 'm.save("model.safetensors")']
        out.append('b = load("model.safetensors")')
    elif also == "resume":
        short = wild.parameters({**case.data["params"], "max_iter": 2})
        out.append("from maxmargin import Checkpoint")
        out.append(
            f'{name}({short}, checkpoint=Checkpoint("fit.checkpoint", None, 1)).fit({parts})'
        )
        out.append(f'b = {name}({params}).fit({parts}, resume_from="fit.checkpoint")')
    if also:
        out.append(report.format("b"))
    return "\n".join(out)


# -- the referee's problem -------------------------------------------------------------------------


def norm(
    params: dict[str, Any], d: int, columns: int = 1, has_intercept: bool = True
) -> dict[str, Array]:
    """Center, precision, lower and upper bounds of the weights (d and an intercept for each column)."""
    prior = params.get("prior", {})
    mean = np.asarray(prior.get("mean", np.zeros(d)), dtype=float)
    means = np.broadcast_to(mean, (columns, d)) if mean.ndim < 2 else mean
    spread = np.ones(d)
    if "variance" in prior:
        spread = 1.0 / np.asarray(prior["variance"], dtype=float)
    elif "precision" in prior:
        spread = np.asarray(prior["precision"], dtype=float)
    elif "covariance" in prior:
        spread = np.linalg.inv(prior["covariance"])
    P = np.diag(spread) if spread.ndim == 1 else spread
    lower, upper = np.full(d, -np.inf), np.full(d, np.inf)
    lower[list(params.get("nonnegative", []))] = 0.0
    upper[list(params.get("nonpositive", []))] = 0.0
    held = sorted(params.get("fixed", {}))
    for j in held:
        lower[j] = upper[j] = params["fixed"][j]
    rest = np.setdiff1d(np.arange(d), held)
    centers = np.array(means)
    if held:  # the constant contribution of fixed weights is not part of the objective
        off = np.array([params["fixed"][j] for j in held]) - means[:, held]
        centers[:, held] = [params["fixed"][j] for j in held]
        centers[:, rest] -= np.linalg.solve(P[np.ix_(rest, rest)], P[np.ix_(rest, held)] @ off.T).T
        P = P.copy()
        P[held] = P[:, held] = 0.0
    if has_intercept:
        bias = np.asarray(prior.get("intercept_mean", 0.0), dtype=float)
        scale = (
            0.0
            if not params.get("penalize_intercept", True)
            else params.get("intercept_scaling", 1.0)
        )
        P = np.pad(P, (0, 1))
        P[d, d] = 1.0 / scale**2 if scale else 0.0
        bias = np.broadcast_to(bias, (columns,)) if scale else np.zeros(columns)
        centers = np.column_stack([centers, bias])
        lower, upper = np.append(lower, -np.inf), np.append(upper, np.inf)
    diagonal = np.count_nonzero(P - np.diag(np.diagonal(P))) == 0
    whole = np.tile(np.diagonal(P), columns) if diagonal else np.kron(np.eye(columns), P)
    bounded = np.isfinite(lower).any() or np.isfinite(upper).any()
    return {
        "center": centers.ravel(),
        "precision": whole,
        "lower": np.tile(lower, columns) if bounded else None,
        "upper": np.tile(upper, columns) if bounded else None,
    }


def features(case: Case) -> Array:
    """X in double precision, with a column of ones if there is an intercept."""
    X = np.asarray(case.data["X"], dtype=float)
    if case.data["params"].get("fit_intercept", True):
        X = np.column_stack([X, np.ones(len(X))])
    return X


def weights_of(case: Case, fitted: Any) -> Array:
    """coef_ and intercept_ as (columns, d) or (columns, d + 1)."""
    coef = np.atleast_2d(fitted.coef_)
    if case.data["params"].get("fit_intercept", True):
        coef = np.column_stack([coef, fitted.intercept_])
    return coef
