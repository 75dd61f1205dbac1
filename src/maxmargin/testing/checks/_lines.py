"""Check slopes and kinks of convex functions along a line; shared by losses and risks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.testing.checks._common import require, require_at_least

#: step and tolerance of the finite differences
STEP, TOLERANCE = 1e-6, 1e-4


#: maximum number of kinks, more than any function of a small problem has
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
    """Check the slopes at ``ts`` and the kinks in (0, hi) of a convex function along a line."""
    kinks = None if breakpoints is None else breakpoints(0.0, hi, LIMIT)
    check_slopes(value, slopes, ts, f"slopes ({where})", right_at_kinks=kinks is not None)
    if breakpoints is None or kinks is None:
        return
    check_breakpoints(kinks, slopes, 0.0, hi, rng, f"breakpoints ({where})")
    none = breakpoints(0.0, hi, 0)
    require(
        none is None or len(none[0]) == 0,
        f"breakpoints ({where}) returned kinks with limit=0; it must return None",
    )


def check_slopes(
    value: Callable[[float], float],
    slopes: Callable[[Array], Array],
    ts: Array,
    what: str,
    right_at_kinks: bool = True,
) -> None:
    """Check that ``slopes(ts)`` are right derivatives of the convex function ``value``.

    The slope at t must not exceed any difference quotient to the right, nor be less than any to the left. It
    must be close to a short difference quotient to the right. If ``right_at_kinks`` is False, any subgradient
    is accepted at a kink. So it is at t > 0, where rounding can break ties.
    """
    found = np.asarray(slopes(ts))
    require(
        found.shape == ts.shape, f"{what}: slopes returned shape {found.shape}, expected {ts.shape}"
    )
    for t, slope in zip(ts.tolist(), found.tolist(), strict=True):
        here = value(t)
        size = max(1.0, abs(here), abs(slope))
        for far in (0.05, 1.0):
            right = (value(t + far) - here) / far
            left = (here - value(t - far)) / far
            room = size / far
            require_at_least(
                right,
                slope,
                f"{what}: the slope at t = {t} is too large compared with the value at t + {far}",
                room,
            )
            require_at_least(
                slope,
                left,
                f"{what}: the slope at t = {t} is too small compared with the value at t - {far}",
                room,
            )
        after = (value(t + STEP) - here) / STEP
        before = (here - value(t - STEP)) / STEP
        lowest = after if right_at_kinks and t == 0.0 else min(before, after)
        require(
            lowest - TOLERANCE * size <= slope <= after + TOLERANCE * size,
            f"{what}: the slope at t = {t} is {slope!r}, finite differences are {before!r} to the left and "
            f"{after!r} to the right{' (slopes must be right derivatives)' * right_at_kinks}",
        )


def check_breakpoints(
    kinks: tuple[Array, Array],
    slopes: Callable[[Array], Array],
    lo: float,
    hi: float,
    rng: np.random.Generator,
    what: str,
) -> None:
    """Check that the slope at t is the slope at lo plus the jumps of all kinks in (lo, t]."""
    ts, jumps = (np.asarray(part, dtype=np.float64) for part in kinks)
    require(
        ts.ndim == 1 and ts.shape == jumps.shape,
        f"{what}: breakpoints returned arrays of shapes {ts.shape} and {jumps.shape}",
    )
    require(
        bool(((ts > lo) & (ts < hi)).all()),
        f"{what}: some breakpoints are outside ({lo}, {hi})",
    )
    room = 1e-9 * max(1.0, float(np.abs(jumps).sum()))
    require(
        bool((jumps >= -room).all()),
        f"{what}: a jump of the slope is {jumps.min(initial=0.0)!r}, but it must be nonnegative (convexity)",
    )
    probes = np.sort(rng.uniform(lo, hi, 7))
    found = np.asarray(slopes(np.concatenate([[lo], probes])))
    for t, slope in zip(probes.tolist(), found[1:].tolist(), strict=True):
        expected = found[0] + jumps[ts <= t].sum()
        require(
            abs(slope - expected) <= room + 1e-9 * abs(slope),
            f"{what}: the jumps in ({lo}, {t}] add up from the slope {found[0]!r} to {expected!r}, but "
            f"slopes returned {slope!r}",
        )
