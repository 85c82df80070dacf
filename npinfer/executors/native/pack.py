"""How each op becomes table rows: the one place to add a native op. Nothing here needs Numba.

A rule `@packs(TheOp) def rule(p, op, xs, ys)` gets value numbers; `p.places[v]` is where a value lies, `p.spec(v)` its shape.
What it can't express it refuses with NotNative, and the op then runs through its NumPy meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.executors.native import opcodes
from npinfer.executors.native.opcodes import FLOAT, GROUP, INDEX_DTYPES, LINE, PRECISE, REDUCTIONS
from npinfer.executors.native.pack_elements import as_numbers, is_truth, word
from npinfer.executors.native.places import F32, Place, up
from npinfer.executors.native.program import Program, floats
from npinfer.executors.native.rules import NotNative, packs
from npinfer.executors.signature import sizes
from npinfer.graph import Array, Op
from npinfer.ops.activations import Activation
from npinfer.ops.affine import Affine
from npinfer.ops.cast import Cast
from npinfer.ops.dense import Dense
from npinfer.ops.embedding import Embedding
from npinfer.ops.indexing import GetItem, OneHot
from npinfer.ops.joining import Concatenate
from npinfer.ops.merge import Merge
from npinfer.ops.norm import LayerNorm, RMSNorm
from npinfer.ops.parametric import PReLU
from npinfer.ops.reductions import Reduce
from npinfer.ops.reshape import Reshape, Transpose
from npinfer.ops.softmax import LogSoftmax, Softmax

ROW_COST = 40  # what a table row more takes, in vectors of a panel


def only_floats(p: Program, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    for v in (*xs, *ys):
        if p.spec(v).dtype != F32:
            raise NotNative(f"{p.spec(v).dtype} values")
        if floats(p.spec(v)) == 0:
            raise NotNative("an empty array")


def rows_of(kernel: Array, bias: Array | None) -> Array:
    """(1 + inputs of an output, outputs rounded up to 16): the bias, then the kernel; zeros where outputs are filled up."""
    n_out = kernel.shape[-1]
    rows = np.zeros((1 + kernel[..., 0].size, up(n_out, 16)), F32)
    if bias is not None:
        rows[0, :n_out] = bias
    rows[1:, :n_out] = kernel.reshape(-1, n_out)
    return rows


def in_panels(rows: Array) -> Array:
    """(panels, rows, 16): the outputs in panels of 16, as panels.py has them."""
    return rows.reshape(len(rows), -1, 16).swapaxes(0, 1)


def working_space(n_out: int, rows: int) -> Place | None:
    """Room for some rows of a group of panels: for products that may write nothing beyond their outputs, where the last panel
    isn't full."""
    return Place(opcodes.SCRATCH, 0, min(24, rows) * GROUP * LINE) if n_out % 16 else None


def dots_are_quicker(n_in: int, n_out: int) -> bool:
    """A dot product an output and the sum of its lanes, against one panel's walk over the inputs. One or two outputs are dot
    products anyway, for their precision (dots.py)."""
    return n_out <= PRECISE or dots_cost(n_in, n_out) < n_in


