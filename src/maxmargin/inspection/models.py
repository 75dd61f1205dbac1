"""What a fitted model has learned: its weights by name, margins, transitions, and scores over C."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.vectors import Array
from maxmargin.estimators.constraints import Samples
from maxmargin.inspection.convergence import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: bins of a histogram
_MOST_BINS = 60


class WeightsDisplay:
    """Bars of the largest weights of a model, by name.

    Use :meth:`from_estimator` to make one.

    Parameters
    ----------
    names : sequence of str
        Names of the features.
    weights : array of shape (n_features,)
        Their weights.
    title : str, default ""
        Title of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
        The axes.
    figure_ : matplotlib figure
        The figure.
    bars_ : matplotlib container
        The bars, largest weight first.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.inspection import WeightsDisplay
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), LinearSVC(C=0.1)).fit(X, y)
    >>> WeightsDisplay.from_estimator(model, n=3).names
    ['worst texture', 'radius error', 'area error']
    """

    def __init__(self, names: Sequence[str], weights: npt.ArrayLike, *, title: str = "") -> None:
        self.names = list(names)
        self.weights = np.asarray(weights, dtype=np.float64)
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        target: Hashable = None,
        n: int = 10,
        feature_names: Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Plot the largest weights of a linear model or of a tagger.

        Parameters
        ----------
        estimator : linear estimator, SequenceTagger, or a pipeline that ends with one
            A fitted estimator.
        target : label, optional
            The class or label whose weights are shown. Required if there are several.
        n : int, default 10
            Number of weights.
        feature_names : sequence of str, optional
            Names of the features. By default those of the training data, or x0, x1, and so on.
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        WeightsDisplay
            The display.
        """
        title = type(_last(estimator)).__name__
        names, weights, shown = _weights(estimator, target, feature_names)
        largest = np.argsort(-np.abs(weights), kind="stable")[:n]
        title = f"{title}, {shown}" if shown else title
        return cls([names[k] for k in largest], weights[largest], title=title).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        WeightsDisplay
            The display itself.
        """
        self.ax_ = ax = _axes(ax, (6.4, 1.0 + 0.3 * len(self.names)))
        self.figure_ = ax.figure
        colors = ["C0" if weight >= 0.0 else "C3" for weight in self.weights]
        self.bars_ = ax.barh(self.names, self.weights, color=colors)
        ax.invert_yaxis()
        ax.axvline(0.0, color="0.5", lw=0.8)
        ax.set(xlabel="weight", title=self.title)
        return self


class MarginsDisplay:
    """Histogram of the margins of samples, with the proven part shaded.

    The margin of a sample is the score of its true class minus the largest other one (for two classes, the
    score with the sign of the class). It is negative if the prediction is wrong. A prediction is proven if
    the exact optimum of the objective makes the same one: see ``proven`` of the estimator.

    Use :meth:`from_estimator` to make one.

    Parameters
    ----------
    margins : array of shape (n_samples,)
        The margins.
    proven : array of bool of shape (n_samples,), optional
        Which predictions are proven. Without it, nothing is shaded.
    title : str, default ""
        Title of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
        The axes.
    figure_ : matplotlib figure
        The figure.
    counts_ : array
        The number of samples in each bin; two rows, proven ones and others, if ``proven`` was given.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.inspection import MarginsDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = MarginsDisplay.from_estimator(LinearSVC().fit(X, y), X, y)
    >>> display.counts_.sum().item()
    150.0
    """

    def __init__(
        self, margins: npt.ArrayLike, proven: npt.ArrayLike | None = None, *, title: str = ""
    ) -> None:
        self.margins = np.asarray(margins, dtype=np.float64)
        self.proven = None if proven is None else np.asarray(proven, dtype=bool)
        self.title = title

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: Samples, y: npt.ArrayLike, *, ax: Axes | None = None
    ) -> Self:
        """Plot the margins of samples.

        Parameters
        ----------
        estimator : classifier with ``decision_function``, or a pipeline that ends with one
            A fitted classifier. Predictions of linear classifiers can be proven, those of others are not
            shaded. A stream proves nothing.
        X : array, sparse matrix or data frame
            The samples.
        y : array of shape (n_samples,)
            Their true classes.
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        MarginsDisplay
            The display.
        """
        if hasattr(estimator, "steps"):
            X, estimator = estimator[:-1].transform(X), _last(estimator)
        if getattr(estimator, "decision_function_shape", "ovr") != "ovr":
            raise ValueError(
                "scores of pairs of classes have no margin: set decision_function_shape='ovr'."
            )
        classes, labels = np.asarray(estimator.classes_), np.asarray(y)
        unknown = set(labels.tolist()) - set(classes.tolist())
        if unknown:
            raise ValueError(
                f"y has the class {min(unknown, key=str)!r}, which the estimator has not seen."
            )
        scores, codes = np.asarray(estimator.decision_function(X)), np.searchsorted(classes, labels)
        if scores.ndim == 1:
            margins = np.where(codes == 1, scores, -scores)
        else:
            own = scores[np.arange(len(codes)), codes]
            scores = scores.copy()
            scores[np.arange(len(codes)), codes] = -np.inf
            margins = own - scores.max(axis=1)
        try:
            proven = estimator.proven(X) if hasattr(estimator, "proven") else None
        except ValueError:  # no bound of the optimal weights, as after a stream
            proven = np.zeros(len(margins), dtype=bool)
        return cls(margins, proven, title=type(estimator).__name__).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        MarginsDisplay
            The display itself.
        """
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        edges = np.histogram_bin_edges(self.margins, bins="auto")
        if len(edges) > _MOST_BINS + 1:
            edges = np.linspace(edges[0], edges[-1], _MOST_BINS + 1)
        parts = [("samples", "0.8", self.margins)]
        if self.proven is not None:
            share = self.proven.mean()
            parts = [
                (f"proven: {share:.1%}", "C0", self.margins[self.proven]),
                (f"not proven: {1.0 - share:.1%}", "0.8", self.margins[~self.proven]),
            ]
        self.counts_ = np.zeros((len(parts), len(edges) - 1))
        for k, (label, color, margins) in enumerate(parts):
            bottom = self.counts_.sum(axis=0)
            self.counts_[k] = np.histogram(margins, edges)[0]
            place = {"width": np.diff(edges), "bottom": bottom, "align": "edge"}
            ax.bar(edges[:-1], self.counts_[k], color=color, label=label, **place)
        ax.set_ylim(0.0, 1.05 * self.counts_.sum(axis=0).max())
        ax.axvline(0.0, color="0.2", lw=1.0)
        wrong = (self.margins < 0.0).mean()
        ax.set(xlabel="margin", ylabel="samples", title=f"{self.title}: {wrong:.1%} wrong")
        if self.proven is not None:
            ax.legend(frameon=False)
        return self


