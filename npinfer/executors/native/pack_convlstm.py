"""ConvLSTM as table rows: a sequence of known length is unrolled, a stream's step is a sequence of one. Nothing here needs
Numba."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.pack import only_floats
from npinfer.executors.native.pack_images import Described, convolve, describe, spilling
from npinfer.executors.native.places import Place
from npinfer.executors.native.program import Program
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.graph import Op
from npinfer.ops.conv import Conv
from npinfer.ops.convlstm import ConvLSTMCell
from npinfer.ops.windows import pairs_of

MOST_STEPS = 64  # a step is some fifteen rows


class Step(NamedTuple):
    """A cell, packed: both convolutions, and the size of its state."""

    cell: ConvLSTMCell
    input_conv: Described
    recurrent_conv: Described
    pixels: int
    filters: int

    @property
    def size(self) -> int:
        return self.pixels * self.filters


def packed(p: Program, cell: ConvLSTMCell, x: Sequence[int], state: Sequence[int]) -> Step:
    """x, state: shapes a step."""

    def one(conv: Conv, shape: Sequence[int]) -> Described:
        *image, channels = shape
        pairs = pairs_of(conv.padding, image, conv.window, conv.strides, conv.dilation)
        return describe(p, conv.replace(padding=pairs), image, channels, state[:-1])

    if len(x) > 4 or cell.input_conv.groups > 1 or cell.recurrent_conv.groups > 1:
        raise NotNative("a ConvLSTM of groups, or with more than three axes")
    found = one(cell.input_conv, x), one(cell.recurrent_conv, state)
    return Step(cell, *found, int(np.prod(state[:-1])), state[-1])


def step_rows(p: Program, step: Step, x: Place, states: Sequence[Place | None], h: Place, c: Place) -> None:
    """One step: h and c from x and the states before it (None: zeros)."""
    n, filters = step.size, step.filters
    total, cell = spilling(4 * n, 4 * filters), step.cell
    convolve(p, total, x, step.input_conv)
    before, before_c = states
    part = zero = p.constant(np.float32(0))
    strides = (0, 0)
    # a state of zeros adds zeros, unless the kernel has infinite numbers
    if before is None and not np.isfinite(cell.recurrent_conv.kernel).all():
        before = fill(p, zero, n)
    if before is not None:
        part, strides = spilling(4 * n, 4 * filters), (4 * filters, 1)
        convolve(p, part, before, step.recurrent_conv)

    def gate(k: int, activation: Op | None) -> Place:
        """The k-th quarter of each pixel's sums: of both convolutions, activated, pixels one after another."""
        out = p.buffer(n)
        at = k * filters
        shape, own = (step.pixels, filters), (filters, 1)
        walk = p.walk(shape, (own, 0), ((4 * filters, 1), at), (strides, at if before is not None else 0))
        p.row(opcodes.BINARY, out, total, part, (opcodes.BINARIES.index("add"), n), walk, activation=activation)
        return out

    def combine(kind: str, out: Place, a: Place, b: Place) -> Place:
        p.binary(kind, out, a, b, ((n,), (n,)))
        return out

    i, new = gate(0, cell.recurrent_activation), gate(2, cell.activation)
    combine("multiply", new, i, new)
    f = gate(1, cell.recurrent_activation)
    kept = before_c or fill(p, zero, n)
    combine("multiply", f, f, kept)
    o = gate(3, cell.recurrent_activation)
    combine("add", c, f, new)
    y = c
    if cell.activation is not None:
        y = p.buffer(n)
        p.row(opcodes.MAP, y, c, values=(n,), activation=cell.activation)
    combine("multiply", h, o, y)


def fill(p: Program, value: Place, n: int) -> Place:
    out = p.buffer(n)
    p.arrange(out, np.arange(n), value, np.zeros(n, np.int64))
    return out


def conv_lstm(
    p: Program,
    cell: ConvLSTMCell,
    xs: tuple[int, ...],
    ys: tuple[int, ...],
    order: Sequence[int] | None = None,
    sequence: bool = False,
) -> None:
    """xs: the sequence or, where order is None, one step, and the states, if they are given. ys: y, of all steps with
    `sequence`, and the last states. order: the numbers of the steps as they are walked."""
    only_floats(p, xs, ys)
    shape, state = sizes(p.spec(xs[0])), sizes(p.spec(ys[1]))
    if order is not None:
        if not 0 < len(order) <= MOST_STEPS:
            raise NotNative(f"a ConvLSTM over {len(order)} steps; up to {MOST_STEPS} are unrolled")
        shape = shape[1:]
    step, uses = packed(p, cell, shape, state), p.graph.uses()
    x, n = p.places[xs[0]], int(np.prod(shape))
    each, size = np.arange(n), np.arange(step.size)
    states: list[Place | None] = [p.places[v] for v in xs[1:]] or [None, None]
    walked = [0] if order is None else order
    for k, t in enumerate(walked):
        last = k == len(walked) - 1
        now = x
        if len(walked) > 1:
            now = p.buffer(n)
            p.arrange(now, each, x, each + t * n)
        h, c = (p.places[v] if last and uses[v] else p.buffer(step.size) for v in ys[1:])
        step_rows(p, step, now, states, h, c)
        states = [h, c]
        if uses[ys[0]] and (sequence or last):
            p.arrange(p.places[ys[0]], size + (k * step.size if sequence else 0), h, size)


@packs(ConvLSTMCell)
def conv_lstm_step(p: Program, op: ConvLSTMCell, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    conv_lstm(p, op, xs, ys)
