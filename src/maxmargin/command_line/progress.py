"""The progress line of the command: on a terminal it makes room for the report at the end."""

from __future__ import annotations

from typing import Any

from maxmargin.callbacks import ProgressLine


class CommandLine(ProgressLine):
    """The progress line of ``verbose=1``, erased when the fit has ended: the report says the rest."""

    def on_end(self, estimator: Any) -> None:
        """Erase the line on a terminal; elsewhere write the final state."""
        if self._stream.isatty():
            self._update(self._stream, "")
            self._write(self._stream, "\r")
            self._width = 0
        else:
            super().on_end(estimator)
