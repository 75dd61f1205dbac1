"""What is minimized: Omega(w) + C R(w), with a convex risk R that answers an evaluation with a cut.

:class:`Risk` is all that cutting planes need. Other methods need more: each such capability is a protocol in
a file of its own, and :attr:`Risk.offers` names the object that has it, usually the risk itself. A solver
declares which it needs (:class:`maxmargin.solvers.requirements.Needs`), and never sees data, labels,
threads or machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from maxmargin.core.bundle_solution import DualPoint
from maxmargin.core.contract.block_duals import BlockRisk
from maxmargin.core.contract.evaluation import Evaluation, OracleKind
from maxmargin.core.contract.proved import ProvedRisk
from maxmargin.core.contract.row_duals import RowDualRisk
from maxmargin.core.contract.sampled import GrowingRisk
from maxmargin.core.contract.wide import KeptPlanes, NumberedPlanes, PlaneColumns
from maxmargin.core.contract.working_sets import WorkingSetRisk
from maxmargin.core.engine import Engine
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True, eq=False)
class Capabilities:
    """What a risk offers besides evaluations: the object that has each capability, None where it is missing.

    Parameters
    ----------
    row_duals : RowDualRisk, optional
        Dual methods over rows: coordinate ascent, Newton, streams.
    blocks : BlockRisk, optional
        Large blocks of rows of a kernel.
    working_sets : WorkingSetRisk, optional
        Dual coordinate ascent over outputs of single examples.
    growing : GrowingRisk, optional
        A risk of some of the examples, which can grow.
    wide : WideRisk, optional
        The same risk with planes that stay where the rows are.
    numbered_planes : NumberedPlanes, optional
        Points are combinations of numbered planes, which must be tidied.
    kept_planes : KeptPlanes, optional
        Such planes, as a checkpoint describes them.
    proved : ProvedRisk, optional
        Bounds of rounding errors.
    engine : Engine, optional
        Where the shards of the risk live.
    expensive_slopes : bool, default False
        A slope on a line costs as much as a cut: lines are searched with few of them.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.losses import Hinge
    >>> from maxmargin.risks import ScoreRisk
    >>> risk = ScoreRisk(np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), Hinge())
    >>> risk.offers.row_duals is risk, risk.offers.working_sets
    (True, None)
    """

    row_duals: RowDualRisk | None = None
    blocks: BlockRisk | None = None
    working_sets: WorkingSetRisk | None = None
    growing: GrowingRisk | None = None
    wide: WideRisk | None = None
    numbered_planes: NumberedPlanes | None = None
    kept_planes: KeptPlanes | None = None
    proved: ProvedRisk | None = None
    engine: Engine | None = None
    expensive_slopes: bool = False


@runtime_checkable
class Risk(Protocol):
    """A convex function that can be evaluated and answers with a cut that is tight there."""

    @property
    def dim(self) -> int:
        """Length of ``w``."""

    @property
    def n_examples(self) -> int:
        """Number of rows or examples; 0 where there is no such number."""

    @property
    def n_blocks(self) -> int:
        """Number of parts in :meth:`Evaluation.cuts`."""

    @property
    def lower_bound(self) -> float:
        """A number that every block of the risk never falls below (0 for all losses)."""

    @property
    def oracle(self) -> OracleKind:
        """What the argmax behind the values finds."""

    @property
    def has_cache(self) -> bool:
        """True if ``evaluate(w, exact=False)`` is cheaper than an exact evaluation."""

    @property
    def offers(self) -> Capabilities:
        """What else this risk can do; ``Capabilities()`` for nothing else."""

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """Evaluate at ``w``; with ``exact=False`` a risk may answer from constraints seen before."""


class WideFit(Risk, Protocol):
    """A risk over combinations of planes, and the way back to weights; see
    :mod:`maxmargin.core.contract.wide`."""

    @property
    def regularizer(self) -> SquaredNorm:
        """Half the squared norm of points."""

    @property
    def columns(self) -> PlaneColumns:
        """How the planes were made."""

    def take(self, columns: PlaneColumns, kept: list[Any] | None) -> None:
        """Go on with the planes of an earlier fit."""

    def keep(self) -> list[Any] | None:
        """What shards hold, where they live in this process: for a later fit."""

    def weights(self, point: Array) -> Array:
        """The weights that a point stands for."""

    def dual(self, dual: FeasibleDual) -> DualPoint:
        """The dual point over weights."""

    def close(self) -> None:
        """Give the engine back to the risk over weights."""


class WideRisk(Protocol):
    """A risk of scores X w, whose planes can stay where the rows are."""

    def in_span(self, regularizer: SquaredNorm, max_planes: int | None = None) -> WideFit:
        """The same risk with combinations of planes for points."""
