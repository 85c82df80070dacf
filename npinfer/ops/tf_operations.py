"""TensorFlow's functions in functional models that Keras 3 has no operation for, made of the ops that there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.ops.arithmetic import BOOL, Where, binary, operands, unary
from npinfer.ops.cast import as_float
from npinfer.ops.dense import Dense
from npinfer.ops.indexing import GetItem, Take, TakeAlongAxis, get_item, part, strided_key
from npinfer.ops.joining import joined
from npinfer.ops.norm_operations import vector_norm
from npinfer.ops.operands import cast, dtype_named
from npinfer.ops.reductions import Triangle, band, reduce
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.reshape import reshaped, transposed
from npinfer.ops.shapes import product, sample_axes, sample_axis
from npinfer.ops.sized import tiled
from npinfer.ops.sizes import Size, entries, shape_of


def zero_where(call: LayerCall, condition: Value, x: Value) -> Value:
    """x, but 0 where the condition holds (even where x is NaN)."""
    return call.emit(Where(x1=np.zeros((), x.spec.dtype)), condition, x)


@operation("Slice", takes=("sizes",))
def slice_operation(call: LayerCall, x: Value, *args: Any) -> Value:
    """A box of each sample: all of the batch."""
    begin = entries(call, args[0] if args else call.setting("start_indices"))
    size = entries(call, args[1] if len(args) > 1 else call.setting("shape"))
    if any(isinstance(n, Size) for n in begin) or len(begin) != len(x.shape) + 1:
        call.refuse(f"a box from {begin}")
    sizes = shape_of(x).array
    whole = [n == -1 or (isinstance(n, Size) and n.same(m)) for n, m in zip(size, sizes)]
    if begin[0] or not whole[0]:
        call.refuse(f"a box from {begin} cuts the batch axis; npinfer never mixes samples")
    if any(isinstance(n, Size) and not w for n, w in zip(size, whole)):
        call.refuse("a box of a size that is unknown")
    key = [slice(a or None, None if w else a + n) for a, n, w in zip(begin, size, whole)]
    return call.emit(GetItem(tuple(key[1:])), x)


@operation("StridedSlice", takes=("sizes",))
def strided_slice(call: LayerCall, x: Value, *args: Any) -> Value:
    """begin, end and strides with TensorFlow's masks, as Python's x[begin:end:strides]."""
    return get_item(call, x, strided_key(call, args))


@operation("BooleanMask")
def boolean_mask(call: LayerCall, x: Value, mask: Any) -> Value:
    """The entries of an axis where a constant holds."""
    kept = np.asarray(mask)
    if isinstance(mask, Value) or kept.ndim != 1:
        call.refuse("a mask that isn't a constant list: the result's shape would depend on the data")
    return call.emit(Take(np.flatnonzero(kept), sample_axis(call, call.config.get("axis"), len(x.shape) + 1)), x)


@operation("TakeEach")
def take_each(call: LayerCall, x: Value, indices: Value) -> Value:
    """tf.gather(x, indices, axis, batch_dims=1): each sample's entries at places of its own."""
    if not (isinstance(x, Value) and isinstance(indices, Value)):
        call.refuse("takes a constant; two tensors are supported")
    axis = sample_axis(call, call.config.get("axis", 1), len(x.shape) + 1)
    sizes, places = list(x.shape), indices.shape
    flat = reshaped(call, indices, (*(1,) * axis, product(places), *(1,) * (len(sizes) - axis - 1)))
    if places.count(None) > 1:
        call.refuse("places of several numbers that are unknown")
    repeats = [1 if k == axis else Size("axis", (x, k)) if n is None else n for k, n in enumerate(sizes)]
    found = call.emit(TakeAlongAxis(axis), x, tiled(call, flat, repeats))
    return reshaped(call, found, (*sizes[:axis], *places, *sizes[axis + 1 :]))


@operation("SequenceMask")
def sequence_mask(call: LayerCall, x: Value) -> Value:
    """Whether a place 0 … maxlen - 1 lies below the number given."""
    length = call.setting("maxlen")
    if not isinstance(length, int):
        call.refuse(f"maxlen={length!r}; a number is needed")
    x = reshaped(call, x, (*x.shape, 1))
    below = binary(call, "greater", x, np.arange(length, dtype=x.spec.dtype))
    return cast(call, below, dtype_named(call, call.config.get("dtype")))


@operation("SaturateCast")
def saturate_cast(call: LayerCall, x: Value) -> Value:
    dtype = dtype_named(call, call.config.get("dtype"))
    if dtype.kind not in "iu" or x.spec.dtype.kind == "b":
        return cast(call, x, dtype)
    if dtype.itemsize >= 4:
        call.refuse(f"saturate_cast to {dtype}")
    bounds = np.iinfo(dtype)
    return cast(call, binary(call, "minimum", binary(call, "maximum", x, int(bounds.min)), int(bounds.max)), dtype)


@operation("Crelu")
def crelu(call: LayerCall, x: Value) -> Value:
    """The positive parts of x and of -x, joined along an axis."""
    axis = sample_axis(call, call.config.get("axis", -1), len(x.shape) + 1)
    return joined(call, [binary(call, "maximum", v, 0) for v in (x, unary(call, "negative", x))], axis)


@operation("ClipByNorm")
def clip_by_norm(call: LayerCall, x: Value) -> Value:
    """x · limit / max(norm, limit)."""
    axes, limit = sample_axes(call, call.config.get("axis"), len(x.shape) + 1), call.config.get("clip_norm")
    if not isinstance(limit, (int, float)):
        call.refuse(f"clip_norm={limit!r}; a number is needed")
    norm = vector_norm(call, as_float(call, x), 2, axes, True)
    return binary(call, "divide", binary(call, "multiply", x, float(limit)), binary(call, "maximum", norm, float(limit)))


