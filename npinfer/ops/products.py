"""Products of two tensors of a model: matmul, einsum, and the dot products of Keras's Dot layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.arithmetic import operands
from npinfer.ops.dense import Dense
from npinfer.ops.indexing import part
from npinfer.ops.operands import cast
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.reshape import transposed
from npinfer.ops.shapes import agree, broadcast, promote, sample_axis


class Matmul(Op):
    """np.matmul of two inputs of equal rank (two or more axes a sample) and dtype."""

    def infer(self, a: Spec, b: Spec) -> Spec:
        if len(a.shape) < 2 or len(a.shape) != len(b.shape):
            raise ShapeError("matrices of equal rank are needed")
        agree(a.shape[-1], b.shape[-2])
        return Spec((*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)

    def __call__(self, a: Array, b: Array) -> Array:
        return np.asarray(np.matmul(a, b))


class Einsum(Op):
    """np.einsum(subscripts, …) where the first letter of each input and of the result is the batch.

    constant: an operand from the file, at place `at` among the inputs; its letters hold no batch."""

    subscripts: str
    constant: Array | None = None
    at: int = 0

    def infer(self, *xs: Spec) -> Spec:
        left, result = self.subscripts.split("->")
        terms = left.split(",")
        shapes = [(None, *x.shape) for x in xs]
        if self.constant is not None:
            shapes.insert(self.at, self.constant.shape)
        if len(shapes) != len(terms):
            raise ShapeError(f"einsum {self.subscripts!r} takes {len(terms)} operands, got {len(shapes)}")
        sizes: dict[str, int | None] = {}
        for term, shape in zip(terms, shapes):
            if len(term) != len(shape):
                raise ShapeError(f"einsum {self.subscripts!r}: {term!r} doesn't name {len(shape)} axes")
            for letter, n in zip(term, shape):
                sizes[letter] = agree(sizes.get(letter), n)
        return Spec(tuple(sizes[letter] for letter in result[1:]), xs[0].dtype)

    def __call__(self, *xs: Array) -> Array:
        arrays = list(xs)
        if self.constant is not None:
            arrays.insert(self.at, self.constant)
        return np.asarray(np.einsum(self.subscripts, *arrays, optimize=len(arrays) > 1))


class BatchDot(Op):
    """Sum of products over one axis of each of two inputs: the other axes of the first, then those of the second."""

    axes: tuple[int, int]

    def infer(self, a: Spec, b: Spec) -> Spec:
        i, j = self.axes
        agree(a.shape[i], b.shape[j])
        return Spec((*a.shape[:i], *a.shape[i + 1 :], *b.shape[:j], *b.shape[j + 1 :]), a.dtype)

    def __call__(self, a: Array, b: Array) -> Array:
        i, j = self.axes
        n = len(a)
        a, b = np.moveaxis(a, i + 1, -1), np.moveaxis(b, j + 1, 1)
        size = a.shape[-1]
        rows, columns = a.shape[1:-1], b.shape[2:]
        width, height = int(np.prod(columns, dtype=np.int64)), int(np.prod(rows, dtype=np.int64))
        y = np.matmul(a.reshape(n, height, size), b.reshape(n, size, width))
        return np.asarray(y).reshape(n, *rows, *columns)


def matrix_product(call: LayerCall, a: Value, b: Any) -> Value:
    """The last axis of a times a constant matrix."""
    kernel = np.asarray(b)
    dtype = promote(a.spec.dtype, kernel.dtype if kernel.dtype.kind != "f" else call.dtype)
    return call.emit(Dense(np.ascontiguousarray(kernel.astype(dtype))), cast(call, a, dtype))


ACROSS = "multiplies across the batch axis; npinfer never mixes samples"


@operation("Matmul")
def matmul(call: LayerCall, *args: Any) -> Value:
    """Of the last two axes; the axes in front keep apart. TensorFlow's flags turn a factor first."""
    a, b = operands(call, args, "x1", "x2")
    a, b = (_turned(call, x, name) for x, name in ((a, "a"), (b, "b")))
    if isinstance(a, Value) and isinstance(b, Value):
        dtype = promote(a.spec.dtype, b.spec.dtype)
        if len(a.shape) != len(b.shape) or len(a.shape) < 2:
            call.refuse(f"{[None, *a.shape]} times {[None, *b.shape]} {ACROSS}")
        return call.emit(Matmul(), cast(call, a, dtype), cast(call, b, dtype))
    if isinstance(b, Value):
        return _beside_constant(call, b, a, 0)
    if not isinstance(a, Value):
        call.refuse("works on constants alone")
    if np.ndim(b) == 2 and a.shape:
        return matrix_product(call, a, b)
    return _beside_constant(call, a, b, 1)


