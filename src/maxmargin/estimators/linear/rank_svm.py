"""RankSVM: linear ranking with a certificate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from maxmargin.compat import check_sample_weight
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.user_warnings import called_by, warn_user
from maxmargin.core.vectors import Array
from maxmargin.data.design import compact, take
from maxmargin.estimators.base import CertifiedEstimator
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import (
    Callbacks,
    File,
    Fixed,
    Labels,
    Method,
    Numbers,
    Resumable,
    Samples,
    Seed,
    Tolerance,
    Which,
    Workers,
    of_class,
    one_of,
)
from maxmargin.estimators.linear.queries import (
    groups_of,
    list_quality,
    pair_accuracy,
    queries,
    reject_names,
)
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.paths import PathOfC
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.scikit import RegressorMixin
from maxmargin.estimators.validation import check_labels, finite_scores, rows_for, scored, training
from maxmargin.estimators.weights import weigh
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane

_ROUTING = (
    "scikit-learn passes them to the splitter only, and qid to fit only, unless metadata is routed: call "
    "sklearn.set_config(enable_metadata_routing=True)."
)
_NOT_ROUTED = (
    "RankSVM was fitted in a search or a cross-validation without groups, so it compared all samples as if "
    f"they belonged to one query. If there are groups: {_ROUTING}"
)


@dataclass(eq=False, repr=False)
class RankSVM(PathOfC, RegressorMixin, CertifiedEstimator):
    """Linear ranking with a certificate: scores that sort the samples of each query by ``y``.

    Minimizes ``1/2 |w|^2 + C sum_q loss_q(X_q w)`` over queries q. There is no intercept, because it would
    shift all scores equally. The losses are

    * ``"pairs"``: the sum of ``c_ij max(0, 1 - (s_i - s_j))`` over all pairs of samples of a query with y_i >
      y_j. This is the ranking SVM of Herbrich, Graepel and Obermayer and of Joachims, for any number of
      levels of relevance. Pairs are counted by sorting, in O(m log m) for m samples, and never enumerated.
    * ``"map"``: 1 - average precision with margin rescaling over all rankings of the query (Yue and others).
      ``y`` has two levels.
    * ``"ndcg"``: 1 - NDCG with margin rescaling over all rankings of the query. ``y`` contains gains, as in
      :func:`sklearn.metrics.ndcg_score`.

    Loss-augmented inference is exact for all of them, so the certificate is exact.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over pairs ("pairs") or over queries ("map", "ndcg").
    tol : float or stopping rule, default 0.001
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.
    loss : {"pairs", "map", "ndcg"}, default "pairs"
        The loss of a query.
    pair_weight : {"equal", "difference"} or array of shape (n_levels, n_levels), default "equal"
        The weights ``c_ij`` for ``loss="pairs"``: 1, the difference y_i - y_j, or the entry [level of y_i,
        level of y_j] of an array in the order of ``levels_`` (only entries below the diagonal are used).
    query_weight : {"pairs", "equal"}, default "pairs"
        For ``loss="pairs"``: "pairs" weights queries by their number of pairs. "equal" divides the loss of
        each query by the sum of its c_ij.
    k : int, optional
        For ``loss="ndcg"``: number of top positions that count (NDCG@k). All positions by default.
    prior : GaussianPrior, optional
        Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors".
    fixed : dict, optional
        Weights that are not learned, as ``{index or name of a feature: value}``. Their part of the norm, a
        constant, is not included in ``objective_``.
    nonnegative : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be negative.
    nonpositive : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be positive.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. "auto" is
        :class:`maxmargin.solvers.CuttingPlane` with its exact line search.
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all
        engines. The fit does not close an engine object.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit. Its weights are reused.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed. Cutting planes do not use it; a solver of your own may.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit".
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.
    checkpoint : path or Checkpoint, optional
        File to which ``fit`` regularly writes its state, so that a fit that was killed can be resumed; see
        the user guide, "Checkpoints".

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights.
    levels_ : array
        The distinct values of ``y``, ascending.
    n_queries_ : int
        Number of queries in the training data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array
        Names of the features, if ``X`` had names.
    objective_ : float
        Objective at the returned weights: an upper bound of the optimum.
    lower_bound_ : float
        Lower bound of the optimum.
    gap_ : float
        Relative gap between the bounds, ``(objective_ - lower_bound_) / objective_``.
    converged_ : bool
        Whether the bounds prove that ``tol`` was reached.
    stop_reason_ : str
        Why the fit stopped: "gap" (``tol`` was reached), "max_iter", "max_seconds", "callback",
        "interrupted", "stalled" (no further progress) or "rounding" (rounding errors may exceed ``tol``:
        scale the features).
    certificate_ : str
        What the bounds guarantee: "exact", "relaxed", "restricted", "lower_only" or "measured"; see the user
        guide, "What the certificate means".
    n_iter_ : int
        Number of iterations.
    history_ : list of dict
        Record of every iteration: bounds, gap, elapsed time and more.

    Examples
    --------
    Three queries, in each of which better documents have a larger first feature:

    >>> import numpy as np
    >>> from maxmargin import RankSVM
    >>> X = np.array([[9.0, 1.0], [8.5, 0.0], [8.0, 1.0], [2.0, 0.0], [1.0, 1.0], [5.0, 0.0], [4.0, 0.5]])
    >>> y = [2, 1, 0, 1, 0, 1, 0]
    >>> groups = ["a", "a", "a", "b", "b", "c", "c"]
    >>> ranker = RankSVM(C=10.0).fit(X, y, groups)
    >>> ranker.score(X, y, groups), ranker.certificate_, ranker.converged_
    (1.0, 'exact', True)
    """

    _constraints = of_class(loss=one_of("pairs", "map", "ndcg"))
    # what scikit-learn's metadata routing passes without set_fit_request and set_score_request
    __metadata_request__fit: ClassVar = {"groups": True, "qid": True}
    __metadata_request__score: ClassVar = {"groups": True, "qid": True}

    C: float = 1.0
    _: KW_ONLY
    tol: Tolerance = 1e-3
    loss: Literal["pairs", "map", "ndcg"] = "pairs"
    pair_weight: Literal["equal", "difference"] | npt.ArrayLike = "equal"
    query_weight: str = "pairs"
    k: int | None = None
    prior: GaussianPrior | None = None
    fixed: Fixed = None
    nonnegative: Which = None
    nonpositive: Which = None
    solver: Method = "auto"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Workers = "threads"
    warm_start: bool = False
    random_state: Seed = 0
    callbacks: Callbacks = None
    verbose: int = 0
    checkpoint: Resumable = None

    @certified_fit
    def fit(
        self,
        X: Samples,
        y: Labels = None,
        groups: Labels = None,
        sample_weight: Numbers = None,
        resume_from: File | None = None,
        qid: Labels = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features). float32 and float64 data are used without a copy if
            the samples of each query are contiguous.
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Relevance: the larger,
            the better. Only samples of the same query are compared.
        groups : array of shape (n_samples,), optional
            Query of each sample, as numbers or strings, in any order. By default all samples are one query.
        sample_weight : array of shape (n_samples,), optional
            For ``loss="pairs"``: a sample of weight 2 counts as two samples, so c_ij is multiplied by both
            weights. For ``"map"`` and ``"ndcg"``: query weights, which must be the same for all samples of a
            query.
        resume_from : path, optional
            Checkpoint of a fit with the same data and parameters, from which to continue.
        qid : array of shape (n_samples,), optional
            The same as ``groups``, by the name that XGBoost uses. Samples of a query need not be contiguous.
            If both are given, as in a search with a splitter by groups, ``qid`` are the queries, and each
            group must contain whole queries.
        **unknown : dict
            Not used; other names, such as ``group``, are an error that says what to use.

        Returns
        -------
        self
            The estimator itself.
        """
        reject_names(unknown)
        named = qid if groups is None else groups
        given: Any = {"X": X, "y": y, "sample_weight": sample_weight}
        keeping = FitCheckpoint(self, resume_from, groups=named, **given)
        self._fit(**given, groups=groups, qid=qid, keeping=keeping)
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
        qid: Any = None,
        last: SolveResult | None = None,
        keeping: FitCheckpoint | None = None,
    ) -> SolveResult:
        """Fit, continuing from ``last``: the result for the same data with another C."""
        rows = training(self, X, y, sample_weight, numeric=True)
        groups = groups_of(X, groups, qid)
        if groups is None and called_by("sklearn.model_selection"):
            warn_user(_NOT_ROUTED)
        relevance = np.asarray(rows.y[:], dtype=np.float64)
        self.levels_ = np.unique(relevance)
        problem = queries(self, relevance, self.levels_, groups, rows.weight[:])
        self.n_queries_ = 1 if groups is None else len(np.unique(np.asarray(groups)))
        design = compact(rows.design)
        weights = weigh(self, design.shape[1], getattr(self, "feature_names_in_", None))
        previous = self._previous_weights("coef_", design.shape[1:])
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
                start=last if previous is None else Start(weights.learned(previous)),
                fitted=lambda w: {"coef_": weights.whole(w)},
                data={"X": X, "y": y},
                keeping=keeping,
            )
        self.coef_ = weights.whole(result.w)
        return result

    @chunked
    def predict(self, X: Samples, *, out: Any = None) -> Array:
        """Return scores: the larger, the higher the rank. Only differences within a query are meaningful.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of shape (n_samples,)
            Scores.
        """
        check_is_fitted(self)
        design = rows_for(self, X)
        scores = design.dot(np.ascontiguousarray(self.coef_), 0, design.shape[0])
        return finite_scores(scores)

    def score(
        self,
        X: Samples,
        y: Labels = None,
        groups: Labels = None,
        sample_weight: Numbers = None,
        *,
        qid: Labels = None,
    ) -> float:
        """Return the quality that the ranker was trained for: the mean over queries, at most 1.

        For ``loss="pairs"`` the fraction of correctly ordered pairs (ties count half): Kendall's tau, scaled
        to the range from 0 to 1 and ignoring pairs of equal relevance. For ``"ndcg"`` the NDCG at ``k``, and
        for ``"map"`` the average precision, as in :func:`sklearn.metrics.ndcg_score` and
        :func:`sklearn.metrics.average_precision_score`. Queries whose samples are all equally relevant are
        skipped.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own. Relevance.
        groups : array of shape (n_samples,), optional
            Query of each sample. By default all samples are one query, but ``groups`` is required after a fit
            with several queries. Omit it for a data set that contains groups.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. By default those of the data set, if ``X`` is one, else 1. A pair is weighted by
            the product of the weights of its samples; for "map" and "ndcg" a query by the weight of its
            samples.
        qid : array of shape (n_samples,), optional
            The same as ``groups``; if both are given, the queries.

        Returns
        -------
        float
            1 if all samples are in the right order.
        """
        scores = self.predict(X)
        y, sample_weight = scored(X, y, sample_weight)
        check_labels(y, numeric=True)
        target: Array = column_or_1d(y, dtype=np.float64)
        check_consistent_length(scores, target)
        groups = groups_of(X, groups, qid)
        if groups is None and getattr(self, "n_queries_", 1) > 1:
            raise ValueError(
                f"the ranker was fitted on {self.n_queries_} queries, and scores of different queries cannot "
                "be compared: pass groups, the query of each sample. (If all samples belong to one query: "
                "groups=np.zeros(len(y)).)"
                + (f" In a search, {_ROUTING}" if called_by("sklearn.model_selection") else "")
            )
        weight = check_sample_weight(
            sample_weight, target, dtype=np.float64, ensure_non_negative=True
        )
        if self.loss == "pairs":
            return pair_accuracy(scores, target, groups, weight)
        gains = (target >= self.levels_[-1]).astype(np.float64) if self.loss == "map" else target
        return list_quality(scores, gains, groups, weight, self.k, self.loss)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.positive_only = self.loss == "ndcg"
        return tags
