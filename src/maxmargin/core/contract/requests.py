"""What a solver may ask for.

A solver is a generator: it yields one of the requests below and is sent the answer, a passive
value. It does no input or output, starts no thread and does not depend on timing. So the same loop can be
answered by any risk on any engine, checkpointed between two requests, or tested with a script.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from maxmargin.core.contract.block_duals import BlockDuals
from maxmargin.core.contract.evaluation import Evaluation, LineEvaluation
from maxmargin.core.contract.row_duals import RowDuals
from maxmargin.core.contract.sweeps import Blocks, Streaming
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.sampling import Draw
from maxmargin.core.vectors import Array, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate:
    """Evaluate the risk at ``w``. Answer: an Evaluation.

    ``exact=False``: on the cached constraints, of which ``cache_size`` are kept per example from now on."""

    w: Array
    exact: bool = True
    cache_size: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Toward:
    """The evaluation at ``a.w + t (b.w - a.w)``. Answer: a LineEvaluation; no pass over the data.

    ``value=False``: only its cut will be asked for, so the value need not be summed.
    """

    a: LineEvaluation
    b: LineEvaluation
    t: float
    value: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """Right derivatives of the risk on the line from ``a`` to ``b``. Answer: an array."""

    a: LineEvaluation
    b: LineEvaluation
    ts: Array


@dataclass(frozen=True, slots=True, eq=False)
class Breakpoints:
    """Kinks of the risk on the line, in (lo, hi). Answer: (ts, jumps), or None if too many."""

    a: LineEvaluation
    b: LineEvaluation
    lo: float
    hi: float
    limit: int


@dataclass(frozen=True, slots=True, eq=False)
class TakeCut:
    """The cut at an evaluated point.

    ``trial`` solves the reduced problem, and ``model`` is the model's risk there: for whoever draws cuts
    from some of the examples. ``draw``: one cut made of these examples (of a SampledEvaluation), as a new
    plane; its offset, and the plane in free coordinates, are those of all examples if ``whole``."""

    at: Evaluation
    trial: Evaluation | None = None
    model: float = float("nan")
    draw: Draw | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Extend:
    """Sample ``size`` of all examples, with this seed; the risk is that of the examples of the last ``held``
    samples, each of which stands for as many. Answer: the indices, among those, of the ones sampled now.
    Points must be evaluated again."""

    size: int
    seed: int
    held: int


@dataclass(frozen=True, slots=True, eq=False)
class Open:
    """Dual variables for this C, improved by this method. Answer: WorkingSets, BlockDuals, or RowDuals; for
    "sample" a RowSample.

    ``held``: working sets of another C, which are rescaled. The other parameters are for rows.
    """

    method: Literal[
        "working sets",
        "kernel blocks",
        "coordinate",
        "block coordinate",
        "shard coordinate",
        "newton",
        "quasi-newton",
        "stream",
        "sample",
    ]
    C: float
    held: WorkingSets | None = None
    streaming: Streaming | None = None
    blocks: Blocks | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """One sweep over the examples in this order. Answer: SweepStats.

    ``"epoch"``: over the planes in memory. ``"stream"``: the oracle is called for each example that has a
    duality gap of ``skip_below`` or more, and its block step follows. ``"batches"``: the same with
    ``batch_size`` calls at one w, which an engine can answer in parallel."""

    sets: WorkingSets
    kind: Literal["stream", "batches", "epoch"]
    order: IntArray
    skip_below: float = 0.0
    batch_size: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Confirm:
    """The oracle on all examples at ``w``, the sets' present point or the first point of the fit, if the sets
    are new. Answer: (value, upper) of C R(w).

    ``expensive``: ask for few examples at a time, and tell how many have been answered."""

    sets: WorkingSets
    w: Array
    expensive: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Improve:
    """One epoch, Newton step or block. Answer: SweepStats."""

    duals: RowDuals | BlockDuals
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """Show the duals the scores of ``at``, which was evaluated at their present point. Answer: None."""

    duals: RowDuals
    at: LineEvaluation


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """End of an iteration. Answer: a stop reason, or None to go on.

    ``C`` is the one the iteration worked at, where that is not yet the problem's own.
    """

    n_cuts: int
    n_active: int
    step: float | None = None
    method: str = ""
    C: float | None = None


Request: TypeAlias = (
    Evaluate
    | Toward
    | Slopes
    | Breakpoints
    | TakeCut
    | Extend
    | Open
    | Sweep
    | Confirm
    | Improve
    | Check
    | Report
)
Steps: TypeAlias = Generator[Request, Any, None]
