"""From the parameters of a regression and validated data to the problem that a solver minimizes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.core.checks import nonnegative
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.data.columns import Column, LazyColumn, chunks
from maxmargin.estimators.constraints import Constraint, number
from maxmargin.estimators.linear.problem import (
    LinearModel,
    intercept_feature,
    require_positive_weight,
    weighings,
)
from maxmargin.estimators.scores import is_quantile
from maxmargin.estimators.validation import Training
from maxmargin.estimators.weights import given_weight_parameters
from maxmargin.losses import (
    DualTerms,
    EpsilonInsensitive,
    Quantile,
    ScoreLoss,
    SquaredEpsilonInsensitive,
)

#: losses of one score and a target, by name
LOSSES: dict[str, Callable[[float], ScoreLoss]] = {
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "quantile": Quantile,
}
QUANTILE = number("a number between 0 and 1", lambda value: 0 < value < 1)
QUANTILES = QUANTILE | Constraint(
    ("an ascending list of such numbers",),
    lambda value: (
        isinstance(value, list | tuple | np.ndarray)
        and len(value) > 0
        and all(map(QUANTILE.allows, value))
        and all(low < high for low, high in pairwise(value))
    ),
)


def regression_model(estimator: Any, data: Training, epsilon: Array | None) -> LinearModel:
    """Validate the parameters for the data. ``epsilon`` is the one of each sample.

    Several quantiles are as many problems with the same data.
    """
    quantiles = np.ravel(estimator.quantile)
    models = [_regression_model(estimator, data, epsilon, float(q)) for q in quantiles]
    if len(models) == 1 or not is_quantile(estimator.loss):
        return models[0]
    return replace(
        models[0],
        targets=models[0].targets * len(models),
        sample_weights=models[0].sample_weights * len(models),
        weights=tuple(model.weights[0] for model in models),
        losses=tuple(model.loss for model in models),
    )


def _regression_model(
    estimator: Any, data: Training, epsilon: Array | None, quantile: float
) -> LinearModel:
    loss = target_loss(estimator.loss, estimator.epsilon, quantile)
    if epsilon is not None and (is_quantile(estimator.loss) or not isinstance(estimator.loss, str)):
        raise TypeError(
            f"sample_epsilon replaces epsilon, which loss={estimator.loss!r} does not have. Pass a loss by "
            "name."
        )
    weight, y = require_positive_weight(data.weight), epsilon_targets(data.y, epsilon)
    intercept = intercept_feature(estimator)
    regularizer, largest_demand, constant = SquaredNorm(), 0.0, None
    if intercept != 0.0 and not estimator.penalize_intercept:
        regularizer, largest_demand = _free_intercept(estimator.C, data, loss, y, weight)
        if not given_weight_parameters(estimator):
            constant = _constant(data, loss, y, weight)
    weights = weighings(
        estimator, data, (y,), (weight,), loss, intercept, regularizer, largest_demand
    )
    d = data.n_features
    return LinearModel(loss, (y,), (weight,), intercept, d, 0, regularizer, weights, constant)


def check_epsilon(epsilon: Any, n: int) -> Array | None:
    """Validate one finite number per sample, not negative; None if none were given."""
    return None if epsilon is None else nonnegative("sample_epsilon", epsilon, (n,))


def epsilon_targets(y: Column, epsilon: Array | None) -> Column:
    """Targets of a regression in the form of its loss, with an epsilon per sample if there is one."""
    if isinstance(y, LazyColumn):
        return LazyColumn(len(y), partial(_epsilon_targets, y, epsilon))
    return _epsilon_targets(y, epsilon, 0, len(y))


def _epsilon_targets(y: Column, epsilon: Array | None, lo: int, hi: int) -> Array:
    target = np.asarray(y[lo:hi], dtype=np.float64)
    return target if epsilon is None else np.column_stack([target, epsilon[lo:hi]])


def target_loss(given: Any, epsilon: float, quantile: float) -> ScoreLoss:
    """The loss for a string or an object: one score per sample, and a target."""
    if is_quantile(given):
        if epsilon != 0.0:
            raise ValueError(f"loss='quantile' has no epsilon, so epsilon={epsilon!r} must be 0.")
        return LOSSES[given](quantile)
    if isinstance(given, str) and given in LOSSES:
        return LOSSES[given](epsilon)
    if given.label_kind != "target" or given.n_outputs() is not None or not given.decomposable:
        raise ValueError(
            f"loss={given!r} cannot train a regression: it must be a sum over samples of a function of one "
            'score and a target (label_kind = "target").'
        )
    return deepcopy(given)  # set_params must not change the loss of a stream or of a fitted model


def _targets(loss: ScoreLoss, y: Column) -> DualTerms:
    """The terms of a loss that has its minimum at the targets."""
    terms = loss.dual_terms(np.asarray(y))
    if not isinstance(terms, DualTerms) or not terms.two_sided:
        raise ValueError(
            f"penalize_intercept=False requires a bound of the intercept, from dual_terms(y) of {loss!r} "
            "with two_sided=True: implement it, or use penalize_intercept=True with a large "
            "intercept_scaling."
        )
    return terms


def _constant(data: Training, loss: ScoreLoss, y: Column, weight: Column) -> Array | None:
    """The weights of an intercept within epsilon of all targets: the middle of those, None if there is none.

    Solvers approach such an optimum from outside, and F = 0 is not attained on the way.
    """
    lowest, highest = -np.inf, np.inf
    for lo, hi in chunks(data.n):
        terms = _targets(loss, y[lo:hi])
        there = weight[lo:hi] > 0.0
        lowest = max(lowest, float((terms.labels - terms.margin)[there].max(initial=-np.inf)))
        highest = min(highest, float((terms.labels + terms.margin)[there].min(initial=np.inf)))
    if lowest > highest:
        return None
    return np.append(np.zeros(data.n_features), 0.5 * lowest + 0.5 * highest)


def _free_intercept(
    C: float, data: Training, loss: ScoreLoss, y: Column, weight: Column
) -> tuple[SquaredNorm, float]:
    """The norm without the intercept, with a bound of an optimal intercept; and the largest target.

    For any intercept b, F* <= F(0, b) = C R(0, b); so |w*| <= W = sqrt(2 C R(0, b)), where b is the mean.
    Residuals are y_i - <w*, x_i> - b: an intercept above all y_i - <w*, x_i> can be lowered to the largest
    of them without increasing the loss, and one below all can be raised. So there is an optimal intercept
    with |b| <= max|y| + W max|x|.
    """
    total = mean = largest_demand = 0.0
    for lo, hi in chunks(data.n):
        s = weight[lo:hi]
        target = _targets(loss, y[lo:hi]).labels
        total += float(s.sum())
        mean += float(s @ target)
        largest_demand = max(largest_demand, float(np.abs(target[s > 0.0]).max(initial=0.0)))
    risk = sum(
        loss.value(np.full(hi - lo, mean / total), y[lo:hi], weight[lo:hi])
        for lo, hi in chunks(data.n)
    )
    free, longest = np.array([data.n_features]), float(data.largest_norm())
    return SquaredNorm().with_free(free, largest_demand, longest, C * float(risk)), largest_demand
