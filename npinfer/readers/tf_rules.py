"""TensorFlow's functions and graph ops by name, and the Keras 3 operations that mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """A Keras 3 operation. tensors: TensorFlow's names of its positional arguments, in order. config: {TensorFlow keyword: key
    of the operation's config}. fixed: entries of the config that the function implies."""

    operation: str
    tensors: tuple[str, ...] = ("x",)
    config: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}


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
    "math.squared_difference": Rule("SquaredDifference", ("x", "y")),
    "math.scalar_mul": Rule("Multiply", ("scalar", "x")),
    "nn.bias_add": Rule("Add", ("value", "bias")),
    "math.log_sigmoid": Rule("LogSigmoid"),
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
    "math.cumprod": Rule("Cumprod", ("x",), {"axis": "axis"}, {"axis": 0}),
    "sort": Rule("Sort", ("values",), {"axis": "axis"}),
    "math.top_k": Rule("TopK", ("input",), {"k": "k", "sorted": "sorted"}, {"k": 1}),
    "roll": Rule("Roll", ("input",), {"shift": "shift", "axis": "axis"}),
    "norm": Rule("Norm", ("tensor",), {**REDUCE, "ord": "ord"}),
    "math.reduce_euclidean_norm": Rule("Norm", ("input_tensor",), REDUCE),
    "math.l2_normalize": Rule("Normalize", ("x",), {"axis": "axis", "epsilon": "epsilon"}, {"order": 2, "epsilon": 1e-12}),
    "clip_by_value": Rule("Clip", ("t",), {"clip_value_min": "x_min", "clip_value_max": "x_max"}),
    "reshape": Rule("Reshape", ("tensor",), {"shape": "newshape"}),
    "transpose": Rule("Transpose", ("a",), {"perm": "axes"}),
    "linalg.matrix_transpose": Rule("Swapaxes", ("a",), {}, {"axis1": -2, "axis2": -1}),
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
    "linalg.matmul": Rule("Matmul", ("a", "b"), {n: n for n in ("transpose_a", "transpose_b", "adjoint_a", "adjoint_b")}),
    "tensordot": Rule("Tensordot", ("a", "b"), {"axes": "axes"}),
    "zeros_like": Rule("ZerosLike", ("input",)),
    "ones_like": Rule("OnesLike", ("input",)),
    "identity": Rule("StopGradient", ("input",)),
    "stop_gradient": Rule("StopGradient", ("input",)),
    "__operators__.getitem": Rule("GetItem", ("tensor", "slice_spec")),
    "reverse": Rule("Flip", ("tensor",), {"axis": "axis"}),
    **{
        f"nn.{f}_pool{end}": Rule(name, ("input",), {"ksize": "pool_size", "strides": "strides", "padding": "padding"})
        for f, name in {"max": "MaxPool", "avg": "AveragePool"}.items()
        for end in ("", "1d", "2d", "3d")
    },
    "nn.depth_to_space": Rule("DepthToSpace", ("input",), {"block_size": "block_size"}),
    "nn.space_to_depth": Rule("SpaceToDepth", ("input",), {"block_size": "block_size"}),
    "image.resize": Rule("Resize", ("images",), {"size": "size", "method": "interpolation", "antialias": "antialias"}),
}
#: keyword arguments that change nothing (at these values)
IDLE: dict[str, tuple[Any, ...]] = {
    "name": (),
    "conjugate": (False,),
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
    "direction": ("ASCENDING",),
    "data_format": (None, "NWC", "NHWC", "NDHWC"),
    "preserve_aspect_ratio": (False,),
}
#: other names of the same functions
ALIASES = {"nn.l2_normalize": "math.l2_normalize", "matmul": "linalg.matmul", "linalg.norm": "norm", "nn.top_k": "math.top_k"}
#: flags in a graph's node_def → the function's, where they count
NODE_FLAGS = {"transpose_a": "transpose_a", "transpose_b": "transpose_b", "adj_x": "adjoint_a", "adj_y": "adjoint_b"}
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
    "MatMul": "linalg.matmul",
    "BatchMatMul": "linalg.matmul",
    "BatchMatMulV2": "linalg.matmul",
    **{
        n: f"math.{n.lower()}"
        for n in [
            "Abs",
            "Sign",
            "Square",
            "Sqrt",
            "Rsqrt",
            "Exp",
            "Expm1",
            "Log",
            "Log1p",
            "Sin",
            "Cos",
            "Tan",
            "Sinh",
            "Cosh",
            "Floor",
            "Ceil",
            "Round",
            "Erf",
        ]
    },
    **{n: f"math.{n.lower()}" for n in ["Reciprocal", "Rint", "Asin", "Acos", "Atan"]},
    **{n: f"nn.{n.lower()}" for n in ["Relu", "Relu6", "Elu", "Selu", "Softsign", "Softplus", "Sigmoid", "Tanh", "Softmax"]},
}
