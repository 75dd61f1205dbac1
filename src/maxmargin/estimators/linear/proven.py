"""What a certificate says about predictions: a ball that holds the weights of the exact optimum.

F(v) = 1/2 |v|^2 + C R(v) is strongly convex, and so is the lower bound of a dual point with weights u and
value D: with F* = F(w*) and the weights w of a fit,

    F(w) >= F* + 1/2 |w - w*|^2,        F* >= D + 1/2 |u - w*|^2.

The sum bounds |w - w*|^2 + |u - w*|^2 by 2 (F(w) - D), so that w* lies in the ball around (w + u) / 2 with

    radius^2 = F(w) - D - 1/4 |w - u|^2  =  1/4 |w - u|^2 + s,       s = F(w) - D - 1/2 |w - u|^2 >= 0.

A score of the optimum is within radius * |x| of that of the center, the difference of two scores of weights
in the same ball within sqrt(2) times as much. Where the problem is a sum of one problem per class, each class
has its own ball, with the same s. A constant feature counts in |x|. If the user's weights are center + T v (a
prior), the radius is multiplied by the norm of T.

The dual point is any cut of the risk (:mod:`maxmargin.core.cut`), R(v) >= b + <a, v>: u = -C a. Without one,
the ball around w with radius^2 = 2 (F(w) - lower) remains. Bounds and cuts are used with their rounding
errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.bundle_solution import DualPoint
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult
from maxmargin.core.rounding import gamma
from maxmargin.core.stopping import RelativeGap
from maxmargin.core.vectors import Array, SparseVector, combine, norm
from maxmargin.data.design import BLOCK, CSRDesign, DenseDesign, Design, row_lengths
from maxmargin.estimators.chunks import chunked
from maxmargin.estimators.constraints import Labels, Numbers, Samples
from maxmargin.estimators.linear.problem import LinearModel
from maxmargin.estimators.validation import finite_scores, rows_for, scored
from maxmargin.losses import Logistic, Multinomial, OneVsRestSquaredHinge
from maxmargin.solvers.certificate import EQUAL
from maxmargin.solvers.row_ascent import RowsDual, ShardsDual

#: largest entry of a difference in half precision; factor for the rounding of norms
LARGEST, NORMS = 6e4, 1.0 + 1e-9
#: the relative gap of the first round, and limits for the ratio of that of the next one
FIRST, FALLS = 1e-2, (1.0 / 30.0, 0.5)

Interval = tuple[Array, Array]


class Proof(NamedTuple):
    """The center and radius of the ball, relative to the weights of the model.

    The center is as long as the weights. It is stored as its difference from them, in half precision: a
    quarter of their memory. What this rounds is added to the radius.
    """

    difference: npt.NDArray[np.float16]
    #: the value of one unit of the difference
    unit: float
    intercept: Array
    #: one per row of ``coef_``, or a single one of all of them
    radius: Array
    #: the constant feature
    constant: float
    #: with unpenalized intercepts: the sample at which they are bounded, else empty; and how far the
    #: differences of two scores there may be from those of the center, for each pair of classes
    middle: npt.NDArray[np.float32]
    loose: Array


def prove(
    model: LinearModel,
    design: Design,
    results: list[SolveResult],
    C: float,
    fitted: dict[str, Array],
) -> Proof | None:
    """The ball of a fit with these attributes; None if its certificate gives none."""
    columns, radii, centers = model.loss.n_outputs(), [], []
    free = bool(len(model.weights[0].norm.free))
    for own, result in zip(model.weights, results, strict=True):
        ball = _ball(result, own.norm, C)
        if ball is None or (free and not _bounds_intercepts(model, design)):
            return None
        step, rest = ball
        squares = np.array([step @ step])
        if isinstance(model.loss, OneVsRestSquaredHinge):
            squares = np.square(step.reshape(-1, columns or 1)).sum(axis=0)
        stretch = 1.0 if own.map is None else own.map.norm
        radii.append(stretch * np.sqrt(0.25 * squares + rest))
        centers.append(result.w + 0.5 * step)
    center, radius = model.attributes(centers), np.concatenate(radii)
    coef = np.atleast_2d(fitted["coef_"])
    if columns == 2 and len(coef) == 1:  # the difference of two columns
        radius *= np.sqrt(2.0)
    shift = np.atleast_2d(center["coef_"]) - coef
    unit = float(np.abs(shift).max(initial=0.0)) / LARGEST or 1.0
    half = (shift / unit).astype(np.float16)
    lost = np.linalg.norm(shift - unit * half, axis=1)
    radius += np.linalg.norm(lost) if len(radius) < len(lost) else lost
    bias, radius = center["intercept_"] - fitted["intercept_"], NORMS * radius
    middle, loose = np.zeros(0, np.float32), np.zeros((1, 1))
    if free:
        far = float(radius[0] + 0.5 * np.linalg.norm(step))
        middle, loose = _intercepts(model, design, results[0], far, C)
        bias -= (unit * half) @ middle
    return Proof(half, unit, bias, radius, model.intercept, middle, loose)


def _bounds_intercepts(model: LinearModel, design: Design) -> bool:
    """Whether unpenalized intercepts can be bounded: those of logistic losses, from samples in memory."""
    logistic = isinstance(model.loss, Logistic | Multinomial) and len(model.targets) == 1
    here = isinstance(design, DenseDesign | CSRDesign)
    return logistic and here and model.weights[0].map is None


def _intercepts(
    model: LinearModel, design: Design, result: SolveResult, far: float, C: float
) -> tuple[npt.NDArray[np.float32], Array]:
    """``middle`` and ``loose`` of a proof, if the weights of the optimum are at most ``far`` from w.

    With the probabilities p of the samples at w, and p* at the optimum, F(w) - F* is at least
    C sum_i s_i KL(p*_i, p_i). If the log odds of two classes in sample i change by z_i, KL is at least
    h_i (1 - exp(-|z_i| / 2))^2, where h_i is the product of their probabilities: the squared Hellinger
    distance to the nearest such p*. So the smallest |z_i| is bounded, and with the norms of the samples all
    of them are, by S. Then KL is at least h_i (kappa z_i / 2)^2, kappa = (1 - exp(-S / 2)) / (S / 2), and by
    Jensen's inequality the mean of z_i with the weights s_i h_i, which is the change at the mean of the
    samples, is at most 2 / kappa sqrt((F(w) - F*) / (C sum_i s_i h_i)).
    """
    n, d, k = design.shape[0], model.n_features, model.loss.n_outputs()
    W, weight = result.w.reshape(d + 1, -1), np.asarray(model.sample_weights[0][:], np.float64)
    lengths, total = np.broadcast_to(row_lengths(design, 0, n), n), np.zeros(d)  # type: ignore[arg-type]
    if k is None:
        p = expit(design.dot(W[:d, 0].copy(), 0, n) + W[d])
        h = weight * p * (1.0 - p)
        design.accumulate(h, 0, n, total)
        mean, shares = total / max(h.sum(), 1e-300), h.sum(keepdims=True)[None]
        middle = mean.astype(np.float32)
        off = np.array([[np.linalg.norm(mean - middle)]])
    else:
        design.accumulate(weight, 0, n, total)
        middle, shares, off = (
            (total / weight.sum()).astype(np.float32),
            np.zeros((k, k)),
            np.zeros((k, k)),
        )
        away = _distances(design, lengths, middle)
        for lo in range(0, n, BLOCK):
            here = slice(lo, min(n, lo + BLOCK))
            P = softmax(design.dot(W[:d], lo, here.stop) + W[d], axis=1)
            V = weight[here, None] * P
            shares += V.T @ P
            off += (away[here, None] * V).T @ P
        far *= np.sqrt(2.0)
    gap = max(0.0, result.objective - result.lower_bound) + EQUAL * abs(result.objective)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = off / shares if k else off
        q = np.sqrt(gap / (C * shares))
        S = 2.0 * far * lengths.max() - 2.0 * np.log1p(-np.minimum(q, 1.0)) + 1e-300
        loose = np.nan_to_num(-q * S / np.expm1(-0.5 * S) + far * off, nan=np.inf, posinf=np.inf)
    if k:
        np.fill_diagonal(loose, 0.0)
    return middle, NORMS * loose


def _distances(design: Design, lengths: Array, middle: npt.NDArray[np.float32]) -> Array:
    """The distances of samples with these norms from another one, up to rounding not too small."""
    c, n = middle.astype(np.float64), design.shape[0]
    size = float(np.linalg.norm(c))
    square = lengths**2 - 2.0 * design.dot(c, 0, n) + size**2
    out: Array = np.sqrt(np.maximum(square, 0.0) + 1e-12 * (lengths + size) ** 2)
    return out


def _ball(result: SolveResult, omega: SquaredNorm, C: float) -> tuple[Array, float] | None:
    """u - w, and s: the ball around (w + u) / 2 has radius^2 = 1/4 |u - w|^2 + s."""
    w, upper, lower = result.w, result.objective, result.lower_bound
    if result.certificate != "exact" or not np.isfinite(upper - lower):
        return None
    slack = EQUAL * abs(upper)
    step, rest = np.zeros_like(w), 2.0 * (max(0.0, upper - lower) + slack)
    cut = _cut(result.proof, len(w), C)
    if cut is None:
        return step, rest
    u = -(cut.plane.to_dense() if isinstance(cut.plane, SparseVector) else cut.plane)
    p, t = omega.primal(u), 1.0
    bend, rest_of_free = omega.conjugate(u, p), float(np.abs(u[omega.free]).sum())
    if omega.floor is None and bend > 0.0:  # the best multiple of the cut
        t = min(1.0, max(0.0, 0.5 * cut.offset / bend))
    lost = cut.error * (1.0 + omega.radius(upper)) + slack
    if rest_of_free > 0.0:
        lost += rest_of_free * omega.free_limit(upper)
    other = omega.penalized(t * p - w)
    square = float(other @ other)
    s = max(upper - t * cut.offset + t * t * bend + lost - 0.5 * square, lost)
    return (other, s) if 0.25 * square + s < rest else (step, rest)


def _cut(dual: Any, dim: int, C: float) -> Cut | None:
    """The cut of C R that gives the lower bound of a dual point."""
    if isinstance(dual, DualPoint) and len(dual.planes):
        a, offset = dual.alpha, dual.base + float(dual.offsets @ dual.alpha)
        sizes = float(sum(alpha * norm(own) for alpha, own in zip(a, dual.planes, strict=True)))
        error = dual.error + gamma(len(a)) * (sizes + float(np.abs(dual.offsets) @ a))
        return Cut(offset, combine(a, dual.planes, dim), error)
    if isinstance(dual, ShardsDual):
        dual = dual.plane
    cut = dual.duals.aggregate() if isinstance(dual, RowsDual) else getattr(dual, "cut", None)
    if not isinstance(cut, Cut):
        return None
    plane = cut.plane.to_dense() if isinstance(cut.plane, SparseVector) else cut.plane
    return Cut(C * cut.offset, C * plane, C * cut.error)


class ProvenScores:
    """What the certificate of a fit says about the scores of the exact optimum."""

    coef_: Array
    intercept_: Array
    _proof: Proof | None

    def decision_interval(self, X: Samples) -> Interval:
        """Return bounds of the scores that the exact optimum of the objective has.

        They follow from the certificate of the fit, and hold for any samples: see the user guide, "What a
        certificate says about predictions". The smaller ``gap_``, the narrower they are.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).

        Returns
        -------
        lower, upper : arrays of the shape of the scores
            The scores are those of ``decision_function``, or the predictions of a regression.

        Raises
        ------
        ValueError
            The fit has no bound of the optimal weights: see the guide.
        """
        both: Array = self._interval(X)
        return both[:, 0], both[:, 1]

    @chunked
    def _interval(self, X: Samples, *, out: Any = None) -> Array:
        s, reach, _, loose = self._center_scores(X)
        reach = reach + loose.mean(axis=1)  # scores of all classes add up to zero
        both = np.stack([s - reach, s + reach], axis=1)
        if not hasattr(self, "classes_"):  # several quantiles are in ascending order
            both.sort(axis=2)
        return both if self.coef_.ndim == 2 and len(self.coef_) > 1 else both[:, :, 0]

    def _center_scores(self, X: Samples) -> tuple[Array, Array, Array, Array]:
        """Scores of the center, how far those of the optimum may be from them, what of that is due to
        rounding, and how much further their differences may be because of unpenalized intercepts."""
        check_is_fitted(self, "coef_")
        proof = self._proof_or_refusal()
        design = rows_for(self, X)
        n, lengths = design.shape[0], row_lengths(design, 0, design.shape[0])
        if lengths is None:
            raise TypeError(
                f"{type(design).__name__} does not know the norms of its samples: add an attribute "
                "largest_square."
            )
        W = np.atleast_2d(self.coef_) + proof.unit * proof.difference
        bias = self.intercept_ + proof.intercept
        s = finite_scores(design.dot(np.ascontiguousarray(W.T), 0, n) + bias)
        long = np.hypot(np.broadcast_to(lengths, n), proof.constant)
        rounding = (
            2.0
            * gamma(design.shape[1] + 1)
            * (long[:, None] * np.linalg.norm(W, axis=1) + np.abs(bias) + np.abs(proof.intercept))
        )
        if len(proof.middle):
            long = _distances(design, np.broadcast_to(lengths, n), proof.middle)
        reach = NORMS * long[:, None] * proof.radius + rounding
        return s, reach, rounding, np.broadcast_to(proof.loose, (len(W), len(W)))

    def _proof_or_refusal(self) -> Proof:
        proof, estimator = getattr(self, "_proof", None), cast("Any", self)
        if proof is not None:
            return proof
        why = "its fit was interrupted, or it is from a file of an earlier version. Fit it again"
        if hasattr(self, "_streams"):
            why = "partial_fit has no bound of the optimum. Use fit"
        elif estimator.fit_intercept and not estimator.penalize_intercept:
            why = (
                "its intercept is not penalized, and then only the logistic losses of two classes, or of "
                "several in one problem, on data in memory and without priors, have a bound. Use "
                "penalize_intercept=True (of LinearSVC)"
            )
        raise ValueError(f"this {type(self).__name__} proves no predictions: {why}.")


class ProvenClasses(ProvenScores):
    """What the certificate of a fit says about the classes that the exact optimum predicts."""

    classes_: npt.NDArray[Any]

    @chunked
    def proven(self, X: Samples, *, out: Any = None) -> npt.NDArray[np.bool_]:
        """Return which predictions are proven to be those of the exact optimum of the objective.

        No further optimization can change them. They may still be wrong.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        out : path, optional
            File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow
            with the samples if they are a data set on disk.

        Returns
        -------
        array of bool of shape (n_samples,)
            True where the class that ``predict`` returns is proven.

        Raises
        ------
        ValueError
            The fit has no bound of the optimal weights: see the user guide, "What a certificate says about
            predictions".

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from maxmargin import LinearSVC
        >>> X, y = load_digits(return_X_y=True)
        >>> svc = LinearSVC(C=1e-4, tol=1e-4).fit(X[:900], y[:900])
        >>> bool(svc.proven(X[900:]).mean() > 0.9)
        True
        """
        codes = self._optimal_codes(X)
        estimator: Any = self
        same: npt.NDArray[np.bool_] = estimator.predict(X) == self.classes_[codes]
        return same & (codes >= 0)

    def accuracy_interval(
        self, X: Samples, y: Labels = None, sample_weight: Numbers = None
    ) -> tuple[float, float]:
        """Return bounds of the accuracy that the exact optimum of the objective has on a test set.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        y : array of shape (n_samples,)
            True labels. Omit them for a data set, which contains its own.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. By default those of the data set, if ``X`` is one, else 1.

        Returns
        -------
        lower, upper : float
            The lower one counts the samples whose class is proven and right, the upper one all but those
            whose class is proven and wrong.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from maxmargin import LinearSVC
        >>> X, y = load_digits(return_X_y=True)
        >>> svc = LinearSVC(C=1e-4, tol=1e-6).fit(X[:900], y[:900])
        >>> lower, upper = svc.accuracy_interval(X[900:], y[900:])
        >>> bool(lower <= svc.score(X[900:], y[900:]) <= upper <= lower + 0.02)
        True
        """
        y, weights = scored(X, y, sample_weight)
        codes = self._optimal_codes(X)
        right = self.classes_[codes] == np.asarray(y)
        lower = np.average(right & (codes >= 0), weights=weights)
        return float(lower), float(np.average(right | (codes < 0), weights=weights))

    def _optimal_codes(self, X: Samples) -> npt.NDArray[np.int64]:
        """The class that the optimum predicts, as an index; -1 where that is not proven."""
        top, lead = self._leads(X).T
        return np.where(lead > 1.0, top, -1.0).astype(np.int64)

    @chunked
    def _leads(self, X: Samples, *, out: Any = None) -> Array:
        """The class with the largest score at the center, and how far its lead over all others is above what
        the optimum may take away, as a ratio: it is proven if that is above 1."""
        s, reach, rounding, loose = self._center_scores(X)
        joint = len(self._proof_or_refusal().radius) == 1 < s.shape[1]
        if s.shape[1] == 1:  # the other class has score 0
            s, reach, rounding = (np.hstack([0.0 * a, a]) for a in (s, reach, rounding))
        top = s.argmax(axis=1)[:, None]
        leader = lambda a: np.take_along_axis(a, top, axis=1)  # noqa: E731
        need = reach + leader(reach)
        if joint:  # two scores of weights in the same ball
            need = np.sqrt(2.0) * (reach - rounding) + rounding + leader(rounding)
        need = need + (loose[top[:, 0]] if len(loose) > 1 else loose)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.nan_to_num((leader(s) - s) / need, nan=0.0)
        np.put_along_axis(ratio, top, np.inf, axis=1)
        return np.hstack([top, ratio.min(axis=1, keepdims=True)])


class ProvenRounds:
    """The rounds of a fit with the stopping rule ProvenPredictions, each with a smaller relative gap."""

    def __init__(self, estimator: Any) -> None:
        if not isinstance(estimator, ProvenClasses):
            estimator.tol.met(None)
        if getattr(estimator, "checkpoint", None) is not None:
            raise ValueError(
                "tol=ProvenPredictions(...) fits in rounds and writes no checkpoints: use a relative gap, "
                "such as tol=1e-3."
            )
        self.estimator, self.stopping = estimator, RelativeGap(FIRST)
        self._history: list[dict[str, Any]] = []
        self._n_iter, self.elapsed = 0, 0.0

    def go_on(self, elapsed: float) -> bool:
        """Whether another round is needed, after so many seconds; then ``stopping`` is its rule."""
        estimator, self.elapsed = self.estimator, elapsed
        self._history += estimator.history_
        self._n_iter += int(vars(estimator)["n_iter_"])
        estimator.history_, estimator.n_iter_ = self._history, self._n_iter
        if estimator.stop_reason_ != "gap" or not estimator.converged_:
            return False
        rule = estimator.tol
        if estimator.proven(rule.X).mean() >= rule.share:
            return False
        # the radius must fall until the sample with this rank is proven; its lead is not known to less
        lead = np.quantile(estimator._leads(rule.X)[:, 1], 1.0 - rule.share, method="lower")
        wanted = estimator.gap_ * min(FALLS[1], max(FALLS[0], 0.7 * float(lead) ** 2))
        if wanted <= EQUAL:
            estimator.converged_, estimator.stop_reason_ = False, "rounding"
            estimator._ended = [("rounding", False)]
            return False
        self.stopping = RelativeGap(wanted)
        return True
