"""Nodes of a TensorFlow graph that tf.keras recorded as layers (TensorFlowOpLayer of TensorFlow 2.0 to 2.3) as operations: one
node holds less than a function, and its settings are inputs and typed attributes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from npinfer.readers.tf_rules import RULES


class Bound(NamedTuple):
    """An operation, its positional arguments, and its settings (TensorRefs may be among them)."""

    operation: str
    args: tuple[Any, ...]
    config: dict[str, Any]


class NodeRule(NamedTuple):
    """inputs: for each input the key of the operation's config, "" for a positional argument. attrs: {attribute: key}.
    What Concatenate and Stack join comes first, any number of inputs. fixed: entries that the op implies."""

    operation: str
    inputs: tuple[str, ...] = ("",)
    attrs: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}


REDUCED = {"Mean": {"whole": True}, "Sum": {}, "Prod": {}, "Max": {}, "Min": {}, "All": {}, "Any": {}}
WINDOW = {"ksize": "pool_size", "strides": "strides", "padding": "padding", "data_format": "data_format"}
CONV = {
    "explicit_paddings": "explicit",
    "strides": "strides",
    "padding": "padding",
    "dilations": "dilation_rate",
    "data_format": "data_format",
}
PIXELS = {"half_pixel_centers": "centered", "align_corners": "align_corners"}
MASKS = {f"{n}_mask": f"{n}_mask" for n in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
TURNS = {"transpose_a": "transpose_a", "transpose_b": "transpose_b", "adj_x": "adjoint_a", "adj_y": "adjoint_b"}
NODES: dict[str, NodeRule] = {
    **{op: NodeRule(op, ("", "axis"), {"keep_dims": "keepdims"}, fixed) for op, fixed in REDUCED.items()},
    **{op: NodeRule("Matmul", ("", ""), TURNS) for op in ("MatMul", "BatchMatMul", "BatchMatMulV2")},
    "Einsum": NodeRule("Einsum", ("",) * 8, {"equation": "subscripts"}),
    "ConcatV2": NodeRule("Concatenate", ("axis",)),
    "Pack": NodeRule("Stack", (), {"axis": "axis"}, {"axis": 0}),
    "Unpack": NodeRule("Unstack", ("",), {"axis": "axis", "num": "num"}, {"axis": 0}),
    "Split": NodeRule("Split", ("axis", ""), {"num_split": "indices_or_sections"}),
    "SplitV": NodeRule("Split", ("", "indices_or_sections", "axis")),
    "Shape": NodeRule("Shape"),
    "Size": NodeRule("Size"),
    "Rank": NodeRule("Ndim"),
    "Fill": NodeRule("Fill", ("", "value")),
    "Range": NodeRule("Arange", ("", "", "")),
    "Reshape": NodeRule("Reshape", ("", "newshape")),
    "BroadcastTo": NodeRule("BroadcastTo", ("", "shape")),
    "Transpose": NodeRule("Transpose", ("", "axes")),
    "ExpandDims": NodeRule("ExpandDims", ("", "axis")),
    "Squeeze": NodeRule("Squeeze", ("",), {"squeeze_dims": "axis"}),
    "Tile": NodeRule("Tile", ("", "repeats")),
    "Pad": NodeRule("Pad", ("", "pad_width")),
    "PadV2": NodeRule("Pad", ("", "pad_width", "constant_values")),
    "MirrorPad": NodeRule("Pad", ("", "pad_width"), {"mode": "mode"}),
    "ReverseV2": NodeRule("Flip", ("", "axis")),
    "Roll": NodeRule("Roll", ("", "shift", "axis")),
    "Cast": NodeRule("Cast", ("",), {"DstT": "dtype"}),
    "OneHot": NodeRule("OneHot", ("", "num_classes", "on_value", "off_value"), {"axis": "axis", "T": "dtype"}, {"axis": -1}),
    "GatherV2": NodeRule("Take", ("", "", "axis"), {"batch_dims": "batch_dims"}),
    "ResourceGather": NodeRule("Take", ("", ""), {}, {"axis": 0}),
    "Slice": NodeRule("Slice", ("", "", "shape")),
    "StridedSlice": NodeRule("StridedSlice", ("",) * 4, MASKS),
    "ArgMax": NodeRule("Argmax", ("", "axis"), {"output_type": "output_type"}, {"output_type": "int64"}),
    "ArgMin": NodeRule("Argmin", ("", "axis"), {"output_type": "output_type"}, {"output_type": "int64"}),
    "Cumsum": NodeRule("Cumsum", ("", "axis"), {"exclusive": "exclusive", "reverse": "reverse"}),
    "Cumprod": NodeRule("Cumprod", ("", "axis"), {"exclusive": "exclusive", "reverse": "reverse"}),
    "TopKV2": NodeRule("TopK", ("", "k"), {"sorted": "sorted"}),
    "ClipByValue": NodeRule("Clip", ("", "x_min", "x_max")),
    "LeakyRelu": NodeRule("LeakyRelu", ("",), {"alpha": "negative_slope"}, {"negative_slope": 0.2}),
    "MatrixBandPart": NodeRule("BandPart", ("", "lower", "upper")),
    "MatrixDiagV3": NodeRule("MatrixDiag", ("", "k", "num_rows", "num_cols", "padding_value")),
    "MatrixDiagPartV3": NodeRule("Diagonal", ("", "k", "padding_value"), {}, {"axis1": -2, "axis2": -1}),
    "MatrixInverse": NodeRule("Inv"),
    "MatrixDeterminant": NodeRule("Det"),
    "Cholesky": NodeRule("Cholesky"),
    "MatrixSolve": NodeRule("Solve", ("", "")),
    "Cross": NodeRule("Cross", ("", "")),
    "EuclideanNorm": NodeRule("Norm", ("", "axis"), {"keep_dims": "keepdims"}),
    "EnsureShape": NodeRule("StopGradient"),
    "Conv3D": NodeRule("Conv", ("", ""), CONV),
    "AdjustContrastv2": NodeRule("ImageContrast", ("", "contrast_factor")),
    "ResizeArea": NodeRule("Resize", ("", "size"), PIXELS, {"interpolation": "area"}),
    "LRN": NodeRule("LocalResponseNormalization", ("",), {n: n for n in ("depth_radius", "bias", "alpha", "beta")}),
    "MaxPool": NodeRule("MaxPool", ("",), WINDOW),
    "AvgPool": NodeRule("AveragePool", ("",), WINDOW),
    "Conv2D": NodeRule("Conv", ("", ""), CONV),
    "DepthwiseConv2dNative": NodeRule("DepthwiseConv", ("", ""), CONV),
    "DepthToSpace": NodeRule("DepthToSpace", ("",), {"block_size": "block_size"}),
    "SpaceToDepth": NodeRule("SpaceToDepth", ("",), {"block_size": "block_size"}),
    "ResizeBilinear": NodeRule("Resize", ("", "size"), PIXELS, {"interpolation": "bilinear", "centered": False}),
    "ResizeNearestNeighbor": NodeRule("Resize", ("", "size"), PIXELS, {"interpolation": "nearest", "centered": False}),
    "ResizeBicubic": NodeRule("Resize", ("", "size"), PIXELS, {"interpolation": "bicubic", "centered": False}),
    "ExtractImagePatches": NodeRule(
        "ExtractPatches", ("",), {"ksizes": "size", "strides": "strides", "rates": "dilation_rate", "padding": "padding"}
    ),
}
#: TensorFlow's names of dtypes in attributes
DTYPES = {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_HALF": "float16", "DT_BFLOAT16": "bfloat16"}
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
    "MulNoNan": "math.multiply_no_nan",
    "Xlogy": "math.xlogy",
    "Xdivy": "math.xdivy",
    "Atan2": "math.atan2",
    "SquaredDifference": "math.squared_difference",
    "Select": "where",
    "IsNan": "math.is_nan",
    "IsInf": "math.is_inf",
    "IsFinite": "math.is_finite",
    "LogSoftmax": "nn.log_softmax",
    "ZerosLike": "zeros_like",
    "OnesLike": "ones_like",
    "CheckNumerics": "identity",
    "BitwiseAnd": "bitwise.bitwise_and",
    "BitwiseOr": "bitwise.bitwise_or",
    "BitwiseXor": "bitwise.bitwise_xor",
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
    **{
        n: f"math.{n.lower()}"
        for n in (
            *("Abs", "Sign", "Square", "Sqrt", "Rsqrt", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tan", "Asin", "Acos"),
            *("Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Floor", "Ceil", "Round", "Rint", "Reciprocal", "Erf"),
        )
    },
    **{n: f"nn.{n.lower()}" for n in ["Relu", "Relu6", "Elu", "Selu", "Softsign", "Softplus", "Sigmoid", "Tanh", "Softmax"]},
}


def _attribute(entry: Any) -> Any:
    """The value of an attribute; None where it is left empty, which is TensorFlow's way to write 0 and False."""
    if not isinstance(entry, Mapping):
        return None
    if isinstance(entry.get("list"), Mapping):
        return [int(n) for n in entry["list"].get("i", ())]
    if "i" in entry:
        return int(entry["i"])
    if "s" in entry:
        try:
            return base64.b64decode(entry["s"], validate=True).decode("ascii").lower()
        except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
            return entry["s"]
    if "type" in entry:
        return DTYPES.get(entry["type"], str(entry["type"]).removeprefix("DT_").lower())
    return entry.get("b", entry.get("f"))


