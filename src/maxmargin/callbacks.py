"""Callbacks: callables that receive the record of each iteration. If one returns True, the fit stops.

A callback may also have these methods. Estimators call them.

``on_oracle(done, total)``
    The number of examples that an expensive oracle has finished in the current pass.
``on_estimator(record, current)``
    In place of the call with the record: ``current()`` returns a copy of the estimator with the best weights
    found so far, which can predict. If it returns True, the fit stops.
``on_end(estimator)``
    The fit has ended, and its attributes are stored.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any, NoReturn, TextIO

import numpy as np

from maxmargin.core.result import IterationRecord
from maxmargin.core.stopping import StoppingRule, stops
from maxmargin.solvers.base import GapForecast

__all__ = ["CellRecord", "Progress", "ValidationScore"]

#: seconds between two updates of the line on a terminal
REFRESH = 0.1
#: an estimate of this many times the elapsed time is no trend
FAR = 30.0

_logger = logging.getLogger("maxmargin")
_logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One cell of a cross-validation: a setting that was trained on a fold.

    Callbacks of searches, such as :class:`maxmargin.LinearSVCCV`, receive it.

    Attributes
    ----------
    cell, n_cells : int
        The number of this cell, counted from 1 in the order of training, and the number of all cells.
    params : dict
        The setting.
    fold : int
        The fold, counted from 0.
    objective, lower_bound, gap : float
        The bounds of the cell.
    converged : bool
        Whether the bounds prove that ``tol`` was reached.
    seconds, elapsed : float
        Time for this cell, and time since the cross-validation began.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVCCV
    >>> cells = []
    >>> search = LinearSVCCV([0.1, 1.0], cv=2, callbacks=[cells.append]).fit(*load_iris(return_X_y=True))
    >>> [(record.cell, record.n_cells, record.fold) for record in cells]
    [(1, 4, 0), (2, 4, 0), (3, 4, 1), (4, 4, 1)]
    """

    cell: int
    n_cells: int
    params: dict[str, Any]
    fold: int
    objective: float
    lower_bound: float
    gap: float
    converged: bool
    seconds: float
    elapsed: float


