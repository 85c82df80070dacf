"""Keras 3's operations that measure and normalize: norm, normalize, moments, layer, RMS and batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.graph import Array
from npinfer.ops.affine import Affine, along
from npinfer.ops.arithmetic import binary, operands, unary
from npinfer.ops.cast import as_float
from npinfer.ops.norm import LayerNorm, RMSNorm, UnitNorm, negative
from npinfer.ops.operands import cast
from npinfer.ops.reductions import reduce
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.shapes import sample_axes


def vector_norm(call: LayerCall, x: Value, order: Any, axes: tuple[int, ...], keepdims: bool) -> Value:
    """The order-norm over axes: 2 (also None and "fro"), 1, 0, any number, ±inf."""
    if x.spec.dtype.kind != "f":
        x = cast(call, x, call.dtype)
    if order in (None, 2, "fro"):
        return unary(call, "sqrt", reduce(call, "sum", unary(call, "square", x), axes, keepdims))
    if not isinstance(order, (int, float)):
        call.refuse(f"norm of order {order!r}")
    size = unary(call, "abs", x)
    if order in (np.inf, -np.inf):
        return reduce(call, "max" if order > 0 else "min", size, axes, keepdims)
    if order == 0:
        return reduce(call, "sum", cast(call, binary(call, "not_equal", x, 0), x.spec.dtype), axes, keepdims)
    if order == 1:
        return reduce(call, "sum", size, axes, keepdims)
    total = reduce(call, "sum", binary(call, "power", size, float(order)), axes, keepdims)
    return binary(call, "power", total, 1.0 / order)


@operation("Norm")
def norm(call: LayerCall, x: Value) -> Value:
    order, axes = call.config.get("ord"), sample_axes(call, call.config.get("axis"), len(x.shape) + 1)
    order = {"inf": np.inf, "-inf": -np.inf}.get(order, order) if isinstance(order, str) else order
    if len(axes) > 1 and order not in (None, "fro"):
        call.refuse(f"norm of order {order!r} of matrices")
    return vector_norm(call, x, order, axes, bool(call.config.get("keepdims", False)))


def normalized(call: LayerCall, x: Value, axes: tuple[int, ...], order: int = 2, epsilon: float = 1e-7) -> Value:
    """x over its norm, which counts as epsilon where it is less (keras.ops.normalize)."""
    if x.spec.dtype.kind != "f":
        x = cast(call, x, call.dtype)
    if order == 2:
        return call.emit(UnitNorm(negative(axes, len(x.shape)), 1.0 / epsilon), x)
    return binary(call, "divide", x, binary(call, "maximum", vector_norm(call, x, order, axes, True), epsilon))


@operation("Normalize")
def normalize(call: LayerCall, x: Value) -> Value:
    axes, epsilon = sample_axes(call, call.config.get("axis", -1), len(x.shape) + 1), call.config.get("epsilon")
    return normalized(call, x, axes, call.config.get("order", 2), 1e-7 if epsilon is None else epsilon)


@operation("Moments")
def moments(call: LayerCall, x: Value) -> list[Value]:
    axes, keepdims = sample_axes(call, call.config.get("axes"), len(x.shape) + 1, "axes"), bool(call.config.get("keepdims"))
    return [reduce(call, kind, x, axes, keepdims) for kind in ("mean", "var")]


def _numbers(call: LayerCall, found: Any, x: Value, axes: tuple[int, ...]) -> Array | None:
    """A constant operand for some axes of x, in a form that broadcasts against a sample."""
    if found is None:
        return None
    if isinstance(found, Value):
        call.refuse("a scale or shift that is a tensor of the model")
    numbers = np.asarray(found, x.spec.dtype)
    return along(numbers, axes, len(x.shape)) if numbers.ndim == len(axes) else numbers


def _epsilon(call: LayerCall) -> float:
    found = call.config.get("epsilon")
    return 1e-7 if found is None else float(found)


@operation("LayerNorm")
def layer_norm(call: LayerCall, *args: Any) -> Value:
    x, gamma, beta = operands(call, args, "x", "gamma", "beta")
    x = as_float(call, x)
    axes = sample_axes(call, call.config.get("axis", -1), len(x.shape) + 1)
    gamma, beta = (_numbers(call, n, x, axes) for n in (gamma, beta))
    spread = bool(call.config.get("rms_scaling", False))
    return call.emit(LayerNorm(negative(axes, len(x.shape)), _epsilon(call), gamma, beta, spread), x)


@operation("RMSNorm")
def rms_norm(call: LayerCall, *args: Any) -> Value:
    x, scale = operands(call, args, "x", "scale")
    x = as_float(call, x)
    axes = sample_axes(call, call.config.get("axis", -1), len(x.shape) + 1)
    gamma = None if scale is None else _numbers(call, scale, x, axes)
    return call.emit(RMSNorm(negative(axes, len(x.shape)), _epsilon(call), gamma), x)


@operation("BatchNorm")
def batch_norm(call: LayerCall, *args: Any) -> Value:
    """With constant statistics."""
    x, *found = operands(call, args, "x", "mean", "variance", "offset", "scale")
    x = as_float(call, x)
    axes = sample_axes(call, call.config["axis"], len(x.shape) + 1)
    mean, variance, offset, scale = (_numbers(call, n, x, axes) for n in found)
    if mean is None or variance is None:
        call.refuse("statistics that are not constants")
    factor = 1 / np.sqrt(variance + np.asarray(call.config.get("epsilon", 1e-3), variance.dtype))
    factor = factor if scale is None else factor * scale
    return call.emit(Affine(factor, np.zeros_like(factor) if offset is None else offset, mean), x)
