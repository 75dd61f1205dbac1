"""From the parameters of an estimator and validated data to the problems that a solver minimizes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.data.columns import Column, LazyColumn, Weighted, chunks, totals
from maxmargin.data.design import DenseRows
from maxmargin.duals.quasi_newton import MOST_FEATURES
from maxmargin.estimators.validation import Classes, Training
from maxmargin.estimators.weights import Weighing, free_bound, given_weight_parameters, weigh
from maxmargin.losses import (
    CrammerSinger,
    DualTerms,
    Hinge,
    Logistic,
    Multinomial,
    OneVsRestSquaredHinge,
    ScoreLoss,
    SquaredHinge,
)

#: losses of one score, by name
LOSSES: dict[str, type[ScoreLoss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
}
KINDS = ("crammer_singer", "multinomial", "ovr")
#: a common part of intercepts that is rounding
COMMON = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """The problem of a linear estimator, from its parameters and the data.

    One target is one problem; one-vs-rest has a target per class. Regression has no classes, and its
    ``coef_`` has one dimension, as in scikit-learn, unless there are several quantiles.
    """

    loss: ScoreLoss
    targets: tuple[Any, ...]
    #: weights of the samples in each problem
    sample_weights: tuple[Column, ...]
    intercept: float
    n_features: int
    n_classes: int
    regularizer: SquaredNorm
    #: how the weights of each problem are learned
    weights: tuple[Weighing, ...]
    #: weights of a constant prediction without any loss, if there is one: F there is 0, which is optimal
    constant: Array | None = None
    #: the loss of each problem, if these differ
    losses: tuple[ScoreLoss, ...] = ()

    def loss_of(self, k: int) -> ScoreLoss:
        """The loss of a problem."""
        return self.losses[k] if self.losses else self.loss

    def attributes(self, ws: list[Array]) -> dict[str, Any]:
        """coef_ and intercept_ from the flat weights of the problems."""
        pairs = zip(self.weights, ws, strict=True)
        W = np.concatenate([own.whole(w).reshape(self._height, -1) for own, w in pairs], axis=1)
        coef = W[: self.n_features].T
        bias = self.intercept * W[-1] if self.intercept != 0.0 else np.zeros(W.shape[1])
        if W.shape[1] == 2 and self.n_classes == 2:  # two classes with a cost matrix
            coef, bias = coef[1:] - coef[:1], bias[1:] - bias[:1]
        if not self.n_classes and len(ws) == 1:
            coef = coef[0]
        return {"coef_": np.ascontiguousarray(coef), "intercept_": np.array(bias)}

    @property
    def returned(self) -> Callable[[Array], Array] | None:
        """The flat weights that the attributes stand for; None if these are all weights.

        For two classes with a cost matrix only the difference of the two columns is stored. A common part of
        them, which rounding leaves, would count in the objective and not in the model. For several classes,
        a common part of unpenalized intercepts is arbitrary: it is removed.
        """
        columns = self.loss.n_outputs()
        if self.n_classes == 2 and columns == 2:
            return _differing
        if columns is None or not len(self.weights[0].norm.free):
            return None
        return partial(_centered, columns)

    def flatten(self, coef: Array, bias: Array) -> list[Array] | None:
        """The flat weights of fitted attributes, in the solvers' variables; None if the shapes differ."""
        columns, coef = (self.loss.n_outputs() or 1) * len(self.targets), np.atleast_2d(coef)
        if coef.shape != (columns, self.n_features):
            return None
        parts = [coef.T]
        if self.intercept != 0.0:
            parts.append(bias[None] / self.intercept)
        W = np.concatenate(parts)
        flat = [W.ravel()]
        if len(self.targets) > 1:
            flat = [np.ascontiguousarray(W[:, k]) for k in range(columns)]
        return [own.learned(w) for own, w in zip(self.weights, flat, strict=True)]

    @property
    def _height(self) -> int:
        return self.n_features + int(self.intercept != 0.0)


def _differing(w: Array) -> Array:
    """The weights of two columns without their common part."""
    half = 0.5 * (w[1::2] - w[::2])
    return np.column_stack([-half, half]).ravel()


