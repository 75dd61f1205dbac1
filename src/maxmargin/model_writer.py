"""The function that writes model files, for the method ``save`` of estimators.

:mod:`maxmargin.persistence` imports all estimators, so they must not import it. The package registers its
writer here when it is imported. :mod:`maxmargin.persistence` is not loaded before a model is saved.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

Writer = Callable[[Any, "str | os.PathLike[str]"], None]

_writers: list[Writer] = []


def register_writer(writer: Writer) -> None:
    """Set the function that writes fitted estimators to files."""
    _writers[:] = [writer]


def write_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file."""
    for writer in _writers:
        writer(estimator, path)
