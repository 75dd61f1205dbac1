"""LinearSVC: hinge, squared hinge and logistic loss, Crammer-Singer, cost matrices, one-vs-rest."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.reference_optima.logistic import LogProgram
from tests.reference_optima.program import Array, Program

from fuzz import linear, wild
from fuzz.framework import Case, Outcome
from maxmargin import LinearSVC

NAME = "LinearSVC"
#: the names of problems that are given the logistic loss instead
LOGISTIC = {
    "hinge": "logistic", "squared": "logistic", "joint": "multinomial", "ovr": "ovr logistic",
    "ovr squared": "ovr logistic",
}  # fmt: skip
VARIANTS = ("hinge", "squared", "joint", "cost", "cost of two", "ovr", "ovr squared")


def draw(rng: np.random.Generator) -> Case:
    """A random classification problem."""
    tame = wild.chance(rng, 0.25)
    variant = str(rng.choice(VARIANTS, p=[0.3, 0.2, 0.2, 0.1, 0.04, 0.08, 0.08]))
    n, d = wild.shape(rng)
    classes = 2 if variant in ("hinge", "squared", "cost of two") else int(rng.integers(3, 6))
    n = max(n, classes if wild.chance(rng, 0.95) else 1)
    X, stored = wild.matrix(rng, n, d, tame)
    y = labels(rng, X, classes)
    params = wild.settings(rng, tame)
    wild.intercept(rng, params)
    kind = variant
    if variant in ("hinge", "ovr"):  # the default is the squared hinge loss, one-vs-rest
        params["loss"] = "hinge"
    if variant == "joint":
        params["multi_class"] = "crammer_singer"
    if "cost" in variant:
        cost = (
            wild.power(rng, -2, 2) * rng.random((classes, classes))
            if not tame
            else rng.random((classes, classes))
        )
        params |= {"cost": cost * (1.0 - np.eye(classes)), "multi_class": "crammer_singer"}
    if wild.chance(rng, 0.15):
        params["class_weight"] = "balanced"
    elif wild.chance(rng, 0.15):
        factors = wild.pick(
            rng, rng.random(classes), wild.power(rng, -3, 3, classes), np.ones(classes)
        )
        factors[rng.random(classes) < 0.2] = 0.0
        params["class_weight"] = {k: float(factors[k]) for k in range(classes) if k in y}
    if wild.chance(rng, 0.12):  # drawn and not used: test_found.py names problems by their numbers
        wild.pick(rng, 1.0, 1e-4, wild.power(rng, -3, 3) if tame else wild.power(rng, -12, 6))
        wild.pick(rng, rng.random(n), rng.normal(size=n), np.ones(n))
    elif variant != "cost of two" and wild.chance(rng, 0.2):
        columns = classes if classes > 2 else 1
        kind += "+" + wild.about_weights(rng, params, d, tame, columns)
    # a fifth of the problems, without another draw: test_found.py names problems by their numbers
    checksum = zlib.crc32(np.ascontiguousarray(X).tobytes())
    if "cost" not in variant and checksum % 5 == 1:
        params["loss"] = "logistic"
        if variant == "joint":
            params["multi_class"] = "multinomial"
        kind = kind.replace(" squared", "").replace(variant.split()[0], LOGISTIC[variant], 1)
    elif kind == "hinge" and checksum % 7 == 1:
        params["multi_class"], kind = "crammer_singer", "joint of two"
    solver = str(params.get("solver", "auto")).removesuffix("()").lower()
    data = {
        "X": X,
        "stored": stored,
        "y": y,
        "sample_weight": wild.weights(rng, n, tame),
        "params": params,
        "tame": tame,
        "also": wild.pick(rng, "", "", "", "", "jobs", "file", "resume"),
    }
    return Case(NAME, f"{kind}/{solver}{'/tame' if tame else ''}", 0, data)


def labels(rng: np.random.Generator, X: Array, classes: int) -> Array:
    """Labels that depend on X, or random ones."""
    n = len(X)
    y = rng.integers(0, classes, n)
    if wild.chance(rng, 0.5):
        unit = X.astype(float) / np.maximum(1e-300, np.abs(X.astype(float)).max(axis=0))
        scores = unit @ rng.normal(size=(X.shape[1], classes))
        y = np.argmax(scores + wild.pick(rng, 0.0, 0.5) * rng.normal(size=scores.shape), axis=1)
    if n >= classes:
        y[rng.permutation(n)[:classes]] = np.arange(classes)
    return y


def program_of(case: Case, fitted: Any) -> tuple[Program, Array]:
    """The documented problem, and the returned weights."""
    data, params = case.data, case.data["params"]
    classes, codes = np.unique(data["y"], return_inverse=True)
    k, X = len(classes), linear.features(case)
    n, d = np.asarray(data["X"]).shape
    width = X.shape[1]
    C, W = params.get("C", 1.0), linear.weights_of(case, fitted)
    loss, together = params.get("loss", "squared_hinge"), params.get("multi_class", "ovr")
    kind, demand = (LogProgram, 0.0) if loss == "logistic" else (Program, 1.0)
    if together == "crammer_singer" or (together == "multinomial" and k > 2):
        cost = C * sample_weights(case, classes, codes)
        table = params.get("cost", demand * (1.0 - np.eye(k)))
        A, h, group = joint_terms(X, codes, table)
        if k == 2:
            W = np.concatenate([-0.5 * W, 0.5 * W])
        return kind(**norm_of(params, d, k, width), A=A, h=h, group=group, cost=cost), W.ravel()
    problems = [1] if k == 2 else list(range(k))
    A = np.zeros((n * len(problems), width * len(problems)))
    for at, label in enumerate(problems):
        sign = np.where(codes == label, 1.0, -1.0)
        A[at * n : (at + 1) * n, at * width : (at + 1) * width] = -sign[:, None] * X
    times = len(problems)
    # one-vs-rest: the weight of a class is for its own samples in its own problem
    weights = [sample_weights(case, classes, codes, None if k == 2 else own) for own in problems]
    program = kind(
        **norm_of(params, d, times, width),
        A=A,
        h=np.full(n * times, demand),
        group=np.arange(n * times),
        cost=C * np.concatenate(weights),
        squared=loss == "squared_hinge",
    )
    return program, W.ravel()


def norm_of(params: dict[str, Any], d: int, columns: int, width: int) -> dict[str, Any]:
    """The norm of all columns."""
    return linear.norm(params, d, columns, has_intercept=width > d)


def joint_terms(X: Array, codes: Array, table: Array) -> tuple[Array, Array, Any]:
    """cost[y_i, k] + f_k - f_{y_i} for all samples and all k other than y_i."""
    (n, width), k = X.shape, len(table)
    A, h, group = [], [], []
    for i in range(n):
        for other in range(k):
            if other == codes[i]:
                continue
            row = np.zeros((k, width))
            row[other] += X[i]
            row[codes[i]] -= X[i]
            A.append(row.ravel())
            h.append(table[codes[i], other])
            group.append(i)
    return np.array(A), np.array(h), np.array(group)


def sample_weights(case: Case, classes: Array, codes: Array, only: int | None = None) -> Array:
    """Weights of samples times those of their classes, or of one class only."""
    data = case.data
    s = np.ones(len(codes)) if data["sample_weight"] is None else np.asarray(data["sample_weight"])
    factors = data["params"].get("class_weight")
    if factors is None:
        return s
    if factors == "balanced":
        by_class = len(codes) / (len(classes) * np.bincount(codes))
    else:
        by_class = np.array([factors.get(int(c), 1.0) for c in classes])
    if only is not None:
        by_class = np.where(np.arange(len(classes)) == only, by_class, 1.0)
    return s * by_class[codes]


def run(case: Case) -> Outcome:
    """Fit and check."""
    return linear.run_fit(case, LinearSVC, program_of)


def reproduce(case: Case) -> str:
    """Python code that reproduces the fit."""
    return linear.shown(case, NAME)


def smaller(case: Case) -> Iterator[Case]:
    """Simpler problems with the same number of classes."""
    for candidate in wild.smaller(case, keep=("cost",)):
        if len(np.unique(candidate.data["y"])) == len(np.unique(case.data["y"])):
            yield candidate
