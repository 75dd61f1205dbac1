"""Working sets that one fit leaves for the next one, if that is about the same examples.

The planes of a working set are differences of the examples it was made for. With other examples in their
place bounds would be false, so sets are kept together with a fingerprint of all they depend on: the data, to
the last bit, and the task. C and weights of examples may change; they only scale multipliers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import joblib

from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.result import SolveResult
from maxmargin.solvers import AutoStructured, DualCoordinate

#: parameters that say how to solve the problem, not which one
HOW = (
    "C", "tol", "solver", "max_iter", "max_seconds", "n_jobs", "engine", "warm_start",
    "random_state", "callbacks", "verbose", "max_support", "checkpoint",
)  # fmt: skip


def fingerprint(*parts: Any) -> str | None:
    """A hash of the contents of these objects; None where one cannot be pickled."""
    try:
        return str(joblib.hash(parts))
    except Exception:  # whatever a user's object raises: then nothing is kept
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Sets, what they are about, and what the caller wants back with them."""

    about: str
    sets: WorkingSets
    more: Any = None


def keep(about: str | None, result: SolveResult, more: Any = None) -> Kept | None:
    """The working sets of a result, if it has any and it is known what they are about."""
    if about is None or not hasattr(result.dual, "absorb"):
        return None
    return Kept(about, result.dual, more)


def recall(kept: Kept | None, about: str | None, solver: Any) -> Kept | None:
    """What was kept, if it is about the same and this solver can go on from it."""
    same = kept is not None and about is not None and kept.about == about
    return kept if same and isinstance(solver, DualCoordinate | AutoStructured) else None
