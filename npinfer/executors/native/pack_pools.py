"""Pooling as table rows, channels last. Nothing here needs Numba."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.opcodes import MAXIMUM, MEAN, REDUCTIONS
from npinfer.executors.native.pack import only_floats
from npinfer.executors.native.pack_elements import as_numbers, word
from npinfer.executors.native.pack_images import Axes, deliver, own_memory, roomy, spilling, window
from npinfer.executors.native.places import Place, numbered
from npinfer.executors.native.program import Program, floats
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.ops.pool import GlobalPool, Pool
from npinfer.ops.windows import pairs_of, window_count


@packs(Pool)
def pool(p: Program, op: Pool, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    *image, channels = sizes(p.spec(xs[0]))
    ones = (1,) * len(image)
    pairs = pairs_of(op.padding, image, op.window, op.strides, ones)
    counts = [c or 0 for c in window_count(op.padding, image, op.window, op.strides, ones)]
    axes = list(zip(image, counts, op.window, op.strides, ones, (a for a, _ in pairs)))
    kind = MAXIMUM if op.kind == "max" else MEAN
    if len(image) > 3:
        raise NotNative(f"pooling over {len(image)} axes")
    x = own_memory(p, xs[0], channels)
    if len(image) == 3:
        volume(p, kind, x, ys[0], channels, axes)
        return
    out = roomy(p, ys[0], channels)
    window(p, kind, out, x, channels, axes)
    deliver(p, ys[0], out)


def volume(p: Program, kind: int, x: Place, y: int, channels: int, axes: Axes) -> None:
    """Windows are boxes: maxima and means of maxima and means along one axis after the other."""
    (_, deep, *_), (height, high, taps, stride, _, before), (width, wide, *_) = axes
    x = along(p, kind, x, height * width * channels, axes[0])
    out = roomy(p, y, channels)
    if height == high * stride and taps <= stride and before == 0:
        # no window of a slice reaches into the next one: all slices are one high image
        window(p, kind, out, x, channels, [(deep * height, deep * high, *axes[1][2:]), axes[2]])
        deliver(p, y, out)
        return
    line = width * channels
    x = swapped(p, x, (deep, height), line)
    x = along(p, kind, x, deep * line, axes[1])
    part = spilling(high * deep * wide * channels, channels)
    window(p, kind, part, x, channels, [(high * deep, high * deep, 1, 1, 1, 0), axes[2]])
    line = wide * channels
    to = numbered(deep, high, line).swapaxes(0, 1)
    p.arrange(p.places[y], to, part, numbered(high, deep, line))


def along(p: Program, kind: int, x: Place, n: int, axis: Sequence[int]) -> Place:
    """Pooling over a first axis of vectors of n floats."""
    if axis[1:4] == (axis[0], 1, 1):
        return x
    out = spilling(axis[1] * n, n)
    window(p, kind, out, x, n, [tuple(axis), (1, 1, 1, 1, 1, 0)])
    return out


def swapped(p: Program, x: Place, shape: tuple[int, int], n: int) -> Place:
    """(a, b) vectors of n floats as (b, a)."""
    a, b = shape
    out = spilling(a * b * n, n)
    p.arrange(out, numbered(b, a, n), x, numbered(a, b, n).swapaxes(0, 1))
    return out


@packs(GlobalPool)
def global_pool(p: Program, op: GlobalPool, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs[:1], ys)
    if len(xs) > 1:
        average_of_kept(p, xs, ys[0])
        return
    *image, channels = sizes(p.spec(xs[0]))
    n = int(np.prod(image))
    high = next(k for k in range(max(1, int(n**0.5)), 0, -1) if n % k == 0)  # any two factors do: rows are summed by themselves
    axes = [(k, 1, k, 1, 1, 0) for k in (high, n // high)]
    out = roomy(p, ys[0], channels)
    window(p, MAXIMUM if op.kind == "max" else MEAN, out, own_memory(p, xs[0], channels), channels, axes)
    deliver(p, ys[0], out)


def average_of_kept(p: Program, xs: tuple[int, ...], y: int) -> None:
    """The average over the steps where a mask is true: zeros elsewhere, and the number of those steps."""
    (x, shape), (mask, (steps,)) = word(p, xs[0]), word(p, xs[1])
    n, channels = floats(p.spec(xs[0])), shape[-1]
    kept, total, ones, count = p.buffer(n), p.buffer(channels), p.buffer(steps), p.buffer(1)
    as_numbers(p, ones, mask, (steps,))
    p.binary("multiply", kept, x, ones, (shape, (steps, 1)))
    moved, _, _ = p.last_axes(kept, shape, (0,))
    p.row(opcodes.REDUCE, total, moved, values=(channels, steps, REDUCTIONS.index("sum")))
    p.row(opcodes.REDUCE, count, ones, values=(1, steps, REDUCTIONS.index("sum")))
    p.binary("divide", p.places[y], total, count, ((channels,), ()))
