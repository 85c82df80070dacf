"""Elementwise operations and merges of arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from math import inf, log, pi

import numpy as np

from npinfer.export.activations import log1p
from npinfer.export.functions import UNARY, signbit
from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import BOOL, INT32, INT64, Operand, Value
from npinfer.ops.arithmetic import Binary, NanToNum, Unary, Where
from npinfer.ops.cast import Cast
from npinfer.ops.merge import Merge


@exports(Cast)
def cast(net: Net, op: Cast, x: Value) -> Value:
    return x.cast(op.dtype)


@exports(Unary)
def unary(net: Net, op: Unary, x: Value) -> Value:
    return UNARY[op.kind](x)


def extreme(kind: str, a: Value, b: Operand) -> Value:
    """Max or Min; for bool by logic."""
    if a.dtype == BOOL:
        return a.do("Or" if kind == "Max" else "And", b)
    return a.do(kind, b)


def _by_logic(kind: str, logic: str) -> Callable[[Value, Value], Value]:
    """NumPy adds and multiplies bools by "or" and "and"."""
    return lambda a, b: a.do(logic if a.dtype == BOOL else kind, b)


def _no_zero(b: Value) -> tuple[Value, Value]:
    """Where an integer divisor is 0 (NumPy gives 0 there, runtimes crash), and divisors without it."""
    zero = b.equals(0)
    return zero, zero.where(1, b)


def _floor_divide(a: Value, b: Value) -> Value:
    if a.dtype.kind == "f":
        return (a / b).do("Floor")
    zero, b = _no_zero(b)
    return zero.where(0, (a - a.do("Mod", b)) / b)  # ONNX's Mod has the divisor's sign, so this division leaves no rest


def _mod(a: Value, b: Value) -> Value:
    if a.dtype.kind == "f":
        rest = a.do("Mod", b, fmod=1)
        wrong = (rest * b.do("Sign")) < 0.0
        return wrong.where(rest + b, rest)
    zero, b = _no_zero(b)
    return zero.where(0, a.do("Mod", b))


def _fmod(a: Value, b: Value) -> Value:
    if a.dtype.kind == "f":
        return a.do("Mod", b, fmod=1)
    zero, b = _no_zero(b)
    return zero.where(0, a.do("Mod", b, fmod=1))


def _number_wins(kind: str) -> Callable[[Value, Value], Value]:
    """fmax and fmin: NaN loses against any number."""

    def function(a: Value, b: Value) -> Value:
        best = extreme(kind, a, b)
        if a.dtype.kind != "f":
            return best
        return a.do("IsNaN", dtype=BOOL).where(b, b.do("IsNaN", dtype=BOOL).where(a, best))

    return function


def _arctan2(y: Value, x: Value) -> Value:
    both = (abs(y).equals(inf)) & (abs(x).equals(inf))
    y, x = both.where(y.do("Sign"), y), both.where(x.do("Sign"), x)
    angle = UNARY["arctan"](x.equals(0.0).where(1.0, y / x))
    upper = 1.0 - signbit(y).cast(x.dtype) * 2.0
    angle = x.equals(0.0).where(y.do("Sign") * (pi / 2), angle)
    left = (x < 0.0).where(angle + upper * pi, angle)
    flat = y.equals(0.0)
    return flat.where(signbit(x).where(upper * pi, y), left)


def _hypot(a: Value, b: Value) -> Value:
    a, b = abs(a), abs(b)
    big, small = a.do("Max", b), a.do("Min", b)
    share = small / big.equals(0.0).where(1.0, big)
    return big.equals(inf).where(inf, big * (share * share + 1.0).sqrt())


def _log_add(a: Value, b: Value) -> Value:
    away = a.equals(b).where(0.0, abs(a - b))
    return a.do("Max", b) + log1p((-away).exp())


def _comparison(kind: str) -> Callable[[Value, Value], Value]:
    def function(a: Value, b: Value) -> Value:
        if a.dtype == BOOL:
            a, b = a.cast(INT32), b.cast(INT32)
        return a.do(kind, b, dtype=BOOL)

    return function


def _bitwise(kind: str) -> Callable[[Value, Value], Value]:
    return lambda a, b: a.do(kind if a.dtype == BOOL else f"Bitwise{kind}", b)


def _heaviside(x: Value, h: Value) -> Value:
    step = (x > 0.0).cast(x.dtype)
    return x.do("IsNaN", dtype=BOOL).where(x, x.equals(0.0).where(h, step))


BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": _by_logic("Add", "Or"),
    "subtract": Value.__sub__,
    "multiply": _by_logic("Mul", "And"),
    "divide": Value.__truediv__,
    "divide_no_nan": lambda a, b: b.equals(0.0).where(0.0, a / b),
    "floor_divide": _floor_divide,
    "mod": _mod,
    "fmod": _fmod,
    "power": lambda a, b: a.do("Pow", b),
    "maximum": lambda a, b: extreme("Max", a, b),
    "minimum": lambda a, b: extreme("Min", a, b),
    "fmax": _number_wins("Max"),
    "fmin": _number_wins("Min"),
    "arctan2": _arctan2,
    "hypot": _hypot,
    "logaddexp": _log_add,
    "logaddexp2": lambda a, b: _log_add(a * log(2), b * log(2)) / log(2),
    "heaviside": _heaviside,
    "equal": Value.equals,
    "not_equal": lambda a, b: ~a.equals(b),
    "greater": _comparison("Greater"),
    "greater_equal": _comparison("GreaterOrEqual"),
    "less": _comparison("Less"),
    "less_equal": _comparison("LessOrEqual"),
    "logical_and": Value.__and__,
    "logical_or": Value.__or__,
    "logical_xor": lambda a, b: a.do("Xor", b),
    "bitwise_and": _bitwise("And"),
    "bitwise_or": _bitwise("Or"),
    "bitwise_xor": _bitwise("Xor"),
}
#: kinds and dtypes of integers for which ONNX Runtime computes in a wider one
WIDENED = ("power",), ("int8", "int16", "uint8", "uint16", "uint32")


@exports(Binary)
def binary(net: Net, op: Binary, x: Value, *other: Value) -> Value:
    y = other[0] if op.constant is None else net.fixed(op.constant)
    a, b = (y, x) if op.first else (x, y)
    narrow = a.dtype
    if narrow == np.dtype("int16") or (op.kind in WIDENED[0] and narrow.name in WIDENED[1]):
        a, b = a.cast(INT64), b.cast(INT64)
    made = BINARY[op.kind](a, b)
    return made if made.dtype == BOOL else made.cast(narrow)


@exports(Where)
def where(net: Net, op: Where, *xs: Value) -> Value:
    given = iter(xs)
    c, a, b = (next(given) if k is None else net.fixed(k) for k in (op.condition, op.x1, op.x2))
    return c.where(a, b)


@exports(NanToNum)
def nan_to_num(net: Net, op: NanToNum, x: Value) -> Value:
    most = float(np.finfo(x.dtype).max)
    high, low = most if op.posinf is None else op.posinf, -most if op.neginf is None else op.neginf
    y = x.equals(inf).where(high, x.equals(-inf).where(low, x))
    return x.do("IsNaN", dtype=BOOL).where(op.nan, y)


MERGES = {
    "add": "add",
    "average": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "maximum": "maximum",
    "minimum": "minimum",
}


@exports(Merge)
def merge(net: Net, op: Merge, *xs: Value) -> Value:
    origins = [x.origin for x in xs]
    orders = {o[1] for o in origins if o is not None}
    if None not in origins and len(orders) == 1:  # all are transposed alike: merge before that
        sources = [o[0] for o in origins if o is not None]
        return net.transpose(_merged(op.kind, sources), next(iter(orders)))
    return _merged(op.kind, list(xs))


def _merged(kind: str, xs: list[Value]) -> Value:
    y = fold(BINARY[MERGES.get(kind, kind)], xs)
    return y / float(len(xs)) if kind == "average" else y
