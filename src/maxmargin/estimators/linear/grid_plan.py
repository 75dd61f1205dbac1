"""The plan of a grid of linear classifiers: which cells lie on one path of C.

A cell is (split, class weights, C). Its problem depends on the weights only through C times the
factor of each class, so cells whose factors are proportional lie on one path of C: a *chain*. (One-vs-rest
with several classes: each problem multiplies one class only, and factors must be equal.) Along a chain each
cell starts from the last one's solution; see :mod:`maxmargin.estimators.linear.grid_paths`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import as_design
from maxmargin.estimators.grid_table import CellId
from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.linear.problem import LinearModel, linear_model
from maxmargin.estimators.validation import Classes, Training
from maxmargin.losses import OneVsRestSquaredHinge, ScoreLoss

#: with more splits than this, runs of rows that splits have in common may be many and short
MANY_SPLITS = 20


@dataclass(slots=True, eq=False)
class Grid:
    """The rows, the splits, and what is to be trained on them."""

    X: Any
    codes: IntArray
    weight: Array
    trains: Sequence[IntArray]
    Cs: Array
    factors: Sequence[Sequence[Array | None]]
    """Factors of the classes by split and class weights; None where a class is missing."""
    svc: LinearSVC
    """With the parameters that all cells share."""
    classes: Any
    model: LinearModel = field(init=False)
    """The problem of all rows, without class weights."""

    def __post_init__(self) -> None:
        self.model = self._model(self.svc, self.X, self.codes, self.weight)

    def _model(self, svc: LinearSVC, X: Any, codes: IntArray, weight: Array) -> LinearModel:
        data = Training(as_design(X, checked=True), codes, weight)
        counts = np.bincount(codes, minlength=len(self.classes))
        return linear_model(svc, data, Classes(self.classes, codes, counts), together=True)

    def regularizer(self, split: int, ratios: Sequence[float], C: float) -> SquaredNorm:
        """The norm of a cell, given the factors of the classes."""
        if self.model.intercept == 0.0 or self.svc.penalize_intercept:
            return SquaredNorm()
        factors = dict(zip(self.classes.tolist(), ratios, strict=True))
        svc, rows = copy(self.svc).set_params(C=C, class_weight=factors), self.trains[split]
        return self._model(svc, self.X[rows], self.codes[rows], self.weight[rows]).regularizer

    def problems(self, ratios: Sequence[float]) -> Iterator[tuple[Any, ScoreLoss, Array]]:
        """Labels, loss, and weights of all rows of each problem, given the factors of the classes."""
        factors, model = np.array(ratios), self.model
        if isinstance(model.loss, OneVsRestSquaredHinge):
            loss = OneVsRestSquaredHinge(len(factors), model.loss.margin, factors)
            yield model.targets[0], loss, self.weight
        elif not self._separate:
            yield model.targets[0], model.loss, self.weight * factors[self.codes]
        else:
            for k, (target, factor) in enumerate(zip(model.targets, factors, strict=True)):
                yield target, model.loss, self.weight * np.where(self.codes == k, factor, 1.0)

    @property
    def _separate(self) -> bool:
        """Whether the factor of a class applies to the problem of this class alone."""
        return len(self.model.targets) > 1 or isinstance(self.model.loss, OneVsRestSquaredHinge)

    def shares_rows(self) -> bool:
        """Whether splits can be runs of rows in one order: not too many, and no row twice."""
        return len(self.trains) <= MANY_SPLITS and all(
            np.bincount(train).max() == 1 for train in self.trains
        )

    def key(self, id: CellId) -> tuple[int, tuple[float, ...]]:
        """The chain of a cell: its split and the ratios of its factors."""
        factor = self._factor(id)
        return id[0], tuple(np.round(factor / self._largest(id), 12).tolist())

    def C(self, id: CellId) -> float:
        """The value of C on the chain: C times what the factors were divided by."""
        return float(self.Cs[id[2]] * self._largest(id))

    def _largest(self, id: CellId) -> float:
        return 1.0 if self._separate else float(self._factor(id).max())

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
