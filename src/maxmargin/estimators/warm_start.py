"""Warm-start state: the working sets of a fit, for the next fit to the same examples.

The planes of a working set are differences between outputs of the examples of the fit. With other
examples, bounds would be wrong. Therefore sets are stored with a fingerprint of everything they depend on:
the data and the task. C and sample weights may change; they only scale dual variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import joblib

from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.result import SolveResult
from maxmargin.solvers import AutoStructured, DualCoordinate

#: parameters that do not change which problem is solved, only how
HOW = (
    "C", "tol", "solver", "max_iter", "max_seconds", "n_jobs", "engine", "warm_start",
    "random_state", "callbacks", "verbose", "max_support", "checkpoint",
)  # fmt: skip


def fingerprint(*parts: Any) -> str | None:
    """A hash of the contents of these objects; None if one of them cannot be pickled."""
    try:
        return str(joblib.hash(parts))
    except Exception:  # objects of the user may raise anything; then nothing is kept
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Working sets, the fingerprint they belong to, and further data of the caller."""

    about: str
    sets: WorkingSets
    more: Any = None


def keep(about: str | None, result: SolveResult, more: Any = None) -> Kept | None:
    """The working sets of a result, if it has any and a fingerprint is known."""
    if about is None or not hasattr(result.dual, "absorb"):
        return None
    return Kept(about, result.dual, more)


def recall(kept: Kept | None, about: str | None, solver: Any) -> Kept | None:
    """The stored sets, if the fingerprint is the same and this solver can continue from them."""
    same = kept is not None and about is not None and kept.about == about
    return kept if same and isinstance(solver, DualCoordinate | AutoStructured) else None
