"""TensorFlow's functions and recorded graph nodes, as layers of their own."""

from __future__ import annotations

from typing import Any

import pytest

from npinfer.readers import tfops
from npinfer.readers.archive import Call, Layer, TensorRef

X = TensorRef("x", 0, 0)


def tf_layer(function: str, *args: Any, **kwargs: Any) -> Layer:
    return tfops.modern(Layer("TFOpLambda", "f", {"function": function}, (Call(args, kwargs),)))


@pytest.mark.parametrize(
    ("layer", "operation", "config", "args"),
    [
        (tf_layer("math.multiply", X, y=2, name=None), "Multiply", {}, (X, 2)),
        (tf_layer("__operators__.add", 1.0, y=X), "Add", {}, (1.0, X)),
        (tf_layer("math.reduce_mean", X, axis=-1, keepdims=True), "Mean", {"axis": -1, "keepdims": True, "whole": True}, (X,)),
        (tf_layer("concat", [X, X], axis=-1), "Concatenate", {"axis": -1}, ([X, X],)),
        (tf_layer("clip_by_value", X, clip_value_min=0, clip_value_max=1), "Clip", {"x_min": 0, "x_max": 1}, (X,)),
        (tf_layer("nn.leaky_relu", X), "LeakyRelu", {"negative_slope": 0.2}, (X,)),
        (tf_layer("nn.gelu", X, approximate=True), "Gelu", {"approximate": True}, (X,)),
        (tf_layer("split", X, num_or_size_splits=[1, 2, 3], axis=1), "Split", {"indices_or_sections": [1, 3], "axis": 1}, (X,)),
        (tf_layer("math.l2_normalize", X, axis=1, epsilon=1e-4), "Normalize", {"axis": 1, "order": 2, "epsilon": 0.01}, (X,)),
        (tf_layer("compat.v1.transpose", X, perm=[0, 2, 1], conjugate=False), "Transpose", {"axes": [0, 2, 1]}, (X,)),
        (tf_layer("__operators__.getitem", X, slice_spec=[1]), "GetItem", {}, (X, [1])),
        (tf_layer("pad", X, paddings=[[0, 1]], mode="CONSTANT"), "Pad", {"pad_width": [[0, 1]], "mode": "constant"}, (X,)),
        (tf_layer("einsum", "ij->ji", inputs=X), "Einsum", {"subscripts": "ij->ji"}, (X,)),
        (tf_layer("exp", X), "Exp", {}, (X,)),
        (
            tf_layer("compat.v1.norm", X, ord="euclidean", axis=-1, keepdims=None),
            *("Norm", {"ord": None, "axis": -1, "keepdims": False}, (X,)),
        ),
        (tf_layer("linalg.norm", X, ord=1, axis=1, keepdims=True), "Norm", {"ord": 1, "axis": 1, "keepdims": True}, (X,)),
        (tf_layer("math.squared_difference", X, y=0.5, name=None), "SquaredDifference", {}, (X, 0.5)),
        (tf_layer("compat.v1.math.scalar_mul", 2.5, x=X), "Multiply", {}, (2.5, X)),
        (tf_layer("nn.bias_add", X, bias=[1.0], data_format="NHWC"), "Add", {}, (X, [1.0])),
        (tf_layer("sort", X, axis=-1, direction="ASCENDING"), "Sort", {"axis": -1, "direction": "ASCENDING"}, (X,)),
        (tf_layer("reshape", X, shape=[X, 3]), "Reshape", {}, (X,)),
        (tf_layer("nn.top_k", X), "TopK", {"k": 1}, (X,)),
        (tf_layer("linalg.matrix_transpose", X), "Swapaxes", {"axis1": -2, "axis2": -1}, (X,)),
        (
            tf_layer("nn.max_pool2d", X, ksize=2, strides=[1, 2, 1, 1], padding="SAME"),
            *("MaxPool", {"pool_size": 2, "strides": [2, 1], "padding": "same", "data_format": "channels_last"}, (X,)),
        ),
        (
            tf_layer("image.resize", X, size=[8, 9], method="nearest"),
            "Resize",
            {"size": [8, 9], "interpolation": "nearest"},
            (X,),
        ),
        (tf_layer("nn.depth_to_space", X, block_size=2), "DepthToSpace", {"block_size": 2}, (X,)),
    ],
)
def test_tensorflow_functions(layer: Layer, operation: str, config: Any, args: Any) -> None:
    assert (layer.module, layer.class_name, dict(layer.config)) == ("ops", operation, config)
    assert layer.calls[0].args == args


def test_batch_flatten_is_the_layer() -> None:
    layer = tf_layer("keras.backend.batch_flatten", X)
    assert (layer.class_name, layer.module, layer.calls[0]) == ("Flatten", "", Call((X,)))


def test_add_n_is_the_merge_layer() -> None:
    layer = tf_layer("math.add_n", [X, X], name="s")
    assert (layer.class_name, layer.module, layer.calls[0]) == ("Add", "", Call(([X, X],)))


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (tf_layer("raw_ops.Foo", X), "tf.raw_ops.Foo"),
        (tf_layer("nn.silu", X, beta=2.0), "tf.nn.silu with the arguments beta"),
        (tfops.modern(Layer("TensorFlowOpLayer", "f", {"node_def": {"op": "Foo"}})), "TensorFlow op Foo"),
        (tfops.modern(Layer("TensorFlowOpLayer", "f", {"node_def": "bytes"})), "TensorFlowOpLayer"),
        (tfops.modern(Layer("TFOpLambda", "f", {"function": 3})), "TFOpLambda"),
    ],
)
def test_unknown_functions_keep_their_names(layer: Layer, name: str) -> None:
    assert layer.class_name == name


@pytest.mark.parametrize(
    ("node", "config"),
    [
        ({"op": "BatchMatMulV2", "attr": {"adj_x": {}, "adj_y": {"b": True}, "T": {"type": "DT_FLOAT"}}}, [True]),
        ({"op": "MatMul", "attr": {"transpose_a": {"b": True}, "transpose_b": {"b": False}}}, [True, False]),
        ({"op": "BatchMatMul", "attr": {"adj_x": 7}}, []),
        ({"op": "BatchMatMul", "attr": 7}, []),
    ],
)
def test_recorded_matrix_products(node: dict[str, Any], config: list[bool]) -> None:
    """The attributes that turn a factor count; TensorFlow leaves false ones empty."""
    made = tfops.modern(Layer("TensorFlowOpLayer", "f", {"node_def": node}, (Call(([X, X],)),)))
    assert (made.class_name, made.calls) == ("Matmul", (Call((X, X)),))
    assert list(made.config.values()) == config


def test_recorded_graph_nodes() -> None:
    config = {"node_def": {"op": "Mul"}, "constants": {"1": 2.0}}
    layer = tfops.modern(Layer("TensorFlowOpLayer", "f", config, (Call(([X],)),)))
    assert (layer.class_name, layer.calls[0].args) == ("Multiply", (X, 2.0))
