"""Dense layers of few outputs: a dot product an output, over [bias, 16 floats | kernel columns, each padded to 16].

Lane k adds the inputs k, k + 16 …, and the lanes are added by their fixed tree (lanes.across), for one row alone as for four
together.

One or two outputs are often a network's last, and have no larger neighbours to be judged by: where the terms cancel, their
roundings are all that is seen. So those are summed in float64, which holds each product exactly, and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from npinfer.executors.native.lanes import F32, F64, I32, pointer
from npinfer.executors.native.opcodes import LINE, PRECISE
from npinfer.executors.native.vector import (
    f32_at,
    f32_put,
    f64x16,
    first,
    fma,
    jit,
    lane_sum,
    load,
    load_tail,
    no_sum,
    plus_product,
    select,
    splat,
    wide_sum,
)


@intrinsic  # type: ignore[untyped-decorator]
def put_sums(context: Any, s0: Any, s1: Any, s2: Any, s3: Any, bias: Any, odd_bias: Any, y: Any, odd: Any, stride: Any) -> Any:
    """Four floats: bias + all lanes of s0 to y, odd_bias + those of s1 to y + odd, and the same of s2 and s3 `stride` bytes
    further. Each addition serves two sums, later four: half the work of four trees."""

    def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
        *sums, bias, odd_bias, y, odd, stride = args

        def halved(u: Any, v: Any, first: list[int], second: list[int]) -> Any:
            """Lanes `first` of u and v (numbered one behind the other) plus lanes `second`."""
            order = [ir.Constant(ir.VectorType(I32, len(lanes)), lanes) for lanes in (first, second)]
            return b.fadd(*(b.shuffle_vector(u, v, o) for o in order))

        eight = [halved(v, v, list(range(8)), list(range(8, 16))) for v in sums]
        low = [*range(4), *range(8, 12)]
        pairs = [halved(u, v, low, [k + 4 for k in low]) for u, v in zip(eight[::2], eight[1::2])]
        low = [k + j for k in range(0, 16, 4) for j in (0, 1)]
        both = halved(pairs[0], pairs[1], low, [k + 2 for k in low])
        four = halved(both, both, [0, 2, 4, 6], [1, 3, 5, 7])
        biases = ir.Constant(four.type, ir.Undefined)
        for k, number in enumerate((bias, odd_bias) * 2):
            number = b.fpext(number, F64) if s0 is f64x16 else number
            biases = b.insert_element(biases, number, I32(k))
        totals = b.fadd(four, biases)
        if s0 is f64x16:
            totals = b.fptrunc(totals, ir.VectorType(F32, 4))
        for k in range(4):
            at = b.add(b.add(y, odd) if k % 2 else y, stride) if k > 1 else b.add(y, odd) if k else y
            b.store(b.extract_element(totals, I32(k)), pointer(b, at, F32), align=4)
        return c.get_dummy_value()

    return types.void(s0, s0, s0, s0, types.float32, types.float32, types.intp, types.intp, types.intp), codegen


@jit
def single_zero():
    return splat(0.0)


@jit
def single_plus(total, x, y):
    return fma(x, y, total)


def make_dots(zero: Any, plus: Any, lane_total: Any) -> tuple[Any, Any, Any, Any]:
    """The loops for four rows, for rows of up to 16 inputs, the same for two outputs, and for one row; sums of one type."""

    @jit
    def dots_four(x, x_stride, w, y, y_stride, n, n_out):
        """y[r, j] = bias[j] + sum(x[r] * column j) of four rows. Their last lines are read whole; what lies beyond the end of a
        row counts as zeros, whatever it is."""
        whole, rest = n & ~15, n & 15
        inputs = first(rest)
        row = w + LINE
        x1, x2, x3 = x + x_stride, x + 2 * x_stride, x + 3 * x_stride
        for j in range(n_out):
            s0 = s1 = s2 = s3 = zero()
            i = 0
            while i < 4 * whole:
                v = load(row)
                s0 = plus(s0, load(x + i), v)
                s1 = plus(s1, load(x1 + i), v)
                s2 = plus(s2, load(x2 + i), v)
                s3 = plus(s3, load(x3 + i), v)
                row += LINE
                i += LINE
            if rest:
                v = load(row)
                s0 = plus(s0, select(inputs, load(x + i), 0.0), v)
                s1 = plus(s1, select(inputs, load(x1 + i), 0.0), v)
                s2 = plus(s2, select(inputs, load(x2 + i), 0.0), v)
                s3 = plus(s3, select(inputs, load(x3 + i), 0.0), v)
                row += LINE
            bias = f32_at(w, j)
            put_sums(s0, s1, s2, s3, bias, bias, y + 4 * j, y_stride, 2 * y_stride)

    @jit
    def dots_few(x, x_stride, w, y, y_stride, n, n_out, fours):
        """The same of so many fours of rows, for n ≤ 16: a column stays in registers for all of them."""
        inputs = first(n)
        for j in range(n_out):
            bias, v = f32_at(w, j), load(w + LINE + LINE * j)
            x0, at = x, y + 4 * j
            for _ in range(fours):
                x1, x2, x3 = x0 + x_stride, x0 + 2 * x_stride, x0 + 3 * x_stride
                s0 = plus(zero(), select(inputs, load(x0), 0.0), v)
                s1 = plus(zero(), select(inputs, load(x1), 0.0), v)
                s2 = plus(zero(), select(inputs, load(x2), 0.0), v)
                s3 = plus(zero(), select(inputs, load(x3), 0.0), v)
                put_sums(s0, s1, s2, s3, bias, bias, at, y_stride, 2 * y_stride)
                x0 += 4 * x_stride
                at += 4 * y_stride

    @jit
    def dots_pair(x, x_stride, w, y, y_stride, n, twos):
        """The same for two outputs and so many twos of rows: a row serves both outputs."""
        inputs = first(n)
        bias, odd_bias, v, odd = f32_at(w, 0), f32_at(w, 1), load(w + LINE), load(w + 2 * LINE)
        for _ in range(twos):
            x0, x1 = select(inputs, load(x), 0.0), select(inputs, load(x + x_stride), 0.0)
            s0, s1 = plus(zero(), x0, v), plus(zero(), x0, odd)
            s2, s3 = plus(zero(), x1, v), plus(zero(), x1, odd)
            put_sums(s0, s1, s2, s3, bias, odd_bias, y, 4, y_stride)
            x += 2 * x_stride
            y += 2 * y_stride

    @jit
    def dots_one(x, w, y, n, n_out):
        """The same for one row."""
        whole, rest = n & ~15, n & 15
        row = w + LINE
        tail = load_tail(x + 4 * whole, rest) if rest else splat(0.0)
        for j in range(n_out):
            total, i = zero(), 0
            while i < whole:
                total = plus(total, load(x + 4 * i), load(row))
                row += LINE
                i += 16
            if rest:
                total = plus(total, tail, load(row))
                row += LINE
            f32_put(y, j, np.float32(lane_total(total) + f32_at(w, j)))

    return dots_four, dots_few, dots_pair, dots_one


precise_four, precise_few, precise_pair, precise_one = make_dots(no_sum, plus_product, wide_sum)
single_four, single_few, _, single_one = make_dots(single_zero, single_plus, lane_sum)


@jit
def precise_narrow(x, x_stride, w, y, y_stride, n, n_out, m):
    """m rows of one or two inputs: what precise_one gives, without its 14 lanes of zeros."""
    for j in range(n_out):
        bias, at = np.float64(f32_at(w, j)), w + LINE + LINE * j
        u, v = np.float64(f32_at(at, 0)), np.float64(f32_at(at, 1))
        x_r, y_r = x, y + 4 * j
        for _ in range(m):
            total = np.float64(f32_at(x_r, 0)) * u + 0.0  # as a sum that begins with 0
            if n == 2:
                total += np.float64(f32_at(x_r, 1)) * v + 0.0
            f32_put(y_r, 0, np.float32(total + bias))
            x_r += x_stride
            y_r += y_stride


@jit
def dots(x, x_stride, w, y, y_stride, n, n_out, m):
    """m rows."""
    if n <= 2 and n_out <= PRECISE:
        precise_narrow(x, x_stride, w, y, y_stride, n, n_out, m)
        return
    if m >= 4 and x_stride > 0:
        # a row's last line may end in other rows, but not behind the last one
        beyond = -4 * n & (LINE - 1)
        fours = max(0, m - (beyond + x_stride - 1) // x_stride) >> 2
        if n <= 16:
            if n_out == 2:
                precise_pair(x, x_stride, w, y, y_stride, n, 2 * fours)
            elif n_out <= PRECISE:
                precise_few(x, x_stride, w, y, y_stride, n, n_out, fours)
            else:
                single_few(x, x_stride, w, y, y_stride, n, n_out, fours)
            x += 4 * fours * x_stride
            y += 4 * fours * y_stride
        else:
            for _ in range(fours):
                if n_out <= PRECISE:
                    precise_four(x, x_stride, w, y, y_stride, n, n_out)
                else:
                    single_four(x, x_stride, w, y, y_stride, n, n_out)
                x += 4 * x_stride
                y += 4 * y_stride
        m -= 4 * fours
    for _ in range(m):
        if n_out <= PRECISE:
            precise_one(x, w, y, n, n_out)
        else:
            single_one(x, w, y, n, n_out)
        x += x_stride
        y += y_stride
