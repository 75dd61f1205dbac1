"""check_loss: check that a loss of scores is convex and that its cuts, slopes and kinks are correct."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.losses import ConfusionMatrixLoss
from maxmargin.testing.checks._common import require, require_at_least, require_close
from maxmargin.testing.checks._lines import check_line


def check_loss(
    loss: Any,
    y: Any,
    n_outputs: int | tuple[int, ...] | None = None,
    *,
    weight: Any = None,
    n_trials: int = 20,
    random_state: int = 0,
) -> None:
    """Check a loss at random scores.

    The checks are:

    - ``cut(scores, y, weight) -> (offset, g)`` is tight at the scores and a minorant elsewhere.
    - The loss is convex and nonnegative.
    - If the weights are scaled, the cut is scaled (by the power ``weight_degree``, if the loss has one).
    - If the loss is ``decomposable``, it is the sum over parts of the samples, split where ``boundaries``
      allow.
    - If defined, ``value``, ``slopes(scores, other, y, weight, ts)`` and
      ``breakpoints(scores, other, y, weight, lo, hi, limit)`` agree with the cuts.
    - If defined, ``dual_terms(y)`` are consistent with the loss: the dual value of a sample never exceeds its
      loss, and equals it for the multipliers of the cut.
    - If defined, the derivatives and the conjugate of ``newton_terms(y)`` are correct.
    - A loss of confusion matrices (:class:`maxmargin.losses.ConfusionMatrixLoss`) equals the maximum over
      all of them.

    Parameters
    ----------
    loss : ScoreLoss
        The loss.
    y : array of shape (n, ...)
        Labels in the form that the loss expects.
    n_outputs : int or tuple, optional
        Number of scores per sample, or the shape of the scores. The default is ``loss.n_outputs()`` if
        defined, else one score per sample.
    weight : array of shape (n,), optional
        Weights of the samples. The default is positive random weights, or ones if the loss is not
        ``weighted``.
    n_trials, random_state : int
        Number and seed of the random scores.

    Raises
    ------
    AssertionError
        If a check fails. The message names the method and the numbers found.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.testing import check_loss
    >>> class Hinge:
    ...     def cut(self, scores, y, weight):
    ...         wrong = weight * (y * scores < 1)
    ...         return wrong.sum(), -wrong * y
    >>> check_loss(Hinge(), np.array([1.0, -1.0, 1.0]))
    """
    rng = np.random.default_rng(random_state)
    n = len(y)
    if n_outputs is None and hasattr(loss, "n_outputs"):
        n_outputs = loss.n_outputs()
    shape = (
        n_outputs if isinstance(n_outputs, tuple) else (n,) if n_outputs is None else (n, n_outputs)
    )
    weighted = getattr(loss, "weighted", True)
    if weight is None:
        weight = rng.uniform(0.5, 2.0, n) if weighted else np.ones(n)
    weights: Array = np.asarray(weight, dtype=np.float64)
    for trial in range(n_trials):
        # integers at every fourth trial, for ties and scores exactly at a kink
        scores = _scores(shape, trial, rng)
        other = _scores(shape, max(trial, 1), rng)
        where = f"trial {trial}"
        _check_cut(loss, scores, other, y, weights, where)
        _check_rows(loss, scores, y, weights, where)
        _check_line(loss, scores, other, y, weights, rng, where)
        _check_dual_terms(loss, scores, other, y, weights, where)
        _check_newton_terms(loss, scores, y, weights, where)
        _check_tables(loss, scores, y, weights, where)


def _scores(shape: tuple[int, ...], trial: int, rng: np.random.Generator) -> Array:
    if trial == 0:
        scores = np.zeros(shape)
    elif trial % 4 == 0:
        scores = rng.integers(-2, 3, shape).astype(np.float64)
    else:
        scores = rng.normal(size=shape) * (0.3, 1.0, 5.0)[trial % 3]
    scores.flags.writeable = False
    return scores


def _cut(loss: Any, scores: Array, y: Any, weight: Array, where: str) -> tuple[float, Array]:
    answer = loss.cut(scores, y, weight)
    require(
        isinstance(answer, tuple) and len(answer) == 2,
        f"cut ({where}) must return a tuple (offset, g)",
    )
    offset, g = float(answer[0]), np.array(answer[1], dtype=np.float64)
    require(
        g.shape == scores.shape,
        f"cut ({where}): g has shape {g.shape}, but the scores have shape {scores.shape}",
    )
    require(
        bool(np.isfinite(offset) and np.isfinite(g).all()),
        f"cut ({where}): some numbers are not finite",
    )
    return offset, g


def _at(cut: tuple[float, Array], scores: Array) -> float:
    return cut[0] + float((cut[1] * scores).sum())


def _check_cut(loss: Any, scores: Array, other: Array, y: Any, weight: Array, where: str) -> None:
    cut = _cut(loss, scores, y, weight, where)
    size = abs(cut[0]) + float(np.abs(cut[1] * scores).sum() + np.abs(cut[1] * other).sum())
    here, there = _at(cut, scores), _at(_cut(loss, other, y, weight, where), other)
    if hasattr(loss, "value"):
        require_close(
            float(loss.value(scores, y, weight)), here, f"value ({where}) against cut", size
        )
    require_at_least(here, 0.0, f"cut ({where}): the loss is negative", size)
    require_at_least(
        there, _at(cut, other), f"cut ({where}): the cut is not a minorant at other scores", size
    )
    # also nearby: at distant points a nonconvex loss often passes
    middle = 0.9 * scores + 0.1 * other
    near = _at(_cut(loss, middle, y, weight, where), middle)
    require_at_least(
        near, _at(cut, middle), f"cut ({where}): the cut is not a minorant near its scores", size
    )
    require_at_least(0.9 * here + 0.1 * there, near, f"cut ({where}): the loss is not convex", size)
    if not getattr(loss, "weighted", True):
        return
    again = _cut(loss, scores, y, 2.0 * weight, where)
    factor = 2.0 ** getattr(loss, "weight_degree", 1)
    what = f"cut ({where}): doubled weights must " + (
        "double" if factor == 2.0 else f"{factor:g}-fold"
    )
    require_close(again[0], factor * cut[0], f"{what} offset", size)
    require(bool(np.allclose(again[1], factor * cut[1], rtol=1e-9, atol=1e-12)), f"{what} g")


def _check_rows(loss: Any, scores: Array, y: Any, weight: Array, where: str) -> None:
    half = len(weight) // 2
    allowed = loss.boundaries(y) if hasattr(loss, "boundaries") else None
    if allowed is not None:
        half = int(allowed[len(allowed) // 2])
    if not getattr(loss, "decomposable", False) or half in (0, len(weight)):
        return
    total = 0.0
    for rows in (slice(0, half), slice(half, None)):
        part = scores[rows]
        total += _at(_cut(loss, part, np.asarray(y)[rows], weight[rows], where), part)
    whole = _at(_cut(loss, scores, y, weight, where), scores)
    require_close(
        total,
        whole,
        f"decomposable ({where}): the sum of the losses of two halves against the loss of all samples",
    )


def _check_line(
    loss: Any,
    scores: Array,
    other: Array,
    y: Any,
    weight: Array,
    rng: np.random.Generator,
    where: str,
) -> None:
    if not hasattr(loss, "slopes"):
        return

    def value(t: float) -> float:
        point = scores + t * (other - scores)
        return _at(_cut(loss, point, y, weight, where), point)

    def slopes(ts: Array) -> Array:
        return np.asarray(loss.slopes(scores, other, y, weight, ts), dtype=np.float64)

    breakpoints = None
    if hasattr(loss, "breakpoints"):
        breakpoints = functools.partial(loss.breakpoints, scores, other, y, weight)
    check_line(value, slopes, breakpoints, np.array([0.0, 0.37, 1.0, 2.2]), 3.0, rng, where)


def _check_dual_terms(
    loss: Any, scores: Array, other: Array, y: Any, weight: Array, where: str
) -> None:
    """Check Fenchel's inequality for the multipliers of two cuts, with equality at their own points."""
    terms = loss.dual_terms(np.asarray(y)) if hasattr(loss, "dual_terms") else None
    if terms is None:
        return
    for point in (scores, other):
        g = _cut(loss, point, y, weight, where)[1]
        alpha = _multipliers(terms, g)
        inside = terms.into_box(weight, alpha)
        require(
            bool(np.allclose(inside, alpha, rtol=1e-9, atol=1e-12)),
            f"dual_terms ({where}): the multipliers of the cut are outside of their bounds",
        )
        coef, linear, curved = terms.contribution(weight, alpha, None)
        for at, equal in ((point, True), (scores, False), (other, False)):
            dual = linear - curved - float((coef * at).sum())
            value = _at(_cut(loss, at, y, weight, where), at)
            size = abs(linear) + curved + float(np.abs(coef * at).sum())
            what = f"dual_terms ({where}): the loss against its dual"
            require_at_least(value, dual, f"{what}, which must not exceed it", size)
            if equal:
                require_close(value, dual, what, size)


