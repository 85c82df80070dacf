"""Keras 3's elementwise operations (keras.ops.add, exp, where …) inside functional models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from npinfer.errors import DtypeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.operands import aligned, cast, common, constant, dtype_named
from npinfer.ops.registry import LayerCall, Value, layer, operation
from npinfer.ops.shapes import broadcast

BOOL, INT32 = np.dtype(bool), np.dtype("int32")


class Rule(NamedTuple):
    """An elementwise function and its dtypes. takes: "any"; "float" (others are cast to the compute dtype first); "number"
    (bool becomes int32); "bool" (cast). gives: "same" as taken, or "bool"."""

    kind: str
    function: Callable[..., Array]
    takes: str = "any"
    gives: str = "same"


def _floor_divide(a: Array, b: Array) -> Array:
    """TensorFlow floors the rounded quotient (1 // 0.1 is 10); NumPy's own operator gives 9."""
    return np.floor(a / b) if a.dtype.kind == "f" else a // b


def _divide_no_nan(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.zeros((), a.dtype), a / b)


def _power(a: Array, b: Array) -> Array:
    """Of -inf and -0.0 to the power of 0.5: inf and 0.0, as TensorFlow and C; NumPy since 2.4 takes square roots there."""
    y = np.power(a, b)
    half = np.equal(b, 0.5)
    if a.dtype.kind != "f" or not half.any():
        return np.asarray(y)
    y = np.where(half & (a == 0), np.zeros((), y.dtype), y)
    return np.where(half & (a == -np.inf), np.array(np.inf, y.dtype), y)


_UNARY: dict[str, Rule] = {
    "Absolute": Rule("abs", np.absolute),
    "Negative": Rule("negative", np.negative, "number"),
    "Sign": Rule("sign", np.sign, "number"),
    "Square": Rule("square", np.square, "number"),
    "Floor": Rule("floor", np.floor, "float"),
    "Ceil": Rule("ceil", np.ceil, "float"),
    "Trunc": Rule("trunc", lambda x: np.trunc(x) if x.dtype.kind == "f" else x),  # NumPy before 2.1 makes integers float64
    "Round": Rule("round", np.rint),
    "Reciprocal": Rule("reciprocal", lambda x: 1 / x, "float"),
    "Sqrt": Rule("sqrt", np.sqrt, "float"),
    "Rsqrt": Rule("rsqrt", lambda x: 1 / np.sqrt(x), "float"),
    "Cbrt": Rule("cbrt", np.cbrt, "float"),
    "Exp": Rule("exp", np.exp, "float"),
    "Exp2": Rule("exp2", np.exp2, "float"),
    "Expm1": Rule("expm1", np.expm1, "float"),
    "Log": Rule("log", np.log, "float"),
    "Log1p": Rule("log1p", np.log1p, "float"),
    "Log2": Rule("log2", np.log2, "float"),
    "Log10": Rule("log10", np.log10, "float"),
    "Sin": Rule("sin", np.sin, "float"),
    "Cos": Rule("cos", np.cos, "float"),
    "Tan": Rule("tan", np.tan, "float"),
    "Arcsin": Rule("arcsin", np.arcsin, "float"),
    "Arccos": Rule("arccos", np.arccos, "float"),
    "Arctan": Rule("arctan", np.arctan, "float"),
    "Sinh": Rule("sinh", np.sinh, "float"),
    "Cosh": Rule("cosh", np.cosh, "float"),
    "Arcsinh": Rule("arcsinh", np.arcsinh, "float"),
    "Arccosh": Rule("arccosh", np.arccosh, "float"),
    "Arctanh": Rule("arctanh", np.arctanh, "float"),
    "Deg2rad": Rule("deg2rad", np.deg2rad, "float"),
    "Rad2deg": Rule("rad2deg", np.rad2deg, "float"),
    "Sinc": Rule("sinc", np.sinc, "float"),
    "Isnan": Rule("isnan", np.isnan, "any", "bool"),
    "Isinf": Rule("isinf", np.isinf, "any", "bool"),
    "Isposinf": Rule("isposinf", np.isposinf, "float", "bool"),
    "Isneginf": Rule("isneginf", np.isneginf, "float", "bool"),
    "Isfinite": Rule("isfinite", np.isfinite, "any", "bool"),
    "Signbit": Rule("signbit", np.signbit, "any", "bool"),
    "LogicalNot": Rule("logical_not", np.logical_not, "bool", "bool"),
    "BitwiseNot": Rule("bitwise_not", np.invert),
}
_SAME_UNARY = {"Abs": "Absolute", "Fabs": "Absolute", "BitwiseInvert": "BitwiseNot"}

_BINARY: dict[str, Rule] = {
    "Add": Rule("add", np.add),
    "Subtract": Rule("subtract", np.subtract, "number"),
    "Multiply": Rule("multiply", np.multiply),
    "Divide": Rule("divide", np.divide, "float"),
    "DivideNoNan": Rule("divide_no_nan", _divide_no_nan, "float"),
    "FloorDivide": Rule("floor_divide", _floor_divide, "number"),
    "Mod": Rule("mod", np.mod, "number"),
    "Fmod": Rule("fmod", np.fmod, "number"),
    "Power": Rule("power", _power, "number"),
    "Maximum": Rule("maximum", np.maximum),
    "Minimum": Rule("minimum", np.minimum),
    "Fmax": Rule("fmax", np.fmax),
    "Fmin": Rule("fmin", np.fmin),
    "Arctan2": Rule("arctan2", np.arctan2, "float"),
    "Hypot": Rule("hypot", np.hypot, "float"),
    "Logaddexp": Rule("logaddexp", np.logaddexp, "float"),
    "Logaddexp2": Rule("logaddexp2", np.logaddexp2, "float"),
    "Heaviside": Rule("heaviside", np.heaviside, "float"),
    "Equal": Rule("equal", np.equal, "any", "bool"),
    "NotEqual": Rule("not_equal", np.not_equal, "any", "bool"),
    "Greater": Rule("greater", np.greater, "any", "bool"),
    "GreaterEqual": Rule("greater_equal", np.greater_equal, "any", "bool"),
    "Less": Rule("less", np.less, "any", "bool"),
    "LessEqual": Rule("less_equal", np.less_equal, "any", "bool"),
    "LogicalAnd": Rule("logical_and", np.logical_and, "bool", "bool"),
    "LogicalOr": Rule("logical_or", np.logical_or, "bool", "bool"),
    "LogicalXor": Rule("logical_xor", np.logical_xor, "bool", "bool"),
    "BitwiseAnd": Rule("bitwise_and", np.bitwise_and),
    "BitwiseOr": Rule("bitwise_or", np.bitwise_or),
    "BitwiseXor": Rule("bitwise_xor", np.bitwise_xor),
}
_SAME_BINARY = {"TrueDivide": "Divide"}

UNARY = {rule.kind: rule for rule in _UNARY.values()}
BINARY = {rule.kind: rule for rule in _BINARY.values()}
#: operations by name
SINGLES = {**_UNARY, **{alias: _UNARY[name] for alias, name in _SAME_UNARY.items()}}
PAIRS = {**_BINARY, **{alias: _BINARY[name] for alias, name in _SAME_BINARY.items()}}


class Unary(Op):
    """UNARY[kind] of every element."""

    kind: str
    elementwise: ClassVar[bool] = True
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, BOOL if UNARY[self.kind].gives == "bool" else x.dtype)

    def __call__(self, x: Array) -> Array:
        return UNARY[self.kind].function(x)


