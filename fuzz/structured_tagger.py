"""Random problems for SequenceTagger: labelings of short sequences are enumerated, for any constraints and
order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.reference_optima.log_loss import LogProblem, log_sum, probabilities
from tests.reference_optima.program import LONG as LD
from tests.reference_optima.structured import Example, Problem

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz.framework import Case, Finding, Outcome
from maxmargin import SequenceTagger

NAME = "SequenceTagger"
FORMS = ("dense", "sparse", "dict", "stacked", "float32", "strings")
SOLVERS = (
    "CuttingPlane()",
    "DualCoordinate(batch_size='all')",
    "DualCoordinate(oracle='expensive')",
    "DualCoordinate(schedule='n_slack')",
)


def draw(rng: np.random.Generator) -> Case:
    """A few short sequences."""
    tame = draws.maybe(rng, 0.5)
    n, d = int(rng.integers(1, 13)), int(rng.integers(1, 5))
    order = 2 if draws.maybe(rng, 0.15) else 1
    K = int(rng.integers(1, 4 if order == 1 else 3))
    form = FORMS[int(rng.choice(len(FORMS), p=[0.3, 0.2, 0.15, 0.15, 0.1, 0.1]))]
    factors = draws.columns(rng, d, tame)
    longest = 4 if K < 3 else 3
    lengths = rng.integers(0 if draws.maybe(rng, 0.1) else 1, longest + 1, n)
    lengths[0] = max(1, lengths[0])
    X = [draws.rows(rng, (int(T), d), factors, tame) for T in lengths]
    y = [[int(v) for v in rng.integers(0, K, int(T))] for T in lengths]
    if draws.maybe(rng, 0.3):
        for x, labels in zip(X, y, strict=True):  # something to learn
            if len(labels):
                x[:, 0] = np.array(labels) * factors[0]
    draws.duplicated(rng, X, y)
    if form == "strings":
        X = [(x > 0).astype(float) for x in X]
    if form == "float32":
        with np.errstate(all="ignore"):
            X = [x.astype(np.float32) for x in X]
    params: dict[str, Any] = {"C": draws.strength(rng, tame)}
    params |= draws.tolerance(rng, tame)
    if order == 2:
        params["order"] = 2
    kind = f"{form} {'tame' if tame else 'wild'}"
    slack = draws.maybe(rng, 0.1)
    if slack:
        params["rescaling"] = "slack"
    if draws.maybe(rng, 0.2):
        params["cost"] = _cost(rng, y, slack)
    if draws.maybe(rng, 0.15):
        params["forbidden_transitions"] = _forbidden(rng, y)
    if draws.maybe(rng, 0.25):
        params["solver"] = str(rng.choice(SOLVERS))
    if draws.maybe(rng, 0.12) and form not in ("dict", "strings"):
        params["prior"] = _prior(rng, d, len(_classes(y)), order, tame)
        if "variance" in params["prior"]:  # working sets of chains support a prior mean only
            params.pop("solver", None)
    token = None
    if draws.maybe(rng, 0.15):
        pool = [0.0, 1.0, 2.0, 5.0] if slack else [0.0, 1.0, 0.25, 7.0]
        token = [[float(v) for v in rng.choice(pool, len(labels))] for labels in y]
    if draws.maybe(rng, 0.3):
        token = None
        params = _logistic(rng, params)
    more = str(
        rng.choice(["", "n_jobs", "saved", "resumed", "warm"], p=[0.55, 0.15, 0.15, 0.1, 0.05])
    )
    data = {
        "tame": tame,
        "form": form,
        "X": X,
        "y": y,
        "sample_weight": draws.weights(rng, n),
        "token_weight": token,
        "params": params,
        "more": more,
    }
    return Case(NAME, kind, 0, data)


def _logistic(rng: np.random.Generator, params: dict[str, Any]) -> dict[str, Any]:
    """The same problem with the log loss, which has no costs and no slack rescaling."""
    kept = {k: v for k, v in params.items() if k not in ("rescaling", "cost", "solver")}
    if "solver" in params:
        kept["solver"] = str(rng.choice(["CuttingPlane()", "DualCoordinate()"]))
    return {**kept, "loss": "logistic"}


def _classes(y: list[Any]) -> list[int]:
    return sorted({label for labels in y for label in labels})


def _cost(rng: np.random.Generator, y: list[Any], whole: bool) -> Any:
    classes = _classes(y)
    pool = [0.0, 1.0, 2.0, 3.0] if whole else [0.0, 1.0, 0.5, 10.0, 1e-3]
    if draws.maybe(rng, 0.5):
        return {c: float(rng.choice(pool)) for c in classes}
    matrix = rng.choice(pool, (len(classes), len(classes)))
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _forbidden(rng: np.random.Generator, y: list[Any]) -> Any:
    """Label pairs that do not occur."""
    if draws.maybe(rng, 0.3):
        return "unseen"
    classes = _classes(y)
    seen = {(a, b) for labels in y for a, b in itertools.pairwise([None, *labels, None])}
    pool = [(a, b) for a in [None, *classes] for b in [*classes, None] if (a, b) not in seen]
    pool = [pair for pair in pool if pair != (None, None)]
    return [pair for pair in pool if draws.maybe(rng, 0.5)]


def _prior(rng: np.random.Generator, d: int, K: int, order: int, tame: bool) -> str:
    S = K if order == 1 else K * (K + 1)
    dim = d * S + S * S + 2 * S
    size = 1.0 if tame else draws.power(rng, -6, 6)
    mean = [float(f"{size * v:.3g}") for v in rng.normal(size=dim)]
    if draws.maybe(rng, 0.5):
        return f"GaussianPrior(mean={mean})"
    low = (-2, 2) if tame else (-6, 6)
    spread = [float(f"{draws.power(rng, *low):.3g}") for _ in range(dim)]
    return f"GaussianPrior(mean={mean}, variance={spread})"


# -- the fit ----------------------------------------------------------------------------------------


def _given(case: Case) -> tuple[Any, Any, dict[str, Any]]:
    """X, y and keyword arguments in the requested form."""
    data = case.data
    X, y, form = data["X"], data["y"], data["form"]
    more: dict[str, Any] = {}
    if data["sample_weight"] is not None:
        more["sample_weight"] = data["sample_weight"]
    if data["token_weight"] is not None:
        more["token_weight"] = data["token_weight"]
    if form == "sparse":
        X = [_with_zeros(x) for x in X]
    elif form == "dict":
        X = [[{f"f{k}": float(v) for k, v in enumerate(row)} for row in x] for x in X]
    elif form == "strings":
        X = [[[f"f{k}" for k, v in enumerate(row) if v] for row in x] for x in X]
    elif form == "stacked":
        more["lengths"] = [len(x) for x in X]
        X, y = np.concatenate(X), [label for labels in y for label in labels]
    return X, y, more


def _with_zeros(x: Any) -> Any:
    """A CSR matrix that stores every other zero."""
    held = (x != 0) | (np.add.outer(np.arange(len(x)), np.arange(x.shape[1])) % 2 == 0)
    r, c = np.nonzero(held)
    return sp.csr_matrix((x[r, c], (r, c)), shape=x.shape)


def _estimator(case: Case, **changes: Any) -> SequenceTagger:
    return SequenceTagger(**checks.params(case, **changes))


def _dense(case: Case) -> list[Any]:
    """The features of the model: with strings and dicts, those that occur."""
    X = [np.asarray(x, dtype=LD) for x in case.data["X"]]
    if case.data["form"] == "strings":
        used = np.concatenate([*X]).any(axis=0)
        X = [x[:, used] for x in X]
    return X


def _problem(case: Case) -> tuple[Problem, list[Any], list[Any]]:
    """The problem, and for each sequence its labelings and their joint features."""
    data, X = case.data, _dense(case)
    params, y = data["params"], data["y"]
    classes = _classes(y)
    K, order = len(classes), params.get("order", 1)
    codes = [[classes.index(label) for label in labels] for labels in y]
    cost = _costs(params.get("cost"), classes)
    legal = _legal(params.get("forbidden_transitions"), classes, codes)
    examples, outputs, psis = [], [], []
    for i, (x, truth) in enumerate(zip(X, codes, strict=True)):
        T = len(truth)
        token = np.ones(T) if data["token_weight"] is None else np.array(data["token_weight"][i])
        ys = [p for p in itertools.product(range(K), repeat=T) if legal(p)]
        psi = np.stack([_psi(x, p, K, order) for p in ys])
        losses = [sum(LD(token[t]) * LD(cost[truth[t], p[t]]) for t in range(T)) for p in ys]
        losses = np.array(losses, dtype=LD).reshape(len(ys))
        examples.append(
            Example.of(psi, ys.index(tuple(truth)), losses, params.get("rescaling", "margin"))
        )
        outputs.append(ys)
        psis.append(psi)
    s = np.ones(len(y)) if data["sample_weight"] is None else np.array(data["sample_weight"])
    prior = checks.params(case).get("prior")
    center, variance = (None, None) if prior is None else (prior.mean, prior.variance)
    kind = LogProblem if params.get("loss") == "logistic" else Problem
    problem = kind(examples, LD(params["C"]) * s.astype(LD), center, variance)
    return problem, outputs, psis


def _psi(x: Any, labels: tuple[int, ...], K: int, order: int) -> Any:
    """Features by state, transitions, start and end states: flat, as in ``weights_``."""
    S = K if order == 1 else K * (K + 1)
    states = list(labels)
    if order == 2:
        states = [(K if t == 0 else labels[t - 1]) * K + label for t, label in enumerate(labels)]
    d = x.shape[1]
    by_feature, moves = np.zeros((d, S), dtype=LD), np.zeros((S, S), dtype=LD)
    start, stop = np.zeros(S, dtype=LD), np.zeros(S, dtype=LD)
    for t, state in enumerate(states):
        by_feature[:, state] += x[t]
        if t:
            moves[states[t - 1], state] += 1
    if states:
        start[states[0]] += 1
        stop[states[-1]] += 1
    return np.concatenate([by_feature.ravel(), moves.ravel(), start, stop])


def _costs(cost: Any, classes: list[int]) -> Any:
    K = len(classes)
    if cost is None:
        return 1.0 - np.eye(K)
    if isinstance(cost, dict):
        return np.array([cost.get(c, 1.0) for c in classes])[:, None] * (1.0 - np.eye(K))
    return np.asarray(cost)


def _legal(forbidden: Any, classes: list[int], codes: list[Any]) -> Any:
    if forbidden is None:
        return lambda p: True
    if forbidden == "unseen":
        seen = {pair for truth in codes for pair in itertools.pairwise(truth)}
        return lambda p: all(pair in seen for pair in itertools.pairwise(p))
    number = {c: k for k, c in enumerate(classes)} | {None: None}
    banned = {(number[a], number[b]) for a, b in forbidden}

    def legal(p: Any) -> bool:
        return not p or all(pair not in banned for pair in itertools.pairwise([None, *p, None]))

    return legal


def run(case: Case) -> Outcome:
    """Fit and check."""
    X, y, given = _given(case)
    return checks.attempt(
        case,
        lambda: _estimator(case).fit(X, y, **given),
        lambda fit: _check(case, fit, X, y, given),
    )


def _check(case: Case, fit: checks.Fit, X: Any, y: Any, given: dict[str, Any]) -> list[Finding]:
    model, data = fit.model, case.data
    problem, outputs, psis = _problem(case)
    w = model.weights_
    if w.shape != (problem.dim,):
        return [Finding("shape", f"{w.shape} weights, {problem.dim} by definition")]
    demanding = data["tame"] and "solver" not in data["params"] and _moderate(case)
    tol = data["params"].get("tol", 5e-2)
    found = checks.certificate(fit, problem, w, tol, demanding=demanding)
    if np.isfinite(w).all():
        found += _predictions(case, model, X, given, outputs, psis)
    found += _more(case, model, X, y, given)
    return found


def _moderate(case: Case) -> bool:
    """Whether a certificate is demanded: the log loss has no fast method where C |x|^2 is large."""
    data = case.data
    if data["params"].get("loss") != "logistic":
        return True
    squares = [float((np.asarray(x, float) ** 2).sum(axis=1).max(initial=0.0)) for x in data["X"]]
    weight = 1.0 if data["sample_weight"] is None else float(np.max(data["sample_weight"]))
    return data["params"]["C"] * weight * max(squares) <= 1e4


def _predictions(
    case: Case, model: Any, X: Any, given: dict[str, Any], outputs: list[Any], psis: list[Any]
) -> list[Finding]:
    lengths = {"lengths": given["lengths"]} if "lengths" in given else {}
    predicted = model.predict(X, **lengths)
    if lengths and not isinstance(predicted[0], list | np.ndarray):  # flat, like the input
        ends = np.cumsum(given["lengths"])
        predicted = [
            list(predicted[e - c : e]) for e, c in zip(ends, given["lengths"], strict=True)
        ]
    classes, out = list(model.classes_), []
    for i, labels in enumerate(predicted):
        scores, noise = checks.scores_of(psis[i], model.weights_)
        chosen = tuple(classes.index(label) for label in labels)
        if chosen not in outputs[i]:
            return [Finding("argmax", f"sequence {i}: {labels} is forbidden")]
        out += checks.argmax(scores, outputs[i].index(chosen), noise, f"sequence {i}")
    if model.loss == "logistic":
        out += _probabilities(case, model, X, lengths, outputs, psis)
    return out


def _probabilities(
    case: Case, model: Any, X: Any, lengths: Any, outputs: list[Any], psis: list[Any]
) -> list[Finding]:
    """Marginals and log probabilities against sums over all labelings."""
    y, classes = case.data["y"], list(model.classes_)
    given = [label for labels in y for label in labels] if lengths else y
    marginals = model.predict_marginals(X, **lengths)
    if lengths:
        ends = np.cumsum(lengths["lengths"])
        marginals = [marginals[e - len(labels) : e] for e, labels in zip(ends, y, strict=True)]
    logs = model.log_probability(X, given, **lengths)
    for i, labels in enumerate(y):
        scores, noise = checks.scores_of(psis[i], model.weights_)
        p, allowed = probabilities(scores), 1e-9 + 16.0 * (len(labels) + 1.0) * float(np.max(noise))
        if allowed > 1e-3:  # rounding alone changes probabilities
            continue
        truth = outputs[i].index(tuple(classes.index(label) for label in labels))
        right = scores[truth] - log_sum(scores)
        if abs(float(logs[i] - right)) > allowed:
            return [Finding("log_probability", f"sequence {i}: {logs[i]!r}, {float(right)!r}")]
        own = np.zeros((len(labels), len(classes)))
        for share, labeling in zip(p, outputs[i], strict=True):
            own[np.arange(len(labels)), list(labeling)] += float(share)
        if own.size and np.abs(own - marginals[i]).max() > allowed:
            return [Finding("marginals", f"sequence {i}: {marginals[i]!r}, {own!r}")]
    return []


NAMES = ("weights_", "objective_", "lower_bound_", "gap_", "converged_")


def _more(case: Case, model: Any, X: Any, y: Any, given: dict[str, Any]) -> list[Finding]:
    more, params = case.data["more"], case.data["params"]
    make = partial(_estimator, case)
    fit = lambda model, **start: model.fit(X, y, **given, **start)  # noqa: E731
    if more not in ("warm", "resumed"):
        return checks.repeated(case, model, lambda **changes: fit(make(**changes)), NAMES)
    if model.stop_reason_ == "max_seconds":  # depends on timing: nothing to compare
        return []
    warm = more == "warm"
    again = checks.warmed(case, 0.37, make, fit) if warm else checks.resumed(make, fit)
    if again is None:
        return []
    demanding = warm and case.data["tame"] and "solver" not in params and _moderate(case)
    w, tol = again.model.weights_, params.get("tol", 5e-2)
    found = checks.certificate(again, _problem(case)[0], w, tol, demanding=demanding)
    if not warm and "CuttingPlane" not in params.get("solver", "") and "prior" not in params:
        found += checks.same_bits(model, again.model, NAMES, "resumed")
    return found


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    X, y, given = _given(case)
    if case.data["form"] == "sparse":
        code = "[sp.csr_matrix(x) for x in " + draws.text([x.toarray() for x in X]) + "]"
    else:
        code = draws.text(X)
    return draws.code(
        f"X = {code}",
        f"y = {draws.text(y)}",
        f"m = SequenceTagger({draws.keywords(case.data['params'])})",
        f"m.fit(X, y, {draws.keywords(given)})"
        + (f"  # then: {case.data['more']}" if case.data["more"] else ""),
        "print(m.objective_, m.lower_bound_, m.stop_reason_, m.weights_)",
    )


def smaller(case: Case) -> Iterator[Case]:
    """Fewer sequences, parameters and numbers."""
    yield from draws.fewer_examples(case, ("X", "y", "sample_weight", "token_weight"))
    yield from draws.fewer_options(case, keep=("C",))
    if case.data["form"] not in ("dense", "strings"):
        X = [np.asarray(x, dtype=np.float64) for x in case.data["X"]]
        yield case.with_data(form="dense", X=X)
    if "prior" not in case.data["params"]:
        for i, (x, labels) in enumerate(zip(case.data["X"], case.data["y"], strict=True)):
            if len(labels) > 1 and case.data["token_weight"] is None:
                X = [*case.data["X"][:i], x[1:], *case.data["X"][i + 1 :]]
                y = [*case.data["y"][:i], labels[1:], *case.data["y"][i + 1 :]]
                yield case.with_data(X=X, y=y)
        yield from draws.simpler_numbers(case)