@operation("WithNorm")
def with_norm(call: LayerCall, x: Value) -> list[Value]:
    """tf.linalg.normalize: x over its norm, and the norm."""
    axes = sample_axes(call, call.config.get("axis"), len(x.shape) + 1)
    x = as_float(call, x)
    norm = vector_norm(call, x, call.config.get("ord"), axes, True)
    return [binary(call, "divide", x, norm), norm]


@operation("MultiplyNoNan", "Xlogy", "Xdivy", "ReciprocalNoNan")
def without_nan(call: LayerCall, *args: Any) -> Value:
    """0 where one factor is, whatever the other: x·y by y, x·log(y) and x/y by x, 1/x by x."""
    name = call.layer.class_name
    if name == "ReciprocalNoNan":
        return binary(call, "divide_no_nan", 1.0, args[0])
    x, y = operands(call, args, "x", "y")
    if not (isinstance(x, Value) and isinstance(y, Value)):
        call.refuse("takes two tensors")
    x, y = (as_float(call, v) for v in (x, y))
    other = unary(call, "log", y) if name == "Xlogy" else y
    made = binary(call, "divide" if name == "Xdivy" else "multiply", x, other)
    return zero_where(call, binary(call, "equal", y if name == "MultiplyNoNan" else x, 0), made)


@operation("LocalResponseNormalization")
def local_response_normalization(call: LayerCall, x: Value) -> Value:
    """x / (bias + alpha · Σ x² over the channels around)^beta; the sum is a product with a band of ones."""
    c, x = call.config, as_float(call, x)
    channels, radius = x.shape[-1], int(c.get("depth_radius", 5))
    if channels is None:
        call.refuse("a number of channels that is unknown")
    away = np.abs(np.arange(channels) - np.arange(channels)[:, None])
    around = call.emit(Dense((away <= radius).astype(call.dtype)), unary(call, "square", x))
    base = binary(call, "add", binary(call, "multiply", around, float(c.get("alpha", 1))), float(c.get("bias", 1)))
    return binary(call, "multiply", x, binary(call, "power", base, -float(c.get("beta", 0.5))))


@operation("BandPart")
def band_part(call: LayerCall, x: Value) -> Value:
    """The entries at most `lower` below and `upper` above the diagonal of the last two axes, the others 0."""
    lower, upper = (int(call.config[n]) for n in ("lower", "upper"))
    if len(x.shape) < 2:
        call.refuse("a band across the batch axis; npinfer never mixes samples")
    if lower < 0 and upper < 0:
        return x
    if (lower < 0 or upper < 0) and x.spec.dtype != BOOL:
        return call.emit(Triangle(upper) if lower < 0 else Triangle(-lower, True), x)
    rows, columns = x.shape[-2:]
    if rows is None or columns is None:
        call.refuse("a band of a matrix of unknown size")
    return call.emit(Where(condition=band(rows, columns, lower, upper), x2=np.zeros((), x.spec.dtype)), x)


@operation("Diagonal", "Trace")
def diagonal(call: LayerCall, x: Value) -> Value:
    """Of any two axes of a sample, and the sum of that diagonal."""
    rank, offset = len(x.shape), int(call.config.get("offset", 0))
    a, b = (sample_axis(call, call.config.get(n, k), rank + 1, n) for k, n in enumerate(("axis1", "axis2")))
    x = transposed(call, x, (*(k for k in range(rank) if k not in (a, b)), a, b))
    *front, rows, columns = x.shape
    if rows is None or columns is None or a == b:
        call.refuse("a diagonal of a matrix of unknown size")
    first, count = max(offset, -offset * columns), max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = reshaped(call, x, (*front, rows * columns))
    step = slice(first, first + (count - 1) * (columns + 1) + 1 if count else first, columns + 1)
    y = part(call, flat, len(front), step)
    return y if call.layer.class_name == "Diagonal" else reduce(call, "sum", y, (len(front),))


@operation("MatrixDiag")
def matrix_diag(call: LayerCall, x: Value) -> Value:
    """Square matrices with x on their diagonals."""
    if not x.shape or x.shape[-1] is None:
        call.refuse("a diagonal along the batch axis or of unknown size")
    rows = reshaped(call, x, (*x.shape, 1))
    return call.emit(Where(condition=np.eye(x.shape[-1], dtype=bool), x2=np.zeros((), x.spec.dtype)), rows)


@operation("Cross")
def cross(call: LayerCall, *args: Any) -> Value:
    """The cross product of vectors of three along the last axis."""
    a, b = operands(call, args, "x1", "x2")
    if not (isinstance(a, Value) and isinstance(b, Value)) or a.shape[-1:] != (3,) or b.shape[-1:] != (3,):
        call.refuse("takes two tensors of vectors of three")
    if any(call.config.get(n, -1) != -1 for n in ("axisa", "axisb", "axisc")) or call.config.get("axis") not in (None, -1):
        call.refuse("another axis than the last")

    def turned(x: Value, order: list[int]) -> Value:
        return call.emit(Take(np.array(order), len(x.shape) - 1), x)

    left = binary(call, "multiply", turned(a, [1, 2, 0]), turned(b, [2, 0, 1]))
    return binary(call, "subtract", left, binary(call, "multiply", turned(a, [2, 0, 1]), turned(b, [1, 2, 0])))
