"""What fits of one task to the same examples share: the task after setup, the examples, the engine."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import numpy as np

from maxmargin.core.contract.examples import Examples
from maxmargin.core.engine import Engine
from maxmargin.core.vectors import Array
from maxmargin.estimators.base import _seed
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
from maxmargin.tasks.base import Bounded

#: examples whose argmax is asked when a fit has learned nothing
MOST_ASKED = 20


class StructuredEstimator(Protocol):
    """The parameters of an estimator that a problem is made of."""

    task: Any
    oracle: Any
    rescaling: Any

    def _workers(self) -> AbstractContextManager[Engine]: ...


class StructuredProblem:
    """A task set up on examples, for any C and any weights of the examples. Its risks live inside ``with``.

    ``last`` is an earlier problem of the same examples: its task and examples serve this one too.
    """

    def __init__(
        self,
        svm: StructuredEstimator,
        X: Sequence[Any],
        y: Sequence[Any],
        margin: Any = None,
        last: StructuredProblem | None = None,
    ) -> None:
        if svm.oracle not in ("cheap", "expensive"):
            raise ValueError(f"oracle={svm.oracle!r}: use 'cheap' or 'expensive'.")
        self.X, self.y, self._margin = X, y, margin
        self.task: Any = copy.deepcopy(svm.task) if last is None else last.task
        #: what takes the place of rows where there is a kernel, and the inputs with it
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
                f"features, a positive int; it returned {dim!r}."
            )
        self.dim: int = int(dim)
        names = getattr(self.task, "feature_names", None)
        self.weights = weigh(svm, self.dim, names)
        self.omega = self.weights.norm
        self._rescaling: Any = svm.rescaling
        self._expensive = svm.oracle == "expensive"
        self._workers = svm._workers()
        self._examples: Examples | None = None if last is None else last._examples

    def _map(self, svm: Any, X: Sequence[Any]) -> tuple[Mapped, Sequence[Any]]:
        check_kernel(svm)
        if is_sampled(svm):
            raise ValueError(
                "kernel_method='sampled' keeps no planes from one fit to the next: paths and grids are for "
                "'map' and 'nystrom'."
            )
        rows, ends = stack_inputs(self.task, X)
        mapped = map_rows(svm, rows, np.diff(ends, prepend=0), _seed(svm.random_state))
        if self.task.oracle_kind == "undergenerating" and mapped.claim != "exact":
            raise ValueError(
                f"the argmax of {type(self.task).__name__} may miss the maximum, so F is not known, and with "
                "a basis of some rows there is no lower bound either: nothing would be certified. Use "
                "kernel_method='map'."
            )
        return mapped, replace_rows(self.task, X, mapped.rows, ends)

    def risk(self, weight: Any) -> Any:
        """The risk with these weights of the examples. It takes the engine from the risk before it."""
        # a centre alone leaves compiled examples as they are; answers of an expensive oracle are kept by w
        centred = self.weights.centre_only and not self._expensive and self._margin is None
        known = centred or self._examples is not None
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
            sample_margin=self._margin if self._examples is None else None,
            expensive=self._expensive,
        )
        self._examples = risk.examples
        return self.weights.risk(risk) if centred else risk

    def completed_risk(self, weight: Any, latent: Sequence[Any]) -> CompletedRisk:
        """The risk of a latent task with these weights of the examples and these completions."""
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

    def whole(self, w: Array) -> Array:
        """The weights the user means."""
        return self.weights.whole(w)

    def learned(self, w: Array) -> Array:
        """The weights a solver sees."""
        return self.weights.learned(w)

    def __enter__(self) -> Self:
        self._engine = self._workers.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._workers.__exit__(*error)


def warn_if_never_wrong(
    task: Any, X: Sequence[Any], y: Sequence[Any], rescaling: str, dim: int
) -> None:
    """Warn if the argmax of training returns the true outputs where all scores are 0.

    There an output of largest loss is the maximum. If it is the true one for every example, either there is
    no other output, or the argmax forgets the loss or has its sign wrong; then nothing is learned, and 0 is
    the value of the objective.
    """
    ask = task.slack_augmented_inference if rescaling == "slack" else task.loss_augmented_inference
    w = np.zeros(dim)
    for x, own in list(zip(X, y, strict=True))[:MOST_ASKED]:
        found = ask(x, own, w)
        found = found.y if isinstance(found, Bounded) else found
        if task.loss(own, found) > 0.0:
            return
    warnings.warn(
        f"{type(task).__name__}.{ask.__name__} returned nothing but the true outputs, so nothing was "
        "learned: the objective is 0 at weights of 0. At w = 0 it must return an output of largest loss: "
        "does it add "
        "loss(y, y_hat) to the score, with a plus sign? maxmargin.testing.check_task(task, X, y) finds out.",
        UserWarning,
        stacklevel=3,
    )
