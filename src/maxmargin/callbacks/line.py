"""The progress line of ``verbose=1``."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, TextIO

from maxmargin.callbacks.cells import CellRecord
from maxmargin.callbacks.progress import INTERVAL, FitProgress
from maxmargin.core.result import IterationRecord

__all__ = ["ProgressLine"]

#: seconds between two updates of the line on a terminal
REFRESH = 0.1


class ProgressLine(FitProgress):
    """Shows the progress of a fit on standard error. Used by ``verbose=1``.

    On a terminal, one line is updated in place: method, objective, gap, passes over the data, elapsed time,
    and the time left, estimated from the rate at which the gap has fallen. Elsewhere, such as in a file, a
    line with the date and time is written every ten seconds. In both cases the last line is the final state:
    stop reason, certificate, gap and seconds. With ``oracle="expensive"``, the line also shows how many
    examples of the current pass are finished.

    Parameters
    ----------
    stream : text stream, optional
        Where to write; standard error by default.
    interval : float, default 10.0
        Seconds between two lines if ``stream`` is not a terminal.
    final : bool, default True
        Whether the final state stays as the last line. If False, the line is erased.

    Attributes
    ----------
    last : IterationRecord or CellRecord
        The last record.

    Examples
    --------
    >>> import sys
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.callbacks import ProgressLine
    >>> from maxmargin.solvers import CuttingPlane
    >>> line = ProgressLine(sys.stdout)
    >>> est = LinearSVC(callbacks=[line], max_iter=1, solver=CuttingPlane())
    >>> est = est.fit(*load_iris(return_X_y=True))
    20... LinearSVC: stopped by max_iter  certificate exact  gap ...  objective ...  1 iteration  ... s
    >>> line.last.iteration
    1
    """

    def __init__(
        self, stream: TextIO | None = None, *, interval: float = INTERVAL, final: bool = True
    ) -> None:
        super().__init__()
        self.stream, self.interval, self.final_line = stream, interval, final
        self._width = 0

    def __call__(self, record: IterationRecord | CellRecord) -> None:
        self.follow(record)
        self._show()

    def on_oracle(self, done: int, total: int) -> None:
        """Report the number of finished examples in a pass of an expensive oracle."""
        self._oracle = f"oracle {done}/{total}"
        self._show(now=done >= total)

    def on_end(self, estimator: Any) -> None:
        """Write the final state of the fit, or erase the line."""
        if self.final_line:
            self._end(f"{type(estimator).__name__}: {self.final(estimator)}")
        elif self._stream.isatty():
            self._update(self._stream, "")
            self._write(self._stream, "\r")
            self._width = 0

    def close(self) -> None:
        """End the line if the fit did not, because of an error or because no estimator runs it."""
        if self._width:
            self._end(self.text())

    def _show(self, *, now: bool = False) -> None:
        stream = self._stream
        if stream.isatty():
            if self.due(REFRESH) or now or not self._width:
                self._update(stream, self.text())
        elif self.due(self.interval):
            self._write(stream, f"{_now()} {self.text()}\n")

    def _end(self, text: str) -> None:
        stream = self._stream
        if stream.isatty():
            self._update(stream, text, cut=False)
            self._write(stream, "\n")
        else:
            self._write(stream, f"{_now()} {text}\n")
        self._width = 0

    def _update(self, stream: TextIO, text: str, *, cut: bool = True) -> None:
        if cut:  # a line that wraps cannot be updated in place
            text = text[: max(1, _columns(stream) - 1)]
        padding = " " * max(0, self._width - len(text))
        self._width = len(text)
        self._write(stream, f"\r{text}{padding}")

    def _write(self, stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()

    @property
    def _stream(self) -> TextIO:
        # looked up for each line: a stored stream could not be copied with the estimator
        return sys.stderr if self.stream is None else self.stream


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
