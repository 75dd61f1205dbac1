"""Models of LIBLINEAR's ``train``.

A header of lines ``name value``, then ``w``, then a line per feature with a weight per class (one for two
classes, positive for the first label). With ``bias >= 0`` there is one more line, for a feature with that
value.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.model_formats.linear_model import Array, LinearModel

_REGRESSION = ("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")


def read(path: str) -> LinearModel:
    """Read a model."""
    lines = Path(path).read_text(encoding="ascii", errors="replace").split("\n")
    header: dict[str, list[str]] = {}
    rest = iter(lines)
    for line in rest:
        name, *values = line.split() or [""]
        if name == "w":
            break
        header[name] = values
    try:
        solver = header["solver_type"][0]
        n_features, n_classes = int(header["nr_feature"][0]), int(header["nr_class"][0])
        bias = float(header["bias"][0])
        labels = [int(float(label)) for label in header.get("label", [])]
    except (KeyError, IndexError, ValueError) as error:
        raise CommandError(
            f"{path}: the header of the LIBLINEAR model is damaged ({error})."
        ) from error
    if solver == "ONECLASS_SVM":
        raise CommandError(f"{path}: models of one class are not supported.")
    regression = solver in _REGRESSION
    width = 1 if regression or (n_classes == 2 and solver != "MCSVM_CS") else n_classes
    w = _weights(list(rest), n_features + (bias >= 0), width, path)
    coef = np.ascontiguousarray(w[:n_features].T)
    intercept = bias * w[n_features] if bias >= 0 else np.zeros(width)
    if regression:
        return LinearModel("regression", coef, intercept, None, solver)
    if len(labels) != n_classes or len(set(labels)) != n_classes:
        raise CommandError(f"{path}: {n_classes} classes, but the labels are {labels}.")
    return _sorted(coef, intercept, labels, solver)


def _weights(lines: list[str], height: int, width: int, path: str) -> Array:
    try:
        w = np.array(" ".join(lines).split(), dtype=np.float64)
    except ValueError as error:
        raise CommandError(f"{path}: a weight is not a number ({error}).") from error
    if w.size != height * width or not np.isfinite(w).all():
        raise CommandError(
            f"{path}: {w.size} weights, but the header announces {height} x {width}."
        )
    return w.reshape(height, width)


def _sorted(coef: Array, intercept: Array, labels: list[int], solver: str) -> LinearModel:
    """The model with ascending labels and, for two classes, one row that is positive for the second."""
    order = np.argsort(labels)
    classes = [labels[k] for k in order]
    if len(classes) > 2:
        return LinearModel("classes", coef[order], intercept[order], classes, solver)
    if len(coef) == 2:  # MCSVM_CS has two rows
        coef, intercept = coef[:1] - coef[1:], intercept[:1] - intercept[1:]
    sign = 1.0 if classes[1] == labels[0] else -1.0
    return LinearModel("classes", sign * coef, sign * intercept, classes, solver)


def write(model: LinearModel, path: str) -> None:
    """Write a model that ``predict`` of LIBLINEAR reads."""
    coef, intercept, classes = model.coef, model.intercept, model.classes
    solver = model.solver or "L2R_L1LOSS_SVC_DUAL"
    labels: list[int] = []
    if classes is not None:
        labels = classes if len(classes) > 2 else classes[::-1]
    bias = 1 if intercept.any() else -1
    header = [f"solver_type {solver}", f"nr_class {max(2, len(labels))}"]
    if labels:
        header.append("label " + " ".join(map(str, labels)))
    header += [f"nr_feature {coef.shape[1]}", f"bias {bias}", "w"]
    rows = np.vstack([coef.T, intercept[None, :]]) if bias >= 0 else coef.T
    with Path(path).open("w", encoding="ascii", newline="\n") as file:
        file.write("\n".join(header) + "\n")
        file.writelines(" ".join(f"{value:.17g}" for value in row) + " \n" for row in rows)
