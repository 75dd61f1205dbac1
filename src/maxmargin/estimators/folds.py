"""Searches over C of structured estimators, whose cells are all folds with one C, then with the next.

Examples that a fold holds out have the weight 0, so the dual variables of all fits belong to the same
examples, and each fit begins with those of the one before.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.cross_validation import CrossValidation
from maxmargin.estimators.example_checks import check_pairs
from maxmargin.estimators.grid_table import Done, GridTable
from maxmargin.estimators.grid_watch import GridWatch
from maxmargin.estimators.validation import loaded
from maxmargin.solvers import AutoStructured

Estimator = TypeVar("Estimator", bound=Any)


class StructuredSearch(CrossValidation):
    """Base class of these searches."""

    _powers = (-3, 1)
    scoring: Any
    solver: Any

    def _table(self, n: int, groups: Any) -> tuple[GridTable, list[tuple[IntArray, IntArray]]]:
        """An empty table, and the folds of n examples."""
        splits = self._splits(check_cv(self.cv).split(np.arange(n), None, groups), n)
        return GridTable(len(splits), self._values()), splits

    def _template(self) -> Any:
        estimator = super()._template()
        signs = (getattr(self, name, None) for name in ("nonnegative", "nonpositive"))
        if self.solver == "auto" and all(sign is None for sign in signs):
            # keep working sets of held-out examples during the folds that do not use them
            idle = 8 * (self.n_splits_ + 1)
            estimator.solver = AutoStructured(getattr(self, "oracle", "cheap"), idle=idle)
        return estimator

    def _score(self, estimator: Any, X: Any, y: Any) -> float:
        score = type(estimator).score if self.scoring is None else self.scoring
        return float(score(estimator, X, y))

    def predict(self, X: Any) -> list[Any]:
        """Predict outputs with ``best_estimator_``.

        Parameters
        ----------
        X : sequence
            Inputs, as for ``fit``.

        Returns
        -------
        list
            Outputs.
        """
        check_is_fitted(self, "best_estimator_")
        found: list[Any] = self.best_estimator_.predict(X)
        return found

    def _examples(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Inputs and outputs in memory."""
        X, y, _ = loaded(X, y, None)
        check_pairs(X, y)
        return X, y

    def score(self, X: Any, y: Any = None) -> float:
        """Return the score of ``best_estimator_``, by ``scoring``.

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and true outputs, as for ``fit``.

        Returns
        -------
        float
            The larger, the better.
        """
        check_is_fitted(self, "best_estimator_")
        return self._score(self.best_estimator_, *self._examples(X, y))


class Folds(ABC, Generic[Estimator]):
    """Trains and scores the cells, each from the last fit."""

    #: numbers of the training and the held-out examples of each fold
    splits: list[tuple[IntArray, IntArray]]

    def __init__(self, template: Callable[[], Estimator], weight: Array) -> None:
        self._template, self._weight = template, weight

    @abstractmethod
    def fit(self, estimator: Estimator, weight: Array) -> SolveResult:
        """Fit with these weights of examples, from the last fit."""

    @abstractmethod
    def score(self, estimator: Estimator, test: IntArray) -> float:
        """The score of held-out examples."""

    def train(self, table: GridTable, watch: GridWatch) -> Generator[Done]:
        """Train and score all cells."""
        for i, C in enumerate(table.Cs):
            for k, (train, test) in enumerate(self.splits):
                if watch.ended():
                    return
                estimator = self._template().set_params(C=float(C), max_seconds=watch.left())
                times = np.bincount(train, minlength=len(self._weight))  # some may be repeated
                before = time.perf_counter()
                with watch.of_part(estimator, watch.next_label((k, 0, i))):
                    last = self.fit(estimator, self._weight * times)
                done = Done((k, 0, i), [last], time.perf_counter() - before)
                if last.stop_reason in ("interrupted", "max_seconds"):
                    watch.stop = last.stop_reason
                    return
                table.put(done, self.score(estimator, test))
                yield done