def _multipliers(terms: Any, g: Array) -> Array:
    """The multipliers that belong to the gradient ``g`` of a cut."""
    if g.ndim == 2:
        alpha = g.copy()
        alpha[np.arange(len(g)), terms.y] = 0.0
        return alpha
    return -g if getattr(terms, "two_sided", False) else -terms.labels * g


def _check_newton_terms(loss: Any, scores: Array, y: Any, weight: Array, where: str) -> None:
    terms = loss.newton_terms(np.asarray(y)) if hasattr(loss, "newton_terms") else None
    if terms is None:
        return
    sign: Any = terms.labels if scores.ndim == 1 else 1.0
    m = sign * scores
    alpha, theta = np.empty(m.shape), np.empty(m.shape)
    value, dual, _ = terms.margin.fill(m, weight, alpha, theta)
    cut = _cut(loss, scores, y, weight, where)
    size = abs(cut[0]) + float(np.abs(cut[1] * scores).sum())
    require_close(value, _at(cut, scores), f"newton_terms ({where}): the loss against cut", size)
    require_close(
        dual - float(np.vdot(alpha, m)),
        value,
        f"newton_terms ({where}): the dual against the loss",
        size,
    )
    require_close(
        terms.margin.dual_sum(alpha, weight), dual, f"newton_terms ({where}): dual_sum", size
    )
    require(
        bool(np.allclose(alpha, -sign * cut[1], rtol=1e-9, atol=1e-12)),
        f"newton_terms ({where}): the first derivatives differ from those of the cut",
    )
    step, line = 1e-6, np.ones(m.shape)
    if m.ndim == 2:
        line *= np.arange(m.shape[1])
    change = [terms.margin.slope(m, line, weight, k)[0] for k in (-step, step)]
    bend = float(np.vdot(line, terms.margin.bend(theta, weight, line.copy())))
    require(
        bool(theta.min(initial=0.0) >= 0.0)
        and abs(0.5 * (change[0] - change[1]) / step - bend) <= 1e-3 * (1.0 + bend),
        f"newton_terms ({where}): the second derivatives differ from finite differences of the first ones",
    )


def _check_tables(loss: Any, scores: Array, y: Any, weight: Array, where: str) -> None:
    """Compare with the maximum over all confusion matrices (margin rescaling only)."""
    if (
        not isinstance(loss, ConfusionMatrixLoss)
        or getattr(loss, "rescaling", "margin") != "margin"
    ):
        return
    positive = np.asarray(y) > 0
    low, high = np.sort(scores[positive]), np.sort(scores[~positive])[::-1]
    P, N, best = len(low), len(high), 0.0
    for fn in range(P + 1):
        for fp in range(N + 1):
            lost = float(loss.loss(P - fn, fp, fn, N - fp))
            if lost >= 0.0:
                gain = float(high[:fp].sum() - low[:fn].sum())
                best = max(best, (P + N) * lost + gain)
    found = _at(_cut(loss, scores, y, weight, where), scores)
    size = float(P + N + np.abs(scores).sum())
    require_close(
        found,
        best,
        f"loss ({where}): the loss against the maximum over all confusion matrices",
        size,
    )
