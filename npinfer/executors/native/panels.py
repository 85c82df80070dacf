"""Matrix products over packed panels: y = bias + x @ kernel, by register blocks of rows × vectors.

A panel holds 64, 32 or 16 outputs: [bias | kernel row 0 | kernel row 1 | …], so one pass reads memory in order. A block keeps
`rows × vectors` sums in registers while it walks over the inputs. How many fit is the CPU's business and chosen when compiling;
each output's own order of additions is the panel's (below), the same in every block, so a sample's bits don't depend on the
batch.

One sample alone needs eight or more independent sums to keep two multiply-add units busy (each takes four cycles). A full panel
has them; narrow ones split the inputs over 2 or 4 sums an output ("chains": input i goes to sum i mod chains, the
first sum starts with the bias, and in the end pairs are added).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from npinfer.executors.native import lanes
from npinfer.executors.native.lanes import F32, FLOATS, I64, LANES, Lanes, broadcast, pointer, prefetch, write
from npinfer.executors.native.opcodes import LINE
from npinfer.executors.native.vector import (
    f32_at,
    f32_put,
    fma,
    has_fma,
    jit,
    lane_sum,
    load,
    load_tail,
    splat,
    store,
    store_tail,
)

#: vectors in a panel -> sums an output
CHAINS = {4: 1, 2: 2, 1: 4}
#: kernel rows of a panel that fit into the first-level cache beside some rows of x: 96 · 256 bytes
CACHED = 96


def shape_of_block(context: Any, panel: int, level: int) -> tuple[int, int]:
    """(rows, vectors) of a register block for panels of so many vectors: level 0 has as many rows as this CPU's registers hold,
    1, 2 and 3 have at most four, two and one, for what is left."""
    triple, _, features = context.codegen().magic_tuple()
    if "+avx512f" in features.split(","):  # 32 registers, a vector each
        room = 24
    elif "+avx2" in features.split(",") or triple.startswith(("aarch64", "arm64")):  # 16 registers of half, 32 of a quarter
        room = 6
    else:
        room = 2
    room //= CHAINS[panel]  # vectors of sums
    if level == 3 or room <= 1:
        return 1, panel
    most = max(r for r in (6, 4, 3, 2) if r <= room)
    rows = min(most, (most, 4, 2)[level])
    return rows, max(v for v in (4, 2, 1) if v <= panel and v * rows <= max(room, rows))


def make_block(panel: int, level: int, far: bool) -> Any:
    """block(x, x_stride, kernel, begin, begin_stride, y, y_stride, n): y = begin + x @ kernel for some rows (shape_of_block)
    and n kernel rows of `panel` vectors; strides in bytes. far: ask for the kernel rows after the next CACHED ones meanwhile,
    so that they come from far away in time."""
    chains = CHAINS[panel]

    @intrinsic  # type: ignore[untyped-decorator]
    def block(
        context: Any, x: Any, x_stride: Any, kernel: Any, begin: Any, begin_stride: Any, y: Any, y_stride: Any, n: Any
    ) -> Any:
        def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
            rows, width = shape_of_block(c, panel, level)
            for first in range(0, panel, width):
                _columns(c, b, args, rows, range(first, first + width), panel, chains, far)
            return c.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return block


def _columns(c: Any, b: Any, args: Any, rows: int, columns: range, panel: int, chains: int, far: bool) -> None:
    """The loop of one register block: `rows` rows of x times some vectors ("columns") of the panel."""
    x, x_stride, kernel, begin, begin_stride, y, y_stride, n = args
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
    for r in range(rows):
        out = y if r == 0 else b.add(y, b.mul(y_stride, I64(r)))
        for u, column in enumerate(columns):
            parts = sums[r][u]
            while len(parts) > 1:
                parts = [b.fadd(p, q) for p, q in zip(parts[::2], parts[1::2])]
            write(b, parts[0], b.add(out, I64(LINE * column)))


def _flat(nested: Any) -> list[Any]:
    return [v for line in nested for row in line for v in row]


def _rows_of(panel: int, level: int) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def rows(context: Any) -> Any:
        return types.intp(), lambda c, b, s, a: I64(shape_of_block(c, panel, level)[0])

    return rows


def make_strip(panel: int, far: bool = False) -> Any:
    """strip(x, x_stride, kernel, begin, begin_stride, y, y_stride, n, m): y = begin + m rows of x times a panel. Whole vectors
    are written; y may be begin.

    For many rows, so many kernel rows at a time that they stay in the first-level cache while all rows of x use them; the sums
    so far wait in y meanwhile, which changes no bit.
    """
    many, four, two, one = (make_block(panel, level, far and level < 3) for level in range(4))
    rows, at_most_four, at_most_two = (_rows_of(panel, level) for level in range(3))
    whole = CHAINS[panel] > 1  # several sums an output can't wait in y

    @jit
    def strip(x, x_stride, kernel, begin, begin_stride, y, y_stride, n, m):
        while True:
            part = n if whole or m == 1 else min(n, CACHED)
            r = 0
            if rows() > 1:
                while m - r >= rows():
                    many(
                        x + r * x_stride,
                        x_stride,
                        kernel,
                        begin + r * begin_stride,
                        begin_stride,
                        y + r * y_stride,
                        y_stride,
                        part,
                    )
                    r += rows()
            if at_most_four() < rows() and m - r >= at_most_four():
                four(
                    x + r * x_stride, x_stride, kernel, begin + r * begin_stride, begin_stride, y + r * y_stride, y_stride, part
                )
                r += at_most_four()
            if at_most_two() < at_most_four() and m - r >= at_most_two():
                two(
                    x + r * x_stride, x_stride, kernel, begin + r * begin_stride, begin_stride, y + r * y_stride, y_stride, part
                )
                r += at_most_two()
            while r < m:
                one(
                    x + r * x_stride, x_stride, kernel, begin + r * begin_stride, begin_stride, y + r * y_stride, y_stride, part
                )
                r += 1
            n -= part
            if n <= 0:
                break
            x += 4 * part
            kernel += LINE * panel * part
            begin, begin_stride = y, y_stride

    return strip


strip4, strip4_far, strip2, strip1 = make_strip(4), make_strip(4, True), make_strip(2), make_strip(1)


@jit
def panel_vectors(vectors):
    """The width of the next panel when so many vectors of outputs are left."""
    return 4 if vectors >= 4 else 2 if vectors >= 2 else 1


@jit
def strip_of(width, far, x, x_stride, w, y, y_stride, n, m):
    if width == 4 and far:
        strip4_far(x, x_stride, w + 4 * LINE, w, 0, y, y_stride, n, m)
    elif width == 4:
        strip4(x, x_stride, w + 4 * LINE, w, 0, y, y_stride, n, m)
    elif width == 2:
        strip2(x, x_stride, w + 2 * LINE, w, 0, y, y_stride, n, m)
    else:
        strip1(x, x_stride, w + LINE, w, 0, y, y_stride, n, m)


one4, one2, one1 = make_block(4, 3, False), make_block(2, 3, False), make_block(1, 3, False)


@jit
def product_one(x, w, y, n, n_out):
    """`product` for one row, on the shortest way."""
    vectors = (n_out + 15) >> 4
    while vectors >= 4:
        one4(x, 0, w + 4 * LINE, w, 0, y, 0, n)
        w += 4 * LINE * (n + 1)
        y += 4 * LINE
        vectors -= 4
    if vectors >= 2:
        one2(x, 0, w + 2 * LINE, w, 0, y, 0, n)
        w += 2 * LINE * (n + 1)
        y += 2 * LINE
        vectors -= 2
    if vectors > 0:
        one1(x, 0, w + LINE, w, 0, y, 0, n)


@jit
def product(far, x, x_stride, w, y, y_stride, n, n_out, m):
    """m rows of x times all panels. Writes whole vectors: y's rows have room for n_out rounded up to 16."""
    vectors = (n_out + 15) >> 4
    while vectors > 0:
        width = panel_vectors(vectors)
        strip_of(width, far, x, x_stride, w, y, y_stride, n, m)
        w += width * LINE * (n + 1)
        y += width * LINE
        vectors -= width


