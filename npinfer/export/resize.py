"""Resizing of images: ONNX's Resize for bilinear, matrices of weights for the other methods, as npinfer.ops.resize has them."""

from __future__ import annotations

import numpy as np

from npinfer.export.net import Net, channels_first, channels_last
from npinfer.export.registry import exports
from npinfer.export.values import FLOAT32, INT64, Value, ints
from npinfer.ops.resize import Resize, places, weights


@exports(Resize)
def resize(net: Net, op: Resize, x: Value) -> Value:
    assert x.shape is not None
    height, width = op.sizes(x.shape[0], x.shape[1])
    old = x.shape[:2]
    image = channels_first(x)
    if op.method == "nearest":
        for axis, n, m, k in ((2, old[0], height, 0), (3, old[1], width, 1)):
            image = image.do("Gather", _nearest(net, op, x, k, n, m), axis=axis)
        return channels_last(image, 4)
    if op.method == "bilinear" and not op.antialias:
        return channels_last(_bilinear(net, op, image), 4)
    if None in (*old, height, width):
        net.refuse(f"{op.method} resizing{' with antialias' if op.antialias else ''} of images whose size is open")
    down, across = (
        weights(n, m, op.method, op.antialias, op.centered).astype(x.dtype)
        for n, m in zip(old, (height, width))
        if n is not None and m is not None
    )
    rows = net.fixed(down, "rows").do("MatMul", image)
    return channels_last(rows.do("MatMul", net.fixed(across.T, "columns")), 4)


def _bilinear(net: Net, op: Resize, image: Value) -> Value:
    """In float32, as TensorFlow resizes float64 images too."""
    mode = "half_pixel" if op.centered else "asymmetric"
    start = image.do("Shape", dtype=INT64, start=0, end=2)
    if op.size is not None:
        ends: object = ints(op.size)
    else:
        ends = image.do("Shape", dtype=INT64, start=2, end=4) * ints(op.factors)
    sizes = net.node("Concat", start, ends, dtype=INT64, axis=0)
    y = image.cast(FLOAT32).do("Resize", None, None, sizes, mode="linear", coordinate_transformation_mode=mode)
    return y.cast(image.dtype)


def _nearest(net: Net, op: Resize, x: Value, axis: int, n: int | None, m: int | None) -> object:
    """Which row or column each one of the result is; computed at run time, in float32, where sizes are open."""
    if n is not None and m is not None:
        return places(n, m, op.centered).astype(INT64)
    size = net.size(x, axis + 1)
    assert isinstance(size, Value)
    count: int | Value = size * ints([op.factors[axis]]) if op.size is None else op.size[axis]
    wide = np.asarray([count], FLOAT32) if isinstance(count, int) else count.cast(FLOAT32)
    at = net.arange(count).cast(FLOAT32)
    at = (at + 0.5) * (size.cast(FLOAT32) / wide) if op.centered else at * (size.cast(FLOAT32) / wide)
    return at.do("Floor").cast(INT64).do("Min", size - ints([1]))
