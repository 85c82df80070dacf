"""Softmax and its relatives along axes of a sample."""

from __future__ import annotations

import numpy as np

from npinfer.export.activations import relu, sigmoid
from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import INT64, Value
from npinfer.ops.softmax import Glu, LogSoftmax, Softmax, Sparsemax


@exports(Softmax)
def softmax(net: Net, op: Softmax, x: Value) -> Value:
    if len(op.axes) == 1:
        return x.do("Softmax", axis=op.axes[0])
    y = (x - x.reduce("ReduceMax", op.axes)).exp()
    return y / y.reduce("ReduceSum", op.axes)


@exports(LogSoftmax)
def log_softmax(net: Net, op: LogSoftmax, x: Value) -> Value:
    if len(op.axes) == 1:
        return x.do("LogSoftmax", axis=op.axes[0])
    y = x - x.reduce("ReduceMax", op.axes)
    return y - y.exp().reduce("ReduceSum", op.axes).do("Log")


def ranked(x: Value, axis: int, largest: bool, count: int | None = None) -> tuple[Value, Value]:
    """(values, int64 places) along an axis (negative or batch counted) in rank order; the first of equals first."""
    net = x.net
    n: int | Value = net.size(x, axis % x.rank) if count is None else count
    values, places = net.nodes_of("TopK", (x, net.vector([n])), 2, None, {"axis": axis, "largest": int(largest), "sorted": 1})
    return values, Value(net, places.name, INT64)


@exports(Sparsemax)
def sparsemax(net: Net, op: Sparsemax, x: Value) -> Value:
    (axis,) = op.axes
    falling, _ = ranked(x, axis, largest=True)
    total = falling.do("CumSum", np.asarray(axis, INT64))
    counts = net.arange(net.size(x, axis % x.rank), x.dtype) + 1.0
    if axis < -1:
        counts = counts.unsqueeze(*range(1, -axis))
    support = falling - (total - 1.0) / counts > 0.0
    k = support.cast(x.dtype).reduce("ReduceSum", [axis])
    tau = (support.where(total, 0.0).reduce("ReduceSum", [axis]) - 1.0) / k
    return relu(x - tau)


@exports(Glu)
def glu(net: Net, op: Glu, x: Value) -> Value:
    a, b = net.nodes_of("Split", (x,), 2, None, {"axis": op.axes[0], "num_outputs": 2})
    return a * sigmoid(b)
