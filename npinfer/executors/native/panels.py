"""Matrix products over packed panels: y = bias + x @ kernel.

A panel holds 16 outputs: [bias | kernel row 0 | kernel row 1 | …], a vector each, so that a register block (blocks.py) reads it
in order. Panels go in groups of 4, of 2, or alone, as many as are left.

One sample alone needs eight or more independent sums to keep two multiply-add units busy (each takes four cycles). A group of
four has them; smaller ones split the inputs over several sums an output. Many rows have sums enough, and then such a split only
costs registers; so of few inputs it is a smaller one, or none.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from npinfer.executors.native.blocks import make_block, of_block
from npinfer.executors.native.opcodes import LINE
from npinfer.executors.native.vector import (
    jit,
    load,
    load_tail,
    store,
    store_tail,
)

AS_IT_IS = np.float32(-np.inf)  # for `least`
FEW, SOME = 8, 32  # inputs up to which small groups have one sum an output, and panels alone two


def make_blocks(group: int, chains: int, level: int, onward: bool) -> Any:
    """blocks(…, m, …) -> how many of the m rows it did: all that make whole blocks of this level."""
    block = make_block(group, chains, level, onward)
    rows, width = (of_block(k, group, chains, level) for k in (0, 1))

    @jit
    def blocks(x, x_stride, w, panel, y, y_stride, n, m, least):
        done = m - m % rows()
        if done:
            for k in range(0, group, width()):
                x_r, y_r = x, y + k * LINE
                for _ in range(0, done, rows()):
                    block(x_r, x_stride, w + k * panel, panel, y_r, y_stride, n, least)
                    x_r += rows() * x_stride
                    y_r += rows() * y_stride
        return done

    return blocks


@cache
def make_strip(group: int, chains: int, onward: bool = False) -> Any:
    """strip(x, x_stride, w, panel, y, y_stride, n, m, least): m rows of x times a group of panels; what the arguments mean is a
    register block's business."""
    many, four, two, one = (make_blocks(group, chains, level, onward) for level in range(4))

    @jit
    def strip(x, x_stride, w, panel, y, y_stride, n, m, least):
        r = 0
        if m > 1:
            r = many(x, x_stride, w, panel, y, y_stride, n, m, least)
            r += four(x + r * x_stride, x_stride, w, panel, y + r * y_stride, y_stride, n, m - r, least)
            r += two(x + r * x_stride, x_stride, w, panel, y + r * y_stride, y_stride, n, m - r, least)
        one(x + r * x_stride, x_stride, w, panel, y + r * y_stride, y_stride, n, m - r, least)

    return strip


strip4, strip2, strip1 = make_strip(4, 1), make_strip(2, 2), make_strip(1, 4)
strip2_few, strip1_few, strip1_some = make_strip(2, 1), make_strip(1, 1), make_strip(1, 2)


@jit
def group_of(panels):
    """How many of the panels that are left go together."""
    return 4 if panels >= 4 else 2 if panels >= 2 else 1


@jit
def strip_of(group, x, x_stride, w, y, y_stride, n, m, least):
    """y = bias + m rows of x times a group of panels at w."""
    panel = (n + 1) * LINE
    if group == 4:
        strip4(x, x_stride, w, panel, y, y_stride, n, m, least)
    elif group == 2 and n <= FEW:
        strip2_few(x, x_stride, w, panel, y, y_stride, n, m, least)
    elif group == 2:
        strip2(x, x_stride, w, panel, y, y_stride, n, m, least)
    elif n <= FEW:
        strip1_few(x, x_stride, w, panel, y, y_stride, n, m, least)
    elif n <= SOME:
        strip1_some(x, x_stride, w, panel, y, y_stride, n, m, least)
    else:
        strip1(x, x_stride, w, panel, y, y_stride, n, m, least)


one4, one2, one1 = make_block(4, 1, 3), make_block(2, 2, 3), make_block(1, 4, 3)
one2_few, one1_few, one1_some = make_block(2, 1, 3), make_block(1, 1, 3), make_block(1, 2, 3)


@jit
def product_one(x, w, y, n, n_out, least):
    """`product` for one row, on the shortest way."""
    panels, panel = (n_out + 15) >> 4, (n + 1) * LINE
    while panels >= 4:
        one4(x, 0, w, panel, y, 0, n, least)
        w += 4 * panel
        y += 4 * LINE
        panels -= 4
    if panels >= 2:
        if n <= FEW:
            one2_few(x, 0, w, panel, y, 0, n, least)
        else:
            one2(x, 0, w, panel, y, 0, n, least)
        w += 2 * panel
        y += 2 * LINE
        panels -= 2
    if panels == 0:
        return
    if n <= FEW:
        one1_few(x, 0, w, panel, y, 0, n, least)
    elif n <= SOME:
        one1_some(x, 0, w, panel, y, 0, n, least)
    else:
        one1(x, 0, w, panel, y, 0, n, least)


@jit
def product(x, x_stride, w, y, y_stride, n, n_out, m, least):
    """m rows of x times all panels. Writes whole vectors: y's rows have room for n_out rounded up to 16."""
    panels = (n_out + 15) >> 4
    while panels > 0:
        group = group_of(panels)
        strip_of(group, x, x_stride, w, y, y_stride, n, m, least)
        w += group * LINE * (n + 1)
        y += group * LINE
        panels -= group


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
    """`exact_product` for one row: whole groups straight to y, the rest by way of temp unless its panels are full."""
    whole = n_out & -64 if n_out & 15 else n_out
    if whole:
        product_one(x, w, y, n, whole, least)
    if n_out != whole:
        product_one(x, w + 4 * (n + 1) * whole, temp, n, n_out - whole, least)
        copy_floats(temp, y + 4 * whole, n_out - whole)


@jit
def exact_product(x, x_stride, w, y, y_stride, n, n_out, m, temp, room, least):
    """The same, writing n_out floats a row and nothing beyond; temp: working space for `room` rows of a group."""
    free = 0
    if m > 1 and n_out < 16 and y_stride == 4 * n_out:
        # What whole vectors write too much lies in the next rows, which are written later; only the last ones may not
        free = max(0, m - (LINE - 1) // y_stride)
        strip_of(1, x, x_stride, w, y, y_stride, n, free, least)
    while n_out > 0:
        group = group_of((n_out + 15) >> 4)
        if n_out >= group * 16:
            strip_of(group, x, x_stride, w, y, y_stride, n, m, least)
        else:
            done = free
            while done < m:
                part = min(m - done, room)
                strip_of(group, x + done * x_stride, x_stride, w, temp, group * LINE, n, part, least)
                for r in range(part):
                    copy_floats(temp + r * group * LINE, y + (done + r) * y_stride, n_out)
                done += part
        w += group * LINE * (n + 1)
        y += group * LINE
        n_out -= group * 16
