"""The opcodes that aren't matrix products: each function runs one table row over a tile of m samples and returns a status,
0."""

from __future__ import annotations

import numpy as np

from npinfer.executors.native.frame import operand
from npinfer.executors.native.maps import activate, combine, lines_of
from npinfer.executors.native.opcodes import (
    ACTIVATION,
    ARENA,
    COS,
    OUT,
    PARAMETERS,
    RELU,
    SIN,
    SIZES,
    WEIGHTS,
    A,
    B,
)
from npinfer.executors.native.panels import AS_IT_IS, copy_floats
from npinfer.executors.native.vector import (
    f32_at,
    f32_put,
    i32_at,
    i64_at,
    jit,
    load,
    load_tail,
    splat_at,
    store,
    store_tail,
)


@jit
def finish(row, y, stride, n, m):
    """Apply the row's activation in place to m samples of n floats."""
    kind = i64_at(row, ACTIVATION)
    if kind != 0:
        p = row + 8 * PARAMETERS
        if stride == 4 * n:  # one run
            n *= m
            m = 1
        if m == 1 and n & 15 == 0 and kind != SIN and kind != COS:
            lines_of(kind, y, y, n, p)  # activate would do the same, a call later
            return
        for r in range(m):
            activate(kind, y + r * stride, y + r * stride, n, p)


@jit
def least_of(row):
    """What matrix products may not fall below: with relu 0, which costs them one instruction instead of another walk."""
    return np.float32(0) if i64_at(row, ACTIVATION) == RELU else AS_IT_IS


@jit
def finish_sums(row, y, stride, n, m):
    """`finish` after a product that knew `least_of`."""
    if i64_at(row, ACTIVATION) != RELU:
        finish(row, y, stride, n, m)


@jit
def map_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    n = i64_at(row, SIZES)
    kind = i64_at(row, ACTIVATION)
    p = row + 8 * PARAMETERS
    for r in range(m):
        activate(kind, x + r * x_stride, y + r * y_stride, n, p)
    return 0


@jit
def copy_line(y, y_step, x, x_step, n):
    if y_step == 4 and x_step == 4:
        copy_floats(x, y, n)
    elif y_step == 4 and x_step == 0:
        v = splat_at(x)
        while n >= 16:
            store(y, v)
            y += 64
            n -= 16
        if n > 0:
            store_tail(y, n, v)
    else:
        for _ in range(n):
            f32_put(y, 0, f32_at(x, 0))
            x += x_step
            y += y_step


@jit
def copy_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    walk = i64_at(frame, ARENA) + i64_at(row, WEIGHTS)
    x += i64_at(walk, 13)
    y += i64_at(walk, 8)
    n = i64_at(walk, 3)
    for r in range(m):
        for i in range(i64_at(walk, 0)):
            for j in range(i64_at(walk, 1)):
                for k in range(i64_at(walk, 2)):
                    x_at = x + r * x_stride + i * i64_at(walk, 9) + j * i64_at(walk, 10) + k * i64_at(walk, 11)
                    y_at = y + r * y_stride + i * i64_at(walk, 4) + j * i64_at(walk, 5) + k * i64_at(walk, 6)
                    copy_line(y_at, i64_at(walk, 7), x_at, i64_at(walk, 12), n)
    return 0


@jit
def combine_line(which, y, y_step, a, a_step, b, b_step, n):
    """y = a ∘ b along one axis; steps in bytes."""
    if y_step == 4 and (a_step == 4 or a_step == 0) and (b_step == 4 or b_step == 0):
        while n >= 16:
            store(y, combine(which, load(a) if a_step else splat_at(a), load(b) if b_step else splat_at(b)))
            y += 64
            a += 16 * a_step
            b += 16 * b_step
            n -= 16
        if n > 0:
            u = load_tail(a, n) if a_step else splat_at(a)
            v = load_tail(b, n) if b_step else splat_at(b)
            store_tail(y, n, combine(which, u, v))
    else:
        for _ in range(n):
            store_tail(y, 1, combine(which, splat_at(a), splat_at(b)))
            y += y_step
            a += a_step
            b += b_step


@jit
def binary_row(row, frame, m):
    a, a_stride = operand(row, A, frame, m)
    b, b_stride = operand(row, B, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    walk = i64_at(frame, ARENA) + i64_at(row, WEIGHTS)
    y += i64_at(walk, 8)
    a += i64_at(walk, 13)
    b += i64_at(walk, 18)
    which = i64_at(row, SIZES)
    at = i64_at
    for r in range(m):
        for i in range(at(walk, 0)):
            for j in range(at(walk, 1)):
                for k in range(at(walk, 2)):
                    y_at = y + r * y_stride + i * at(walk, 4) + j * at(walk, 5) + k * at(walk, 6)
                    a_at = a + r * a_stride + i * at(walk, 9) + j * at(walk, 10) + k * at(walk, 11)
                    b_at = b + r * b_stride + i * at(walk, 14) + j * at(walk, 15) + k * at(walk, 16)
                    combine_line(which, y_at, at(walk, 7), a_at, at(walk, 12), b_at, at(walk, 17), at(walk, 3))
        finish(row, y + r * y_stride, 0, i64_at(row, SIZES + 1), 1)
    return 0


@jit
def index_at(address, i, kind):
    if kind == 0:
        v = f32_at(address, i)
        return np.int64(v) if v > -1.0 and v < 16777216.0 else np.int64(-1)
    return np.int64(i32_at(address, i)) if kind == 1 else i64_at(address, i)


@jit
def gather_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    table = i64_at(frame, ARENA) + i64_at(row, WEIGHTS)
    count, width, entries, kind = (i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2), i64_at(row, SIZES + 3))
    for r in range(m):
        for i in range(count):
            index = index_at(x + r * x_stride, i, kind)
            if index < 0 or index >= entries:
                return 1 + i64_at(row, SIZES + 4)
            copy_floats(table + index * width, y + r * y_stride + i * width, width >> 2)
    return 0
