"""Rows that work on groups of neighbouring floats: reductions, softmax, layer normalization. Each function runs one table row
over a tile of m samples and returns a status, 0."""

from __future__ import annotations

import numpy as np

from npinfer.executors.native import exponentials
from npinfer.executors.native.frame import operand
from npinfer.executors.native.maps import combine, combine_lanes
from npinfer.executors.native.opcodes import ATTENTION, BINARIES, LOG, OUT, PARAMETERS, REDUCTIONS, SIZES, A
from npinfer.executors.native.vector import (
    f32_at,
    f32_put,
    first,
    i32_put,
    i64_at,
    jit,
    lane_sum,
    load,
    load_tail,
    select,
    splat,
    sqrt,
    store,
    store_tail,
    traced,
)

INF = np.inf
exp, log = traced(exponentials.exponential), traced(exponentials.log)

ADD, MULTIPLY, LARGER, SMALLER, OR = (BINARIES.index(n) for n in ("add", "multiply", "maximum", "minimum", "or"))
MEAN, MAX, MIN, PRODUCT, ANY, ARGMAX = (REDUCTIONS.index(n) for n in ("mean", "max", "min", "prod", "any", "argmax"))


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
    if which == ANY:
        return fold(OR, np.float32(0), x, n)
    total = fold(ADD, np.float32(0), x, n)
    return total / np.float32(n) if which == MEAN else total


@jit
def place_of(largest, x, n):
    """Where the first of the largest (smallest) numbers is, or the first NaN."""
    place, best = 0, f32_at(x, 0)
    for i in range(1, n):
        v = f32_at(x, i)
        better = v > best if largest else v < best
        if best == best and (better or v != v):
            place, best = i, v
    return place


@jit
def reduce_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    outer, n, which = i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2)
    for r in range(m):
        for i in range(outer):
            line = x + r * x_stride + 4 * i * n
            if which >= ARGMAX:
                i32_put(y + r * y_stride, i, place_of(which == ARGMAX, line, n))
            else:
                f32_put(y + r * y_stride, i, reduce_line(which, line, n))
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
