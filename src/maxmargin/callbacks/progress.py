"""The state of a fit in one line of text. The progress line and the log share it."""

from __future__ import annotations

import time
from math import inf, isfinite, nan
from typing import Any

import numpy as np

from maxmargin.callbacks.cells import CellRecord
from maxmargin.core.result import IterationRecord
from maxmargin.core.stopping import StoppingRule
from maxmargin.solvers.base import GapForecast

#: seconds between two lines in a file or a log
INTERVAL = 10.0
#: an estimate of this many times the elapsed time is no trend
FAR = 30.0


class FitProgress:
    """Follows a fit: its last record, and the time that is left."""

    def __init__(self) -> None:
        self.last: IterationRecord | CellRecord | None = None
        self._began = self._written = time.monotonic()
        self._oracle = ""
        self.begin()

    def begin(
        self,
        label: str = "",
        number: int = 0,
        rule: StoppingRule | None = None,
        seconds: float | None = None,
    ) -> None:
        """A problem of the fit begins: the name of the fit, the number of the problem, and when it stops."""
        self._label, self._rule, self._seconds = label, rule, seconds
        self._problem = f"problem {number + 1}" if number else ""
        self._forecast, self._left = GapForecast(), nan

    def start(self) -> None:
        """A fit begins."""
        self.last, self._began = None, time.monotonic()
        self._written = self._began
        self.begin()

    def follow(self, record: IterationRecord | CellRecord) -> None:
        """Take the next record."""
        self.last, self._oracle = record, ""
        if isinstance(record, CellRecord):
            left = record.elapsed / record.cell * (record.n_cells - record.cell)
        else:
            left = self._until_tolerance(record)
        if self._seconds is not None:
            rest = max(0.0, self._seconds - record.elapsed)
            left = min(left, rest) if left == left else rest
        self._left = left

    def _until_tolerance(self, record: IterationRecord) -> float:
        """The time until the gap is small enough, at the rate at which it has fallen; NaN if unknown."""
        if self._rule is None or not isfinite(record.gap) or record.objective == 0.0:
            return nan
        goal = self._rule.allowed_gap(record.objective, record.C) / abs(record.objective)
        left = self._forecast.remaining(record.elapsed, record.gap, goal)
        if left > FAR * record.elapsed:  # the gap stands still, which need not last
            return nan
        return left if left > 0.0 or record.gap <= goal else nan

    def due(self, interval: float) -> bool:
        """Whether this many seconds have passed since the last time that the answer was yes."""
        now = time.monotonic()
        if now - self._written < interval:
            return False
        self._written = now
        return True

    def text(self) -> str:
        """The state of a running fit."""
        record, parts = self.last, [part for part in (self._label, self._problem) if part]
        if isinstance(record, CellRecord):
            settings = ", ".join(f"{name}={_short(value)}" for name, value in record.params.items())
            parts += [f"cell {record.cell} of {record.n_cells}", f"{settings}, fold {record.fold}"]
            parts += [f"gap {record.gap:.2e}", f"{record.elapsed:.1f} s"]
        elif record is not None:
            parts += [record.method] if record.method else []
            parts += [f"objective {record.objective:.6g}"] if isfinite(record.objective) else []
            parts += [f"gap {record.gap:.2e}"] if isfinite(record.gap) else []
            parts += [_work(record.oracle_calls, record.iteration), f"{record.elapsed:.1f} s"]
        parts += [self._oracle] if self._oracle else []
        parts += [f"about {_duration(self._left)} left"] if 0.0 < self._left < inf else []
        return "  ".join(parts)

    def final(self, estimator: Any) -> str:
        """The state of a fit that has ended."""
        seconds = f"{time.monotonic() - self._began:.1f} s"
        if hasattr(estimator, "cv_results_"):
            return "  ".join([*_of_search(estimator), seconds])
        parts = [self._label] if self._label else []
        parts += [f"stopped by {estimator.stop_reason_}", f"certificate {estimator.certificate_}"]
        parts += [_gap(estimator), f"objective {estimator.objective_:.6g}"]
        return "  ".join([*parts, _iterations(int(np.max(estimator.n_iter_))), seconds])


def _work(passes: float, iteration: int) -> str:
    return f"{passes:.1f} passes" if passes > 0.0 else _iterations(iteration)


def _iterations(number: int) -> str:
    return "1 iteration" if number == 1 else f"{number} iterations"


def _gap(estimator: Any) -> str:
    """The gap of a fit, and of which problem it is."""
    kind = {"restricted": "restricted", "local": "convex"}.get(estimator.certificate_)
    gap = estimator.gap_ if kind is None else getattr(estimator, f"{kind}_gap_", estimator.gap_)
    if not isfinite(gap):
        return "no certified gap"
    return f"gap {gap:.2e}" if kind is None else f"{kind} gap {gap:.2e}"


def _of_search(search: Any) -> list[str]:
    """The outcome of a cross-validation."""
    if not hasattr(search, "best_params_"):
        return ["no setting was trained on every fold"]
    best = ", ".join(f"{name}={_short(value)}" for name, value in search.best_params_.items())
    parts = [f"best {best}", f"score {search.best_score_:.4g}"]
    if hasattr(search, "best_estimator_"):
        parts += [
            f"certificate {search.best_estimator_.certificate_}",
            _gap(search.best_estimator_),
        ]
    return parts


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    """A time in words.

    Examples
    --------
    >>> _duration(5.2), _duration(300.0), _duration(9000.0)
    ('6 s', '5 min', '2.5 h')
    """
    if seconds < 90.0:
        return f"{-int(-seconds // 1)} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
