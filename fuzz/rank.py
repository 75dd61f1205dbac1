"""RankSVM: all pairs and all rankings are enumerated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import numpy as np
from tests.reference_optima.program import LONG, Array, LongArray, Program

from fuzz import linear, wild
from fuzz.framework import Case, Outcome
from fuzz.joint import Joint
from maxmargin import RankSVM

NAME = "RankSVM"


def draw(rng: np.random.Generator) -> Case:
    """Queries with random relevance levels."""
    tame = wild.chance(rng, 0.25)
    loss = str(wild.pick(rng, "pairs", "pairs", "map", "ndcg"))
    n, d = wild.shape(rng)
    n = max(2, n)
    most = {"pairs": n, "map": 8, "ndcg": 5}[loss]
    groups = np.arange(n) // int(rng.integers(2, max(3, most + 1)))
    if loss == "pairs" and wild.chance(rng, 0.3):
        groups = rng.integers(0, 4, n)
    X, stored = wild.matrix(rng, n, d, tame)
    y = rng.integers(0, 2 if loss == "map" else int(rng.integers(2, 5)), n).astype(float)
    params = wild.settings(rng, tame)
    if "solver" in params:
        params |= {"solver": "CuttingPlane()", "max_iter": 200}
    params["loss"] = loss
    weight = None
    if loss == "pairs":
        params["pair_weight"] = wild.pick(rng, "equal", "difference")
        params["query_weight"] = wild.pick(rng, "pairs", "equal")
        weight = wild.weights(rng, n, tame)
    elif wild.chance(rng, 0.3):
        weight = rng.random(int(groups.max()) + 1)[groups]
    if loss == "ndcg" and wild.chance(rng, 0.3):
        params["k"] = int(rng.integers(1, 4))
    kind = loss
    if wild.chance(rng, 0.2):
        kind += "+" + wild.about_weights(rng, params, d, tame)
        params.get("prior", {}).pop("intercept_mean", None)
    data = {
        "X": X,
        "stored": stored,
        "y": y,
        "sample_weight": weight,
        "groups": groups,
        "params": params,
        "tame": tame,
        "also": wild.pick(rng, "", "", "", "", "jobs", "file", "resume"),
    }
    return Case(NAME, kind + ("/tame" if tame else ""), 0, data)


def program_of(case: Case, fitted: Any) -> tuple[Any, Array]:
    """The documented problem, and the returned weights."""
    data, params = case.data, case.data["params"]
    X, y = np.asarray(data["X"], dtype=float), np.asarray(data["y"], dtype=float)
    n, d = X.shape
    norm = linear.norm(params, d, has_intercept=False)
    s = np.ones(n) if data["sample_weight"] is None else np.asarray(data["sample_weight"])
    C, loss = params.get("C", 1.0), params.get("loss", "pairs")
    queries = [np.flatnonzero(data["groups"] == g) for g in np.unique(data["groups"])]
    if loss == "pairs":
        i, j, c = listed(params, y, s, queries)
        A = X[j].astype(LONG) - X[i]
        program: Any = Program(**norm, A=A, h=np.ones(len(i)), group=np.arange(len(i)), cost=C * c)
    else:
        rows = [q for q in queries if len(np.unique(y[q])) > 1]
        table = {"map": precision_rankings, "ndcg": gain_rankings}[loss]
        rankings = [table(y[q], params.get("k")) for q in rows]
        levels = [y[q] if loss == "map" else None for q in rows]
        cost = np.array([C * s[q].mean() for q in rows])
        program = Joint(
            norm, X, cost, lambda scores: worst(scores, rows, rankings, levels), 1.0, 2.0
        )
    return program, np.asarray(fitted.coef_)


def listed(
    params: dict[str, Any], y: Array, s: Array, queries: list[Any]
) -> tuple[Any, Any, Array]:
    """All pairs of one query with y_i > y_j, and their weights."""
    i, j, c = [], [], []
    for q in queries:
        found = [(a, b) for a in q for b in q if y[a] > y[b]]
        own = np.array([s[a] * s[b] for a, b in found])
        if params.get("pair_weight") == "difference":
            own = own * np.array([y[a] - y[b] for a, b in found])
        if params.get("query_weight") == "equal" and own.sum() > 0.0:
            own = own / own.sum()
        i += [a for a, _ in found]
        j += [b for _, b in found]
        c += list(own)
    return np.array(i, dtype=int), np.array(j, dtype=int), np.array(c)


def precision_rankings(y: Array, k: Any) -> tuple[LongArray, LongArray]:
    """1 - AP and a(ranking) - a(true ranking) of all interleavings of two levels, for rows sorted by score.

    In the best ranking, rows of one level are in the order of their scores. Columns are positions among
    the relevant rows, then among the others, by descending score.
    """
    R, N = int((y == y.max()).sum()), int((y != y.max()).sum())
    losses, features = [], []
    for places in combinations(range(R + N), R):
        place = np.array(places)
        precision = (np.arange(R) + 1) / (place + LONG(1))
        others = np.setdiff1d(np.arange(R + N), place)
        above = np.where(place[:, None] < others[None, :], LONG(1), LONG(-1))
        off = (above - 1) / LONG(R * N)
        losses.append(1 - precision.mean())
        features.append(np.concatenate([off.sum(axis=1), -off.sum(axis=0)]))
    return np.array(losses), np.array(features)


def gain_rankings(y: Array, k: Any) -> tuple[LongArray, LongArray]:
    """1 - NDCG and a(ranking) - a(true ranking) of all rankings."""
    m = len(y)
    discount = 1 / np.log2(np.arange(m) + LONG(2))
    discount[len(y) if k is None else k :] = 0
    ideal = np.sort(y)[::-1] @ discount
    truth = np.zeros(m, dtype=LONG)
    order = np.argsort(-y, kind="stable")
    for level in np.unique(y):
        truth[y == level] = discount[y[order] == level].mean()
    losses, features = [], []
    for ranking in permutations(range(m)):
        a = np.zeros(m, dtype=LONG)
        a[list(ranking)] = discount
        losses.append(1 - (y @ a) / ideal)
        features.append(a - truth)
    return np.array(losses), np.array(features)


def worst(
    scores: LongArray, queries: list[Any], rankings: list[Any], levels: list[Any]
) -> list[tuple[Any, LongArray]]:
    """The most violated ranking of each query; with levels, rows are first sorted by level and score."""
    out = []
    for q, (losses, features), y in zip(queries, rankings, levels, strict=True):
        s = scores[q]
        order = np.arange(len(q)) if y is None else np.lexsort((-s, -y))
        value = losses + features @ s[order]
        best = int(np.argmax(value))
        gradient = np.zeros(len(scores), dtype=LONG)
        gradient[q[order]] = features[best]
        out.append((losses[best], gradient))
    return out


def run(case: Case) -> Outcome:
    """Fit and check."""
    return linear.run_fit(case, RankSVM, program_of)


def reproduce(case: Case) -> str:
    """Python code that reproduces the fit."""
    return linear.shown(case, NAME)


def smaller(case: Case) -> Iterator[Case]:
    """Simpler problems."""
    yield from wild.smaller(case, keep=("loss", "k"))
