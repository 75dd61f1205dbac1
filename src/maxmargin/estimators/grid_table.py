"""The results of a grid: scores, certificates and times by setting and split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.ma import MaskedArray
from scipy.stats import rankdata

from maxmargin.core.result import SolveResult, relative_gap
from maxmargin.core.vectors import Array

CellId = tuple[int, int, int]
"""Numbers of the split, of the class weights and of C."""

_NONE: Array = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Done:
    """A trained cell, and its share of the time."""

    id: CellId
    results: Sequence[SolveResult]
    """One, or one per class where each is trained against the rest."""
    seconds: float

    @property
    def objective(self) -> float:
        """An upper bound of the optimum."""
        return float(sum(result.objective for result in self.results))

    @property
    def lower_bound(self) -> float:
        """A lower bound of it."""
        return float(sum(result.lower_bound for result in self.results))

    @property
    def converged(self) -> bool:
        """Whether the tolerance is proved."""
        return all(result.converged for result in self.results)


class GridTable:
    """Scores and certificates of all cells, by setting (C and perhaps class weights) and split."""

    def __init__(self, n_splits: int, Cs: Array, choices: list[Any] | None = None) -> None:
        self.n_splits, self.Cs, self._choices = n_splits, Cs, choices
        self.n_choices = 1 if choices is None else len(choices)
        self.size = self.n_choices * len(Cs)
        shape = (self.size, n_splits)
        names = ("test_score", "objective", "lower_bound", "gap", "fit_time")
        self._numbers = {name: np.full(shape, np.nan) for name in names}
        self._converged = np.zeros(shape, dtype=bool)
        self._dropped: dict[int, int] = {}
        self.pruned: list[dict[str, Any]] = []
        self.n_iter = 0
        #: the cells that were taken, without their weights
        self.done: list[Done] = []

    def _row(self, j: int, i: int) -> int:
        return j * len(self.Cs) + i

    def row(self, id: CellId) -> int:
        """The row of a cell."""
        return self._row(id[1], id[2])

    def params(self, row: int) -> dict[str, Any]:
        """The setting of a row."""
        j, i = divmod(row, len(self.Cs))
        C = {"C": float(self.Cs[i])}
        return C if self._choices is None else {**C, "class_weight": self._choices[j]}

    def put(self, done: Done, score: float) -> None:
        """Take a trained cell."""
        k, j, i = done.id
        at = (self._row(j, i), k)
        self._numbers["test_score"][at] = score
        self._numbers["objective"][at] = done.objective
        self._numbers["lower_bound"][at] = done.lower_bound
        self._numbers["gap"][at] = relative_gap(done.objective, done.lower_bound)
        self._numbers["fit_time"][at] = done.seconds
        self._converged[at] = done.converged
        self.n_iter = max(self.n_iter, *(result.n_iter for result in done.results), 0)
        light = [
            replace(r, w=_NONE, history=[], dual=None, duals={}, proof=None) for r in done.results
        ]
        self.done.append(replace(done, results=light))

    def falling(self, j: int, i: int) -> bool:
        """Whether the scores before the i-th C have clearly fallen: twice in a row below the best
        mean by more than its standard error."""
        if j in self._dropped:
            return True
        scores = self._numbers["test_score"][self._row(j, 0) : self._row(j, i)]
        if len(scores) < 3 or np.isnan(scores).any():
            return False
        means = scores.mean(axis=1)
        best = int(means.argmax())
        error = scores[best].std(ddof=1) / np.sqrt(self.n_splits) if self.n_splits > 1 else 0.0
        fallen = bool((means[-2:] < means[best] - error).all()) and best < len(means) - 2
        if fallen:
            self._dropped[j] = i
        return fallen

    def mark_pruned(self) -> None:
        """List the settings that were left out."""
        self.pruned = [
            self.params(self._row(j, i))
            for j, first in sorted(self._dropped.items())
            for i in range(first, len(self.Cs))
        ]

    def results(self) -> dict[str, Any]:
        """As scikit-learn names them."""
        params = [self.params(row) for row in range(self.size)]
        out: dict[str, Any] = {"params": params}
        out["param_C"] = MaskedArray([p["C"] for p in params], mask=False)
        if self._choices is not None:
            weights = np.empty(self.size, dtype=object)
            weights[:] = [p["class_weight"] for p in params]
            out["param_class_weight"] = MaskedArray(weights, mask=False)
        times, scores = self._numbers["fit_time"], self._numbers["test_score"]
        out["mean_fit_time"], out["std_fit_time"] = times.mean(axis=1), times.std(axis=1)
        for k in range(self.n_splits):
            for name in ("test_score", "objective", "lower_bound", "gap"):
                out[f"split{k}_{name}"] = self._numbers[name][:, k].copy()
            out[f"split{k}_converged"] = self._converged[:, k].copy()
        out["mean_test_score"], out["std_test_score"] = scores.mean(axis=1), scores.std(axis=1)
        means = out["mean_test_score"]
        lowest = np.nanmin(means) - 1 if np.isfinite(means).any() else 0.0
        ranks = rankdata(-np.nan_to_num(means, nan=lowest), method="min")
        out["rank_test_score"] = ranks.astype(np.int32)
        return out
