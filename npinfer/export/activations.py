"""Elementwise activations: a function for each kind of npinfer.ops.activations.

NaN: ONNX doesn't say what Relu, Clip and Max make of it. NumPy (and Keras on TensorFlow) keep it; ONNX Runtime's Relu and Clip
keep it on some CPUs and give 0 or the bound on others.

ONNX keeps attributes in float32, so in float64 graphs the operators that have one are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import FLOAT32, FLOAT64, Value
from npinfer.ops import special
from npinfer.ops.activations import SELU_ALPHA, SELU_SCALE, Activation
from npinfer.ops.parametric import ParametricSoftplus, PReLU, SReLU


def relu(x: Value) -> Value:
    return x.do("Relu")


def minimum(x: Value, bound: float) -> Value:
    return x.do("Min", bound)


def expm1(x: Value) -> Value:
    """exp(x) - 1 = tanh(x/2)·(exp(x) + 1), which keeps the digits of small x."""
    return (x * 0.5).do("Tanh") * (x.exp() + 1.0)


def log1p(x: Value) -> Value:
    """log(u)·x/(u - 1) for u = 1 + x: the rounding of u cancels."""
    u = x + 1.0
    exact = u.do("Log") * x / (u - 1.0)
    return u.equals(1.0).where(x, u.equals(inf).where(u, exact))


def _relu_general(x: Value, slope: float, maximum: float, threshold: float) -> Value:
    kept = relu((x > threshold).where(x, 0.0) if threshold else x)
    kept = minimum(kept, maximum) if maximum != inf else kept
    return kept - relu(threshold - x) * slope if slope else kept


def _leaky(x: Value, slope: float) -> Value:
    return x.do("LeakyRelu", alpha=slope)  # the slope is a float32 in any model


def _elu(x: Value, alpha: float) -> Value:
    if x.dtype == FLOAT32:
        return x.do("Elu", alpha=alpha)
    return (x > 0.0).where(x, expm1(minimum(x, 0.0)) * alpha)


def _selu(x: Value) -> Value:
    return x.do("Selu") if x.dtype == FLOAT32 else _elu(x, SELU_ALPHA) * SELU_SCALE


def _celu(x: Value, alpha: float) -> Value:
    if x.dtype == FLOAT32:
        return x.do("Celu", alpha=alpha)
    return relu(x) + expm1(minimum(x, 0.0) / alpha) * alpha


def _polynomial(t: Value, coefficients: tuple[float, ...]) -> Value:
    """Powers of t times their coefficients, as one product."""
    powers = t.unsqueeze(-1).do("Pow", np.arange(len(coefficients), dtype=FLOAT64))
    return powers.do("MatMul", np.asarray(coefficients))


def _erf_wide(x: Value) -> Value:
    """As special.erf: ONNX Runtime has no Erf for float64."""
    z = minimum(abs(x), 30.0)
    small = minimum(z, 1.0)
    high = z.cast(FLOAT32).cast(FLOAT64)
    gauss = (-(high * high)).exp() * ((high - z) * (high + z)).exp()
    tail = _polynomial((z - special.K) / (z + special.K), special.TAIL) / (z * 2.0 + 1.0)
    y = (z < 1.0).where(small * _polynomial(small * small, special.CENTRE), 1.0 - gauss * tail)
    return y * x.do("Sign")


def _gelu_wide(x: Value) -> Value:
    """As special.times_normal_cdf, which keeps the digits of the left tail."""
    a = minimum(abs(x), 40.0)
    z = a * sqrt(0.5)
    high = a.cast(FLOAT32).cast(FLOAT64)
    gauss = (high * high * -0.5).exp() * ((high - a) * (high + a) * 0.5).exp() * 0.5
    tail = _polynomial((z - special.K) / (z + special.K), special.TAIL) / (z * 2.0 + 1.0) * gauss
    return x * (x < 0.0).where(tail, 1.0 - tail)


def erf(x: Value) -> Value:
    return _erf_wide(x) if x.dtype == FLOAT64 else x.do("Erf")


def _gelu(x: Value) -> Value:
    # ONNX's Gelu is younger than the opset written here; runtimes know this form and fuse it
    return _gelu_wide(x) if x.dtype == FLOAT64 else x * ((x / sqrt(2.0)).do("Erf") + 1.0) * 0.5


def _gelu_tanh(x: Value) -> Value:
    u = x * (x * x * 0.044715 + 1.0) * sqrt(2 / pi)
    return x * sigmoid(u * 2.0)


def sigmoid(x: Value) -> Value:
    return x.do("Sigmoid")


def softplus(x: Value) -> Value:
    if x.dtype == FLOAT32:
        return x.do("Softplus")
    return relu(x) + log1p((-abs(x)).exp())  # ONNX Runtime's Softplus overflows in float64


def _hard_sigmoid(x: Value, slope: float) -> Value:
    if x.dtype == FLOAT32:
        return x.do("HardSigmoid", alpha=slope, beta=0.5)
    return (x * slope + 0.5).clip(0.0, 1.0)


def _squareplus(x: Value, b: float) -> Value:
    return (x + (x * x + b).sqrt()) * 0.5


def _soft_shrink(x: Value, threshold: float) -> Value:
    return (x > threshold).where(x - threshold, (x < -threshold).where(x + threshold, 0.0))


def _sparse_plus(x: Value) -> Value:
    near = x.clip(-1.0, 1.0) + 1.0
    return (x < 1.0).where(near * near * 0.25, x)


#: (x, *parameters) → activation; the kinds of npinfer.ops.activations.ACTIVATIONS
KINDS: dict[str, Callable[..., Value]] = {
    "linear": lambda x: x,
    "relu": relu,
    "relu_max": lambda x, maximum: x.clip(0.0, maximum),
    "leaky_relu": _leaky,
    "relu_general": _relu_general,
    "thresholded_relu": lambda x, theta: x * (x > theta).cast(x.dtype),
    "elu": _elu,
    "selu": _selu,
    "celu": _celu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "sigmoid": sigmoid,
    "hard_sigmoid": lambda x: _hard_sigmoid(x, 1 / 6),
    "hard_sigmoid_k2": lambda x: _hard_sigmoid(x, 0.2),
    "tanh": lambda x: x.do("Tanh"),
    "silu": lambda x: x * sigmoid(x),
    "hard_silu": lambda x: x * _hard_sigmoid(x, 1 / 6),
    "softplus": softplus,
    "softsign": lambda x: x.do("Softsign"),
    "exponential": Value.exp,
    "mish": lambda x: x * softplus(x).do("Tanh"),
    "log_sigmoid": lambda x: -softplus(-x),
    "hard_shrink": lambda x, threshold: (abs(x) > threshold).where(x, 0.0),
    "soft_shrink": _soft_shrink,
    "tanh_shrink": lambda x: x - x.do("Tanh"),
    "squareplus": _squareplus,
    "hard_tanh": lambda x: x.clip(-1.0, 1.0),
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda x: ((x + 1.0) * 0.5).clip(0.0, 1.0),
    "threshold": lambda x, threshold, default: (x > threshold).where(x, default),
    "erf": erf,
}


@exports(Activation)
def activation(net: Net, op: Activation, x: Value) -> Value:
    if op.kind == "relu" and x.dtype.kind != "f":
        return x.do("Max", 0)
    return KINDS[op.kind](x, *op.parameters)


@exports(PReLU)
def prelu(net: Net, op: PReLU, x: Value) -> Value:
    return x.do("PRelu", net.fixed(op.alpha, "alpha"))


@exports(ParametricSoftplus)
def parametric_softplus(net: Net, op: ParametricSoftplus, x: Value) -> Value:
    return softplus(x * op.beta) * op.alpha


@exports(SReLU)
def srelu(net: Net, op: SReLU, x: Value) -> Value:
    low, high = x - op.t_left, x - op.t_right
    middle = relu(low).do("Min", op.t_right - op.t_left)
    return middle + op.t_left + minimum(low, 0.0) * op.a_left + relu(high) * op.a_right
