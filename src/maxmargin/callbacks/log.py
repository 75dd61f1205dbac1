"""The progress of a fit through Python's logging."""

from __future__ import annotations

import logging
from typing import Any

from maxmargin.callbacks.cells import CellRecord
from maxmargin.callbacks.progress import INTERVAL, FitProgress
from maxmargin.core.result import IterationRecord

__all__ = ["Log"]

logging.getLogger("maxmargin").addHandler(logging.NullHandler())


class Log(FitProgress):
    """Writes the progress of a fit to the logger ``maxmargin``. Every estimator does this.

    There is a message of level INFO every ten seconds and one at the end, and a message of level DEBUG per
    iteration. Nothing is printed unless logging is configured. Pass this object to
    :func:`maxmargin.minimize`, which has no estimator.

    Parameters
    ----------
    interval : float, default 10.0
        Seconds between two messages of the level INFO.

    Examples
    --------
    >>> import logging, sys
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> logger, handler = logging.getLogger("maxmargin"), logging.StreamHandler(sys.stdout)
    >>> handler.setFormatter(logging.Formatter("%(name)s %(levelname)s: %(message)s"))
    >>> logger.addHandler(handler)
    >>> logger.setLevel(logging.INFO)
    >>> est = LinearSVC(multi_class="crammer_singer").fit(*load_iris(return_X_y=True))
    maxmargin INFO: ...LinearSVC: stopped by gap  certificate exact  gap ...  ... iterations  ... s
    >>> logger.removeHandler(handler)
    >>> logger.setLevel(logging.NOTSET)
    """

    def __init__(self, *, interval: float = INTERVAL) -> None:
        super().__init__()
        self.interval = interval
        self._logger = logging.getLogger("maxmargin")

    def __call__(self, record: IterationRecord | CellRecord) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self.follow(record)
            self._show(logging.DEBUG)

    def on_oracle(self, done: int, total: int) -> None:
        """Report the number of finished examples in a pass of an expensive oracle."""
        if self._logger.isEnabledFor(logging.INFO):
            self._oracle = f"oracle {done}/{total}"
            self._show(logging.NOTSET)

    def on_end(self, estimator: Any) -> None:
        """Report the final state of the fit."""
        if self._logger.isEnabledFor(logging.INFO):
            self._logger.info("%s: %s", type(estimator).__name__, self.final(estimator))

    def _show(self, otherwise: int) -> None:
        level = logging.INFO if self.due(self.interval) else otherwise
        if level != logging.NOTSET and self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", self.text())
