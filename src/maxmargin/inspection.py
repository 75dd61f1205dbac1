"""Plots of a fit, as displays in the style of scikit-learn, and the largest weights of a tagger.

Plots require matplotlib (``maxmargin[plot]``).
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.stopping import RelativeGap
from maxmargin.core.vectors import Array
from maxmargin.estimators.structured.explanation import TaggerExplanation

__all__ = ["ConvergenceDisplay", "GridDisplay", "TaggerExplanation"]

_X_LABELS = {
    "iteration": "iteration",
    "elapsed": "seconds",
    "oracle_calls": "passes over the data",
}
#: with more points, markers would overlap
_MARKERS_UP_TO = 40


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'displays require matplotlib. Install it with: pip install "maxmargin[plot]"'
        ) from error
    return plt


class ConvergenceDisplay:
    """Plot of the bounds of a fit and of the gap between them.

    Use :meth:`from_estimator` to make one. The upper axes show the objective of the best point so far and the
    lower bound: the optimum lies in the shaded band between them. The lower axes show the relative gap on a
    logarithmic scale, with a line at the tolerance.

    Parameters
    ----------
    x : array of shape (n_points,)
        Horizontal positions of the points.
    objective, lower_bound : arrays of shape (n_points,)
        The bounds; not finite if there was none yet.
    x_label : str, default "iteration"
        Label of the horizontal axis.
    tol : float, optional
        Tolerance of the fit, as a relative gap.
    title : str, optional
        Title of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
        The axes with the bounds.
    gap_ax_ : matplotlib axes
        The axes with the gap, in the lower part of ``ax_``.
    figure_ : matplotlib figure
        The figure.
    objective_line_, lower_bound_line_, gap_line_ : matplotlib lines
        The three curves.
    band_ : matplotlib collection
        The shaded band.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.inspection import ConvergenceDisplay
    >>> svc = LinearSVC().fit(*load_iris(return_X_y=True))
    >>> display = ConvergenceDisplay.from_estimator(svc)
    >>> display.gap_ax_.get_xlabel()
    'iteration'
    """

    def __init__(
        self,
        x: Any,
        objective: Any,
        lower_bound: Any,
        *,
        x_label: str = "iteration",
        tol: float | None = None,
        title: str | None = None,
    ) -> None:
        self.x = x
        self.objective = objective
        self.lower_bound = lower_bound
        self.x_label = x_label
        self.tol = tol
        self.title = title

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, x: str = "iteration") -> Self:
        """Plot the history of a fitted estimator.

        The last point shows the certificate, whose bounds are recomputed at the end of the fit.

        Parameters
        ----------
        estimator : LinearSVC, SequenceTagger or StructuredSVM
            A fitted estimator.
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.
        x : {"iteration", "elapsed", "oracle_calls"}, default "iteration"
            The horizontal axis: iterations, seconds, or passes over the data.

        Returns
        -------
        ConvergenceDisplay
            The display.
        """
        check_is_fitted(estimator, "history_")
        if x not in _X_LABELS:
            raise ValueError(f"x={x!r}: use one of {', '.join(map(repr, _X_LABELS))}.")
        history = estimator.history_
        if not history:
            raise ValueError(
                "history_ is empty, so there is nothing to plot. A model file keeps the certificate but not "
                "the history: plot the fitted estimator before it is saved."
            )
        upper, lower = (
            np.array([record[name] for record in history], dtype=np.float64)
            for name in ("objective", "lower_bound")
        )
        if math.isfinite(estimator.objective_):
            upper[-1], lower[-1] = estimator.objective_, estimator.lower_bound_
        rule = estimator.tol.tol if isinstance(estimator.tol, RelativeGap) else estimator.tol
        display = cls(
            np.array([record[x] for record in history], dtype=np.float64),
            upper,
            lower,
            x_label=_X_LABELS[x],
            tol=float(rule) if isinstance(rule, int | float) else None,
            title=_title(estimator),
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Plot.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        ConvergenceDisplay
            The display itself.
        """
        plt = _pyplot()
        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
        x, upper, lower = (
            np.asarray(values, dtype=np.float64)
            for values in (self.x, self.objective, self.lower_bound)
        )
        finite = np.isfinite(upper) & np.isfinite(lower)
        both = np.where(finite, upper, np.nan), np.where(finite, lower, np.nan)
        style: dict[str, Any] = {"marker": "o" if len(x) <= _MARKERS_UP_TO else "", "markersize": 3}

        self.ax_, self.figure_ = ax, ax.figure
        self.band_ = ax.fill_between(x, *both, color="C0", alpha=0.12, linewidth=0)
        (self.objective_line_,) = ax.plot(
            x, _finite(upper), color="C0", label="objective (upper bound)", **style
        )
        (self.lower_bound_line_,) = ax.plot(
            x, _finite(lower), color="C1", label="lower bound", **style
        )
        ax.set(ylabel="bounds of the optimum", ylim=_limits(upper, lower))
        ax.legend(loc="best", frameon=False)

        self.gap_ax_ = gap_ax = _split(ax)
        (self.gap_line_,) = gap_ax.plot(x, _gaps(*both), color="0.25", **style)
        gap_ax.set(xlabel=self.x_label, ylabel="relative gap", yscale="log")
        if self.tol is not None:
            gap_ax.axhline(self.tol, color="0.5", linestyle="--", linewidth=1.0)
            gap_ax.annotate(
                f"tol = {self.tol:g}",
                (0.0, self.tol),
                xycoords=gap_ax.get_yaxis_transform(),
                xytext=(4, 3),
                textcoords="offset points",
                color="0.35",
                fontsize="small",
            )
        ax.tick_params(labelbottom=False)
        if self.x_label == "iteration":
            gap_ax.xaxis.get_major_locator().set_params(integer=True)
        for axes in (ax, gap_ax):
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        if self.title:
            ax.set_title(self.title)
        return self


