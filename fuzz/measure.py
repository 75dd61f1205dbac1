"""MeasureSVC: metrics of the confusion matrix, with all matrices enumerated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.reference_optima.program import LONG, Array, LongArray, Program

from fuzz import linear, wild
from fuzz.framework import Case, Outcome
from fuzz.joint import Joint
from maxmargin import MeasureSVC

NAME = "MeasureSVC"
TABLES = (
    "f1",
    "fbeta",
    "prbep",
    "precision_at_k",
    "recall_at_k",
    "ae",
    "nae",
    "rae",
    "kld",
    "nkld",
    "q",
)
SUMS = ("error", "balanced_error", "roc_auc")


def draw(rng: np.random.Generator) -> Case:
    """A random classification problem with a metric."""
    tame = wild.chance(rng, 0.25)
    measure = str(wild.pick(rng, *TABLES, *SUMS, "f1", "roc_auc"))
    n, d = wild.shape(rng)
    n = max(2, n)
    X, stored = wild.matrix(rng, n, d, tame)
    y = rng.integers(0, 2, n)
    y[rng.permutation(n)[:2]] = [0, 1]
    params = {"measure": measure, **wild.settings(rng, tame)}
    if params.get("solver") in ("Newton()", "DualCoordinate()"):
        params |= {"solver": "CuttingPlane()", "max_iter": 200}
    wild.intercept(rng, params, free=0.0)
    if measure in ("fbeta", "q"):
        params["beta"] = wild.power(rng, -1, 1)
    if measure.endswith("at_k"):
        params["k"] = int(rng.integers(1, n + 1))
    kind = measure
    if measure != "roc_auc" and wild.chance(rng, 0.15):
        params["rescaling"] = "slack"
        kind += " slack"
    weight = None
    if measure in SUMS and "rescaling" not in params:
        weight = wild.weights(rng, n, tame)
    elif wild.chance(rng, 0.2):
        weight = rng.integers(0, 3, n).astype(float)
    if wild.chance(rng, 0.15):
        kind += "+" + wild.about_weights(rng, params, d, tame)
    data = {
        "X": X,
        "stored": stored,
        "y": y,
        "sample_weight": weight,
        "params": params,
        "tame": tame,
        "also": wild.pick(rng, "", "", "", "", "jobs", "file", "resume"),
    }
    return Case(NAME, kind + ("/tame" if tame else ""), 0, data)


def loss_table(params: dict[str, Any], P: int, N: int) -> LongArray:
    """The loss per sample with ``fn`` misses and ``fp`` false alarms at [fn, fp]; negative if not allowed."""
    measure, beta = params["measure"], LONG(params.get("beta", 1.0))
    fn, fp = np.meshgrid(
        np.arange(P + 1).astype(LONG), np.arange(N + 1).astype(LONG), indexing="ij"
    )
    tp, n, called = P - fn, LONG(P + N), P - fn + fp
    off = np.abs(called - P)
    with np.errstate(all="ignore"):
        if measure == "error":
            return (fp + fn) / n
        if measure == "balanced_error":
            return LONG(0.5) * (fn / LONG(P) + fp / LONG(N))
        if measure in ("f1", "fbeta"):
            b = beta**2 if measure == "fbeta" else LONG(1)
            return 1 - (1 + b) * tp / ((1 + b) * tp + b * fn + fp)
        if measure in ("prbep", "precision_at_k", "recall_at_k"):
            k = P if measure == "prbep" else params["k"]
            base = LONG(P if measure == "recall_at_k" else k)
            return np.where(called == k, 1 - tp / base, LONG(-1))
        if measure == "ae":
            return off / n
        if measure == "nae":
            return off / max(P, N)
        if measure == "rae":
            return LONG(0.5) * off * (1 / LONG(P + 0.5) + 1 / LONG(N + 0.5))
        if measure in ("kld", "nkld"):
            p, q = LONG(P + 0.5) / (n + 1), (called + LONG(0.5)) / (n + 1)
            divergence = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
            divergence = np.where(off > 0, np.maximum(0, divergence), 0)
            return divergence if measure == "kld" else np.tanh(divergence / 2)
        recall, count = tp / LONG(P), 1 - off / max(P, N)
        b = beta**2
        Q = (1 + b) * recall * count / (b * recall + count)
        return 1 - np.where(recall * count > 0, Q, 0)


def oracle_of(params: dict[str, Any], sign: Array) -> Any:
    """The most violated labeling, by enumerating all confusion matrices."""
    n = len(sign)
    positive, negative = np.flatnonzero(sign > 0), np.flatnonzero(sign <= 0)
    loss = loss_table(params, len(positive), len(negative))
    delta = n * loss
    slack = params.get("rescaling", "margin") == "slack"

    def oracle(scores: LongArray) -> list[tuple[Any, LongArray]]:
        low = positive[np.argsort(scores[positive], kind="stable")]
        high = negative[np.argsort(-scores[negative], kind="stable")]
        gain = np.add.outer(
            np.concatenate([[LONG(0)], -np.cumsum(scores[low])]),
            np.concatenate([[LONG(0)], np.cumsum(scores[high])]),
        )
        value = delta * (1 + gain) if slack else delta + gain
        value = np.where(loss < 0, LONG(-np.inf), value)
        fn, fp = np.unravel_index(int(np.argmax(value)), value.shape)
        gradient = np.zeros(n, dtype=LONG)
        if not value[fn, fp] > 0:
            return [(LONG(0), gradient)]
        gradient[low[:fn]], gradient[high[:fp]] = -1, 1
        return [(delta[fn, fp], gradient * delta[fn, fp] if slack else gradient)]

    return oracle


def program_of(case: Case, fitted: Any) -> tuple[Any, Array]:
    """The documented problem, and the returned weights."""
    data, params = case.data, dict(case.data["params"])
    measure, C = params["measure"], params.get("C", 1.0)
    sign = np.where(np.asarray(data["y"]) == np.max(data["y"]), 1.0, -1.0)
    n, d = np.asarray(data["X"]).shape
    s = np.ones(n) if data["sample_weight"] is None else np.asarray(data["sample_weight"])
    X, W = np.asarray(data["X"], dtype=float), np.atleast_2d(fitted.coef_)
    intercept = params.get("fit_intercept", True) and measure not in ("prbep", "roc_auc")
    if intercept:
        X, W = np.column_stack([X, np.ones(n)]), np.column_stack([W, fitted.intercept_])
    norm = linear.norm(params, d, has_intercept=intercept)
    P, N = float(s[sign > 0].sum()), float(s[sign <= 0].sum())
    if measure in SUMS and params.get("rescaling") != "slack":
        if measure == "roc_auc":
            i, j = (
                k.ravel() for k in np.meshgrid(np.flatnonzero(sign > 0), np.flatnonzero(sign <= 0))
            )
            A, h = X[j].astype(LONG) - X[i], np.ones(len(i))
            cost = C * (P + N) / (P * N) * s[i] * s[j]
        else:
            half = np.where(sign > 0, (P + N) / (2 * P), (P + N) / (2 * N))
            A, h = -sign[:, None] * X, np.ones(n) if measure == "error" else half
            cost = C * s
        program: Any = Program(**norm, A=A, h=h, group=np.arange(len(h)), cost=cost)
    else:
        copies = np.repeat(np.arange(n), s.astype(int))
        largest = float(len(copies))  # times a metric, which is at most about 1
        steepest = largest if params.get("rescaling") == "slack" else 1.0
        oracle = oracle_of(params, sign[copies])
        program = Joint(norm, X[copies], np.array([C]), oracle, largest, steepest)
    return program, W.ravel()


def run(case: Case) -> Outcome:
    """Fit and check."""
    return linear.run_fit(case, MeasureSVC, program_of)


def reproduce(case: Case) -> str:
    """Python code that reproduces the fit."""
    return linear.shown(case, NAME)


def smaller(case: Case) -> Iterator[Case]:
    """Simpler problems, with both classes."""
    for candidate in wild.smaller(case, keep=("measure", "k")):
        if len(np.unique(candidate.data["y"])) == 2:
            yield candidate
