"""Loops over memory for elementwise functions and for two operands; one of many functions is chosen by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from npinfer.executors.native import lanes
from npinfer.executors.native.activations import FUNCTIONS
from npinfer.executors.native.lanes import F32, FLOATS, I64, Lanes, broadcast, read, write
from npinfer.executors.native.opcodes import BINARIES, COS, KINDS, LINE, SIN
from npinfer.executors.native.operations import LARGE, OPERATIONS, beyond
from npinfer.executors.native.vector import (
    as_lanes,
    f32_at,
    f32_put,
    f32x16,
    has_fma,
    jit,
    load,
    load_tail,
    splat,
    store,
    store_tail,
    traced,
)

COMPILED = {**FUNCTIONS, **OPERATIONS}
farther = traced(lambda x, y: lanes.maximum(x, abs(y)), 2)


def cases(b: Any, number: Any, emits: Mapping[int, Callable[..., Any]], otherwise: Any = None) -> Any:
    """A jump table: the code of emits[number], and its result if it has one."""
    start, end = b.block, b.append_basic_block("end")
    chosen = b.switch(number, end)
    results = [(otherwise, start)]
    for key, emit in emits.items():
        block = b.append_basic_block(f"case{key}")
        chosen.add_case(I64(key), block)
        b.position_at_end(block)
        results.append((emit(), b.block))
        b.branch(end)
    b.position_at_end(end)
    if otherwise is None:
        return None
    answer = b.phi(otherwise.type)
    for value, block in results:
        answer.add_incoming(value, block)
    return answer


@intrinsic  # type: ignore[untyped-decorator]
def whole_lines(context: Any, kind: Any, x: Any, y: Any, n: Any, p: Any) -> Any:
    """y = activation number `kind` of x for n floats, n a multiple of 16; its parameters are the floats at address p."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        kind, x, y, n, p = args
        end = b.add(x, b.shl(n, I64(2)))

        def loop_of(function: Callable[..., Lanes]) -> Callable[[], None]:
            def emit() -> None:
                count = len(signature(function).parameters) - 1
                parameters = [Lanes(b, broadcast(b, read(b, b.add(p, I64(4 * k)), F32)), has_fma(c)) for k in range(count)]
                before, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
                b.cbranch(b.icmp_signed("<", x, end), loop, after)
                b.position_at_end(loop)
                x_at, y_at = b.phi(I64), b.phi(I64)
                write(b, function(Lanes(b, read(b, x_at), has_fma(c)), *parameters).value, y_at)
                for phi, start in ((x_at, x), (y_at, y)):
                    phi.add_incoming(start, before)
                    phi.add_incoming(b.add(phi, I64(LINE)), loop)
                b.cbranch(b.icmp_signed("<", b.add(x_at, I64(LINE)), end), loop, after)
                b.position_at_end(after)

            return emit

        cases(b, kind, {number: loop_of(COMPILED[name]) for number, name in enumerate(KINDS)})
        return c.get_dummy_value()

    return types.void(*[types.intp] * 5), codegen


@intrinsic  # type: ignore[untyped-decorator]
def a_line(context: Any) -> Any:
    """The address of 64 bytes on the stack."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        with b.goto_entry_block():
            place = b.alloca(FLOATS)
        place.align = LINE
        return b.ptrtoint(place, I64)

    return types.intp(), codegen


@jit
def lines_of(kind, x, y, n, p):
    whole_lines(kind, x, y, n, p)


@jit
def angles(kind, x, y, n, p):
    """`activate` for sin or cos of n floats, large ones among them: each of those by itself, the others as always."""
    line = a_line()
    while n > 0:
        count = min(n, 16)
        store(line, load(x) if n >= 16 else load_tail(x, n))
        lines_of(kind, line, line, 16, p)
        for i in range(count):
            if not abs(f32_at(x, i)) < LARGE:
                f32_put(line, i, beyond(x + 4 * i, kind - SIN))
        if n >= 16:
            store(y, load(line))
        else:
            store_tail(y, n, load(line))
        x += 64
        y += 64
        n -= 16


@jit
def activate(kind, x, y, n, p):
    """y = activation(x) for n floats; y may be x, nothing beyond is read or written. p: address of the parameters."""
    if kind in (SIN, COS) and not all_near(x, n):
        angles(kind, x, y, n, p)
        return
    whole = n & ~15
    lines_of(kind, x, y, whole, p)
    if n != whole:
        line = a_line()
        store(line, load_tail(x + 4 * whole, n - whole))
        lines_of(kind, line, line, 16, p)
        store_tail(y + 4 * whole, n - whole, load(line))


def by_bits(operation: Callable[[Lanes, Lanes], Lanes]) -> Callable[[Lanes, Lanes], Lanes]:
    return lambda x, y: lanes.floats(operation(lanes.bits(x), lanes.bits(y)))


def truth(comparison: Callable[[Lanes, Lanes], Lanes]) -> Callable[[Lanes, Lanes], Lanes]:
    return lambda x, y: lanes.all_or_nothing(comparison(x, y))


COMBINE: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": lanes.maximum,
    "minimum": lanes.minimum,
    "less": truth(lambda x, y: x < y),
    "less_equal": truth(lambda x, y: x <= y),
    "equal": truth(lambda x, y: x.equals(y)),
    "not_equal": truth(lambda x, y: x.compare("!=", y)),
    "and": by_bits(lambda x, y: x & y),
    "and_not": by_bits(lambda x, y: (x ^ -1) & y),
    "or": by_bits(lambda x, y: x | y),
    "xor": by_bits(lambda x, y: x ^ y),
    "differs": truth(lambda x, y: lanes.bits(x).compare("!=", lanes.bits(y))),
}
LARGER = BINARIES.index("maximum")
FOLDED = ("add", "multiply", "maximum", "minimum", "or")  # what lanes are combined by


@intrinsic  # type: ignore[untyped-decorator]
def combine(context: Any, which: Any, x: Any, y: Any) -> Any:
    """x ∘ y, the operation by its place in BINARIES."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        x, y = (as_lanes(c, b, f32x16, v) for v in args[1:])
        emits = {k: lambda f=COMBINE[name]: f(x, y).value for k, name in enumerate(BINARIES)}
        return cases(b, args[0], emits, x.value)

    return f32x16(types.intp, f32x16, f32x16), codegen


@intrinsic  # type: ignore[untyped-decorator]
def combine_lanes(context: Any, which: Any, x: Any) -> Any:
    """The 16 lanes of x combined to one float."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        x = as_lanes(c, b, f32x16, args[1])
        emits = {BINARIES.index(name): lambda f=COMBINE[name]: lanes.across(x, f) for name in FOLDED}
        return cases(b, args[0], emits, ir.Constant(F32, 0.0))

    return types.float32(types.intp, f32x16), codegen


@jit
def all_near(x, n):
    """Whether all of n floats are below LARGE (NaN isn't)."""
    top = splat(0.0)
    while n >= 16:
        top = farther(top, load(x))
        x += 64
        n -= 16
    if n > 0:
        top = farther(top, load_tail(x, n))
    return combine_lanes(LARGER, top) < np.float32(LARGE)