def _centered(columns: int, w: Array) -> Array:
    """The weights with intercepts whose sum is zero, up to rounding."""
    common = w[-columns:].mean()
    if abs(common) <= COMMON * np.abs(w[-columns:]).max():
        return w
    w = w.copy()
    w[-columns:] -= common
    return w


def linear_model(
    estimator: Any, data: Training, classes: Classes, *, together: bool = False
) -> LinearModel:
    """Validate the parameters for the data. ``together``: make one problem of the problems of one-vs-rest
    where that is faster."""
    loss, targets = _loss(estimator, classes)
    factors = _factors_by_target(estimator.class_weight, classes, len(targets))
    if (
        together
        and len(targets) > 1
        and estimator.solver == "auto"
        and np.isfinite(factors).all()
        and (factors >= 0.0).all()
        and _gains(estimator, loss, data)
    ):
        assert isinstance(loss, SquaredHinge)
        loss = OneVsRestSquaredHinge(len(targets), loss.margin, np.diag(factors))
        factors, targets = np.ones((1, len(classes.names))), (classes.codes,)
    sample_weights = _sample_weights(data.weight, factors, classes.codes)
    intercept = intercept_feature(estimator)
    own = loss.dual_terms(np.asarray(targets[0][:1]))
    largest_demand = 1.0 if own is None else own.largest_demand
    regularizer = SquaredNorm()
    if intercept != 0.0 and not estimator.penalize_intercept:
        by_class = factors * _class_weights(data.weight, classes)
        _require_every_class(by_class, classes)
        if isinstance(loss, Logistic | Multinomial):
            largest_demand = _log_odds(by_class, loss)
        total = estimator.C * float(by_class.sum(axis=1).max())
        largest = data.largest_norm()
        regularizer = free_intercepts(total, data.n_features, largest, loss, largest_demand)
    return LinearModel(
        loss,
        targets,
        sample_weights,
        intercept,
        data.n_features,
        len(classes.names),
        regularizer,
        weighings(
            estimator, data, targets, sample_weights, loss, intercept, regularizer, largest_demand
        ),
    )


def _factors_by_target(class_weight: Any, classes: Classes, n_targets: int) -> Array:
    """The factor of each class (columns) in each problem (rows).

    One-vs-rest: in the problem of a class only its own samples are multiplied, and the rest is not, as in
    LIBLINEAR.
    """
    factors = np.ones(len(classes.names))
    if class_weight is not None:
        factors = class_factors(class_weight, classes)
    if n_targets == 1:
        return factors[None]
    return np.where(np.eye(n_targets, dtype=bool), factors, 1.0)


def _sample_weights(weight: Column, factors: Array, codes: Column) -> tuple[Column, ...]:
    """The weights of the samples in each problem."""
    if (factors == 1.0).all():
        return (require_positive_weight(weight),) * len(factors)
    lazy = isinstance(weight, LazyColumn) or isinstance(codes, LazyColumn)
    return tuple(
        require_positive_weight(Weighted(weight, own, codes) if lazy else weight * own[codes])
        for own in factors
    )


def require_positive_weight(weight: Column) -> Column:
    """The weights, which must not all be zero."""
    if not any(np.any(weight[lo:hi]) for lo, hi in chunks(len(weight))):
        raise ValueError("all sample weights are zero: there is nothing to learn from.")
    return weight


