"""Joining, repeating and padding arrays."""

from __future__ import annotations

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import BEFORE_FIRST, INT32, INT64, LAST, Value, ints
from npinfer.ops.joining import Concatenate, FullLike, Pad, Repeat, Roll, Tile


@exports(Tile)
def tile(net: Net, op: Tile, x: Value) -> Value:
    return x.do("Tile", ints([1, *op.repeats]))


@exports(Repeat)
def repeat(net: Net, op: Repeat, x: Value) -> Value:
    axis = op.axis + 1
    if x.origin is not None:  # repeat before the transposition: upsampled images stay channels-first
        source, order = x.origin
        return net.transpose(repeated(source, order[axis], op.times, net.size(x, axis)), order)
    return repeated(x, axis, op.times, net.size(x, axis))


def repeated(x: Value, axis: int, times: int, n: int | Value) -> Value:
    net = x.net
    if isinstance(n, int):
        y = x.do("Gather", np.arange(n).repeat(times), axis=axis)
    else:
        places = net.arange(n * ints([times])).do("Div", ints([times]))
        y = x.do("Gather", places, axis=axis)
    if x.shape is not None and axis:
        known = n * times if isinstance(n, int) else None
        y.shape = tuple(known if k + 1 == axis else m for k, m in enumerate(x.shape))
    return y


@exports(Roll)
def roll(net: Net, op: Roll, x: Value) -> Value:
    shape = x.shape
    for shift, axis in zip(op.shifts, op.axes):
        n = net.size(x, axis + 1)
        cut: int | Value = -shift % n if isinstance(n, int) and n else 0
        if isinstance(n, Value):
            cut = net.node("Mod", ints([-shift]), n)
        place = net.vector([cut])
        front = x.do("Slice", ints([0]), place, ints([axis + 1]))
        rear = x.do("Slice", place, ints([LAST]), ints([axis + 1]))
        x = net.node("Concat", rear, front, axis=axis + 1)
        x.shape = shape
    return x


@exports(Concatenate)
def concatenate(net: Net, op: Concatenate, *xs: Value) -> Value:
    origins = [x.origin for x in xs]
    orders = {o[1] for o in origins if o is not None}
    if None not in origins and len(orders) == 1:  # all are transposed alike: join before that
        order = next(iter(orders))
        joined = net.node("Concat", *(o[0] for o in origins if o is not None), axis=order[op.axis + 1])
        return net.transpose(joined, order)
    return net.node("Concat", *xs, axis=op.axis + 1)


@exports(FullLike)
def full_like(net: Net, op: FullLike, x: Value) -> Value:
    return net.node("ConstantOfShape", x.do("Shape", dtype=INT64), dtype=op.dtype, value=np.asarray([op.value], op.dtype))


@exports(Pad)
def pad(net: Net, op: Pad, x: Value) -> Value:
    if op.mode == "symmetric":
        return _mirrored(x, op.widths)
    widths, source, order = [(0, 0), *op.widths], x, None
    if x.origin is not None:
        source, order = x.origin
        widths = [widths[order.index(a)] for a in range(len(order))]
    y = padded(source, [w[0] for w in widths], [w[1] for w in widths], op.mode, op.value)
    return y if order is None else net.transpose(y, order)


def padded(x: Value, before: list[int], after: list[int], mode: str = "constant", value: float = 0.0) -> Value:
    """x with entries added before and after each axis (batch counted)."""
    narrow = x.dtype
    if narrow.name in ("int16", "uint16"):  # ONNX Runtime pads few integer types
        x = x.cast(INT32)
    fill = np.asarray(value, x.dtype) if mode == "constant" and value else None
    return x.do("Pad", ints([*before, *after]), fill, mode=mode).cast(narrow)


def _mirrored(x: Value, widths: tuple[tuple[int, int], ...]) -> Value:
    """Symmetric padding, the edge repeated, which ONNX lacks."""
    for axis, (a, b) in enumerate(widths, 1):
        parts = [x.slice(axis, a - 1, BEFORE_FIRST, -1)] if a else []
        parts += [x, *([x.slice(axis, LAST, -1 - b, -1)] if b else [])]
        x = x.net.node("Concat", *parts, axis=axis) if len(parts) > 1 else x
    return x
