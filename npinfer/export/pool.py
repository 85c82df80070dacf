"""Pooling: by ONNX's operators in float32, else by slices."""

from __future__ import annotations

from functools import reduce as fold

import numpy as np

from npinfer.export.conv import pad_for, pads, spatial, taps
from npinfer.export.net import Net, channels_first, channels_last
from npinfer.export.registry import exports
from npinfer.export.values import FLOAT32, Value, ints
from npinfer.ops.pool import AdaptivePool, GlobalPool, Pool


@exports(Pool)
def pool(net: Net, op: Pool, x: Value) -> Value:
    ones = (1,) * len(op.window)
    if x.dtype != FLOAT32:
        return _by_slices(net, op, x)
    attributes = pads(op.padding, spatial(x), op.window, op.strides, ones)
    kind = "MaxPool" if op.kind == "max" else "AveragePool"
    y = channels_first(x).do(kind, kernel_shape=op.window, strides=op.strides, **attributes)
    return channels_last(y, x.rank)


def _by_slices(net: Net, op: Pool, x: Value) -> Value:
    ones = (1,) * len(op.window)

    def parts(image: Value, value: float) -> list[Value]:
        image.shape = image.shape or x.shape
        return taps(pad_for(image, op.padding, op.window, op.strides, ones, value), op.window, op.strides, ones)

    if op.kind == "max":
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return fold(lambda a, b: a.do("Max", b), parts(x, lowest))
    total = fold(Value.__add__, parts(x, 0.0))
    sizes = [net.size(x, a) for a in range(1, x.rank - 1)]
    inside = net.filled(1.0, [1, *sizes, 1], x.dtype)
    return total / fold(Value.__add__, parts(inside, 0.0))


@exports(GlobalPool)
def global_pool(net: Net, op: GlobalPool, x: Value, *mask: Value) -> Value:
    axes = list(range(1, x.rank - 1))
    if mask:
        kept = mask[0].unsqueeze(-1).cast(x.dtype)
        return (x * kept).reduce("ReduceSum", axes, op.keepdims) / kept.reduce("ReduceSum", axes, op.keepdims)
    if x.origin is not None:  # channels-first underneath
        source, order = x.origin
        if x.dtype == FLOAT32 and order == (0, *range(2, x.rank), 1):
            y = source.do("GlobalMaxPool" if op.kind == "max" else "GlobalAveragePool")
            return channels_last(y, x.rank) if op.keepdims else net.reshape(y, [0, -1])
    return x.reduce("ReduceMax" if op.kind == "max" else "ReduceMean", axes, op.keepdims)


@exports(AdaptivePool)
def adaptive_pool(net: Net, op: AdaptivePool, x: Value) -> Value:
    """A slice and a reduction for each window."""
    kind = "ReduceMax" if op.kind == "max" else "ReduceMean"
    for axis, m in enumerate(op.sizes, 1):
        n = net.size(x, axis)
        shape, found = x.shape, []
        for i in range(m):
            if isinstance(n, int):
                start, end = ints([i * n // m]), ints([-(-(i + 1) * n // m)])
                part = x.do("Slice", start, end, ints([axis]))
            else:
                first = n * ints([i]) / ints([m])
                last = (n * ints([i + 1]) + ints([m - 1])) / ints([m])
                part = x.do("Slice", first, last, ints([axis]))
            found.append(part.reduce(kind, [axis]))
        x = net.node("Concat", *found, axis=axis) if m > 1 else found[0]
        assert shape is not None
        x.shape = (*shape[: axis - 1], m, *shape[axis:])
    return x
