"""Rules for images, sequences and volumes, channels last: convolution, padding, enlarging. Nothing here needs
Numba."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.opcodes import FLOAT, LINE, WEIGHTED
from npinfer.executors.native.pack import in_panels, only_floats, rows_of
from npinfer.executors.native.places import Place, buffer, numbered
from npinfer.executors.native.program import Program, floats
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.graph import Array, Op
from npinfer.ops.causal import Window, WindowDense
from npinfer.ops.conv import Conv
from npinfer.ops.joining import Pad, Repeat
from npinfer.ops.windows import Pairs, pairs_of

STRIP_BYTES = 1 << 17  # inputs or outputs of the pixels that all filters are applied to before the next: they stay in the cache
Axes = Sequence[tuple[int, ...]]


def roomy(p: Program, y: int, channels: int) -> Place:
    """Where to write a result whose last pixel may spill: its own buffer with a line more, or a buffer to copy from where the
    caller's memory is the target."""
    place = p.places[y]
    if channels % 16 and place.exact:
        place = p.buffer(floats(p.spec(y)))
    if channels % 16:
        place.stride += LINE
    return place


def deliver(p: Program, y: int, place: Place) -> None:
    if p.places[y] is not place:
        p.copy(p.places[y], place, floats(p.spec(y)))


def own_memory(p: Program, x: int, channels: int) -> Place:
    """The input where whole vectors may be read beyond its end: not in the caller's memory."""
    place = p.places[x]
    if channels % 16 and place.exact:
        copied = p.buffer(floats(p.spec(x)))
        p.copy(copied, place, floats(p.spec(x)))
        return copied
    return place


def offsets(counts: Sequence[int], strides: Sequence[int]) -> Array:
    """sum of i·stride for all i in counts, in order, as int64."""
    total = np.zeros(1, np.int64)
    for n, stride in zip(counts, strides):
        total = (total[:, None] + np.arange(n) * stride).reshape(-1)
    return total


def spilling(n: int, filters: int) -> Place:
    """A buffer for n floats in pixels of `filters`, the last of which may spill."""
    place = buffer(n)
    if filters % 16:
        place.stride += LINE
    return place


class Described(NamedTuple):
    """What CONV rows need to know of a convolution: where its description, its table of windows and its kernel are in the
    arena, floats of the padded image (0: as it is), multiply-adds, the activation."""

    at: int
    starts: int
    weights: int
    room: int
    work: int
    activation: Op | None


