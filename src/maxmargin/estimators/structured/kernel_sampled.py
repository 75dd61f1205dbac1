"""Structured models with a kernel by sampled cuts; see :mod:`maxmargin.risks.kernels.sampled_structured`.

The objective of the result is measured in double precision. There is no lower bound, because sampled cuts
prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.structured.kernel_inputs import forget_kernel, kernel_of
from maxmargin.kernels.features import KernelFeatures
from maxmargin.risks.kernels.sampled_structured import GrowingStructuredRisk, SampledStructuredRisk
from maxmargin.solvers.sampled import SampledCuts
from maxmargin.tasks.base import Task


class SampledModel(NamedTuple):
    """A fitted model: the task prepared for features ``k(row, rows)``, and its weights."""

    task: Task
    w: Array
    features: KernelFeatures


def require_alone(estimator: Any, resume_from: Any = None) -> None:
    """Raise ValueError for parameters that sampled cuts do not support."""
    wrong = {
        "solver": estimator.solver != "auto",
        "warm_start": bool(estimator.warm_start),
        "checkpoint": estimator.checkpoint is not None or resume_from is not None,
        "oracle": getattr(estimator, "oracle", "cheap") != "cheap",
    }
    if any(wrong.values()):
        names = ", ".join(name for name, is_wrong in wrong.items() if is_wrong)
        raise ValueError(
            f"kernel_method='sampled' does not support {names}. Leave it out, or use "
            "kernel_method='map' or 'nystrom'."
        )


def fit_sampled_cuts(
    estimator: Any,
    task: Task,
    X: Sequence[object],
    Y: Sequence[object],
    rows: Any,
    ends: IntArray,
    weight: Any,
) -> SampledModel:
    """Learn by sampled cuts of few examples, and store the certificate."""
    settings = estimator.kernel_method
    settings = SampledCuts() if isinstance(settings, str) else settings
    if task.oracle_kind == "undergenerating":
        raise ValueError(
            f"the inference of {type(task).__name__} may miss the maximum, so the objective cannot be "
            "measured. Use kernel_method='map'."
        )
    kernel = kernel_of(estimator, rows)
    kind = GrowingStructuredRisk if settings.constant_time else SampledStructuredRisk
    risk = kind(
        task,
        X,
        Y,
        rows,
        ends,
        kernel,
        rescaling=estimator.rescaling,
        sample_weight=weight,
    )
    result = estimator._minimize(risk, settings, regularizer=risk.regularizer)
    objective = result.objective
    if settings.constant_time:
        objective = float("nan")
        if settings.measure:
            value = risk.measure(result.w)
            objective = risk.regularizer.value(result.w) + estimator.C * value
    forget_kernel(estimator)
    estimator._keep([replace(result, objective=objective, dual=None).claiming("measured")])
    estimator.kernel_method_ = "as asked"
    estimator.kernel_values_ = risk.kernel_values
    ready, V, used = risk.model(result.w)
    return SampledModel(ready, V, KernelFeatures(kernel, rows[used]))
