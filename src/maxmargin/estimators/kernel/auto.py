"""``method="auto"``: an exact fit while its kernel values are within the budget, otherwise landmarks.

The cost of an exact fit is counted in kernel values. It is proportional to n times the number of support
vectors: each pass over the rows computes the kernel of all rows with those that changed. If n^2 kernel
values are affordable, no forecast is needed. Otherwise the number of support vectors is extrapolated by a
power law from exact fits to two random samples of the rows (the pilots), which cost about a thousandth of
the whole:

    support(n) = support(m) (n / m)^p,     p = log2(support(m) / support(m / 2)),  between 0 and 1
    values(n)  = PASSES n support(n)

The forecast does not depend on timing, so fits are repeatable. The choice itself is a pure function.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import IntArray
from maxmargin.estimators.base import ENDING, _seed
from maxmargin.estimators.kernel.classes import ClassProblem, untouched
from maxmargin.estimators.kernel.exact import solve_exactly
from maxmargin.estimators.kernel.lowrank import fit_map, fit_nystrom
from maxmargin.estimators.kernel.problem import KernelProblem, KernelSolution, Method
from maxmargin.kernels import EmpiricalMap, Nystrom
from maxmargin.solvers import KernelBlocks

#: the larger pilot has one in PART rows, at least FEWEST and at most MOST
PART, FEWEST, MOST = 20, 2_000, 20_000
#: kernel values of an exact fit in units of n times its support vectors: 2.5 to 9 on the benchmark data
PASSES = 5.0
#: bytes per row that an exact fit needs besides the data and the blocks
ROW_BYTES = 64
#: rows up to which joint multiclass problems are solved by the map of all rows
MAPPED = 2000


@dataclass(frozen=True, slots=True)
class Automatic:
    """Settings of ``method="auto"``: exact if affordable, otherwise landmarks."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected cost of an exact fit."""

    support: float
    kernel_values: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The name of a method, and why it was chosen."""

    method: str
    why: str


#: the methods to choose from, and their settings
CHOICES: dict[str, tuple[Method, Any]] = {
    "exact": (solve_exactly, KernelBlocks()),
    "map": (fit_map, EmpiricalMap()),
    "nystrom": (fit_nystrom, Nystrom()),
}


def pilot_rows(n: int) -> int:
    """Number of rows of the larger pilot.

    Examples
    --------
    >>> [pilot_rows(n) for n in (5_000, 100_000, 10**6)]
    [2000, 5000, 20000]
    """
    return min(MOST, max(FEWEST, n // PART))


def forecast(n: int, pilot: int, support: int, support_half: int) -> Forecast:
    """Forecast from the numbers of support vectors of exact fits to ``pilot`` rows and to half of them.

    Examples
    --------
    >>> forecast(100_000, 2_000, 400, 200)              # proportional to n: a fifth of the rows
    Forecast(support=20000.0, kernel_values=10000000000.0)
    """
    power = math.log2(max(1, support) / max(1, support_half))
    expected = max(1, support) * (n / pilot) ** min(1.0, max(0.0, power))
    return Forecast(expected, PASSES * n * expected)


def choose(
    n: int,
    *,
    joint: bool,
    semidefinite: bool,
    budget: float,
    memory: int,
    expected: Forecast | None,
) -> Choice | None:
    """Choose the method for a problem; None if a forecast is required and missing.

    Examples
    --------
    >>> choose(500, joint=False, semidefinite=True, budget=1e11, memory=2**31, expected=None).method
    'exact'
    """
    if joint:
        if n <= MAPPED:
            return Choice("map", f"several classes at once, {n} rows: the map of all rows is exact")
        why = f"several classes at once, and {n} rows are too many for the map of all of them"
        return Choice("nystrom", f"{why}: a restricted problem was solved")
    if not semidefinite:
        return Choice("exact", "the kernel is not positive semidefinite: there are no landmarks")
    if n <= 2 * FEWEST:
        return Choice("exact", f"{n} rows are few")
    if ROW_BYTES * n <= memory and PASSES * n * n <= budget:
        why = f"{n} rows, and were they all support vectors, within max_kernel_values={budget:.1e}"
        return Choice("exact", why)
    if expected is None:
        return None
    counted = (
        f"about {expected.kernel_values:.1e} kernel values ({n} rows, some {expected.support:.0f} of them "
        "support vectors)"
    )
    if ROW_BYTES * n > memory:
        why = f"an exact fit of {n} rows needs {ROW_BYTES * n} bytes, memory={memory}"
    elif expected.kernel_values > budget:
        why = f"an exact fit takes {counted}, max_kernel_values={budget:.1e}"
    else:
        return Choice("exact", f"{counted}, within max_kernel_values={budget:.1e}")
    return Choice("nystrom", f"{why}: a restricted problem was solved")


def fit_automatically(
    estimator: Any, problem: KernelProblem, after: Sequence[SolveResult], settings: Automatic
) -> KernelSolution:
    """Choose a method and solve the problem."""
    n, expected = problem.X.shape[0], None
    known: dict[str, Any] = {
        "joint": problem.n_classes is not None,
        "semidefinite": problem.kernel.positive_semidefinite,
        "budget": float(estimator.max_kernel_values) * problem.share,
        "memory": problem.memory,
    }
    pilots: list[KernelSolution] = []
    choice, tried = choose(n, expected=None, **known), 0
    if choice is None:
        m = pilot_rows(n)
        for rows in (m, m // 2):
            pilots.append(_pilot(estimator, problem, rows, [*after, *_results(pilots)]))
            tried += int(pilots[-1].extras["kernel_values_"])
            if pilots[-1].result.stop_reason in ENDING:  # ends the whole fit
                return _ended(estimator, problem, pilots, tried)
        expected = forecast(n, m, *(len(pilot.support) for pilot in pilots))
        choice = choose(n, expected=expected, **known)
    assert choice is not None
    fit, inner = CHOICES[choice.method]
    fitted = fit(estimator, problem, [*after, *_results(pilots)], inner)
    fitted = replace(fitted, result=_later(fitted.result, pilots))
    extras = {**fitted.extras, "method_": f"{choice.method}: {choice.why}"}
    if expected is not None:
        extras["expected_kernel_values_"] = expected.kernel_values
        extras["kernel_values_"] = extras.get("kernel_values_", 0) + tried
    return replace(fitted, extras=extras)


def _results(pilots: Sequence[KernelSolution]) -> list[SolveResult]:
    return [pilot.result for pilot in pilots]


def _later(result: SolveResult, pilots: Sequence[KernelSolution]) -> SolveResult:
    """The result with the time of the pilots added to its records."""
    spent = sum(r.history[-1].elapsed for r in _results(pilots) if r.history)
    if not spent:
        return result
    return replace(result, history=[replace(r, elapsed=r.elapsed + spent) for r in result.history])


def _ended(
    estimator: Any, problem: KernelProblem, pilots: Sequence[KernelSolution], tried: int
) -> KernelSolution:
    """The best constant, if a limit or Ctrl-C ended the fit during the pilots."""
    part, last = ClassProblem(np.arange(len(problem.y)), problem.y), pilots[-1].result
    fitted = untouched(part, problem.weight, problem.C, problem.fit_intercept, last)
    result = replace(fitted.result, history=_later(last, pilots[:-1]).history[-1:])
    why = f"none: the fit was ended ({last.stop_reason}) before a method was chosen"
    return replace(fitted, result=result, extras={"method_": why, "kernel_values_": tried})


def _pilot(
    estimator: Any, problem: KernelProblem, m: int, after: Sequence[SolveResult]
) -> KernelSolution:
    """An exact fit to a sample of the rows, within the time that ``after`` has left."""
    some = sample(problem.y, m, _seed(estimator.random_state))
    small = replace(
        problem, X=problem.X[some], y=problem.y[some], weight=problem.weight[some], start=None
    )
    quiet = copy.copy(estimator)
    quiet.callbacks, quiet.verbose, quiet.max_iter = None, 0, None
    quiet.__dict__.pop("_skl_callbacks", None)
    return solve_exactly(quiet, small, after, KernelBlocks())


def sample(y: Any, m: int, seed: int) -> IntArray:
    """About ``m`` rows, ascending, stratified by label."""
    rng = np.random.default_rng(seed)
    chosen = []
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        chosen.append(rng.choice(own, size=math.ceil(m * len(own) / len(y)), replace=False))
    return np.sort(np.concatenate(chosen))
