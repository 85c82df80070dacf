"""Convolutions. ONNX's are channels-first; the transpositions around them vanish between neighbours (Net.transpose).

ONNX Runtime convolves float32 alone, so float64 goes tap by tap: a matrix product for each place of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.export.joining import padded
from npinfer.export.net import Net, channels_first, channels_last
from npinfer.export.registry import exports
from npinfer.export.values import FLOAT64, INT64, LAST, Value, ints
from npinfer.graph import Array
from npinfer.ops.conv import Conv
from npinfer.ops.conv_transpose import ConvTranspose
from npinfer.ops.local import LocallyConnected
from npinfer.ops.windows import Padding, pairs_of

Sizes = Sequence[int | None]


def pads(
    padding: Padding, sizes: Sizes, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> dict[str, Any]:
    """The attributes of Conv and pooling for npinfer's padding: explicit numbers, unless TensorFlow's "same" needs sizes that
    are known at run time only; then SAME_UPPER, which is the same rule."""
    if padding == "same" and None in sizes and max(strides) > 1:
        return {"auto_pad": "SAME_UPPER"}
    # with strides of 1 the sizes don't matter
    pairs = pairs_of(padding, [1000 if n is None else n for n in sizes], window, strides, dilation)
    return {"pads": [a for a, _ in pairs] + [b for _, b in pairs]} if any(map(any, pairs)) else {}


def spatial(x: Value) -> Sizes:
    assert x.shape is not None
    return x.shape[:-1]


@exports(Conv)
def conv(net: Net, op: Conv, x: Value) -> Value:
    rank = x.rank
    bias = None if op.bias is None else net.fixed(op.bias, "bias")
    if x.dtype == FLOAT64:
        kernel = _ungrouped(op.kernel, op.groups)
        y = tap_by_tap(_padded(op, x), kernel, op.strides, op.dilation)
        y = y if bias is None else y + bias
        return y if op.activation is None else net.apply(op.activation, y)
    kernel = op.kernel.transpose(rank - 1, rank - 2, *range(rank - 2))
    attributes = pads(op.padding, spatial(x), op.window, op.strides, op.dilation)
    for name, numbers in (("strides", op.strides), ("dilations", op.dilation)):
        if max(numbers) > 1:
            attributes[name] = numbers
    if op.groups > 1:
        attributes["group"] = op.groups
    y = channels_first(x).do("Conv", net.fixed(kernel, "kernel"), bias, kernel_shape=op.window, **attributes)
    y = y if op.activation is None else net.apply(op.activation, y)
    return channels_last(y, rank)


def _ungrouped(kernel: Array, groups: int) -> Array:
    """The kernel of all channels, with zeros where groups don't meet."""
    if groups == 1:
        return kernel
    *window, inner, filters = kernel.shape
    wide = np.zeros((*window, inner * groups, filters), kernel.dtype)
    each = filters // groups
    for g in range(groups):
        rows, columns = slice(g * inner, (g + 1) * inner), slice(g * each, (g + 1) * each)
        wide[..., rows, columns] = kernel[..., columns]
    return wide


def _padded(op: Conv, x: Value) -> Value:
    return pad_for(x, op.padding, op.window, op.strides, op.dilation)


def pad_for(
    x: Value, padding: Padding, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int], value: float = 0.0
) -> Value:
    """x (channels last) with the padding of a convolution or pooling, found at run time where it must."""
    found = pads(padding, spatial(x), window, strides, dilation)
    if "auto_pad" in found:
        net, axes = x.net, len(window)
        sizes = x.do("Shape", dtype=INT64, start=1, end=axes + 1)
        step, reach = ints(strides), ints([(k - 1) * d + 1 for k, d in zip(window, dilation)])
        total = (((sizes + (step - 1)) / step - 1) * step + reach - sizes).do("Max", 0)
        before = total / 2
        zero = ints([0])
        both = net.node("Concat", zero, before, zero, zero, total - before, zero, dtype=INT64, axis=0)
        return x.do("Pad", both, np.asarray(value, x.dtype) if value else None, mode="constant")
    if not found:
        return x
    numbers, half = found["pads"], len(window)
    return padded(x, [0, *numbers[:half], 0], [0, *numbers[half:], 0], value=value)


