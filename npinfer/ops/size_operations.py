"""Operations on sizes: what needs no call is evaluated while lowering, the rest becomes ops where it meets tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.graph import Array
from npinfer.ops.arithmetic import PAIRS, binary, unary
from npinfer.ops.operands import cast, dtype_named
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.size_rules import ALONE, array_of, bounded, combined, entries, plain, tidy
from npinfer.ops.sized import SizeOf, spread
from npinfer.ops.sizes import BATCH, Folded, Size, Sizes, has_values, shape_of, within
from npinfer.trees import leaves

#: operations that take sizes as they are: shapes, repeats, bounds
SIZED = {
    "Reshape",
    "Tile",
    "BroadcastTo",
    "GetItem",
    "Slice",
    "StridedSlice",
    "Resize",
    "Repeat",
    "ZerosOf",
    "OnesOf",
    "Fill",
    "Eye",
}
MERGES = {"Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Maximum": "maximum", "Minimum": "minimum"}


def settled(call: LayerCall, args: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The result of a call on sizes and constants alone (None: there is none), and the arguments with known sizes as numbers.

    Refuses sizes that a call would have to compute with: the batch's, and others where no op reads them."""
    name = call.layer.class_name
    if call.layer.module == "ops" and name in ALONE and args and not has_values([args, call.kwargs]):
        made = ALONE[name](call, *args)
        return (made if isinstance(made, list) else None if made is None else tidy(made)), list(args)
    if not call.layer.module:
        return _layer(call, name, args), list(args)
    call.kwargs = {k: plain(v) for k, v in call.kwargs.items()}
    made = [plain(a) for a in args]
    if name not in SIZED:
        for found in leaves([made, call.kwargs], Sizes):
            if any(isinstance(n, Size) and n.of_batch for n in found.array.flat):
                call.refuse(BATCH)
            if name not in PAIRS or found.array.ndim:
                call.refuse("a size that is unknown enters it")
    return None, made


def _layer(call: LayerCall, name: str, args: Sequence[Any]) -> Any:
    """Layers that people call on constants: an Embedding of positions, and the sum with what it gives."""
    if name == "Embedding" and len(args) == 1 and not has_values(args):
        places = array_of(args[0], call.dtype)
        if places.dtype.kind in "iu":
            return Sizes(call.weights["embeddings"][places])
    xs = args[0] if len(args) == 1 and isinstance(args[0], list) else []
    known = [x.known if isinstance(x, Sizes) else isinstance(x, Value) for x in xs]
    if name in MERGES and len(xs) >= 2 and all(known):
        total = plain(xs[0])
        for x in xs[1:]:
            total = binary(call, MERGES[name], total, plain(x))
        return total
    if within(args, call.kwargs):
        call.refuse("is called on sizes or constants of the model")
    return None


def measured(call: LayerCall, size: Any, rank: int) -> Any:
    """A size as a tensor of `rank` axes of size 1; numbers stay what they are."""
    if not isinstance(size, Size):
        return size
    if size.kind == "batch":
        call.refuse(BATCH)
    if size.kind == "axis":
        return call.emit(SizeOf(size.operands[1], rank), size.operands[0])
    if size.kind == "cast":
        return cast(call, measured(call, size.operands[0], rank), size.operands[1])
    parts = [measured(call, o, rank) for o in size.operands]
    return unary(call, size.kind, parts[0]) if len(parts) == 1 else binary(call, size.kind, *parts)


def repeated(call: LayerCall, x: Any, repeats: list[Any]) -> Any:
    """A constant tiled, by the size of the batch or by numbers."""
    array = array_of(x, call.dtype)
    array = array.reshape((1,) * (len(repeats) - array.ndim) + array.shape)
    repeats = [1] * (array.ndim - len(repeats)) + repeats
    bounded(call, array.size, *repeats)
    if not any(isinstance(n, Size) for n in repeats):
        return Sizes(np.tile(array, repeats))
    if not isinstance(repeats[0], Size) or repeats[0].kind != "batch" or array.shape[0] != 1:
        call.refuse("a constant repeated by a size that is unknown")
    if any(isinstance(n, Size) for n in repeats[1:]):
        sizes = [n if isinstance(n, Size) else n * m for n, m in zip(repeats[1:], array.shape[1:])]
        return spread(call, array, [repeats[0], *sizes])
    whole = np.tile(array, (1, *repeats[1:]))
    return spread(call, whole, [repeats[0], *whole.shape[1:]])


@operation("Shape")
def shape(call: LayerCall, x: Value | Folded) -> Sizes:
    """Of a tensor, as a part of other shapes: the size of the batch enters no arithmetic."""
    call.config.get("out_type")
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


@operation("ZerosOf", "OnesOf", "Fill", "Eye")
def constant_operation(call: LayerCall, *args: Any) -> Any:
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
    bounded(call, *target)
    if not any(isinstance(n, Size) for n in target):
        return Sizes(np.ascontiguousarray(np.broadcast_to(array, target)))
    if not isinstance(target[0], Size) or target[0].kind != "batch":
        call.refuse("a constant whose shape is unknown and doesn't start with the size of the batch")
    return spread(call, array, target)
