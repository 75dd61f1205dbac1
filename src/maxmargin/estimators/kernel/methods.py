"""The methods of kernel machines, by the type of their settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from maxmargin.estimators.kernel.auto import Automatic, fit_automatically
from maxmargin.estimators.kernel.exact import solve_exactly
from maxmargin.estimators.kernel.lowrank import fit_map, fit_nystrom
from maxmargin.estimators.kernel.problem import Method
from maxmargin.estimators.kernel.sampled import fit_sampled
from maxmargin.kernels import EmpiricalMap, Nystrom
from maxmargin.solvers import KernelBlocks, SampledCuts


def _nothing(F: float) -> dict[str, Any]:
    return {}


def _no_values(F: float) -> dict[str, Any]:
    return {"kernel_values_": 0}


def _no_landmarks(F: float) -> dict[str, Any]:
    gap = 1.0 if F > 0.0 else 0.0
    return {
        "n_landmarks_": 0, "kernel_values_": 0, "restricted_lower_bound_": 0.0, "restricted_gap_": gap,
    }  # fmt: skip


def _no_samples(F: float) -> dict[str, Any]:
    return {
        "reduced_value_": 0.0,
        "kernel_values_": 0,
    }


@dataclass(frozen=True, slots=True)
class KernelMethod:
    """How a method fits a problem, and its attributes for a constant function.

    A constant function (with objective F) is the solution if a class has no weight or the fit was stopped
    before.
    """

    fit: Method
    of_constant: Callable[[float], dict[str, Any]] = _nothing


#: by the type of the settings
METHODS = {
    Automatic: KernelMethod(fit_automatically, _no_values),
    KernelBlocks: KernelMethod(solve_exactly, _no_values),
    Nystrom: KernelMethod(fit_nystrom, _no_landmarks),
    EmpiricalMap: KernelMethod(fit_map),
    SampledCuts: KernelMethod(fit_sampled, _no_samples),
}
#: names of settings with their defaults
NAMED = {
    "auto": Automatic(),
    "exact": KernelBlocks(),
    "nystrom": Nystrom(),
    "map": EmpiricalMap(),
    "sampled": SampledCuts(),
    "sampled_constant": SampledCuts(constant_time=True),
}
