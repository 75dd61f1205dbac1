"""Cross-validation over C: the loop over cells, the choice of a setting, and the final fit.

A cell is one setting on one fold. Cells start from the solutions of others, so each search trains and scores
them in its own order. The rest is the same for all searches and is here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from maxmargin.core.interrupts import outermost
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.grid_table import Done, GridTable
from maxmargin.estimators.grid_watch import GridWatch
from maxmargin.estimators.outcome import raise_from_search, report_search, stopped_early
from maxmargin.estimators.parameters import NamedParameters, names

#: parameters of a search itself, also if the estimator that it trains has parameters of these names
OWN = frozenset({"max_seconds", "callbacks", "verbose"})


class CrossValidation(NamedParameters):
    """Base class of searches for the best C."""

    Cs: Any
    cv: Any
    refit: bool
    best_estimator_: Any

    #: the class of the estimators that are trained
    _trained: ClassVar[type]
    #: an integer ``Cs`` stands for values between 10 to these powers
    _powers: ClassVar[tuple[int, int]]
    #: fitted attributes that are those of ``best_estimator_``
    _of_best: ClassVar[tuple[str, ...]] = ("coef_",)

    def _template(self) -> Any:
        """A new estimator with the parameters that all settings share."""
        kind: Any = type(self)
        shared = set(names(self._trained)) & set(names(kind)) - OWN
        return self._trained(**{name: getattr(self, name) for name in shared})

    def _values(self) -> Array:
        """The values of C, ascending."""
        if isinstance(self.Cs, Integral):
            return np.logspace(*self._powers, int(self.Cs))
        return np.sort(np.asarray(self.Cs, dtype=np.float64))

    def _splits(self, folds: Iterable[Any], n: int) -> list[tuple[IntArray, IntArray]]:
        """The numbers of the training and the held-out samples of each fold."""
        everyone = np.arange(n)  # folds may be masks, or count from the end
        splits = [(everyone[train], everyone[test]) for train, test in folds]
        self.n_splits_ = len(splits)
        return splits

    def _search(
        self,
        table: GridTable,
        train: Callable[[GridWatch], Generator[Done]],
        fit_best: Callable[[Any], None],
    ) -> Self:
        """Train all cells, choose the best setting, and fit it to all samples.

        ``train`` yields cells until the watch has ended and enters their scores into the table. What it
        has entered by Ctrl-C or another early stop is kept.
        """
        for name in (
            "best_index_",
            "best_score_",
            "best_params_",
            "best_estimator_",
            *self._of_best,
        ):
            self.__dict__.pop(name, None)  # of an earlier fit
        best = None
        with GridWatch(self, table) as watch, outermost() as returns:
            try:
                with closing(train(watch)) as cells:
                    for done in cells:
                        watch.take(done, table.params(table.row(done.id)))
            except KeyboardInterrupt:
                watch.stop = "interrupted"
            self._store(table)
            stopped_early(self, watch.stop, self._select, returns=returns)
            if self.refit:
                best = self._template().set_params(**self.best_params_)
                with watch.of_part(best, "final fit"):
                    fit_best(best)
                self.best_estimator_ = best
                for name in self._of_best:
                    setattr(self, name, getattr(best, name))
        if best is not None and best.stop_reason_ == "interrupted" and not returns:
            raise_from_search(self, f"all cells are done, best_estimator_ has gap {best.gap_:.2g}.")
        if watch.stop != "interrupted":
            report_search(self, table, best)
        return self

    def _store(self, table: GridTable) -> None:
        self.cv_results_ = table.results()

    def _select(self) -> None:
        """Choose the setting with the best mean score."""
        means = self.cv_results_["mean_test_score"]
        if np.isnan(means).all():
            raise ValueError(
                "no setting has a score for every fold: scoring returned NaN, or the training samples of a "
                "fold lack a class. Use another scoring, stratified folds or fewer folds."
            )
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_score_ = float(means[self.best_index_])
        self.best_params_ = self.cv_results_["params"][self.best_index_]
