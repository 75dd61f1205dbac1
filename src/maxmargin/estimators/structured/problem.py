"""State that is shared by fits of one task to the same examples: prepared task, examples, engine."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import numpy as np

from maxmargin.core.contract.examples import Examples
from maxmargin.core.engine import Engine
from maxmargin.core.user_warnings import warn_user
from maxmargin.core.vectors import SparseVector
from maxmargin.estimators.base import _seed
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.structured.kernel_inputs import (
    Mapped,
    check_kernel,
    is_sampled,
    map_rows,
    replace_rows,
    stack_inputs,
)
from maxmargin.estimators.weights import weigh
from maxmargin.risks.structured.latent import CompletedRisk
from maxmargin.risks.structured.risk import TaskRisk
from maxmargin.tasks.base import Bounded, Task

#: examples for which inference is tested when a fit has learned nothing
MOST_ASKED = 20


class StructuredEstimator(Protocol):
    """The parameters of an estimator that define a problem."""

    task: Any
    oracle: Any
    rescaling: Any

    def _workers(self) -> AbstractContextManager[Engine]: ...


class StructuredProblem:
    """A task prepared for examples, for any C and any sample weights. Its risks are valid inside ``with``.

    ``last`` is an earlier problem with the same examples, whose task and examples are reused.
    """

    def __init__(
        self,
        svm: StructuredEstimator,
        X: Sequence[object],
        y: Sequence[object],
        last: StructuredProblem | None = None,
    ) -> None:
        check_parameters(svm)
        self.X, self.y = X, y
        self.task: Any = copy.deepcopy(svm.task) if last is None else last.task
        #: with a kernel: the features that replace rows, and the inputs with these features
        self.mapped: Mapped | None = None
        self.inputs: Sequence[Any] = X
        if last is not None:
            self.mapped, self.inputs = last.mapped, last.inputs
        elif getattr(svm, "kernel", None) is not None:
            self.mapped, self.inputs = self._map(svm, X)
        dim = self.task.setup(self.inputs, y) if last is None else last.dim
        if not isinstance(dim, int | np.integer) or dim < 1:
            raise TypeError(
                f"{type(self.task).__name__}.setup must return the dimension of the joint "
                f"features, a positive int, but it returned {dim!r}."
            )
        self.dim: int = int(dim)
        names = getattr(self.task, "feature_names", None)
        self.weights = weigh(svm, self.dim, names)
        self._rescaling: Any = svm.rescaling
        self._expensive = svm.oracle == "expensive"
        self._workers = svm._workers()
        self._examples: Examples | None = None if last is None else last._examples

    def _map(self, svm: Any, X: Sequence[object]) -> tuple[Mapped, Sequence[Any]]:
        check_kernel(svm)
        if is_sampled(svm):
            raise ValueError(
                "kernel_method='sampled' has no state for the next fit: use 'map' or 'nystrom' for paths and "
                "cross-validation."
            )
        rows, ends = stack_inputs(self.task, X)
        mapped = map_rows(svm, rows, np.diff(ends, prepend=0), _seed(svm.random_state))
        if self.task.oracle_kind == "undergenerating" and mapped.claim != "exact":
            raise ValueError(
                f"the inference of {type(self.task).__name__} may miss the maximum, so the objective is not "
                "known, and with landmarks there is no lower bound either: nothing would be certified. Use "
                "kernel_method='map'."
            )
        return mapped, replace_rows(self.task, X, mapped.rows, ends)

    def risk(self, weight: Any) -> Any:
        """The risk with these sample weights. It takes over the engine of the previous risk."""
        # a center alone does not change compiled examples; cached outputs of an expensive oracle depend on w
        centered = self.weights.center_only and not self._expensive
        known = centered or self._examples is not None
        if self._examples is None:
            check_dimension(self.task, self.inputs, self.y, self.dim)
        risk = TaskRisk(
            self.task,
            self.inputs,
            self.y,
            self.dim,
            rescaling=self._rescaling,
            sample_weight=weight,
            engine=self._engine,
            examples=self._examples,
            weight_map=None if known else self.weights.map,
            expensive=self._expensive,
        )
        self._examples = risk.examples
        return self.weights.risk(risk) if centered else risk

    def completed_risk(self, weight: Any, latent: Sequence[object]) -> CompletedRisk:
        """The risk of a latent task with these sample weights and latent variables."""
        return CompletedRisk(
            self.task,
            self.X,
            self.y,
            latent,
            self.dim,
            sample_weight=weight,
            engine=self._engine,
            weight_map=self.weights.map,
            expensive=self._expensive,
        )

    def __enter__(self) -> Self:
        self._engine = self._workers.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._workers.__exit__(*error)


def check_dimension(task: Any, X: Sequence[object], y: Sequence[object], dim: int) -> None:
    """Compare the dimension with the first joint feature of a task that is written in Python."""
    if not isinstance(task, Task) or type(task).pack is not Task.pack:
        return
    psi = task.joint_feature(X[0], y[0])
    shape = (psi.size,) if isinstance(psi, SparseVector) else np.shape(psi)
    if shape != (dim,):
        raise ValueError(
            f"{type(task).__name__}.setup returned {dim}, but joint_feature(X[0], y[0]) has shape {shape}. "
            "setup must return the length of the joint features."
        )


def warn_if_never_wrong(
    task: Any, X: Sequence[object], y: Sequence[object], rescaling: str, dim: int
) -> None:
    """Warn if loss-augmented inference returns the true outputs when all scores are 0.

    With scores of 0, it must return an output of largest loss. If it returns the true output for every
    example, either there is no other output, or the loss is missing or has the wrong sign. Then nothing is
    learned, and the objective is 0.
    """
    ask = task.slack_augmented_inference if rescaling == "slack" else task.loss_augmented_inference
    w = np.zeros(dim)
    for x, own in list(zip(X, y, strict=True))[:MOST_ASKED]:
        found = ask(x, own, w)
        found = found.y if isinstance(found, Bounded) else found
        if task.loss(own, found) > 0.0:
            return
    warn_user(
        f"{type(task).__name__}.{ask.__name__} returned nothing but the true outputs, so nothing was "
        "learned: the objective is 0 at weights of 0. At w = 0 it must return an output of largest loss: "
        "check that it adds "
        "loss(y, y_hat) to the score, with a plus sign. Use maxmargin.testing.check_task(task, X, y).",
    )