class Binary(Op):
    """BINARY[kind] of two inputs of equal rank and dtype, or of one input and a constant.

    constant: an array that broadcasts against the last axes of a sample; first: it is the left operand."""

    kind: str
    constant: Array | None = None
    first: bool = False
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec, *other: Spec) -> Spec:
        y = other[0] if self.constant is None else Spec(self.constant.shape, self.constant.dtype)
        if x.dtype != y.dtype:
            raise DtypeError(f"{self.kind} of {x.dtype} and {y.dtype}")
        return Spec(broadcast(x.shape, y.shape), BOOL if BINARY[self.kind].gives == "bool" else x.dtype)

    def __call__(self, x: Array, *other: Array) -> Array:
        y = other[0] if self.constant is None else self.constant
        return BINARY[self.kind].function(y, x) if self.first else BINARY[self.kind].function(x, y)


class Where(Op):
    """Where the condition holds, x1, else x2. What is a constant is a field; the inputs are the others, in this order."""

    condition: Array | None = None
    x1: Array | None = None
    x2: Array | None = None
    any_rank: ClassVar[bool] = True

    def infer(self, *inputs: Spec) -> Spec:
        given = iter(inputs)
        parts = [next(given) if c is None else Spec(c.shape, c.dtype) for c in (self.condition, self.x1, self.x2)]
        if parts[0].dtype != BOOL or parts[1].dtype != parts[2].dtype:
            raise DtypeError(f"where of {', '.join(str(p.dtype) for p in parts)}")
        return Spec(broadcast(*(p.shape for p in parts)), parts[1].dtype)

    def __call__(self, *arrays: Array) -> Array:
        given = iter(arrays)
        condition, x1, x2 = (next(given) if c is None else c for c in (self.condition, self.x1, self.x2))
        return np.where(condition, x1, x2)


class NanToNum(Op):
    """Replace NaN and infinities by numbers (None: the dtype's largest)."""

    nan: float = 0.0
    posinf: float | None = None
    neginf: float | None = None
    elementwise: ClassVar[bool] = True
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        return np.nan_to_num(x, nan=self.nan, posinf=self.posinf, neginf=self.neginf)


