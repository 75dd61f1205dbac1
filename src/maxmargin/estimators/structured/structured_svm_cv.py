"""StructuredSVMCV: C chosen by cross-validation, with outputs shared by all folds and values of C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.constraints import (
    Fixed,
    Gamma,
    KernelFunction,
    KernelName,
    Labels,
    Method,
    Numbers,
    Seed,
    Tolerance,
    Which,
    Workers,
)
from maxmargin.estimators.example_checks import check_example_weights, check_pairs
from maxmargin.estimators.folds import Folds, StructuredSearch
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.structured.problem import StructuredProblem
from maxmargin.estimators.structured.structured_svm import StructuredSVM
from maxmargin.kernels.functions import Kernel
from maxmargin.tasks.base import Task


@dataclass(eq=False, repr=False)
class StructuredSVMCV(StructuredSearch):
    """Large-margin training of any structured task, with C chosen by cross-validation.

    Trains a :class:`StructuredSVM` for all folds and values of C, each with a certificate of the same
    tolerance. An output that inference found for an example is a constraint for every fold that trains on the
    example, and for every C. All fits share one collection of outputs, and each starts from the dual
    variables of the fit before.

    Parameters
    ----------
    task : Task
        The task: what is predicted, and how; see :class:`maxmargin.tasks.Task`. ``fit`` works on a copy. Its
        ``setup`` sees all examples, including held-out ones: label sets are the same in all folds.
    Cs : int or array, default 5
        Values of C. An integer n stands for n values between 1e-3 and 10.
    cv : int, splitter or iterable, optional
        The folds, as in scikit-learn; 5 by default.
    scoring : callable, optional
        ``scoring(estimator, X, Y)``: the larger, the better. By default minus the mean loss of the task.
    refit : bool, default True
        Whether to fit the best setting to all samples.
    rescaling : {"margin", "slack"}, default "margin"
        Whether the loss is added to the score of an output ("margin") or multiplies its violation ("slack").
    kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, optional
        The kernel, with the names and conventions of scikit-learn. A callable ``f(X, Z)`` returns the matrix
        of kernel values; set its attribute ``positive_semidefinite`` to False if the kernel is not. By
        default, there is none; see :class:`StructuredSVM`. Features are built once, from the rows of all
        examples. With "map" this changes no fold's problem. With "nystrom" landmarks may be rows of held-out
        inputs; their outputs are not used.
    gamma : {"scale", "auto"} or float, default "scale"
        Coefficient of the kernels "rbf", "poly" and "sigmoid". "scale" is ``1 / (n_features * X.var())``,
        "auto" is ``1 / n_features``.
    degree : int, default 3
        Degree of the kernel "poly".
    coef0 : float, default 0.0
        Constant term of the kernels "poly" and "sigmoid".
    kernel_method : {"auto", "map", "nystrom", "sampled"} or settings object, default "auto"
        How the kernel is used. "map" builds features from all training rows and gives the certificate
        "exact"; it is for a few thousand rows. "nystrom" (:class:`maxmargin.kernels.Nystrom`) builds them
        from some rows and gives "restricted". "sampled" learns by sampled cuts
        (:class:`maxmargin.solvers.SampledCuts`) and gives "measured". "auto" is "map" for up to 5,000 rows
        and "nystrom" for more.
    fixed : dict, optional
        Weights that are not learned, as ``{index or name of a feature: value}``. Their part of the norm, a
        constant, is not included in ``objective_``.
    nonnegative : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be negative.
    nonpositive : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be positive.
    prior : GaussianPrior, optional
        Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors".
    tol : float or stopping rule, default 0.05
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. "auto" is the same as for
        :class:`StructuredSVM`.
    oracle : {"cheap", "expensive"}, default "cheap"
        Cost of one call of the task's inference. "expensive" saves calls at the price of more computation
        between them. Use it when a call takes much longer than a millisecond; see the user guide, "Expensive
        oracles".
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds. It
        applies to each fit.
    max_seconds : float, optional
        Time limit of the cross-validation in seconds. When it is reached, the best of the settings that were
        trained on every fold is taken, with a warning. The fit with the best setting is not limited.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all
        engines. The fit does not close an engine object.
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
    rescaling: Literal["margin", "slack"] = "margin"
    kernel: KernelName | Kernel | KernelFunction | None = None
    gamma: Gamma = "scale"
    degree: int = 3
    coef0: float = 0.0
    kernel_method: Any = "auto"
    fixed: Fixed = None
    nonnegative: Which = None
    nonpositive: Which = None
    prior: GaussianPrior | None = None
    tol: Tolerance = 5e-2
    solver: Method = "auto"
    oracle: Literal["cheap", "expensive"] = "cheap"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Workers = "threads"
    random_state: Seed = 0
    callbacks: Any = None
    verbose: int = 0

    def fit(
        self,
        X: Sequence[object],
        y: Sequence[object],
        sample_weight: Numbers = None,
        groups: Labels = None,
    ) -> Self:
        """Train all folds and values of C, then the best C on all examples.

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and true outputs, of the kind that the task expects.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C. Held-out examples are scored without weights.
        groups : array, optional
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
