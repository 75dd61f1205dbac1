"""LogisticRegression: two and more classes, with unpenalized intercepts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from tests.reference_optima.program import Array, Program

from fuzz import linear, svc
from fuzz.framework import Case, Outcome
from maxmargin import LogisticRegression

NAME = "LogisticRegression"
#: parameters of LinearSVC that are constants here
CONSTANTS = ("loss", "multi_class", "cost", "penalize_intercept")


def draw(rng: np.random.Generator) -> Case:
    """A classification problem as for LinearSVC."""
    case = svc.draw(rng)
    while "/" not in case.kind or "cutting" in case.kind or "coordinate" in case.kind:
        case = svc.draw(rng)
    params = {k: v for k, v in case.data["params"].items() if k not in CONSTANTS}
    _, *options = case.kind.split("/")[0].split("+")
    kind = "+".join([f"{len(np.unique(case.data['y']))} classes", *options])
    tame = "/tame" if case.data["tame"] else ""
    return replace(case, family=NAME, kind=kind + tame, data={**case.data, "params": params})


def program_of(case: Case, fitted: Any) -> tuple[Program, Array]:
    """The documented problem, and the returned weights."""
    fixed = {"loss": "logistic", "multi_class": "multinomial", "penalize_intercept": False}
    return svc.program_of(case.with_data(params={**case.data["params"], **fixed}), fitted)


def run(case: Case) -> Outcome:
    """Fit and check."""
    return linear.run_fit(case, LogisticRegression, program_of)


def reproduce(case: Case) -> str:
    """Python code that reproduces the fit."""
    return linear.shown(case, NAME)


def smaller(case: Case) -> Iterator[Case]:
    """Simpler problems with the same number of classes."""
    yield from svc.smaller(case)