def known(op: str) -> bool:
    """Whether any node of this op has an operation that means the same."""
    return op in NODES or NODE_OPS.get(op, "") in RULES or op == "AddN"


def bound(node: Mapping[str, Any], given: Sequence[Any]) -> Bound | None:
    """A node's operation for these inputs; None where no operation means the same."""
    op, found = node.get("op"), node.get("attr")
    attrs = {k: _attribute(v) for k, v in found.items()} if isinstance(found, Mapping) else {}
    if op == "AddN":
        return Bound("Add list", (list(given),), {})
    rule = NODES.get(str(op))
    if rule is None:
        simple = RULES.get(NODE_OPS.get(str(op), ""))
        return None if simple is None else Bound(simple.operation, tuple(given), dict(simple.fixed))
    config = {**rule.fixed, **{key: attrs[name] for name, key in rule.attrs.items() if attrs.get(name) is not None}}
    if rule.operation in ("Concatenate", "Stack"):
        cut = len(given) - len(rule.inputs)
        return Bound(rule.operation, (list(given[:cut]),), {**config, **dict(zip(rule.inputs, given[cut:]))})
    if len(given) > len(rule.inputs):
        return None
    args = tuple(v for key, v in zip(rule.inputs, given) if not key)
    config |= {key: v for key, v in zip(rule.inputs, given) if key}
    made, refine = Bound(rule.operation, args, config), _REFINE.get(rule.operation)
    return made if refine is None else refine(made)


