"""RankSVM: linear ranking with a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from maxmargin.core.result import Start
from maxmargin.core.vectors import Array
from maxmargin.data.design import compact, take
from maxmargin.estimators.base import CertifiedEstimator
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.linear.queries import groups_of, pair_accuracy, queries
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.validation import finite_scores, rows_for, scored, training
from maxmargin.estimators.weights import Weighing, weigh
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane


class RankSVM(RegressorMixin, CertifiedEstimator):
    """Linear ranking, certified: scores that put the rows of each query in the order of ``y``.

    Minimises ``1/2 |w|^2 + C sum_q loss_q(X_q w)`` over queries q. There is no intercept: it would move
    all scores alike. The losses are

    * ``"pairs"``: the sum over pairs of rows of the query with y_i > y_j of
      ``c_ij max(0, 1 - (s_i - s_j))``, the ranking SVM of Herbrich, Graepel and Obermayer and of Joachims,
      for any number of levels of relevance. Pairs are counted by sorting, O(m log m) for m rows, and
      never listed.
    * ``"map"``: 1 - average precision, margin rescaled over all rankings of the query (Yue and others); y
      has two levels.
    * ``"ndcg"``: 1 - NDCG, margin rescaled over all rankings of the query; y are gains, as in
      :func:`sklearn.metrics.ndcg_score`.

    Their argmaxes are exact, and so is the certificate.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss: it multiplies a sum over pairs ("pairs") or over queries ("map", "ndcg").
    tol : float or stopping rule, default 1e-3
        Relative gap at which to stop.
    loss : {"pairs", "map", "ndcg"}, default "pairs"
        The loss of a query.
    pair_weight : {"equal", "difference"} or array of shape (n_levels, n_levels), default "equal"
        ``c_ij`` for ``loss="pairs"``: 1, or y_i - y_j, or the entry [level of y_i, level of y_j] in the
        order of ``levels_`` (only those below the diagonal are used).
    query_weight : {"pairs", "equal"}, default "pairs"
        For ``loss="pairs"``: queries count as much as they have pairs, or the loss of each query is divided
        by the sum of its c_ij, so that all count alike.
    k : int, optional
        Positions that count for ``loss="ndcg"`` (NDCG@k); all by default.
    prior : GaussianPrior, optional
        A centre and a spread of the weights instead of ``1/2 |w|^2``; see the user guide, "Priors".
    fixed : dict, optional
        Weights that are not learned, ``{index or name of a feature: value}``. Their share of the norm, a
        constant, is not part of ``objective_``.
    nonnegative, nonpositive : list, optional
        Features (indices or names) whose weights must not become negative, or positive.
    solver : "auto" or solver object, default "auto"
        The method; "auto" is :class:`maxmargin.solvers.CuttingPlane`, with its exact line search.
    max_iter, max_seconds : optional
        Limits. The best point is returned with its bounds.
    n_jobs : int, optional
        Threads. The result has the same bits for any number of them.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are: the result has the same bits on all of them. An engine object is not closed by
        the fit. See :mod:`maxmargin.engines`.
    warm_start : bool, default False
        Start from the weights of the previous fit.
    random_state : int, default 0
        Not used by cutting planes; there for solvers of your own.
    callbacks : list of callables, optional
        Each receives every iteration's record and may return True to stop.
    verbose : int, default 0
        1 shows one live line.
    checkpoint : path or Checkpoint, optional
        Where ``fit`` writes its state now and then, so that a fit that was killed can go on; see the user
        guide, "Checkpoints".

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights.
    levels_ : array
        The different values of y, ascending.
    n_queries_ : int
        Number of queries of the training data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if X had names.
    objective_, lower_bound_, gap_, converged_, stop_reason_, certificate_, n_iter_, history_
        The certificate; see the user guide, "What the certificate means".

    Examples
    --------
    Three queries whose better documents have a larger first feature, each query at a level of its own:

    >>> import numpy as np
    >>> from maxmargin import RankSVM
    >>> X = np.array([[9.0, 1.0], [8.5, 0.0], [8.0, 1.0], [2.0, 0.0], [1.0, 1.0], [5.0, 0.0], [4.0, 0.5]])
    >>> y = [2, 1, 0, 1, 0, 1, 0]
    >>> groups = ["a", "a", "a", "b", "b", "c", "c"]
    >>> ranker = RankSVM(C=10.0).fit(X, y, groups)
    >>> ranker.score(X, y, groups), ranker.certificate_, ranker.converged_
    (1.0, 'exact', True)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: Any = 1e-3,
        loss: str = "pairs",
        pair_weight: Any = "equal",
        query_weight: str = "pairs",
        k: int | None = None,
        prior: Any = None,
        fixed: Any = None,
        nonnegative: Any = None,
        nonpositive: Any = None,
        solver: Any = "auto",
        max_iter: int | None = None,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        engine: Any = "threads",
        warm_start: bool = False,
        random_state: Any = 0,
        callbacks: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
    ) -> None:
        self.C = C
        self.tol = tol
        self.loss = loss
        self.pair_weight = pair_weight
        self.query_weight = query_weight
        self.k = k
        self.prior = prior
        self.fixed = fixed
        self.nonnegative = nonnegative
        self.nonpositive = nonpositive
        self.solver = solver
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.engine = engine
        self.warm_start = warm_start
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose
        self.checkpoint = checkpoint

    @certified_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        resume_from: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            float32 and float64 data are used without a copy where the rows of each query stand together.
        y : array of shape (n_samples,)
            Relevance: the larger, the better. Only rows of one query are compared.
        groups : array of shape (n_samples,), optional
            Query of each row, numbers or texts, in any order. One query by default.
        sample_weight : array of shape (n_samples,), optional
            ``loss="pairs"``: a row of weight 2 is a row that is there twice, so c_ij is multiplied by both
            weights. ``"map"`` and ``"ndcg"``: weights of queries, the same for all rows of one.
        resume_from : path, optional
            A checkpoint of a fit to the same data with the same parameters, from which to go on.

        Returns
        -------
        RankSVM
            The fitted estimator.
        """
        data = {"X": X, "y": y}
        rows = training(self, X, y, sample_weight, numeric=True)
        keeping = FitCheckpoint(
            self, resume_from, X=X, y=y, groups=groups, sample_weight=sample_weight
        )
        groups = groups_of(X, groups)
        relevance = np.asarray(rows.y[:], dtype=np.float64)
        self.levels_ = np.unique(relevance)
        problem = queries(self, relevance, self.levels_, groups, rows.weight[:])
        self.n_queries_ = 1 if groups is None else len(np.unique(np.asarray(groups)))
        design = compact(rows.design)
        weights = weigh(self, design.shape[1], getattr(self, "feature_names_in_", None))
        with self._workers() as engine:
            risk = ScoreRisk(
                design if problem.order is None else take(design, problem.order),
                problem.labels,
                problem.loss,
                sample_weight=problem.weight,
                engine=engine,
            )
            result = self._minimize(
                weights.risk(risk),
                CuttingPlane()
                if isinstance(self.solver, str) and self.solver == "auto"
                else self.solver,
                regularizer=weights.norm,
                start=self._start(design.shape[1], weights),
                fitted=lambda w: {"coef_": weights.whole(w)},
                data=data,
                keeping=keeping,
            )
        self.coef_ = weights.whole(result.w)
        return self

    def _start(self, n_features: int, weights: Weighing) -> Start | None:
        """The previous fit's weights, if they fit."""
        if self.warm_start and hasattr(self, "coef_") and self.coef_.shape == (n_features,):
            return Start(weights.learned(self.coef_))
        return None

    def predict(self, X: Any) -> Array:
        """Scores: the larger, the further up. Only differences within a query have a meaning.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Scores.
        """
        check_is_fitted(self)
        design = rows_for(self, X)
        scores = design.dot(np.ascontiguousarray(self.coef_), 0, design.shape[0])
        return finite_scores(scores)

    def score(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> float:
        """Mean over queries of the share of pairs in the right order; a tie of scores counts half.

        Kendall's tau of each query, brought to the range 0 .. 1, where pairs of equal relevance do not count.
        Queries with no pair are left out. For NDCG see :func:`sklearn.metrics.ndcg_score`.

        Parameters
        ----------
        X : array, sparse matrix, data frame, design or data set of shape (n_samples, n_features)
            The rows.
        y : array of shape (n_samples,)
            Relevance; left out for a data set, which has its own.
        groups : array of shape (n_samples,), optional
            Query of each row. One query by default, but required after a fit with several queries; a data
            set has its own.
        sample_weight : array of shape (n_samples,), optional
            Weights of rows, a pair counting as much as their product; those of a data set by default.

        Returns
        -------
        float
            1 if all pairs are right, 0.5 for scores that know nothing.
        """
        scores = self.predict(X)
        y, sample_weight = scored(X, y, sample_weight)
        y = column_or_1d(y, dtype=np.float64)
        check_consistent_length(scores, y)
        groups = groups_of(X, groups)
        if groups is None and getattr(self, "n_queries_", 1) > 1:
            raise ValueError(
                f"the ranker was fitted on {self.n_queries_} queries, whose scores cannot be compared with "
                "each other: pass groups, the query of each row. (If all rows belong to one query: "
                "groups=np.zeros(len(y)).)"
            )
        weight = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        return pair_accuracy(scores, y, groups, weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.positive_only = self.loss == "ndcg"
        return tags
