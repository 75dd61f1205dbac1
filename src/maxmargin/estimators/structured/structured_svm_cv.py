"""StructuredSVMCV: C chosen by cross-validation, with outputs shared by all folds and values of C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.documentation import documented
from maxmargin.estimators.example_checks import check_example_weights, check_pairs
from maxmargin.estimators.folds import Folds, StructuredSearch
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.structured.problem import StructuredProblem
from maxmargin.estimators.structured.structured_svm import StructuredSVM
from maxmargin.tasks.base import Task


@documented
@dataclass(eq=False, repr=False)
class StructuredSVMCV(StructuredSearch):
    """Large-margin training of any structured task, with C chosen by cross-validation.

    Trains a :class:`StructuredSVM` for all folds and values of C, each with a certificate of the same
    tolerance. An output that inference found for an example is a constraint for every fold that trains on the
    example, and for every C. All fits share one collection of outputs, and each starts from the dual
    variables of the fit before.

    Parameters
    ----------
    {task}
        Its ``setup`` sees all examples, including held-out ones: label sets are the same in all folds.
    Cs : int or array, default 5
        Values of C. An integer n stands for n values between 1e-3 and 10.
    scoring : callable, optional
        ``scoring(estimator, X, Y)``: the larger, the better. By default minus the mean loss of the task.
    {kernel}
        By default, there is none; see :class:`StructuredSVM`. Features are built once, from the rows of all
        examples. With "map" this changes no fold's problem. With "nystrom" landmarks may be rows of held-out
        inputs; their outputs are not used.
    {solver}
        "auto" is the same as for :class:`StructuredSVM`.
    {max_iter}
        It applies to each fit.
    {search_seconds}
    {cell_callbacks}

    Attributes
    ----------
    {search}
    best_estimator_ : StructuredSVM
        The estimator trained on all examples with the best C, if ``refit``. It can be saved.
    coef_ : array
        The weights of ``best_estimator_``.
    oracle_calls_ : float
        Calls of loss-augmented inference per example, for all fits together.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import StructuredSVMCV
    >>> from maxmargin.tasks import Chain
    >>> rng = np.random.default_rng(0)
    >>> Y = [rng.integers(0, 2, 3) for _ in range(20)]
    >>> X = [np.eye(2)[y] + 0.3 * rng.normal(size=(3, 2)) for y in Y]
    >>> search = StructuredSVMCV(Chain(n_labels=2), Cs=[0.01, 0.1, 1.0], cv=3).fit(X, Y)
    >>> len(search.cv_results_["params"]), bool(search.cv_results_["split0_converged"].all())
    (3, True)
    >>> search.best_score_ > -0.5
    True
    """

    _trained = StructuredSVM
    best_estimator_: StructuredSVM = field(init=False)

    task: Task
    Cs: Any = 5
    _: KW_ONLY
    cv: Any = None
    scoring: Any = None
    refit: bool = True
    rescaling: str = "margin"
    kernel: Any = None
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 0.0
    kernel_method: Any = "auto"
    fixed: Any = None
    nonnegative: Any = None
    nonpositive: Any = None
    prior: Any = None
    tol: Any = 5e-2
    solver: Any = "auto"
    oracle: Literal["cheap", "expensive"] = "cheap"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Any = "threads"
    random_state: Any = 0
    callbacks: Any = None
    verbose: int = 0

    @documented
    def fit(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Train all folds and values of C, then the best C on all examples.

        Parameters
        ----------
        {pairs}
        {sample_weight}
            Held-out examples are scored without weights.
        groups : array, optional
            Groups for the splitter.

        Raises
        ------
        {interrupted_search}
        """
        check_parameters(self)
        check_pairs(X, y)
        weight = check_example_weights(sample_weight, len(y))
        weight = np.ones(len(y)) if weight is None else weight
        (table, splits), self.oracle_calls_ = self._table(len(y), groups), 0.0
        with StructuredProblem(self._template(), X, y) as problem:
            cells = _StructuredFolds(self, problem, weight, splits)
            return self._search(table, lambda watch: cells.train(table, watch), cells.fit_best)


class _StructuredFolds(Folds[StructuredSVM]):
    """The fits of a search, over examples that are packed once."""

    def __init__(
        self, search: StructuredSVMCV, problem: StructuredProblem, weight: Array, splits: list[Any]
    ) -> None:
        super().__init__(search._template, weight)
        self._search, self._problem, self.splits = search, problem, splits
        self._last: SolveResult | None = None

    def fit_best(self, best: StructuredSVM) -> None:
        self.fit(best, self._weight)
        best.solver = self._search.solver

    def fit(self, estimator: StructuredSVM, weight: Array) -> SolveResult:
        start: SolveResult | Start | None = self._last
        if start is not None and isinstance(start.dual, Bundle):
            # working sets of examples are kept; planes are sums over one fold
            start = Start(start.w)
        self._last = estimator._solve(self._problem, weight, start)
        self._search.oracle_calls_ += self._last.oracle_calls
        return self._last

    def score(self, estimator: StructuredSVM, test: IntArray) -> float:
        X, y = self._problem.X, self._problem.y
        return self._search._score(estimator, [X[j] for j in test], [y[j] for j in test])
