"""Calls on sizes and constants alone (constant folding): evaluated while lowering, sizes that only a call knows as symbols.

The table is EVALUATED; sizes.py tells what Sizes are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.graph import Array
from npinfer.ops.arithmetic import BINARY, PAIRS, SINGLES, UNARY, binary
from npinfer.ops.indexing import strided_key
from npinfer.ops.operands import dtype_named
from npinfer.ops.reductions import band
from npinfer.ops.registry import LayerCall, Value
from npinfer.ops.sizes import BATCH, Size, Sizes, bounded, has_tensors, needs_evaluation, plain
from npinfer.trees import leaves

Rule = Callable[..., Any]
#: by function: the second operand that changes nothing
NEUTRAL = {"add": 0, "subtract": 0, "multiply": 1, "floor_divide": 1, "divide": 1}
#: by comparison: what it gives for equal operands
COMPARED = {"equal": True, "less_equal": True, "greater_equal": True, "not_equal": False, "less": False, "greater": False}


def combined(kind: str, a: Any, b: Any) -> Any:
    """BINARY[kind] of two numbers or Sizes."""
    if not isinstance(a, Size) and not isinstance(b, Size):
        return BINARY[kind].function(np.asarray(a), np.asarray(b)).item()
    if isinstance(a, Size) and a.same(b):
        if kind == "subtract":
            return 0
        if kind in COMPARED:
            return COMPARED[kind]
    if kind in NEUTRAL and not isinstance(b, Size) and b == NEUTRAL[kind]:
        return a
    if kind in ("add", "multiply") and not isinstance(a, Size) and a == NEUTRAL[kind]:
        return b
    return Size(kind, (a, b))


def array_of(item: Any, dtype: np.dtype[Any]) -> Array:
    """Numbers and sizes, nested in lists, as one array: whole numbers int32, others in the dtype given."""
    if isinstance(item, Sizes):
        return item.array
    if isinstance(item, (list, tuple)):
        parts = [array_of(i, dtype) for i in item]
        if any(p.dtype == object for p in parts):
            return np.stack([p.astype(object) for p in parts])
    array = np.asarray([plain(i) for i in item] if isinstance(item, (list, tuple)) else item)
    if array.dtype == np.int64 and not isinstance(item, np.ndarray):
        return array.astype(np.int32)
    return array.astype(dtype) if array.dtype.kind == "f" and not isinstance(item, np.ndarray) else array


def tidy(array: Any) -> Sizes:
    """Numbers that have lost their last Size become an array of numbers again."""
    array = array if isinstance(array, np.ndarray) else np.asarray(array, object)
    if array.dtype == object and not any(isinstance(n, Size) for n in array.flat):
        array = np.asarray(array.tolist())
        array = array.astype(np.int32) if array.dtype == np.int64 else array
    return Sizes(array)


def _binary(kind: str) -> Rule:
    def rule(call: LayerCall, a: Any, b: Any) -> Any:
        a, b = array_of(a, call.dtype), array_of(b, call.dtype)
        if a.dtype == object or b.dtype == object:
            return np.frompyfunc(lambda p, q: combined(kind, p, q), 2, 1)(a, b)
        bounded(call, *np.broadcast_shapes(a.shape, b.shape))
        if BINARY[kind].takes == "bool":
            a, b = a.astype(bool), b.astype(bool)
        return np.asarray(BINARY[kind].function(a, b))

    return rule


def _unary(kind: str) -> Rule:
    def rule(call: LayerCall, x: Any) -> Any:
        array = array_of(x, call.dtype)
        if array.dtype == object:
            return np.frompyfunc(lambda n: Size(kind, (n,)), 1, 1)(array)
        return np.asarray(UNARY[kind].function(array))

    return rule


def _cast(call: LayerCall, x: Any) -> Any:
    array, dtype = array_of(x, call.dtype), dtype_named(call, call.config.get("dtype") or call.layer.dtype)
    if array.dtype != object:
        return array.astype(dtype)
    if dtype.kind in "iu":  # sizes are whole numbers already
        return array
    return np.frompyfunc(lambda n: Size("cast", (n, dtype)) if isinstance(n, Size) else dtype.type(n).item(), 1, 1)(array)


def _reduced(kind: str) -> Rule:
    def rule(call: LayerCall, x: Any) -> Any:
        array, axis = array_of(x, call.dtype), call.config.get("axis")
        if array.dtype != object:
            axes = tuple(axis) if isinstance(axis, list) else axis
            function = getattr(np, {"multiply": "prod", "add": "sum", "maximum": "max", "minimum": "min"}[kind])
            return np.asarray(function(array, axis=axes, keepdims=bool(call.config.get("keepdims")))).astype(array.dtype)
        if array.ndim != 1:
            call.refuse("one of several axes of sizes that are unknown")
        total = functools.reduce(lambda a, b: combined(kind, a, b), array)
        return np.array([total], object) if call.config.get("keepdims") else total

    return rule


def _item(call: LayerCall, x: Any, key: Any) -> Any:
    found = plain(key)
    return array_of(x, call.dtype)[tuple(found) if isinstance(found, (list, tuple)) else found]


def _range(call: LayerCall, start: Any, stop: Any = None, step: Any = 1) -> Any:
    given = [call.take(n, v) for n, v in (("start", start), ("stop", stop), ("step", step))]
    bounds = [array_of(0 if n is None else n, call.dtype) for n in (given if given[1] is not None else [0, *given[::2]])]
    if any(n.dtype == object for n in bounds):
        call.refuse("a range over a size that is unknown")
    dtype = call.config.get("dtype")
    first, last, width = (n.item() for n in bounds)
    bounded(call, (last - first) / width)
    made = np.arange(*(n.item() for n in bounds), dtype=np.result_type(*bounds))
    return made if dtype is None else made.astype(dtype_named(call, dtype))


def _chosen(call: LayerCall, condition: Any, a: Any, b: Any) -> Any:
    given, a, b = array_of(condition, call.dtype), array_of(a, call.dtype), array_of(b, call.dtype)
    if given.dtype == object:
        call.refuse("a choice that depends on sizes that are unknown")
    return np.where(given.astype(bool), a, b)


def _unstacked(call: LayerCall, x: Any) -> Any:
    array = array_of(x, call.dtype)
    return [tidy(n) for n in np.moveaxis(array, call.config.get("axis", 0), 0)]


def _split(call: LayerCall, x: Any) -> Any:
    array, axis = array_of(x, call.dtype), call.config.get("axis", 0)
    return [tidy(part) for part in np.split(array, call.config["indices_or_sections"], axis)]


def _one_hot(call: LayerCall, x: Any) -> Any:
    array, classes = array_of(x, call.dtype), int(plain(call.setting("num_classes")))
    if array.dtype == object or call.config.get("axis", -1) != -1:
        call.refuse("one_hot of sizes that are unknown, or along another axis than the last")
    bounded(call, array.size, classes)
    on, off = (call.config.get(n, k) for n, k in (("on_value", 1), ("off_value", 0)))
    return np.where(array[..., None] == np.arange(classes), on, off).astype(dtype_named(call, call.config.get("dtype")))


def _shaped(function: Callable[[Array, Callable[[str], Any]], Any]) -> Rule:
    """A function (array, settings of the config) of NumPy's."""

    def rule(call: LayerCall, x: Any) -> Any:
        return function(array_of(x, call.dtype), lambda name: plain(call.setting(name)))

    return rule


