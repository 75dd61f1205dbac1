"""Scores on validation data during a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from maxmargin.core.result import IterationRecord
from maxmargin.core.stopping import stops

__all__ = ["ValidationScore"]


class ValidationScore:
    """Scores the best weights found so far on validation data, while the fit runs.

    Use it to stop a fit whose score no longer matters, for example to prune the trials of a hyperparameter
    search. It works with all estimators that can predict from the weights of one problem: not with
    :class:`maxmargin.KernelSVC`, sampled cuts, or ``multi_class="ovr"`` with more than two classes.

    Parameters
    ----------
    X, y : as in the ``score`` method of the estimator
        Validation data.
    every : int, default 1
        Compute a score every so many iterations. (In :class:`maxmargin.LatentStructuredSVM`: convex steps.)
    scoring : callable, optional
        ``scoring(estimator, X, y)``, such as a scikit-learn scorer. By default the estimator's ``score``.
    on_score : callable, optional
        Called with the record and the score. The fit stops if it returns True.

    Attributes
    ----------
    scores : list of (int, float)
        Iterations and scores of the last fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.callbacks import ValidationScore
    >>> X, X_val, y, y_val = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    >>> watch = ValidationScore(X_val, y_val)
    >>> est = LinearSVC(callbacks=[watch]).fit(X, y)
    >>> len(watch.scores) == est.n_iter_, watch.scores[-1][1] > 0.9
    (True, True)

    Stop as soon as the score is good enough:

    >>> watch = ValidationScore(X_val, y_val, on_score=lambda record, score: score > 0.9)
    >>> LinearSVC(tol=1e-9, callbacks=[watch]).fit(X, y).stop_reason_
    'callback'
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        every: int = 1,
        scoring: Callable[[Any, Any, Any], float] | None = None,
        on_score: Callable[[IterationRecord, float], object] | None = None,
    ) -> None:
        if not every >= 1:
            raise ValueError(f"every={every!r}: give a positive number of iterations.")
        if scoring is not None and not callable(scoring):
            raise ValueError(
                f"scoring={scoring!r}: pass a callable, such as sklearn.metrics.get_scorer({scoring!r})."
            )
        self.X, self.y, self.every = X, y, every
        self.scoring, self.on_score = scoring, on_score
        self.scores: list[tuple[int, float]] = []

    def __call__(self, record: Any) -> NoReturn:
        raise TypeError(
            "ValidationScore needs an estimator that predicts: pass it in callbacks= of an estimator such as "
            "LinearSVC, not to minimize or to a cross-validation."
        )

    def on_estimator(self, record: IterationRecord, current: Callable[[], Any]) -> bool:
        """Score the current estimator."""
        if record.iteration == 1:
            self.scores = []
        if record.iteration % self.every:
            return False
        estimator = current()
        if self.scoring is None:
            score = float(estimator.score(self.X, self.y))
        else:
            score = float(self.scoring(estimator, self.X, self.y))
        self.scores.append((record.iteration, score))
        return self.on_score is not None and stops(self.on_score(record, score))
