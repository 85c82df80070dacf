"""The opcodes that aren't matrix products: each function runs one table row over a tile of m samples and returns a status,
0."""

from __future__ import annotations

import numpy as np

from npinfer.executors.native import exponentials
from npinfer.executors.native.frame import operand
from npinfer.executors.native.maps import activate, combine, combine_lanes
from npinfer.executors.native.opcodes import (
    ACTIVATION,
    ARENA,
    ATTENTION,
    BINARIES,
    LOG,
    OUT,
    PARAMETERS,
    REDUCTIONS,
    RELU,
    SIZES,
    WEIGHTS,
    A,
    B,
)
from npinfer.executors.native.panels import AS_IT_IS, copy_floats
from npinfer.executors.native.vector import (
    f32_at,
    f32_put,
    first,
    i32_at,
    i64_at,
    jit,
    lane_sum,
    load,
    load_tail,
    select,
    splat,
    splat_at,
    sqrt,
    store,
    store_tail,
    traced,
)

INF = np.inf
exp, log = traced(exponentials.exponential), traced(exponentials.log)


@jit
def finish(row, y, stride, n, m):
    """Apply the row's activation in place to m samples of n floats."""
    kind = i64_at(row, ACTIVATION)
    if kind != 0:
        p = row + 8 * PARAMETERS
        if stride == 4 * n:  # one run
            n *= m
            m = 1
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


ADD, MULTIPLY, LARGER, SMALLER = (BINARIES.index(n) for n in ("add", "multiply", "maximum", "minimum"))
MEAN, MAX, MIN, PRODUCT = (REDUCTIONS.index(n) for n in ("mean", "max", "min", "prod"))


@jit
def fold(which, neutral, x, n):
    """n floats combined to one: lane k takes elements k, k + 16 …; then the lanes, by their fixed tree."""
    total = splat(neutral)
    while n >= 16:
        total = combine(which, total, load(x))
        x += 64
        n -= 16
    if n > 0:
        total = combine(which, total, select(first(n), load_tail(x, n), splat(neutral)))
    return combine_lanes(which, total)


@jit
def reduce_line(which, x, n):
    if which == MAX:
        return fold(LARGER, np.float32(-INF), x, n)
    if which == MIN:
        return fold(SMALLER, np.float32(INF), x, n)
    if which == PRODUCT:
        return fold(MULTIPLY, np.float32(1), x, n)
    total = fold(ADD, np.float32(0), x, n)
    return total / np.float32(n) if which == MEAN else total


@jit
def reduce_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    outer, n, which = i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2)
    for r in range(m):
        for i in range(outer):
            f32_put(y + r * y_stride, i, reduce_line(which, x + r * x_stride + 4 * i * n, n))
    return 0


@jit
def shifted_exp_sum(x, y, n, shift, keep):
    """The sum of exp(x - shift) over n floats; y gets the terms (keep) or nothing."""
    total = splat(0.0)
    while n > 0:
        if n >= 16:
            e = exp(load(x) - shift)
            total = total + e
            if keep:
                store(y, e)
        else:
            e = select(first(n), exp(load_tail(x, n) - shift), 0.0)
            total = total + e
            if keep:
                store_tail(y, n, e)
        x += 64
        y += 64
        n -= 16
    return lane_sum(total)


@jit
def softmax_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    outer, n, form = i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2)
    for r in range(m):
        for i in range(outer):
            a, b = x + r * x_stride + 4 * i * n, y + r * y_stride + 4 * i * n
            largest = reduce_line(MAX, a, n)
            total = shifted_exp_sum(a, b, n, splat(largest), form != LOG)
            if form == LOG:
                each_minus(a, b, n, splat(largest), log(splat(total)))
            elif form == ATTENTION and total != total:
                zero_or_nan(b, n)
            else:
                each_over(b, n, splat(total))
    return 0


@jit
def zero_or_nan(y, n):
    """What attention makes of weights whose sum is NaN: zeros stay (ops/attention.py)."""
    for i in range(n):
        if f32_at(y, i) != 0:
            f32_put(y, i, np.float32(np.nan))


@jit
def each_minus(x, y, n, u, v):
    while n > 0:
        if n >= 16:
            store(y, load(x) - u - v)
        else:
            store_tail(y, n, load_tail(x, n) - u - v)
        x += 64
        y += 64
        n -= 16


@jit
def each_over(y, n, v):
    while n > 0:
        if n >= 16:
            store(y, load(y) / v)
        else:
            store_tail(y, n, load_tail(y, n) / v)
        y += 64
        n -= 16


@jit
def squares(x, n, mean):
    total = splat(0.0)
    while n > 0:
        d = load(x) - mean if n >= 16 else select(first(n), load_tail(x, n) - mean, 0.0)
        total = total + d * d
        x += 64
        n -= 16
    return lane_sum(total)


@jit
def norm_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    outer, n, center = i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2)
    epsilon = f32_at(row + 8 * PARAMETERS, 0)
    count = np.float32(n)
    for r in range(m):
        for i in range(outer):
            a, b = x + r * x_stride + 4 * i * n, y + r * y_stride + 4 * i * n
            mean = splat(reduce_line(MEAN, a, n) if center else np.float32(0))
            variance = splat(squares(a, n, mean) / count + epsilon)
            each_minus(a, b, n, mean, 0.0)
            each_over(b, n, sqrt(variance))
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
