"""Validation of examples that are not rows of a matrix."""

from __future__ import annotations

from typing import Any

from maxmargin.core.vectors import Array
from maxmargin.estimators.parameters import require_object
from maxmargin.risks.lines.evaluation import check_weights

METHODS = ("setup", "joint_feature", "loss", "inference", "loss_augmented_inference")


def require_task(task: Any) -> None:
    """Raise TypeError unless this is an object with the five methods of a task."""
    require_object("task", task)
    missing = [name for name in METHODS if not callable(getattr(task, name, None))]
    if missing:
        raise TypeError(
            f"task is a {type(task).__name__} without {', '.join(missing)}. A task has five methods: see "
            "maxmargin.tasks.Task."
        )


def check_pairs(X: Any, y: Any) -> None:
    """Raise an error unless X and y are sequences of the same length and not empty."""
    for name, value in (("X", X), ("y", y)):
        if not hasattr(value, "__len__"):
            raise TypeError(
                f"{name} must be a sequence (for example, a list), but it is a {type(value).__name__}."
            )
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} examples but y has {len(y)}.")
    if len(y) == 0:
        raise ValueError("X and y are empty: there is nothing to learn from.")


def check_example_weights(sample_weight: Any, n: int) -> Array | None:
    """Validate sample weights: one finite, nonnegative number per example, not all of them zero."""
    if sample_weight is None:
        return None
    weight = check_weights(sample_weight, n)
    if not weight.any():
        raise ValueError("all sample weights are zero: there is nothing to learn from.")
    return weight
