"""Checkpoints: the state of a fit in one file, from which the fit can resume after its process was killed.

The file is described in :mod:`maxmargin.files.container`. While a new one is written, the previous one stays
in place. In object stores (:mod:`maxmargin.checkpoints.remote`) there may be more files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from maxmargin.checkpoints.format import CheckpointError, read_file, write_file
from maxmargin.checkpoints.remote import CheckpointFolder, is_url
from maxmargin.files.codec import CONTRADICTIONS, UNKNOWN, NotPlainError, Outputs, shown
from maxmargin.files.container import remove_leftovers, target

__all__ = [
    "CONTRADICTIONS",
    "UNKNOWN",
    "Checkpoint",
    "CheckpointError",
    "CheckpointFolder",
    "NotPlainError",
    "Outputs",
    "as_checkpoint",
    "exists",
    "is_url",
    "read_file",
    "remove_leftovers",
    "shown",
    "write_file",
]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a fit writes its state, and how often.

    Parameters
    ----------
    path : str or path
        The file, or the URL of a folder in an object store, such as ``"s3://bucket/fit.checkpoint"``. What
        exists there is replaced by the first write.
    seconds : float or None, default 60.0
        Write at the end of the first iteration after so many seconds. Where a write takes more than 3 % of
        that, the time in between grows, so that writing never costs more.
    iterations : int, optional
        Write after every so many iterations as well, whatever it costs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import Checkpoint, LinearSVC
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fit.checkpoint"
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svc = LinearSVC(checkpoint=Checkpoint(path, seconds=10), max_iter=3).fit(X, y)
    >>> svc.stop_reason_
    'max_iter'
    >>> svc = LinearSVC().fit(X, y, resume_from=path)
    >>> svc.converged_, [record["iteration"] for record in svc.history_[:4]]
    (True, [1, 2, 3, 4])
    """

    path: str | os.PathLike[str]
    seconds: float | None = 60.0
    iterations: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"checkpoint path {self.path!r}: give a str or a path.")
        if not os.fspath(self.path):
            raise ValueError("the checkpoint path is empty: name a file.")
        seconds, iterations = self.seconds, self.iterations
        if seconds is not None and not (isinstance(seconds, Real) and seconds >= 0):
            raise ValueError(f"seconds={seconds!r}: give a number of seconds, or None.")
        if iterations is not None and not (isinstance(iterations, Integral) and iterations >= 1):
            raise ValueError(f"iterations={iterations!r}: give an int of at least 1, or None.")

    @property
    def file(self) -> Path:
        """The file, links followed."""
        return target(self.path)


def as_checkpoint(given: Any) -> Checkpoint:
    """A path stands for the defaults."""
    return given if isinstance(given, Checkpoint) else Checkpoint(given)


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is a checkpoint, at a path or a URL."""
    return CheckpointFolder(str(path)).exists() if is_url(path) else os.path.exists(path)
