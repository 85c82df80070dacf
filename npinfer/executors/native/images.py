"""Convolutions, channels last, as matrix products that never build their matrix.

The window of an output pixel is a few runs of memory ("segments": a window row, if taps are next to one another), at the same
distances from the window's start for every pixel. So a register block takes some pixels' starts from a table, and walks over
the segments: put x[start + i] in all lanes, times 16 filters. Each output begins as the bias and adds its products in the order
of the packed kernel, whatever the block.

Pixels lie `filters` floats apart and whole vectors are written, so up to 15 floats of rubbish fall on the pixels that follow.
Hence the order: pixels rise and panels fall, so that each float's own value is written last. Only behind the last pixel there
must be room.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from npinfer.executors.native import lanes
from npinfer.executors.native.frame import operand
from npinfer.executors.native.lanes import F32, I64, Lanes, broadcast, pointer, prefetch, write
from npinfer.executors.native.loops import finish_sums, least_of
from npinfer.executors.native.opcodes import ARENA, LINE, OUT, SIZES, WEIGHTS, A, B
from npinfer.executors.native.panels import copy_floats
from npinfer.executors.native.vector import has_fma, i64_at, jit, splat, store, store_tail


def rows_of_block(context: Any, level: int) -> int:
    """Pixels of a register block: level 0 as many as this CPU's registers hold, levels 1 to 3 at most 4, 2 and 1."""
    triple, _, features = context.codegen().magic_tuple()
    if "+avx512f" in features.split(","):
        most = 12
    else:
        most = 6 if "+avx2" in features.split(",") or triple.startswith(("aarch64", "arm64")) else 2
    return min(most, (most, 4, 2, 1)[level])


def make_block(level: int, panels: int = 1) -> Any:
    """block(x, starts, w, panel, y, y_stride, segments, count, length, least): 16 filters of some pixels, or of several panels,
    each `panel` bytes long: bias, then a vector an input. starts: the address of the pixels' offsets in x; segments: of `count`
    offsets in a window, each `length` bytes long. No result is below `least` (blocks.py)."""

    @intrinsic  # type: ignore[untyped-decorator]
    def block(
        context: Any,
        x: Any,
        starts: Any,
        w: Any,
        panel: Any,
        y: Any,
        y_stride: Any,
        segments: Any,
        count: Any,
        length: Any,
        least: Any,
    ) -> Any:
        def codegen(c: Any, b: Any, s: Any, args: Any) -> Any:
            _block(c, b, args, rows_of_block(c, level), panels)
            return c.get_dummy_value()

        return types.void(*[types.intp] * 9, types.float32), codegen

    return block


def _block(c: Any, b: Any, args: Any, rows: int, panels: int) -> None:
    x, starts, w, panel, y, y_stride, segments, count, length, least = args
    fused = has_fma(c)

    def loop(begin: list[Any], body: Any, more: Any) -> list[Any]:
        """values = body(values) while more(values), at least once."""
        before, inside, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
        b.branch(inside)
        b.position_at_end(inside)
        phis = [b.phi(v.type) for v in begin]
        new = body(phis)
        for phi, old, fresh in zip(phis, begin, new):
            phi.add_incoming(old, before)
            phi.add_incoming(fresh, b.block)
        b.cbranch(more(new), inside, after)
        b.position_at_end(after)
        return new

    pixels = [b.add(x, b.load(pointer(b, b.add(starts, I64(8 * r)), I64), align=8)) for r in range(rows)]
    ahead = [b.mul(panel, I64(q)) if q else I64(0) for q in range(panels)]
    bias = [b.load(pointer(b, b.add(w, q)), align=LINE) for q in ahead]
    last = b.add(segments, b.shl(count, I64(3)))

    def segment(values: list[Any]) -> list[Any]:
        at, line, *sums = values
        offset = b.load(pointer(b, at, I64), align=8)
        end = b.add(offset, length)

        def tap(values: list[Any]) -> list[Any]:
            i, line, *sums = values
            weights = [b.load(pointer(b, b.add(line, q)), align=LINE) for q in ahead]
            if rows > 1:
                prefetch(b, b.sub(line, panel))
            new = []
            for r, pixel in enumerate(pixels):
                scalar = b.load(pointer(b, b.add(pixel, i), F32), align=4)
                v = Lanes(b, broadcast(b, scalar), fused)
                each = zip(weights, sums[r * panels : (r + 1) * panels])
                new += [lanes.fma(v, v.like(u), v.like(total)).value for u, total in each]
            return [b.add(i, I64(4)), b.add(line, I64(LINE)), *new]

        _, line, *sums = loop([offset, line, *sums], tap, lambda v: b.icmp_signed("<", v[0], end))
        return [b.add(at, I64(8)), line, *sums]

    begin = [segments, b.add(w, I64(LINE)), *bias * rows]
    _, _, *sums = loop(begin, segment, lambda v: b.icmp_signed("<", v[0], last))
    floor = Lanes(b, broadcast(b, least), fused)
    for k, total in enumerate(sums):
        r, q = divmod(k, panels)
        write(b, lanes.at_least(floor.like(total), floor).value, b.add(b.add(y, b.mul(y_stride, I64(r))), I64(LINE * q)))