def _joined(call: LayerCall, xs: Any) -> Any:
    parts = [array_of(x, call.dtype) for x in xs if not isinstance(x, (list, tuple)) or x]
    axis = call.config.get("axis", 0)
    parts = [p.astype(object) for p in parts] if any(p.dtype == object for p in parts) else parts
    return (np.stack if call.layer.class_name == "Stack" else np.concatenate)(parts, axis=axis)


def _strided(call: LayerCall, x: Any, *args: Any) -> Any:
    return array_of(x, call.dtype)[tuple(strided_key(call, args))]


def _taken(call: LayerCall, x: Any, indices: Any) -> Any:
    return np.take(array_of(x, call.dtype), array_of(indices, call.dtype), axis=plain(call.setting("axis")))


#: by operation: a function of (call, *arguments without tensors) → an array, a Size, or a list of Sizes
EVALUATED: dict[str, Rule] = {
    **{name: _binary(rule.kind) for name, rule in PAIRS.items()},
    **{name: _unary(rule.kind) for name, rule in SINGLES.items()},
    **dict.fromkeys(("StopGradient", "Copy", "ConvertToTensor"), lambda call, x: array_of(x, call.dtype)),
    "Cast": _cast, "GetItem": _item, "Stack": _joined, "Concatenate": _joined, "Unstack": _unstacked, "Split": _split,
    "Prod": _reduced("multiply"), "Sum": _reduced("add"), "Max": _reduced("maximum"), "Min": _reduced("minimum"),
    "StridedSlice": _strided, "Take": _taken, "Arange": _range, "Where": _chosen, "OneHot": _one_hot,
    "Shape": _shaped(lambda x, of: np.asarray(x.shape, np.int32)),
    "Size": _shaped(lambda x, of: np.asarray(x.size, np.int32)),
    "Ndim": _shaped(lambda x, of: np.asarray(x.ndim, np.int32)),
    "OnesLike": _shaped(lambda x, of: np.ones(x.shape, np.int32 if x.dtype == object else x.dtype)),
    "ZerosLike": _shaped(lambda x, of: np.zeros(x.shape, np.int32 if x.dtype == object else x.dtype)),
    "ExpandDims": _shaped(lambda x, of: np.expand_dims(x, of("axis"))),
    "Squeeze": _shaped(lambda x, of: np.squeeze(x, None if of("axis") is None else tuple(np.ravel(of("axis"))))),
    "Transpose": _shaped(lambda x, of: np.transpose(x, of("axes"))),
    "Reshape": _shaped(lambda x, of: np.reshape(x, tuple(np.ravel(of("newshape"))))),
    "Tril": _shaped(lambda x, of: np.tril(x, of("k") or 0)),
    "Triu": _shaped(lambda x, of: np.triu(x, of("k") or 0)),
    "BandPart": _shaped(lambda x, of: x * band(x.shape[-2], x.shape[-1], of("lower"), of("upper"))),
}  # fmt: skip

