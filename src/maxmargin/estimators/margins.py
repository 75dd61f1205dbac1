"""Required margins of single samples, from ``sample_margin``.

    two classes   max(0, m_i - y_i f(x_i))                     a margin of 0, an offset -y_i m_i of the
    score K classes     max_k m_i cost[y_i, k] + f_k - f_{y_i}       costs of 0, an offset m_i cost[y_i, k]
    regression    max(0, |y_i - f(x_i)| - m_i)                 the sample's own epsilon

With these offsets solvers need no special case, and margins of any size keep full precision.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.data.columns import Column, LazyColumn, chunks
from maxmargin.losses import ScoreLoss


def check_margins(
    margins: Any, n: int, least: float = -np.inf, name: str = "sample_margin"
) -> Array | None:
    """Validate one finite number per sample, at least ``least``; None if none were given."""
    if margins is None:
        return None
    checked = np.ascontiguousarray(margins, dtype=np.float64)
    if checked.shape != (n,):
        raise ValueError(f"{name} has shape {checked.shape}, but must have shape ({n},).")
    if not np.isfinite(checked).all():
        raise ValueError(f"{name} contains NaN or infinite numbers.")
    if (checked < least).any():
        raise ValueError(
            f"{name} must be at least {least:g}, but its minimum is {checked.min():g}."
        )
    return checked


def with_margins(
    loss: ScoreLoss, targets: tuple[Any, ...], margin: Array | None
) -> tuple[ScoreLoss, tuple[Array | None, ...]]:
    """The loss without a margin, and the offsets that are added to the scores of each problem instead."""
    if margin is None or (margin == 1.0).all():
        return loss, (None,) * len(targets)
    bare = loss.without_margin()
    if bare is None:
        raise TypeError(
            f"sample_margin cannot be used with the loss {type(loss).__name__}, which does not implement "
            "without_margin()."
        )
    return bare, tuple(_offset(loss, target, margin) for target in targets)


def _offset(loss: ScoreLoss, target: Any, margin: Array) -> Array:
    columns = loss.n_outputs()
    out = np.empty(len(margin) if columns is None else (len(margin), columns))
    for lo, hi in chunks(len(margin)):
        m, y = margin[lo:hi], np.asarray(target[lo:hi])
        out[lo:hi] = loss.margin_offset(y, m)
    return out


def epsilon_targets(y: Column, margin: Array | None) -> Column:
    """Targets of a regression in the form of its loss, with an epsilon per sample if there is one."""
    if isinstance(y, LazyColumn):
        return LazyColumn(len(y), partial(_epsilon_targets, y, margin))
    return _epsilon_targets(y, margin, 0, len(y))


def _epsilon_targets(y: Column, margin: Array | None, lo: int, hi: int) -> Array:
    target = np.asarray(y[lo:hi], dtype=np.float64)
    return target if margin is None else np.column_stack([target, margin[lo:hi]])
