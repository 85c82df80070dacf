"""The vector of lanes.py as a Numba type, so that the engine's loops are ordinary Numba functions: `F32x16` with + - * /,
`fma`, loads and stores. An address is a plain integer (`intp`); `x + 64` is one vector further.

`traced(f)` makes a function of Lanes callable from Numba functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba as nb
from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from npinfer.executors.native import lanes
from npinfer.executors.native.lanes import BITS, DOUBLES, F32, FLOATS, I32, I64, INTS, LANES, Lanes, broadcast, pointer, read

#: For every Numba function of this folder. error_model: division can't raise, so that no Python symbol is needed. The other
#: options leave out work of the compiler that this code has no use for.
jit = nb.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, no_rewrites=True)


class Vector(types.Type):  # type: ignore[misc]
    def __init__(self, name: str, llvm: ir.Type) -> None:
        super().__init__(name=name)
        self.llvm = llvm


class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        super().__init__(dmm, fe_type, fe_type.llvm)


register_model(Vector)(_Model)
f32x16, f64x16, mask16 = Vector("F32x16", FLOATS), Vector("F64x16", DOUBLES), Vector("Mask16", BITS)


def has_fma(context: Any) -> bool:
    """Whether the CPU that is compiled for multiplies and adds in one rounding."""
    triple, _, features = context.codegen().magic_tuple()
    return "+fma" in features.split(",") or triple.startswith(("aarch64", "arm64"))


def as_lanes(c: Any, b: Any, kind: Any, value: Any) -> Lanes:
    """Lanes of a Numba argument, which may be a number."""
    if isinstance(kind, types.Integer):
        value = b.sitofp(value, F32)
    elif isinstance(kind, types.Float) and kind.bitwidth == 64:
        value = b.fptrunc(value, F32)
    return Lanes(b, value if isinstance(kind, Vector) else broadcast(b, value), has_fma(c))


def primitive(result: Any, parameters: tuple[Any, ...], emit: Callable[..., Any]) -> Any:
    """A function for Numba code from emit(builder, *arguments) -> Lanes or an LLVM value. Vectors arrive as Lanes; where one is
    expected, a number will do."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        got = emit(b, *(as_lanes(c, b, t, v) if isinstance(p, Vector) else v for t, v, p in zip(s.args, args, parameters)))
        if result is types.void:
            return c.get_dummy_value()
        return got.value if isinstance(got, Lanes) else got

    def typed(*args: Any) -> Any:
        numbers = (types.Float, types.Integer)
        return result(
            *(a if isinstance(p, Vector) and isinstance(a, numbers) else p for a, p in zip(args, parameters))
        ), codegen

    wrappers: tuple[Callable[..., Any], ...] = (  # Numba counts the parameters
        lambda context: typed(),
        lambda context, a: typed(a),
        lambda context, a, b: typed(a, b),
        lambda context, a, b, c: typed(a, b, c),
    )
    return intrinsic(wrappers[len(parameters)])


def traced(function: Callable[..., Lanes], n: int = 1) -> Any:
    """A function of n Lanes for Numba code."""
    return primitive(f32x16, (f32x16,) * n, lambda b, *args: function(*args))


def _operator(op: Any, result: Vector) -> None:
    """A Python operator on vectors, or a vector and a number."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            fits = f32x16 in args and all(a is f32x16 or isinstance(a, (types.Float, types.Integer)) for a in args)
            return signature(result, *args) if fits else None

    def lower(c: Any, b: Any, s: Any, args: Any) -> Any:
        x, y = (as_lanes(c, b, t, v) for t, v in zip(s.args, args))
        return op(x, y).value

    infer_global(op)(Template)
    for one, other in ((f32x16, f32x16), (f32x16, types.Float), (types.Float, f32x16), (f32x16, types.Integer)):
        lower_builtin(op, one, other)(lower)


for _op in (operator.add, operator.sub, operator.mul, operator.truediv):
    _operator(_op, f32x16)
for _op in (operator.lt, operator.le, operator.gt, operator.ge):
    _operator(_op, mask16)

fma, maximum, minimum, sqrt = traced(lanes.fma, 3), traced(lanes.maximum, 2), traced(lanes.minimum, 2), traced(lanes.sqrt)
select = primitive(f32x16, (mask16, f32x16, f32x16), lambda b, m, x, y: lanes.select(m, x, y))
splat = primitive(f32x16, (types.float32,), broadcast)
splat_at = primitive(f32x16, (types.intp,), lambda b, a: broadcast(b, read(b, a, F32)))
load = primitive(f32x16, (types.intp,), read)
store = primitive(types.void, (types.intp, f32x16), lambda b, a, v: lanes.write(b, v.value, a))
load_tail = primitive(f32x16, (types.intp, types.intp), lanes.read_tail)
store_tail = primitive(types.void, (types.intp, types.intp, f32x16), lambda b, a, n, v: lanes.write_tail(b, v.value, a, n))
#: sums of many products, in float64
no_sum = primitive(f64x16, (), lambda b: ir.Constant(DOUBLES, [0.0] * LANES))
plus_product = primitive(f64x16, (f64x16, f32x16, f32x16), lambda b, t, x, y: lanes.plus_product(t, x, y))
wide_sum = primitive(types.float64, (f64x16,), lambda b, v: lanes.across(v, operator.add))
lane_sum = primitive(types.float32, (f32x16,), lambda b, v: lanes.across(v, operator.add))


def _first(b: Any, n: Any) -> Any:
    return b.icmp_signed("<", ir.Constant(INTS, list(range(LANES))), broadcast(b, b.trunc(n, I32)))


#: true in the first n lanes
first = primitive(mask16, (types.intp,), _first)


def _scalar(numba_type: Any, llvm_type: ir.Type, align: int) -> tuple[Any, Any]:
    def at(b: Any, address: Any, i: Any) -> Any:
        return b.gep(pointer(b, address, llvm_type), [i])

    get = primitive(numba_type, (types.intp, types.intp), lambda b, a, i: b.load(at(b, a, i), align=align))
    put = primitive(types.void, (types.intp, types.intp, numba_type), lambda b, a, i, v: b.store(v, at(b, a, i), align=align))
    return get, put


#: element i of the array at an address
f32_at, f32_put = _scalar(types.float32, F32, 4)
i64_at, _ = _scalar(types.int64, I64, 8)
i32_at, i32_put = _scalar(types.int32, I32, 4)
i8_at, _ = _scalar(types.int8, ir.IntType(8), 1)

#: element i of an array of int64 becomes v. Atomic only so that LLVM leaves loops of one or two turns as they are: vectors of
#: them, with all their checks, took longer than a layer
i64_put = primitive(
    types.void,
    (types.intp, types.intp, types.int64),
    lambda b, a, i, v: b.store_atomic(v, b.gep(pointer(b, a, I64), [i]), "monotonic", 8),
)
#: an int64 that another thread may be writing: later reads can't move before it
read_shared = primitive(types.int64, (types.intp,), lambda b, a: b.load_atomic(pointer(b, a, I64), "acquire", 8))
#: earlier reads can't move behind this
fence = primitive(types.void, (), lambda b: b.fence("acquire"))
