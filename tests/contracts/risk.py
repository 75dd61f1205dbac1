"""check_risk: check that the cuts of a risk are tight and minorants."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from maxmargin.core.contract.evaluation import Evaluation
from maxmargin.core.contract.risk import Risk
from maxmargin.core.vectors import Array
from maxmargin.testing.checks._common import (
    points,
    require,
    require_at_least,
    require_close,
    require_same_vector,
    require_vector,
    size_of,
)
from maxmargin.testing.checks._lines import check_line


def check_risk(
    risk: Risk, *, n_trials: int = 12, scale: float = 1.0, random_state: int = 0
) -> None:
    """Check a risk at random points.

    The checks are: a cut is tight at its point and a minorant elsewhere; the cuts of the blocks sum to it and
    are minorants of their blocks; values are convex along segments (unless the oracle is "undergenerating");
    values from a cache do not exceed exact values; and, if evaluations have ``toward``, ``slopes`` and
    ``breakpoints``, these agree with new evaluations.
    """
    rng = np.random.default_rng(random_state)
    require(
        risk.oracle in ("exact", "undergenerating", "overgenerating"),
        f"risk.oracle must be 'exact', 'undergenerating' or 'overgenerating', got {risk.oracle!r}",
    )
    require(risk.dim > 0 and risk.n_blocks > 0, "risk.dim and risk.n_blocks must be positive")
    here = [scale * w for w in points(risk.dim, n_trials, rng)]
    for w in here:
        w.flags.writeable = False
    evaluations = [risk.evaluate(w) for w in here]
    for k, (w, evaluation) in enumerate(zip(here, evaluations, strict=True)):
        _check_one(risk, w, evaluation, f"point {k}")
    for k, v in enumerate(here):
        j = (k + 1 + k // 2) % len(here)
        if j != k and risk.oracle != "undergenerating":
            _check_pair(risk, evaluations[j], evaluations[k], v, f"points {j} and {k}")
    if risk.offers.caching is not None:
        _check_cached(risk, here, evaluations)
    for k in range(len(here) - 1):
        _check_line(risk, evaluations[k], evaluations[k + 1], rng, f"line {k} to {k + 1}")


def _check_one(risk: Risk, w: Array, evaluation: Evaluation, where: str) -> None:
    require_same_vector(evaluation.w, w, f"evaluation.w ({where})")
    cut = evaluation.cut()
    require_vector(cut.plane, risk.dim, f"cut ({where})")
    size = size_of(cut, w)
    require_close(
        cut.at(w), evaluation.value, f"cut ({where}): the cut is not tight at its point", size
    )
    require_at_least(evaluation.upper, evaluation.value, f"upper ({where}) is below value", size)
    what = f"lower_bound ({where}): the value is below n_blocks times it"
    require_at_least(cut.at(w), risk.n_blocks * risk.lower_bound, what, size)
    again = risk.evaluate(w)
    require(
        again.value == evaluation.value, f"evaluate ({where}): two calls returned different values"
    )


def _check_pair(risk: Risk, a: Evaluation, b: Evaluation, v: Array, where: str) -> None:
    size = size_of(a.cut(), v)
    require_at_least(b.upper, a.cut().at(v), f"cut ({where}): the cut is not a minorant", size)
    middle = risk.evaluate(0.5 * (a.w + b.w))
    require_at_least(
        0.5 * (a.upper + b.upper),
        middle.value,
        f"evaluate ({where}): the risk is not convex between them",
        size,
    )


def _check_cached(risk: Risk, here: list[Array], evaluations: list[Evaluation]) -> None:
    for k, (w, exact) in enumerate(zip(here, evaluations, strict=True)):
        cached = risk.evaluate(w, exact=False)
        cut = cached.cut()
        what = f"evaluate(exact=False), point {k}"
        require_close(cut.at(w), cached.value, f"{what}: the cut is not tight", size_of(cut, w))
        require_at_least(
            exact.upper,
            cached.value,
            f"{what}: the value is above the exact value",
            size_of(cut, w),
        )
        require_at_least(
            cached.upper, exact.value, f"{what}: upper is below the exact value", exact.value
        )
        for j, other in enumerate(evaluations):
            require_at_least(
                other.upper,
                cut.at(here[j]),
                f"{what}: the cut is not a minorant at point {j}",
                size_of(cut, here[j]),
            )


def _check_line(
    risk: Risk, a: Evaluation, b: Evaluation, rng: np.random.Generator, where: str
) -> None:
    line: Any = a
    if not hasattr(line, "toward"):
        return
    direction = b.w - a.w

    def fresh(t: float) -> Evaluation:
        return risk.evaluate(a.w + t * direction)

    for t in (0.0, 0.25, 1.0, 1.75):
        moved, expected = line.toward(b, t), fresh(t)
        what = f"toward ({where}, t = {t})"
        size = size_of(expected.cut(), expected.w)
        require_same_vector(moved.w, expected.w, f"{what}: w")
        require_close(moved.value, expected.value, f"{what}: value against a new evaluation", size)
        # near a kink, rounding can select another tight cut, so check its properties
        cut = moved.cut()
        require_close(cut.at(moved.w), moved.value, f"{what}: the cut is not tight", size)
        require_at_least(
            b.upper, cut.at(b.w), f"{what}: the cut is not a minorant", size_of(cut, b.w)
        )
    if not hasattr(line, "slopes"):
        return

    def slopes(ts: Array) -> Array:
        return np.asarray(line.slopes(b, ts), dtype=np.float64)

    breakpoints = functools.partial(line.breakpoints, b) if hasattr(line, "breakpoints") else None
    ts = np.array([0.0, 0.3, 0.77, 1.0])
    check_line(lambda t: fresh(t).value, slopes, breakpoints, ts, 2.0, rng, where)
