"""Compilation options: functions release the GIL and are cached on disk.

``entry`` functions are called from Python. ``leaf`` functions are called only by compiled code: they have no
Python wrapper, which saves a sixth of the compile time of a first fit.
"""

from __future__ import annotations

from typing import Any

from numba import njit

import maxmargin.compiled.notice  # noqa: F401 - says on standard error that a first fit compiles

#: reordering and fused multiply-add in sums of products; nan and inf are respected
PRODUCTS = {"reassoc", "contract", "nsz"}
#: The same in the order of the source, for two reasons. (1) Entries found through indices: LLVM would load
#: them with gather instructions, which take up to twice the time of plain loads where the microcode of the
#: processor protects them. (2) Leaves: LLVM would choose the order anew in each caller that it inlines a leaf
#: into, and what it inlines depends on what was compiled before, so results would depend on the history of
#: the cache.
IN_ORDER = {"contract", "nsz"}
#: for maxima of many numbers without nan (inf is respected), so that they are vectorized
MAXIMA = {"reassoc", "nnan", "nsz"}

_common: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_njit: Any = njit  # Numba's annotations lack two of the options
entry = _njit(**_common)
entry_products = _njit(fastmath=PRODUCTS, **_common)
entry_in_order = _njit(fastmath=IN_ORDER, **_common)
#: for leaves called once per row with arrays: a real call would count references, which takes 100 ns
inlined = _njit(no_cpython_wrapper=True, forceinline=True, **_common)
inlined_products = _njit(no_cpython_wrapper=True, forceinline=True, fastmath=PRODUCTS, **_common)
inlined_in_order = _njit(no_cpython_wrapper=True, forceinline=True, fastmath=IN_ORDER, **_common)
inlined_maxima = _njit(no_cpython_wrapper=True, forceinline=True, fastmath=MAXIMA, **_common)
leaf = _njit(no_cpython_wrapper=True, **_common)
leaf_in_order = _njit(no_cpython_wrapper=True, fastmath=IN_ORDER, **_common)
