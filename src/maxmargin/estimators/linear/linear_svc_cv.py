"""LinearSVCCV: cross-validation of linear classifiers over C and class weights."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from maxmargin.compat import BaseSearchCV, check_sample_weight
from maxmargin.core.user_warnings import warn_user
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.typed_design import TypedDesign, by_blocks
from maxmargin.estimators.checked_matrices import validate_data
from maxmargin.estimators.constraints import (
    SHARED,
    Labels,
    Numbers,
    Samples,
    Seed,
    Tolerance,
    instance,
    of_class,
)
from maxmargin.estimators.cross_validation import CrossValidation
from maxmargin.estimators.grid_table import CellId, Done, GridTable
from maxmargin.estimators.grid_watch import GridWatch
from maxmargin.estimators.linear.grid_paths import GridTrainer
from maxmargin.estimators.linear.grid_plan import Grid
from maxmargin.estimators.linear.grid_scores import CellScorer
from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.linear.probabilities import Probabilities
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.threads import one_blas_thread
from maxmargin.estimators.validation import check_labels, loaded, require_two_classes, training
from maxmargin.losses import ScoreLoss


@dataclass(eq=False, repr=False)
class LinearSVCCV(Probabilities, CrossValidation):
    """Linear support vector classification with C and class weights chosen by cross-validation.

    Trains :class:`LinearSVC` for all folds, values of C and class weights. Every cell is certified to the
    same tolerance, at a small part of the cost of separate fits: each cell starts from the solution at the
    next smaller C. Use it in place of ``GridSearchCV(LinearSVC(...), {"C": ..., "class_weight": ...})``.

    Parameters
    ----------
    Cs : int or array, default 10
        Values of C. An integer n stands for n values between 1e-4 and 1e4.
    cv : int, splitter or iterable, optional
        The folds, as in scikit-learn; 5 by default. By default they are stratified.
    class_weights : list, optional
        Class weights to try, each a dict, "balanced" or None; ``[None]`` by default. They are
        ``param_class_weight`` in ``cv_results_``.
    scoring : str or callable, optional
        A scikit-learn scorer; accuracy by default.
    loss : {"hinge", "squared_hinge", "logistic"} or loss object, default "squared_hinge"
        The loss, as in :class:`LinearSVC`; "logistic" adds ``predict_proba``.
    multi_class : {"ovr", "crammer_singer", "multinomial"}, default "ovr"
        How to train more than two classes, as in :class:`LinearSVC`.
    refit : bool, default True
        Whether to fit the best setting to all samples.
    prune : bool, default False
        For each class weight, stop increasing C when the mean score has been below the best one by more than
        the standard error of the best, twice in a row. Skipped cells hold NaN.
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`. It applies to every
        cell.
    fit_intercept : bool, default True
        Whether to fit an intercept.
    intercept_scaling : float, default 1.0
        Value of the constant feature whose weight gives the intercept. The larger, the less the intercept is
        penalized.
    penalize_intercept : bool, default True
        Whether the intercept is part of the penalized norm, as in scikit-learn. If False, the intercept is
        unpenalized.
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds. It
        applies to every cell.
    max_seconds : float, optional
        Time limit of the cross-validation in seconds. When it is reached, the best of the settings that were
        trained on every fold is taken, with a warning. The fit with the best setting is not limited.
    n_jobs : int, optional
        Number of threads. Results are bit-identical for any number. There is no ``engine``, because most
        cells are trained by coordinate ascent in the memory of this process. On a cluster, use
        :func:`svc_path` for each fold.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed.
    callbacks : list of callables, optional
        Called with a :class:`maxmargin.callbacks.CellRecord` for every cell. The cross-validation stops if
        one of them returns True, and the best of the settings that were trained on every fold is taken.
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.

    Attributes
    ----------
    cv_results_ : dict of arrays
        As in GridSearchCV (``params``, ``param_C``, ``split0_test_score``, ``mean_test_score``,
        ``std_test_score``, ``rank_test_score``, ``mean_fit_time``, ...), and the certificate of each cell:
        ``split0_objective``, ``split0_lower_bound``, ``split0_gap``, ``split0_converged``.
    best_params_, best_score_, best_index_
        The best setting, its mean score and its index in ``cv_results_``.
    n_splits_ : int
        Number of folds.
    best_estimator_ : LinearSVC
        The best setting, fitted to all samples, if ``refit``.
    estimator : LinearSVC
        A new one with the parameters that all settings share, available before ``fit``. As ``LinearSVCCV`` is
        registered as a subclass of scikit-learn's ``BaseSearchCV``, programs use it as a search.
    coef_, intercept_
        Those of ``best_estimator_``.
    n_iter_ : int
        Largest number of iterations of a cell.
    pruned_ : list of dict
        Settings that were skipped.
    classes_ : array
        The class labels, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if ``X`` had names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import LinearSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = LinearSVCCV(Cs=[0.01, 0.1, 1.0], class_weights=[None, "balanced"]).fit(scale(X), y)
    >>> len(search.cv_results_["params"]), bool(search.cv_results_["split0_converged"].all())
    (6, True)
    >>> search.best_score_ > 0.97
    True
    """

    _trained = LinearSVC
    _powers = (-4, 4)
    _of_best = ("coef_", "intercept_")
    best_estimator_: LinearSVC = field(init=False)

    _constraints = of_class(
        loss=LinearSVC._constraints["loss"],
        multi_class=LinearSVC._constraints["multi_class"],
        # not several, of which none would choose the best setting
        scoring=instance("one scorer, by its name", str) | SHARED["scoring"],
    )

    Cs: Any = 10
    _: KW_ONLY
    cv: Any = None
    class_weights: Any = None
    scoring: Any = None
    loss: Literal["hinge", "squared_hinge", "logistic"] | ScoreLoss = "squared_hinge"
    multi_class: Literal["ovr", "crammer_singer", "multinomial"] = "ovr"
    refit: bool = True
    prune: bool = False
    tol: Tolerance = 1e-3
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    penalize_intercept: bool = True
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    random_state: Seed = 0
    callbacks: Any = None
    verbose: int = 0

    @property
    def estimator(self) -> LinearSVC:
        """A new LinearSVC with the parameters that all settings share, as ``GridSearchCV.estimator``.

        To train the best setting on other samples: ``search.estimator.set_params(**search.best_params_)``.
        """
        svc: LinearSVC = self._template()
        return svc

    # -- fitting ---------------------------------------------------------------------------------

    def fit(
        self, X: Samples, y: Labels = None, sample_weight: Numbers = None, groups: Labels = None
    ) -> Self:
        """Train all cells, and fit the best setting to all samples.

        Parameters
        ----------
        X : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
            The samples. Data sets on disk are loaded into memory.
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C. Held-out samples are scored without them.
        groups : array of shape (n_samples,), optional
            Groups for the splitter.

        Returns
        -------
        self
            The estimator itself.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. ``cv_results_`` contains the finished cells, nothing is refitted, and
            ``error.estimator`` is this object. See :func:`maxmargin.return_on_interrupt`.
        """
        check_parameters(self)
        X, y, sample_weight = loaded(X, y, sample_weight)  # folds are made of reordered rows
        check_labels(y)
        rows, labels = by_blocks(X), y
        if isinstance(rows, TypedDesign):
            labels = training(self, rows, y, None).y[:]
        else:
            rows, labels = validate_data(self, rows, y)
        codes = self._encode(labels)
        weight: Array = check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
        choices = self._choices()
        splits = self._splits(
            check_cv(self.cv, labels, classifier=True).split(rows, labels, groups), len(labels)
        )
        table, svc = GridTable(len(splits), self._values(), choices), self.estimator
        scorer = self._scorer()
        factors = [self._factors(choices, labels[train], weight[train]) for train, _ in splits]
        trains = [train for train, _ in splits]
        grid = Grid(rows, codes, weight, trains, table.Cs, factors, svc, self.classes_)
        scores = CellScorer(scorer, svc, grid.model, self.classes_, table, splits, rows, labels)
        _warn_about_missing_classes(table, factors)
        trainer = GridTrainer(grid, resumable=self._by_level)
        return self._search(
            table,
            lambda watch: self._cells(trainer, table, watch, scores),
            lambda best: best._fit(rows, labels, sample_weight),
        )

    def _encode(self, y: Any) -> IntArray:
        """The classes, and the number of the class of each sample."""
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        require_two_classes(self, self.classes_)
        return codes.astype(np.int64)

    def _scorer(self) -> Any:
        return check_scoring(self.estimator, self.scoring)

    def _cells(
        self, trainer: GridTrainer, table: GridTable, watch: GridWatch, scores: CellScorer
    ) -> Generator[Done]:
        """Train the cells; those that are done are scored also after Ctrl-C."""
        with one_blas_thread:
            for ids in self._levels(table, trainer.grid.factors):
                found: list[Done] = []
                try:
                    for done in trainer.run(ids, watch):
                        found.append(done)
                        yield done
                finally:
                    scores.score(found)
                if watch.ended():
                    return

    def _choices(self) -> list[Any]:
        """The class weights."""
        return [None] if self.class_weights is None else list(self.class_weights)

    def _factors(self, choices: list[Any], y: Any, weight: Array) -> list[Array | None]:
        """Factors of the classes for the training rows of a split; None if a class is missing."""
        codes = np.searchsorted(self.classes_, y)
        if (np.bincount(codes, weights=weight, minlength=len(self.classes_)) == 0.0).any():
            return [None for _ in choices]
        factors = [
            np.asarray(compute_class_weight(choice, classes=self.classes_, y=y), np.float64)
            for choice in choices
        ]
        return [factor if factor.any() else None for factor in factors]

    @property
    def _by_level(self) -> bool:
        """Whether all folds are trained with one C before the next: then an early end leaves settings that
        were trained on every fold."""
        return bool(self.prune) or self.max_seconds is not None

    def _levels(
        self, table: GridTable, factors: Sequence[Sequence[Array | None]]
    ) -> Iterator[list[CellId]]:
        """What to train next: everything, or one value of C after the other."""

        def ids(weights: Sequence[int], Cs: Sequence[int]) -> list[CellId]:
            splits = range(len(factors))
            return [
                (k, j, i) for k in splits for j in weights for i in Cs if factors[k][j] is not None
            ]

        weights, Cs = list(range(table.n_choices)), list(range(len(table.Cs)))
        if not self._by_level:
            yield ids(weights, Cs)
            return
        for i in Cs:
            weights = [j for j in weights if not (self.prune and table.falling(j, i))]
            yield ids(weights, [i])
        table.mark_pruned()

    def _store(self, table: GridTable) -> None:
        super()._store(table)
        self.pruned_, self.n_iter_ = table.pruned, max(1, table.n_iter)


# For programs that treat a search differently from a classifier: mokapot searches once and then trains
# `estimator` with `best_params_` in its later iterations. Nothing is inherited.
BaseSearchCV.register(LinearSVCCV)


def _warn_about_missing_classes(table: GridTable, factors: list[list[Array | None]]) -> None:
    n_missing = sum(factor is None for by_split in factors for factor in by_split)
    if n_missing:
        warn_user(
            f"{n_missing * len(table.Cs)} of {table.size * table.n_splits} cells have score NaN, "
            "because a class is missing from their training samples or has no weight there. Use stratified "
            "folds, or fewer of them.",
            FitFailedWarning,
        )
