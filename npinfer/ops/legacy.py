"""Layers of Keras 1 that later versions dropped: Highway and MaxoutDense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.activations import activation_op, check_activation
from npinfer.ops.cast import as_float
from npinfer.ops.dense import Dense
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.special import sigmoid


class Highway(Op):
    """t * activation(x @ kernel + bias) + (1 - t) * x, with t = sigmoid(x @ carry_kernel + carry_bias).

    Source: Srivastava, Greff, Schmidhuber 2015. kernels: (n, n); biases: (n,) or None."""

    kernel: Array
    carry_kernel: Array
    bias: Array | None = None
    carry_bias: Array | None = None
    activation: Op | None = None

    def infer(self, x: Spec) -> Spec:
        for kernel, bias in ((self.kernel, self.bias), (self.carry_kernel, self.carry_bias)):
            made = Dense(kernel, bias).infer(x)
            if made.shape != x.shape:
                raise ShapeError(f"kernel {list(kernel.shape)}: a Highway's result has its input's width")
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        t = sigmoid(Dense(self.carry_kernel, self.carry_bias)(x))
        h = Dense(self.kernel, self.bias)(x)
        if self.activation is not None:
            h = self.activation(h)
        return np.asarray(t * h + (1 - t) * x)


class Maxout(Op):
    """The largest of several linear maps: max over k of x @ kernel[k] + bias[k].

    kernel: (pieces, n_in, n_out); bias: (pieces, n_out) or None; x: (n_in,) a sample."""

    kernel: Array
    bias: Array | None = None

    def infer(self, x: Spec) -> Spec:
        if self.kernel.ndim != 3 or len(x.shape) != 1 or x.shape[0] != self.kernel.shape[1]:
            raise ShapeError(f"a kernel of shape {list(self.kernel.shape)} for {list(x.shape)} a sample")
        if self.bias is not None and self.bias.shape != (self.kernel.shape[0], self.kernel.shape[2]):
            raise ShapeError(f"a bias of shape {list(self.bias.shape)} for a kernel of {list(self.kernel.shape)}")
        return Spec((self.kernel.shape[2],), x.dtype)

    def __call__(self, x: Array) -> Array:
        y = np.matmul(x, self.kernel)  # (pieces, batch, n_out)
        if self.bias is not None:
            y += self.bias[:, None]
        return np.asarray(y.max(0))


def _highway(config: Mapping[str, Any]) -> Iterator[str]:
    yield from ("kernel", "carry_kernel", "bias", "carry_bias") if config.get("use_bias", True) else ("kernel", "carry_kernel")


def _maxout(config: Mapping[str, Any]) -> Iterator[str]:
    yield from ("kernel", "bias") if config.get("use_bias", True) else ("kernel",)


def _rows(_: Mapping[str, Any], weights: Mapping[str, Array]) -> tuple[int | None, ...] | None:
    kernel = weights.get("kernel")
    return None if kernel is None else (kernel.shape[-2],)


@layer("Highway", variables=_highway, check=check_activation, input_shape=_rows)
def highway(call: LayerCall, x: Value) -> Value:
    """Keras 1."""
    w = call.weights
    op = activation_op(call, call.config.get("activation"), len(x.shape))
    return call.emit(Highway(w["kernel"], w["carry_kernel"], w.get("bias"), w.get("carry_bias"), op), as_float(call, x))


@layer("MaxoutDense", variables=_maxout, input_shape=_rows)
def maxout_dense(call: LayerCall, x: Value) -> Value:
    """Keras 1."""
    return call.emit(Maxout(call.weights["kernel"], call.weights.get("bias")), as_float(call, x))
