"""From the parameters of a regression and checked data to the problem that a solver minimises."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array
from maxmargin.data.columns import Column, chunks
from maxmargin.estimators.linear.problem import (
    LinearModel,
    intercept_feature,
    some_weight,
    weighings,
)
from maxmargin.estimators.margins import tube_targets
from maxmargin.estimators.validation import Training
from maxmargin.losses import (
    DualTerms,
    EpsilonInsensitive,
    ScoreLoss,
    SquaredEpsilonInsensitive,
)

#: losses of targets that have a name
LOSSES = {
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
}


def regression_model(estimator: Any, data: Training, margin: Array | None) -> LinearModel:
    """Check the parameters against the data; ``margin`` has the half width of each row's tube."""
    loss = target_loss(estimator.loss, estimator.epsilon)
    if margin is not None and not isinstance(estimator.loss, str):
        raise TypeError(
            f"sample_margin replaces epsilon, which loss={estimator.loss!r} does not have: use a loss by "
            "name."
        )
    weight, y = some_weight(data.weight), tube_targets(data.y, margin)
    intercept = intercept_feature(estimator)
    regularizer, reach = SquaredNorm(), 0.0
    if intercept != 0.0 and not estimator.penalize_intercept:
        regularizer, reach = _free_intercept(estimator.C, data, loss, y, weight)
    weights = weighings(estimator, data, (y,), weight, loss, intercept, regularizer, (None,), reach)
    return LinearModel(
        loss, (y,), weight, intercept, data.n_features, 0, regularizer, weights, (None,)
    )


def target_loss(given: Any, epsilon: float) -> ScoreLoss:
    """The loss of one score per row and a target that a name or an object stands for."""
    if isinstance(given, str) and given in LOSSES:
        return LOSSES[given](epsilon)
    if isinstance(given, type):
        raise TypeError(
            f"loss={given.__name__} is a class, not an object: use {given.__name__}(...), with parentheses."
        )
    if not isinstance(given, ScoreLoss):
        names = " or ".join(repr(name) for name in LOSSES)
        raise ValueError(
            f"loss={given!r} is not known; use {names}, or an object of a class derived from "
            "maxmargin.losses.ScoreLoss."
        )
    if given.label_kind != "target" or given.n_outputs() is not None or not given.decomposable:
        raise ValueError(
            f"loss={given!r} cannot train a regression: it must be a sum over rows of one score and a target "
            '(label_kind = "target").'
        )
    return deepcopy(given)  # set_params must not change the loss of a stream or of a fitted model


def _targets(loss: ScoreLoss, y: Column) -> Array:
    """The targets, if the loss is lowest there: a row that scores too much loses as one that scores less."""
    terms = loss.dual_terms(np.asarray(y))
    if not isinstance(terms, DualTerms) or not terms.two_sided:
        raise ValueError(
            f"penalize_intercept=False needs a bound of the intercept, which {loss!r} gives by dual_terms(y) "
            "with two_sided=True: implement it, or use penalize_intercept=True with a large "
            "intercept_scaling."
        )
    return terms.labels


def _free_intercept(
    C: float, data: Training, loss: ScoreLoss, y: Column, weight: Column
) -> tuple[SquaredNorm, float]:
    """The norm without the intercept, with a bound of an optimal one; and the largest target.

    With any intercept b, F* <= F(0, b) = C R(0, b); so |w*| <= W = sqrt(2 C R(0, b)), b being the mean here.
    Rows are off by y_i - <w*, x_i> - b: an intercept above all y_i - <w*, x_i> can be lowered to the largest
    of them without a loss, one below all raised. So there is an optimal one with |b| <= max|y| + W max|x|.
    """
    total = mean = reach = 0.0
    for lo, hi in chunks(data.n):
        s = weight[lo:hi]
        target = _targets(loss, y[lo:hi])
        total += float(s.sum())
        mean += float(s @ target)
        reach = max(reach, float(np.abs(target[s > 0.0]).max(initial=0.0)))
    risk = sum(
        loss.value(np.full(hi - lo, mean / total), y[lo:hi], weight[lo:hi])
        for lo, hi in chunks(data.n)
    )
    radius = float(np.sqrt(2.0 * C * risk))
    return SquaredNorm(np.array([data.n_features]), reach + radius * data.largest_norm()), reach
