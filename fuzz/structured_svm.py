"""Random problems for StructuredSVM: tasks whose outputs are rows of a matrix, in Python and compiled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.reference_optima.program import LONG as LD
from tests.reference_optima.program import LONG_EPS as EPS_LD
from tests.reference_optima.structured import Example, Problem, referee

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz.framework import Case, Finding, Outcome
from fuzz.structured_tagger import SOLVERS
from fuzz.structured_tasks import Lookup, Searched
from maxmargin import StructuredSVM, StructuredSVMCV, structured_path
from maxmargin.tasks import Choice, Enumerable

NAME = "StructuredSVM"
TASKS = ("enumerable", "enumerable sparse", "python", "python sparse")
NAMES = ("coef_", "objective_", "lower_bound_", "gap_", "converged_")


def draw(rng: np.random.Generator) -> Case:
    """A few examples with a few candidates each."""
    tame = draws.maybe(rng, 0.5)
    n, d = int(rng.integers(1, 13)), int(rng.integers(1, 7))
    task = str(rng.choice(TASKS))
    factors = draws.columns(rng, d, tame)
    X = [draws.rows(rng, (int(rng.integers(1, 7)), d), factors, tame) for _ in range(n)]
    right = [int(rng.integers(len(x))) for x in X]
    for i in range(n):
        if draws.maybe(rng, 0.15):  # repeated, with another label
            j = int(rng.integers(n))
            X[i], right[i] = X[j].copy(), int(rng.integers(len(X[j])))
        if draws.maybe(rng, 0.1):
            X[i][rng.integers(len(X[i]))] = X[i][0]
    losses = [_losses(rng, len(x), r, tame) for x, r in zip(X, right, strict=True)]
    params: dict[str, Any] = {"C": draws.strength(rng, tame)}
    params |= draws.tolerance(rng, tame)
    if draws.maybe(rng, 0.3):
        params["rescaling"] = "slack"
    if draws.maybe(rng, 0.15):
        params["oracle"] = "expensive"
    if draws.maybe(rng, 0.2):
        params["solver"] = str(rng.choice(SOLVERS))
    if draws.maybe(rng, 0.3):
        _constrain(rng, d, params, tame)
    if draws.maybe(rng, 0.12):  # not used: test_found.py names problems by their numbers
        _ = [draws.power(rng, -2, 2) if tame else draws.power(rng, -8, 8) for _ in X]
    kinds = ["", "n_jobs", "saved", "resumed", "warm", "path", "cv"]
    more = str(rng.choice(kinds, p=[0.45, 0.12, 0.08, 0.1, 0.05, 0.1, 0.1]))
    data = {
        "tame": tame,
        "task": task,
        "X": X,
        "right": right,
        "losses": losses,
        "sample_weight": None if more in ("path", "cv") else draws.weights(rng, n),
        "params": params,
        "more": more,
    }
    return Case(NAME, f"{task} {'tame' if tame else 'wild'}", 0, data)


def _losses(rng: np.random.Generator, m: int, right: int, tame: bool) -> list[float]:
    kind = rng.random()
    if kind < 0.5:
        out = np.ones(m)
    elif kind < 0.8:
        out = rng.integers(0, 4, m).astype(float)
    else:
        out = rng.random(m) * (draws.power(rng, -2, 2) if tame else draws.power(rng, -8, 8))
    out[right] = 0.0
    return [float(v) for v in out]


def _constrain(rng: np.random.Generator, d: int, params: dict[str, Any], tame: bool) -> None:
    """Priors, signs and fixed weights."""
    order = rng.permutation(d).tolist()
    size = 1.0 if tame else draws.power(rng, -6, 6)
    if draws.maybe(rng, 0.5) and d > 1:
        params["fixed"] = {order.pop(): float(f"{size * rng.normal():.3g}")}
    if draws.maybe(rng, 0.5) and len(order) > 1:
        params["nonnegative"] = [order.pop()]
    if draws.maybe(rng, 0.4) and len(order) > 1:
        params["nonpositive"] = [order.pop()]
    if draws.maybe(rng, 0.5):
        mean = [float(f"{size * v:.3g}") for v in rng.normal(size=d)]
        low = (-2, 2) if tame else (-6, 6)
        spread = [float(f"{draws.power(rng, *low):.3g}") for _ in range(d)]
        forms = [f"mean={mean}", f"variance={spread}", f"mean={mean}, variance={spread}"]
        params["prior"] = f"GaussianPrior({rng.choice(forms)})"


# -- the fit ----------------------------------------------------------------------------------------


def _given(case: Case) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The task, X, Y and keyword arguments of fit."""
    data = case.data
    X, more = data["X"], {}
    if data["sample_weight"] is not None:
        more["sample_weight"] = data["sample_weight"]
    pairs = list(zip(data["right"], data["losses"], strict=True))
    if data["task"].startswith("enumerable"):
        Y = [Choice(r, np.array(v)) for r, v in pairs]
        if data["task"].endswith("sparse"):
            X = [sp.csr_matrix(x) for x in X]
        return Enumerable(), X, Y, more
    Y = [(r, tuple(v)) for r, v in pairs]
    kind = Searched if _searched(case) else Lookup
    return kind(sparse=data["task"].endswith("sparse")), X, Y, more


