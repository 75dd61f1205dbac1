"""How leaves are compiled: without the interpreter's lock, cached on disk, and no more than is
called.

``entry`` functions are called from Python. ``leaf`` functions are called by compiled code only:
they get no wrapper for Python, which saves a sixth of the time a first fit spends compiling.
"""

from __future__ import annotations

from typing import Any

from numba import njit

#: reordering and fused multiply-add in sums of products; nan and inf keep their meaning
PRODUCTS = {"reassoc", "contract", "nsz"}
#: maxima of many numbers, none of which is nan (inf keeps its meaning): vector instructions
MAXIMA = {"reassoc", "nnan", "nsz"}

_common: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_njit: Any = njit  # two of the options are missing from Numba's own annotations
entry = _njit(**_common)
entry_products = _njit(fastmath=PRODUCTS, **_common)
#: for leaves called once per row with arrays: a real call would count references to them, 100 ns
inlined = _njit(no_cpython_wrapper=True, forceinline=True, **_common)
inlined_products = _njit(no_cpython_wrapper=True, forceinline=True, fastmath=PRODUCTS, **_common)
inlined_maxima = _njit(no_cpython_wrapper=True, forceinline=True, fastmath=MAXIMA, **_common)
leaf = _njit(no_cpython_wrapper=True, **_common)
leaf_products = _njit(no_cpython_wrapper=True, fastmath=PRODUCTS, **_common)
