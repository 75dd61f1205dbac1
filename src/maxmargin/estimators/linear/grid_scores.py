"""Score the cells of a grid on their held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.data.design import as_design
from maxmargin.estimators.grid_table import Done, GridTable
from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.linear.problem import LinearModel

#: columns of weights that score the held-out rows at a time
COLUMNS = 16


class ScoredSVC(LinearSVC):
    """A fitted classifier with stored scores of one set of rows."""

    def store(self, X: Any, scores: Any) -> Self:
        """Store the scores of these rows."""
        self._rows, self._scores = X, scores
        return self

    def decision_function(self, X: Any, *, out: Any = None) -> Array:
        """The scores, which are stored for one set of rows."""
        if X is self._rows:
            known: Array = self._scores
            return known
        return super().decision_function(X, out=out)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy. scikit-learn's checks all labels first, which takes longer than the fit of a cell."""
        return float(np.average(self.predict(X) == y, weights=sample_weight))


@dataclass(frozen=True, slots=True, eq=False)
class CellScorer:
    """Scores the cells of ``table``, each on the held-out rows of its split.

    ``template`` has the parameters that all cells share, ``model`` turns their weights into attributes.
    """

    scorer: Any
    template: LinearSVC
    model: LinearModel
    classes: Array
    table: GridTable
    splits: list[Any]
    X: Any
    y: Any

    def score(self, found: list[Done]) -> None:
        """Score these cells: all cells of a split in one pass over its held-out rows."""
        for k, (_, test) in enumerate(self.splits):
            mine = [done for done in found if done.id[0] == k]
            if not mine:
                continue
            rows, labels = self.X[test], self.y[test]
            for start in range(0, len(mine), COLUMNS):
                self._score_block(mine[start : start + COLUMNS], rows, labels)

    def _score_block(self, block: list[Done], rows: Any, labels: Any) -> None:
        fitted = [self.model.attributes([r.w for r in done.results]) for done in block]
        W = np.concatenate([f["coef_"] for f in fitted]).T
        scores = as_design(rows, checked=True).dot(np.ascontiguousarray(W), 0, len(labels))
        scores += np.concatenate([f["intercept_"] for f in fitted])
        parts = np.split(scores, len(block), axis=1)
        for done, attributes, part in zip(block, fitted, parts, strict=True):
            known = part[:, 0].copy() if part.shape[1] == 1 else part
            svc = self._fitted(self.table.params(self.table.row(done.id)), attributes)
            self.table.put(done, float(self.scorer(svc.store(rows, known), rows, labels)))

    def _fitted(self, setting: dict[str, Any], attributes: dict[str, Any]) -> ScoredSVC:
        svc = ScoredSVC(**{**self.template.get_params(deep=False), **setting})
        svc.classes_, svc.n_features_in_ = self.classes, self.X.shape[1]
        vars(svc).update(attributes)
        return svc