class GridDisplay:
    """Plot of scores and certified objectives over a parameter grid of C and class weights.

    Use :meth:`from_estimator` to make one. The upper axes show the mean score on held-out samples, with a
    band of one standard deviation over the folds and one curve per class weight; the best setting is marked.
    The lower axes show the objective divided by C, averaged over the folds, and its lower bound. Where the
    two curves coincide, the fits are close to the optimum. A cross marks a setting whose tolerance is not
    proved.

    Parameters
    ----------
    C : array of shape (n_C,)
        Values of C.
    scores, deviations : arrays of shape (n_weights, n_C)
        Mean and standard deviation of the score; NaN for settings that were left out.
    objective, lower_bound : arrays of shape (n_weights, n_C)
        Means of the bounds.
    converged : array of shape (n_weights, n_C)
        Whether all folds reached the tolerance.
    labels : list of str
        Names of the class weights.
    best : (int, int)
        Row and column of the best setting.
    score_name : str, default "score"
        Label of the upper axis.

    Attributes
    ----------
    ax_, objective_ax_ : matplotlib axes
        The upper and the lower axes.
    figure_ : matplotlib figure
        The figure.
    score_lines_, objective_lines_, lower_bound_lines_ : lists of matplotlib lines
        One each per class weight.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import LinearSVCCV
    >>> from maxmargin.inspection import GridDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = LinearSVCCV(Cs=[0.01, 0.1, 1.0], class_weights=[None, "balanced"]).fit(scale(X), y)
    >>> display = GridDisplay.from_estimator(search)
    >>> len(display.score_lines_)
    2
    """

    def __init__(
        self,
        C: Any,
        scores: Any,
        deviations: Any,
        objective: Any,
        lower_bound: Any,
        converged: Any,
        *,
        labels: list[str],
        best: tuple[int, int],
        score_name: str = "score",
    ) -> None:
        self.C = C
        self.scores = scores
        self.deviations = deviations
        self.objective = objective
        self.lower_bound = lower_bound
        self.converged = converged
        self.labels = labels
        self.best = best
        self.score_name = score_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Plot the results of a fitted :class:`maxmargin.LinearSVCCV`.

        Parameters
        ----------
        estimator : LinearSVCCV
            A fitted estimator.
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        GridDisplay
            The display.
        """
        check_is_fitted(estimator, "cv_results_")
        found, splits = estimator.cv_results_, range(estimator.n_splits_)
        C = np.unique(np.asarray(found["param_C"], dtype=np.float64))
        shape = (-1, len(C))

        def mean(name: str) -> Array:
            parts = [found[f"split{k}_{name}"] for k in splits]
            return np.asarray(np.mean(parts, axis=0), dtype=np.float64).reshape(shape)

        weights = np.asarray(found["param_class_weight"], dtype=object).reshape(shape)[:, 0]
        scoring = estimator.scoring
        display = cls(
            C,
            found["mean_test_score"].reshape(shape),
            found["std_test_score"].reshape(shape),
            mean("objective"),
            mean("lower_bound"),
            np.all([found[f"split{k}_converged"] for k in splits], axis=0).reshape(shape),
            labels=["equal weights" if w is None else _weight_label(w) for w in weights],
            best=divmod(estimator.best_index_, len(C)),
            score_name="accuracy"
            if scoring is None
            else str(getattr(scoring, "__name__", scoring)),
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Plot.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        GridDisplay
            The display itself.
        """
        plt = _pyplot()
        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
        self.ax_, self.figure_, self.objective_ax_ = ax, ax.figure, _split(ax)
        below, C = self.objective_ax_, np.asarray(self.C)
        self.score_lines_, self.objective_lines_, self.lower_bound_lines_ = [], [], []
        for k, label in enumerate(self.labels):
            color, mean, spread = f"C{k % 10}", self.scores[k], self.deviations[k]
            (line,) = ax.plot(C, mean, "o-", color=color, markersize=3, label=label)
            ax.fill_between(C, mean - spread, mean + spread, color=color, alpha=0.1, linewidth=0)
            (upper,) = below.plot(C, self.objective[k] / C, color=color, linewidth=1.2)
            (lower,) = below.plot(C, self.lower_bound[k] / C, "--", color="0.2", linewidth=0.9)
            open_cells = ~self.converged[k] & np.isfinite(self.objective[k])
            below.plot(
                C[open_cells], self.objective[k][open_cells] / C[open_cells], "x", color=color
            )
            self.score_lines_.append(line)
            self.objective_lines_.append(upper)
            self.lower_bound_lines_.append(lower)
        row, column = self.best
        ax.plot(C[column], self.scores[row][column], "*", color=f"C{row % 10}", markersize=12)
        ax.set(ylabel=f"{self.score_name}, held out", xscale="log")
        below.set(xlabel="C", ylabel="bounds / C", xscale="log", yscale="log")
        self.lower_bound_lines_[0].set_label("lower bound")
        below.legend(handles=self.lower_bound_lines_[:1], frameon=False, fontsize="small")
        if len(self.labels) > 1:
            ax.legend(frameon=False, fontsize="small")
        ax.tick_params(labelbottom=False)
        for axes in (ax, below):
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        return self


