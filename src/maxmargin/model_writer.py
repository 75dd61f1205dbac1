"""How ``save`` of an estimator finds the writer of model files, which stands above the estimators.

:mod:`maxmargin.persistence` knows all estimators, so they must not import it. The package registers its
writer here when it is imported; nothing of it is loaded before a model is saved.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

Writer = Callable[[Any, "str | os.PathLike[str]"], None]

_writers: list[Writer] = []


def register_writer(writer: Writer) -> None:
    """Let this function write fitted estimators to files."""
    _writers[:] = [writer]


def write_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file."""
    for writer in _writers:
        writer(estimator, path)
