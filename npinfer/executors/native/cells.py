"""Recurrent layers: one table row walks a cell along a sequence, or does one step of a stream.

A step is z = begin + h @ recurrent_kernel. `begin`, what the input adds, is made for several steps at once like any matrix
product, and z's sums go on from it. Then come the gates, z's parts, each filled up to whole vectors:

    SimpleRNN [h]   LSTM [i f o c]   GRU [c z r], with reset_after [c z r m], m what the state adds to the candidate

A stream of single steps adds in the same order as the walk does, so both give the same bits.

**Subnormal states are flushed.** A state that decays through the subnormal numbers would make every product with it a hundred
times slower, for nothing: h and c below the smallest normal float32 (1.2e-38) become 0. The process's own settings for
subnormals are left alone.

Working space of a sample: h, c, the output so far of a masked walk, a spare; then z of some steps.
"""

from __future__ import annotations

from typing import Any

from npinfer.executors.native import lanes
from npinfer.executors.native.frame import operand
from npinfer.executors.native.lanes import Lanes
from npinfer.executors.native.maps import lines_of
from npinfer.executors.native.opcodes import (
    ACTIVATION,
    ARENA,
    BACKWARDS,
    BYTES,
    CELLS,
    LINE,
    MASKED,
    MASKED_STATE,
    MASKED_ZERO,
    MORE,
    NEXT_C,
    NEXT_H,
    OUT,
    PREVIOUS,
    SEQUENCE,
    SIZES,
    STATES,
    WEIGHTS,
    A,
    B,
    Y,
)
from npinfer.executors.native.panels import AS_IT_IS, copy_floats, group_of, make_strip
from npinfer.executors.native.vector import i8_at, i64_at, jit, load, splat, store, traced


def _flushed(x: Lanes) -> Lanes:
    return lanes.select(abs(x) < 1.17549435e-38, 0, x)


flushed = traced(_flushed)
LSTM, GRU, GRU_AFTER = (CELLS.index(n) for n in ("lstm", "gru", "gru_after"))


def make_product(onward: bool) -> Any:
    """product(x, x_stride, w, y, y_stride, n, panels, m): y = bias + m rows of x times panels, or, onward, y += the same of
    panels without biases, each output's sum going on from what is in y."""
    strip4, strip2, strip1 = make_strip(4, 1, onward), make_strip(2, 2, onward), make_strip(1, 4, onward)
    more = 0 if onward else 1

    @jit
    def product(x, x_stride, w, y, y_stride, n, panels, m):
        panel = (n + more) * LINE
        while panels > 0:
            group = group_of(panels)
            if group == 4:
                strip4(x, x_stride, w, panel, y, y_stride, n, m, AS_IT_IS)
            elif group == 2:
                strip2(x, x_stride, w, panel, y, y_stride, n, m, AS_IT_IS)
            else:
                strip1(x, x_stride, w, panel, y, y_stride, n, m, AS_IT_IS)
            w += group * panel
            y += group * LINE
            panels -= group

    return product


project, add_product = make_product(False), make_product(True)


@jit
def fill_zero(at, n_bytes):
    end = at + n_bytes
    while at < end:
        store(at, splat(0.0))
        at += LINE


@jit
def act_on(kind, x, y, n_bytes, p):
    if kind != 0 or x != y:
        lines_of(kind, x, y, n_bytes >> 2, p)


@jit
def simple_gates(z, h, n, act, p):
    """n: bytes of a part."""
    act_on(act, z, z, n, p)
    for at in range(0, n, LINE):
        store(h + at, flushed(load(z + at)))


@jit
def lstm_gates(z, h, n, act, gate, p):
    c, spare, g = h + n, h + 3 * n, z + 3 * n
    act_on(gate, z, z, 3 * n, p + 16)
    act_on(act, g, g, n, p)
    for at in range(0, n, LINE):
        store(c + at, flushed(load(z + n + at) * load(c + at) + load(z + at) * load(g + at)))
    act_on(act, c, spare, n, p)
    for at in range(0, n, LINE):
        store(h + at, flushed(load(z + 2 * n + at) * load(spare + at)))


@jit
def gru_candidate(z, h, n, act, p):
    """h' = z·h + (1 - z)·act(c), where c is complete."""
    act_on(act, z, z, n, p)
    for at in range(0, n, LINE):
        u = load(z + n + at)
        store(h + at, flushed(u * load(h + at) + (1.0 - u) * load(z + at)))


@jit
def multiplied(y, x, n):
    for at in range(0, n, LINE):
        store(y + at, load(y + at) * load(x + at))


@jit
def added_product(y, a, b, n):
    for at in range(0, n, LINE):
        store(y + at, load(y + at) + load(a + at) * load(b + at))


@jit
def counts(mask, mask_stride, r):
    return mask == 0 or i8_at(mask + r * mask_stride, 0) != 0


