"""Vectors of eight doubles and prefetching, for compiled code.

:mod:`maxmargin.compiled.simd_operations` defines them; it imports Numba, and is imported when code that uses
them is compiled.
"""

from __future__ import annotations

from typing import Any

LANES = 8


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from maxmargin.compiled import simd_operations

    return getattr(simd_operations, name)
