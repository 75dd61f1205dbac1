"""``method="auto"``: an exact fit if its kernel values are within the budget, otherwise landmarks.

The cost of an exact fit is counted in kernel values. It is proportional to n times the number of support
vectors: each pass over the rows computes the kernel of all rows with those that changed. The count assumes
that all rows are support vectors. It does not depend on timing, so fits are repeatable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from maxmargin.core.result import SolveResult
from maxmargin.estimators.kernel.exact import solve_exactly
from maxmargin.estimators.kernel.lowrank import fit_map, fit_nystrom
from maxmargin.estimators.kernel.problem import KernelProblem, KernelSolution, Method
from maxmargin.kernels import EmpiricalMap, Nystrom
from maxmargin.solvers import KernelBlocks

#: rows that are never too many for an exact fit
FEW = 4_000
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
class ChosenMethod:
    """The name of a method, and why it was chosen."""

    method: str
    why: str


#: the methods to choose from, and their settings
CHOICES: dict[str, tuple[Method, Any]] = {
    "exact": (solve_exactly, KernelBlocks()),
    "map": (fit_map, EmpiricalMap()),
    "nystrom": (fit_nystrom, Nystrom()),
}


def choose(n: int, *, joint: bool, semidefinite: bool, budget: float, memory: int) -> ChosenMethod:
    """Choose the method for a problem.

    Examples
    --------
    >>> choose(500, joint=False, semidefinite=True, budget=1e11, memory=2**31).method
    'exact'
    """
    if joint:
        if n <= MAPPED:
            why = f"several classes at once, {n} rows: the map of all rows is exact"
            return ChosenMethod("map", why)
        why = f"several classes at once, and {n} rows are too many for the map of all of them"
        return ChosenMethod("nystrom", f"{why}: a restricted problem was solved")
    if not semidefinite:
        why = "the kernel is not positive semidefinite: there are no landmarks"
        return ChosenMethod("exact", why)
    if n <= FEW:
        return ChosenMethod("exact", f"{n} rows are few")
    values = PASSES * n * n
    if ROW_BYTES * n > memory:
        why = f"an exact fit of {n} rows needs {ROW_BYTES * n} bytes, memory={memory}"
    elif values > budget:
        why = (
            f"an exact fit of {n} rows takes up to {values:.1e} kernel values, "
            f"max_kernel_values={budget:.1e}"
        )
    else:
        why = f"up to {values:.1e} kernel values, within max_kernel_values={budget:.1e}"
        return ChosenMethod("exact", why)
    return ChosenMethod("nystrom", f"{why}: a restricted problem was solved")


def fit_automatically(
    estimator: Any, problem: KernelProblem, after: Sequence[SolveResult], settings: Automatic
) -> KernelSolution:
    """Choose a method and solve the problem."""
    choice = choose(
        problem.X.shape[0],
        joint=problem.n_classes is not None,
        semidefinite=problem.kernel.positive_semidefinite,
        budget=float(estimator.max_kernel_values) * problem.share,
        memory=problem.memory,
    )
    fit, inner = CHOICES[choice.method]
    fitted = fit(estimator, problem, after, inner)
    return replace(fitted, extras={**fitted.extras, "method_": f"{choice.method}: {choice.why}"})
