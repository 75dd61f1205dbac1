"""Checks of a structured fit against the referee, and how a fit is run."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from tests.reference_optima.program import EPS
from tests.reference_optima.program import LONG_EPS as EPS_LD
from tests.reference_optima.structured import Problem, referee

import maxmargin
from fuzz.framework import WILD_SECONDS, Case, Finding, Outcome
from maxmargin import GaussianPrior  # noqa: F401  (priors are evaluated)
from maxmargin.solvers import CuttingPlane, DualCoordinate  # noqa: F401  (solvers are evaluated)

#: regular stop reasons
PLANNED = ("cccp", "sampled", "partial")
#: seconds for a fit of a tame problem, which is not certified if it takes longer, and of any other one,
#: whose certificate is checked wherever it ends
SECONDS = {True: 10.0, False: WILD_SECONDS}


class Killed(Exception):
    """Raised to simulate that a fit is killed."""


def killer(iteration: int) -> Callable[[Any], bool]:
    """A callback that ends a fit as a kill would: without any cleanup."""

    def kill(record: Any) -> bool:
        if record.iteration >= iteration:
            raise Killed
        return False

    return kill


@dataclass
class Fit:
    """A fit, and whether it warned."""

    model: Any
    warned: bool


def seconds(case: Case) -> float:
    """The time limit of a fit of this problem."""
    return SECONDS[bool(case.data["tame"])]


def params(case: Case, **changes: Any) -> dict[str, Any]:
    """The parameters of a fit, with its time limit."""
    out = {"max_seconds": seconds(case), **case.data["params"], **changes}
    return out | {name: eval(out[name]) for name in ("solver", "prior") if name in out}


def fitted(make: Callable[[], Any]) -> Fit:
    """Run a fit and record whether it warned. Overflow is judged by the certificate."""
    with warnings.catch_warnings(record=True) as said, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        model = make()
    return Fit(model, any(issubclass(w.category, ConvergenceWarning) for w in said))


def refused(case: Case, error: Exception) -> Outcome:
    """Return a finding if the problem is tame, unless the user's choice is the reason: a solver that does not
    fit, or a class without weight with an unpenalized intercept."""
    advised = "Use solver=" in str(error) and "solver" in case.data["params"]
    advised = advised or "a class has no weight" in str(error)
    found = [Finding("refused", str(error))] if case.data["tame"] and not advised else []
    return Outcome("refused", found)


def attempt(case: Case, make: Callable[[], Any], check: Callable[[Fit], list[Finding]]) -> Outcome:
    """Fit and check. Refusals are for unusual problems; a tame one must not be refused."""
    try:
        fit = fitted(make)
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError) and not isinstance(
            error, maxmargin.CheckpointError
        ):
            return Outcome("failed", [Finding("exception", f"{type(error).__name__}: {error}")])
        return refused(case, error)
    findings = check(fit)
    models = fit.model if isinstance(fit.model, list) else [fit.model]
    good = all(getattr(m, "converged_", True) or m.stop_reason_ in PLANNED for m in models)
    return Outcome("certified" if good else "warned", findings)


def objective(model: Any, problem: Problem, w: Any) -> list[Finding]:
    """Check that ``objective_`` is not below F of the returned weights."""
    F = problem.value(w)
    claimed = model.objective_
    if not np.isfinite(claimed):
        return [Finding("objective", f"objective_ is {claimed}, F(w) = {float(F)!r}")]
    honest = 64.0 * EPS * problem.size(w) * np.sqrt(problem.dim + 16.0)
    slack = 1e-9 * abs(float(F)) + honest
    if float(np.longdouble(claimed) - F) < -slack:
        return [Finding("objective", f"objective_ {claimed!r}, F(w) = {float(F)!r}")]
    return []


def arithmetic(model: Any, tol: float) -> list[Finding]:
    """Check that the gap is that of the bounds, and that ``converged_`` is proven."""
    F, L, gap = model.objective_, model.lower_bound_, model.gap_
    out = []
    if np.isnan(F) or np.isnan(L) or np.isnan(gap):
        out.append(Finding("nan", f"objective_ {F}, lower_bound_ {L}, gap_ {gap}"))
        return out
    if model.certificate_ in ("exact", "relaxed"):
        if np.isfinite(F) and np.isfinite(L):
            own = max(0.0, F - L) / abs(F) if F != 0.0 else (0.0 if L >= F else np.inf)
        else:
            own = np.inf
        same = gap == own or abs(gap - own) <= 1e-12 * max(own, 1e-3)
        if not same:
            out.append(Finding("gap", f"gap_ {gap!r}, from the bounds {own!r}"))
        proved = own <= tol * (1.0 + 1e-9) + 1e-11
        if model.converged_ and not proved:
            out.append(Finding("converged", f"converged_ with a gap of {own!r}, tol {tol!r}"))
        ended = model.converged_ or model.stop_reason_ == "max_seconds"
        if not ended and own <= tol * (1 - 1e-9) and np.isfinite(F):
            out.append(Finding("unclaimed", f"gap {own!r} <= tol {tol!r}, but converged_ is False"))
    elif model.converged_ or np.isfinite(gap):
        out.append(
            Finding("claims", f"{model.certificate_}: converged_ {model.converged_}, gap_ {gap}")
        )
    return out


def bound(lower: float, best: Any, noise: float) -> list[Finding]:
    """Check that a lower bound is not above an attained value."""
    if not np.isfinite(lower):
        return [] if lower < 0 else [Finding("bound", f"lower_bound_ is {lower}")]
    over = float(np.longdouble(lower) - best)
    for check, share in (("bound", 1e-9), ("bound-fine", 1e-12)):
        if over > share * abs(float(best)) + noise:
            detail = f"lower_bound_ {lower!r} is above F = {float(best)!r}, which is attained"
            return [
                Finding(check, f"{detail} (by {over / max(abs(float(best)), 1e-300):.2g} of it)")
            ]
    return []


def certificate(
    fit: Fit, problem: Problem, w: Any, tol: float, *, demanding: bool
) -> list[Finding]:
    """Check everything that an exact certificate guarantees. ``demanding``: a missing one is a finding,
    too."""
    model = fit.model
    w = np.asarray(w)
    if not np.isfinite(w).all():
        return [Finding("weights", f"weights are not finite; objective_ {model.objective_}")]
    found = objective(model, problem, w)
    found += arithmetic(model, tol)
    outside = np.abs(np.asarray(w, dtype=np.longdouble) - problem.feasible(w))
    if (outside > 0).any():
        found.append(Finding("signs", f"weight {int(np.argmax(outside))} breaks its sign or value"))
    best, value = referee(problem, w)
    found += bound(model.lower_bound_, value, 256.0 * EPS_LD * problem.size(best))
    if demanding and not model.converged_:
        gap = (model.objective_ - model.lower_bound_) / max(abs(model.objective_), 1e-300)
        detail = (
            f"{model.stop_reason_} after {model.n_iter_} iterations, gap {gap:.3g}, tol {tol:g}"
        )
        found.append(Finding(unproved(model), f"{detail}, F* = {float(value)!r}"))
    silent = not model.converged_ and not fit.warned
    if silent and model.stop_reason_ not in PLANNED:
        found.append(Finding("silent", f"{model.stop_reason_}: no ConvergenceWarning"))
    return found


def unproved(model: Any) -> str:
    """The check that a tame problem without a certificate fails: a time limit proves nothing."""
    return "slow" if model.stop_reason_ == "max_seconds" else "uncertified"


def same_bits(one: Any, other: Any, names: tuple[str, ...], check: str) -> list[Finding]:
    """Check that two fits are bit-identical."""
    out = []
    if "max_seconds" in (one.stop_reason_, other.stop_reason_):
        return []  # where they ended depends on timing
    if check == "resumed" and one.stop_reason_ in ("stalled", "rounding"):
        return []  # stalls are counted from the start, or from where a fit was resumed
    for name in names:
        a, b = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        if a.shape != b.shape or a.tobytes() != b.tobytes():
            out.append(Finding(check, f"{name} differs: {a.ravel()[:4]} and {b.ravel()[:4]}"))
    return out


def repeated(case: Case, model: Any, fit: Callable[..., Any], names: Any, **given: Any) -> Any:
    """Check that a fit with three workers, or the model after save and load, is bit-identical.

    ``fit(**changes)`` fits with other parameters, ``given`` is what ``load`` needs.
    """
    more = case.data["more"]
    if model.stop_reason_ == "max_seconds" or more not in ("n_jobs", "saved"):
        return []
    other = fitted(lambda: fit(n_jobs=3)).model if more == "n_jobs" else saved(model, **given)
    return same_bits(model, other, names, more)


def warmed(case: Case, share: float, make: Callable[..., Any], fit: Callable[..., Any]) -> Fit:
    """A fit that starts from one with a share of its C; ``fit(model)`` fits what ``make`` returns."""
    C = case.data["params"]["C"]
    model = make(warm_start=True, C=C * share)
    fitted(lambda: fit(model))
    model.C = C
    return fitted(lambda: fit(model))


def resumed(make: Callable[..., Any], fit: Callable[..., Any]) -> Fit | None:
    """A fit that was killed in its third iteration and resumed; None if it had already finished."""
    with tempfile.TemporaryDirectory() as folder:
        kept = maxmargin.Checkpoint(Path(folder) / "state", seconds=None, iterations=1)
        try:
            fit(make(checkpoint=kept, callbacks=[killer(3)]))
            return None
        except Killed:
            return fitted(lambda: fit(make(), resume_from=kept.path))


def saved(model: Any, **given: Any) -> Any:
    """The model after save and load."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return maxmargin.load(path, **given)


def argmax(scores: Any, chosen: int, noise: float, what: str) -> list[Finding]:
    """Check that the predicted output has the largest score, up to ties."""
    scores = np.asarray(scores, dtype=np.longdouble)
    lacks = float(scores.max() - scores[chosen])
    if lacks > noise:
        return [Finding("argmax", f"{what}: the prediction lacks {lacks:.3g} of the largest score")]
    return []


def scores_of(psi: Any, w: Any) -> tuple[Any, float]:
    """Scores of outputs in long double, and a bound on the error of double precision."""
    psi, w = np.asarray(psi, dtype=np.longdouble), np.asarray(w, dtype=np.longdouble)
    size = float((np.abs(psi) @ np.abs(w)).max()) if len(psi) else 0.0
    return psi @ w, 64.0 * EPS * size * np.sqrt(len(w) + 16.0)
