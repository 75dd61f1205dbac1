"""Model files of the command: an estimator, and how its training data were read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.command_line.errors import CommandError


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """An estimator that can predict, and how to read its input."""

    estimator: Any
    #: the options that read the training data
    notes: Mapping[str, str]
    feature_names: list[str] | None = None

    @property
    def name(self) -> str:
        return type(self.estimator).__name__

    @property
    def n_features(self) -> int:
        return int(self.estimator.n_features_in_)


def load_model(path: str) -> LoadedModel:
    """The model of a file that :func:`save` or an estimator wrote."""
    from maxmargin.persistence import load, read_notes

    if not os.path.exists(path):
        raise CommandError(f"{path}: there is no such file.")
    estimator = load(path)
    names = getattr(estimator, "feature_names_in_", None)
    if (
        names is not None
    ):  # the matrices of our readers have no names, of which scikit-learn would warn
        names = [str(name) for name in names]
        del estimator.feature_names_in_
    return LoadedModel(estimator, read_notes(path), names)


def save(
    estimator: Any, path: str, notes: Mapping[str, str], names: list[str] | None = None
) -> None:
    """Write the file, with the names of the features."""
    from maxmargin.persistence import save as save_estimator

    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    save_estimator(estimator, path, notes)
