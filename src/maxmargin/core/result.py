"""The result of a fit: bounds, stop reason, kind of certificate, and history."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Literal, TypeAlias

import numpy as np

from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.row_duals import RowDuals
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.vectors import Array

StopReason: TypeAlias = Literal[
    "gap",
    "max_iter",
    "max_seconds",
    "callback",
    "interrupted",
    "stalled",
    "rounding",
    "sampled",
    "cccp",
    "partial",
]
Certificate: TypeAlias = Literal[
    "exact", "relaxed", "restricted", "lower_only", "measured", "local"
]

#: what the certificate guarantees for each kind of oracle
CERTIFICATE_OF: dict[OracleKind, Certificate] = {
    "exact": "exact",
    "overgenerating": "relaxed",
    "undergenerating": "lower_only",
    "sampled": "measured",
}


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """One iteration: the bounds, the bundle size, and the time spent (seconds).

    ``method`` ran this iteration at this ``C``: on the way to a large C a solver may work at smaller ones.
    The bounds are always those of the requested problem. ``n_cuts`` counts planes (or rows still active),
    ``n_active`` those with a nonzero multiplier. The last four fields are 0 unless the workers are other
    processes: the number of rounds of calls, the seconds spent waiting for them, and the bytes of arguments
    and results. A vector that goes to all machines of a cluster counts once for each.
    """

    iteration: int
    objective: float
    lower_bound: float
    gap: float
    n_cuts: int
    n_active: int
    step: float | None
    oracle_calls: float
    seconds_oracle: float
    seconds_plane: float
    seconds_line_search: float
    seconds_qp: float
    elapsed: float
    method: str = ""
    C: float = float("nan")
    rounds: int = 0
    seconds_rounds: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SolveResult:
    """The result of :func:`maxmargin.minimize`.

    Attributes
    ----------
    w : array
        The best point found.
    objective : float
        F(w): an upper bound of the optimum (NaN if it could not be evaluated).
    lower_bound : float
        A lower bound of the optimum, from a feasible dual point.
    gap : float
        (objective - lower_bound) / objective.
    converged : bool
        Whether valid bounds met the stopping rule.
    stop_reason, certificate : str
        Why the solver stopped, and what the bounds guarantee.
    n_iter : int
        Number of iterations.
    history : list of IterationRecord
        One record per iteration.
    oracle_calls : float
        Number of passes over the data (oracle calls per example).
    """

    w: Array
    objective: float
    lower_bound: float
    gap: float
    converged: bool
    stop_reason: StopReason
    certificate: Certificate
    n_iter: int
    history: list[IterationRecord] = field(repr=False)
    oracle_calls: float = 0.0
    dual: Any = field(default=None, repr=False)
    duals: dict[str, RowDuals] = field(default_factory=dict, repr=False)
    #: the dual point of the lower bound
    proof: FeasibleDual | None = field(default=None, repr=False)

    def claiming(self, certificate: Literal["restricted", "measured"]) -> SolveResult:
        """The same result without a lower bound: F is valid, but the bound was that of a smaller set of
        functions ("restricted") or no bound at all ("measured")."""
        return replace(
            self,
            certificate=certificate,
            lower_bound=-float("inf"),
            gap=float("inf"),
            converged=False,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A starting point for a solver, with the warm-start state of an earlier one. A :class:`SolveResult` of
    the same risk can be used instead."""

    w: Array
    dual: Any = None
    duals: dict[str, RowDuals] = field(default_factory=dict)


def relative_gap(upper: float, lower: float) -> float:
    """(upper - lower) / upper, at least zero; infinite if a bound is missing."""
    if not (isfinite(upper) and isfinite(lower)):
        return float("inf")
    if upper <= lower:
        return 0.0
    return float((upper - lower) / abs(upper)) if upper != 0.0 else float("inf")


def bounds_in_words(objective: float, lower_bound: float, gap: float) -> str:
    """Describe the bounds of a point for a message.

    Examples
    --------
    >>> bounds_in_words(2.0, 1.5, 0.25), bounds_in_words(2.0, -float("inf"), float("inf"))
    ('gap 0.25 (objective 2, lower bound 1.5)', 'no certified gap (objective 2, no lower bound)')
    """
    upper = "objective not evaluated" if np.isnan(objective) else f"objective {objective:.6g}"
    lower = f"lower bound {lower_bound:.6g}" if np.isfinite(lower_bound) else "no lower bound"
    known = f"gap {gap:.2g}" if np.isfinite(gap) else "no certified gap"
    return f"{known} ({upper}, {lower})"
