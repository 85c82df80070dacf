"""Normalization of groups of channels, and to unit length, as table rows. Nothing here needs Numba."""

from __future__ import annotations

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.pack import only_floats
from npinfer.executors.native.places import numbered
from npinfer.executors.native.program import Program
from npinfer.executors.native.rules import packs
from npinfer.executors.signature import sizes
from npinfer.ops.arithmetic import Unary
from npinfer.ops.norm import GroupNorm, UnitNorm


@packs(GroupNorm)
def group_norm(p: Program, op: GroupNorm, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    """As `norm` in pack.py, the groups one after another in memory: in each, runs of its entries, or, where those would be
    short, one entry after another of all pixels."""
    only_floats(p, xs, ys)
    shape = sizes(p.spec(xs[0]))
    a = len(shape) + op.axis
    before, entries, after = int(np.prod(shape[:a])), shape[a] // op.groups, int(np.prod(shape[a + 1 :]))
    n, y = int(np.prod(shape)), p.places[ys[0]]
    order = (1, 2, 0, 3) if entries * after < 16 else (1, 0, 2, 3)
    numbers = numbered(before, op.groups, entries, after).transpose(order)
    moved, whole = p.buffer(n), numbered(*numbers.shape)
    p.arrange(moved, whole, p.places[xs[0]], numbers)
    p.row(opcodes.NORM, moved, moved, values=(op.groups, n // op.groups, 1), parameters=(op.epsilon,))
    scales = [(kind, s) for kind, s in (("multiply", op.gamma), ("add", op.beta)) if s is not None]
    # a factor for each entry stays the same over the pixels, which lie in one run here
    early = order[2] == 0 and all(s.size == s.shape[op.axis] == shape[a] for _, s in scales)
    out = moved if early else y
    if not early:
        p.arrange(y, numbers, moved, whole)
    for kind, s in scales:
        form = (op.groups, entries, 1, 1) if early else s.shape
        p.binary(kind, out, out, p.constant(s), (numbers.shape if early else shape, form))
    if early:
        p.arrange(y, numbers, moved, whole)


@packs(UnitNorm)
def unit_norm(p: Program, op: UnitNorm, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    x, shape = p.places[xs[0]], sizes(p.spec(xs[0]))
    axes = {a % len(shape) for a in op.axes}
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape))
    n, count = int(np.prod(shape)), int(np.prod(kept))
    squares, factor = p.buffer(n), p.buffer(count)
    p.binary("multiply", squares, x, x, (shape, shape))
    source, _, inner = p.last_axes(squares, shape, op.axes)
    p.row(opcodes.REDUCE, factor, source, values=(count, inner, opcodes.REDUCTIONS.index("sum")))
    p.row(opcodes.MAP, factor, factor, values=(count,), activation=Unary("rsqrt"))
    p.binary("minimum", factor, factor, p.constant(np.float32(op.limit)), (kept, ()))
    p.binary("multiply", p.places[ys[0]], x, factor, (shape, kept))
