"""Recurrent layers and single steps of cells as table rows; how the weights lie is in cells.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.opcodes import CELLS, LINE
from npinfer.executors.native.pack import in_panels, only_floats, rows_of
from npinfer.executors.native.places import F32, Place, buffer, up
from npinfer.executors.native.program import Program, kind_of
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.graph import Array
from npinfer.ops.recurrent import GRUCell, LSTMCell, MaskedStep, MatrixCell, Recurrent, SimpleRNNCell

STEPS_LEAST, STEPS_MOST = 6, 24  # inputs projected at once: blocks of six rows …
STEP_BYTES = 5461  # … as long as those of 24 samples stay in the second-level cache
MASKED = {"previous": 0, "state": opcodes.MASKED_STATE, "zero": opcodes.MASKED_ZERO}


class Walk(NamedTuple):
    """What the row does beside the cell's step: value numbers, None where there is none."""

    x: int
    states: tuple[int, ...]
    previous: int | None
    mask: int | None
    masked: str | None
    steps: int
    flags: int


def parts_of(a: Array, units: int, order: Sequence[int]) -> Array:
    """The parts of a's last axis in another order, each filled up with zeros to whole vectors."""
    wide = np.zeros((*a.shape[:-1], len(order), up(units, 16)), F32)
    for k, part in enumerate(order):
        wide[..., k, :units] = a[..., part * units : (part + 1) * units]
    return wide.reshape(*a.shape[:-1], -1)


def packed(cell: Any) -> tuple[int, list[Array], list[Array], list[Array]]:
    """(place in CELLS, kernel with bias, recurrent kernel, what else) as arrays for the arena."""
    units, bias, u = cell.recurrent_kernel.shape[0], cell.bias, cell.recurrent_kernel
    if isinstance(cell, LSTMCell):
        order: tuple[int, ...] = (0, 1, 3, 2)
        name, after, second = "lstm", [in_panels(parts_of(u, units, order))], list[Array]()
    elif isinstance(cell, GRUCell):
        order = (2, 0, 1)
        if cell.reset_after:
            own = np.zeros(3 * units, F32) if cell.recurrent_bias is None else cell.recurrent_bias
            both = own.copy()
            both[2 * units :] = 0  # that of the candidate is multiplied by the reset gate
            bias = both if bias is None else bias + both
            name, after, second = "gru_after", [in_panels(parts_of(u, units, (0, 1, 2)))], [parts_of(own, units, (2,))]
        else:
            name, after, second = "gru", [in_panels(parts_of(u, units, (0, 1)))], [in_panels(parts_of(u, units, (2,)))]
    else:
        order = (0,)
        name, after, second = "simple", [in_panels(parts_of(u, units, order))], []
    begin = [in_panels(rows_of(parts_of(cell.kernel, units, order), None if bias is None else parts_of(bias, units, order)))]
    return CELLS.index(name), begin, after, second


def size(arrays: Sequence[Array]) -> int:
    return 4 * sum(a.size for a in arrays)


def cell_row(p: Program, cell: Any, walk: Walk, ys: tuple[int, ...]) -> None:
    only_floats(p, (walk.x, *walk.states), ys)
    mask = None if walk.mask is None else p.places[walk.mask]
    if mask is not None and mask.dtype != bool:
        raise NotNative("a mask that isn't an array of booleans")
    n_in, units = cell.kernel.shape[0], cell.recurrent_kernel.shape[0]
    kinds, parameters = [], np.zeros(16, F32)
    for k, op in enumerate((cell.activation, cell.recurrent_activation if cell.parts > 1 else None)):
        kind, numbers = (0, ()) if op is None else kind_of(op)
        parameters[4 * k : 4 * k + len(numbers)] = numbers
        kinds.append(kind)
    which, begin, after, second = packed(cell)
    at = p.weights(parameters, *begin, *after, *second)
    offsets = LINE, LINE + size(begin), LINE + size(begin) + size(after)

    part = up(4 * units)
    z = part * (4 if CELLS[which] in ("lstm", "gru_after") else cell.parts)
    z += LINE if z % 1024 == 0 else 0
    together = max(STEPS_LEAST, min(STEPS_MOST, STEP_BYTES // z // 6 * 6))
    together = min(walk.steps, together)
    work = buffer((4 * part + together * z) // 4)

    uses = p.graph.uses()
    flags, more = walk.flags, list[Place | None]([None] * 6)
    for k, v in enumerate(walk.states):
        more[k], flags = p.places[v], flags | opcodes.STATES
    if walk.previous is not None:
        more[2], flags = p.places[walk.previous], flags | opcodes.PREVIOUS
    if mask is not None:
        more[3], flags = mask, flags | opcodes.MASKED | MASKED[str(walk.masked)]
        flags |= 0 if mask.region == opcodes.SCRATCH else opcodes.BYTES
    for k, (v, flag) in enumerate(zip(ys[1:], (opcodes.NEXT_H, opcodes.NEXT_C))):
        if uses[v]:
            more[4 + k], flags = p.places[v], flags | flag
    flags |= opcodes.Y if uses[ys[0]] else 0
    p.row(
        opcodes.CELL,
        p.places[ys[0]],
        p.places[walk.x],
        work,
        (which, walk.steps, n_in, units, together, flags, kinds[1], *offsets),
        at,
        cell.activation,
        more=more,
    )
    p.work += walk.steps * (n_in + units) * cell.parts * units


@packs(Recurrent)
def recurrent(p: Program, op: Recurrent, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    states, mask = op.split(xs[1:])
    if type(op.cell) not in (SimpleRNNCell, LSTMCell, GRUCell):
        from npinfer.executors.native.pack_convlstm import conv_lstm
        from npinfer.ops.convlstm import ConvLSTMCell

        if type(op.cell) is not ConvLSTMCell or mask is not None:
            raise NotNative(type(op.cell).__name__)
        steps = range(sizes(p.spec(xs[0]))[0])
        conv_lstm(p, op.cell, xs, ys, steps[::-1] if op.go_backwards else steps, op.return_sequences)
        return
    flags = opcodes.SEQUENCE * op.return_sequences | opcodes.BACKWARDS * op.go_backwards
    cell_row(p, op.cell, Walk(xs[0], states, None, mask, op.masked, sizes(p.spec(xs[0]))[0], flags), ys)


@packs(SimpleRNNCell, LSTMCell, GRUCell)
def step(p: Program, op: MatrixCell, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    cell_row(p, op, Walk(xs[0], xs[1:], None, None, None, 1, 0), ys)


@packs(MaskedStep)
def masked_step(p: Program, op: MaskedStep, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    if type(op.cell) not in (SimpleRNNCell, LSTMCell, GRUCell):
        raise NotNative(type(op.cell).__name__)
    states, previous = (xs[1:-2], xs[-2]) if op.masked == "previous" else (xs[1:-1], None)
    cell_row(p, op.cell, Walk(xs[0], states, previous, xs[-1], op.masked, 1, 0), ys)
