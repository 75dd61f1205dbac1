"""OrdinalSVC: all and immediate thresholds, with the three losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.reference_optima.logistic import LogProgram
from tests.reference_optima.program import Array, Program

from fuzz import linear, svc, wild
from fuzz.framework import Case, Outcome
from maxmargin import OrdinalSVC

NAME = "OrdinalSVC"


def draw(rng: np.random.Generator) -> Case:
    """A random problem of ordered classes."""
    tame = wild.chance(rng, 0.25)
    n, d = wild.shape(rng)
    classes = int(rng.integers(2, 7))
    n = max(n, classes)
    X, stored = wild.matrix(rng, n, d, tame)
    params = wild.settings(rng, tame)
    if "DualCoordinate" in params.get("solver", ""):
        del params["solver"]  # it penalizes every weight
    params["thresholds"] = wild.pick(rng, "all", "immediate")
    params["loss"] = wild.pick(rng, "hinge", "squared_hinge", "logistic")
    y = svc.labels(rng, X, classes)
    if wild.chance(rng, 0.5):  # grades of a noisy score
        unit = X.astype(float) / np.maximum(1e-300, np.abs(X.astype(float)).max(axis=0))
        score = unit @ rng.normal(size=d) + wild.pick(rng, 0.0, 0.3, 2.0) * rng.normal(size=n)
        y = np.argsort(np.argsort(score)) * classes // n
    if wild.chance(rng, 0.2):
        params["class_weight"] = wild.pick(
            rng, "balanced", {int(k): float(wild.power(rng, -2, 2)) for k in np.unique(y)}
        )
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
    kind = f"{params['thresholds']} {params['loss']}/{solver}{'/tame' if tame else ''}"
    return Case(NAME, kind, 0, data)


def program_of(case: Case, fitted: Any) -> tuple[Program, Array]:
    """The documented problem, and the returned weights and thresholds."""
    data, params = case.data, case.data["params"]
    classes, codes = np.unique(data["y"], return_inverse=True)
    X = np.asarray(data["X"], dtype=float)
    n, d, last = *X.shape, len(classes) - 1
    weight = params.get("C", 1.0) * svc.sample_weights(case, classes, codes)
    A, cost = [], []
    for i in range(n):
        for j in range(last):
            if params["thresholds"] == "immediate" and codes[i] not in (j, j + 1):
                continue
            sign = 1.0 if codes[i] > j else -1.0
            A.append(np.concatenate([-sign * X[i], sign * np.eye(last)[j]]))
            cost.append(weight[i])
    logistic = params["loss"] == "logistic"
    program = (LogProgram if logistic else Program)(
        center=np.zeros(d + last),
        precision=np.concatenate([np.ones(d), np.zeros(last)]),
        A=np.array(A),
        h=np.full(len(A), 0.0 if logistic else 1.0),
        group=np.arange(len(A)),
        cost=np.array(cost),
        squared=params["loss"] == "squared_hinge",
    )
    return program, np.concatenate([fitted.coef_, fitted.thresholds_])


def run(case: Case) -> Outcome:
    """Fit and check."""
    return linear.run_fit(case, OrdinalSVC, program_of)


def reproduce(case: Case) -> str:
    """Python code that reproduces the fit."""
    return linear.shown(case, NAME)


def smaller(case: Case) -> Iterator[Case]:
    """Simpler problems with the same number of classes."""
    yield from svc.smaller(case)
