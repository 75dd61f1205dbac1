"""The objective Omega(w) + C R(w), with a convex risk R whose evaluations return cuts.

Cutting-plane methods need only :class:`Risk`. Other methods need more: each such capability is a
protocol, here or in a file with its mathematics, and :attr:`Risk.offers` holds the object that implements it,
usually the risk itself. A solver declares what it needs (:class:`maxmargin.solvers.requirements.Needs`) and
never sees data, labels, threads or machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from maxmargin.core.bundle_solution import DualPoint
from maxmargin.core.contract.block_duals import BlockRisk
from maxmargin.core.contract.evaluation import Evaluation, OracleKind
from maxmargin.core.contract.row_duals import RowDualRisk, RowShape
from maxmargin.core.contract.sampled import GrowingRisk
from maxmargin.core.contract.wide import NumberedPlanes
from maxmargin.core.contract.working_sets import WorkingSetRisk
from maxmargin.core.engine import Engine
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, Vector


class CachingRisk(Protocol):
    """A risk with a cache of constraints: there ``evaluate(w, exact=False)`` is a lower bound, and points
    move along lines."""

    @property
    def cache_saves(self) -> bool:
        """Whether it takes much less time than an exact evaluation."""

    def resize_cache(self, size: int) -> None:
        """Cache ``size`` constraints per example from now on; a cache of another size is dropped. Points of
        the model must be evaluated again."""


class ProvedRisk(Protocol):
    """A risk that bounds the rounding errors of its values, so that certificates account for them."""

    def value(self, w: Array) -> float:
        """R(w) alone: scores of many columns are not kept."""

    def rounding(self, w: Array, value: float) -> float:
        """Bound on the rounding error of ``value``, the computed R(w)."""

    def raised(self, w: Array, value: float, rest: float) -> float:
        """An upper bound of R(w), computed as ``value``, which may ignore what is negligible beside ``value +
        rest``."""


@dataclass(frozen=True, slots=True, eq=False)
class Capabilities:
    """The capabilities of a risk besides evaluation: the implementing objects, None for those missing.

    Parameters
    ----------
    row_duals : RowDualRisk, optional
        Dual methods over samples: coordinate ascent, Newton, out-of-core streaming.
    blocks : BlockRisk, optional
        The dual of a kernel machine, optimized over large blocks of samples.
    working_sets : WorkingSetRisk, optional
        Dual coordinate ascent over the outputs of single examples.
    growing : GrowingRisk, optional
        A risk over a sample of the examples, which can be enlarged.
    wide : WideRisk, optional
        The same risk with planes that stay with the rows.
    numbered_planes : NumberedPlanes, optional
        Points are combinations of numbered planes, which must be compacted from time to time.
    caching : CachingRisk, optional
        A cache of constraints, the risk over which is a lower bound.
    proved : ProvedRisk, optional
        Bounds on rounding errors.
    engine : Engine, optional
        The engine that holds the shards, for the record of what it sends.

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
    caching: CachingRisk | None = None
    proved: ProvedRisk | None = None
    engine: Engine | None = None


@runtime_checkable
class Risk(Protocol):
    """A convex function whose evaluation at a point returns a cut that is tight there."""

    @property
    def dim(self) -> int:
        """Length of ``w``."""

    @property
    def n_examples(self) -> int:
        """Number of samples or examples; 0 if undefined."""

    @property
    def n_blocks(self) -> int:
        """Number of cuts in :meth:`Evaluation.cuts`."""

    @property
    def lower_bound(self) -> float:
        """A lower bound of the risk of every block (0 for all losses)."""

    @property
    def oracle(self) -> OracleKind:
        """What the oracle behind the values finds."""

    @property
    def offers(self) -> Capabilities:
        """Further capabilities of this risk; ``Capabilities()`` if there are none."""

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """Evaluate at ``w``. With ``exact=False`` a risk that offers ``caching`` answers from its cache."""


class WideFit(Risk, Protocol):
    """A risk over combinations of planes, with a map back to weights; see
    :mod:`maxmargin.core.contract.wide`."""

    @property
    def regularizer(self) -> SquaredNorm:
        """Half the squared norm of points."""

    @property
    def engine(self) -> Engine:
        """The engine that holds the planes."""

    @property
    def shape(self) -> RowShape:
        """The size of the problem over rows."""

    @property
    def max_planes(self) -> int:
        """Maximum number of planes in a bundle."""

    @property
    def n_scores(self) -> int:
        """Number of scores of all rows: the length of a plane at the shards."""

    def forget(self) -> None:
        """Drop all planes."""

    def weights(self, point: Array) -> Array:
        """The weights that a point represents."""

    def dual(self, dual: FeasibleDual) -> DualPoint:
        """The dual point in terms of weights."""

    @property
    def n_mixes(self) -> int:
        """How many times the numbers have been reassigned."""

    def columns_state(self) -> dict[str, Any]:
        """The planes, as plain arrays."""

    def restore_columns(self, state: dict[str, Any]) -> None:
        """Continue with planes of :meth:`columns_state`; raise ValueError if they are not of this risk."""

    def require_columns(self, vectors: Sequence[Vector]) -> None:
        """Raise ValueError unless points and planes from a file are combinations of existing planes."""

    def close(self) -> None:
        """Return the engine to the risk over weights."""


class WideRisk(Protocol):
    """A risk of scores X w whose planes can stay with the rows."""

    def in_span(self, regularizer: SquaredNorm, max_planes: int | None = None) -> WideFit:
        """The same risk with combinations of planes as points."""
