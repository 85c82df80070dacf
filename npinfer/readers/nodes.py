"""The calls of a layer, as configs write them: inbound_nodes of Keras 1 and 2, of tf.keras, and of Keras 3 → `Call`.

The TensorRefs made here carry the node numbers of the file; topology.py turns them into numbers of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from npinfer.errors import FormatError
from npinfer.readers.archive import Call, TensorRef

#: layers whose first argument is a list even when it holds one tensor
LISTS = {
    "Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot", "Merge", "Attention",
    "AdditiveAttention",
}  # fmt: skip
#: layers that older Kerases call with [sequence, *states]
RECURRENT = {
    "RNN", "SimpleRNN", "GRU", "LSTM", "CuDNNGRU", "CuDNNLSTM", "Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D",
}  # fmt: skip
ATTENTION = {"MultiHeadAttention", "GroupedQueryAttention", "GroupQueryAttention"}
DTYPES = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64",
}  # fmt: skip


def is_leaf(item: Any) -> bool:
    """["layer", node, tensor] or ["layer", node, tensor, kwargs], or tf.keras's ["_CONSTANT_VALUE", -1, value, kwargs]."""
    return (
        isinstance(item, list)
        and len(item) in (3, 4)
        and isinstance(item[0], str)
        and _index(item[1])
        and (_index(item[2]) or item[0] == "_CONSTANT_VALUE")
        and (len(item) == 3 or item[3] is None or isinstance(item[3], dict))
    )


def _index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def calls(raw: Any, class_name: str, known: Collection[str], where: str) -> tuple[Call, ...]:
    """All calls of one layer. known: the names of the model's layers, which tell a tensor from a list of numbers.

    Raises FormatError naming the layer where the form is none that Keras writes.
    """
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise FormatError(f"{where}: inbound_nodes is a {type(raw).__name__}; it must be a list")
    return tuple(_call(node, class_name, known, where) for node in raw)


def _call(node: Any, class_name: str, known: Collection[str], where: str) -> Call:
    if isinstance(node, Mapping) and "args" in node:
        args, kwargs = value(node.get("args") or [], where), value(node.get("kwargs") or {}, where)
        if not isinstance(args, (list, tuple)) or not isinstance(kwargs, dict):
            raise FormatError(f"{where}: args and kwargs of a call must be a list and a dict")
        return _tidy(list(args), dict(kwargs), class_name, "")
    found: dict[str, Any] = {}
    first = _structure(node, found, known, where)
    if isinstance(node, list) and len(node) == 1 and is_leaf(node[0]) and class_name not in LISTS:
        first = first[0]
    kwargs = {k: _kwarg(v, known) for k, v in found.items()}
    return _tidy([first], kwargs, class_name, "list")


def _structure(item: Any, kwargs: dict[str, Any], known: Collection[str], where: str) -> Any:
    """The first argument's tree; the call's kwargs (repeated at every tensor) are collected on the way."""
    if is_leaf(item):
        if len(item) == 4 and item[3]:
            kwargs.update(item[3])
        return _kwarg(item[2], known) if item[0] == "_CONSTANT_VALUE" else TensorRef(item[0], item[1], item[2])
    if isinstance(item, list):
        return [_structure(i, kwargs, known, where) for i in item]
    if isinstance(item, dict):
        return {k: _structure(v, kwargs, known, where) for k, v in item.items()}
    raise FormatError(f"{where}: an inbound node holds {item!r:.60}; it must name a layer, a node and a tensor")


def _kwarg(item: Any, known: Collection[str]) -> Any:
    """A call argument of Keras 1, 2 or tf.keras: a tensor ([layer, node, tensor]) or plain data."""
    if isinstance(item, list):
        if len(item) == 3 and is_leaf(item) and item[0] in known:
            return TensorRef(*item)
        return [_kwarg(i, known) for i in item]
    if isinstance(item, dict):
        if set(item) == {"start", "stop", "step"}:
            return slice(*(_kwarg(item[k], known) for k in ("start", "stop", "step")))
        if item.get("class_name") == "__tuple__":
            return tuple(_kwarg(i, known) for i in item.get("items") or ())
        if item.get("class_name") == "TensorShape":
            return _kwarg(item.get("items"), known)
        if item.get("class_name") == "__ellipsis__":
            return ...
        return {k: _kwarg(v, known) for k, v in item.items()}
    return ... if item == "..." else item


def value(item: Any, where: str) -> Any:
    """A value that Keras 3 serialized: tensors, arrays, slices, ellipses, tuples and plain data. Anything that would need
    code (functions, objects) is left as its dict, which no layer accepts."""
    if isinstance(item, list):
        return [value(i, where) for i in item]
    if not isinstance(item, dict):
        return item
    make = _SPECIAL.get(item.get("class_name")) if isinstance(item.get("class_name"), str) else None
    if make is None:
        return {k: value(v, where) for k, v in item.items()}
    try:
        return make(item, where)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError):
        raise FormatError(f"{where}: a call holds a broken {item['class_name']}: {item!r:.80}") from None


def _keras_tensor(item: dict[str, Any], _: str) -> TensorRef:
    layer, node, tensor = item["config"]["keras_history"]
    if not (isinstance(layer, str) and _index(node) and _index(tensor)):
        raise ValueError(layer)
    return TensorRef(layer, node, tensor)


def array(item: dict[str, Any], _: str = "") -> Any:
    """__numpy__ and __tensor__: {"value": nested lists, "dtype": name}."""
    config = item["config"]
    dtype = config.get("dtype", "float32")
    if dtype not in DTYPES:
        raise ValueError(dtype)
    return np.asarray(config["value"], dtype="float32" if dtype == "bfloat16" else dtype)


def _slice(item: dict[str, Any], where: str) -> slice:
    return slice(*(value(item["config"][k], where) for k in ("start", "stop", "step")))


_SPECIAL: dict[Any, Callable[[dict[str, Any], str], Any]] = {
    "__keras_tensor__": _keras_tensor,
    "__numpy__": array,
    "__tensor__": array,
    "__slice__": _slice,
    "__ellipsis__": lambda item, where: ...,
    "__tuple__": lambda item, where: tuple(value(i, where) for i in item["items"]),
    "__bytes__": lambda item, where: item["config"]["value"],
}


def _tidy(args: list[Any], kwargs: dict[str, Any], class_name: str, form: str) -> Call:
    """One way to write a call, whatever the version: states as initial_state, attention's tensors positional."""
    for name in ("inputs", "x", "query", "sequences", "sequence"):
        if not args and name in kwargs:
            args = [kwargs.pop(name)]
    if form == "list" and class_name in RECURRENT and args and isinstance(args[0], list) and len(args[0]) > 1:
        sequence, *states = args[0]
        if kwargs.get("initial_state") is None:
            kwargs["initial_state"] = states
            args = [sequence, *args[1:]]
    if class_name in ATTENTION:
        for place, name in enumerate(("query", "value", "key")):
            if place == len(args) and isinstance(kwargs.get(name), TensorRef):
                args.append(kwargs.pop(name))
    return Call(tuple(args), {k: v for k, v in kwargs.items() if not _empty(v)})


def _empty(item: Any) -> bool:
    """None, and lists of None: how Keras writes that there is no mask."""
    return item is None or (isinstance(item, (list, tuple)) and len(item) > 0 and all(_empty(i) for i in item))
