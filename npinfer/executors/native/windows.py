"""Depthwise convolution and pooling, channels last: 16 channels at a time; taps outside the image are left out.

Four windows go together where all their taps are inside, one by one elsewhere, each in the same order of additions.
"""

from __future__ import annotations

import numpy as np

from npinfer.executors.native.frame import operand
from npinfer.executors.native.loops import finish
from npinfer.executors.native.opcodes import ARENA, LINE, MAXIMUM, OUT, SIZES, WEIGHTED, WEIGHTS, A
from npinfer.executors.native.vector import fma, i64_at, jit, load, maximum, splat, store


@jit
def store_four(y, c, s0, s1, s2, s3):
    """Pixels rise, so that what a vector writes beyond its channels is overwritten by the next (images.py)."""
    store(y, s0)
    store(y + c, s1)
    store(y + 2 * c, s2)
    store(y + 3 * c, s3)


@jit
def weighted_four(x, step, down, right, bias, w, wide, y, c, rows, columns):
    """16 channels of four pixels `step` bytes apart: the bias, plus taps times weights; `wide` bytes a tap."""
    s0 = s1 = s2 = s3 = load(bias)
    for _ in range(rows):
        at = x
        for _ in range(columns):
            v = load(w)
            s0 = fma(load(at), v, s0)
            s1 = fma(load(at + step), v, s1)
            s2 = fma(load(at + 2 * step), v, s2)
            s3 = fma(load(at + 3 * step), v, s3)
            at += right
            w += wide
        x += down
    store_four(y, c, s0, s1, s2, s3)


@jit
def weighted_one(x, down, right, bias, w, wide, y, rows, columns, row_taps):
    """The same for one pixel, which may lack taps; row_taps are in a kernel row."""
    total = load(bias)
    for _ in range(rows):
        for k in range(columns):
            total = fma(load(x + k * right), load(w + k * wide), total)
        x += down
        w += row_taps * wide
    store(y, total)


@jit
def largest_four(x, step, down, right, y, c, rows, columns):
    s0 = s1 = s2 = s3 = splat(np.float32(-np.inf))
    for _ in range(rows):
        at = x
        for _ in range(columns):
            s0 = maximum(load(at), s0)
            s1 = maximum(load(at + step), s1)
            s2 = maximum(load(at + 2 * step), s2)
            s3 = maximum(load(at + 3 * step), s3)
            at += right
        x += down
    store_four(y, c, s0, s1, s2, s3)


@jit
def largest_one(x, down, right, y, rows, columns):
    total = splat(np.float32(-np.inf))
    for _ in range(rows):
        for k in range(columns):
            total = maximum(load(x + k * right), total)
        x += down
    store(y, total)


@jit
def mean_four(x, step, down, right, y, c, rows, columns):
    s0 = s1 = s2 = s3 = splat(0.0)
    for _ in range(rows):
        p0 = p1 = p2 = p3 = splat(0.0)  # a row by itself, so that sums stay short
        at = x
        for _ in range(columns):
            p0 = p0 + load(at)
            p1 = p1 + load(at + step)
            p2 = p2 + load(at + 2 * step)
            p3 = p3 + load(at + 3 * step)
            at += right
        s0 = s0 + p0
        s1 = s1 + p1
        s2 = s2 + p2
        s3 = s3 + p3
        x += down
    n = splat(np.float32(rows * columns))
    store_four(y, c, s0 / n, s1 / n, s2 / n, s3 / n)


@jit
def mean_one(x, down, right, y, rows, columns):
    total = splat(0.0)
    for _ in range(rows):
        part = splat(0.0)
        for k in range(columns):
            part = part + load(x + k * right)
        total = total + part
        x += down
    store(y, total / np.float32(rows * columns))


@jit
def inside(i, stride, before, dilation, taps, size):
    """(first, end) of the taps of window i that are inside the image."""
    at = i * stride - before
    first = (dilation - 1 - at) // dilation if at < 0 else 0
    end = (size - at + dilation - 1) // dilation
    return min(first, taps), max(min(end, taps), 0)


@jit
def window_row(row, frame, m):
    """Each channel by itself: the weighted sum, maximum or mean of the taps inside the image."""
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    arena = i64_at(frame, ARENA)
    d, w = arena + i64_at(row, SIZES), arena + i64_at(row, WEIGHTS)
    kind, high, wide, channels, height, width = (
        i64_at(d, 0), i64_at(d, 1), i64_at(d, 2), i64_at(d, 3), i64_at(d, 4), i64_at(d, 5),
    )  # fmt: skip
    c, vectors = 4 * channels, (channels + 15) >> 4
    down, right = i64_at(d, 10) * width * c, i64_at(d, 11) * c
    columns, step = i64_at(d, 7), i64_at(d, 9) * c
    for r in range(m):
        for i in range(high):
            top, bottom = inside(i, i64_at(d, 8), i64_at(d, 12), i64_at(d, 10), i64_at(d, 6), height)
            line = x + r * x_stride + (i * i64_at(d, 8) - i64_at(d, 12)) * width * c + top * down
            out = y + r * y_stride + i * wide * c
            j = 0
            while j < wide:
                at = line + j * step - i64_at(d, 13) * c
                here = out + j * c
                rows, whole = bottom - top, j >= i64_at(d, 14)
                if whole and j + 4 <= i64_at(d, 15):
                    for k in range(vectors):
                        u = LINE * (vectors - 1 - k)
                        if kind == WEIGHTED:
                            taps = w + u + (1 + top * columns) * LINE * vectors
                            weighted_four(at + u, step, down, right, w + u, taps, LINE * vectors, here + u, c, rows, columns)
                        elif kind == MAXIMUM:
                            largest_four(at + u, step, down, right, here + u, c, rows, columns)
                        else:
                            mean_four(at + u, step, down, right, here + u, c, rows, columns)
                    j += 4
                    continue
                first, end = 0, columns
                if not whole or j >= i64_at(d, 15):
                    first, end = inside(j, i64_at(d, 9), i64_at(d, 13), i64_at(d, 11), columns, width)
                    at += first * right
                for u in range(0, LINE * vectors, LINE):
                    if kind == WEIGHTED:
                        taps = w + u + (1 + top * columns + first) * LINE * vectors
                        weighted_one(at + u, down, right, w + u, taps, LINE * vectors, here + u, rows, end - first, columns)
                    elif kind == MAXIMUM:
                        largest_one(at + u, down, right, here + u, rows, end - first)
                    else:
                        mean_one(at + u, down, right, here + u, rows, end - first)
                j += 1
            finish(row, out, 0, wide * channels, 1)
    return 0
