"""partial_fit and verify of structured estimators: lower bounds over all examples seen, after every batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from tests.reference_optima.program import EPS
from tests.reference_optima.program import LONG_EPS as EPS_LD
from tests.reference_optima.structured import Problem, referee

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz import structured_svm as svm
from fuzz import structured_tagger as tagger
from fuzz.framework import Case, Finding, Outcome
from maxmargin import SequenceTagger, StructuredSVM

NAME = "structured partial_fit"
#: parameters that partial_fit does not support or does not use
NOT_HERE = ("prior", "fixed", "nonnegative", "nonpositive", "solver", "oracle", "loss")


def draw(rng: np.random.Generator) -> Case:
    """Examples in batches."""
    chains = draws.maybe(rng, 0.6)
    case = (tagger if chains else svm).draw(rng)
    data = {**case.data, "chains": chains, "more": draws.maybe(rng, 0.3) and "saved"}
    if chains:  # a batch of empty sequences is refused
        some = [i for i, labels in enumerate(data["y"]) if len(labels)]
        for name in ("X", "y", "sample_weight", "token_weight"):
            data[name] = None if data[name] is None else [data[name][i] for i in some]
        if not np.any(1.0 if data["sample_weight"] is None else data["sample_weight"]):
            data["sample_weight"] = None
    params = {k: v for k, v in data["params"].items() if k not in NOT_HERE}
    if params.get("forbidden_transitions") == "unseen":
        del params["forbidden_transitions"]
    params["max_support"] = int(rng.choice([1, 2, 4, 1000]))
    data |= {"params": params, "batches": int(rng.integers(1, min(len(data["X"]), 5) + 1))}
    kind = f"{'tagger' if chains else 'svm'} {case.kind}"
    return replace(case, family=NAME, kind=kind, data=data)


def _problem(case: Case, seen: int) -> Problem:
    """The problem of the first examples: the others have no weight."""
    n = len(case.data["X"])
    s = case.data["sample_weight"]
    s = [1.0] * n if s is None else list(s)
    part = case.with_data(sample_weight=[v if i < seen else 0.0 for i, v in enumerate(s)])
    return tagger._problem(part)[0] if case.data["chains"] else svm._problem(part)


def _weights(case: Case, model: Any) -> Any:
    """The weights in the order of the referee, which sorts names."""
    if not case.data["chains"]:
        return model.coef_
    if model.vectorizer_ is None:
        return model.weights_
    order = np.argsort(model.vectorizer_.feature_names_)
    rest = model.weights_[model.coef_.size :]
    return np.concatenate([model.coef_.T[order].ravel(), rest])


def _learn(case: Case, lower: list[tuple[int, float]]) -> Any:
    """Learn batch by batch, and verify."""
    data, params = case.data, case.data["params"]
    parts = np.array_split(np.arange(len(data["X"])), data["batches"])
    if data["chains"]:
        model: Any = SequenceTagger(**params)
        more = {"classes": tagger._classes(data["y"])}
    else:
        model, more = StructuredSVM(svm._given(case)[0], **params), {}
    for part in parts:
        names = ("X", "y", "sample_weight", "token_weight", "right", "losses")
        own = {k: [data[k][i] for i in part] for k in names if data.get(k) is not None}
        X, y, given = _given(case.with_data(**own))
        model.partial_fit(X, y, **more, **given)
        lower.append((int(part[-1]) + 1, model.lower_bound_))
        if data["more"] == "saved":
            task = {} if data["chains"] else {"task": model.task_}
            model = checks.saved(model, **task)
    X, y, given = _given(case)
    return model.verify(X, y, **given)


def _given(case: Case) -> tuple[Any, Any, dict[str, Any]]:
    return tagger._given(case) if case.data["chains"] else svm._given(case)[1:]


def run(case: Case) -> Outcome:
    """Learn and check."""
    lower: list[tuple[int, float]] = []
    return checks.attempt(case, lambda: _learn(case, lower), lambda fit: _check(case, fit, lower))


def _check(case: Case, fit: checks.Fit, lower: list[tuple[int, float]]) -> list[Finding]:
    model, n = fit.model, len(case.data["X"])
    w, problem = _weights(case, model), _problem(case, n)
    if w.shape != (problem.dim,):
        return [Finding("shape", f"{w.shape} weights, {problem.dim} by definition")]
    tol = case.data["params"].get("tol", 5e-2)
    found = checks.certificate(fit, problem, w, tol, demanding=False)
    F = float(problem.value(w))
    slack = 1e-9 * abs(F) + 64.0 * EPS * problem.size(w) * np.sqrt(problem.dim + 16.0)
    left = not case.data["chains"] and svm._searched(
        case
    )  # a gap of the argmax, in the upper bound
    if not left and model.objective_ > F + slack:
        found.append(Finding("objective", f"objective_ {model.objective_!r}, F(w) = {F!r}"))
    for seen, value in lower:
        part = _problem(case, seen)
        best, attained = referee(part, w)
        found += checks.bound(value, attained, 256.0 * EPS_LD * part.size(best))
    return found


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    first = (tagger if case.data["chains"] else svm).reproduce(case)
    return (
        f"# partial_fit in {case.data['batches']} batches, then verify, in place of fit:\n{first}"
    )


def smaller(case: Case) -> Iterator[Case]:
    """One batch, then simpler problems."""
    if case.data["batches"] > 1:
        yield case.with_data(batches=1)
    for other in (tagger if case.data["chains"] else svm).smaller(case):
        y = other.data["y"] if case.data["chains"] else [1]
        if y and all(np.size(labels) for labels in y):
            yield other.with_data(batches=min(len(other.data["X"]), other.data["batches"]))
