"""Memory prefetching, which makes a random order of rows nearly as fast as a sequential one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line that holds ``array[index]`` (flat, C order). Never faults."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type, index_type = signature.args
        data = context.make_array(array_type)(context, builder, args[0]).data
        at = builder.gep(data, [context.cast(builder, args[1], index_type, types.intp)])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
            "llvm.prefetch.p0",
        )
        # for reading, to be kept in all caches, as data
        builder.call(function, [builder.bitcast(at, byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, index), codegen


#: for type checkers: Numba adds the typing context
prefetch: Any = _prefetch
