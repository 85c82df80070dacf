"""The interpreter: one compiled function that runs any program. record.py says what its arguments mean; that is the interface.

Adding an opcode: a function `(row, frame, m) -> status`, a number in opcodes.py, a branch in `execute`.
"""

from __future__ import annotations

from npinfer.executors.native import opcodes as op
from npinfer.executors.native.cells import cell_row
from npinfer.executors.native.dots import dots
from npinfer.executors.native.frame import operand
from npinfer.executors.native.groups import norm_row, reduce_row, softmax_row
from npinfer.executors.native.images import conv_row
from npinfer.executors.native.loops import binary_row, copy_row, finish, finish_sums, gather_row, least_of, map_row
from npinfer.executors.native.opcodes import ARENA, LINE, MORE, OUT, ROW, SIZES, WEIGHTS, A, B
from npinfer.executors.native.panels import AS_IT_IS, exact_product, exact_product_one, product, product_one
from npinfer.executors.native.record import (
    GENERATION,
    NO_SCRATCH,
    P_ARENA,
    P_INPUTS,
    P_OUTPUTS,
    P_ROWS,
    P_SCRATCH,
    P_SCRATCH_ROW,
    P_STRIDES,
    P_TABLE,
    P_TILE,
    SLOTS,
)
from npinfer.executors.native.vector import fence, i64_at, i64_put, jit, read_shared
from npinfer.executors.native.windows import window_row


@jit
def dense_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    w = i64_at(frame, ARENA) + i64_at(row, WEIGHTS)
    n, n_out, inner, exact = i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2), i64_at(row, SIZES + 3)
    least = least_of(row)
    if exact == 0 and m == 1:
        product_one(x, w, y, n, n_out, least)
        finish_sums(row, y, y_stride, y_stride >> 2, 1)
        return 0
    temp, temp_stride = operand(row, B, frame, m)
    if inner == 1 and m == 1:
        exact_product_one(x, w, y, n, n_out, temp, least)
        finish_sums(row, y, y_stride, n_out, 1)
        return 0
    room = m * temp_stride >> 8  # rows of a group
    if exact == 0:
        product(x, x_stride, w, y, y_stride, n, n_out, m, least)
        finish_sums(row, y, y_stride, y_stride >> 2, m)
    elif inner == 1:
        exact_product(x, x_stride, w, y, y_stride, n, n_out, m, temp, room, least)
        finish_sums(row, y, y_stride, n_out, m)
    else:
        for r in range(m):
            exact_product(x + r * x_stride, 4 * n, w, y + r * y_stride, 4 * n_out, n, n_out, inner, temp, room, least)
        finish_sums(row, y, y_stride, inner * n_out, m)
    return 0


@jit
def dots_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    w = i64_at(frame, ARENA) + i64_at(row, WEIGHTS)
    n, n_out, inner, exact = i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2), i64_at(row, SIZES + 3)
    y += i64_at(row, SIZES + 4)
    if inner == 1:
        dots(x, x_stride, w, y, y_stride, n, n_out, m)
    else:
        for r in range(m):
            dots(x + r * x_stride, 4 * n, w, y + r * y_stride, 4 * n_out, n, n_out, inner)
    # where all of a row is our own, one run over everything is quicker than one a sample
    finish(row, y, y_stride, inner * n_out if exact else y_stride >> 2, m)
    return 0


@jit
def matmul_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    w, w_stride = operand(row, B, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    temp, temp_stride = operand(row, MORE, frame, m)
    n, n_out, rows, count = (i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2), i64_at(row, SIZES + 3))
    x_row, x_matrix, y_row, y_matrix = (
        i64_at(row, SIZES + 4),
        i64_at(row, SIZES + 5),
        i64_at(row, SIZES + 6),
        i64_at(row, SIZES + 7),
    )
    w_matrix, share = i64_at(row, SIZES + 8), i64_at(row, SIZES + 9)
    room = m * temp_stride >> 8  # rows of a group
    for r in range(m):
        at = w + r * w_stride
        for k in range(count):
            x_at, y_at = x + r * x_stride + k * x_matrix, y + r * y_stride + k * y_matrix
            exact_product(x_at, x_row, at, y_at, y_row, n, n_out, rows, temp, room, AS_IT_IS)
            if (k + 1) % share == 0:
                at += w_matrix
    return 0


@jit
def execute(row, frame, m):
    """Run one row over a tile of m samples; LLVM makes a jump table of this."""
    opcode = i64_at(row, 0)
    if opcode == op.DENSE:
        return dense_row(row, frame, m)
    if opcode == op.DOTS:
        return dots_row(row, frame, m)
    if opcode == op.MAP:
        return map_row(row, frame, m)
    if opcode == op.COPY:
        return copy_row(row, frame, m)
    if opcode == op.BINARY:
        return binary_row(row, frame, m)
    if opcode == op.SOFTMAX:
        return softmax_row(row, frame, m)
    if opcode == op.NORM:
        return norm_row(row, frame, m)
    if opcode == op.REDUCE:
        return reduce_row(row, frame, m)
    if opcode == op.CONV:
        return conv_row(row, frame, m)
    if opcode == op.WINDOW:
        return window_row(row, frame, m)
    if opcode == op.CELL:
        return cell_row(row, frame, m)
    if opcode == op.MATMUL:
        return matmul_row(row, frame, m)
    return gather_row(row, frame, m)


@jit
def run(program, ins, outs, rows, scratch):
    """All rows of a program over a batch, tile after tile, so that a tile's values stay in the cache from layer to layer."""
    tile, fixed = i64_at(program, P_TILE), i64_at(program, P_SCRATCH)
    if i64_at(scratch, 0) < fixed + min(rows, tile) * i64_at(program, P_SCRATCH_ROW):
        return NO_SCRATCH
    frame = scratch + LINE
    i64_put(frame, 0, scratch + fixed - LINE)  # the fixed part's last line stays free behind all rows
    i64_put(frame, 1, i64_at(program, P_ARENA))
    n_in, n_out = i64_at(program, P_INPUTS), i64_at(program, P_OUTPUTS)
    table = i64_at(program, P_TABLE)
    end = table + 8 * ROW * i64_at(program, P_ROWS)
    start = 0
    while start < rows:
        m = min(tile, rows - start)
        for k in range(n_in):
            i64_put(frame, 2 + k, i64_at(ins, k) + start * i64_at(program, P_STRIDES + k))
        for k in range(n_out):
            i64_put(frame, 2 + n_in + k, i64_at(outs, k) + start * i64_at(program, P_STRIDES + n_in + k))
        row = table
        while row < end:
            status = execute(row, frame, m)
            if status != 0:
                return status
            row += 8 * ROW
        start += m
    return 0


@jit
def entry(ctx, ins, outs, rows, scratch):
    """Run the current program, and again if its memory may have been rewritten meanwhile (record.py, "Weight swap")."""
    while True:
        began = read_shared(ctx + 8 * GENERATION) >> 1
        status = run(i64_at(ctx, SLOTS + (began & 1)), ins, outs, rows, scratch)
        fence()
        if read_shared(ctx + 8 * GENERATION) < 2 * began + 3:
            return status
