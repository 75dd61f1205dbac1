"""The cells of a search over C of structured estimators: all folds with one C, then with the next.

Examples that a fold holds out have the weight 0, so the dual variables of all fits belong to the same
examples, and each fit begins with those of the one before.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import numpy as np

from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.grid_table import Done, GridTable
from maxmargin.estimators.grid_watch import GridWatch

Estimator = TypeVar("Estimator", bound=Any)


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