def _turned(call: LayerCall, x: Any, name: str) -> Any:
    """x with its last two axes swapped where a flag says so (numbers are real: adjoint and transposed are one)."""
    if not (call.config.get(f"transpose_{name}") or call.config.get(f"adjoint_{name}")):
        return x
    if not isinstance(x, Value):
        return np.asarray(x).swapaxes(-1, -2)
    rank = len(x.shape)
    if rank < 2:
        call.refuse(f"{[None, *x.shape]} turned around {ACROSS}")
    return transposed(call, x, (*range(rank - 2), rank - 1, rank - 2))


def _beside_constant(call: LayerCall, x: Value, given: Any, at: int) -> Value:
    """The matrix product of x and a constant, which stands at place `at`: of any rank that leaves the batch alone."""
    kernel = np.asarray(given)
    rank = len(x.shape)
    if kernel.ndim == rank + 1 and kernel.shape[0] == 1:
        kernel = kernel[0]
    if rank < (1 if at else 2) or not 1 <= kernel.ndim <= max(rank, 2) or (rank == 1 and kernel.ndim > 1):
        call.refuse(f"{[None, *x.shape]} times a constant of shape {list(kernel.shape)} {ACROSS}")
    dtype = promote(x.spec.dtype, kernel.dtype if kernel.dtype.kind != "f" else call.dtype)
    letters = iter("cdefghijklmnopqrstuvwxyz")
    front, taken, fixed = "", "", ""
    sizes = (1,) * (rank - kernel.ndim) + kernel.shape
    for n, m in zip(x.shape[: rank - 2], sizes):
        letter = next(letters)
        front += letter
        taken += letter if m == 1 or n != 1 else next(letters)  # an axis of size 1 is broadcast, so summed away
        fixed += letter if m != 1 else ""
    rows, inner, columns = next(letters), next(letters), next(letters)
    mine, ends = ([rows, inner], [inner, columns]) if at else ([inner, columns], [rows, inner])
    mine = mine[-1:] if rank == 1 else mine
    ends = [inner] if kernel.ndim == 1 else ends
    kept = (n for k, n in enumerate(kernel.shape) if n != 1 or k >= kernel.ndim - 2)
    made = "".join(c for c in (rows, columns) if c in mine + ends)
    terms = [f"b{taken}{''.join(mine)}", fixed + "".join(ends)]
    spelt = ",".join(terms if at else terms[::-1]) + f"->b{front}{made}"
    array = np.ascontiguousarray(kernel.astype(dtype).reshape(tuple(kept)))
    return call.emit(Einsum(spelt, array, at), cast(call, x, dtype))


