"""Structured models with a kernel by sampled cuts; see :mod:`maxmargin.risks.kernels.sampled_structured`.

The objective of the result is measured in double precision. There is no lower bound, because sampled cuts
prove nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.sampling import excess_bound
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.structured.kernel_inputs import forget_kernel, kernel_of
from maxmargin.kernels.features import KernelFeatures
from maxmargin.risks.kernels.sampled_structured import SampledStructuredRisk
from maxmargin.solvers.sampled import SampledCuts
from maxmargin.tasks.base import Task

#: maximum number of rows of all inputs together
MOST_ROWS = 20_000


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
    X: Sequence[Any],
    Y: Sequence[Any],
    rows: Any,
    ends: IntArray,
    weight: Any,
) -> SampledModel:
    """Learn by sampled cuts of few examples, and store the certificate."""
    settings = estimator.kernel_method
    settings = SampledCuts() if isinstance(settings, str) else settings
    if settings.constant_time:
        raise ValueError("structured models do not support constant_time=True: leave it out.")
    if task.oracle_kind == "undergenerating":
        raise ValueError(
            f"the inference of {type(task).__name__} may miss the maximum, so the objective cannot be "
            "measured. Use kernel_method='map'."
        )
    if rows.shape[0] > MOST_ROWS:
        raise ValueError(
            f"kernel_method='sampled' computes the kernel of all pairs of rows, and {rows.shape[0]} rows are "
            f"more than {MOST_ROWS}. Use kernel_method='nystrom'."
        )
    kernel = kernel_of(estimator, rows)
    risk = SampledStructuredRisk(
        copy.deepcopy(task),
        X,
        Y,
        rows,
        ends,
        kernel,
        rescaling=estimator.rescaling,
        sample_weight=weight,
    )
    result = estimator._minimize(risk, settings, regularizer=risk.regularizer)
    bound = excess_bound(result.dual.record, result.objective, estimator.C, settings.delta)
    forget_kernel(estimator)
    estimator._keep([replace(result, dual=None).claiming("measured")])
    estimator.kernel_method_ = "as asked"
    estimator.probabilistic_bound_ = bound
    estimator.probabilistic_bound_is_vacuous_ = bool(not bound < result.objective)
    estimator.kernel_values_ = risk.kernel_values
    V, used = risk.coefficients(result.w)
    return _without_idle_rows(
        SampledModel(risk.task, V, KernelFeatures(kernel, rows)), task, X, Y, used
    )


def _without_idle_rows(
    fit: SampledModel, task: Task, X: Sequence[Any], Y: Sequence[Any], used: IntArray
) -> SampledModel:
    """The same model with only the rows that its planes use, if the task supports it."""
    used = used if len(used) else np.arange(1)
    n = fit.features.rows.shape[0]
    chosen = np.zeros((len(used), n))
    chosen[np.arange(len(used)), used] = 1.0
    w = fit.task.project_weights(fit.w, chosen)
    if w is None:
        return fit
    small = copy.deepcopy(task)
    none = np.zeros(len(used))
    counts = [task.kernel_inputs(x).shape[0] for x in X]
    empty = [np.broadcast_to(none, (count, len(used))) for count in counts]
    small.setup([small.with_kernel_inputs(x, r) for x, r in zip(X, empty, strict=True)], Y)
    return SampledModel(small, w, replace(fit.features, rows=fit.features.rows[used]))