def _searched(case: Case) -> bool:
    """Whether slack rescaling uses the default search of tasks (nothing is drawn: see ``draw``)."""
    data = case.data
    slack = data["params"].get("rescaling") == "slack"
    return slack and data["task"].startswith("python") and len(data["X"]) % 2 == 0


def _problem(case: Case, C: float | None = None, only: Any = None) -> Problem:
    data, params = case.data, case.data["params"]
    n, d = len(data["X"]), data["X"][0].shape[1]
    rescaling = params.get("rescaling", "margin")
    parts = zip(data["X"], data["right"], data["losses"], strict=True)
    examples = [Example.of(x, r, losses, rescaling) for x, r, losses in parts]
    s = np.array(data["sample_weight"] or [1.0] * n, dtype=LD)
    if only is not None:
        s = np.where(np.isin(np.arange(n), only), s, LD(0))
    prior = checks.params(case).get("prior")
    center, variance = (None, None) if prior is None else (prior.mean, prior.variance)
    fixed = {k: v for k, v in params.get("fixed", {}).items() if k < d}
    return Problem(
        examples,
        LD(params["C"] if C is None else C) * s,
        center,
        variance,
        fixed,
        tuple(params.get("nonnegative", ())),
        tuple(params.get("nonpositive", ())),
    )


def run(case: Case) -> Outcome:
    """Fit and check."""
    task, X, Y, given = _given(case)
    more = case.data["more"]
    if more == "path":
        Cs = _grid(case)
        params = checks.params(case)
        params.pop("C")
        return checks.attempt(
            case,
            lambda: structured_path(task, X, Y, Cs=Cs, **params),
            lambda fit: _check_path(case, fit, Cs),
        )
    if more == "cv" and len(X) > 2:
        return _run_cv(case, task, X, Y)
    return checks.attempt(
        case,
        lambda: StructuredSVM(task, **checks.params(case)).fit(X, Y, **given),
        lambda fit: _check(case, fit, given),
    )


def _grid(case: Case) -> list[float]:
    C = case.data["params"]["C"]
    return [C * 1e-3, C * 0.1, C]


def _demanding(case: Case) -> bool:
    hull = _searched(case)  # a gap may be left
    return bool(case.data["tame"]) and "solver" not in case.data["params"] and not hull


def _tol(case: Case) -> float:
    return float(case.data["params"].get("tol", 5e-2))


def _check_path(case: Case, fit: checks.Fit, Cs: list[float]) -> list[Finding]:
    found = []
    for C, model in zip(Cs, fit.model, strict=False):  # a time limit ends the path
        one = checks.Fit(model, fit.warned)
        problem = _problem(case, C)
        found += checks.certificate(
            one, problem, model.coef_, _tol(case), demanding=_demanding(case)
        )
    return found


def _run_cv(case: Case, task: Any, X: Any, Y: Any) -> Outcome:
    n = len(X)
    folds = [
        (np.arange(n)[np.arange(n) % 2 != k], np.arange(n)[np.arange(n) % 2 == k]) for k in (0, 1)
    ]
    Cs, params = _grid(case), checks.params(case)
    params.pop("C")
    params.pop("max_seconds")
    params.setdefault("max_iter", 300)

    def check(fit: checks.Fit) -> list[Finding]:
        found, results = [], fit.model.cv_results_
        for k, (train, _) in enumerate(folds):
            for c, C in enumerate(Cs):
                problem = _problem(case, C, train)
                best, value = referee(problem)
                noise = 256.0 * EPS_LD * problem.size(best)
                found += checks.bound(float(results[f"split{k}_lower_bound"][c]), value, noise)
                upper = float(results[f"split{k}_objective"][c])
                if case.data["tame"] and upper < float(value) * (1 - 1e-6):  # near the optimum
                    value = _refitted(case, problem, C, train, params)
                    if upper < value * (1 - 1e-6):
                        text = f"fold {k}, C {C}: {upper!r} < F* ~ {value!r}"
                        found.append(Finding("objective", text))
        model = fit.model.best_estimator_
        one = checks.Fit(model, fit.warned)
        problem = _problem(case, model.C)
        return found + checks.certificate(one, problem, model.coef_, _tol(case), demanding=False)

    def make() -> Any:
        return StructuredSVMCV(task, Cs=Cs, cv=folds, **params).fit(X, Y)

    try:
        fit = checks.fitted(make)
    except (ValueError, TypeError) as error:
        return checks.refused(case, error)
    return Outcome("certified" if fit.model.best_estimator_.converged_ else "warned", check(fit))


