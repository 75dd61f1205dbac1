"""What the concave-convex procedure returns: its result, and a record of each convex step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maxmargin.core.result import IterationRecord, StopReason
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True)
class StepRecord(IterationRecord):
    """One convex step: the latent objective after it, and the certificate of the convex problem.

    ``lower_bound`` is minus infinity and ``gap`` infinite: those of the latent problem are not known.
    ``n_changed`` counts the examples that were completed anew after the step.
    """

    n_changed: int = 0
    convex_objective: float = float("nan")
    convex_lower_bound: float = -float("inf")
    convex_gap: float = float("inf")
    convex_iterations: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LatentResult:
    """The outcome of :func:`minimize_latent`.

    Attributes
    ----------
    w : array
        The best point seen.
    objective : float
        The latent objective F(w) (NaN if Ctrl-C came before it was known).
    latent : list
        The best completions at ``w``.
    convex_objective, convex_lower_bound, convex_gap : float
        The last convex problem at ``w``: its objective there, a lower bound of its optimum, their
        relative gap.
    stop_reason : str
        "cccp" at a fixed point of the procedure.
    n_iter : int
        Convex steps.
    history : list of StepRecord
        One record per convex step.
    oracle_calls : float
        Passes of the loss-augmented argmax over the data.
    completions : int
        Passes of the completing argmax over the data.
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
