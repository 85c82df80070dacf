"""What operations of a file work on: tensors, and the numbers and arrays that stand beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.errors import DtypeError
from npinfer.graph import Array
from npinfer.ops.cast import Cast
from npinfer.ops.registry import LayerCall, Value
from npinfer.ops.shapes import promote
from npinfer.ops.sizes import Sizes

HALVES = ("float16", "bfloat16")  # computed in the model's dtype
KNOWN = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


def cast(call: LayerCall, x: Value, dtype: np.dtype[Any]) -> Value:
    """x in another dtype, or x itself where it has it."""
    return x if x.spec.dtype == dtype else call.emit(Cast(dtype), x)


def dtype_named(call: LayerCall, name: Any, default: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """The dtype that a config names. Half-precision floats and float32 become the layer's compute dtype; None: the default,
    or that dtype too."""
    if name is None:
        return call.dtype if default is None else default
    if name in (*HALVES, "float32", "float"):
        return call.dtype
    if name not in KNOWN:
        call.refuse(f"dtype {name!r}")
    found: np.dtype[Any] = np.dtype(name)
    return found


def constant(call: LayerCall, item: Any, x: Value) -> Array:
    """A number or array of the file as Keras combines it with x: a plain number is weakly typed (it takes x's dtype where it
    can), an array keeps its own. Its axes line up with x's last ones; a batch axis of its own must have size 1."""
    if isinstance(item, (bool, int, float)):
        mine = x.spec.dtype
        weak = mine if mine.kind == "f" or isinstance(item, bool) else call.dtype
        if isinstance(item, int) and not isinstance(item, bool) and mine.kind != "f":
            weak = mine if mine.kind in "iu" else np.dtype("int32")
        return np.asarray(item, weak)
    try:
        value = np.asarray(item)
    except ValueError:
        call.refuse(f"the constant {item!r} isn't an array")
    if value.dtype.kind not in "fiub":
        raise DtypeError(f"layer {call.name!r}: a constant of dtype {value.dtype}")
    if value.dtype.kind == "f" and (isinstance(item, (list, tuple)) or value.dtype.itemsize <= call.dtype.itemsize):
        value = value.astype(call.dtype)
    elif value.dtype == np.int64 and isinstance(item, (list, tuple)):
        value = value.astype(np.int32)
    rank = len(x.shape) + 1
    if value.ndim == rank and value.shape[0] == 1:
        value = value[0]
    if value.ndim >= rank:
        call.refuse(f"a constant of shape {list(value.shape)} beside {list(x.shape)} a sample fixes the size of the batch")
    return value


def aligned(call: LayerCall, values: Sequence[Value]) -> None:
    """Refuse tensors of different ranks: NumPy's broadcasting would lay one's batch axis against another axis."""
    if len({len(v.shape) for v in values}) > 1:
        shapes = " and ".join(f"(batch, {', '.join('?' if n is None else str(n) for n in v.shape)})" for v in values)
        call.refuse(f"{shapes} would be broadcast across the batch axis; npinfer never mixes samples")


def common(
    call: LayerCall, *items: Any, floats: bool = False, like: Value | None = None
) -> tuple[list[Value | Array], np.dtype[Any]]:
    """Tensors and constants in their common dtype (a float one if `floats`), constants as arrays. `like` is a tensor that
    constants must fit, where all items may be constants."""
    values = [i for i in items if isinstance(i, Value)]
    if not values and like is None:
        call.refuse("works on constants alone")
    aligned(call, values if like is None else [*values, like])
    beside = values[0] if values else like
    assert beside is not None
    if any(isinstance(i, Sizes) for i in items):
        from npinfer.ops.sized import measured  # which needs arithmetic.py, which needs this file

        items = tuple(measured(call, i.plain(), len(beside.shape)) if isinstance(i, Sizes) else i for i in items)
    known = [i if isinstance(i, Value) else constant(call, i, beside) for i in items]
    dtype = promote(*(k.spec.dtype if isinstance(k, Value) else k.dtype for k in known))
    if floats and dtype.kind != "f":
        dtype = call.dtype
    return [cast(call, k, dtype) if isinstance(k, Value) else k.astype(dtype) for k in known], dtype