def _refitted(case: Case, problem: Problem, C: float, train: Any, params: dict[str, Any]) -> float:
    """The referee's value once more, beginning at weights of the library: where those are better than the
    referee's own, its solver was inexact."""
    task, X, Y, _ = _given(case)
    model = StructuredSVM(task, C=C, **{**params, "tol": 1e-6, "max_iter": 3000})
    w = checks.fitted(lambda: model.fit([X[i] for i in train], [Y[i] for i in train])).model.coef_
    return float(referee(problem, w)[1])


def _check(case: Case, fit: checks.Fit, given: dict[str, Any]) -> list[Finding]:
    model = fit.model
    problem = _problem(case)
    found = checks.certificate(fit, problem, model.coef_, _tol(case), demanding=_demanding(case))
    task, X, Y, _ = _given(case)
    if np.isfinite(model.coef_).all():
        for i, (x, y) in enumerate(zip(case.data["X"], model.predict(X), strict=True)):
            scores, noise = checks.scores_of(x, model.coef_)
            found += checks.argmax(scores, int(y), noise, f"example {i}")
    if model.stop_reason_ != "max_seconds":
        found += _more(case, model, task, X, Y, given)
    return found


def _more(
    case: Case, model: Any, task: Any, X: Any, Y: Any, given: dict[str, Any]
) -> list[Finding]:
    more, problem = case.data["more"], _problem(case)
    make = lambda **changes: StructuredSVM(task, **checks.params(case, **changes))  # noqa: E731
    fit = lambda model, **start: model.fit(X, Y, **given, **start)  # noqa: E731
    if more == "warm":
        again = checks.warmed(case, 0.3, make, fit)
        demanding = _demanding(case)
        return checks.certificate(
            again, problem, again.model.coef_, _tol(case), demanding=demanding
        )
    if more == "resumed":
        last = checks.resumed(make, fit)
        if last is None:
            return []
        found = checks.certificate(last, problem, last.model.coef_, _tol(case), demanding=False)
        if "CuttingPlane" not in case.data["params"].get("solver", "") and not (
            {"nonnegative", "nonpositive"} & set(case.data["params"])
        ):
            found += checks.same_bits(model, last.model, NAMES, "resumed")
        return found
    again = lambda **changes: fit(make(**changes))  # noqa: E731
    return checks.repeated(case, model, again, NAMES, task=model.task_)


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    data = case.data
    lines = [
        "from maxmargin.core import SparseVector",
        "from maxmargin.tasks import Choice, Enumerable, Task",
    ]
    pairs = list(zip(data["right"], data["losses"], strict=True))
    if data["task"].startswith("enumerable"):
        task, wrap = "Enumerable()", ", ".join(f"Choice({r}, np.array({v}))" for r, v in pairs)
    else:
        lines += [inspect.getsource(Lookup), inspect.getsource(Searched)]
        kind = "Searched" if _searched(case) else "Lookup"
        task = f"{kind}(sparse={data['task'].endswith('sparse')})"
        wrap = ", ".join(f"({r}, {tuple(v)})" for r, v in pairs)
    X = draws.text(data["X"])
    if data["task"] == "enumerable sparse":
        X = f"[sp.csr_matrix(x) for x in {X}]"
    given = {k: data[k] for k in ("sample_weight",) if data[k] is not None}
    lines += [f"X = {X}", f"Y = [{wrap}]"]
    params = dict(data["params"])
    if data["more"] == "path":
        params.pop("C")
        lines += [
            f"for m in structured_path({task}, X, Y, Cs={_grid(case)}, {draws.keywords(params)}):",
            "    print(m.C, m.objective_, m.lower_bound_, m.stop_reason_, m.coef_)",
        ]
    else:
        lines += [
            f"m = StructuredSVM({task}, {draws.keywords(params)})",
            f"m.fit(X, Y, {draws.keywords(given)})"
            + (f"  # then: {data['more']}" if data["more"] else ""),
            "print(m.objective_, m.lower_bound_, m.stop_reason_, m.coef_)",
        ]
    return draws.code(*lines)


def smaller(case: Case) -> Iterator[Case]:
    """Fewer examples, parameters and numbers."""
    names = ("X", "right", "losses", "sample_weight")
    yield from draws.fewer_examples(case, names)
    yield from draws.fewer_options(case, keep=("C",))
    if case.data["task"] != "enumerable":
        yield case.with_data(task="enumerable")
    for i, (x, r) in enumerate(zip(case.data["X"], case.data["right"], strict=True)):
        for k in range(len(x)):
            if k == r or len(x) < 2:
                continue
            X, right, losses = (
                list(case.data["X"]),
                list(case.data["right"]),
                list(case.data["losses"]),
            )
            X[i], right[i] = np.delete(x, k, axis=0), r - (k < r)
            losses[i] = [v for j, v in enumerate(losses[i]) if j != k]
            yield case.with_data(X=X, right=right, losses=losses)
    if not {"fixed", "nonnegative", "nonpositive", "prior"} & set(case.data["params"]):
        yield from draws.simpler_numbers(case)
