"""RankSVM: linear ranking with a certificate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from maxmargin.core.result import Start
from maxmargin.core.user_warnings import called_by, warn_user
from maxmargin.core.vectors import Array
from maxmargin.data.design import compact, take
from maxmargin.estimators.base import CertifiedEstimator
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import of_class, one_of
from maxmargin.estimators.documentation import documented
from maxmargin.estimators.linear.queries import (
    groups_of,
    list_quality,
    pair_accuracy,
    queries,
    reject_names,
)
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.scikit import RegressorMixin
from maxmargin.estimators.validation import check_labels, finite_scores, rows_for, scored, training
from maxmargin.estimators.weights import weigh
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane

_NOT_ROUTED = (
    "RankSVM was fitted in a search or a cross-validation without groups, so it compared all samples as if "
    "they belonged to one query. scikit-learn passes groups to the splitter only, unless they are requested: "
    "call sklearn.set_config(enable_metadata_routing=True), and use "
    "RankSVM().set_fit_request(groups=True).set_score_request(groups=True)."
)


@documented
@dataclass(eq=False, repr=False)
class RankSVM(RegressorMixin, CertifiedEstimator):
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
    {C}
        It multiplies a sum over pairs ("pairs") or over queries ("map", "ndcg").
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
    {solver}
        "auto" is :class:`maxmargin.solvers.CuttingPlane` with its exact line search.
    {warm_start}
        Its weights are reused.
    {random_state}
        Cutting planes do not use it; a solver of your own may.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights.
    levels_ : array
        The distinct values of ``y``, ascending.
    n_queries_ : int
        Number of queries in the training data.
    {n_features_in_}
    {feature_names_in_}
    {certificate}

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

    C: float = 1.0
    _: KW_ONLY
    tol: Any = 1e-3
    loss: str = "pairs"
    pair_weight: Any = "equal"
    query_weight: str = "pairs"
    k: int | None = None
    prior: Any = None
    fixed: Any = None
    nonnegative: Any = None
    nonpositive: Any = None
    solver: Any = "auto"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Any = "threads"
    warm_start: bool = False
    random_state: Any = 0
    callbacks: Any = None
    verbose: int = 0
    checkpoint: Any = None

    @certified_fit
    @documented
    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        resume_from: Any = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        {X}
            float32 and float64 data are used without a copy if the samples of each query are contiguous.
        {y}
            Relevance: the larger, the better. Only samples of the same query are compared.
        groups : array of shape (n_samples,), optional
            Query of each sample, as numbers or strings, in any order. By default all samples are one query.
        sample_weight : array of shape (n_samples,), optional
            For ``loss="pairs"``: a sample of weight 2 counts as two samples, so c_ij is multiplied by both
            weights. For ``"map"`` and ``"ndcg"``: query weights, which must be the same for all samples of a
            query.
        **unknown : dict
            Not used; other names, such as ``qid``, are an error that says what to use.
        """
        reject_names(unknown)
        data = {"X": X, "y": y}
        rows = training(self, X, y, sample_weight, numeric=True)
        keeping = FitCheckpoint(
            self, resume_from, X=X, y=y, groups=groups, sample_weight=sample_weight
        )
        groups = groups_of(X, groups)
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
                start=None if previous is None else Start(weights.learned(previous)),
                fitted=lambda w: {"coef_": weights.whole(w)},
                data=data,
                keeping=keeping,
            )
        self.coef_ = weights.whole(result.w)
        return self

    @chunked
    @documented
    def predict(self, X: Any, *, out: Any = None) -> Array:
        """Return scores: the larger, the higher the rank. Only differences within a query are meaningful.

        Returns
        -------
        array of shape (n_samples,)
            Scores.
        """
        check_is_fitted(self)
        design = rows_for(self, X)
        scores = design.dot(np.ascontiguousarray(self.coef_), 0, design.shape[0])
        return finite_scores(scores)

    @documented
    def score(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> float:
        """Return the quality that the ranker was trained for: the mean over queries, at most 1.

        For ``loss="pairs"`` the fraction of correctly ordered pairs (ties count half): Kendall's tau, scaled
        to the range from 0 to 1 and ignoring pairs of equal relevance. For ``"ndcg"`` the NDCG at ``k``, and
        for ``"map"`` the average precision, as in :func:`sklearn.metrics.ndcg_score` and
        :func:`sklearn.metrics.average_precision_score`. Queries whose samples are all equally relevant are
        skipped.

        Parameters
        ----------
        {y}
            Relevance.
        groups : array of shape (n_samples,), optional
            Query of each sample. By default all samples are one query, but ``groups`` is required after a fit
            with several queries. Omit it for a data set that contains groups.
        {score_weight}
            A pair is weighted by the product of the weights of its samples; for "map" and "ndcg" a query by
            the weight of its samples.

        Returns
        -------
        float
            1 if all samples are in the right order.
        """
        scores = self.predict(X)
        y, sample_weight = scored(X, y, sample_weight)
        check_labels(y, numeric=True)
        y = column_or_1d(y, dtype=np.float64)
        check_consistent_length(scores, y)
        groups = groups_of(X, groups)
        if groups is None and getattr(self, "n_queries_", 1) > 1:
            raise ValueError(
                f"the ranker was fitted on {self.n_queries_} queries, and scores of different queries cannot "
                "be compared: pass groups, the query of each sample. (If all samples belong to one query: "
                "groups=np.zeros(len(y)).)"
            )
        weight = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        if self.loss == "pairs":
            return pair_accuracy(scores, y, groups, weight)
        gains = (y >= self.levels_[-1]).astype(np.float64) if self.loss == "map" else y
        return list_quality(scores, gains, groups, weight, self.k, self.loss)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.positive_only = self.loss == "ndcg"
        return tags
