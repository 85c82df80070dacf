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
from npinfer.ops.shapes import agree, broadcast, promote


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


@operation("Matmul")
def matmul(call: LayerCall, *args: Any) -> Value:
    a, b = operands(call, args, "x1", "x2")
    if isinstance(a, Value) and isinstance(b, Value):
        dtype = promote(a.spec.dtype, b.spec.dtype)
        if len(a.shape) != len(b.shape) or len(a.shape) < 2:
            call.refuse(
                f"{[None, *a.shape]} times {[None, *b.shape]} multiplies across the batch axis; npinfer never mixes samples"
            )
        return call.emit(Matmul(), cast(call, a, dtype), cast(call, b, dtype))
    if not isinstance(a, Value) or isinstance(b, Value) or np.ndim(b) != 2 or not a.shape:
        call.refuse("a product with a constant on the left, or with one that isn't a matrix")
    return matrix_product(call, a, b)


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
    if len(constants) > 1 or len(constants) == len(args):
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
    """Both sum over the last axis of a tensor and the first of a constant; two tensors would meet across the batch."""
    a, b = operands(call, args, "x1", "x2")
    axes = call.config.get("axes", 1) if call.layer.class_name == "Tensordot" else 1
    if not isinstance(a, Value) or isinstance(b, Value) or not a.shape:
        call.refuse("a product of two tensors across the batch axis; npinfer never mixes samples")
    kernel = np.asarray(b)
    rank = len(a.shape) + 1
    if isinstance(axes, (list, tuple)):
        one = [x[0] if isinstance(x, (list, tuple)) and len(x) == 1 else x for x in axes]
        axes = 1 if one in ([-1, 0], [rank - 1, 0]) else axes
    if axes != 1 or not 1 <= kernel.ndim <= 2:
        call.refuse(f"axes={axes!r} with a constant of shape {list(kernel.shape)}")
    y = matrix_product(call, a, kernel.reshape(len(kernel), -1))
    return y if kernel.ndim == 2 else part(call, y, len(y.shape) - 1, 0)
