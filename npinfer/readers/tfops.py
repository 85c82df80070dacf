"""TensorFlow functions that tf.keras records as layers (TFOpLambda, SlicingOpLambda, TensorFlowOpLayer) → the Keras 3
operation that means the same. What isn't in the tables keeps its TensorFlow name, so that lowering refuses it by name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from npinfer.readers.archive import Call, Layer


class Rule(NamedTuple):
    """A Keras 3 operation. tensors: the TensorFlow names of its positional arguments, in order. config: {TensorFlow keyword: key
    of the operation's config}. fixed: entries of the config that the function implies."""

    operation: str
    tensors: tuple[str, ...] = ("x",)
    config: Mapping[str, str] = {}  # noqa: RUF012 - read only
    fixed: Mapping[str, Any] = {}  # noqa: RUF012


REDUCE = {"axis": "axis", "keepdims": "keepdims", "keep_dims": "keepdims", "reduction_indices": "axis"}
RULES: dict[str, Rule] = {
    **{
        f: Rule(name, ("x", "y"))
        for f, name in {
            "math.add": "Add",
            "__operators__.add": "Add",
            "math.subtract": "Subtract",
            "__operators__.sub": "Subtract",
            "math.multiply": "Multiply",
            "__operators__.mul": "Multiply",
            "math.divide": "TrueDivide",
            "math.truediv": "TrueDivide",
            "math.divide_no_nan": "DivideNoNan",
            "math.floordiv": "FloorDivide",
            "math.floormod": "Mod",
            "math.mod": "Mod",
            "math.pow": "Power",
            "math.maximum": "Maximum",
            "math.minimum": "Minimum",
            "math.atan2": "Arctan2",
            "math.equal": "Equal",
            "math.not_equal": "NotEqual",
            "__operators__.eq": "Equal",
            "__operators__.ne": "NotEqual",
            "math.greater": "Greater",
            "math.greater_equal": "GreaterEqual",
            "math.less": "Less",
            "math.less_equal": "LessEqual",
            "math.logical_and": "LogicalAnd",
            "math.logical_or": "LogicalOr",
            "math.logical_xor": "LogicalXor",
        }.items()
    },
    **{
        f"math.{f}": Rule(name)
        for f, name in {
            "abs": "Absolute",
            "negative": "Negative",
            "sign": "Sign",
            "square": "Square",
            "sqrt": "Sqrt",
            "rsqrt": "Rsqrt",
            "exp": "Exp",
            "expm1": "Expm1",
            "log": "Log",
            "log1p": "Log1p",
            "sin": "Sin",
            "cos": "Cos",
            "tan": "Tan",
            "asin": "Arcsin",
            "acos": "Arccos",
            "atan": "Arctan",
            "sinh": "Sinh",
            "cosh": "Cosh",
            "asinh": "Arcsinh",
            "acosh": "Arccosh",
            "atanh": "Arctanh",
            "floor": "Floor",
            "ceil": "Ceil",
            "round": "Round",
            "rint": "Round",
            "reciprocal": "Reciprocal",
            "tanh": "Tanh",
            "sigmoid": "Sigmoid",
            "softplus": "Softplus",
            "erf": "Erf",
            "is_nan": "Isnan",
            "is_inf": "Isinf",
            "is_finite": "Isfinite",
            "logical_not": "LogicalNot",
        }.items()
    },
    **{
        f"nn.{f}": Rule(name, ("features",))
        for f, name in {"relu": "Relu", "relu6": "Relu6", "elu": "Elu", "selu": "Selu", "softsign": "Softsign"}.items()
    },
    "nn.sigmoid": Rule("Sigmoid"),
    "nn.tanh": Rule("Tanh"),
    "nn.softplus": Rule("Softplus", ("features",)),
    "nn.silu": Rule("Silu", ("features",)),
    "nn.swish": Rule("Silu", ("features",)),
    "nn.gelu": Rule("Gelu", ("features",), {"approximate": "approximate"}, {"approximate": False}),
    "nn.leaky_relu": Rule("LeakyRelu", ("features",), {"alpha": "negative_slope"}, {"negative_slope": 0.2}),
    "nn.softmax": Rule("Softmax", ("logits",), {"axis": "axis"}, {"axis": -1}),
    "nn.log_softmax": Rule("LogSoftmax", ("logits",), {"axis": "axis"}, {"axis": -1}),
    **{
        f"math.reduce_{f}": Rule(name, ("input_tensor",), REDUCE)
        for f, name in {
            "mean": "Mean",
            "sum": "Sum",
            "prod": "Prod",
            "max": "Max",
            "min": "Min",
            "std": "Std",
            "variance": "Var",
            "all": "All",
            "any": "Any",
            "logsumexp": "Logsumexp",
        }.items()
    },
    "math.argmax": Rule("Argmax", ("input",), {"axis": "axis"}, {"axis": 0}),
    "math.argmin": Rule("Argmin", ("input",), {"axis": "axis"}, {"axis": 0}),
    "math.cumsum": Rule("Cumsum", ("x",), {"axis": "axis"}, {"axis": 0}),
    "math.l2_normalize": Rule("Normalize", ("x",), {"axis": "axis", "epsilon": "epsilon"}, {"order": 2, "epsilon": 1e-12}),
    "clip_by_value": Rule("Clip", ("t",), {"clip_value_min": "x_min", "clip_value_max": "x_max"}),
    "reshape": Rule("Reshape", ("tensor",), {"shape": "newshape"}),
    "transpose": Rule("Transpose", ("a",), {"perm": "axes"}),
    "expand_dims": Rule("ExpandDims", ("input",), {"axis": "axis"}),
    "squeeze": Rule("Squeeze", ("input",), {"axis": "axis"}),
    "concat": Rule("Concatenate", ("values",), {"axis": "axis"}),
    "stack": Rule("Stack", ("values",), {"axis": "axis"}, {"axis": 0}),
    "unstack": Rule("Unstack", ("value",), {"axis": "axis", "num": "num"}, {"axis": 0}),
    "split": Rule("Split", ("value",), {"num_or_size_splits": "indices_or_sections", "axis": "axis"}, {"axis": 0}),
    "tile": Rule("Tile", ("input",), {"multiples": "repeats"}),
    "repeat": Rule("Repeat", ("input",), {"repeats": "repeats", "axis": "axis"}),
    "cast": Rule("Cast", ("x",), {"dtype": "dtype"}),
    "one_hot": Rule("OneHot", ("indices",), {"depth": "num_classes", "axis": "axis"}, {"axis": -1}),
    "gather": Rule("Take", ("params", "indices"), {"axis": "axis"}, {"axis": 0}),
    "pad": Rule("Pad", ("tensor",), {"paddings": "pad_width", "mode": "mode"}),
    "where": Rule("Where", ("condition", "x", "y")),
    "einsum": Rule("Einsum", ("inputs",), {"equation": "subscripts"}),
    "linalg.matmul": Rule("Matmul", ("a", "b")),
    "zeros_like": Rule("ZerosLike", ("input",)),
    "ones_like": Rule("OnesLike", ("input",)),
    "identity": Rule("StopGradient", ("input",)),
    "stop_gradient": Rule("StopGradient", ("input",)),
    "__operators__.getitem": Rule("GetItem", ("tensor", "slice_spec")),
    "reverse": Rule("Flip", ("tensor",), {"axis": "axis"}),
}
#: keyword arguments that change nothing (at these values)
IDLE: dict[str, tuple[Any, ...]] = {
    "name": (),
    "conjugate": (False,),
    "transpose_a": (False,),
    "transpose_b": (False,),
    "adjoint_a": (False,),
    "adjoint_b": (False,),
    "a_is_sparse": (False,),
    "b_is_sparse": (False,),
    "output_type": (),
    "validate_indices": (),
    "batch_dims": (0,),
    "exclusive": (False,),
    "reverse": (False,),
    "constant_values": (0,),
    "on_value": (None, 1, 1.0),
    "off_value": (None, 0, 0.0),
    "beta": (1, 1.0),
    "training": (),
    "mask": (),
}
#: names in a graph's node_def → the function's name in RULES
NODE_OPS = {
    "AddV2": "math.add",
    "Add": "math.add",
    "BiasAdd": "math.add",
    "Sub": "math.subtract",
    "Mul": "math.multiply",
    "RealDiv": "math.truediv",
    "DivNoNan": "math.divide_no_nan",
    "FloorDiv": "math.floordiv",
    "FloorMod": "math.floormod",
    "Pow": "math.pow",
    "Maximum": "math.maximum",
    "Minimum": "math.minimum",
    "Greater": "math.greater",
    "GreaterEqual": "math.greater_equal",
    "Less": "math.less",
    "LessEqual": "math.less_equal",
    "Equal": "math.equal",
    "NotEqual": "math.not_equal",
    "LogicalAnd": "math.logical_and",
    "LogicalOr": "math.logical_or",
    "LogicalNot": "math.logical_not",
    "Neg": "math.negative",
    "SelectV2": "where",
    "Identity": "identity",
    "StopGradient": "stop_gradient",
    **{n: f"math.{n.lower()}" for n in "Abs Sign Square Sqrt Rsqrt Exp Expm1 Log Log1p Sin Cos Tan Sinh Cosh Floor Ceil Round Erf".split()},
    **{n: f"math.{n.lower()}" for n in "Reciprocal Rint Asin Acos Atan".split()},
    **{n: f"nn.{n.lower()}" for n in "Relu Relu6 Elu Selu Softsign Softplus Sigmoid Tanh Softmax".split()},
}
#: graph ops whose second input is a constant that is an option, not a tensor
NODE_OPTIONS = {"Mean": "Mean", "Sum": "Sum", "Prod": "Prod", "Max": "Max", "Min": "Min"}


def modern(layer: Layer) -> Layer:
    """The layer as a Keras 3 operation; unchanged where it isn't one of TensorFlow's functions."""
    if layer.class_name == "TensorFlowOpLayer":
        return _node_def(layer)
    name = layer.config.get("function") or layer.config.get("symbol")
    if not isinstance(name, str):
        return layer
    short = re.sub(r"^(tf\.|compat\.v1\.|raw_ops\.)+", "", name)
    short = {"nn.l2_normalize": "math.l2_normalize", "matmul": "linalg.matmul"}.get(short, short)
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


def _shape_of(rule: Rule, call: Call) -> str:
    return repr({k: call.kwargs.get(k) for k in rule.config})


def _bind(rule: Rule, call: Call) -> tuple[Call, dict[str, Any]] | None:
    """The call's positional arguments and the operation's config; None where an argument has no counterpart."""
    kwargs = dict(call.kwargs)
    args = list(call.args)
    for name in rule.tensors[len(args) :]:
        if name in kwargs:
            args.append(kwargs.pop(name))
    if rule.operation == "Einsum":
        args, kwargs = _einsum(args, kwargs)
    config = dict(rule.fixed)
    for name, key in rule.config.items():
        if name in kwargs:
            config[key] = kwargs.pop(name)
    if any(name not in IDLE or (IDLE[name] and v not in IDLE[name]) for name, v in kwargs.items()):
        return None
    return Call(tuple(args)), (_FINISH.get(rule.operation, lambda c: c)(config))


def _einsum(args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    flat = [a for item in args for a in (item if isinstance(item, (list, tuple)) else [item])]
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
    cuts, place = [], 0
    for size in sizes[:-1]:
        place += size if isinstance(size, int) and size >= 0 else math.inf  # type: ignore[assignment]
        cuts.append(place)
    return {**config, "indices_or_sections": cuts}


def _pad(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "mode": str(config.get("mode", "constant")).lower()}


_FINISH: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"Normalize": _normalize, "Split": _split, "Pad": _pad}


def _named(layer: Layer, class_name: str) -> Layer:
    return Layer(class_name, layer.name, {}, layer.calls, None, "ops", layer.trainable)


def _node_def(layer: Layer) -> Layer:
    """A recorded graph node: its op, and the constants among its inputs by position."""
    node = layer.config.get("node_def")
    constants = layer.config.get("constants") or {}
    op = node.get("op") if isinstance(node, Mapping) else None
    if not isinstance(op, str) or not isinstance(constants, Mapping):
        return layer
    rule = RULES.get(NODE_OPS.get(op, ""))
    if rule is None:
        return _named(layer, f"TensorFlow op {op}")
    calls = []
    for call in layer.calls:
        flat = [a for item in call.args for a in (item if isinstance(item, list) else [item])]
        for place in sorted(int(k) for k in constants if str(k).isdigit()):
            flat.insert(place, constants.get(str(place)))
        calls.append(Call(tuple(flat)))
    return Layer(rule.operation, layer.name, dict(rule.fixed), tuple(calls), None, "ops", layer.trainable)