def _letters(call: LayerCall, subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Terms and result with every ellipsis spelt out in capital letters of its own."""
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(ranks):
        call.refuse(f"subscripts {subscripts!r}")
    dots = {rank - len(term) + 3 for term, rank in zip(terms, ranks) if "..." in term}
    if len(dots) > 1 or min(dots, default=0) < 0:
        call.refuse(f"subscripts {subscripts!r} with an ellipsis that stands for different axes")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in subscripts]
    spelt = "".join(free[: dots.pop()]) if dots else ""
    return [t.replace("...", spelt) for t in terms], result.replace("...", spelt)


@operation("Einsum")
def einsum(call: LayerCall, *args: Any) -> Value:
    subscripts = call.config["subscripts"]
    constants = [k for k, a in enumerate(args) if not isinstance(a, Value)]
    if len(constants) == len(args):  # tf.keras records tf.einsum's subscripts alone, and can't load that file itself
        call.refuse("the file doesn't tell its operands")
    if len(constants) > 1:
        call.refuse("more than one constant operand")
    arrays = [a if isinstance(a, Value) else np.asarray(a) for a in args]
    ranks = [len(a.shape) + 1 if isinstance(a, Value) else a.ndim for a in arrays]
    terms, result = _letters(call, subscripts, ranks)
    batch = {t[:1] for t, a in zip(terms, arrays) if isinstance(a, Value)} | {result[:1]}
    letter = batch.pop()
    clear = not batch and letter and all(t.count(letter) == isinstance(a, Value) for t, a in zip(terms, arrays))
    if not clear or result.count(letter) != 1:
        call.refuse(f"subscripts {subscripts!r} don't keep the batch axis first and apart; npinfer never mixes samples")
    dtype = promote(*(a.spec.dtype if isinstance(a, Value) else a.dtype for a in arrays if isinstance(a, Value)))
    values = [cast(call, a, dtype) for a in arrays if isinstance(a, Value)]
    spelt = ",".join(terms) + "->" + result
    fixed = next((a.astype(dtype) for a in arrays if not isinstance(a, Value)), None)
    return call.emit(Einsum(spelt, fixed, constants[0] if constants else 0), *values)


@operation("Dot", "Tensordot")
def dot(call: LayerCall, *args: Any) -> Value:
    """Sums over axes of a tensor and of a constant; two tensors would meet across the batch."""
    a, b = operands(call, args, "x1", "x2")
    if not isinstance(a, Value) or isinstance(b, Value) or not a.shape:
        call.refuse(f"a product of two tensors {ACROSS}")
    kernel = np.asarray(b)
    mine, its = _summed(call, len(a.shape) + 1, kernel)
    if mine == [len(a.shape) - 1] and its == [0] and kernel.ndim <= 2:
        y = matrix_product(call, a, kernel.reshape(len(kernel), -1))
        return y if kernel.ndim == 2 else part(call, y, len(y.shape) - 1, 0)
    taken = "abcdefghijklm"[: len(a.shape)]
    fixed = [taken[mine[its.index(k)]] if k in its else "nopqrs"[k] for k in range(kernel.ndim)]
    left = [c for k, c in enumerate(taken) if k not in mine] + [c for k, c in enumerate(fixed) if k not in its]
    dtype = promote(a.spec.dtype, kernel.dtype if kernel.dtype.kind != "f" else call.dtype)
    spelt = f"z{taken},{''.join(fixed)}->z{''.join(left)}"
    return call.emit(Einsum(spelt, kernel.astype(dtype), 1), cast(call, a, dtype))


def _summed(call: LayerCall, rank: int, kernel: Array) -> tuple[list[int], list[int]]:
    """The sample axes of a tensor (its rank counts the batch) and the axes of a constant that the product sums over."""
    axes = call.config.get("axes", 1) if call.layer.class_name == "Tensordot" else 1
    odd = f"axes={axes!r} with a constant of shape {list(kernel.shape)}"
    if isinstance(axes, (list, tuple)) and len(axes) == 2:
        mine, its = (list(x) if isinstance(x, (list, tuple)) else [x] for x in axes)
    elif isinstance(axes, int) and 0 < axes < min(rank, kernel.ndim + 1):
        mine, its = list(range(rank - axes, rank)), list(range(axes))
    else:
        call.refuse(odd)
    mine = [sample_axis(call, k, rank, "axes") for k in mine]
    its = [k % max(kernel.ndim, 1) for k in its]
    if not len(mine) == len(its) == len(set(mine)) == len(set(its)) or not 1 <= kernel.ndim <= 6:
        call.refuse(odd)
    return mine, its