class TransitionsDisplay:
    """Weights of the transitions of a tagger, as a table of colors.

    Rows are the labels before a transition, with the start of a sequence first; columns are the labels
    after it, with the end last. Forbidden transitions are crossed out.

    Use :meth:`from_estimator` to make one.

    Parameters
    ----------
    weights : array of shape (n_labels + 1, n_labels + 1)
        The weights; NaN for forbidden transitions.
    labels : sequence
        The labels.
    title : str, default ""
        Title of the axes.

    Attributes
    ----------
    ax_ : matplotlib axes
        The axes.
    figure_ : matplotlib figure
        The figure.
    image_ : matplotlib image
        The colors.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from maxmargin import SequenceTagger
    >>> from maxmargin.inspection import TransitionsDisplay
    >>> X = [[["w=the"], ["w=cat"], ["w=sat"]], [["w=a"], ["w=dog"], ["w=ran"]]]
    >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]
    >>> display = TransitionsDisplay.from_estimator(SequenceTagger().fit(X, y))
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['(start)', 'DET', 'NOUN', 'VERB']
    """

    def __init__(
        self, weights: npt.ArrayLike, labels: Sequence[Hashable], *, title: str = ""
    ) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        self.labels = list(labels)
        self.title = title

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, *, ax: Axes | None = None) -> Self:
        """Plot the transitions of a fitted tagger.

        Parameters
        ----------
        estimator : SequenceTagger
            A fitted tagger. With ``order=2``, its states are pairs of labels.
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        TransitionsDisplay
            The display.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "transitions_"):
            raise TypeError(
                f"{type(estimator).__name__} has no transitions_: pass a SequenceTagger."
            )
        states, task = estimator.states_, estimator.task_
        weights = np.full((len(states) + 1, len(states) + 1), np.nan)
        for place, own, allowed in (
            (np.s_[1:, :-1], estimator.transitions_, task.allowed),
            (np.s_[0, :-1], estimator.starts_, task.allowed_start),
            (np.s_[1:, -1], estimator.stops_, task.allowed_stop),
        ):
            weights[place] = np.where(allowed, own, np.nan)
        return cls(weights, states, title=type(estimator).__name__).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        TransitionsDisplay
            The display itself.
        """
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        most = np.nanmax(np.abs(self.weights), initial=0.0) or 1.0
        self.image_ = ax.imshow(self.weights, cmap="RdBu", vmin=-most, vmax=most)
        forbidden = np.isnan(self.weights)
        forbidden[0, -1] = False  # no sequence is empty
        ax.plot(*np.nonzero(forbidden)[::-1], "x", color="0.5")
        places, names = range(len(self.labels) + 1), [str(label) for label in self.labels]
        ax.set_xticks(places, [*names, "(end)"], rotation=45)
        ax.set_yticks(places, ["(start)", *names])
        ax.set(xlabel="to", ylabel="from", title=self.title)
        self.figure_.colorbar(self.image_, ax=ax, label="weight")
        return self