@jit
def copy_floats(source, target, n):
    while n >= 16:
        store(target, load(source))
        source += 64
        target += 64
        n -= 16
    if n > 0:
        store_tail(target, n, load_tail(source, n))


@jit
def exact_product(far, x, x_stride, w, y, y_stride, n, n_out, m, temp, room):
    """The same, writing n_out floats a row and nothing beyond; temp: working space for `room` rows of a panel."""
    while n_out > 0:
        width = panel_vectors((n_out + 15) >> 4)
        if n_out >= width * 16:
            strip_of(width, far, x, x_stride, w, y, y_stride, n, m)
        else:
            done = 0
            while done < m:
                part = min(m - done, room)
                strip_of(width, far, x + done * x_stride, x_stride, w, temp, width * LINE, n, part)
                for r in range(part):
                    copy_floats(temp + r * width * LINE, y + (done + r) * y_stride, n_out)
                done += part
        w += width * LINE * (n + 1)
        y += width * LINE
        n_out -= width * 16


@jit
def dots(x, w, y, n, n_out):
    """y[j] = bias[j] + sum(x * kernel row j) of one sample, for few outputs: [bias, 16 floats | rows padded to 16]. Lanes
    beyond the end of x count as zeros, whatever memory holds there."""
    whole, rest = n & ~15, n & 15
    row = w + LINE
    tail = load_tail(x + 4 * whole, rest)
    for j in range(n_out):
        total, i = splat(0.0), 0
        while i < whole:
            total = fma(load(x + 4 * i), load(row), total)
            row += LINE
            i += 16
        if rest:
            total = fma(tail, load(row), total)
            row += LINE
        f32_put(y, j, lane_sum(total) + f32_at(w, j))
