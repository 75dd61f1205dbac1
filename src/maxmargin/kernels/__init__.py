"""Kernel functions k(x, z), rows prepared for them, and kernel expansions.

A kernel is an inner product of implicit features, k(x, z) = <phi(x), phi(z)>. The library computes kernel
values in blocks: one matrix product, then one elementwise function.
"""

from maxmargin.kernels.expansion import KernelExpansion
from maxmargin.kernels.functions import (
    RBF,
    FromCallable,
    GramValues,
    Kernel,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
    make_kernel,
)
from maxmargin.kernels.lowrank import EmpiricalMap, Nystrom, NystromMap
from maxmargin.kernels.rows import KernelRows, center_of

__all__ = [
    "RBF",
    "EmpiricalMap",
    "FromCallable",
    "GramValues",
    "Kernel",
    "KernelExpansion",
    "KernelRows",
    "Linear",
    "Nystrom",
    "NystromMap",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "center_of",
    "make_kernel",
]
