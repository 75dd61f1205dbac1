"""Compilation options: functions release the GIL and are cached on disk if a folder is writable.

``entry`` functions are called from Python. ``leaf`` functions are called only by compiled code: they have no
Python wrapper, which saves a sixth of the compile time of a first fit.
"""

from __future__ import annotations

from contextlib import suppress
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


def _compiled(**options: Any) -> Any:
    """A decorator with these options of Numba."""
    compile_later: Any = njit(  # type: ignore[call-overload] # Numba's annotations lack two of the options
        nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options
    )

    def decorate(function: Any) -> Any:
        dispatcher = compile_later(function)
        with suppress(RuntimeError):  # no folder is writable; `maxmargin.compiled` warns of it
            dispatcher.enable_caching()
        return dispatcher

    return decorate


entry = _compiled()
entry_products = _compiled(fastmath=PRODUCTS)
entry_in_order = _compiled(fastmath=IN_ORDER)
#: for leaves called once per row with arrays: a real call would count references, which takes 100 ns
inlined = _compiled(no_cpython_wrapper=True, forceinline=True)
inlined_products = _compiled(no_cpython_wrapper=True, forceinline=True, fastmath=PRODUCTS)
inlined_in_order = _compiled(no_cpython_wrapper=True, forceinline=True, fastmath=IN_ORDER)
inlined_maxima = _compiled(no_cpython_wrapper=True, forceinline=True, fastmath=MAXIMA)
leaf = _compiled(no_cpython_wrapper=True)
leaf_in_order = _compiled(no_cpython_wrapper=True, fastmath=IN_ORDER)
