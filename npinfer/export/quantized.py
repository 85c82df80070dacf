"""Layers that Keras 3 quantized, in floating point with the same roundings."""

from __future__ import annotations

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import INT32, INT64, Value
from npinfer.ops.quantized import Float8Round, Int8Dense

#: from these sizes on, float8 e4m3fn steps by the next power of two
BINADES = 2.0 ** np.arange(-5, 9)


@exports(Int8Dense)
def int8_dense(net: Net, op: Int8Dense, x: Value) -> Value:
    low, high = op.limits
    scale: Value = high / (abs(x).reduce("ReduceMax", [-1]) + op.epsilon)
    whole = (x * scale).do("Round").clip(low, high)
    y = whole.cast(op.kernel.dtype).do("MatMul", net.fixed(op.kernel, "kernel")).cast(x.dtype)
    y = y / (scale * net.fixed(op.kernel_scale, "kernel_scale"))
    return y if op.bias is None else y + net.fixed(op.bias, "bias")


@exports(Float8Round)
def float8_round(net: Net, op: Float8Round, x: Value) -> Value:
    y = (x / op.scale).clip(-448.0, 448.0)
    binade = (abs(y).unsqueeze(-1) >= BINADES.astype(x.dtype)).cast(INT32).reduce("ReduceSum", [-1], keepdims=False)
    units = net.fixed((2.0 ** np.arange(-9, 6)).astype(x.dtype))
    unit = units.do("Gather", binade.cast(INT64))
    return (y / unit).do("Round") * unit * op.scale
