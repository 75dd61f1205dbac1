"""The callbacks and the time limit of a cross-validation."""

from __future__ import annotations

import time
from typing import Any, Literal, Self

from maxmargin.callbacks import CellRecord, Progress
from maxmargin.core.result import relative_gap
from maxmargin.core.stopping import stops
from maxmargin.estimators.grid_table import CellId, Done, GridTable
from maxmargin.estimators.watching import Watch

#: why a cross-validation ended before all cells were trained
EarlyStop = Literal["interrupted", "callback", "max_seconds"]


class GridWatch(Watch):
    """Watches a cross-validation, and stops it."""

    def __init__(self, search: Any, table: GridTable) -> None:
        super().__init__(search)
        self.stop: EarlyStop | None = None
        self._table, self._taken, self._n_cells = table, 0, table.size * table.n_splits
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        super().__enter__()
        self._began = time.perf_counter()
        return self

    @property
    def elapsed(self) -> float:
        """Seconds since the cross-validation began."""
        return time.perf_counter() - self._began

    def left(self) -> float | None:
        """The rest of the time limit, in seconds."""
        limit = self.estimator.max_seconds
        return None if limit is None else max(0.0, limit - self.elapsed)

    def ended(self) -> bool:
        """Whether no further cell may begin."""
        if self.stop is None and self.left() == 0.0:
            self.stop = "max_seconds"
        return self.stop is not None

    def next_label(self, id: CellId) -> str:
        """The name of the cell that is trained next."""
        return (
            f"cell {self._taken + 1} of {self._n_cells}, C={self._table.Cs[id[2]]:g}, fold {id[0]}"
        )

    def take(self, done: Done, params: dict[str, Any]) -> None:
        """Report a trained cell to all callbacks."""
        self._taken += 1
        record = CellRecord(
            cell=self._taken,
            n_cells=self._n_cells,
            params=params,
            fold=done.id[0],
            objective=done.objective,
            lower_bound=done.lower_bound,
            gap=relative_gap(done.objective, done.lower_bound),
            converged=done.converged,
            seconds=done.seconds,
            elapsed=self.elapsed,
        )
        for callback in [*(self.estimator.callbacks or []), *self.own]:
            if isinstance(callback, Progress):
                callback.begin(seconds=self.estimator.max_seconds)
            if stops(callback(record)):
                self.stop = self.stop or "callback"
