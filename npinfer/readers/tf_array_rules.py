"""TensorFlow's functions that move, join, multiply or convolve arrays, and those of images, as Keras 3 operations."""

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


def same(*names: str) -> dict[str, str]:
    """Keywords that have the same name in the operation's config."""
    return {n: n for n in names}


FORMAT = {"data_format": "data_format"}
WINDOW = {"stride": "strides", **same("strides", "padding", "dilation_rate"), "dilations": "dilation_rate"}
SHAPES: dict[str, Rule] = {
    "shape": Rule("Shape", ("input",), same("out_type")),
    "size": Rule("Size", ("input",), same("out_type")),
    "rank": Rule("Ndim", ("input",)),
    "zeros": Rule("ZerosOf", ("shape",), same("dtype")),
    "ones": Rule("OnesOf", ("shape",), same("dtype")),
    "fill": Rule("Fill", ("dims",), same("value")),
    "eye": Rule("Eye", ("num_rows",), same("num_columns", "batch_shape", "dtype")),
    "range": Rule("Arange", ("start", "limit", "delta"), same("dtype")),
    "reshape": Rule("Reshape", ("tensor",), {"shape": "newshape"}),
    "broadcast_to": Rule("BroadcastTo", ("input",), same("shape")),
    "transpose": Rule("Transpose", ("a",), {"perm": "axes"}),
    "expand_dims": Rule("ExpandDims", ("input",), same("axis")),
    "squeeze": Rule("Squeeze", ("input",), same("axis")),
    "concat": Rule("Concatenate", ("values",), same("axis")),
    "stack": Rule("Stack", ("values",), same("axis"), {"axis": 0}),
    "unstack": Rule("Unstack", ("value",), same("axis", "num"), {"axis": 0}),
    "split": Rule("Split", ("value",), {"num_or_size_splits": "indices_or_sections", "axis": "axis"}, {"axis": 0}),
    "tile": Rule("Tile", ("input",), {"multiples": "repeats"}),
    "repeat": Rule("Repeat", ("input",), same("repeats", "axis")),
    "pad": Rule("Pad", ("tensor",), {"paddings": "pad_width", "mode": "mode", "constant_values": "constant_values"}),
    "reverse": Rule("Flip", ("tensor",), same("axis")),
    "roll": Rule("Roll", ("input",), same("shift", "axis")),
    "cast": Rule("Cast", ("x",), same("dtype")),
    "dtypes.saturate_cast": Rule("SaturateCast", ("value",), same("dtype")),
    "convert_to_tensor": Rule("ConvertToTensor", ("value",), same("dtype")),
    "zeros_like": Rule("ZerosLike", ("input",), same("dtype")),
    "ones_like": Rule("OnesLike", ("input",), same("dtype")),
    "identity": Rule("StopGradient", ("input",)),
    "stop_gradient": Rule("StopGradient", ("input",)),
    "ensure_shape": Rule("StopGradient", ("x",), same("shape")),
    "debugging.check_numerics": Rule("StopGradient", ("tensor",), same("message")),
    "one_hot": Rule(
        "OneHot", ("indices",), {"depth": "num_classes", **same("axis", "dtype", "on_value", "off_value")}, {"axis": -1}
    ),
    "sequence_mask": Rule("SequenceMask", ("lengths",), same("maxlen", "dtype"), {"dtype": "bool"}),
    "__operators__.getitem": Rule("GetItem", ("tensor", "slice_spec")),
    "slice": Rule("Slice", ("input_", "begin"), {"size": "shape"}),
    "strided_slice": Rule(
        "StridedSlice",
        ("input_", "begin", "end", "strides"),
        same("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"),
    ),
    "boolean_mask": Rule("BooleanMask", ("tensor", "mask"), same("axis"), {"axis": 0}),
    "gather": Rule("Take", ("params", "indices"), same("axis"), {"axis": 0}),
    "gather_each": Rule("TakeEach", ("params", "indices"), same("axis"), {"axis": 1}),
    "nn.embedding_lookup": Rule("Take", ("params", "ids"), {}, {"axis": 0}),
    "where": Rule("Where", ("condition", "x", "y")),
}
PRODUCTS: dict[str, Rule] = {
    "einsum": Rule("Einsum", ("inputs",), {"equation": "subscripts"}),
    "tensordot": Rule("Tensordot", ("a", "b"), same("axes")),
    "linalg.matmul": Rule("Matmul", ("a", "b"), same("transpose_a", "transpose_b", "adjoint_a", "adjoint_b")),
    "linalg.matrix_transpose": Rule("Swapaxes", ("a",), {}, {"axis1": -2, "axis2": -1}),
    "linalg.adjoint": Rule("Swapaxes", ("matrix",), {}, {"axis1": -2, "axis2": -1}),
    "linalg.diag": Rule("MatrixDiag", ("diagonal",)),
    "linalg.diag_part": Rule("Diagonal", ("input",), {}, {"axis1": -2, "axis2": -1}),
    "linalg.trace": Rule("Trace", ("x",), {}, {"axis1": -2, "axis2": -1}),
    "linalg.band_part": Rule("BandPart", ("input",), {"num_lower": "lower", "num_upper": "upper"}),
    "linalg.cross": Rule("Cross", ("a", "b")),
    "linalg.inv": Rule("Inv", ("input",)),
    "linalg.det": Rule("Det", ("input",)),
    "linalg.cholesky": Rule("Cholesky", ("input",)),
    "linalg.solve": Rule("Solve", ("matrix", "rhs")),
    "linalg.triangular_solve": Rule("SolveTriangular", ("matrix", "rhs"), same("lower"), {"lower": True}),
    "linalg.normalize": Rule("WithNorm", ("tensor",), same("ord", "axis"), {"ord": "euclidean"}),
}
WINDOWS: dict[str, Rule] = {
    **{
        f"nn.{f}_pool{end}": Rule(name, ("input",), {"ksize": "pool_size", "strides": "strides", "padding": "padding"})
        for f, name in {"max": "MaxPool", "avg": "AveragePool"}.items()
        for end in ("", "1d", "2d", "3d")
    },
    **{
        f"nn.pool {kind}": Rule(name, ("input",), {"window_shape": "pool_size", **same("strides", "padding")}, {"strides": 1})
        for kind, name in {"MAX": "MaxPool", "AVG": "AveragePool"}.items()
    },
    **{f"nn.conv{end}": Rule("Conv", ("input", "filters"), WINDOW) for end in ("1d", "2d", "3d", "olution")},
    "nn.depthwise_conv2d": Rule("DepthwiseConv", ("input", "filters"), {**WINDOW, "rate": "dilation_rate"}),
    "nn.separable_conv2d": Rule(
        "SeparableConv", ("input", "depthwise_filter", "pointwise_filter"), {**WINDOW, "rate": "dilation_rate"}
    ),
    **{
        f"nn.conv{end}_transpose": Rule("ConvTranspose", ("input", "filters"), {**WINDOW, "output_shape": "output_shape"})
        for end in ("1d", "2d", "3d")
    },
    "nn.local_response_normalization": Rule(
        "LocalResponseNormalization", ("input",), same("depth_radius", "bias", "alpha", "beta")
    ),
    "nn.depth_to_space": Rule("DepthToSpace", ("input",), same("block_size")),
    "nn.space_to_depth": Rule("SpaceToDepth", ("input",), same("block_size")),
}
BOX = same("offset_height", "offset_width", "target_height", "target_width")
IMAGES: dict[str, Rule] = {
    "image.resize": Rule("Resize", ("images",), {"size": "size", "method": "interpolation", "antialias": "antialias"}),
    "image.resize_bilinear": Rule("Resize", ("images",), same("size"), {"interpolation": "bilinear", "centered": False}),
    "image.resize_nearest_neighbor": Rule("Resize", ("images",), same("size"), {"interpolation": "nearest", "centered": False}),
    "image.flip_left_right": Rule("Flip", ("image",), {}, {"axis": -2}),
    "image.flip_up_down": Rule("Flip", ("image",), {}, {"axis": -3}),
    "image.transpose": Rule("Swapaxes", ("image",), {}, {"axis1": -3, "axis2": -2}),
    "image.rot90": Rule("ImageTurn", ("image",), same("k"), {"k": 1}),
    "image.central_crop": Rule("ImageMiddle", ("image",), same("central_fraction")),
    "image.crop_to_bounding_box": Rule("ImageCrop", ("image",), BOX),
    "image.pad_to_bounding_box": Rule("ImagePad", ("image",), BOX),
    "image.resize_with_crop_or_pad": Rule("ImageFit", ("image",), same("target_height", "target_width")),
    "image.adjust_brightness": Rule("Add", ("image", "delta")),
    "image.adjust_contrast": Rule("ImageContrast", ("images",), same("contrast_factor")),
    "image.adjust_gamma": Rule("ImageGamma", ("image",), same("gamma", "gain"), {"gamma": 1, "gain": 1}),
    "image.per_image_standardization": Rule("ImageStandardization", ("image",)),
    "image.rgb_to_grayscale": Rule("ImageColors", ("images",), {}, {"to": "grayscale"}),
    "image.grayscale_to_rgb": Rule("ImageColors", ("images",), {}, {"to": "rgb"}),
    "image.rgb_to_yuv": Rule("ImageColors", ("images",), {}, {"to": "yuv"}),
    "image.rgb_to_yiq": Rule("ImageColors", ("images",), {}, {"to": "yiq"}),
    "image.extract_patches": Rule(
        "ExtractPatches", ("images",), {"sizes": "size", "strides": "strides", "rates": "dilation_rate", "padding": "padding"}
    ),
}