def class_factors(class_weight: Any, classes: Classes) -> Array:
    """scikit-learn's class weights, from the number of samples of each class."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        factors: Array = classes.counts.sum() / (len(classes.names) * classes.counts)
        return factors
    named: Array = compute_class_weight(class_weight, classes=classes.names, y=classes.names)
    return named


def _loss(estimator: Any, classes: Classes) -> tuple[ScoreLoss, tuple[Any, ...]]:
    kind, codes = estimator.multi_class, classes.codes
    n_classes = len(classes.names)
    binary = score_loss(estimator.loss)
    name = estimator.loss if isinstance(estimator.loss, str) else repr(binary)
    if estimator.cost is not None and kind != "crammer_singer":
        raise ValueError(
            "cost requires multi_class='crammer_singer', the loss of which it is part."
        )
    if kind == "crammer_singer":
        if name not in ("hinge", "squared_hinge"):
            raise ValueError(
                "multi_class='crammer_singer' is a loss of its own: leave out loss= (or use 'hinge'), or use "
                f"multi_class='ovr' with loss={estimator.loss!r}."
            )
        if estimator.cost is not None:
            return CrammerSinger(_cost(estimator.cost, classes.names)), (codes,)
        return CrammerSinger(1.0 - np.eye(n_classes)), (codes,)
    if kind == "multinomial" and not is_logistic(estimator.loss):
        raise ValueError(
            f"multi_class='multinomial' requires loss='logistic', not loss={estimator.loss!r}."
        )
    if n_classes > 2 and kind == "multinomial":
        return Multinomial(n_classes), (codes,)
    positive = [1] if n_classes == 2 else range(n_classes)
    return binary, tuple(classes.signs(k) for k in positive)


def _gains(estimator: Any, loss: ScoreLoss, data: Training) -> bool:
    """Whether the classes of one-vs-rest are trained faster as one problem."""
    dense = isinstance(data.design, DenseRows) and data.n_features <= MOST_FEATURES
    free = estimator.fit_intercept and not getattr(estimator, "penalize_intercept", True)
    return type(loss) is SquaredHinge and dense and not free


def is_logistic(loss: Any) -> bool:
    """Whether this parameter is the logistic loss, so that scores are log odds."""
    return (isinstance(loss, str) and loss == "logistic") or type(loss) is Logistic


def is_multinomial(estimator: Any) -> bool:
    """Whether an estimator with the logistic loss trains several classes together."""
    return bool(estimator.multi_class == "multinomial")


def score_loss(given: Any) -> ScoreLoss:
    """The loss for a string or an object: one score per sample, labels -1 and +1."""
    if isinstance(given, str) and given in LOSSES:
        return LOSSES[given]()
    why = _reason_to_refuse(given)
    if why is not None:
        raise ValueError(f"loss={given!r} cannot train a classifier: {why}.")
    return deepcopy(given)  # set_params must not change the loss of a stream or of a fitted model


def _reason_to_refuse(loss: ScoreLoss) -> str | None:
    """Why a loss is not a sum over samples of one score and a sign; None if it is."""
    if loss.n_outputs() is not None:
        return f"it has {loss.n_outputs()} scores per sample, and must have one"
    if not loss.decomposable:
        return "it is not a sum over samples; use MeasureSVC for non-decomposable metrics"
    if loss.label_kind != "sign":
        return (
            f"its label_kind is {loss.label_kind!r}, and must be 'sign': set "
            'label_kind = "sign" if it takes labels -1 and +1'
        )
    return None


def _cost(cost: Any, classes: Any) -> Array:
    matrix: Array = np.asarray(cost, dtype=np.float64)
    if matrix.shape != (len(classes), len(classes)):
        raise ValueError(
            f"cost has shape {matrix.shape}, but there are {len(classes)} classes: give a "
            f"({len(classes)}, {len(classes)}) matrix in the order of classes_ = {classes}."
        )
    return matrix


def intercept_feature(estimator: Any) -> float:
    if not estimator.fit_intercept:
        return 0.0
    if not getattr(estimator, "penalize_intercept", True):
        return 1.0  # the scale has no effect on an unpenalized intercept
    return float(estimator.intercept_scaling)


def _class_weights(weight: Column, classes: Classes) -> Array:
    """The total weight of the samples of each class."""
    return totals(classes.codes, weight, len(classes.names))


def _require_every_class(by_class: Array, classes: Classes) -> None:
    """Raise ValueError if a class has no weight, because its unpenalized intercept would be infinite."""
    if (by_class == 0.0).any():
        missing = classes.names[np.flatnonzero((by_class == 0.0).any(axis=0))[0]]
        raise ValueError(
            f"class {missing!r} has no weight, so an unpenalized intercept would be infinite. Remove the "
            "class or use penalize_intercept=True."
        )


def _log_odds(by_class: Array, loss: ScoreLoss) -> float:
    """The largest log odds of two classes, or of a class and all others; ``by_class`` has a row a problem."""
    if loss.n_outputs() is not None:
        return float(np.log(by_class.max() / by_class.min()))
    own = np.diag(by_class) if len(by_class) > 1 else by_class[0]
    return float(np.abs(np.log(own / (by_class.sum(axis=1) - own))).max())


def free_intercepts(
    total: float, d: int, largest: float, loss: ScoreLoss, largest_demand: float = 1.0
) -> SquaredNorm:
    """The norm of ``d`` features without the intercepts, with a bound of the optimal intercepts.

    ``total`` is C times the sum of all weights, ``largest`` the norm of the longest sample,
    ``largest_demand`` the required margin or the largest cost.

    At the optimum |w| <= W = sqrt(2 F) for any attained F, at first C R(0), so scores without intercept
    differ by at most S = W max|x| (binary) or sqrt(2) W max|x| (K classes). Suppose the intercepts of two
    groups of classes were further apart than the largest cost plus S. Then every sample of the lower group
    would be misclassified as the upper one and none the other way round, and moving the intercepts together
    would lower the risk. So sorted intercepts are at most that far apart. (One score per sample: a sample
    with at least the margin that the loss requires costs nothing, so the intercept is at most that margin +
    S.)

    Logistic losses: at the optimum, the mean probability of a class is its share of the weights. So the
    difference of two intercepts is within S of the log odds of their classes. ``largest_demand`` is the
    largest of these.
    """
    k = loss.n_outputs()
    if isinstance(loss, Logistic | Multinomial):
        first = total * float(np.log(k or 2))
        if k is None:
            return SquaredNorm().with_free(np.array([d]), largest_demand, largest, first)
        near, growth = 0.5 * largest_demand, float(np.sqrt(0.5)) * largest
        return SquaredNorm().with_free(np.arange(d * k, (d + 1) * k), near, growth, first)
    if k is None:
        terms = loss.dual_terms(np.ones(1))
        if not isinstance(terms, DualTerms) or terms.two_sided:
            raise ValueError(
                f"penalize_intercept=False requires the margin from which on a sample costs nothing under "
                f"{loss!r}: implement dual_terms(y), or use penalize_intercept=True with a large "
                "intercept_scaling."
            )
        first = total * float(terms.loss(largest_demand))
        return SquaredNorm().with_free(np.array([d]), largest_demand, largest, first)
    near, growth = 0.5 * (k - 1) * largest_demand, (k - 1) * float(np.sqrt(0.5)) * largest
    free = np.arange(d * k, (d + 1) * k)
    return SquaredNorm().with_free(free, near, growth, total * largest_demand)


def weighings(
    estimator: Any,
    data: Training,
    targets: tuple[object, ...],
    sample_weights: tuple[Column, ...],
    loss: ScoreLoss,
    intercept: float,
    regularizer: SquaredNorm,
    largest_demand: float,
) -> tuple[Weighing, ...]:
    """How the weights of each problem are learned: with the norm, a prior, fixed weights or signs."""
    asked = given_weight_parameters(estimator)
    if not asked:
        return (Weighing(regularizer),) * len(targets)
    outputs = loss.n_outputs()
    if outputs == 2:
        raise ValueError(
            f"{asked[0]} requires one weight per feature, but multi_class='crammer_singer' has two for two "
            "classes. Use multi_class='ovr', and class_weight instead of cost."
        )
    names = getattr(estimator, "feature_names_in_", None)
    several = len(targets) > 1
    out = []
    for k, target in enumerate(targets):
        own = weigh(
            estimator, data.n_features, names, columns=len(targets) if several else outputs or 1,
            intercept=intercept, column=k if several else None,
        )  # fmt: skip
        if len(regularizer.free):
            bound = free_bound(
                estimator.C,
                data.design,
                target,
                sample_weights[k],
                loss,
                intercept,
                own,
                largest_demand,
            )
            own = own.with_free(regularizer.free, *bound)
        out.append(own)
    return tuple(out)
