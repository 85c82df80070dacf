"""Operations that give shapes, or take shapes, repeats and bounds: with sizes that only a call knows among them (sizes.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array
from npinfer.ops.evaluation import array_of, combined, tidy
from npinfer.ops.indexing import Take
from npinfer.ops.joining import Repeat
from npinfer.ops.operands import dtype_named
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.reshape import Reshape
from npinfer.ops.shapes import product, sample_axis
from npinfer.ops.sized import filled, repeated, reshaped_to, tiled
from npinfer.ops.sizes import Size, Sizes, StepsInBatch, bounded, entries, is_batch, plain, shape_of


@operation("Shape", takes=("steps",))
def shape(call: LayerCall, x: Value | StepsInBatch) -> Sizes:
    """Of a tensor, as a part of other shapes: the size of the batch enters no arithmetic."""
    return shape_of(x)


@operation("Size")
def size_operation(call: LayerCall, x: Value) -> Sizes:
    total: Any = 1
    for n in shape_of(x).array:
        total = combined("multiply", total, n)
    return tidy(total)


@operation("Arange")
def arange(call: LayerCall, *_: Any) -> Any:
    """Between numbers that are known."""
    call.refuse("a range between bounds that depend on data")


@operation("Ndim")
def rank(call: LayerCall, x: Value) -> Sizes:
    return Sizes(np.asarray(len(x.shape) + 1, np.int32))


@operation("ZerosOf", "OnesOf", "Fill", "Eye", takes=("sizes",))
def constant_operation(call: LayerCall, *args: Any) -> Value | Sizes:
    """Constants of a shape that starts with the size of the batch."""
    name = call.layer.class_name
    dtype = dtype_named(call, call.config.get("dtype"))
    if name == "Eye":
        rows = int(plain(args[0]))
        columns = call.setting("num_columns")
        lead = call.setting("batch_shape")
        bounded(call, rows, rows if columns is None else plain(columns))
        array: Array = np.eye(rows, rows if columns is None else int(plain(columns)), dtype=dtype)
        target = [*([] if lead is None else entries(call, lead)), *array.shape]
    else:
        target, value = entries(call, args[0]), 0 if name == "ZerosOf" else 1
        if name == "Fill":
            value = plain(call.setting("value") if len(args) < 2 else args[1])
            dtype = array_of(value, call.dtype).dtype if not isinstance(value, Value) else dtype
            if not isinstance(value, (bool, int, float)):
                call.refuse("a filling that is no number")
        array = np.full((), value, dtype)
    return filled(call, array, target)


@operation("Reshape", takes=("sizes", "steps"))
def reshape_operation(call: LayerCall, x: Value | StepsInBatch) -> Value | StepsInBatch:
    """newshape counts the batch: its first entry is -1, None or the size of the batch."""
    target = call.setting("newshape")
    if target is None:
        call.refuse("newshape=None")
    found = entries(call, target)
    if not found or any(not isinstance(n, Size) and n < -1 for n in found):
        call.refuse(f"newshape={target!r}")
    first, *rest = found
    if first != -1 and not (isinstance(first, Size) and first.of_batch):
        call.refuse(f"newshape={found} fixes the size of the batch")
    value = x.value if isinstance(x, StepsInBatch) else x
    if not is_batch(first) and all(isinstance(n, int) and n > 0 for n in rest):
        size, total = math.prod(rest), product(value.shape)
        steps = _steps(value, size)
        if steps is not None:
            return StepsInBatch(call.emit(Reshape((steps, *rest)), value))
        if total is not None and total != size:
            call.refuse(f"newshape={found} gives a sample {size} elements, it has {total}; npinfer never mixes samples")
    if first != -1 and not is_batch(first):
        call.refuse(f"newshape={found} mixes samples")
    return reshaped_to(call, value, rest)


def _steps(value: Value, size: int) -> int | None:
    """How many steps of `size` elements a sample gives, -1 where a call tells; None where it is one, or leaves a rest."""
    total = product(value.shape)
    if total is not None:
        return total // size if total != size and total % size == 0 else None
    known = math.prod(n for n in value.shape if n is not None)
    return -1 if known % size == 0 and value.shape.count(None) == 1 else None


@operation("Tile", takes=("sizes",))
def tile(call: LayerCall, x: Any) -> Value | Sizes:
    repeats = entries(call, call.setting("repeats"))
    if not isinstance(x, Value):
        return repeated(call, array_of(x, call.dtype), repeats)
    rank = len(x.shape) + 1
    repeats = [1] * (rank - len(repeats)) + repeats
    if len(repeats) > rank or repeats[0] != 1:
        call.refuse(f"repeats={list(repeats)} repeats along the batch axis")
    return tiled(call, x, repeats[1:])


@operation("Repeat", takes=("sizes",))
def repeat(call: LayerCall, x: Any) -> Value | Sizes:
    times = call.setting("repeats")
    if not isinstance(x, Value):
        if call.config.get("axis") != 0:
            call.refuse("repeats a constant along another axis than the first")
        return repeated(call, array_of(x, call.dtype), [*entries(call, times), *(1,) * (np.ndim(x) - 1)])
    if isinstance(times, (list, tuple)) and len(times) == 1:
        times = times[0]
    if isinstance(times, Sizes):
        axis = sample_axis(call, call.config.get("axis"), len(x.shape) + 1)
        if x.shape[axis] != 1 or times.array.ndim:
            call.refuse("repeats by a size that is unknown, of more than one entry")
        return tiled(call, x, [times.array.item() if k == axis else 1 for k in range(len(x.shape))])
    if isinstance(times, (list, tuple)) and all(isinstance(n, int) and n >= 0 for n in times):
        axis = sample_axis(call, call.config.get("axis"), len(x.shape) + 1)
        if x.shape[axis] != len(times):
            raise ShapeError(f"layer {call.name!r}: {len(times)} repeats for an axis of size {x.shape[axis]}")
        return call.emit(Take(np.arange(len(times)).repeat(times), axis), x)
    if not isinstance(times, int):
        call.refuse(f"repeats={times!r}; whole numbers are needed")
    return call.emit(Repeat(times, sample_axis(call, call.config.get("axis"), len(x.shape) + 1)), x)


@operation("BroadcastTo", takes=("sizes",))
def broadcast_to(call: LayerCall, x: Any) -> Value | Sizes:
    target = entries(call, call.setting("shape"))
    if not isinstance(x, Value):
        return filled(call, array_of(x, call.dtype), target)
    if len(target) != len(x.shape) + 1 or not (target[0] == -1 or is_batch(target[0])):
        call.refuse(f"shape={list(target)} fixes the size of the batch")
    pairs = list(zip(x.shape, target[1:]))
    if any(not isinstance(t, Size) and n not in (t, 1) for n, t in pairs):
        raise ShapeError(f"layer {call.name!r}: {list(x.shape)} a sample can't be broadcast to {list(target[1:])}")
    return tiled(call, x, [t if n == 1 else 1 for n, t in pairs])
