"""Images in another size as table rows. Nothing here needs Numba."""

from __future__ import annotations

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.pack import only_floats
from npinfer.executors.native.places import Place, numbered
from npinfer.executors.native.program import Program, steps
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.graph import Array
from npinfer.ops.resize import Resize, bilinear, places


@packs(Resize)
def resize(p: Program, op: Resize, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    """One axis after the other, where inputs or outputs are a whole number of times the others."""
    only_floats(p, xs, ys)
    height, width, channels = sizes(p.spec(xs[0]))
    tall, wide, _ = sizes(p.spec(ys[0]))
    x, middle, y = p.places[xs[0]], p.buffer(height * wide * channels), p.places[ys[0]]
    if op.method == "nearest":
        nearest(p, middle, x, (height, width, channels), wide, op.centered)
        nearest(p, y, middle, (1, height, wide * channels), tall, op.centered)
    elif op.method == "bilinear" and not op.antialias:
        between(p, middle, x, (height, width, channels), wide, op.centered)
        between(p, y, middle, (1, height, wide * channels), tall, op.centered)
    else:
        raise NotNative(f"{op.method} interpolation")


def nearest(p: Program, out: Place, x: Place, shape: tuple[int, int, int], m: int, centered: bool) -> None:
    """The middle axis with m entries."""
    a, n, c = shape
    source = numbered(*shape)[:, places(n, m, centered)]
    again = m // n if m % n == 0 else 1
    split = (a, m // again, again, c)
    p.arrange(out, numbered(*split), x, source.reshape(split))


def between(p: Program, out: Place, x: Place, shape: tuple[int, int, int], m: int, centered: bool) -> None:
    """The middle axis with m entries, each low + (high - low)·share of two inputs. Outputs a whole factor apart have inputs
    that rise evenly, if the first and the last entry go on beyond the ends."""
    a, n, c = shape
    low, high, share = bilinear(n, m, centered)
    factor = m // n if m % n == 0 else 1
    room = p.buffer(a * (n + 2) * c)
    whole, given = numbered(a, n + 2, c), numbered(a, n, c)
    p.arrange(room, whole[:, 1:-1], x, given)
    p.arrange(room, whole[:, 0], x, given[:, 0])
    p.arrange(room, whole[:, -1], x, given[:, -1])
    outputs = numbered(a, m, c)
    for first in range(min(factor, m)):
        own = slice(first, None, factor)
        below, above = whole[:, low[own] + 1], whole[:, high[own] + 1]
        parts = share[own]
        if np.ptp(parts) == 0:
            parts = parts[:1]
        part = p.buffer(below.size)
        every = numbered(*below.shape)
        times = np.broadcast_to(np.arange(len(parts)).reshape(1, -1, 1), below.shape)
        combine(p, "subtract", part, every, room, above, room, below)
        combine(p, "multiply", part, every, part, every, p.constant(parts), times)
        combine(p, "add", out, outputs[:, own], room, below, part, every)


def combine(p: Program, kind: str, out: Place, to: Array, a: Place, first: Array, b: Place, second: Array) -> None:
    """out[to[i]] = a[first[i]] ∘ b[second[i]] for all i, all of them regular."""
    walk = p.walk(to.shape, steps(to), steps(first), steps(second))
    p.row(opcodes.BINARY, out, a, b, (opcodes.BINARIES.index(kind), to.size), walk)