class PathDisplay:
    """Curves over *C*: scores of a search, or weights of the fits of a path.

    Use :meth:`from_search` or :meth:`from_models` to make one.

    Parameters
    ----------
    Cs : array of shape (n_values,)
        The values of *C*, in ascending order.
    curves : mapping from names to arrays of shape (n_values,)
        The curves.
    errors : mapping from names to arrays of shape (n_values,), optional
        Standard errors, drawn as bands.
    y_label : str, default ""
        Label of the vertical axis.
    best : float, optional
        A value of *C* to mark.

    Attributes
    ----------
    ax_ : matplotlib axes
        The axes.
    figure_ : matplotlib figure
        The figure.
    lines_ : list of matplotlib lines
        One for each curve.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVCCV
    >>> from maxmargin.inspection import PathDisplay
    >>> search = LinearSVCCV(Cs=[0.01, 0.1, 1.0]).fit(*load_iris(return_X_y=True))
    >>> PathDisplay.from_search(search).Cs
    array([0.01, 0.1 , 1.  ])
    """

    def __init__(
        self,
        Cs: npt.ArrayLike,
        curves: Mapping[str, npt.ArrayLike],
        *,
        errors: Mapping[str, npt.ArrayLike] | None = None,
        y_label: str = "",
        best: float | None = None,
    ) -> None:
        self.Cs = np.asarray(Cs, dtype=np.float64)
        self.curves = {name: np.asarray(curve) for name, curve in curves.items()}
        self.errors = {name: np.asarray(error) for name, error in (errors or {}).items()}
        self.y_label = y_label
        self.best = best

    @classmethod
    def from_search(cls, search: BaseEstimator, *, ax: Axes | None = None) -> Self:
        """Plot the held-out scores of a search over *C*.

        Parameters
        ----------
        search : LinearSVCCV, SequenceTaggerCV, StructuredSVMCV, or scikit-learn's GridSearchCV
            A fitted search with the parameter ``C``. Other parameters give a curve each.
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        PathDisplay
            The display. Bands are one standard error of the mean over the folds.
        """
        check_is_fitted(search, "cv_results_")
        results = search.cv_results_
        if any("C" not in params for params in results["params"]):
            raise ValueError("the search has no parameter C, so there is no path over C to plot.")
        n_splits = sum(name.startswith("split") and name.endswith("test_score") for name in results)
        points: dict[str, list[tuple[float, float, float]]] = {}
        for k, params in enumerate(results["params"]):
            names = [key for key in params if key != "C" and _varies(results, key)]
            name = ", ".join(f"{key}={params[key]}" for key in names) or "mean score"
            error = results["std_test_score"][k] / np.sqrt(max(n_splits - 1, 1))
            points.setdefault(name, []).append((params["C"], results["mean_test_score"][k], error))
        columns = {name: np.array(sorted(own), dtype=np.float64).T for name, own in points.items()}
        return cls(
            next(iter(columns.values()))[0],
            {name: column[1] for name, column in columns.items()},
            errors={name: column[2] for name, column in columns.items()},
            y_label="held-out score",
            best=search.best_params_["C"],
        ).plot(ax=ax)

    @classmethod
    def from_models(
        cls,
        models: Sequence[BaseEstimator],
        *,
        target: Hashable = None,
        n: int = 6,
        feature_names: Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Plot the largest weights of the fits of a path.

        Parameters
        ----------
        models : sequence of linear estimators
            What :func:`maxmargin.svc_path` or the method ``path`` of an estimator returns.
        target : label, optional
            The class whose weights are shown. Required if there are several.
        n : int, default 6
            Number of weights, the largest at any *C*.
        feature_names : sequence of str, optional
            Names of the features. By default those of the training data, or x0, x1, and so on.
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        PathDisplay
            The display.
        """
        if not models:
            raise ValueError("models is empty: pass the fits of a path, one for each C.")
        models = sorted(models, key=lambda model: float(model.C))
        names = _weights(models[0], target, feature_names)[0]
        weights = np.array([_weights(model, target, feature_names)[1] for model in models])
        largest = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[:n]
        curves = {names[k]: weights[:, k] for k in largest}
        return cls([model.C for model in models], curves, y_label="weight").plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The axes to use; a new figure by default.

        Returns
        -------
        PathDisplay
            The display itself.
        """
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        self.lines_ = []
        for name, curve in self.curves.items():
            self.lines_ += ax.plot(self.Cs, curve, "o-", markersize=3, label=name)
            if name in self.errors:
                low, high = curve - self.errors[name], curve + self.errors[name]
                color = self.lines_[-1].get_color()
                ax.fill_between(self.Cs, low, high, color=color, alpha=0.15, linewidth=0)
        if self.best is not None:
            ax.axvline(self.best, color="0.5", ls="--", lw=1.0, label=f"best C = {self.best:g}")
        ax.set(xscale="log", xlabel="C", ylabel=self.y_label)
        ax.legend(frameon=False, fontsize="small")
        return self


def _axes(ax: Axes | None, size: tuple[float, float] = (6.4, 4.4)) -> Axes:
    plt = pyplot()
    found: Axes = plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
    return found


def _last(estimator: BaseEstimator) -> Any:
    """The model itself: the last step of a pipeline."""
    return estimator[-1] if hasattr(estimator, "steps") else estimator


def _varies(results: Mapping[str, Any], name: str) -> bool:
    return len({str(params[name]) for params in results["params"]}) > 1


def _weights(
    estimator: BaseEstimator, target: Hashable, feature_names: Sequence[str] | None
) -> tuple[list[str], Array, str]:
    """Names, weights, and the label they belong to, in words."""
    model = _last(estimator)
    check_is_fitted(model)
    if model is not estimator and feature_names is None:
        feature_names = estimator[:-1].get_feature_names_out()
    if hasattr(model, "explain"):  # a tagger: weights by label, with the names of its vectorizer
        pairs = model.explain(n=None, feature_names=feature_names).features
        found = dict(pairs[_chosen(list(pairs), target)])
        return list(found), np.array(list(found.values())), f"label {target}"
    if not hasattr(model, "coef_"):
        raise TypeError(
            f"{type(model).__name__} has no coef_: its scores are no weighted sums of features."
        )
    coef = np.atleast_2d(model.coef_)
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(coef.shape[1])])
    names = [str(name) for name in feature_names]
    if len(names) != coef.shape[1]:
        raise ValueError(f"feature_names has {len(names)} names for {coef.shape[1]} features.")
    if len(coef) == 1:
        if target is not None:
            raise ValueError("target is for several classes: this model has one row of weights.")
        return names, coef[0], ""
    classes = np.asarray(model.classes_).tolist()
    return names, coef[classes.index(_chosen(classes, target))], f"class {target}"


def _chosen(labels: Sequence[Hashable], target: Hashable) -> Hashable:
    if target not in labels:
        listed = ", ".join(map(repr, labels[:10])) + (", ..." if len(labels) > 10 else "")
        raise ValueError(f"target={target!r}: choose whose weights to plot, one of {listed}.")
    return target
