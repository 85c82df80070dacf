"""Elementwise operations and merges. ONNX has fewer functions than NumPy, and ONNX Runtime fewer in float64 than in float32;
what is missing is written out so that the digits and the limits (0, infinity) are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold
from math import inf, log, pi

import numpy as np

from npinfer.export.activations import expm1, minimum
from npinfer.export.net import BOOL, FLOAT32, INT32, INT64, Net, Operand, Value
from npinfer.export.registry import exports

from npinfer.ops.arithmetic import Binary, NanToNum, Unary, Where
from npinfer.ops.cast import Cast
from npinfer.ops.merge import Merge


@exports(Cast)
def cast(net: Net, op: Cast, x: Value) -> Value:
    return x.cast(op.dtype)


def _plain(kind: str) -> Callable[[Value], Value]:
    return lambda x: x.do(kind)


def _either(kind: str, wide: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """ONNX's operator in float32, for which alone ONNX Runtime has it; another form in float64."""
    return lambda x: x.do(kind) if x.dtype == FLOAT32 else wide(x)


def _trunc(x: Value) -> Value:
    return x.do("Sign") * abs(x).do("Floor") if x.dtype.kind == "f" else x


def log1p(x: Value) -> Value:
    """log(u)·x/(u - 1) for u = 1 + x: the rounding of u cancels."""
    u = x + 1.0
    exact = u.do("Log") * x / (u - 1.0)
    return u.equals(1.0).where(x, u.equals(inf).where(u, exact))


def _atan(x: Value) -> Value:
    """In float64, from the float32 result a: atan(x) = a + atan((x - t)/(1 + x·t)) with t = tan(a), the rest being tiny."""
    far = abs(x) > 1.0
    z = far.where(x.do("Reciprocal"), x)
    a = z.cast(FLOAT32).do("Atan").cast(x.dtype)
    t = a.do("Sin") / a.do("Cos")
    a = a + (z - t) / (z * t + 1.0)
    return far.where(x.do("Sign") * (pi / 2) - a, a)


def _asin(x: Value) -> Value:
    return _atan(x / ((1.0 - x) * (x + 1.0)).sqrt())


def _asinh(x: Value) -> Value:
    a = abs(x)
    big = a > 1e8
    a = big.where(1.0, a)
    near = log1p(a + a * a / ((a * a + 1.0).sqrt() + 1.0))
    return x.do("Sign") * big.where(abs(x).do("Log") + log(2), near)


def _acosh(x: Value) -> Value:
    big = x > 1e8
    t = big.where(1.0, x) - 1.0
    return big.where(x.do("Log") + log(2), log1p(t + (t * t + t * 2.0).sqrt()))


def _sinh(x: Value) -> Value:
    e = expm1(minimum(abs(x), 20.0))
    size = (abs(x) > 20.0).where((abs(x) - log(2)).exp(), (e + e / (e + 1.0)) * 0.5)
    return x.do("Sign") * size


def _cosh(x: Value) -> Value:
    e = (abs(x) - log(2)).exp()
    return e + 0.25 / e


def _sinc(x: Value) -> Value:
    y = x * pi
    return x.equals(0.0).where(1.0, y.do("Sin") / y)


def _signbit(x: Value) -> Value:
    return (x < 0.0) | (x.do("Reciprocal") < 0.0) if x.dtype.kind == "f" else x < 0


def _finite(x: Value) -> Value:
    return abs(x) < inf if x.dtype.kind == "f" else x.equals(x)


def _nonfinite(kind: str) -> Callable[[Value], Value]:
    return lambda x: x.do(kind, dtype=BOOL) if x.dtype.kind == "f" else ~x.equals(x)


UNARY: dict[str, Callable[[Value], Value]] = {
    "abs": lambda x: x if x.dtype.kind in "bu" else abs(x),
    "negative": _plain("Neg"),
    "sign": _plain("Sign"),
    "square": lambda x: x * x,
    "floor": _plain("Floor"),
    "ceil": _plain("Ceil"),
    "trunc": _trunc,
    "round": lambda x: x.do("Round") if x.dtype.kind == "f" else x,
    "reciprocal": _plain("Reciprocal"),
    "sqrt": _plain("Sqrt"),
    "rsqrt": lambda x: x.sqrt().do("Reciprocal"),
    "cbrt": lambda x: x.do("Sign") * abs(x).do("Pow", 1 / 3),
    "exp": _plain("Exp"),
    "exp2": lambda x: x.net.node("Pow", np.asarray(2, x.dtype), x),
    "expm1": expm1,
    "log": _plain("Log"),
    "log1p": log1p,
    "log2": lambda x: x.do("Log") / log(2),
    "log10": lambda x: x.do("Log") / log(10),
    "sin": _plain("Sin"),
    "cos": _plain("Cos"),
    "tan": _either("Tan", lambda x: x.do("Sin") / x.do("Cos")),
    "arcsin": _either("Asin", _asin),
    "arccos": _either("Acos", lambda x: pi / 2 - _asin(x)),
    "arctan": _either("Atan", _atan),
    "sinh": _either("Sinh", _sinh),
    "cosh": _either("Cosh", _cosh),
    "arcsinh": _either("Asinh", _asinh),
    "arccosh": _either("Acosh", _acosh),
    "arctanh": _either("Atanh", lambda x: log1p(x * 2.0 / (1.0 - x)) * 0.5),
    "deg2rad": lambda x: x * (pi / 180),
    "rad2deg": lambda x: x * (180 / pi),
    "sinc": _sinc,
    "isnan": _nonfinite("IsNaN"),
    "isinf": _nonfinite("IsInf"),
    "isposinf": lambda x: x.equals(inf),
    "isneginf": lambda x: x.equals(-inf),
    "isfinite": _finite,
    "signbit": _signbit,
    "logical_not": Value.__invert__,
    "bitwise_not": lambda x: ~x if x.dtype == BOOL else x.do("BitwiseNot"),
}


@exports(Unary)
def unary(net: Net, op: Unary, x: Value) -> Value:
    return UNARY[op.kind](x)


def extreme(kind: str, a: Value, b: Operand) -> Value:
    """Max or Min; for bool by logic, for int16, which ONNX Runtime lacks, in int32."""
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
    upper = 1.0 - _signbit(y).cast(x.dtype) * 2.0
    angle = x.equals(0.0).where(y.do("Sign") * (pi / 2), angle)
    left = (x < 0.0).where(angle + upper * pi, angle)
    flat = y.equals(0.0)
    return flat.where(_signbit(x).where(upper * pi, y), left)


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


MERGES = {"add": "add", "average": "add", "subtract": "subtract", "multiply": "multiply", "maximum": "maximum", "minimum": "minimum"}


@exports(Merge)
def merge(net: Net, op: Merge, *xs: Value) -> Value:
    origins = [x.origin for x in xs]
    orders = {o[1] for o in origins if o is not None}
    if None not in origins and len(orders) == 1:  # all are transposed alike: merge before that
        sources = [o[0] for o in origins if o is not None]
        return net.transpose(_merged(op.kind, sources), next(iter(orders)))
    return _merged(op.kind, list(xs))


def _merged(kind: str, xs: list[Value]) -> Value:
    y = fold(BINARY[MERGES[kind]], xs)
    return y / float(len(xs)) if kind == "average" else y