#: merge layers that are elementwise functions of two
MERGES = {"Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Maximum": "maximum", "Minimum": "minimum"}


def evaluated(call: LayerCall, args: Sequence[Any], takes_sizes: bool) -> tuple[Any, list[Any]]:
    """The result of a call on sizes and constants alone (None: there is none), and the arguments with known sizes as numbers.

    Refuses sizes that a call would have to compute with: the batch's, and others where no op reads them."""
    name = call.layer.class_name
    if call.layer.module == "ops" and name in EVALUATED and args and not has_tensors([args, call.kwargs]):
        made = EVALUATED[name](call, *args)
        return made if isinstance(made, list) else tidy(made), list(args)
    if not call.layer.module:
        return _layer(call, name, args), list(args)
    call.kwargs, made = plain(call.kwargs), plain(list(args))
    if not takes_sizes:
        for found in leaves([made, call.kwargs], Sizes):
            if any(isinstance(n, Size) and n.of_batch for n in found.array.flat):
                call.refuse(BATCH)
            if name not in PAIRS or found.array.ndim:
                call.refuse("a size that is unknown enters it")
    return None, made


def _layer(call: LayerCall, name: str, args: Sequence[Any]) -> Any:
    """Layers that people call on constants: an Embedding of positions, and the sum with what it gives."""
    if name == "Embedding" and len(args) == 1 and not has_tensors(args):
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
    if needs_evaluation(args, call.kwargs):
        call.refuse("is called on sizes or constants of the model")
    return None
