"""Register blocks: some rows of x times a panel of kernel rows, the sums in registers all along. The innermost loops of the
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
from npinfer.executors.native.lanes import F32, FLOATS, I64, LANES, Lanes, broadcast, pointer, prefetch, write
from npinfer.executors.native.opcodes import LINE
from npinfer.executors.native.vector import has_fma

#: kernel rows of a panel that fit into the first-level cache beside some rows of x: 96 · 256 bytes
CACHED = 96


def shape_of_block(context: Any, panel: int, chains: int, level: int) -> tuple[int, int]:
    """(rows, vectors) of a register block for panels of so many vectors, `chains` sums an output: level 0 has as many rows as
    this CPU's registers hold, 1, 2 and 3 have at most four, two and one, for what is left."""
    triple, _, features = context.codegen().magic_tuple()
    if "+avx512f" in features.split(","):  # 32 registers, a vector each
        room = 24
    elif "+avx2" in features.split(",") or triple.startswith(("aarch64", "arm64")):  # 16 registers of half, 32 of a quarter
        room = 6
    else:
        room = 2
    room //= chains
    if level == 3 or room <= 1:
        return 1, panel
    most = max(r for r in (6, 4, 3, 2) if r <= room)
    rows = min(most, (most, 4, 2)[level])
    return rows, max(v for v in (4, 2, 1) if v <= panel and v * rows <= max(room, rows))


def make_block(panel: int, chains: int, level: int, far: bool = False) -> Any:
    """block(x, x_stride, kernel, begin, begin_stride, y, y_stride, n, least): y = begin + x @ kernel for some rows
    (shape_of_block) and n kernel rows of `panel` vectors, but nowhere below `least` (0: relu, -inf: all as it is); strides in
    bytes. far: ask for the kernel rows after the next CACHED ones meanwhile, so that they come from far away in time."""

    @intrinsic  # type: ignore[untyped-decorator]
    def block(
        context: Any,
        x: Any,
        x_stride: Any,
        kernel: Any,
        begin: Any,
        begin_stride: Any,
        y: Any,
        y_stride: Any,
        n: Any,
        least: Any,
    ) -> Any:
        def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
            rows, width = shape_of_block(c, panel, chains, level)
            for first in range(0, panel, width):
                _columns(c, b, args, rows, range(first, first + width), panel, chains, far)
            return c.get_dummy_value()

        return types.void(*[types.intp] * 8, types.float32), codegen

    return block


def _columns(c: Any, b: Any, args: Any, rows: int, columns: range, panel: int, chains: int, far: bool) -> None:
    """The loop of one register block: `rows` rows of x times some vectors ("columns") of the panel."""
    x, x_stride, kernel, begin, begin_stride, y, y_stride, n, least = args
    fused = has_fma(c)

    def vector(address: Any, align: int = LINE) -> Any:
        return b.load(pointer(b, address), align=align)

    def chained(sums: Any, chain: int, line: Any, i: Any) -> Any:
        """The sums after input i, whose kernel row is at `line`."""
        ws = [vector(b.add(line, I64(LINE * u))) for u in columns]
        if far:
            for u in columns:
                prefetch(b, b.add(line, I64(LINE * (panel * CACHED + u))))
        at = b.shl(i, I64(2))
        for r in range(rows):
            scalar = b.load(pointer(b, b.add(starts[r], at), F32), align=4)
            v = Lanes(b, broadcast(b, scalar), fused)
            for u in range(len(columns)):
                sums[r][u][chain] = lanes.fma(v, v.like(ws[u]), v.like(sums[r][u][chain])).value
        return sums

    starts = [x if r == 0 else b.add(x, b.mul(x_stride, I64(r))) for r in range(rows)]
    zero = ir.Constant(FLOATS, [0.0] * LANES)
    sums = []
    for r in range(rows):
        at = begin if r == 0 else b.add(begin, b.mul(begin_stride, I64(r)))
        sums.append([[vector(b.add(at, I64(LINE * u)), 4)] + [zero] * (chains - 1) for u in columns])
    body_n, i = b.and_(n, I64(-chains)), I64(0)
    for step, end in ((chains, body_n), *([(1, n)] if chains > 1 else [])):  # chains at a time, then what is left
        before, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
        b.cbranch(b.icmp_signed("<", i, end), loop, after)
        b.position_at_end(loop)
        counter = b.phi(I64)
        carried = [[[b.phi(FLOATS) for _ in row] for row in line] for line in sums]
        new = [[list(row) for row in line] for line in carried]
        line = b.add(kernel, b.mul(counter, I64(LINE * panel)))
        if step == 1 and chains > 1:
            # input i of the rest goes to sum i mod chains: the first one, which then moves to the end of the list
            new = chained(new, 0, line, counter)
            new = [[row[1:] + row[:1] for row in lane] for lane in new]
        else:
            for k in range(step):
                new = chained(new, k, b.add(line, I64(LINE * panel * k)), b.add(counter, I64(k)))
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
    for r in range(rows):
        out = y if r == 0 else b.add(y, b.mul(y_stride, I64(r)))
        for u, column in enumerate(columns):
            parts = sums[r][u]
            while len(parts) > 1:
                parts = [b.fadd(p, q) for p, q in zip(parts[::2], parts[1::2])]
            write(b, lanes.at_least(floor.like(parts[0]), floor).value, b.add(out, I64(LINE * column)))


def _flat(nested: Any) -> list[Any]:
    return [v for line in nested for row in line for v in row]


def rows_of_block(panel: int, chains: int, level: int) -> Any:
    """A function for Numba code: the rows of such a block."""

    @intrinsic  # type: ignore[untyped-decorator]
    def rows(context: Any) -> Any:
        return types.intp(), lambda c, b, s, a: I64(shape_of_block(c, panel, chains, level)[0])

    return rows