def _rows(level: int) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def rows(context: Any) -> Any:
        return types.intp(), lambda c, b, s, a: I64(rows_of_block(c, level))

    return rows


MANY, FOUR, TWO, ONE = (make_block(level) for level in range(4))
WIDE = make_block(3, 4)  # one pixel alone has too few sums to keep the multiply-add units busy
MOST, AT_MOST_FOUR, AT_MOST_TWO = (_rows(level) for level in range(3))


@jit
def blocks(x, starts, w, panel, y, y_stride, segments, count, length, n, least):
    """n pixels of one panel. What is left after whole blocks is a smaller one that ends with the last pixel, and may compute
    some again."""
    r = 0
    while r < n:
        left = n - r
        if left > AT_MOST_FOUR() and n >= MOST():
            r = min(r, n - MOST())
            MANY(x, starts + 8 * r, w, panel, y + r * y_stride, y_stride, segments, count, length, least)
            r += MOST()
        elif left > AT_MOST_TWO() and n >= AT_MOST_FOUR():
            r = min(r, n - AT_MOST_FOUR())
            FOUR(x, starts + 8 * r, w, panel, y + r * y_stride, y_stride, segments, count, length, least)
            r += AT_MOST_FOUR()
        elif left >= AT_MOST_TWO():
            TWO(x, starts + 8 * r, w, panel, y + r * y_stride, y_stride, segments, count, length, least)
            r += AT_MOST_TWO()
        else:
            ONE(x, starts + 8 * r, w, panel, y + r * y_stride, y_stride, segments, count, length, least)
            r += 1


@jit
def strip(row, x, starts, w, y, segments, count, length, filters, n):
    """n pixels, all panels, the activation."""
    panel = LINE * (1 + count * (length >> 2))
    left = (filters + 15) >> 4
    least = least_of(row)
    while left > 0:
        if n == 1 and left >= 4:
            left -= 4
            WIDE(x, starts, w + left * panel, panel, y + left * LINE, 4 * filters, segments, count, length, least)
        else:
            left -= 1
            blocks(x, starts, w + left * panel, panel, y + left * LINE, 4 * filters, segments, count, length, n, least)
    finish_sums(row, y, 0, n * filters, 1)


@jit
def image(row, x, d, w, y):
    """All output pixels of one image, as many at a time as stay in the second-level cache."""
    pixels, filters, count, length, long = i64_at(d, 0), i64_at(d, 1), i64_at(d, 2), i64_at(d, 3), i64_at(d, 4)
    starts, segments = d + i64_at(d, 5), d + i64_at(d, 6)
    done = 0
    while done < pixels:
        n = min(long, pixels - done)
        strip(row, x, starts + 8 * done, w, y + 4 * done * filters, segments, count, length, filters, n)
        done += n


@jit
def zeros(y, n):
    while n >= 16:
        store(y, splat(0.0))
        y += 64
        n -= 16
    if n > 0:
        store_tail(y, n, splat(0.0))


@jit
def conv_row(row, frame, m):
    x, x_stride = operand(row, A, frame, m)
    y, y_stride = operand(row, OUT, frame, m)
    arena = i64_at(frame, ARENA)
    d, w = arena + i64_at(row, SIZES), arena + i64_at(row, WEIGHTS)
    room = i64_at(d, 7)  # floats of the padded image, 0: as it is
    if room == 0:
        for r in range(m):
            image(row, x + r * x_stride, d, w, y + r * y_stride)
        return 0
    temp, _ = operand(row, B, frame, m)
    zeros(temp, room)
    for r in range(m):
        source = x + r * x_stride
        for i in range(i64_at(d, 8)):
            for j in range(i64_at(d, 9)):
                copy_floats(source, temp + i64_at(d, 11) + i * i64_at(d, 12) + j * i64_at(d, 13), i64_at(d, 10))
                source += 4 * i64_at(d, 10)
        image(row, temp, d, w, y + r * y_stride)
    return 0
