"""Register blocks: some rows of x times some panels of kernel rows, the sums in registers all along. The innermost loops of the
engine.

How many sums fit is the CPU's business and chosen when compiling. Each output's own order of additions is the same in every
block (input i goes to sum i mod `chains`, the first sum starts with the bias, and in the end pairs are added), so a sample's
bits don't depend on which block, and so which batch, it is in.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from npinfer.executors.native import lanes
from npinfer.executors.native.lanes import F32, FLOATS, I64, LANES, Lanes, broadcast, pointer, write
from npinfer.executors.native.opcodes import LINE
from npinfer.executors.native.vector import has_fma


def shape_of_block(context: Any, panels: int, chains: int, level: int) -> tuple[int, int]:
    """(rows, panels at once) of a register block, for a group of so many panels, `chains` sums an output: level 0 has as many
    rows as this CPU's registers hold, 1 and 2 have at most four and two, for what is left, 3 is one row and the whole group."""
    triple, _, features = context.codegen().magic_tuple()
    if "+avx512f" in features.split(","):  # 32 registers, a vector each
        room = 24
    elif "+avx2" in features.split(",") or triple.startswith(("aarch64", "arm64")):  # 16 registers of half, 32 of a quarter
        room = 6
    else:
        room = 2
    room //= chains
    if level == 3 or room <= 1:
        return 1, panels
    most = max(r for r in (6, 4, 3, 2) if r <= room)
    rows = min(most, (most, 4, 2)[level])
    return rows, max(v for v in (4, 2, 1) if v <= panels and v * rows <= max(room, rows))


def make_block(panels: int, chains: int, level: int, onward: bool = False) -> Any:
    """block(x, x_stride, w, panel, y, y_stride, n, least): y = bias + x @ kernel for some rows and panels (shape_of_block) of n
    kernel rows, but nowhere below `least` (0: relu, -inf: all as it is). Strides in bytes; w: the first panel, `panel` bytes
    long. onward: the panels have no bias, and sums go on from what is in y."""

    @intrinsic  # type: ignore[untyped-decorator]
    def block(context: Any, x: Any, x_stride: Any, w: Any, panel: Any, y: Any, y_stride: Any, n: Any, least: Any) -> Any:
        def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
            rows, width = shape_of_block(c, panels, chains, level)
            _block(c, b, args, rows, width, chains, onward)
            return c.get_dummy_value()

        return types.void(*[types.intp] * 7, types.float32), codegen

    return block


def _block(c: Any, b: Any, args: Any, rows: int, width: int, chains: int, onward: bool) -> None:
    x, x_stride, w, panel, y, y_stride, n, least = args
    fused = has_fma(c)

    def at(base: Any, step: Any, k: int) -> Any:
        return b.add(base, b.mul(step, I64(k))) if k else base

    def vector(address: Any, align: int = LINE) -> Any:
        return b.load(pointer(b, address), align=align)

    def chained(sums: Any, chain: int, i: Any) -> Any:
        """The sums after input i."""
        line, scalar_at = b.shl(i, I64(6)), b.shl(i, I64(2))
        ws = [vector(b.add(panel_at, line)) for panel_at in panels]
        for r in range(rows):
            scalar = b.load(pointer(b, b.add(starts[r], scalar_at), F32), align=4)
            v = Lanes(b, broadcast(b, scalar), fused)
            for u in range(width):
                sums[r][u][chain] = lanes.fma(v, v.like(ws[u]), v.like(sums[r][u][chain])).value
        return sums

    starts, results = [at(x, x_stride, r) for r in range(rows)], [at(y, y_stride, r) for r in range(rows)]
    panels = [at(w, panel, u) for u in range(width)]
    zero = ir.Constant(FLOATS, [0.0] * LANES)
    if onward:
        begin = [[vector(b.add(result, I64(LINE * u)), 4) for u in range(width)] for result in results]
    else:
        begin = [[vector(panel_at) for panel_at in panels]] * rows
        panels = [b.add(panel_at, I64(LINE)) for panel_at in panels]
    sums = [[[first] + [zero] * (chains - 1) for first in line] for line in begin]
    body_n, i = b.and_(n, I64(-chains)), I64(0)
    for step, end in ((chains, body_n), *([(1, n)] if chains > 1 else [])):  # chains at a time, then what is left
        before, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
        b.cbranch(b.icmp_signed("<", i, end), loop, after)
        b.position_at_end(loop)
        counter = b.phi(I64)
        carried = [[[b.phi(FLOATS) for _ in row] for row in line] for line in sums]
        new = [[list(row) for row in line] for line in carried]
        if step == 1 and chains > 1:
            # input i of the rest goes to sum i mod chains: the first one, which then moves to the end of the list
            new = chained(new, 0, counter)
            new = [[row[1:] + row[:1] for row in lane] for lane in new]
        else:
            for k in range(step):
                new = chained(new, k, b.add(counter, I64(k)))
        following = b.add(counter, I64(step))
        counter.add_incoming(i, before)
        counter.add_incoming(following, b.block)
        for old, phis, fresh in zip(_flat(sums), _flat(carried), _flat(new)):
            phis.add_incoming(old, before)
            phis.add_incoming(fresh, b.block)
        b.cbranch(b.icmp_signed("<", following, end), loop, after)
        last = b.block
        b.position_at_end(after)
        joined = b.phi(I64)
        joined.add_incoming(i, before)
        joined.add_incoming(following, last)
        merged = []
        for old, fresh in zip(_flat(sums), _flat(new)):
            phi = b.phi(FLOATS)
            phi.add_incoming(old, before)
            phi.add_incoming(fresh, last)
            merged.append(phi)
        it = iter(merged)
        sums, i = [[[next(it) for _ in row] for row in line] for line in sums], joined
    floor = Lanes(b, broadcast(b, least), fused)
    for result, line in zip(results, sums):
        for u, parts in enumerate(line):
            while len(parts) > 1:
                parts = [b.fadd(p, q) for p, q in zip(parts[::2], parts[1::2])]
            write(b, lanes.at_least(floor.like(parts[0]), floor).value, b.add(result, I64(LINE * u)))


def _flat(nested: Any) -> list[Any]:
    return [v for line in nested for row in line for v in row]


def of_block(which: int, panels: int, chains: int, level: int) -> Any:
    """A function for Numba code: the rows (which 0) or the panels at once (1) of such a block."""

    @intrinsic  # type: ignore[untyped-decorator]
    def size(context: Any) -> Any:
        return types.intp(), lambda c, b, s, a: I64(shape_of_block(c, panels, chains, level)[which])

    return size
