"""Random problems for GraphLabeler: all labelings of small graphs are enumerated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from tests.reference_optima.program import LONG as LD
from tests.reference_optima.structured import Example, Problem

from fuzz import structured_checks as checks
from fuzz import structured_draws as draws
from fuzz.framework import Case, Finding, Outcome
from maxmargin import GraphLabeler

NAME = "GraphLabeler"
NAMES = ("weights_", "objective_", "lower_bound_", "gap_", "converged_")


def draw(rng: np.random.Generator) -> Case:
    """A few graphs of up to five nodes."""
    tame = draws.maybe(rng, 0.5)
    n, d, e = int(rng.integers(1, 8)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    K = int(rng.integers(1, 4))
    edges = str(rng.choice(["full", "symmetric", "potts", "attractive"]))
    factors, along = draws.columns(rng, d, tame), draws.columns(rng, e, tame)
    plain = draws.maybe(rng, 0.5)
    X, y = [], []
    for _ in range(n):
        m = int(rng.integers(1, 6 if K < 3 else 5))
        pairs = [(a, b) for a in range(m) for b in range(m) if a != b]
        chosen = [pairs[k] for k in rng.permutation(len(pairs))[: int(rng.integers(0, 2 * m))]]
        links = np.array(chosen, dtype=np.int64).reshape(-1, 2)
        z = np.ones((len(links), 1)) if plain else draws.rows(rng, (len(links), e), along, tame)
        if edges == "attractive":
            z = np.abs(z)
        X.append((draws.rows(rng, (m, d), factors, tame), links, z))
        y.append([int(v) for v in rng.integers(0, K, m)])
    params: dict[str, Any] = {"C": draws.strength(rng, tame), "edges": edges}
    params |= draws.tolerance(rng, tame)
    if draws.maybe(rng, 0.2):
        params["inference"] = str(rng.choice(["messages", "lp"]))
    if draws.maybe(rng, 0.2) and edges != "attractive":
        params["solver"] = "CuttingPlane()"
    data = {
        "tame": tame,
        "X": X,
        "y": y,
        "sample_weight": draws.weights(rng, n),
        "params": params,
        "more": str(rng.choice(["", "n_jobs", "saved"], p=[0.7, 0.15, 0.15])),
    }
    kind = f"{edges} {params.get('inference', 'auto')} {'tame' if tame else 'wild'}"
    return Case(NAME, kind, 0, data)


def _fit(case: Case, **changes: Any) -> GraphLabeler:
    X, y, weight = case.data["X"], case.data["y"], case.data["sample_weight"]
    return GraphLabeler(**checks.params(case, **changes)).fit(X, y, sample_weight=weight)


def _kinds(edges: str, K: int) -> Any:
    """The index of the weight of each pair of labels; -1 for none."""
    if edges == "full":
        return np.arange(K * K).reshape(K, K)
    if edges == "symmetric":
        table, number = np.zeros((K, K), dtype=int), 0
        for a in range(K):
            for b in range(a, K):
                table[a, b] = table[b, a] = number
                number += 1
        return table
    return np.where(np.eye(K, dtype=bool), 0, -1)


def _problem(case: Case) -> tuple[Problem, list[Any], list[Any]]:
    data, params = case.data, case.data["params"]
    classes = sorted({v for labels in data["y"] for v in labels})
    K, kinds = len(classes), _kinds(params["edges"], len(classes))
    P = int(kinds.max()) + 1
    examples, outputs, psis = [], [], []
    for (x, links, z), labels in zip(data["X"], data["y"], strict=True):
        truth = tuple(classes.index(v) for v in labels)
        ys = list(itertools.product(range(K), repeat=len(truth)))
        psi = []
        for p in ys:
            nodes, pairs = np.zeros((x.shape[1], K), dtype=LD), np.zeros((z.shape[1], P), dtype=LD)
            for i, label in enumerate(p):
                nodes[:, label] += x[i]
            for k, (a, b) in enumerate(links):
                if kinds[p[a], p[b]] >= 0:
                    pairs[:, kinds[p[a], p[b]]] += z[k]
            psi.append(np.concatenate([nodes.ravel(), pairs.ravel()]))
        losses = [sum(a != b for a, b in zip(p, truth, strict=True)) for p in ys]
        examples.append(Example.of(np.array(psi), ys.index(truth), losses))
        outputs.append(ys)
        psis.append(np.array(psi))
    d = data["X"][0][0].shape[1] * K
    signed = tuple(range(d, len(psis[0][0]))) if params["edges"] == "attractive" else ()
    s = np.array(data["sample_weight"] or [1.0] * len(examples), dtype=LD)
    return Problem(examples, LD(params["C"]) * s, nonnegative=signed), outputs, psis


def run(case: Case) -> Outcome:
    """Fit and check."""
    return checks.attempt(case, lambda: _fit(case), lambda fit: _check(case, fit))


def _check(case: Case, fit: checks.Fit) -> list[Finding]:
    model, params = fit.model, case.data["params"]
    problem, outputs, psis = _problem(case)
    w, tol = model.weights_, params.get("tol", 5e-2)
    inference = params.get("inference", "auto")
    if inference == "lp":  # the relaxed problem, which is never below the true one
        found = checks.objective(model, problem, w) + checks.arithmetic(model, tol)
    else:
        demanding = case.data["tame"] and not {"solver", "inference"} & set(params)
        # with "auto", too, the oracle's bound exceeds its labeling's value by up to 1e-11 of the scores
        found = checks.certificate(fit, problem, w, tol, demanding=demanding)
    if inference == "auto" and np.isfinite(w).all():
        classes = model.classes_.tolist()
        for i, labels in enumerate(model.predict(case.data["X"])):
            scores, noise = checks.scores_of(psis[i], w)
            chosen = outputs[i].index(tuple(classes.index(v) for v in labels.tolist()))
            noise = max(noise, 1e-9 * float(np.abs(scores).max()))
            found += checks.argmax(scores, chosen, noise, f"graph {i}")
    return found + checks.repeated(case, model, partial(_fit, case), NAMES)


def reproduce(case: Case) -> str:
    """A few lines of Python code."""
    data = case.data
    return draws.code(
        f"X = {draws.text(data['X'])}",
        f"y = {data['y']}",
        f"m = GraphLabeler({draws.keywords(data['params'])})",
        f"m.fit(X, y, sample_weight={data['sample_weight']})",
        "print(m.objective_, m.lower_bound_, m.stop_reason_, m.weights_)",
    )


def smaller(case: Case) -> Iterator[Case]:
    """Fewer graphs, parameters and edges."""
    yield from draws.fewer_examples(case, ("X", "y", "sample_weight"))
    yield from draws.fewer_options(case, keep=("C", "edges"))
    for i, (x, links, z) in enumerate(case.data["X"]):
        for k in range(len(links)):
            X = list(case.data["X"])
            X[i] = (x, np.delete(links, k, axis=0), np.delete(z, k, axis=0))
            yield case.with_data(X=X)
