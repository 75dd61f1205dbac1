"""The plan of a grid of linear classifiers: which cells lie on one path of C.

A cell is (split, class weights, C). Its problem depends on the weights only through C times the
factor of each class, so cells whose factors are proportional lie on one path of C: a *chain*. Along
a chain each cell starts from the last one's solution; see :mod:`maxmargin.estimators.linear.grid_paths`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.stopping import StoppingRule
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.grid_table import CellId
from maxmargin.losses import ScoreLoss

#: with more splits than this, runs of rows that splits have in common may be many and short
MANY_SPLITS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The rows, the splits, and what is to be trained on them."""

    X: Any
    codes: IntArray
    weight: Array
    trains: Sequence[IntArray]
    Cs: Array
    factors: Sequence[Sequence[Array | None]]
    """Factors of the classes by split and class weights; None where a class is missing."""
    loss: ScoreLoss
    targets: Sequence[Any]
    """Labels as the loss wants them; one per class where each is trained against the rest."""
    intercept: float
    regularizer: Callable[[IntArray, Array, float], SquaredNorm]
    """From rows, the weights of all rows, and C."""
    stopping: StoppingRule
    max_iter: int | None
    n_jobs: int | None
    random_state: int

    def shares_rows(self) -> bool:
        """Whether splits can be runs of rows in one order: not too many, and no row twice."""
        return len(self.trains) <= MANY_SPLITS and all(
            np.bincount(train).max() == 1 for train in self.trains
        )

    def key(self, id: CellId) -> tuple[int, tuple[float, ...]]:
        """The chain of a cell: its split and the ratios of its factors."""
        factor = self._factor(id)
        return id[0], tuple(np.round(factor / factor.max(), 12).tolist())

    def C(self, id: CellId) -> float:
        """C times the largest factor."""
        return float(self.Cs[id[2]] * self._factor(id).max())

    def _factor(self, id: CellId) -> Array:
        factor = self.factors[id[0]][id[1]]
        assert factor is not None
        return factor

    def chains(self, ids: Iterable[CellId]) -> dict[Any, list[tuple[float, list[CellId]]]]:
        """By chain, ascending values of C with the cells that have it; equal problems are one."""
        out: dict[Any, list[tuple[float, list[CellId]]]] = {}
        for id in sorted(ids, key=lambda id: (id[0], self.C(id))):
            stages = out.setdefault(self.key(id), [])
            if stages and self.C(id) <= stages[-1][0] * (1.0 + 1e-12):
                stages[-1][1].append(id)
            else:
                stages.append((self.C(id), [id]))
        return out
