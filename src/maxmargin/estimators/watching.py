"""The callbacks of one fit: those of the user, the line of ``verbose``, and the log."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from maxmargin.callbacks import Progress
from maxmargin.core.result import IterationRecord
from maxmargin.core.stopping import StoppingRule, stops
from maxmargin.core.vectors import Array

Fitted = Callable[[Array], Mapping[str, Any]]
Observer = Callable[[IterationRecord, Array], bool]


class Watch:
    """Watches a fit: as a context around it, reports the final state of the estimator.

    ``label`` names the fit if it is one of several.
    """

    def __init__(self, estimator: Any, label: str = "") -> None:
        self.estimator, self.label = estimator, label
        #: those that are not the user's
        self.own = [Progress("log"), *([Progress()] if estimator.verbose else [])]

    def __enter__(self) -> Self:
        self.estimator._watch = self
        given = self.estimator.callbacks  # not checked yet
        for callback in given if isinstance(given, list | tuple) else ():
            if isinstance(callback, Progress):
                callback.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.estimator.__dict__.pop("_watch", None)
        if kind is None:
            for callback in [*(self.estimator.callbacks or []), *self.own]:
                if hasattr(callback, "on_end"):
                    callback.on_end(self.estimator)
            return
        for callback in self.own:
            callback.close()

    @contextmanager
    def of_part(self, part: Any, label: str) -> Iterator[None]:
        """Show the fit of another estimator, which is a part of this one, on the same line."""
        part._watch = inner = copy.copy(self)
        inner.estimator, inner.label = part, label
        try:
            yield
        finally:
            del part._watch


def watchers(
    estimator: Any, number: int, rule: StoppingRule | None, seconds: float | None
) -> tuple[list[Any], list[Any]]:
    """The callbacks of a problem that begins: those that get records, and those that get estimators.

    ``number``: the number of problems that were solved before. ``rule`` and ``seconds``: when it stops.
    """
    watch: Watch | None = estimator.__dict__.get("_watch")
    everyone = [*(estimator.callbacks or []), *(() if watch is None else watch.own)]
    label = "" if watch is None else watch.label
    for callback in everyone:
        if isinstance(callback, Progress):
            callback.begin(label, number, rule, seconds)
    plain = [callback for callback in everyone if not hasattr(callback, "on_estimator")]
    return plain, [callback for callback in everyone if hasattr(callback, "on_estimator")]


def joint_observer(
    estimator: Any, callbacks: list[Any], fitted: Fitted | None, scikit: Observer | None
) -> Observer | None:
    """Report each iteration to callbacks that get estimators, and to those of scikit-learn.

    ``fitted`` converts weights to the attributes with which the estimator can predict.
    """
    if not callbacks:
        return scikit
    if fitted is None:
        raise ValueError(
            f"callbacks: {type(callbacks[0]).__name__} needs an estimator that predicts during the fit, and "
            f"{type(estimator).__name__} has none with these parameters (kernels, sampled cuts, and "
            "multi_class='ovr' with several classes). Score the fitted estimator instead."
        )

    def observe(record: IterationRecord, w: Array) -> bool:
        def current() -> Any:
            one = copy.copy(estimator)
            one.callbacks, one.verbose = None, 0
            one.engine = one.n_jobs = None  # the engine holds the shards of the fit
            one.__dict__.update(fitted(w))
            return one

        answers = [callback.on_estimator(record, current) for callback in callbacks]
        if scikit is not None:
            answers.append(scikit(record, w))
        return any(stops(answer) for answer in answers)

    return observe
