"""Rules for products of two values of a graph: attention, Dot, matmul. Nothing here needs Numba.

The right factor is put into panels, as weights are (pack.in_panels), at each run; then it is a matrix product like others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.opcodes import REDUCTIONS
from npinfer.executors.native.pack import only_floats, working_space
from npinfer.executors.native.pack_elements import Operand, as_numbers, choose, fixed, is_truth, word
from npinfer.executors.native.places import F32, Place, numbered, up
from npinfer.executors.native.program import Program
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.graph import Array
from npinfer.ops.activations import Activation
from npinfer.ops.attention import PENALTY, Attention, allowed
from npinfer.ops.attention_heads import HeadAttention
from npinfer.ops.products import BatchDot, Matmul


class Rows(NamedTuple):
    """Where the rows of some matrices lie: their first float is at start of the matrix + row · `row`, matrices are `matrix`
    floats apart."""

    place: Place
    row: int
    matrix: int


class Panels(NamedTuple):
    """Matrices in panels, in scratch. size: floats of one."""

    place: Place
    n_in: int
    n_out: int
    size: int


def in_panels(p: Program, source: Place, numbers: Array) -> Panels:
    """The matrices whose elements are the source's floats of these numbers (matrices, rows, columns)."""
    count, n_in, n_out = numbers.shape
    panels = numbered(count, up(n_out, 16) // 16, 1 + n_in, 16)
    place = p.buffer(panels.size)
    p.arrange(place, panels[:, :, 0], p.constant(np.float32(0)), np.zeros_like(panels[:, :, 0]))  # no bias
    whole = n_out // 16
    if whole:
        taken = numbers[:, :, : 16 * whole].reshape(count, n_in, whole, 16).swapaxes(1, 2)
        p.arrange(place, panels[:, :whole, 1:], source, taken)
    if n_out % 16:
        p.arrange(place, panels[:, whole, 1:, : n_out % 16], source, numbers[:, :, 16 * whole :])
    return Panels(place, n_in, n_out, panels[0].size)


def product(p: Program, y: Rows, x: Rows, w: Panels, rows: int, count: int = 1, share: int = 1) -> None:
    """y = x @ w for `count` matrices of x; `share` of them one after another take the same matrix of w."""
    temp = working_space(w.n_out, rows)
    values = (w.n_in, w.n_out, rows, count, 4 * x.row, 4 * x.matrix, 4 * y.row, 4 * y.matrix, 4 * w.size, share)
    p.work += count * rows * w.n_in * w.n_out
    p.row(opcodes.MATMUL, y.place, x.place, w.place, values, more=(temp,))


def allows(p: Program, kind: str, v: int) -> Operand:
    """A mask, with the axes of (…, queries, places)."""
    if not is_truth(p, v):
        raise NotNative("a mask that is the caller's array")
    mask, shape = word(p, v)
    return mask, (*shape, 1) if kind == "query" else (1, *shape) if kind in ("value", "key") else shape


def combined(
    p: Program, kinds: Sequence[str], masks: Sequence[int], causal: bool, window: int | None, queries: int, places: int
) -> Operand | None:
    """Where queries may look at places, as `ops.attention.allowed` says, broadcast to (…, queries, places)."""
    parts = [allows(p, kind, v) for kind, v in zip(kinds, masks)]
    always = allowed((), (), causal, window, queries, places)
    if always is not None:
        parts.append(fixed(p, always[0]))
    whole: Operand | None = None
    for mask, shape in parts:
        if whole is not None:
            both = np.broadcast_shapes(whole[1], shape)
            made = p.buffer(int(np.prod(both)))
            p.binary("and", made, whole[0], mask, (whole[1], shape))
            mask, shape = made, both
        whole = mask, shape
    return whole


def weigh(
    p: Program, scores: Place, shape: tuple[int, ...], mask: Operand | None, penalised: bool = True, zeroed: bool = False
) -> None:
    """Scores (…, queries, places) become weights, in place."""
    if mask is not None and penalised:
        penalty = p.buffer(int(np.prod(mask[1])))
        p.binary("and_not", penalty, mask[0], p.constant(F32.type(PENALTY)), (mask[1], ()))
        p.binary("add", scores, scores, penalty, (shape, mask[1]))
    elif mask is not None:
        lowest = p.constant(np.finfo(F32).min * F32.type(0.7))
        choose(p, scores, mask, (scores, shape), (lowest, ()))
    p.row(opcodes.SOFTMAX, scores, scores, values=(int(np.prod(shape[:-1])), shape[-1], opcodes.ATTENTION))
    if mask is not None and zeroed:
        p.binary("and", scores, scores, mask[0], (shape, mask[1]))


@packs(HeadAttention)
def head_attention(p: Program, op: HeadAttention, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs[:3], ys)
    q, k, v = (sizes(p.spec(x)) for x in xs[:3])
    if len(q) > 2:
        raise NotNative("attention over several axes")
    heads, shared = op.heads, op.kv_heads
    (steps, wide), places, made = q, k[0], v[1] // shared
    depth = wide // heads
    mask = combined(p, op.masks, xs[3:], op.causal, op.window, steps, places)
    queries, scores = p.buffer(steps * wide), p.places[ys[1]] if op.scores else p.buffer(heads * steps * places)
    p.binary("multiply", queries, p.places[xs[0]], p.constant(np.float32(op.scale)), (q, ()))
    keys = in_panels(p, p.places[xs[1]], numbered(places, shared, depth).transpose(1, 2, 0))
    both = Rows(scores, places, steps * places)
    product(p, both, Rows(queries, wide, depth), keys, steps, heads, heads // shared)
    weigh(p, scores, (heads, steps, places), mask, op.penalised, op.zeroed)
    values = in_panels(p, p.places[xs[2]], numbered(places, shared, made).transpose(1, 0, 2))
    product(p, Rows(p.places[ys[0]], heads * made, made), both, values, steps, heads, heads // shared)


@packs(Attention)
def attention(p: Program, op: Attention, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs[:3], ys)
    (steps, depth), (_, made), (places, other) = (sizes(p.spec(x)) for x in xs[:3])
    if depth != other:
        raise NotNative("attention between different numbers of features")
    q, v, k = (p.places[x] for x in xs[:3])
    given = [(kind, x) for kind, x in zip(op.masks, xs[3:]) if kind != "query"]
    mask = combined(p, [kind for kind, _ in given], [x for _, x in given], op.causal, None, steps, places)
    scores, shape = p.places[ys[1]] if op.scores else p.buffer(steps * places), (steps, places)
    both, factor = Rows(scores, places, steps * places), op.scale
    if op.kind == "dot":
        product(p, both, Rows(q, depth, 0), in_panels(p, k, numbered(1, places, depth).swapaxes(1, 2)), steps)
    else:
        pairs, whole = p.buffer(steps * places * depth), (steps, places, depth)
        p.binary("add", pairs, q, k, ((steps, 1, depth), (1, places, depth)))
        if op.kind == "concat" and op.scale is not None:
            p.binary("multiply", pairs, pairs, p.constant(op.scale), (whole, op.scale.shape))
        p.row(opcodes.MAP, pairs, pairs, values=(steps * places * depth,), activation=Activation("tanh"))
        if op.kind == "additive" and op.scale is not None:
            p.binary("multiply", pairs, pairs, p.constant(op.scale), (whole, op.scale.shape))
        p.row(opcodes.REDUCE, scores, pairs, values=(steps * places, depth, REDUCTIONS.index("sum")))
        factor = op.weight if op.kind == "concat" else None
    if factor is not None:
        p.binary("multiply", scores, scores, p.constant(factor), (shape, factor.shape))
    weigh(p, scores, shape, mask)
    y = p.places[ys[0]]
    product(p, Rows(y, made, 0), both, in_panels(p, v, numbered(1, places, made)), steps)
    if "query" in op.masks:
        kept, its_shape = allows(p, "query", xs[3 + op.masks.index("query")])
        one = p.buffer(steps)
        as_numbers(p, one, kept, its_shape)
        p.binary("multiply", y, y, one, ((steps, made), its_shape))


@packs(Matmul)
def matmul(p: Program, op: Matmul, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    (*lead, rows, n_in), (*other, _, n_out) = (sizes(p.spec(x)) for x in xs)
    if lead != other:
        raise NotNative("matrices that are used several times")
    count = int(np.prod(lead))
    w = in_panels(p, p.places[xs[1]], numbered(count, n_in, n_out))
    y, x = Rows(p.places[ys[0]], n_out, rows * n_out), Rows(p.places[xs[0]], n_in, rows * n_in)
    product(p, y, x, w, rows, count)


@packs(BatchDot)
def batch_dot(p: Program, op: BatchDot, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    a, b = (sizes(p.spec(x)) for x in xs)
    left, _, n = p.last_axes(p.places[xs[0]], a, op.axes[:1])
    numbers = np.moveaxis(numbered(*b), op.axes[1], 0).reshape(1, n, -1)
    rows, n_out = int(np.prod(a)) // n, numbers.shape[-1]
    product(p, Rows(p.places[ys[0]], n_out, 0), Rows(left, n, 0), in_panels(p, p.places[xs[1]], numbers), rows)
