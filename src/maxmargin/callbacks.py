"""Callbacks: callables that receive the record of each iteration. If one returns True, the fit stops."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from maxmargin.core.result import IterationRecord

__all__ = ["ProgressLine"]


class ProgressLine:
    """Shows progress on one line: objective, lower bound, gap, cuts, elapsed time. Used by ``verbose=1``.

    On a terminal, the line is updated in place. Elsewhere, only its last state is written, by :meth:`close`.
    With ``oracle="expensive"``, it also shows how many examples of the current pass are finished.

    Examples
    --------
    >>> import sys
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.callbacks import ProgressLine
    >>> line = ProgressLine(sys.stdout)
    >>> est = LinearSVC(callbacks=[line], max_iter=1).fit(*load_iris(return_X_y=True))
    >>> line.last.iteration
    1
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.last: IterationRecord | None = None
        self._shown_at = -1.0
        self._width = 0
        self._pass = ""

    def __call__(self, record: IterationRecord) -> None:
        self.last, self._pass = record, ""
        if self.stream.isatty() and record.elapsed - self._shown_at > 0.1:
            self._shown_at = record.elapsed
            self._write("\r", "")

    def on_oracle(self, done: int, total: int) -> None:
        """Report the number of finished examples in a pass of an expensive oracle."""
        self._pass = f"  oracle {done}/{total}"
        if self.stream.isatty():
            self._write("\r", "")

    def close(self) -> None:
        """Write the last state and end the line."""
        self._pass = ""
        if self.last is not None:
            self._write("\r" if self.stream.isatty() else "", "\n")

    def _write(self, before: str, after: str) -> None:
        r = self.last
        text = "it 0" + self._pass
        if r is not None:
            text = (
                f"it {r.iteration}{self._pass}  objective {r.objective:.6g}  lower bound "
                f"{r.lower_bound:.6g}  gap {r.gap:.2e}  cuts {r.n_cuts}  {r.elapsed:.1f} s"
            )
        if self.stream.isatty():  # a line that wraps cannot be updated in place
            text = text[: max(1, _columns(self.stream) - 1)]
        padding = " " * max(0, self._width - len(text))
        self._width = len(text)
        self.stream.write(before + text + padding + after)
        self.stream.flush()


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
