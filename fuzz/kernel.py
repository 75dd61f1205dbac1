"""Random problems for KernelSVC: all methods and kernels, checked with kernel values in long double."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.reference_optima import kernel as truth
from tests.reference_optima.program import EPS
from tests.reference_optima.program import LONG as LD
from tests.reference_optima.program import LONG_EPS as EPS_LD

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz.framework import Case, Finding, Outcome
from maxmargin import KernelSVC

NAME = "KernelSVC"
METHODS = ("auto", "exact", "map", "nystrom", "sampled", "sampled_constant")
NAMES = ("dual_coef_", "support_", "intercept_", "objective_", "lower_bound_", "gap_", "converged_")


def draw(rng: np.random.Generator) -> Case:
    """Up to 60 samples of two to four classes."""
    tame = draws.maybe(rng, 0.5)
    classes = int(rng.choice([2, 2, 2, 3, 4]))
    n, d = int(rng.integers(classes, 61)), int(rng.integers(1, 8))
    if draws.maybe(rng, 0.4):
        n = int(rng.integers(classes, 13))
    factors = draws.columns(rng, d, tame)
    X = draws.rows(rng, (n, d), factors, tame)
    if draws.maybe(rng, 0.2):
        X = X + draws.spread(rng, tame)
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)
    if draws.maybe(rng, 0.4):
        X[:, 0] = X[:, 0] + y * factors[0]
    for i in range(n):
        if draws.maybe(rng, 0.08):
            X[i] = X[rng.integers(n)]
    form = str(rng.choice(["dense", "float32", "sparse"], p=[0.6, 0.2, 0.2]))
    if form == "float32":
        with np.errstate(all="ignore"):
            X = X.astype(np.float32)
    kernel = str(rng.choice(["rbf", "poly", "linear", "sigmoid"], p=[0.45, 0.25, 0.2, 0.1]))
    method = str(rng.choice(METHODS, p=[0.2, 0.3, 0.2, 0.1, 0.1, 0.1]))
    params: dict[str, Any] = {"C": draws.strength(rng, tame), "kernel": kernel, "method": method}
    if kernel != "linear" and draws.maybe(rng, 0.6):
        params["gamma"] = draws.power(rng, -3, 2) if tame else draws.power(rng, -12, 12)
    if kernel == "poly":
        params["degree"] = int(rng.integers(0, 5))
        params["coef0"] = float(rng.choice([0.0, 1.0, 0.1]))
    params |= draws.tolerance(rng, tame)
    if draws.maybe(rng, 0.2):
        params["fit_intercept"] = False
    if classes > 2 and method in ("map", "nystrom") and draws.maybe(rng, 0.4):
        params["multi_class"] = "crammer_singer"
    if draws.maybe(rng, 0.15):
        params["class_weight"] = {k: float(rng.choice([1.0, 0.1, 10.0])) for k in range(classes)}
    weight = draws.weights(rng, n)
    if weight is not None and draws.maybe(rng, 0.8):  # all classes have a positive weight
        weight[:classes] = [1.0] * classes
    more = str(rng.choice(["", "n_jobs", "saved", "warm"], p=[0.65, 0.15, 0.1, 0.1]))
    data = {
        "tame": tame,
        "form": form,
        "X": list(X),
        "y": [int(v) for v in y],
        "sample_weight": weight,
        "params": params,
        "more": more,
    }
    return Case(NAME, f"{method} {kernel} {'tame' if tame else 'wild'}", 0, data)


def _given(case: Case) -> tuple[Any, Any, Any]:
    data = case.data
    X = np.array(data["X"])
    if data["form"] == "sparse":
        held = (X != 0) | (np.add.outer(np.arange(len(X)), np.arange(X.shape[1])) % 3 == 0)
        r, c = np.nonzero(held)
        X = sp.csr_matrix((X[r, c], (r, c)), shape=X.shape)
    return X, np.array(data["y"]), data["sample_weight"]


def _estimator(case: Case, **changes: Any) -> KernelSVC:
    return KernelSVC(**{"max_seconds": checks.seconds(case), **case.data["params"], **changes})


def run(case: Case) -> Outcome:
    """Fit and check."""
    X, y, weight = _given(case)
    if len(np.unique(y)) < 2:
        return Outcome("refused")
    return checks.attempt(
        case,
        lambda: _estimator(case).fit(X, y, sample_weight=weight),
        lambda fit: _check(case, fit, X, y, weight),
    )


def _parts(case: Case, model: Any, K: Any) -> list[dict[str, Any]]:
    """Each binary problem: kernel values of its samples, signs, caps, and the function found."""
    data, params = case.data, case.data["params"]
    y = np.array(data["y"])
    names = list(model.classes_)
    code = np.array([names.index(v) for v in y])
    caps = np.full(len(y), LD(params["C"]))
    if data["sample_weight"] is not None:
        caps = caps * np.array(data["sample_weight"], dtype=LD)
    if "class_weight" in params:
        caps = caps * np.array([params["class_weight"][names[k]] for k in code], dtype=LD)
    coef, support = np.asarray(model.dual_coef_, dtype=LD), model.support_
    out = []
    if len(names) == 2:
        a = np.zeros(len(y), dtype=LD)
        a[support] = coef[0]
        return [
            {
                "rows": np.arange(len(y)),
                "y": np.where(code == 1, 1, -1),
                "a": a,
                "b": model.intercept_[0],
                "caps": caps,
                "K": K,
            }
        ]
    for number, (i, j) in enumerate(combinations(range(len(names)), 2)):
        rows = np.flatnonzero((code == i) | (code == j))
        a = np.zeros(len(y), dtype=LD)
        for place, row in enumerate(support):
            if code[row] == i:
                a[row] = coef[j - 1, place]
            elif code[row] == j:
                a[row] = coef[i, place]
        out.append(
            {
                "rows": rows,
                "y": np.where(code[rows] == i, 1, -1),
                "a": a[rows],
                "b": model.intercept_[number],
                "caps": caps[rows],
                "K": K[np.ix_(rows, rows)],
            }
        )
    return out


def _check(case: Case, fit: checks.Fit, X: Any, y: Any, weight: Any) -> list[Finding]:
    model, params = fit.model, case.data["params"]
    numbers = np.concatenate([model.dual_coef_.ravel(), model.intercept_.ravel()])
    if not np.isfinite(numbers).all() or not np.isfinite(model.objective_):
        return [Finding("nan", f"objective_ {model.objective_}, coefficients not finite")]
    gamma = float(getattr(model.kernel_, "gamma", 1.0))
    K = truth.values(
        params["kernel"],
        np.array(case.data["X"]),
        gamma,
        params.get("degree", 3),
        params.get("coef0", 0.0),
    )
    found = _gamma(case, gamma) + checks.arithmetic(model, params.get("tol", 1e-3))
    # each of several pairs must reach the tolerance
    found = [f for f in found if f.check != "unclaimed" or len(model.classes_) == 2]
    if params.get("multi_class") == "crammer_singer" and len(model.classes_) > 2:
        F, best, size, noise = _joint(case, model, K)
    else:
        F = best = LD(0)
        size = noise = 0.0
        for part in _parts(case, model, K):
            signs = part["y"].astype(LD)
            b = LD(part["b"])
            F += truth.binary(part["K"], signs, part["caps"], part["a"], b)
            size += truth.binary_size(part["K"], part["caps"], part["a"], b)
            noise += float(truth.binary_size(part["K"], part["caps"], part["a"], b))
            if np.isfinite(model.lower_bound_):
                free = params.get("fit_intercept", True)
                best += truth.solve_kernel_qp(part["K"], signs, 1.0, part["caps"], free).upper
    found += _objective(model, F, size)
    psd = params["kernel"] != "sigmoid"
    kind = (
        "measured"
        if not psd
        else {"nystrom": "restricted", "sampled": "measured", "sampled_constant": "measured"}.get(
            params["method"], "exact"
        )
    )
    if (
        model.certificate_ != kind
        and not (model.certificate_ in ("exact", "measured") and kind != "exact")
        and not (params["kernel"] == "poly" and model.certificate_ == "measured")
    ):
        found.append(Finding("kind", f"certificate_ {model.certificate_!r}, expected {kind!r}"))
    if model.certificate_ in ("restricted", "measured") and np.isfinite(model.lower_bound_):
        found.append(
            Finding("claims", f"{model.certificate_} with lower_bound_ {model.lower_bound_}")
        )
    if np.isfinite(model.lower_bound_):
        found += checks.bound(model.lower_bound_, min(best, F), 512.0 * EPS_LD * noise)
    exact = psd and params["method"] in ("auto", "exact")
    # bounds account for the rounding of kernel values: multipliers sum to at least F
    largest = float(np.abs(K).max())
    ordinary = 1e-8 <= largest <= 1e8 and len(y) * EPS * largest * float(F) < 1e-4
    if case.data["tame"] and exact and ordinary and not model.converged_:
        found.append(
            Finding(
                checks.unproved(model),
                f"{model.stop_reason_} after {model.n_iter_}, gap {model.gap_:.3g}, F* ~ {float(best)!r}",
            )
        )
    # results without a certificate may depend on timing
    if model.converged_ or model.certificate_ != "exact":
        found += _more(case, model, X, y, weight)
    return found


def _gamma(case: Case, gamma: float) -> list[Finding]:
    """ "scale" is 1 / (features * variance)."""
    params = case.data["params"]
    if params["kernel"] == "linear" or "gamma" in params:
        own = LD(params.get("gamma", gamma))
    else:
        X = np.array(case.data["X"], dtype=LD)
        spread = X.var()
        own = 1 / (X.shape[1] * spread) if spread > 0 else LD(1)
        if float(spread) < 1e-9 * float((X * X).mean()):  # dominated by rounding
            return []
    if abs(own - gamma) > 1e-5 * abs(own):
        return [Finding("gamma", f"gamma {gamma!r}, by definition {float(own)!r}")]
    return []


def _objective(model: Any, F: Any, size: float) -> list[Finding]:
    """Not below F: rounding is accounted for."""
    claimed = LD(model.objective_)
    if claimed < F - LD(1e-12) * abs(F) - 64 * EPS_LD * size:
        return [
            Finding(
                "objective",
                f"objective_ {model.objective_!r} < F = {float(F)!r} by {float((F - claimed) / F):.2g}",
            )
        ]
    return []


def _joint(case: Case, model: Any, K: Any) -> tuple[Any, Any, float, float]:
    data, params = case.data, case.data["params"]
    names = list(model.classes_)
    code = np.array([names.index(v) for v in data["y"]])
    caps = np.full(len(code), LD(params["C"]))
    if data["sample_weight"] is not None:
        caps = caps * np.array(data["sample_weight"], dtype=LD)
    if "class_weight" in params:
        caps = caps * np.array([params["class_weight"][names[k]] for k in code], dtype=LD)
    A = np.zeros((len(names), len(code)), dtype=LD)
    A[:, model.support_] = model.dual_coef_
    b = np.asarray(model.intercept_, dtype=LD)
    F = truth.joint(K, code, caps, A, b)
    scores = np.abs(A) @ np.abs(K)
    size = float(
        0.5 * (np.abs(A) * scores).sum()
        + (caps * (1 + 2 * scores.max(axis=0) + 2 * np.abs(b).max())).sum()
    )
    zero = truth.joint(K, code, caps, 0 * A, 0 * b)
    return F, min(F, zero), size, size


def _more(case: Case, model: Any, X: Any, y: Any, weight: Any) -> list[Finding]:
    more = case.data["more"]
    if more == "n_jobs":
        began = time.monotonic()
        other = checks.fitted(
            lambda: _estimator(case, n_jobs=3).fit(X, y, sample_weight=weight)
        ).model
        took = time.monotonic() - began
        if took >= checks.seconds(case):  # one of several problems may have ended early
            return []
        return checks.same_bits(model, other, NAMES, "n_jobs")
    if more == "saved":
        loaded = checks.saved(model)
        found = checks.same_bits(model, loaded, NAMES, "saved")
        if not np.array_equal(model.predict(X), loaded.predict(X)):
            found.append(Finding("saved", "predictions differ"))
        return found
    if more == "warm":
        fit = lambda est: est.fit(X, y, sample_weight=weight)  # noqa: E731
        again = checks.warmed(case, 0.1, partial(_estimator, case), fit)
        return _check(case.with_data(more=""), again, X, y, weight)
    return []


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    data = case.data
    X = np.array(data["X"])
    code = draws.text(X)
    if data["form"] == "sparse":
        code = f"sp.csr_matrix({code})"
    return draws.code(
        f"X = {code}",
        f"y = {data['y']}",
        f"m = KernelSVC({draws.keywords(data['params'])})",
        f"m.fit(X, y, sample_weight={data['sample_weight']})"
        + (f"  # then: {data['more']}" if data["more"] else ""),
        "print(m.objective_, m.lower_bound_, m.stop_reason_, m.certificate_, m.dual_coef_, m.intercept_)",
    )


def smaller(case: Case) -> Iterator[Case]:
    """Fewer samples, parameters and digits."""
    yield from draws.fewer_examples(case, ("X", "y", "sample_weight"))
    yield from draws.fewer_options(case, keep=("C", "kernel", "method"))
    if case.data["form"] != "dense":
        yield case.with_data(
            form="dense", X=[np.asarray(x, dtype=np.float64) for x in case.data["X"]]
        )
    yield from draws.simpler_numbers(case)