class Progress:
    """Shows the progress of a fit: one line in a terminal, a line or a record every ten seconds elsewhere.

    ``verbose=1`` shows it on standard error. In a terminal, one line is updated in place: method, objective,
    gap, passes over the data, elapsed time, and the time left, estimated from the rate at which the gap has
    fallen. In a file, a line with the date and time is written every ten seconds. In the log, the logger
    ``maxmargin``, it is a message of level INFO; every estimator logs, and nothing is printed unless logging
    is configured. The last line is the final state: stop reason, certificate, gap and seconds. With
    ``oracle="expensive"``, the line also shows how many examples of the current pass are finished.

    Parameters
    ----------
    to : "stderr", "log", or text stream, default "stderr"
        Where to write.
    interval : float, default 10.0
        Seconds between two lines, unless they are updated in place.
    final : bool, default True
        Whether the final state stays as the last line of a terminal. If False, the line is erased.

    Attributes
    ----------
    last : IterationRecord or CellRecord
        The last record.

    Examples
    --------
    >>> import sys
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.callbacks import Progress
    >>> from maxmargin.solvers import CuttingPlane
    >>> progress = Progress(sys.stdout)
    >>> est = LinearSVC(callbacks=[progress], max_iter=1, solver=CuttingPlane())
    >>> est = est.fit(*load_iris(return_X_y=True))
    20... LinearSVC: stopped by max_iter  certificate exact  gap ...  objective ...  1 iteration  ... s
    >>> progress.last.iteration
    1
    """

    def __init__(
        self, to: str | TextIO = "stderr", *, interval: float = 10.0, final: bool = True
    ) -> None:
        if isinstance(to, str) and to not in ("stderr", "log"):
            raise ValueError(f"to={to!r}: use 'stderr', 'log', or a stream such as sys.stdout.")
        self.to, self.interval, self.final = to, interval, final
        self._width = 0
        self.start()

    def start(self) -> None:
        """A fit begins."""
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

    def __call__(self, record: IterationRecord | CellRecord) -> None:
        if self.to != "log" or _logger.isEnabledFor(logging.INFO):
            self.follow(record)
            self._show()

    def on_oracle(self, done: int, total: int) -> None:
        """Report the number of finished examples in a pass of an expensive oracle."""
        if self.to != "log" or _logger.isEnabledFor(logging.INFO):
            self._oracle = f"oracle {done}/{total}"
            self._show(now=done >= total)

    def on_end(self, estimator: Any) -> None:
        """Report the final state of the fit, or erase the line."""
        if not self.final and self._terminal is not None:
            self._update(self._terminal, "")
            self._update(self._terminal, "")
        elif self.to != "log" or _logger.isEnabledFor(logging.INFO):
            self._end(f"{type(estimator).__name__}: {self.outcome(estimator)}")

    def close(self) -> None:
        """End the line if the fit did not, because of an error or because no estimator runs it."""
        if self._width:
            self._end(self.text())

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

    @property
    def _terminal(self) -> TextIO | None:
        # looked up for each line: a stored stream could not be copied with the estimator
        stream = sys.stderr if isinstance(self.to, str) else self.to
        return stream if self.to != "log" and stream.isatty() else None

    def _show(self, *, now: bool = False) -> None:
        terminal, at = self._terminal, time.monotonic()
        due = at - self._written >= (self.interval if terminal is None else REFRESH)
        if due:
            self._written = at
        if terminal is not None and (due or now or not self._width):
            self._update(terminal, self.text())
        elif terminal is None and due:
            self._write(self.text())

    def _end(self, text: str) -> None:
        terminal = self._terminal
        if terminal is None:
            self._write(text)
        else:
            self._update(terminal, text, cut=False)
            terminal.write("\n")
            terminal.flush()
        self._width = 0

    def _write(self, text: str) -> None:
        if self.to == "log":
            _logger.info("%s", text)
            return
        stream = sys.stderr if isinstance(self.to, str) else self.to
        stream.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        stream.flush()

    def _update(self, terminal: TextIO, text: str, *, cut: bool = True) -> None:
        if cut:  # a line that wraps cannot be updated in place
            text = text[: max(1, _columns(terminal) - 1)]
        terminal.write(f"\r{text}{' ' * (self._width - len(text))}")
        terminal.flush()
        self._width = len(text)

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

    def outcome(self, estimator: Any) -> str:
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


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class ValidationScore:
    """Scores the best weights found so far on validation data, while the fit runs.

    Use it to stop a fit whose score no longer matters, for example to prune the trials of a hyperparameter
    search. It works with all estimators that can predict from the weights of one problem: not with
    :class:`maxmargin.KernelSVC`, sampled cuts, or ``multi_class="ovr"`` with more than two classes.

    Parameters
    ----------
    X, y : as in the ``score`` method of the estimator
        Validation data.
    every : int, default 1
        Compute a score every so many iterations. (In :class:`maxmargin.LatentStructuredSVM`: convex steps.)
    scoring : callable, optional
        ``scoring(estimator, X, y)``, such as a scikit-learn scorer. By default the estimator's ``score``.
    on_score : callable, optional
        Called with the record and the score. The fit stops if it returns True.

    Attributes
    ----------
    scores : list of (int, float)
        Iterations and scores of the last fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.callbacks import ValidationScore
    >>> X, X_val, y, y_val = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    >>> watch = ValidationScore(X_val, y_val)
    >>> est = LinearSVC(callbacks=[watch]).fit(X, y)
    >>> len(watch.scores) == est.n_iter_, watch.scores[-1][1] > 0.9
    (True, True)

    Stop as soon as the score is good enough:

    >>> watch = ValidationScore(X_val, y_val, on_score=lambda record, score: score > 0.9)
    >>> LinearSVC(tol=1e-9, callbacks=[watch]).fit(X, y).stop_reason_
    'callback'
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        every: int = 1,
        scoring: Callable[[Any, Any, Any], float] | None = None,
        on_score: Callable[[IterationRecord, float], object] | None = None,
    ) -> None:
        if not every >= 1:
            raise ValueError(f"every={every!r}: give a positive number of iterations.")
        if scoring is not None and not callable(scoring):
            raise ValueError(
                f"scoring={scoring!r}: pass a callable, such as sklearn.metrics.get_scorer({scoring!r})."
            )
        self.X, self.y, self.every = X, y, every
        self.scoring, self.on_score = scoring, on_score
        self.scores: list[tuple[int, float]] = []

    def __call__(self, record: Any) -> NoReturn:
        raise TypeError(
            "ValidationScore needs an estimator that predicts: pass it in callbacks= of an estimator such as "
            "LinearSVC, not to minimize or to a cross-validation."
        )

    def on_estimator(self, record: IterationRecord, current: Callable[[], Any]) -> bool:
        """Score the current estimator."""
        if record.iteration == 1:
            self.scores = []
        if record.iteration % self.every:
            return False
        estimator = current()
        if self.scoring is None:
            score = float(estimator.score(self.X, self.y))
        else:
            score = float(self.scoring(estimator, self.X, self.y))
        self.scores.append((record.iteration, score))
        return self.on_score is not None and stops(self.on_score(record, score))
