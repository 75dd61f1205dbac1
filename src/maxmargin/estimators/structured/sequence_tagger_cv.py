"""SequenceTaggerCV: C of a tagger chosen by cross-validation, with labelings shared by all fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.dataset import Dataset
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.estimators.constraints import Labels, Method, Numbers, Seed, Tolerance, Workers
from maxmargin.estimators.example_checks import check_example_weights
from maxmargin.estimators.folds import Folds, StructuredSearch
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.structured import sequences as seq
from maxmargin.estimators.structured.sequence_tagger import SequenceTagger
from maxmargin.estimators.structured.tagger_input import with_vocabulary
from maxmargin.estimators.validation import loaded


@dataclass(eq=False, repr=False)
class SequenceTaggerCV(StructuredSearch):
    """Sequence labeling by a linear chain, with C chosen by cross-validation.

    Trains a :class:`SequenceTagger` for all folds and values of C, each with a certificate of the same
    tolerance. Features are made once, and each fit starts from the dual variables of the fit before.

    Parameters
    ----------
    Cs : int or array, default 5
        Values of C. An integer n stands for n values between 1e-3 and 10.
    cv : int, splitter or iterable, optional
        The folds, as in scikit-learn; 5 by default.
    scoring : callable, optional
        ``scoring(tagger, X, y)``: the larger, the better. By default the fraction of right tokens. For spans,
        pass a function that computes :func:`maxmargin.metrics.span_f1_score`.
    refit : bool, default True
        Whether to fit the best setting to all samples.
    loss, cost, forbidden_transitions, order, rescaling, min_count, n_hashed, prior
        As in :class:`SequenceTagger`. Labels, features and ``"unseen"`` transitions are those of all
        sequences, including held-out ones.
    tol : float or stopping rule, default 0.05
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`.
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
    best_estimator_ : SequenceTagger
        The tagger trained on all sequences with the best C, if ``refit``. It can be saved.
    classes_ : list
        The labels of ``best_estimator_``.

    Examples
    --------
    >>> from maxmargin import SequenceTaggerCV
    >>> X = [[["w=the"], ["w=cat"], ["w=sat"]], [["w=a"], ["w=dog"], ["w=ran"]]] * 10
    >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]] * 10
    >>> search = SequenceTaggerCV(Cs=[0.01, 0.1, 1.0], cv=2).fit(X, y)
    >>> search.best_score_, search.predict([[["w=the"], ["w=dog"], ["w=sat"]]])
    (1.0, [['DET', 'NOUN', 'VERB']])
    """

    _trained = SequenceTagger
    _of_best = ("classes_",)
    best_estimator_: SequenceTagger = field(init=False)

    _constraints = SequenceTagger._constraints

    Cs: Any = 5
    _: KW_ONLY
    cv: Any = None
    scoring: Any = None
    refit: bool = True
    loss: Literal["hinge", "logistic"] = "hinge"
    cost: Mapping[Any, float] | npt.ArrayLike | None = None
    forbidden_transitions: Any = None
    order: int = 1
    rescaling: Literal["margin", "slack"] = "margin"
    min_count: int = 1
    n_hashed: int | None = None
    prior: GaussianPrior | None = None
    tol: Tolerance = 5e-2
    solver: Method = "auto"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Workers = "threads"
    random_state: Seed = 0
    callbacks: Any = None
    verbose: int = 0

    def fit(
        self, X: Any, y: Any = None, sample_weight: Numbers = None, groups: Labels = None
    ) -> Self:
        """Train all folds and values of C, then the best C on all sequences.

        Parameters
        ----------
        X, y : lists of sequences
            As for :meth:`SequenceTagger.fit`.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C. A sample is a sequence. Held-out sequences are scored without
            weights.
        groups : array, optional
            Groups for the splitter, one per sequence.

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
        data = X if isinstance(X, Dataset) else None
        X, y, sample_weight = loaded(X, y, sample_weight)
        cells = _TaggerFolds(self, X, y, sample_weight, data)
        table, cells.splits = self._table(len(cells.counts), groups)
        return self._search(table, lambda watch: cells.train(table, watch), cells.fit_best)

    def _examples(self, X: Any, y: Any) -> tuple[Any, Any]:
        return self.best_estimator_._loaded(X, y)


class _TaggerFolds(Folds[SequenceTagger]):
    """The fits of a search, from matrices that are made once."""

    def __init__(
        self, search: SequenceTaggerCV, X: Any, y: Any, sample_weight: Any, data: Dataset | None
    ) -> None:
        self._scoring, self._solver, self._X, self._y = search.scoring, search.solver, X, y
        names = TokenVectorizer(search.n_hashed, search.min_count)
        stacked = seq.stack(X, None, vectorizer=names, fitting=True)
        self._stacked = with_vocabulary(stacked, data, search)
        self.counts = self._stacked.counts
        self._flat = seq.flatten_labels(y, self.counts, stacked=False)
        self._tokens = np.split(np.arange(len(self._flat)), np.cumsum(self.counts)[:-1])
        weight = check_example_weights(sample_weight, len(self.counts))
        super().__init__(search._template, np.ones(len(self.counts)) if weight is None else weight)
        self._last: SequenceTagger | None = None

    def fit_best(self, best: SequenceTagger) -> None:
        self.fit(best, self._weight)
        best.solver, best.warm_start = self._solver, False
        del best._kept

    def fit(self, estimator: SequenceTagger, weight: Array) -> SolveResult:
        estimator.warm_start = True
        if self._last is not None:
            estimator.weights_, estimator._kept = self._last.weights_, self._last._kept
        estimator._train(self._stacked.rows, self._flat, self.counts, weight)
        estimator.vectorizer_ = self._stacked.vectorizer
        estimator._string_tokens = self._stacked.strings
        self._last = estimator
        return _result(estimator)

    def score(self, estimator: SequenceTagger, test: IntArray) -> float:
        if self._scoring is not None:
            X, y = [self._X[j] for j in test], [self._y[j] for j in test]
            return float(self._scoring(estimator, X, y))
        tokens = np.concatenate([self._tokens[j] for j in test])
        truth = [self._flat[t] for t in tokens]
        return estimator.score(self._stacked.rows[tokens], truth, self.counts[test])


def _result(tagger: SequenceTagger) -> SolveResult:
    """The certificate of a fit, without its weights."""
    return SolveResult(
        np.zeros(0),
        tagger.objective_,
        tagger.lower_bound_,
        tagger.gap_,
        tagger.converged_,
        tagger.stop_reason_,
        tagger.certificate_,
        tagger.n_iter_,
        [],
    )