def dots_cost(n_in: int, n_out: int) -> int:
    return n_out * (-(-n_in // 16) + 2)


def product(p: Program, out: Place, x: Place, kernel: Array, bias: Array | None, inner: int, activation: Op | None) -> None:
    """out = activation(x @ kernel + bias) for `inner` vectors a sample."""
    n_in, n_out = kernel.shape
    p.work += inner * n_in * n_out
    if dots_are_quicker(n_in, n_out):
        dots(p, out, x, kernel, bias, (inner, out.exact), activation)
        return
    few = n_out % 16
    if inner == 1 and few and n_out // 16 % 2 == 0 and dots_cost(n_in, few) + ROW_COST < n_in:
        # the last panel, a group by itself and mostly empty, takes longer than dot products of its few outputs
        whole = n_out - few
        p.row(opcodes.DENSE, out, x, None, (n_in, whole, 1, 1), panels_of(p, kernel[:, :whole], bias), activation)
        dots(p, out, x, kernel[:, whole:], bias, (1, 1, FLOAT * whole), activation)
        return
    exact = out.exact or inner > 1
    temp = working_space(n_out, inner) if exact else None
    p.row(opcodes.DENSE, out, x, temp, (n_in, n_out, inner, exact), panels_of(p, kernel, bias), activation)


def panels_of(p: Program, kernel: Array, bias: Array | None) -> int:
    return p.weights(in_panels(rows_of(kernel, None if bias is None else bias[: kernel.shape[1]])))


def dots(
    p: Program, out: Place, x: Place, kernel: Array, bias: Array | None, values: Sequence[int], activation: Op | None
) -> None:
    """A DOTS row of the last outputs that a bias is for. values: its sizes after n_in and n_out."""
    n_in, n_out = kernel.shape
    first, rows = np.zeros(16, F32), np.zeros((n_out, up(n_in, 16)), F32)
    if bias is not None:
        first[:n_out] = bias[len(bias) - n_out :]
    rows[:, :n_in] = kernel.T
    p.row(opcodes.DOTS, out, x, values=(n_in, n_out, *values), weights=p.weights(first, rows), activation=activation)


@packs(Dense)
def dense(p: Program, op: Dense, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    n_in = op.kernel.shape[0]
    product(p, p.places[ys[0]], p.places[xs[0]], op.kernel, op.bias, floats(p.spec(xs[0])) // max(n_in, 1), op.activation)


@packs(Activation)
def activation(p: Program, op: Activation, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    p.row(opcodes.MAP, p.places[ys[0]], p.places[xs[0]], values=(floats(p.spec(ys[0])),), activation=op)


@packs(Affine)
def affine(p: Program, op: Affine, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    out, x, shape = p.places[ys[0]], p.places[xs[0]], sizes(p.spec(ys[0]))
    for kind, numbers in (("subtract", op.center), ("multiply", op.scale), ("add", op.offset)):
        if numbers is not None:
            last = op.activation if kind == "add" else None
            p.binary(kind, out, x, p.constant(numbers), (shape, numbers.shape), activation=last)
            x = out


@packs(Merge)
def merge(p: Program, op: Merge, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    kind = "add" if op.kind == "average" else op.kind
    out, a, shape = p.places[ys[0]], p.places[xs[0]], sizes(p.spec(xs[0]))
    if len(xs) == 1:
        p.copy(out, a, floats(p.spec(xs[0])))
    for k, v in enumerate(xs[1:]):
        other = sizes(p.spec(v))
        both = np.broadcast_shapes(shape, other)
        # the result's memory can hold what is merged so far, where it has the full shape and isn't still to be read as an input
        target = out if both == sizes(p.spec(ys[0])) and k == len(xs) - 2 else p.buffer(int(np.prod(both)))
        p.binary(kind, target, a, p.places[v], (shape, other))
        a, shape = target, both
    if op.kind == "average":
        p.binary("divide", out, out, p.constant(np.float32(len(xs))), (shape, ()))


@packs(PReLU)
def prelu(p: Program, op: PReLU, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    out, x, shape = p.places[ys[0]], p.places[xs[0]], sizes(p.spec(xs[0]))
    low, zero = p.buffer(floats(p.spec(xs[0]))), p.constant(np.float32(0))
    p.binary("multiply", low, x, p.constant(np.float32(-1)), (shape, ()))
    p.binary("maximum", low, low, zero, (shape, ()))
    p.binary("multiply", low, low, p.constant(op.alpha), (shape, op.alpha.shape))
    p.binary("maximum", out, x, zero, (shape, ()))
    p.binary("subtract", out, out, low, (shape, shape))


def only_words(p: Program, xs: tuple[int, ...]) -> None:
    """What is moved as it is: 32 bits an element."""
    for v in xs:
        word(p, v)


@packs(Reshape)
def reshape(p: Program, op: Op, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_words(p, xs)
    x, y = p.places[xs[0]], p.places[ys[0]]
    if x is not y and y.exact:
        p.copy(y, x, floats(p.spec(xs[0])))
    else:
        p.places[ys[0]] = x


@packs(Cast)
def cast(p: Program, op: Cast, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    """Floats become integers only to be indices, which GATHER reads from floats too."""
    if p.spec(xs[0]).dtype == p.spec(ys[0]).dtype == F32:
        reshape(p, op, xs, ys)
        return
    if is_truth(p, xs[0]) and p.spec(ys[0]).dtype == F32:
        as_numbers(p, p.places[ys[0]], p.places[xs[0]], sizes(p.spec(xs[0])))
        return
    if p.spec(xs[0]).dtype == F32 and p.spec(ys[0]).dtype == bool:
        p.binary("not_equal", p.places[ys[0]], p.places[xs[0]], p.constant(np.float32(0)), (sizes(p.spec(xs[0])), ()))
        return
    if p.spec(ys[0]).dtype.kind != "i" or p.places[xs[0]].dtype.name not in INDEX_DTYPES:
        raise NotNative(f"cast to {op.dtype}")
    users = [node for node in p.graph.nodes if ys[0] in node.inputs]
    if ys[0] in p.homes or not users or not all(isinstance(node.op, Embedding) for node in users):
        raise NotNative(f"cast to {op.dtype}")
    p.places[ys[0]] = p.places[xs[0]]


@packs(Embedding)
def embedding(p: Program, op: Embedding, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, (), ys)
    x = p.places[xs[0]]
    if x.dtype.name not in INDEX_DTYPES:
        raise NotNative(f"{x.dtype} indices")
    rows, width = op.table.shape
    n_in = len(p.graph.inputs)
    source = x.region - opcodes.FIRST_INPUT if x.region >= opcodes.FIRST_INPUT else n_in
    values = (floats(p.spec(xs[0])), 4 * width, rows, INDEX_DTYPES.index(x.dtype.name), min(source, n_in))
    p.row(opcodes.GATHER, p.places[ys[0]], x, values=values, weights=p.weights(op.table))


@packs(Transpose, GetItem)
def arrange(p: Program, op: Any, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    """An op that only moves elements: what it does is found by applying it to the elements' numbers."""
    only_words(p, xs)
    shape = sizes(p.spec(xs[0]))
    numbers = op(np.arange(int(np.prod(shape)), dtype=np.float64).reshape((1, *shape)))[0].astype(np.int64)
    p.arrange(p.places[ys[0]], np.arange(numbers.size).reshape(numbers.shape), p.places[xs[0]], numbers)


@packs(OneHot)
def one_hot(p: Program, op: OneHot, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, (), ys)
    (x, shape), y, made = word(p, xs[0]), p.places[ys[0]], sizes(p.spec(ys[0]))
    if p.spec(xs[0]).dtype.kind == "b":
        raise NotNative("truth values")
    classes = np.arange(op.classes, dtype=p.spec(xs[0]).dtype)
    numbers = p.constant(classes.view(F32))
    given, own = (*shape[: op.axis], 1, *shape[op.axis :]), (op.classes, *(1,) * (len(shape) - op.axis))
    other = p.buffer(floats(p.spec(ys[0])))
    p.binary("differs" if classes.dtype.kind == "i" else "not_equal", other, x, numbers, (given, own))
    p.binary("and_not", y, other, p.constant(np.float32(1)), (made, ()))


@packs(Concatenate)
def concatenate(p: Program, op: Concatenate, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    whole = np.arange(floats(p.spec(ys[0]))).reshape(sizes(p.spec(ys[0])))
    at = 0
    for v in xs:
        shape = sizes(p.spec(v))
        part = whole.take(range(at, at + shape[op.axis]), op.axis)
        p.arrange(p.places[ys[0]], part, p.places[v], np.arange(part.size).reshape(part.shape))
        at += shape[op.axis]


def along(
    p: Program, opcode: int, axes: tuple[int, ...], x: int, y: int, values: tuple[int, ...], parameters: tuple[float, ...]
) -> None:
    """A row that works on contiguous groups, for any axes: they are moved to the end, and back."""
    n = floats(p.spec(x))
    source, numbers, inner = p.last_axes(p.places[x], sizes(p.spec(x)), axes)
    moved = source is not p.places[x]
    out = p.buffer(n) if moved else p.places[y]
    p.row(opcode, out, source, values=(n // inner, inner, *values), parameters=parameters)
    if moved:
        p.arrange(p.places[y], numbers, out, np.arange(n).reshape(numbers.shape))


@packs(Softmax, LogSoftmax)
def softmax(p: Program, op: Any, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    form = opcodes.LOG if isinstance(op, LogSoftmax) else opcodes.PLAIN
    along(p, opcodes.SOFTMAX, op.axes, xs[0], ys[0], (form,), ())


@packs(LayerNorm, RMSNorm)
def norm(p: Program, op: Any, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    only_floats(p, xs, ys)
    if getattr(op, "spread_only", False):
        raise NotNative("rms_scaling")
    along(p, opcodes.NORM, op.axes, xs[0], ys[0], (isinstance(op, LayerNorm),), (op.epsilon,))
    out, shape = p.places[ys[0]], sizes(p.spec(ys[0]))
    for kind, numbers in (("multiply", op.gamma), ("add", getattr(op, "beta", None))):
        if numbers is not None:
            p.binary(kind, out, out, p.constant(numbers), (shape, numbers.shape))


def reduce_axes(p: Program, kind: str, axes: tuple[int, ...], x: int, y: int) -> None:
    if kind not in REDUCTIONS:
        raise NotNative(kind)
    source, _, inner = p.last_axes(p.places[x], sizes(p.spec(x)), axes)
    values = (floats(p.spec(x)) // inner, inner, REDUCTIONS.index(kind))
    p.row(opcodes.REDUCE, p.places[y], source, values=values)


@packs(Reduce)
def reduce(p: Program, op: Reduce, xs: tuple[int, ...], ys: tuple[int, ...]) -> None:
    if op.kind == "any" and is_truth(p, xs[0]):
        only_words(p, xs)
    else:
        only_floats(p, xs, () if op.kind in ("argmax", "argmin") else ys)
    if not op.axes or (op.kind in ("argmax", "argmin") and len(op.axes) > 1):
        raise NotNative("no axes")
    reduce_axes(p, op.kind, op.axes, xs[0], ys[0])