@jit
def advance(row, weights, z, h, stride, mask, mask_stride, m):
    """One step of m samples whose z and working space lie `stride` apart; where the mask's byte is 0 the state stays."""
    kind, units = i64_at(row, SIZES), i64_at(row, SIZES + 3)
    vectors = (units + 15) >> 4
    n = vectors * LINE
    act, gate = i64_at(row, ACTIVATION), i64_at(row, SIZES + 6)
    recurrent, second = weights + i64_at(row, SIZES + 8), weights + i64_at(row, SIZES + 9)
    begin, wide = z, vectors
    if kind == LSTM:
        wide = 4 * vectors
    elif kind == GRU:
        begin, wide = z + n, 2 * vectors
    elif kind == GRU_AFTER:
        begin, wide = z + n, 3 * vectors
        for r in range(m):
            copy_floats(second, z + 3 * n + r * stride, 16 * vectors)
    add_product(h, stride, recurrent, begin, stride, units, wide, m)
    if kind == GRU:
        for r in range(m):
            z_r, h_r = z + r * stride, h + r * stride
            act_on(gate, z_r + n, z_r + n, 2 * n, weights + 16)
            copy_floats(h_r, h_r + 3 * n, 16 * vectors)
            multiplied(h_r + 3 * n, z_r + 2 * n, n)
        add_product(h + 3 * n, stride, second, z, stride, units, vectors, m)
    for r in range(m):
        if counts(mask, mask_stride, r):
            z_r, h_r = z + r * stride, h + r * stride
            if kind == LSTM:
                lstm_gates(z_r, h_r, n, act, gate, weights)
            elif kind == 0:
                simple_gates(z_r, h_r, n, act, weights)
            else:
                if kind == GRU_AFTER:
                    act_on(gate, z_r + n, z_r + n, 2 * n, weights + 16)
                    added_product(z_r, z_r + 2 * n, z_r + 3 * n, n)
                gru_candidate(z_r, h_r, n, act, weights)


@jit
def cell_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    h, stride = operand(row, B, frame, m)
    weights = i64_at(frame, ARENA) + i64_at(row, WEIGHTS)
    kind, steps, n_in, units = i64_at(row, SIZES), i64_at(row, SIZES + 1), i64_at(row, SIZES + 2), i64_at(row, SIZES + 3)
    together, flags = i64_at(row, SIZES + 4), i64_at(row, SIZES + 5)
    n = ((units + 15) >> 4) * LINE
    parts = 4 if kind == LSTM else 1 if kind == 0 else 3
    z_stride = n * (4 if kind == GRU_AFTER else parts)
    if z_stride & 1023 == 0:
        z_stride += LINE
    z = h + 4 * n
    mask, mask_stride = operand(row, MORE + 9, frame, m)
    width = 1 if flags & BYTES else 4
    load_states(row, frame, h, stride, n, m)
    done = 0
    while done < steps:
        part = min(together, steps - done)
        start = steps - done - part if flags & BACKWARDS else done
        kernel = weights + i64_at(row, SIZES + 7)
        if steps == 1:
            project(x, x_stride, kernel, z, stride, n_in, parts * (n >> 6), m)
        else:
            for r in range(m):
                first = x + r * x_stride + 4 * n_in * start
                project(first, 4 * n_in, kernel, z + r * stride, z_stride, n_in, parts * (n >> 6), part)
        for k in range(part):
            j = part - 1 - k if flags & BACKWARDS else k
            byte = mask + (start + j) * width if flags & MASKED else 0
            advance(row, weights, z + j * z_stride, h, stride, byte, mask_stride, m)
            if flags & MASKED:
                for r in range(m):
                    h_r = h + r * stride
                    if counts(byte, mask_stride, r) or flags & MASKED_STATE:
                        copy_floats(h_r, h_r + 2 * n, n >> 2)
                    elif flags & MASKED_ZERO:
                        fill_zero(h_r + 2 * n, n)
            if flags & SEQUENCE:
                write_out(h, flags, stride, n, y + 4 * units * (done + k), y_stride, units, m)
        done += part
    if flags & Y and not flags & SEQUENCE:
        write_out(h, flags, stride, n, y, y_stride, units, m)
    return store_states(row, frame, h, stride, n, m)


@jit
def write_out(h, flags, stride, n, y, y_stride, units, m):
    source = h + 2 * n if flags & MASKED else h
    for r in range(m):
        copy_floats(source + r * stride, y + r * y_stride, units)


@jit
def load_states(row, frame, h, stride, n, m):
    kind, units, flags = i64_at(row, SIZES), i64_at(row, SIZES + 3), i64_at(row, SIZES + 5)
    for r in range(m):
        if 4 * units != n or not flags & STATES or flags & MASKED:
            fill_zero(h + r * stride, 3 * n)
        if flags & STATES:
            for k in range(2 if kind == LSTM else 1):
                at, at_stride = operand(row, MORE + 3 * k, frame, m)
                copy_floats(at + r * at_stride, h + r * stride + k * n, units)
        if flags & PREVIOUS:
            at, at_stride = operand(row, MORE + 6, frame, m)
            copy_floats(at + r * at_stride, h + r * stride + 2 * n, units)


@jit
def store_states(row, frame, h, stride, n, m):
    units, flags = i64_at(row, SIZES + 3), i64_at(row, SIZES + 5)
    for k in range(2):
        if flags & (NEXT_C if k else NEXT_H):
            at, at_stride = operand(row, MORE + 12 + 3 * k, frame, m)
            for r in range(m):
                copy_floats(h + r * stride + k * n, at + r * at_stride, units)
    return 0
