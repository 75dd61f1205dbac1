"""Kernels k(x, z), rows packed for them, and functions made of them.

A kernel is an inner product of features that are never written down, k(x, z) = <phi(x), phi(z)>. All that
is ever computed are blocks of its values, by one matrix product and one function of each product.
"""

from maxmargin.kernels.expansion import KernelExpansion
from maxmargin.kernels.functions import (
    RBF,
    FromCallable,
    Kernel,
    Linear,
    Polynomial,
    Sigmoid,
    make_kernel,
)
from maxmargin.kernels.lowrank import EmpiricalMap, Nystrom, NystromMap
from maxmargin.kernels.rows import KernelRows, centre_of

__all__ = [
    "RBF",
    "EmpiricalMap",
    "FromCallable",
    "Kernel",
    "KernelExpansion",
    "KernelRows",
    "Linear",
    "Nystrom",
    "NystromMap",
    "Polynomial",
    "Sigmoid",
    "centre_of",
    "make_kernel",
]