def unary(call: LayerCall, kind: str, x: Value) -> Value:
    """UNARY[kind] of x in the dtype that Keras computes it in."""
    takes, dtype = UNARY[kind].takes, x.spec.dtype
    if takes == "float" and dtype.kind != "f":
        x = cast(call, x, call.dtype)
    elif takes == "number" and dtype == BOOL:
        x = cast(call, x, INT32)
    elif takes == "bool":
        x = cast(call, x, BOOL)
    return call.emit(Unary(kind), x)


def binary(call: LayerCall, kind: str, a: Any, b: Any) -> Value:
    """BINARY[kind] of tensors or constants, in Keras's common dtype."""
    takes = BINARY[kind].takes
    (a, b), dtype = common(call, a, b, floats=takes == "float")
    if takes == "bool" or (takes == "number" and dtype == BOOL):
        to = BOOL if takes == "bool" else INT32
        a, b = (cast(call, v, to) if isinstance(v, Value) else v.astype(to) for v in (a, b))
    if isinstance(a, Value) and isinstance(b, Value):
        return call.emit(Binary(kind), a, b)
    return call.emit(Binary(kind, b), a) if isinstance(a, Value) else call.emit(Binary(kind, a, True), b)


def operands(call: LayerCall, args: tuple[Any, ...], *names: str) -> list[Any]:
    """The call's operands, whether the file passes them by position or by name; None where one is left out."""
    return [*args, *(call.take(n) for n in names[len(args) :])]


@operation(*(SINGLES.keys() - {"Round"}))
def unary_operation(call: LayerCall, *args: Any) -> Value:
    (x,) = operands(call, args, "x")
    return unary(call, SINGLES[call.layer.class_name].kind, x)


@operation(*PAIRS)
def binary_operation(call: LayerCall, *args: Any) -> Value:
    a, b = operands(call, args, "x1", "x2")
    if a is None or b is None:  # tf.keras records `a == b` with one of them alone, and can't load that file itself
        call.refuse("the file doesn't tell its second operand")
    return binary(call, PAIRS[call.layer.class_name].kind, a, b)


@operation("SquaredDifference")
def squared_difference(call: LayerCall, a: Any, b: Any) -> Value:
    return unary(call, "square", binary(call, "subtract", a, b))


@operation("Round")
def round_operation(call: LayerCall, x: Value) -> Value:
    decimals = int(call.config.get("decimals") or 0)
    if not decimals or x.spec.dtype.kind != "f":
        return x if x.spec.dtype.kind != "f" and decimals >= 0 else unary(call, "round", x)
    factor = 10.0**decimals
    return binary(call, "divide", unary(call, "round", binary(call, "multiply", x, factor)), factor)


@operation("Clip")
def clip(call: LayerCall, *args: Any) -> Value:
    """As tf.clip_by_value: the upper bound first, so that the lower one wins where they cross."""
    x, low, high = args[0], call.setting("x_min"), call.setting("x_max")
    x = x if high is None else binary(call, "minimum", x, high)
    return x if low is None else binary(call, "maximum", x, low)


@operation("Where")
def where(call: LayerCall, *args: Any) -> Value:
    condition, x1, x2 = operands(call, args, "condition", "x1", "x2")
    if x1 is None or x2 is None:
        call.refuse("one operand alone gives indices, a result whose shape depends on the data")
    tensors = [v for v in (condition, x1, x2) if isinstance(v, Value)]
    aligned(call, tensors)
    (x1, x2), _ = common(call, x1, x2, like=tensors[0])
    if isinstance(condition, Value):
        condition = cast(call, condition, BOOL)
    else:
        condition = constant(call, condition, tensors[0]).astype(BOOL)
    parts = {"condition": condition, "x1": x1, "x2": x2}
    constants = {k: v for k, v in parts.items() if not isinstance(v, Value)}
    return call.emit(Where(**constants), *(v for v in parts.values() if isinstance(v, Value)))


@operation("NanToNum")
def nan_to_num(call: LayerCall, x: Value) -> Value:
    c = call.config
    return x if x.spec.dtype.kind != "f" else call.emit(NanToNum(c.get("nan", 0.0), c.get("posinf"), c.get("neginf")), x)


@operation("Cast")
def cast_operation(call: LayerCall, x: Value) -> Value:
    return cast(call, x, dtype_named(call, call.config.get("dtype") or call.layer.dtype))


@operation("StopGradient", "Copy", "ConvertToTensor", "Array", "Real", "Conj", "Conjugate")
def unchanged(call: LayerCall, x: Value) -> Value:
    dtype = call.config.get("dtype")
    return x if dtype is None else cast(call, x, dtype_named(call, dtype, x.spec.dtype))


@layer("LayerScale", variables=lambda c: ["gamma"])
def layer_scale(call: LayerCall, x: Value) -> Value:
    """A factor for each channel, as ConvNeXt of keras.applications uses it."""
    return binary(call, "multiply", x, call.weights["gamma"])