def describe(
    p: Program,
    op: Conv,
    image: Sequence[int],
    channels: int,
    counts: Sequence[int],
    first: int = 0,
    like: Described | None = None,
) -> Described:
    """op, whose padding is pairs, on an image with `channels` channels, of which its kernel takes some, from float `first` on.
    counts: how many windows along each axis. like: one that differs in no more than kernel, bias and `first`."""
    pairs = op.padding
    assert not isinstance(pairs, str)
    padded = [n + a + b for n, (a, b) in zip(image, pairs)]
    taken, filters = op.kernel.shape[-2:]
    depth = op.kernel[..., 0].size
    lengths = [
        FLOAT * channels * int(np.prod(padded[k + 1 :])) for k in range(len(image))
    ]  # bytes to the next pixel of an axis
    starts = p.weights(offsets(counts, [n * s for n, s in zip(lengths, op.strides)])) if like is None else like.starts
    # taps next to one another in memory make one segment
    window, run = list(op.window), taken
    if op.dilation[-1] == 1 and taken == channels:
        run *= window.pop()
        if window and run == padded[-1] * channels and op.dilation[-2] == 1:
            run *= window.pop()
    segments = offsets(window, [n * d for n, d in zip(lengths, op.dilation)]) + FLOAT * first
    panels = in_panels(rows_of(op.kernel, op.bias))
    each = FLOAT * max(channels * op.strides[-1], filters)
    long = max(12, STRIP_BYTES // each // 12 * 12)
    rows, copies, room = [1] * (3 - len(image)) + list(image), [0] * 3, 0
    if any(map(any, pairs)):
        room = channels * int(np.prod(padded))
        copies = [FLOAT * room, *([0, 0, *lengths][-3:-1])]
        copies[0] = sum(a * n for (a, _), n in zip(pairs, lengths))
    at, pixels = p.weights(), int(np.prod(counts))
    words = [pixels, filters, len(segments), FLOAT * run, long, starts - at, 14 * 8]
    words += [room, rows[0], rows[1], rows[2] * channels, *copies]
    p.weights(np.array(words, np.int64), segments)
    return Described(at, starts, p.weights(panels), room, pixels * depth * filters, op.activation)


def convolve(p: Program, out: Place, x: Place, c: Described) -> None:
    """A CONV row. The last pixel of out may spill."""
    p.work += c.work
    p.row(opcodes.CONV, out, x, p.buffer(c.room) if c.room else None, (c.at,), c.weights, c.activation)


def padded(p: Program, x: Place, image: Sequence[int], channels: int, pairs: Pairs) -> tuple[Place, list[int]]:
    """(x, its sizes) with zeros around it, for several rows to read; x itself where there is no padding."""
    if not any(map(any, pairs)):
        return x, list(image)
    wide = [n + a + b for n, (a, b) in zip(image, pairs)]
    whole = numbered(*wide, channels)
    room = p.buffer(whole.size)
    p.arrange(room, whole, p.constant(np.float32(0)), np.zeros_like(whole))
    inner = whole[tuple(slice(a, a + n) for n, (a, _) in zip(image, pairs))]
    p.arrange(room, inner, x, numbered(*image, channels))
    return room, wide


def grouped(p: Program, op: Conv, x: int, y: int) -> None:
    """Group after group: each reads its channels where they lie, and what it gives is put into its place in y."""
    *image, channels = sizes(p.spec(x))
    *counts, filters = sizes(p.spec(y))
    assert not isinstance(op.padding, str)
    source, image = padded(p, p.places[x], image, channels, op.padding)
    taken, each = channels // op.groups, filters // op.groups
    part = spilling(floats(p.spec(y)) // op.groups, each)
    whole, like = numbered(*counts, filters), None
    for g in range(op.groups):
        own = slice(g * each, (g + 1) * each)
        bias = None if op.bias is None else op.bias[own]
        one = op.replace(kernel=op.kernel[..., own], bias=bias, padding=((0, 0),) * len(image), groups=1)
        like = describe(p, one, image, channels, counts, g * taken, like)
        convolve(p, part, source, like)
        p.arrange(p.places[y], whole[..., own], part, numbered(*counts, each))


@packs(Conv)
def conv(p: Program, op: Conv, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    *image, channels = sizes(p.spec(xs[0]))
    if op.groups == channels > 1 and len(image) <= 2:
        depthwise(p, op, xs[0], ys[0])
        return
    if len(image) > 3:
        raise NotNative(f"{len(image)} axes")
    op = op.replace(padding=pairs_of(op.padding, image, op.window, op.strides, op.dilation))
    *counts, filters = sizes(p.spec(ys[0]))
    if op.groups > 1:
        grouped(p, op, xs[0], ys[0])
        return
    out = roomy(p, ys[0], filters)
    convolve(p, out, p.places[xs[0]], describe(p, op, image, channels, counts))
    deliver(p, ys[0], out)


@packs(Window)
def stream_window(p: Program, op: Window, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    x, memory, out, following = (p.places[v] for v in (*xs, *ys))
    steps, c = sizes(p.spec(xs[1]))
    taps = steps // op.dilation
    whole = np.arange(steps * c).reshape(steps, c)
    p.arrange(out, np.arange(taps * c).reshape(taps, c), memory, whole[:: op.dilation])
    p.arrange(out, np.arange(c) + taps * c, x, np.arange(c))
    if steps > 1:
        p.arrange(following, whole[:-1], memory, whole[1:])
    p.arrange(following, whole[-1], x, np.arange(c))


@packs(WindowDense)
def window_dense(p: Program, op: WindowDense, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    """As a convolution with one output pixel: the sums of the whole sequence's convolution, in the same order."""
    only_floats(p, xs, ys)
    n_in, filters = op.kernel.shape
    n = floats(p.spec(xs[0])) // n_in
    words = [n, filters, 1, FLOAT * n_in, 12, 14 * 8, (14 + n) * 8, *[0] * 7]
    d = p.weights(np.concatenate([np.array(words, np.int64), np.arange(n) * FLOAT * n_in, np.zeros(1, np.int64)]))
    panels = in_panels(rows_of(op.kernel, op.bias))
    out = roomy(p, ys[0], filters)
    p.work += n * n_in * filters
    p.row(opcodes.CONV, out, p.places[xs[0]], None, (d,), p.weights(panels), op.activation)
    deliver(p, ys[0], out)


def window(
    p: Program, kind: int, out: Place, x: Place, channels: int, axes: Axes, weights: int = 0, activation: Op | None = None
) -> None:
    """A WINDOW row. axes: (size, windows, taps, stride, dilation, padding before) of one or two spatial axes. The last pixel of
    out may spill; x is read in whole vectors."""
    high, wide = [(1, 1, 1, 1, 1, 0), *axes][-2:]
    size, count, taps, stride, dilation, before = wide
    first = min(count, -(-before // stride))  # windows from here to `end` have all their taps inside
    end = min(count, max(0, (size - (taps - 1) * dilation - 1 + before) // stride + 1))
    words = [kind, high[1], count, channels, high[0], size, high[2], taps, high[3], stride, high[4], dilation, high[5], before]
    p.work += high[1] * count * high[2] * taps * channels
    d = p.weights(np.array([*words, first, end], np.int64))
    p.row(opcodes.WINDOW, out, x, values=(d,), weights=weights, activation=activation)


def depthwise(p: Program, op: Conv, x: int, y: int) -> None:
    *image, channels = sizes(p.spec(x))
    filters = op.kernel.shape[-1]
    times = filters // channels
    place = own_memory(p, x, filters)
    if times > 1:  # filter c·times + m reads channel c
        n = floats(p.spec(x))
        repeated = p.buffer(n * times)
        p.arrange(repeated, np.arange(n * times).reshape(n, times), place, np.arange(n)[:, None].repeat(times, 1))
        place = repeated
    weights = rows_of(op.kernel, op.bias)
    pairs = pairs_of(op.padding, image, op.window, op.strides, op.dilation)
    counts = sizes(p.spec(y))[:-1]
    before = [a for a, _ in pairs]
    axes = list(zip(image, counts, op.window, op.strides, op.dilation, before))
    out = roomy(p, y, filters)
    window(p, WEIGHTED, out, place, filters, axes, p.weights(weights), op.activation)
    deliver(p, y, out)


@packs(Pad)
def pad(p: Program, op: Pad, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    if op.mode != "constant":
        raise NotNative(f"{op.mode} padding")
    out, shape, whole = p.places[ys[0]], sizes(p.spec(xs[0])), np.arange(floats(p.spec(ys[0])))
    p.arrange(out, whole, p.constant(np.float32(op.value)), np.zeros_like(whole))
    inner = whole.reshape(sizes(p.spec(ys[0])))[tuple(slice(a, a + n) for n, (a, _) in zip(shape, op.widths))]
    p.arrange(out, inner, p.places[xs[0]], np.arange(inner.size).reshape(shape))


@packs(Repeat)
def repeat(p: Program, op: Repeat, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    shape = sizes(p.spec(xs[0]))
    before, after = int(np.prod(shape[: op.axis + 1])), int(np.prod(shape[op.axis + 1 :]))
    split = (before, op.times, after)
    numbers = np.broadcast_to(np.arange(before * after).reshape(before, 1, after), split)
    p.arrange(p.places[ys[0]], np.arange(numbers.size).reshape(split), p.places[xs[0]], numbers)
