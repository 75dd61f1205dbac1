"""The base class of all estimators: runs a fit, stores its record, and supports scikit-learn's callbacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from numbers import Real
from typing import Any, Self

import numpy as np

from maxmargin.core.contract.risk import Risk
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import (
    Certificate,
    IterationRecord,
    SolveResult,
    Start,
    StopReason,
    bounds_in_words,
    relative_gap,
)
from maxmargin.core.stopping import RelativeGap, StoppingRule
from maxmargin.core.vectors import Array
from maxmargin.engines import Engine, opened
from maxmargin.estimators.by_value import needs_value
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.parameters import NamedParameters
from maxmargin.estimators.scikit import CallbackSupportMixin, with_callbacks
from maxmargin.estimators.threads import granted_jobs, limit_blas, one_blas_thread
from maxmargin.estimators.watching import joint_observer, watchers
from maxmargin.model_writer import write_model
from maxmargin.solvers.certificate import at_point
from maxmargin.solvers.minimization import solve
from maxmargin.solvers.session import Solver

__all__ = ["CertifiedEstimator", "with_callbacks"]

#: engines whose workers use the cores of this machine
HERE = ("threads", "processes")
#: stop reasons that end the whole fit, also if it consists of several problems
ENDING = ("interrupted", "callback", "max_seconds")


class Solved(list[SolveResult]):
    """Results of the problems of a fit that were solved before, and what the next one asks of them."""

    def __init__(self, results: Iterable[SolveResult] = ()) -> None:
        super().__init__()
        #: seconds, and the first that ended the whole fit
        self.elapsed = 0.0
        self.ended: SolveResult | None = None
        for result in results:
            self.append(result)

    def append(self, result: SolveResult) -> None:
        """Add a result."""
        super().append(result)
        self.elapsed += result.history[-1].elapsed if result.history else 0.0
        if self.ended is None and result.stop_reason in ENDING:
            self.ended = result


class CertifiedEstimator(CallbackSupportMixin, NamedParameters):
    """Base class of all estimators: minimizes a risk and stores the certificate.

    Attributes
    ----------
    objective_ : float
        Objective at the returned weights: an upper bound of the optimum.
    lower_bound_ : float
        Lower bound of the optimum.
    gap_ : float
        Relative gap between the bounds, ``(objective_ - lower_bound_) / objective_``.
    converged_ : bool
        Whether the bounds prove that ``tol`` was reached.
    stop_reason_ : str
        Why the fit stopped: "gap" (``tol`` was reached), "max_iter", "max_seconds", "callback",
        "interrupted", "stalled" (no further progress) or "rounding" (rounding errors may exceed ``tol``:
        scale the features).
    certificate_ : str
        What the bounds guarantee: "exact", "relaxed", "restricted", "lower_only" or "measured"; see the user
        guide, "What the certificate means".
    n_iter_ : int
        Number of iterations.
    history_ : list of dict
        Record of every iteration: bounds, gap, elapsed time and more.
    """

    C: float
    tol: float | StoppingRule
    max_iter: int | None
    max_seconds: float | None
    callbacks: Any
    verbose: int
    random_state: Any
    n_jobs: int | None
    engine: Any
    warm_start: bool

    objective_: float
    lower_bound_: float
    gap_: float
    converged_: bool
    stop_reason_: StopReason
    certificate_: Certificate
    n_iter_: int
    history_: list[dict[str, Any]]

    #: whether the certificate of several problems is stored after each of them, or by the caller at the end
    _keeps_parts = True

    def _workers(self) -> AbstractContextManager[Engine]:
        """The engine of this fit."""
        here = self.engine is None or self.engine in HERE
        n_jobs = granted_jobs(self.n_jobs) if here else self.n_jobs
        return opened(self.engine, n_jobs, limit_blas, by_value=needs_value(self))

    def _minimize(
        self,
        risk: Risk,
        solver: Solver,
        *,
        regularizer: SquaredNorm | None = None,
        start: Start | SolveResult | None = None,
        after: Sequence[SolveResult] = (),
        fitted: Callable[[Array], Mapping[str, Any]] | None = None,
        data: Mapping[str, Any] | None = None,
        keeping: FitCheckpoint | None = None,
        stopping: StoppingRule | None = None,
        returned: Callable[[Array], Array] | None = None,
    ) -> SolveResult:
        """Run the solver with the limits and callbacks of this estimator, and store the certificate.

        ``after``: results of the problems that were solved before and that, together with this one, make
        up the fit. Their objectives and bounds are added. If one of them was stopped early, this one ends
        after one iteration. ``keeping``: the checkpoints of the fit. ``stopping``: a stopping rule in
        place of ``tol``. ``returned``: the weights that the attributes stand for, if they do not hold all of
        w; these are evaluated.
        """
        stopping = stopping or stopping_rule(self.tol)
        before = after if isinstance(after, Solved) else Solved(after)
        if keeping is None and getattr(self, "checkpoint", None) is not None:
            raise ValueError(
                "checkpoint= is for one fit. Paths and cross-validation, whose fits start from each other, "
                "write no checkpoints: leave it out, or fit the values of C one by one."
            )
        seconds = None if self.max_seconds is None else max(0.0, self.max_seconds - before.elapsed)
        callbacks, predicting = watchers(self, len(after), stopping, seconds)
        with (
            _scikit_callbacks(self, fitted, data) as scikit,
            one_blas_thread,
        ):
            result = solve(
                risk,
                self.C,
                solver=solver,
                regularizer=regularizer,
                stopping=stopping,
                max_iter=self._max_iter if before.ended is None else 1,
                max_seconds=seconds,
                callbacks=callbacks,
                observer=joint_observer(self, predicting, fitted, scikit),
                random_state=_seed(self.random_state),
                start=start,
                checkpoint=None if keeping is None else keeping.recorder,
                resume_from=None if keeping is None else keeping.part(len(after)),
            )
        w = result.w if returned is None else returned(result.w)
        if w is not result.w:
            result = at_point(result, risk, regularizer, self.C, stopping, w)
        if self._keeps_parts:
            self._keep([*after, result])
        return result

    @property
    def _max_iter(self) -> int | None:
        """The limit of iterations. Kernel estimators accept -1 for none, as in scikit-learn."""
        return None if self.max_iter == -1 else self.max_iter

    def _previous_weights(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """The weights of the previous fit, if ``warm_start`` and their shape is right for this problem."""
        found: Array | None = getattr(self, name, None) if self.warm_start else None
        return found if found is not None and found.shape == shape else None

    def _keep(self, results: Sequence[SolveResult]) -> None:
        """Store the certificate of all problems together."""
        self.objective_ = sum(r.objective for r in results)
        self.lower_bound_ = sum(r.lower_bound for r in results)
        self.gap_ = results[0].gap if len(results) == 1 else _gap(results)
        self.converged_ = all(r.converged for r in results)
        # Ctrl-C ends all of them; otherwise the reason of the first problem that missed its tolerance
        reasons = [r.stop_reason for r in results if not r.converged]
        # problems that reached their own goal without a proof come last
        reasons.sort(key=lambda reason: reason in ("gap", "sampled"))
        if any(r.stop_reason == "interrupted" for r in results):
            reasons = ["interrupted"]
        self.stop_reason_ = next(iter(reasons), "gap")
        if len(results) == 1:
            self.stop_reason_ = results[0].stop_reason
        self.certificate_ = results[0].certificate
        self.n_iter_ = max(r.n_iter for r in results)
        self.history_ = [_as_dict(record) for r in results for record in r.history]
        #: for the warning or interrupt in :mod:`maxmargin.estimators.outcome`
        self._ended = [(r.stop_reason, r.converged) for r in results]

    def __getstate__(self) -> Any:
        """Without the working sets of the last fit, which are large, and without what belongs to one fit."""
        state = {**super().__getstate__()}
        state.pop("_kept", None)
        state.pop("_ended", None)
        state.pop("_watch", None)
        return state

    def _certificate_html(self) -> str:
        """One line below scikit-learn's diagram in a notebook; empty before the fit."""
        if not hasattr(self, "stop_reason_"):
            return ""
        bounds = bounds_in_words(self.objective_, self.lower_bound_, self.gap_)
        missed = "⚠ not converged" if np.isfinite(self.gap_) else "⚠ not proven"
        mark = "✓ proven" if self.converged_ else missed
        return (
            f"<div><b>{mark}</b>: {bounds}; stopped by {self.stop_reason_}, "
            f"certificate {self.certificate_}</div>"
        )

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._certificate_html()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._certificate_html()
        return bundle

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the fitted estimator to a file, which :func:`maxmargin.load` reads.

        Parameters
        ----------
        path : str or path
            The file. It contains no code.

        Returns
        -------
        estimator
            The estimator itself.
        """
        write_model(self, path)
        return self


_FIELDS = tuple(field.name for field in fields(IterationRecord))


def _as_dict(record: IterationRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _FIELDS}  # plain values: no deep copy


def _gap(results: Sequence[SolveResult]) -> float:
    if any(not np.isfinite(r.gap) for r in results):
        return float("inf")
    return relative_gap(sum(r.objective for r in results), sum(r.lower_bound for r in results))


def stopping_rule(tol: Any) -> StoppingRule:
    """A number is a relative gap; anything else is a stopping rule."""
    rule: StoppingRule = RelativeGap(float(tol)) if isinstance(tol, Real) else tol
    return rule


def _seed(random_state: Any) -> int:
    """A seed from ``random_state``: itself, a number that the generator draws, or a new one for None."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(np.random.default_rng(random_state).integers(2**31 - 1))


