"""TensorFlow functions that tf.keras records as layers (TFOpLambda, SlicingOpLambda, TensorFlowOpLayer) → the Keras 3
operation that means the same. What isn't in the tables keeps its TensorFlow name, so that lowering refuses it by name.

To add a function, add a row to RULES (tf_rules.py, tf_array_rules.py). The graph nodes of TensorFlow 2.0 to 2.3 have tables of
their own (tf_nodes.py): NODE_OPS where a node is one of these functions, NODES where its inputs are its settings.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npinfer.readers import tf_nodes
from npinfer.readers.archive import Call, Layer, TensorRef
from npinfer.readers.tf_array_rules import Rule
from npinfer.readers.tf_rules import ALIASES, IDLE, RULES
from npinfer.trees import holds


def modern(layer: Layer) -> Layer:
    """The layer as a Keras 3 operation; unchanged where it isn't one of TensorFlow's functions."""
    if layer.class_name == "TensorFlowOpLayer":
        return _node_def(layer)
    name = layer.config.get("function") or layer.config.get("symbol")
    if not isinstance(name, str):
        return layer
    short = re.sub(r"^(tf\.|compat\.v1\.|raw_ops\.)+", "", name)
    short = _variant(ALIASES.get(short, short), layer)
    if short in _LAYERS:
        return _layer(layer, _LAYERS[short], [Call(c.args[:1]) for c in layer.calls])
    rule = RULES.get(short) or RULES.get(f"math.{short}")
    if rule is None or len({_shape_of(rule, c) for c in layer.calls}) > 1:
        return _named(layer, f"tf.{name}")
    config: dict[str, Any] = {}
    calls = []
    for call in layer.calls:
        made = _bind(rule, call)
        if made is None:
            return _named(layer, f"tf.{name} with the arguments {', '.join(call.kwargs)}")
        calls.append(made[0])
        config = made[1]
    return Layer(rule.operation, layer.name, config, tuple(calls), None, "ops", layer.trainable)


def _variant(name: str, layer: Layer) -> str:
    """The name of the rule where an argument decides what the function is."""
    given = layer.calls[0].kwargs if layer.calls else {}
    if name == "gather" and given.get("batch_dims") == 1:
        return "gather_each"
    return f"nn.pool {given.get('pooling_type')}" if name == "nn.pool" else name


def _shape_of(rule: Rule, call: Call) -> str:
    return repr({k: call.kwargs.get(k) for k in rule.config})


def _bind(rule: Rule, call: Call) -> tuple[Call, dict[str, Any]] | None:
    """The call's positional arguments and the operation's config; None where an argument has no counterpart."""
    kwargs = {("filters" if k == "filter" else k): v for k, v in call.kwargs.items() if v is not None}
    args = list(call.args)
    args += [kwargs.pop(name) for name in rule.tensors[len(args) :] if name in kwargs]
    if rule.operation == "Einsum":
        args, kwargs = _einsum(args, kwargs)
    config = {**rule.fixed, **{key: kwargs.pop(name) for name, key in rule.config.items() if name in kwargs}}
    if rule.operation == "TakeEach":
        kwargs.pop("batch_dims", None)
    if rule.operation in ("MaxPool", "AveragePool"):
        kwargs = {k: v for k, v in kwargs.items() if k not in ("pooling_type", "dilation_rate") or (k == "dilation_rate" and v)}
    if any(name not in IDLE or (IDLE[name] and v not in IDLE[name]) for name, v in kwargs.items()):
        return None
    return _bound(rule.operation, tuple(args), config)


def _bound(operation: str, args: tuple[Any, ...], settings: dict[str, Any]) -> tuple[Call, dict[str, Any]]:
    """The call, which takes the settings that hold tensors, and the operation's config."""
    open_ = {k: v for k, v in settings.items() if holds(v, TensorRef)}
    config = {k: v for k, v in settings.items() if k not in open_}
    return Call(args, open_), _FINISH[operation](config) if operation in _FINISH else config


