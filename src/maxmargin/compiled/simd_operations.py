"""Vectors of eight doubles in registers of compiled code, and prefetching.

Numba vectorizes plain loops, but it must assume that arrays overlap, so it cannot keep a row of accumulators
in registers, nor process the classes of one row in parallel. These operations can; LLVM maps them to the
instructions of the processor (one register of AVX-512, two of AVX, four of NEON). Arrays must be contiguous
and are addressed by flat element index. Masked lanes are neither read nor written, so no padding is needed.
Prefetching makes a random order of rows nearly as fast as a sequential one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8
_I32 = ir.IntType(32)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)


class _VectorType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="maxmargin.vector8")


class _MaskType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="maxmargin.mask8")


_vector, _mask = _VectorType(), _MaskType()
_intrinsic: Any = intrinsic  # its annotations include the typing context


@register_model(_VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@register_model(_MaskType)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _MASK)


def _broadcast(builder: Any, scalar: Any) -> Any:
    undefined = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(one, undefined, zeros)


def _call(builder: Any, name: str, result: Any, args: list[Any]) -> Any:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    made = context.make_array(kind)(context, builder, array)
    return builder.bitcast(builder.gep(made.data, [at]), _VECTOR.as_pointer())


def _is_plain(array: Any) -> bool:
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.float64


@_intrinsic
def fill(typingctx, x):
    """The number in all lanes."""

    def code(context, builder, signature, args):
        return _broadcast(builder, args[0])

    return _vector(types.float64), code


@_intrinsic
def first(typingctx, n):
    """The mask of the first n lanes; n may be zero or exceed the number of lanes."""

    def code(context, builder, signature, args):
        many = _broadcast(builder, args[0])
        return builder.icmp_signed("<", ir.Constant(many.type, list(range(LANES))), many)

    return _mask(types.int64), code


@_intrinsic
def load(typingctx, array, at, some, other):
    """Eight elements starting at index ``at``; masked-out lanes come from ``other``."""

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        align = ir.Constant(_I32, 8)
        name = "llvm.masked.load.v8f64.p0"
        return _call(builder, name, _VECTOR, [pointer, align, args[2], args[3]])

    if not _is_plain(array):
        return None
    return _vector(array, types.int64, _mask, _vector), code


@_intrinsic
def store(typingctx, array, at, some, x):
    """Write the lanes of the mask to the elements starting at index ``at``."""

    def code(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        align, name = ir.Constant(_I32, 8), "llvm.masked.store.v8f64.p0"
        _call(builder, name, ir.VoidType(), [args[3], pointer, align, args[2]])
        return context.get_dummy_value()

    if not _is_plain(array):
        return None
    return types.void(array, types.int64, _mask, _vector), code


@_intrinsic
def fma(typingctx, x, y, z):
    """``x y + z``, rounded once."""

    def code(context, builder, signature, args):
        return _call(builder, "llvm.fma.v8f64", _VECTOR, list(args))

    return _vector(_vector, _vector, _vector), code


@_intrinsic
def choose(typingctx, some, x, y):
    """x where the mask is set, y elsewhere."""

    def code(context, builder, signature, args):
        return builder.select(*args)

    return _vector(_mask, _vector, _vector), code


def _two(kind: Any, result: Any, make: Callable[[Any, Any, Any], Any]) -> Any:
    @_intrinsic
    def operation(typingctx, x, y):
        def code(context, builder, signature, args):
            return make(builder, *args)

        return result(kind, kind), code

    return operation


def _larger(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def _fold(kind: Any, result: Any, make: Callable[[Any, Any, Any], Any]) -> Any:
    """Reduce all lanes to one number, by halves."""

    @_intrinsic
    def operation(typingctx, x):
        def code(context, builder, signature, args):
            value = args[0]
            for half in (4, 2, 1):
                undefined = ir.Constant(value.type, ir.Undefined)
                width = value.type.count
                turn = [(lane + half) % width for lane in range(width)]
                indices = ir.Constant(ir.VectorType(_I32, width), turn)
                value = make(builder, value, builder.shuffle_vector(value, undefined, indices))
            return builder.extract_element(value, ir.Constant(_I32, 0))

        return result(kind), code

    return operation


add = _two(_vector, _vector, lambda b, x, y: b.fadd(x, y))
sub = _two(_vector, _vector, lambda b, x, y: b.fsub(x, y))
larger = _two(_vector, _vector, _larger)
above = _two(_vector, _mask, lambda b, x, y: b.fcmp_ordered(">", x, y))
equal = _two(_vector, _mask, lambda b, x, y: b.fcmp_ordered("==", x, y))
differ = _two(_vector, _mask, lambda b, x, y: b.fcmp_unordered("!=", x, y))
both = _two(_mask, _mask, lambda b, x, y: b.and_(x, y))
either = _two(_mask, _mask, lambda b, x, y: b.or_(x, y))
largest = _fold(_vector, types.float64, _larger)
total = _fold(_vector, types.float64, lambda b, x, y: b.fadd(x, y))


@_intrinsic
def bits(typingctx, some):
    """The mask as a number; lane 0 is the lowest bit."""

    def code(context, builder, signature, args):
        return builder.zext(builder.bitcast(args[0], ir.IntType(8)), ir.IntType(64))

    return types.int64(_mask), code


@_intrinsic
def lowest(typingctx, some):
    """Index of the lowest set bit; 64 if none is set."""

    def code(context, builder, signature, args):
        no = ir.Constant(ir.IntType(1), 0)
        return _call(builder, "llvm.cttz.i64", ir.IntType(64), [args[0], no])

    return types.int64(types.int64), code


@_intrinsic
def prefetch(typingctx, array, at):
    """Prefetch the cache line that holds element ``at``. Never faults."""

    def code(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        element = builder.gep(data, [context.cast(builder, args[1], signature.args[1], types.intp)])
        byte = builder.bitcast(element, ir.IntType(8).as_pointer())
        # for reading, to be kept in all caches, as data
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(array, at), code
