"""How functions are compiled: when the wheel is built, or by Numba when they are first called.

``entry`` functions are called from Python. ``leaf`` functions are called only by compiled code: they have no
Python wrapper, which saves a sixth of the compile time of a first fit. All of them release the GIL.

With precompiled code (:mod:`maxmargin.compiled.precompiled`), functions find it by the types of their
arguments, and Numba is not imported unless a function meets other types.
"""

from __future__ import annotations

from typing import Any

from maxmargin.compiled.precompiled import precompiled

#: reordering and fused multiply-add in sums of products; nan and inf are respected
PRODUCTS = {"reassoc", "contract", "nsz"}
#: The same in the order of the source, for entries found through indices: LLVM would load them with gather
#: instructions, which take up to twice the time of plain loads where the microcode of the processor protects
#: them.
IN_ORDER = {"contract", "nsz"}
#: for maxima of many numbers without nan (inf is respected), so that they are vectorized
MAXIMA = {"reassoc", "nnan", "nsz"}
# A function with one of these is an entry or inlined. LLVM optimizes a leaf again in each of its callers and
# chooses the order and the fused operations anew; which of the copies is called depends on what else was
# compiled in the process. Without these options all copies give the same results.


def _compiled(**options: Any) -> Any:
    """A decorator with these options of Numba.

    All are set: a function would inherit what is not set from the function that is compiled when it is first
    called, and results would depend on which one that is.
    """
    common = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    options = {**common, "fastmath": False, "forceinline": False, **options}
    make: Any
    if precompiled().functions:
        from maxmargin.compiled.function import Function as make
    else:
        from maxmargin.compiled.cache import compile_when_called as make
    return lambda function: make(function, options)


entry = _compiled()
entry_products = _compiled(fastmath=PRODUCTS)
entry_in_order = _compiled(fastmath=IN_ORDER)
#: for leaves called once per row with arrays: a real call would count references, which takes 100 ns
inlined = _compiled(no_cpython_wrapper=True, forceinline=True)
inlined_products = _compiled(no_cpython_wrapper=True, forceinline=True, fastmath=PRODUCTS)
inlined_in_order = _compiled(no_cpython_wrapper=True, forceinline=True, fastmath=IN_ORDER)
inlined_maxima = _compiled(no_cpython_wrapper=True, forceinline=True, fastmath=MAXIMA)
leaf = _compiled(no_cpython_wrapper=True)
