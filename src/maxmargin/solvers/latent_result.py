"""The result of the concave-convex procedure, and the record of a convex step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maxmargin.core.result import IterationRecord, StopReason
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True)
class StepRecord(IterationRecord):
    """One convex step: the latent objective after it, and the certificate of the convex problem.

    ``lower_bound`` is minus infinity and ``gap`` infinite: those of the latent problem are unknown.
    ``n_changed`` counts the examples whose completion changed after the step.
    """

    n_changed: int = 0
    convex_objective: float = float("nan")
    convex_lower_bound: float = -float("inf")
    convex_gap: float = float("inf")
    convex_iterations: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LatentResult:
    """The result of :func:`minimize_latent`.

    Attributes
    ----------
    w : array
        The best point found.
    objective : float
        The latent objective F(w) (NaN if Ctrl-C came before it was computed).
    latent : list
        The best completions at ``w``.
    convex_objective, convex_lower_bound, convex_gap : float
        The last convex problem at ``w``: its objective there, a lower bound of its optimum, and their
        relative gap.
    stop_reason : str
        "cccp" at a fixed point of the procedure.
    n_iter : int
        Number of convex steps.
    history : list of StepRecord
        One record per convex step.
    oracle_calls : float
        Number of passes of loss-augmented inference over the data.
    completions : int
        Number of passes of completion over the data.
    """

    w: Array
    objective: float
    latent: list[Any]
    convex_objective: float
    convex_lower_bound: float
    convex_gap: float
    stop_reason: StopReason
    n_iter: int
    history: list[StepRecord] = field(repr=False)
    oracle_calls: float = 0.0
    completions: int = 0
