"""Margins of single rows: what ``sample_margin`` asks of them.

    two classes   max(0, m_i - y_i f(x_i))                     an offset y_i (1 - m_i) of the score
    K classes     max_k m_i cost[y_i, k] + f_k - f_{y_i}       an offset (m_i - 1) cost[y_i, k]
    regression    max(0, |y_i - f(x_i)| - m_i)                 the half width of the row's tube

so that no loss and no solver has to know of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.data.columns import Column, LazyColumn, chunks
from maxmargin.losses import CrammerSinger, ScoreLoss


def check_margins(sample_margin: Any, n: int, least: float = -np.inf) -> Array | None:
    """One finite number per row, at least ``least``; None if none were given."""
    if sample_margin is None:
        return None
    margin = np.ascontiguousarray(sample_margin, dtype=np.float64)
    if margin.shape != (n,):
        raise ValueError(f"sample_margin has shape {margin.shape}; {n} margins are needed.")
    if not np.isfinite(margin).all():
        raise ValueError("sample_margin contains NaN or infinite numbers.")
    if (margin < least).any():
        raise ValueError(f"sample_margin must not be below {least:g}; {margin.min():g} is.")
    return margin


def margin_offsets(
    loss: ScoreLoss, targets: tuple[Any, ...], margin: Array | None
) -> tuple[Array | None, ...]:
    """What is added to the scores of each problem."""
    if margin is None or (margin == 1.0).all():
        return (None,) * len(targets)
    return tuple(_offset(loss, target, margin) for target in targets)


def _offset(loss: ScoreLoss, target: Any, margin: Array) -> Array:
    columns = loss.n_outputs()
    out = np.empty(len(margin) if columns is None else (len(margin), columns))
    for lo, hi in chunks(len(margin)):
        m, y = margin[lo:hi], np.asarray(target[lo:hi])
        if isinstance(loss, CrammerSinger):
            out[lo:hi] = (m - 1.0)[:, None] * loss.cost[y]
        else:
            out[lo:hi] = y * (1.0 - m)
    return out


def tube_targets(y: Column, margin: Array | None) -> Column:
    """Targets of a regression as its loss wants them, with the half widths of the rows if there are any."""
    if isinstance(y, LazyColumn):
        return LazyColumn(len(y), partial(_tubes, y, margin))
    return _tubes(y, margin, 0, len(y))


def _tubes(y: Column, margin: Array | None, lo: int, hi: int) -> Array:
    target = np.asarray(y[lo:hi], dtype=np.float64)
    return target if margin is None else np.column_stack([target, margin[lo:hi]])
