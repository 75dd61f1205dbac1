"""The bounds of a fit, as a display in the style of scikit-learn."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.stopping import RelativeGap
from maxmargin.core.vectors import Array

_X_LABELS = {
    "iteration": "iteration",
    "elapsed": "seconds",
    "oracle_calls": "passes over the data",
}
#: with more points, markers would overlap
_MARKERS_UP_TO = 40


def pyplot() -> Any:
    """matplotlib's pyplot, imported when something is drawn."""
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
        plt = pyplot()
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