def _take(node: Bound) -> Bound | None:
    within = node.config.pop("batch_dims", 0)
    if within not in (0, 1):
        return None
    return node._replace(operation="TakeEach") if within else node


def _squeeze(node: Bound) -> Bound:
    """No axes are all axes of size 1."""
    return node._replace(config={"axis": node.config.get("axis") or None})


def _channels_last(node: Bound) -> Bound | None:
    """Windows as the functions have them: data_format is spelled nhwc here, and pairs of padding stand in one list."""
    pairs = node.config.pop("explicit", [])
    if node.config.get("padding") == "explicit":
        node.config["padding"] = [list(pairs[k : k + 2]) for k in range(0, len(pairs), 2)]
    return node if node.config.pop("data_format", "nhwc") in ("nhwc", "ndhwc") else None


def _main_diagonal(node: Bound) -> Bound | None:
    plain = {"k": 0, "num_rows": -1, "num_cols": -1, "padding_value": 0}
    odd = any(node.config.pop(k, v) != v for k, v in plain.items())
    return None if odd else node


def _resize(node: Bound) -> Bound | None:
    return None if node.config.pop("align_corners", False) else node


#: by operation: a node's settings as the function of the same meaning has them; None where none has
_REFINE: dict[str, Callable[[Bound], Bound | None]] = {
    "Take": _take,
    "Squeeze": _squeeze,
    "Resize": _resize,
    "MatrixDiag": _main_diagonal,
    "Diagonal": _main_diagonal,
    **dict.fromkeys(("MaxPool", "AveragePool", "Conv", "DepthwiseConv"), _channels_last),
}
