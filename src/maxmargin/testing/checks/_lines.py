"""Convex functions along a line: slopes and kinks against values, shared by losses and risks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.testing.checks._common import require, require_at_least

#: step of the finite differences, and what they may be off by
STEP, ROOM = 1e-6, 1e-4


#: kinks asked for: more than any function small enough to be checked has (the callee may allocate as many)
LIMIT = 100_000


def check_line(
    value: Callable[[float], float],
    slopes: Callable[[Array], Array],
    breakpoints: Callable[[float, float, int], tuple[Array, Array] | None] | None,
    ts: Array,
    hi: float,
    rng: np.random.Generator,
    where: str,
) -> None:
    """Slopes at ``ts`` and kinks in (0, hi) of a convex function along a line."""
    kinks = None if breakpoints is None else breakpoints(0.0, hi, LIMIT)
    check_slopes(value, slopes, ts, f"slopes ({where})", right_at_kinks=kinks is not None)
    if breakpoints is None or kinks is None:
        return
    check_breakpoints(kinks, slopes, 0.0, hi, rng, f"breakpoints ({where})")
    none = breakpoints(0.0, hi, 0)
    require(
        none is None or len(none[0]) == 0,
        f"breakpoints ({where}) with limit=0 returned kinks; it must return None",
    )


def check_slopes(
    value: Callable[[float], float],
    slopes: Callable[[Array], Array],
    ts: Array,
    what: str,
    right_at_kinks: bool = True,
) -> None:
    """``slopes(ts)`` are right derivatives of the convex function ``value``.

    A slope at t lies below every difference quotient to the right and above every one to the left; a
    short quotient to the right is close to it, or, where any subgradient will do at a kink, the short
    quotients enclose it. Beyond t = 0, where the scores are the caller's own, a tie is only a tie up to
    rounding, so there any subgradient will do.
    """
    found = np.asarray(slopes(ts))
    require(found.shape == ts.shape, f"{what}: slopes has shape {found.shape}, expected {ts.shape}")
    for t, slope in zip(ts.tolist(), found.tolist(), strict=True):
        here = value(t)
        size = max(1.0, abs(here), abs(slope))
        for far in (0.05, 1.0):
            right = (value(t + far) - here) / far
            left = (here - value(t - far)) / far
            room = size / far
            require_at_least(
                right, slope, f"{what}: slope at t = {t} too large for t + {far}", room
            )
            require_at_least(slope, left, f"{what}: slope at t = {t} too small for t - {far}", room)
        after = (value(t + STEP) - here) / STEP
        before = (here - value(t - STEP)) / STEP
        lowest = after if right_at_kinks and t == 0.0 else min(before, after)
        require(
            lowest - ROOM * size <= slope <= after + ROOM * size,
            f"{what}: slope at t = {t} is {slope!r}, short steps say {before!r} to the left and "
            f"{after!r} to the right{' (right derivatives are asked for)' * right_at_kinks}",
        )


def check_breakpoints(
    kinks: tuple[Array, Array],
    slopes: Callable[[Array], Array],
    lo: float,
    hi: float,
    rng: np.random.Generator,
    what: str,
) -> None:
    """Slope after t = slope at lo + the jumps of all kinks in (lo, t]."""
    ts, jumps = (np.asarray(part, dtype=np.float64) for part in kinks)
    require(
        ts.ndim == 1 and ts.shape == jumps.shape,
        f"{what}: breakpoints gives shapes {ts.shape} and {jumps.shape}",
    )
    require(
        bool(((ts > lo) & (ts < hi)).all()),
        f"{what}: breakpoints outside ({lo}, {hi}) were returned",
    )
    room = 1e-9 * max(1.0, float(np.abs(jumps).sum()))
    require(
        bool((jumps >= -room).all()),
        f"{what}: a jump of slope is {jumps.min(initial=0.0)!r}, but slopes of a convex function grow",
    )
    probes = np.sort(rng.uniform(lo, hi, 7))
    found = np.asarray(slopes(np.concatenate([[lo], probes])))
    for t, slope in zip(probes.tolist(), found[1:].tolist(), strict=True):
        expected = found[0] + jumps[ts <= t].sum()
        require(
            abs(slope - expected) <= room + 1e-9 * abs(slope),
            f"{what}: the jumps in ({lo}, {t}] lead from slope {found[0]!r} to {expected!r}, "
            f"but slopes says {slope!r}",
        )
