"""Matrix products over packed panels: y = bias + x @ kernel.

A panel holds 64, 32 or 16 outputs: [bias | kernel row 0 | kernel row 1 | …], so one pass reads memory in order, in the register
blocks of blocks.py.

One sample alone needs eight or more independent sums to keep two multiply-add units busy (each takes four cycles). A full panel
has them; narrow ones split the inputs over several sums an output. Many rows have sums enough, and then such a split only costs
registers; so of few inputs it is a smaller one, or none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.executors.native.blocks import CACHED, make_block, rows_of_block
from npinfer.executors.native.opcodes import LINE
from npinfer.executors.native.vector import (
    jit,
    load,
    load_tail,
    store,
    store_tail,
)

AS_IT_IS = np.float32(-np.inf)  # for `least`
FEW, SOME = 8, 32  # inputs up to which narrow panels have one sum an output, and panels of 16 two


def make_strip(panel: int, chains: int, far: bool = False) -> Any:
    """strip(x, x_stride, kernel, begin, begin_stride, y, y_stride, n, m, least): y = begin + m rows of x times a panel, but at
    least `least` (blocks.py). Whole vectors are written; y may be begin.

    For many rows, so many kernel rows at a time that they stay in the first-level cache while all rows of x use them; the sums
    so far wait in y meanwhile, which changes no bit.
    """
    many, four, two, one = (make_block(panel, chains, level, far and level < 3) for level in range(4))
    rows, at_most_four, at_most_two = (rows_of_block(panel, chains, level) for level in range(3))
    whole = chains > 1  # several sums an output can't wait in y

    @jit
    def strip(x, x_stride, kernel, begin, begin_stride, y, y_stride, n, m, least):
        while True:
            part = n if whole or m == 1 else min(n, CACHED)
            floor = least if part >= n else AS_IT_IS
            r = 0
            while r < m:
                left, x_r, begin_r, y_r = m - r, x + r * x_stride, begin + r * begin_stride, y + r * y_stride
                if left >= rows():
                    many(x_r, x_stride, kernel, begin_r, begin_stride, y_r, y_stride, part, floor)
                    r += rows()
                elif left >= at_most_four():
                    four(x_r, x_stride, kernel, begin_r, begin_stride, y_r, y_stride, part, floor)
                    r += at_most_four()
                elif left >= at_most_two():
                    two(x_r, x_stride, kernel, begin_r, begin_stride, y_r, y_stride, part, floor)
                    r += at_most_two()
                else:
                    one(x_r, x_stride, kernel, begin_r, begin_stride, y_r, y_stride, part, floor)
                    r += 1
            n -= part
            if n <= 0:
                break
            x += 4 * part
            kernel += LINE * panel * part
            begin, begin_stride = y, y_stride

    return strip


strip4, strip4_far, strip2, strip1 = make_strip(4, 1), make_strip(4, 1, True), make_strip(2, 2), make_strip(1, 4)
strip2_few, strip1_few, strip1_some = make_strip(2, 1), make_strip(1, 1), make_strip(1, 2)


@jit
def panel_vectors(vectors):
    """The width of the next panel when so many vectors of outputs are left."""
    return 4 if vectors >= 4 else 2 if vectors >= 2 else 1


@jit
def strip_of(width, far, x, x_stride, w, y, y_stride, n, m, least):
    if width == 4 and far:
        strip4_far(x, x_stride, w + 4 * LINE, w, 0, y, y_stride, n, m, least)
    elif width == 4:
        strip4(x, x_stride, w + 4 * LINE, w, 0, y, y_stride, n, m, least)
    elif width == 2 and n <= FEW:
        strip2_few(x, x_stride, w + 2 * LINE, w, 0, y, y_stride, n, m, least)
    elif width == 2:
        strip2(x, x_stride, w + 2 * LINE, w, 0, y, y_stride, n, m, least)
    elif n <= FEW:
        strip1_few(x, x_stride, w + LINE, w, 0, y, y_stride, n, m, least)
    elif n <= SOME:
        strip1_some(x, x_stride, w + LINE, w, 0, y, y_stride, n, m, least)
    else:
        strip1(x, x_stride, w + LINE, w, 0, y, y_stride, n, m, least)


one4, one2, one1 = make_block(4, 1, 3), make_block(2, 2, 3), make_block(1, 4, 3)
one2_few, one1_few, one1_some = make_block(2, 1, 3), make_block(1, 1, 3), make_block(1, 2, 3)


@jit
def product_one(x, w, y, n, n_out, least):
    """`product` for one row, on the shortest way."""
    vectors = (n_out + 15) >> 4
    while vectors >= 4:
        one4(x, 0, w + 4 * LINE, w, 0, y, 0, n, least)
        w += 4 * LINE * (n + 1)
        y += 4 * LINE
        vectors -= 4
    if vectors >= 2:
        if n <= FEW:
            one2_few(x, 0, w + 2 * LINE, w, 0, y, 0, n, least)
        else:
            one2(x, 0, w + 2 * LINE, w, 0, y, 0, n, least)
        w += 2 * LINE * (n + 1)
        y += 2 * LINE
        vectors -= 2
    if vectors == 0:
        return
    if n <= FEW:
        one1_few(x, 0, w + LINE, w, 0, y, 0, n, least)
    elif n <= SOME:
        one1_some(x, 0, w + LINE, w, 0, y, 0, n, least)
    else:
        one1(x, 0, w + LINE, w, 0, y, 0, n, least)


@jit
def product(far, x, x_stride, w, y, y_stride, n, n_out, m, least):
    """m rows of x times all panels. Writes whole vectors: y's rows have room for n_out rounded up to 16."""
    vectors = (n_out + 15) >> 4
    while vectors > 0:
        width = panel_vectors(vectors)
        strip_of(width, far, x, x_stride, w, y, y_stride, n, m, least)
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
def exact_product_one(x, w, y, n, n_out, temp, least):
    """`exact_product` for one row: whole panels straight to y, the rest by way of temp."""
    whole = n_out & -64
    if whole:
        product_one(x, w, y, n, whole, least)
    if n_out != whole:
        product_one(x, w + 4 * (n + 1) * whole, temp, n, n_out - whole, least)
        copy_floats(temp, y + 4 * whole, n_out - whole)


@jit
def exact_product(far, x, x_stride, w, y, y_stride, n, n_out, m, temp, room, least):
    """The same, writing n_out floats a row and nothing beyond; temp: working space for `room` rows of a panel."""
    free = 0
    if m > 1 and n_out < 16 and y_stride == 4 * n_out:
        # What whole vectors write too much lies in the next rows, which are written later; only the last ones may not
        free = max(0, m - (LINE - 1) // y_stride)
        strip_of(1, far, x, x_stride, w, y, y_stride, n, free, least)
    while n_out > 0:
        width = panel_vectors((n_out + 15) >> 4)
        if n_out >= width * 16:
            strip_of(width, far, x, x_stride, w, y, y_stride, n, m, least)
        else:
            done = free
            while done < m:
                part = min(m - done, room)
                strip_of(width, far, x + done * x_stride, x_stride, w, temp, width * LINE, n, part, least)
                for r in range(part):
                    copy_floats(temp + r * width * LINE, y + (done + r) * y_stride, n_out)
                done += part
        w += width * LINE * (n + 1)
        y += width * LINE
        n_out -= width * 16
