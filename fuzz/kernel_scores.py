"""Random problems for KernelSVR, also of quantiles, and OneClassSVM, checked with kernel values in long
double."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.reference_optima import kernel as truth
from tests.reference_optima.kernel_scores import ScoreProblem
from tests.reference_optima.program import EPS
from tests.reference_optima.program import LONG as LD
from tests.reference_optima.program import LONG_EPS as EPS_LD

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz.framework import Case, Finding, Outcome
from maxmargin import KernelSVR, OneClassSVM

NAME = "KernelSVR, OneClassSVM"
NAMES = ("dual_coef_", "support_", "intercept_", "objective_", "lower_bound_", "gap_", "converged_")


def draw(rng: np.random.Generator) -> Case:
    """Up to 50 samples."""
    tame = draws.maybe(rng, 0.5)
    n, d = int(rng.integers(1, 51)), int(rng.integers(1, 6))
    X = draws.rows(rng, (n, d), draws.columns(rng, d, tame), tame)
    for i in range(n):
        if draws.maybe(rng, 0.08):
            X[i] = X[rng.integers(n)]
    kernel = str(rng.choice(["rbf", "poly", "linear"], p=[0.6, 0.2, 0.2]))
    params: dict[str, Any] = {"kernel": kernel}
    if kernel != "linear" and draws.maybe(rng, 0.6):
        params["gamma"] = draws.power(rng, -3, 2) if tame else draws.power(rng, -10, 10)
    if kernel == "poly":
        params |= {"degree": int(rng.integers(1, 4)), "coef0": float(rng.choice([0.0, 1.0]))}
    params |= draws.tolerance(rng, tame)
    scale = 1.0 if tame else draws.power(rng, -6, 6)
    regression = draws.maybe(rng, 0.7)
    if regression:
        params["C"] = draws.strength(rng, tame)
        params["epsilon"] = scale * float(rng.choice([0.0, 0.1, 1.0, 10.0]))
        if draws.maybe(rng, 0.2):
            params["fit_intercept"] = False
        if draws.maybe(rng, 0.2):
            params["method"] = "nystrom"
    else:
        params["nu"] = float(rng.choice([0.05, 0.3, 0.5, 0.9, 1.0]))
        tame = tame and kernel == "rbf"  # others may not separate the samples from the origin
    given = kernel != "linear" and draws.maybe(rng, 0.15)
    y = scale * (rng.normal(size=n) + rng.choice([0.0, 0.0, 1e3 if tame else 1e6]))
    data = {
        "tame": tame,
        "regression": regression,
        "form": "given" if given else str(rng.choice(["dense", "sparse"], p=[0.8, 0.2])),
        "X": list(X),
        "y": [float(v) for v in y],
        "sample_weight": draws.weights(rng, n),
        "params": params,
        "more": str(rng.choice(["", "n_jobs", "saved"], p=[0.7, 0.15, 0.15])),
    }
    kind = "svr" if regression else "one-class"
    if regression and draws.maybe(rng, 0.4):
        kind, q = "quantile", float(rng.choice([0.5, 0.1, 0.9, 0.999, rng.uniform(0.01, 0.99)]))
        del params["epsilon"]
        params |= {"loss": "quantile", "quantile": q}
    return Case(NAME, f"{kind} {kernel} {'tame' if tame else 'wild'}", 0, data)


def _kernel(case: Case, gamma: float) -> Any:
    params, X = case.data["params"], np.array(case.data["X"])
    return truth.values(
        params["kernel"], X, gamma, params.get("degree", 3), params.get("coef0", 0.0)
    )


def _fit(case: Case, **changes: Any) -> Any:
    data = case.data
    cls: Any = KernelSVR if data["regression"] else OneClassSVM
    est = cls(**{"max_seconds": checks.seconds(case), **data["params"], **changes})
    X = np.array(data["X"])
    if data["form"] == "given":
        X = np.asarray(_kernel(case, _given_gamma(case)), dtype=np.float64)
        est.set_params(kernel="precomputed")
    elif data["form"] == "sparse":
        X = sp.csr_matrix(X)
    return est.fit(X, data["y"] and np.array(data["y"]), sample_weight=data["sample_weight"])


def _given_gamma(case: Case) -> float:
    return float(case.data["params"].get("gamma", 1.0))


def run(case: Case) -> Outcome:
    """Fit and check."""
    return checks.attempt(case, lambda: _fit(case), lambda fit: _check(case, fit))


def _check(case: Case, fit: checks.Fit) -> list[Finding]:
    model, data, params = fit.model, case.data, case.data["params"]
    n, given = len(data["X"]), data["form"] == "given"
    gamma = _given_gamma(case) if given else float(getattr(model.kernel_, "gamma", 1.0))
    K = _kernel(case, gamma)
    if given:  # as the estimator got it
        K = np.asarray(K, dtype=np.float64).astype(LD)
    weight = np.ones(n) if data["sample_weight"] is None else np.array(data["sample_weight"])
    C, noise_of_scaling = params.get("C"), 0.0
    if data["regression"]:
        up = down = LD(C) * weight.astype(LD)
        if "quantile" in params:
            up, down = LD(params["quantile"]) * up, (1 - LD(params["quantile"])) * down
        problem = ScoreProblem(
            K,
            np.array(data["y"], dtype=LD),
            np.full(n, LD(params.get("epsilon", 0.0))),
            up,
            down,
            params.get("fit_intercept", True),
        )
        b, unit = LD(model.intercept_[0]), LD(1)
    else:
        C, one, none = model.C_, np.ones(n, LD), np.zeros(n, LD)
        problem = ScoreProblem(K, one, none, LD(C) * weight.astype(LD), none, False)
        # coefficients are multiplied by the threshold
        b, unit, noise_of_scaling = LD(0), LD(1) / LD(model.offset_), 8.0 * EPS
    v = np.zeros(n, LD)
    if params["kernel"] == "linear" and not data["regression"]:
        w = unit * model.coef_[0].astype(LD)
        X = np.array(data["X"], dtype=LD)
        lost = problem.up * np.maximum(0, 1 - X @ w)
        F = LD(0.5) * (w @ w) + lost.sum()
        size = float(w @ w + (problem.up * (1 + np.abs(X) @ np.abs(w))).sum())
        noise_of_scaling = 64.0 * EPS
    else:
        v[model.support_] = unit * np.asarray(model.dual_coef_[0], dtype=LD)
        F, size = problem.value(v, b), problem.size(v, b)
    if not np.isfinite(float(F)) or not np.isfinite(model.objective_):
        return [Finding("nan", f"objective_ {model.objective_}, F {F}")]
    found = checks.arithmetic(model, params.get("tol", 1e-3))
    claimed, slack = LD(model.objective_), noise_of_scaling * size
    if claimed < F - LD(1e-12) * abs(F) - 64 * EPS_LD * size - slack:
        found.append(Finding("objective", f"objective_ {model.objective_!r} < F = {float(F)!r}"))
    if np.isfinite(model.lower_bound_):
        best = min(F, problem.attained())
        found += checks.bound(model.lower_bound_, best, 512.0 * EPS_LD * size + slack)
    largest, total = float(np.abs(K).max()), float((problem.up.sum()) * np.abs(problem.t).max())
    ordinary = 1e-8 <= largest <= 1e8 and n * EPS * largest * total**2 < 1e-4 * float(F)
    exact = params.get("method") != "nystrom" and model.certificate_ == "exact"
    if data["tame"] and exact and ordinary and not model.converged_:
        found.append(Finding(checks.unproved(model), f"{model.stop_reason_}, gap {model.gap_:.3g}"))
    if data["more"] == "saved" or (model.converged_ and params["kernel"] != "linear"):
        found += checks.repeated(case, model, partial(_fit, case), NAMES)
    return found


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    data = case.data
    name = "KernelSVR" if data["regression"] else "OneClassSVM"
    return draws.code(
        f"X = {draws.text(np.array(data['X']))}  # {data['form']}",
        f"y = {data['y']}",
        f"m = {name}({draws.keywords(data['params'])})",
        f"m.fit(X, y, sample_weight={data['sample_weight']})",
        "print(m.objective_, m.lower_bound_, m.stop_reason_, m.certificate_, m.dual_coef_)",
    )


def smaller(case: Case) -> Iterator[Case]:
    """Fewer samples, parameters and digits."""
    yield from draws.fewer_examples(case, ("X", "y", "sample_weight"))
    yield from draws.fewer_options(
        case, keep=("C", "kernel", "method", "epsilon", "loss", "quantile", "nu")
    )
    yield from draws.simpler_numbers(case)
