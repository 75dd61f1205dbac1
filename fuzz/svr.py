"""LinearSVR: epsilon-insensitive, squared epsilon-insensitive and quantile losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.reference_optima.program import LONG, Array, Program

from fuzz import linear, wild
from fuzz.framework import Case, Outcome
from maxmargin import LinearSVR

NAME = "LinearSVR"


def draw(rng: np.random.Generator) -> Case:
    """A random regression problem."""
    tame = wild.chance(rng, 0.25)
    n, d = wild.shape(rng)
    X, stored = wild.matrix(rng, n, d, tame)
    params = wild.settings(rng, tame)
    wild.intercept(rng, params)
    y = rng.normal(size=n)
    if wild.chance(rng, 0.3):
        y = X.astype(float) @ rng.normal(size=d) + 0.1 * y
    scale = wild.pick(
        rng, 1.0, 1.0, 1e-6, 1e-4, wild.power(rng, -4, 4) if tame else wild.power(rng, -12, 8)
    )
    y = y / max(1e-300, np.abs(y).max()) * scale
    if wild.chance(rng, 0.1):
        y = np.full(n, wild.pick(rng, 0.0, scale))
    if wild.chance(rng, 0.5):
        params["epsilon"] = float(scale * wild.pick(rng, 0.1, 0.5, 2.0, wild.power(rng, -8, 0)))
    kind = "absolute"
    if wild.chance(rng, 0.35):
        kind, params["loss"] = "squared", "squared_epsilon_insensitive"
    elif wild.chance(rng, 0.4):
        kind, params["loss"] = "quantile", "quantile"
        params["quantile"] = wild.pick(rng, 0.5, 0.1, 0.9, 0.999, float(rng.uniform(0.01, 0.99)))
        params.pop("epsilon", None)
    margin = None
    if kind != "quantile" and wild.chance(rng, 0.12):
        margin = scale * rng.random(n)
        kind += "+margin"
    elif wild.chance(rng, 0.2):
        kind += "+" + wild.about_weights(rng, params, d, tame)
    solver = str(params.get("solver", "auto")).removesuffix("()").lower()
    data = {
        "X": X,
        "stored": stored,
        "y": y,
        "sample_weight": wild.weights(rng, n, tame),
        "sample_epsilon": margin,
        "params": params,
        "tame": tame,
        "also": wild.pick(rng, "", "", "", "", "jobs", "file", "resume"),
    }
    return Case(NAME, f"{kind}/{solver}{'/tame' if tame else ''}", 0, data)


def program_of(case: Case, fitted: Any) -> tuple[Program, Array]:
    """The documented problem, and the returned weights."""
    data, params = case.data, case.data["params"]
    X, y = linear.features(case), np.asarray(data["y"], dtype=float)
    n, d = np.asarray(data["X"]).shape
    s = np.ones(n) if data["sample_weight"] is None else data["sample_weight"]
    tube = (
        np.full(n, params.get("epsilon", 0.0))
        if data["sample_epsilon"] is None
        else data["sample_epsilon"]
    )
    high = y.astype(LONG)  # y - epsilon may round in double precision
    group, cost = np.tile(np.arange(n), 2), params.get("C", 1.0) * s
    if params.get("loss") == "quantile":  # two losses per sample
        group, q = np.arange(2 * n), params["quantile"]
        cost = np.concatenate([q * cost, (1.0 - q) * cost])
    program = Program(
        **linear.norm(params, d, has_intercept=X.shape[1] > d),
        A=np.concatenate([-X, X]),
        h=np.concatenate([high - tube, -high - tube]),
        group=group,
        cost=cost,
        squared=params.get("loss", "").startswith("squared"),
    )
    return program, linear.weights_of(case, fitted)[0]


def run(case: Case) -> Outcome:
    """Fit and check."""
    return linear.run_fit(case, LinearSVR, program_of)


def reproduce(case: Case) -> str:
    """Python code that reproduces the fit."""
    return linear.shown(case, NAME)


def smaller(case: Case) -> Iterator[Case]:
    """Simpler problems."""
    yield from wild.smaller(case)
