"""Dense, and the layers of Keras 1 that are made of it."""

from __future__ import annotations

from npinfer.export.activations import sigmoid
from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import Value
from npinfer.ops.causal import WindowDense
from npinfer.ops.dense import Dense
from npinfer.ops.legacy import Highway, Maxout


@exports(Dense, WindowDense)
def dense(net: Net, op: Dense, x: Value) -> Value:
    kernel = net.fixed(op.kernel, "kernel")
    bias = None if op.bias is None else net.fixed(op.bias, "bias")
    if bias is not None and x.rank == 2 and x.dtype.kind == "f":
        y = x.do("Gemm", kernel, bias)
    else:
        y = x.do("MatMul", kernel)
        y = y if bias is None else y + bias
    return y if op.activation is None else net.apply(op.activation, y)


@exports(Highway)
def highway(net: Net, op: Highway, x: Value) -> Value:
    t = sigmoid(net.apply(Dense(op.carry_kernel, op.carry_bias), x))
    h = net.apply(Dense(op.kernel, op.bias), x)
    if op.activation is not None:
        h = net.apply(op.activation, h)
    return t * h + (1.0 - t) * x


@exports(Maxout)
def maxout(net: Net, op: Maxout, x: Value) -> Value:
    y = x.unsqueeze(1, 2).do("MatMul", net.fixed(op.kernel, "kernel"))  # (n, pieces, 1, units)
    y = y if op.bias is None else y + net.fixed(op.bias[:, None], "bias")
    return y.reduce("ReduceMax", [1, 2], keepdims=False)