@contextmanager
def _scikit_callbacks(
    estimator: Any,
    fitted: Callable[[Array], Mapping[str, Any]] | None,
    data: Mapping[str, Any] | None = None,
) -> Iterator[Callable[[IterationRecord, Array], bool] | None]:
    """Report each iteration to callbacks that were set by scikit-learn's ``set_callbacks``, if there are any.

    ``fitted`` converts weights to the attributes with which an estimator can predict. ``data`` contains
    the ``X`` and ``y`` of the fit, for callbacks that compute scores (scikit-learn's ScoringMonitor
    requires them).
    """
    if not getattr(estimator, "_skl_callbacks", None):
        yield None
        return
    limit = estimator._max_iter  # even a limit of 0 reports one iteration
    context = estimator._init_callback_context(
        max_subtasks=None if limit is None else max(1, int(limit))
    )
    data = dict(data or {})
    context.call_on_fit_task_begin(estimator=estimator, **data)

    def observe(record: IterationRecord, w: Array) -> bool:
        step = context.subcontext(task_name="iteration")
        step.call_on_fit_task_begin(estimator=estimator, **data)
        attributes = None if fitted is None else (lambda: dict(fitted(w)))
        return bool(
            step.call_on_fit_task_end(
                estimator=estimator, reconstruction_attributes=attributes, **data
            )
        )

    yield observe
    # not after an error: then the fit has not ended, and scikit-learn's decorator cleans up
    context.call_on_fit_task_end(estimator=estimator, **data)
