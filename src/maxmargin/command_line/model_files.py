"""Model files: those of maxmargin, and linear models of LIBLINEAR and SVM-light."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.model_formats import liblinear, svm_light
from maxmargin.command_line.model_formats.linear_model import LinearModel

#: the first bytes of the header of our files, after its length
_OURS = b'{"__metadata__":'
FORMATS = ("maxmargin", "liblinear", "svm-light")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """An estimator that can predict, and how to read its input."""

    estimator: Any
    #: the options that read the training data
    notes: Mapping[str, str]
    #: maxmargin, liblinear or svm-light
    format: str
    feature_names: list[str] | None = None

    @property
    def name(self) -> str:
        return type(self.estimator).__name__

    @property
    def n_features(self) -> int:
        return int(self.estimator.n_features_in_)


def find_format(path: str) -> str | None:
    """The format of a model file, by its first bytes; None for other files."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        start = file.read(64)
    if start[8 : 8 + len(_OURS)] == _OURS:
        return "maxmargin"
    if start.startswith((b"solver_type", b"nr_class", b"nr_feature")):
        return "liblinear"
    return "svm-light" if start.startswith(b"SVM-light") else None


def load_model(path: str) -> LoadedModel:
    """The model of a file in any of the formats."""
    if not os.path.exists(path):
        raise CommandError(f"{path}: there is no such file.")
    kind = find_format(path)
    if kind is None:
        raise CommandError(
            f"{path} is no model: neither of maxmargin, nor of LIBLINEAR (train), nor of SVM-light."
        )
    if kind != "maxmargin":
        foreign = (liblinear if kind == "liblinear" else svm_light).read(path)
        return LoadedModel(foreign.estimator(), {}, kind)
    from maxmargin.persistence import load, read_notes

    estimator = load(path)
    names = getattr(estimator, "feature_names_in_", None)
    if (
        names is not None
    ):  # the matrices of our readers have no names, and scikit-learn would warn of that
        names = [str(name) for name in names]
        del estimator.feature_names_in_
    return LoadedModel(estimator, read_notes(path), kind, names)


def write_model(model: LoadedModel, path: str, kind: str) -> None:
    """Write a model in one of the formats."""
    if kind == "maxmargin":
        save(model.estimator, path, model.notes, model.feature_names)
        return
    linear = LinearModel.of(model.estimator)
    (liblinear if kind == "liblinear" else svm_light).write(linear, path)


def save(
    estimator: Any, path: str, notes: Mapping[str, str], names: list[str] | None = None
) -> None:
    """Write a file of maxmargin, with the names of the features."""
    from maxmargin.persistence import save as save_estimator

    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    save_estimator(estimator, path, notes)