def taps(x: Value, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> list[Value]:
    """For each place of the window, the entries of x (channels last, padded) that it meets, window by window."""
    found = []
    axes = ints(range(1, len(window) + 1))
    for tap in np.ndindex(*window):
        starts = [t * d for t, d in zip(tap, dilation)]
        left = [(k - 1 - t) * d for k, t, d in zip(window, tap, dilation)]
        ends = [-n if n else LAST for n in left]
        found.append(x.do("Slice", ints(starts), ints(ends), axes, ints(strides)))
    return found


def tap_by_tap(x: Value, kernel: Array, strides: Sequence[int], dilation: Sequence[int]) -> Value:
    """The convolution of padded x (channels last) as a sum of matrix products."""
    window = kernel.shape[:-2]
    y: Value | None = None
    for part, at in zip(taps(x, window, strides, dilation), np.ndindex(*window)):
        term = part.do("MatMul", x.net.fixed(np.ascontiguousarray(kernel[at]), "kernel"))
        y = term if y is None else y + term
    assert y is not None
    return y


@exports(LocallyConnected)
def locally_connected(net: Net, op: LocallyConnected, x: Value) -> Value:
    """The windows side by side, times a matrix for each place."""
    places, (depth, filters) = op.kernel.shape[:-2], op.kernel.shape[-2:]
    ones = (1,) * len(places)
    parts = taps(pad_for(x, op.padding, op.window, op.strides, ones), op.window, op.strides, ones)
    wide = parts[0] if len(parts) == 1 else net.node("Concat", *parts, dtype=x.dtype, axis=-1)
    rows = net.reshape(wide, [0, int(np.prod(places)), 1, depth])
    y = rows.do("MatMul", net.fixed(op.kernel.reshape(-1, depth, filters), "kernel"))
    y = net.reshape(y, [0, *places, filters])
    return y if op.bias is None else y + net.fixed(op.bias, "bias")


@exports(ConvTranspose)
def conv_transpose(net: Net, op: ConvTranspose, x: Value) -> Value:
    """What is cut off at the start and the end, or added at the end, doesn't depend on the size of x."""
    axes = range(x.rank - 2)
    spreads = [op.spread(a) for a in axes]
    size = [m or 0 for m in op.sizes([9] * len(axes))]
    full = [8 * s + k for s, k in zip(op.strides, spreads)]
    cut = [max(f - m, 0) // 2 if op.padding == "same" else 0 for f, m in zip(full, size)]
    ends = [f - c - m for f, c, m in zip(full, cut, size)]
    bias = None if op.bias is None else net.fixed(op.bias, "bias")
    if x.dtype == FLOAT64:
        y = _spread_out(op, x, spreads, cut, ends)
        y = y if bias is None else y + bias
        return y if op.activation is None else net.apply(op.activation, y)
    kernel = op.kernel.transpose(x.rank - 1, x.rank - 2, *axes)
    y = channels_first(x).do(
        "ConvTranspose",
        net.fixed(kernel, "kernel"),
        bias,
        kernel_shape=op.kernel.shape[:-2],
        strides=op.strides,
        dilations=op.dilation,
        pads=[*cut, *(max(e, 0) for e in ends)],
        output_padding=[max(-e, 0) for e in ends],
    )
    y = y if op.activation is None else net.apply(op.activation, y)
    return channels_last(y, x.rank)


def _spread_out(op: ConvTranspose, x: Value, spreads: list[int], cut: list[int], ends: list[int]) -> Value:
    """x with zeros between its entries and around them, convolved with the kernel turned around."""
    net = x.net
    sizes: list[int | Value] = net.shape(x)
    for axis, s in enumerate(op.strides, 1):
        if s > 1:
            n = sizes[axis]
            wide = x.unsqueeze(axis + 1)
            rank = len(sizes) + 1
            wide = padded(wide, [0] * rank, [s - 1 if a == axis + 1 else 0 for a in range(rank)])
            sizes[axis] = n * s if isinstance(n, int) else n * ints([s])
            x = net.reshape(wide, [0, *sizes[1:]])
    # the zeros behind the last entry count as part of the border
    before = [k - 1 - c for k, c in zip(spreads, cut)]
    after = [k - 1 - e - (s - 1) for k, e, s in zip(spreads, ends, op.strides)]
    x = padded(x, [0, *(max(n, 0) for n in before), 0], [0, *(max(n, 0) for n in after), 0])
    starts, stops = [max(-n, 0) for n in before], [min(n, 0) or LAST for n in after]
    if any(starts) or min(after) < 0:
        x = x.do("Slice", ints(starts), ints(stops), ints(range(1, len(starts) + 1)))
    kernel = np.flip(op.kernel, tuple(range(op.kernel.ndim - 2))).swapaxes(-1, -2)
    return tap_by_tap(x, kernel, (1,) * len(spreads), op.dilation)
