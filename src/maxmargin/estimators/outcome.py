"""How a fit ends for its caller: an interrupt is raised again, and a missed tolerance gives a warning.

Both happen in one place, around every public ``fit``. At that time all results are stored, whatever the
fit consists of (classes, pairs, folds, values of C), and there is one warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NoReturn, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin.core.interrupts import interrupt, outermost
from maxmargin.core.result import bounds_in_words, relative_gap
from maxmargin.core.user_warnings import warn_user
from maxmargin.estimators.base import with_callbacks
from maxmargin.estimators.grid_table import GridTable
from maxmargin.estimators.grid_watch import EarlyStop
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.watching import Watch

Fit = TypeVar("Fit", bound=Callable[..., Any])

#: endings that were requested, or that are a method's own goal
PLANNED = ("callback", "interrupted", "partial", "cccp", "sampled")

ADVICE = {
    "max_iter": "Raise max_iter or loosen tol; features of similar scale (StandardScaler) need fewer "
    "iterations.",
    "max_seconds": "Raise max_seconds or loosen tol; features of similar scale (StandardScaler) need less "
    "time.",
    "one pass": "Leave out schedule='one_pass', or loosen tol.",
    "stalled": "Scale the features to similar ranges (StandardScaler), lower C, or loosen tol.",
    "searched": "With rescaling='slack', the search for the argmax may leave a gap: define loss_step or "
    "slack_augmented_inference in the task, use rescaling='margin', or loosen tol.",
    "rounding": "Scale the features to similar ranges (StandardScaler), lower C, or loosen tol.",
    "lower_only": "Use exact inference, or return an upper bound with the output (maxmargin.tasks.Bounded).",
    "measured": "Use a positive semidefinite kernel, such as 'rbf', for a certified gap.",
}


def certified_fit(fit: Fit) -> Fit:
    """Decorate a public ``fit`` with callbacks, and with the interrupt or warning after it."""
    inner = with_callbacks(fit)

    @wraps(inner)
    def outer(self: Any, *args: object, **options: Any) -> Any:
        check_parameters(self)
        self.__dict__.pop("_ended", None)
        with outermost() as returns:
            try:
                with Watch(self):
                    fitted = inner(self, *args, **options)
            except BaseException:
                _forget_bounds(self)
                raise
        report_fit(self, returns=returns)
        return fitted

    return outer  # type: ignore[return-value]


def _forget_bounds(estimator: Any) -> None:
    """Reset the bounds after an error or a late Ctrl-C, when bounds were stored and weights perhaps not."""
    if estimator.__dict__.pop("_ended", None) is not None:
        estimator.objective_, estimator.lower_bound_ = float("nan"), -float("inf")
        estimator.gap_, estimator.converged_ = float("inf"), False


def report_fit(estimator: Any, *, returns: bool) -> None:
    """Raise the interrupt that ended a fit, or warn that it did not reach its tolerance."""
    name, ended = type(estimator).__name__, estimator.__dict__.pop("_ended", ())
    if estimator.stop_reason_ == "interrupted":
        if returns:
            return
        raise interrupt(
            f"{name}: {_reached(estimator)}. The fitted estimator is error.estimator.",
            estimator=estimator,
        )
    kind = _shortfall(estimator, ended)
    if kind is not None:
        missed = [why for why, converged in ended if not converged]
        # do not count problems that reached their own goal if others did not
        missed = [why for why in missed if why not in ("gap", "sampled")] or missed
        several = f" in {len(missed)} of {len(ended)} problems" if len(ended) > 1 else ""
        text = f"{name}: {_cause(kind, estimator)}{several}; {_reached(estimator)}. {ADVICE[kind]}"
        warn_user(text, ConvergenceWarning)


def report_path(name: str, fits: Sequence[Any], interrupted: bool, *, returns: bool) -> None:
    """The same for the fits of a path. ``interrupted``: whether Ctrl-C was pressed between two of them."""
    kinds = [_shortfall(fit, fit.__dict__.pop("_ended", ())) for fit in fits]
    unfinished = [fit for fit in fits if fit.stop_reason_ == "interrupted"]
    if interrupted or unfinished:
        if returns and fits:
            return
        done = f"{len(fits) - len(unfinished)} fits are done"
        last = (
            f", that of C={unfinished[-1].C:g} has {_reached(unfinished[-1])}" if unfinished else ""
        )
        error = interrupt(f"{name}: {done}{last}. The list is error.result.", result=list(fits))
        if unfinished:
            error.estimator = unfinished[-1]  # type: ignore[attr-defined]
        raise error
    missed = [fit for kind, fit in zip(kinds, fits, strict=True) if kind is not None]
    if missed:
        values = ", ".join(f"{fit.C:g}" for fit in missed)
        _warn_of_cells(
            f"{name}: {len(missed)} of {len(fits)} fits",
            [kind for kind in kinds if kind is not None],
            f"C={values}; {_largest([fit.gap_ for fit in missed])}",
            fits[0],
        )


def report_search(search: Any, table: GridTable, best: Any) -> None:
    """Give one warning for all fits of a search, including the final one (``best``, None without a refit)."""
    name, missed = type(search).__name__, [done for done in table.done if not done.converged]
    kinds = [
        _kind(result.stop_reason, result.certificate, search.max_iter)
        for done in missed
        for result in done.results
        if not result.converged
    ]
    which = f"{len(missed)} of {len(table.done)} cells" if missed else ""
    gaps = [
        relative_gap(done.objective, done.lower_bound)
        if all(np.isfinite(result.gap) for result in done.results)
        else float("inf")
        for done in missed
    ]
    if best is not None:
        last = _shortfall(best, best.__dict__.pop("_ended", ()))
        if last is not None:
            kinds, gaps = [*kinds, last], [*gaps, best.gap_]
            which = f"{which} and the final fit" if missed else "the final fit"
    if kinds:
        known = f"{_largest(gaps)}; see split0_gap and the like in cv_results_"
        _warn_of_cells(f"{name}: {which}", kinds, known, search)


def raise_from_search(search: Any, note: str) -> NoReturn:
    """Raise Ctrl-C again from a search that has stored its results."""
    raise interrupt(
        f"{type(search).__name__}: {note} The search is error.estimator.", estimator=search
    )


def stopped_early(
    search: Any, reason: EarlyStop | None, select: Callable[[], None], *, returns: bool
) -> None:
    """Choose the best setting of a search, also if it ended before all cells were trained (``reason``).

    Then it is chosen among the settings that were trained on every fold. Ctrl-C is raised again, unless the
    caller asked to return. A time limit gives a warning.
    """
    if reason is None:
        select()
        return
    scores = search.cv_results_["mean_test_score"]
    n_done = int(np.isfinite(scores).sum())
    done = (
        f"{n_done} of {len(scores)} settings were trained on every fold; the others hold NaN in "
        "cv_results_"
    )
    if n_done:
        select()
    if reason == "interrupted" and not (returns and n_done):
        raise_from_search(search, f"{done}, and nothing was refitted.")
    name = type(search).__name__
    cause = {
        "interrupted": "interrupted",
        "callback": f"{name}: stopped by a callback",
        "max_seconds": f"{name}: stopped at max_seconds={search.max_seconds!r}",
    }[reason]
    if not n_done:
        raise ValueError(f"{cause} before any setting was trained on every fold.")
    if reason != "callback":
        warn_user(f"{cause}: {done}, and the best of these is taken.", ConvergenceWarning)


def _warn_of_cells(which: str, kinds: list[str], known: str, template: Any) -> None:
    kinds = list(dict.fromkeys(kinds))
    causes = " or ".join(_cause(kind, template) for kind in kinds)
    text = f"{which} {causes}; {known}. {' '.join(ADVICE[kind] for kind in kinds)}"
    warn_user(text, ConvergenceWarning)


def _shortfall(estimator: Any, ended: Sequence[tuple[str, bool]] = ()) -> str | None:
    """Why a fit did not reach its tolerance, as a key of :data:`ADVICE`.

    None if it did, or if it ended as planned. ``ended``: stop reason and success of each problem of the
    fit.
    """
    reason = estimator.stop_reason_
    if estimator.converged_ or reason in PLANNED or any(why == "callback" for why, _ in ended):
        return None
    # landmarks have another goal, with attributes of its own
    own_goal = hasattr(estimator, "restricted_gap_")
    if reason == "gap" and own_goal and estimator.certificate_ in ("restricted", "measured"):
        return None
    kind = _kind(reason, estimator.certificate_, estimator.max_iter)
    slack = getattr(estimator, "rescaling", None) == "slack"
    return "searched" if kind == "stalled" and slack else kind


def _kind(reason: str, certificate: str, max_iter: int | None) -> str:
    """The key of :data:`ADVICE` for a fit that missed its tolerance."""
    if reason == "max_iter" and max_iter is None:
        return "one pass"
    if reason in ("max_iter", "max_seconds"):
        return reason
    if certificate in ("lower_only", "measured"):
        return certificate
    return "stalled" if reason == "stalled" else "rounding"


def _cause(kind: str, estimator: Any) -> str:
    before = f"before tol={estimator.tol!r} was reached"
    if kind in ("max_iter", "max_seconds"):
        return f"stopped at {kind}={getattr(estimator, kind)!r} {before}"
    return {
        "one pass": f"ended after the one pass of the schedule, {before}",
        "stalled": f"stalled {before}",
        "searched": f"stalled {before}",
        "rounding": f"stopped because rounding errors may exceed tol={estimator.tol!r}",
        "lower_only": "without an upper bound, because inference may miss the maximum",
        "measured": "without a lower bound, because the kernel is not positive semidefinite",
    }[kind]


def _largest(gaps: Sequence[float]) -> str:
    largest = max(gaps)
    return f"largest gap {largest:.2g}" if np.isfinite(largest) else "not all gaps are certified"


def _reached(estimator: Any) -> str:
    """The bounds of a fit in words, including those of a restricted problem."""
    objective = estimator.objective_
    if estimator.certificate_ == "local":
        return (
            f"objective {objective:.6g}, gap of the last convex problem {estimator.convex_gap_:.2g}"
        )
    text = bounds_in_words(objective, estimator.lower_bound_, estimator.gap_)
    if hasattr(estimator, "restricted_gap_"):
        text += f", restricted gap {estimator.restricted_gap_:.2g}"
    return text
