"""Rules for elementwise operations, comparisons, and what is done with truth values: where, masks. Nothing here needs Numba.

A truth value in scratch is a float whose 32 bits are all ones (true) or all zeros, so that choosing is bit by bit: `x and mask`
is x or 0, whatever x is, NaN and infinities included. In the caller's memory it is a byte, and has no compiled form here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.opcodes import REDUCTIONS, SCRATCH
from npinfer.executors.native.places import F32, Place
from npinfer.executors.native.program import Program, floats
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.graph import Array
from npinfer.ops.activations import Activation
from npinfer.ops.arithmetic import Binary, Unary, Where
from npinfer.ops.masking import Differs, StepsKept, ZeroUnless

TRUE = np.array(-1, np.int32).view(F32)
FLIPPED = {"greater": "less", "greater_equal": "less_equal"}  # with the operands exchanged
LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}

Operand = tuple[Place, tuple[int, ...]]


def is_truth(p: Program, v: int) -> bool:
    return bool(p.spec(v).dtype == bool) and p.places[v].region == SCRATCH


def word(p: Program, v: int) -> Operand:
    """A value whose elements are 32 bits: floats, truth values or int32."""
    if p.spec(v).dtype not in (F32, np.int32) and not is_truth(p, v):
        raise NotNative(f"{p.spec(v).dtype} values")
    if floats(p.spec(v)) == 0:
        raise NotNative("an empty array")
    return p.places[v], sizes(p.spec(v))


def fixed(p: Program, array: Array) -> Operand:
    """A constant as 32-bit elements."""
    if array.dtype == bool:
        array = np.where(array, TRUE, F32.type(0))
    elif array.dtype == np.int32:
        array = array.view(F32)
    elif array.dtype != F32:
        raise NotNative(f"{array.dtype} values")
    return p.constant(array), array.shape


def as_numbers(p: Program, out: Place, truth: Place, shape: Sequence[int]) -> None:
    """out = 1 where a truth value is set, 0 elsewhere."""
    p.binary("and", out, truth, p.constant(F32.type(1)), (shape, ()))


@packs(Unary)
def unary(p: Program, op: Unary, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    (x, shape), y = word(p, xs[0]), p.places[ys[0]]
    if op.kind == "logical_not":
        p.binary("xor", y, x, p.constant(TRUE), (shape, ()))
    elif p.spec(xs[0]).dtype != F32:
        raise NotNative(f"{op.kind} of {p.spec(xs[0]).dtype}")
    elif op.kind == "square":
        p.binary("multiply", y, x, x, (shape, shape))
    elif op.kind == "negative":
        p.binary("xor", y, x, p.constant(F32.type(-0.0)), (shape, ()))
    elif op.kind == "abs":
        p.binary("and_not", y, p.constant(F32.type(-0.0)), x, ((), shape))
    elif op.kind == "reciprocal":
        p.binary("divide", y, p.constant(F32.type(1)), x, ((), shape))
    elif op.kind == "isnan":
        p.binary("not_equal", y, x, x, (shape, shape))
    else:
        p.row(
            opcodes.MAP, y, x, values=(floats(p.spec(xs[0])),), activation=Activation("exponential") if op.kind == "exp" else op
        )


@packs(Binary)
def binary(p: Program, op: Binary, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    y, whole = p.places[ys[0]], p.spec(xs[0]).dtype.kind
    if op.kind == "power":
        power(p, op, xs[0], y)
        return
    if whole == "i" and op.kind in ("equal", "not_equal") and op.constant is not None and op.constant.size == 1:
        differs(p, xs[0], y, op.constant.reshape(()))
        if op.kind == "equal":
            p.binary("xor", y, y, p.constant(TRUE), (sizes(p.spec(ys[0])), ()))
        return
    operands = [word(p, v) for v in xs]
    if op.constant is not None:
        operands.append(fixed(p, op.constant))
    if op.first != (op.kind in FLIPPED):
        operands.reverse()
    kind = FLIPPED.get(op.kind) or LOGICAL.get(op.kind) or op.kind
    known = kind in opcodes.COMPARISONS or op.kind in LOGICAL or kind in opcodes.ARITHMETIC
    if not known or (op.kind not in LOGICAL and p.spec(xs[0]).dtype != F32):
        raise NotNative(f"{op.kind} of {p.spec(xs[0]).dtype}")
    (a, a_shape), (b, b_shape) = operands
    p.binary(kind, y, a, b, (a_shape, b_shape))


def power(p: Program, op: Binary, v: int, y: Place) -> None:
    """y = x to the power of one of a few constants, by products, a quotient or a square root."""
    (x, shape), c = word(p, v), op.constant
    if p.spec(v).dtype != F32 or c is None or op.first or c.size != 1 or c.item() not in (-1, 0.5, 1, 2, 3, 4):
        raise NotNative(f"power of {p.spec(v).dtype}")
    one, n = p.constant(F32.type(1)), floats(p.spec(v))
    if c.item() == -1:
        p.binary("divide", y, one, x, ((), shape))
    elif c.item() == 0.5:  # of -inf it is inf, of -0.0 0.0
        root, endless = p.buffer(n), p.buffer(n)
        p.row(opcodes.MAP, root, x, values=(n,), activation=Unary("sqrt"))
        p.binary("add", root, root, p.constant(F32.type(0)), (shape, ()))
        p.binary("equal", endless, x, p.constant(F32.type(-np.inf)), (shape, ()))
        choose(p, y, (endless, shape), (p.constant(F32.type(np.inf)), ()), (root, shape))
    elif c.item() == 1:
        p.binary("multiply", y, x, one, (shape, ()))
    else:
        square = y if c.item() == 2 else p.buffer(n)
        p.binary("multiply", square, x, x, (shape, shape))
        if c.item() > 2:
            p.binary("multiply", y, square, x if c.item() == 3 else square, (shape, shape))


def differs(p: Program, x: int, y: Place, value: Array) -> None:
    """y = x != value of an int32 or int64 input: of its 32-bit words."""
    place, shape, dtype = p.places[x], sizes(p.spec(x)), p.spec(x).dtype
    words, n = dtype.itemsize // 4, floats(p.spec(x))
    exact = np.asarray(value).astype(dtype)
    if dtype.kind != "i" or words not in (1, 2) or n == 0 or exact != value:
        raise NotNative(f"{dtype} values")
    parts = exact.reshape(1).view(F32)
    for k in range(words):
        part, differing = p.buffer(n), y if k == 0 else p.buffer(n)
        p.arrange(part, np.arange(n), place, words * np.arange(n) + k)
        p.binary("differs", differing, part, p.constant(parts[k]), (shape, ()))
        if k:
            p.binary("or", y, y, differing, (shape, shape))


@packs(Differs)
def differs_from(p: Program, op: Differs, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    if p.spec(xs[0]).dtype.kind == "i":
        differs(p, xs[0], p.places[ys[0]], np.asarray(op.value))
        return
    x, shape = word(p, xs[0])
    p.binary("not_equal", p.places[ys[0]], x, p.constant(F32.type(op.value)), (shape, ()))


@packs(StepsKept)
def steps_kept(p: Program, op: StepsKept, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    x, shape = word(p, xs[0])
    differing, n = p.buffer(floats(p.spec(xs[0]))), int(np.prod(shape))
    p.binary("not_equal", differing, x, p.constant(F32.type(op.value)), (shape, ()))
    p.row(opcodes.REDUCE, p.places[ys[0]], differing, values=(n // shape[-1], shape[-1], REDUCTIONS.index("any")))


@packs(ZeroUnless)
def zero_unless(p: Program, op: ZeroUnless, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    (x, shape), (mask, kept) = (word(p, v) for v in xs)
    p.binary("and", p.places[ys[0]], x, mask, (shape, (*kept, 1)))


def choose(p: Program, y: Place, condition: Operand, yes: Operand, no: Operand) -> None:
    """y = yes where the condition holds, no elsewhere."""
    parts: list[Operand] = []
    for kind, (x, own) in (("and", yes), ("and_not", no)):
        shape = np.broadcast_shapes(condition[1], own)
        parts.append((p.buffer(int(np.prod(shape))), shape))
        p.binary(kind, parts[-1][0], condition[0], x, (condition[1], own))
    (taken, one), (left, other) = parts
    p.binary("or", y, taken, left, (one, other))


@packs(Where)
def where(p: Program, op: Where, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    given = iter(xs)
    condition, yes, no = (word(p, next(given)) if c is None else fixed(p, c) for c in (op.condition, op.x1, op.x2))
    choose(p, p.places[ys[0]], condition, yes, no)
