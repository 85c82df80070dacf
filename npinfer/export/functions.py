"""Elementwise functions of one array. ONNX has fewer than NumPy, and ONNX Runtime fewer in float64 than in float32; what is
missing is written out so that the digits and the limits (0, infinity) are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, pi

import numpy as np

from npinfer.export.activations import expm1, log1p, minimum
from npinfer.export.values import BOOL, FLOAT32, Value


def _plain(kind: str) -> Callable[[Value], Value]:
    return lambda x: x.do(kind)


def _either(kind: str, wide: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """ONNX's operator in float32, for which alone ONNX Runtime has it; another form in float64."""
    return lambda x: x.do(kind) if x.dtype == FLOAT32 else wide(x)


def _trunc(x: Value) -> Value:
    return x.do("Sign") * abs(x).do("Floor") if x.dtype.kind == "f" else x


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


def signbit(x: Value) -> Value:
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
    "signbit": signbit,
    "logical_not": Value.__invert__,
    "bitwise_not": lambda x: ~x if x.dtype == BOOL else x.do("BitwiseNot"),
}