def _einsum(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    kwargs = dict(kwargs)
    args = [*args, kwargs.pop("inputs", [])]
    flat = [a for item in args for a in (item if type(item) in (list, tuple) else [item])]
    equation = next((a for a in flat if isinstance(a, str)), None)
    return [a for a in flat if not isinstance(a, str)], {**({"equation": equation} if equation else {}), **kwargs}


def _normalize(config: dict[str, Any]) -> dict[str, Any]:
    """TensorFlow bounds the squared norm, Keras 3 the norm."""
    epsilon = config.get("epsilon")
    return {**config, "epsilon": math.sqrt(epsilon)} if isinstance(epsilon, (int, float)) and epsilon >= 0 else config


def _split(config: dict[str, Any]) -> dict[str, Any]:
    """TensorFlow gives sizes, Keras 3 the places of the cuts."""
    sizes = config.get("indices_or_sections")
    if not isinstance(sizes, (list, tuple)):
        return config
    if -1 not in sizes or not all(isinstance(n, int) for n in sizes):
        return {**config, "indices_or_sections": list(itertools.accumulate(sizes[:-1]))}
    at = sizes.index(-1)  # what is left over; cuts behind it count from the end
    front, behind = itertools.accumulate(sizes[:at]), list(itertools.accumulate(sizes[:at:-1]))
    return {**config, "indices_or_sections": [*front, *(-n for n in behind[::-1])]}


def _pad(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "mode": str(config.get("mode", "constant")).lower()}


def _norm(config: dict[str, Any]) -> dict[str, Any]:
    order = config.get("ord")
    return {**config, "ord": None if order == "euclidean" else order, "keepdims": config.get("keepdims") or False}


def _window(config: dict[str, Any]) -> dict[str, Any]:
    """TensorFlow's sizes may count the batch and the channels."""
    found = {k: v for k, v in config.items() if v is not None}
    padding = config.get("padding", "valid")
    pairs = tuple((p[0], p[1]) for p in padding[1:-1]) if isinstance(padding, list) else None
    found |= {"padding": str(padding).lower() if pairs is None else pairs, "data_format": "channels_last"}
    for key in ("pool_size", "size", "strides", "dilation_rate"):
        sizes = config.get(key)
        if isinstance(sizes, (list, tuple)) and len(sizes) > 2 and sizes[0] == sizes[-1] == 1:
            found[key] = list(sizes[1:-1])
        elif isinstance(sizes, (list, tuple)) and len(sizes) == 1:
            found[key] = sizes[0]
    return found


def _turned(config: dict[str, Any]) -> dict[str, Any]:
    """A missing on_value is 1, a missing off_value 0."""
    return {k: v for k, v in config.items() if v is not None}


_FINISH: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "Normalize": _normalize,
    "Split": _split,
    "Pad": _pad,
    "Norm": _norm,
    "WithNorm": _norm,
    "OneHot": _turned,
    **dict.fromkeys(("MaxPool", "AveragePool", "Conv", "DepthwiseConv", "SeparableConv", "ConvTranspose"), _window),
    "ExtractPatches": _window,
}


#: functions that are the work of a layer that Keras has
_LAYERS = {"math.add_n": "Add", "math.accumulate_n": "Add", "keras.backend.batch_flatten": "Flatten"}


def _layer(layer: Layer, class_name: str, calls: Sequence[Call]) -> Layer:
    return layer.replace(class_name=class_name, config={}, calls=tuple(calls), dtype=None)


def _named(layer: Layer, class_name: str) -> Layer:
    return Layer(class_name, layer.name, {}, layer.calls, None, "ops", layer.trainable)


def _node_def(layer: Layer) -> Layer:
    """A recorded graph node: its op, and the constants among its inputs by position."""
    node = layer.config.get("node_def")
    constants = layer.config.get("constants") or {}
    op = node.get("op") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or not isinstance(op, str) or not isinstance(constants, Mapping):
        return layer
    if not tf_nodes.known(op):
        return _named(layer, f"TensorFlow op {op}")
    calls, operation, config = [], "", dict[str, Any]()
    for call in layer.calls:
        flat = [a for item in call.args for a in (item if isinstance(item, list) else [item])]
        for place in sorted(int(k) for k in constants if str(k).isdigit()):
            flat.insert(place, constants.get(str(place)))
        found = tf_nodes.bound(node, flat)
        if found is None:
            return _named(layer, f"TensorFlow op {op}")
        operation = found.operation
        made, config = _bound(operation, found.args, found.config)
        calls.append(made)
    if operation == "Add list":
        return _layer(layer, "Add", calls)
    return Layer(operation, layer.name, config, tuple(calls), None, "ops", layer.trainable)