def _weight_label(weight: Any) -> str:
    if isinstance(weight, dict):
        return ", ".join(f"{label}: {factor:g}" for label, factor in weight.items())
    return str(weight)


def _title(estimator: Any) -> str:
    gap = estimator.gap_
    reached = f"gap {gap:.1e}" if math.isfinite(gap) else "no gap"
    return f"{type(estimator).__name__}: {reached}, {estimator.certificate_} certificate"


def _split(ax: Any) -> Any:
    """Split ``ax`` and return new axes in its lower part, in any layout."""
    place = ax.get_subplotspec()
    if place is not None:
        above, below = place.subgridspec(2, 1, height_ratios=[2, 1], hspace=0.08)
        ax.set_subplotspec(above)
        return ax.figure.add_subplot(below, sharex=ax)
    box = ax.get_position()  # axes that were placed by hand
    ax.set_position([box.x0, box.y0 + 0.36 * box.height, box.width, 0.64 * box.height])
    return ax.figure.add_axes([box.x0, box.y0, box.width, 0.31 * box.height], sharex=ax)


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.nan)


def _gaps(upper: Array, lower: Array) -> Array:
    """Relative gaps; NaN for values that a logarithmic axis cannot show."""
    gaps = np.full(len(upper), np.nan)
    shown = np.isfinite(upper) & (upper > lower) & (upper != 0.0)
    gaps[shown] = (upper[shown] - lower[shown]) / np.abs(upper[shown])
    return gaps


def _limits(upper: Array, lower: Array) -> tuple[float | None, float | None]:
    """Limits of the axis that leave out the first, very large objectives."""
    seen = upper[np.isfinite(upper)]
    floor = lower[np.isfinite(lower)]
    if not len(seen) or not len(floor):
        return None, None
    bottom, end = min(float(floor.min()), float(seen[-1])), float(seen[-1])
    top = (
        min(float(seen.max()), bottom + 4.0 * (end - bottom)) if end > bottom else float(seen.max())
    )
    pad = 0.05 * (top - bottom) or 1.0
    return bottom - pad, top + pad
