"""Configs of every Keras in one dialect: versions, calls, dtypes, activations, Keras 1, TensorFlow's functions, topology."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from npinfer.errors import FormatError, LimitError, UnsupportedError
from npinfer.readers import dialect, nodes, tfops, topology, values, versions
from npinfer.readers.archive import Call, Layer, Model, TensorRef, Version

K1, K2, TF, K3 = Version(1), Version(2, (2, 2, 4)), Version(2, (2, 15, 0), True), Version(3, (3, 15, 1))


@pytest.mark.parametrize(
    ("text", "major", "numbers", "tf"),
    [
        ("1.2.2", 1, (1, 2, 2), False),
        ("2.2.4", 2, (2, 2, 4), False),
        ("2.2.4-tf", 2, (2, 2, 4), True),
        ("2.1.6-tf", 2, (2, 1, 6), True),
        ("2.3.1", 2, (2, 3, 1), False),
        ("2.4.0", 2, (2, 4, 0), True),
        ("2.18.0", 2, (2, 18, 0), True),
        ("3.0.5", 3, (3, 0, 5), False),
        ("3.15.1.dev20260101", 3, (3, 15, 1), False),
        ("0.3.3", 1, (0, 3, 3), False),
        (None, 1, (), False),
        ("weird", 1, (), False),
        (7, 1, (), False),
    ],
)
def test_version_strings(text: Any, major: int, numbers: tuple[int, ...], tf: bool) -> None:
    assert versions.parse(text) == Version(major, numbers, tf)


@pytest.mark.parametrize(
    ("config", "said", "major"),
    [
        ({"class_name": "Sequential", "config": [{"config": {"output_dim": 3}}]}, None, 1),
        ({"class_name": "Sequential", "config": [{"config": {"units": 3}}]}, None, 2),
        ({"class_name": "Sequential", "config": {"layers": [{"config": {"batch_shape": [None, 3]}}]}}, None, 3),
        ({"class_name": "Model", "config": {}, "keras_version": "2.0.3"}, "1.2.2", 2),
        ({"class_name": "Model", "config": {}}, "1.2.2", 1),
        ({"class_name": "Model", "config": {}}, None, 1),
    ],
)
def test_version_of_a_config(config: Any, said: str | None, major: int) -> None:
    assert versions.of(config, said, None).major == major


A, B, C = TensorRef("a", 0, 0), TensorRef("b", 1, 2), TensorRef("c", 0, 0)


def keras_tensor(layer: str, node: int = 0, tensor: int = 0) -> dict[str, Any]:
    config = {"shape": [None, 3], "dtype": "float32", "keras_history": [layer, node, tensor]}
    return {"class_name": "__keras_tensor__", "config": config}


@pytest.mark.parametrize(
    ("raw", "class_name", "expected"),
    [
        ([["a", 0, 0]], "Dense", Call((A,))),
        ([["a", 0, 0, {}]], "Dense", Call((A,))),
        ([["a", 0, 0, {"training": False}]], "Dense", Call((A,), {"training": False})),
        (["a", 0, 0, {"y": 2, "name": None}], "TFOpLambda", Call((A,), {"y": 2})),
        (["a", 0, 0, {"y": ["b", 1, 2]}], "TFOpLambda", Call((A,), {"y": B})),
        ([["a", 0, 0], ["b", 1, 2]], "Add", Call(([A, B],))),
        ([["a", 0, 0, {}]], "Add", Call(([A],))),
        ([["a", 0, 0, {}], ["b", 1, 2, {}], ["c", 0, 0, {}]], "LSTM", Call((A,), {"initial_state": [B, C]})),
        ([["a", 0, 0, {"initial_state": [["b", 1, 2]]}]], "GRU", Call((A,), {"initial_state": [B]})),
        ({"x": ["a", 0, 0, {}], "y": ["b", 1, 2, {}]}, "Functional", Call(({"x": A, "y": B},))),
        ([[["a", 0, 0, {}]], ["b", 1, 2, {}]], "Functional", Call(([[A], B],))),
        (["_CONSTANT_VALUE", -1, 3.0, {"y": ["a", 0, 0]}], "TFOpLambda", Call((3.0,), {"y": A})),
        ([["a", 0, 0, {"value": ["b", 1, 2], "mask": None}]], "MultiHeadAttention", Call((A, B))),
        (
            [["a", 0, 0, {"slice_spec": [{"start": 1, "stop": None, "step": 2}]}]],
            "X",
            Call((A,), {"slice_spec": [slice(1, None, 2)]}),
        ),
        ([["a", 0, 0, {"shape": {"class_name": "TensorShape", "items": [2, 3]}}]], "X", Call((A,), {"shape": [2, 3]})),
        ([["a", 0, 0, {"axes": ["q", 0, 0]}]], "X", Call((A,), {"axes": ["q", 0, 0]})),
        ({"args": [keras_tensor("a")], "kwargs": {}}, "Dense", Call((A,))),
        ({"args": [[keras_tensor("a"), keras_tensor("b", 1, 2)]], "kwargs": {"mask": [None, None]}}, "Add", Call(([A, B],))),
        ({"args": [], "kwargs": {"inputs": keras_tensor("a")}}, "Dense", Call((A,))),
        ({"args": [keras_tensor("a"), 2], "kwargs": {}}, "Multiply", Call((A, 2))),
        (
            {
                "args": [
                    keras_tensor("a"),
                    {"class_name": "__tuple__", "items": [{"class_name": "__ellipsis__", "config": {}}, 1]},
                ]
            },
            "GetItem",
            Call((A, (..., 1))),
        ),
    ],
)
def test_calls(raw: Any, class_name: str, expected: Call) -> None:
    assert nodes.calls([raw], class_name, {"a", "b", "c"}, "test") == (expected,)


def test_arrays_in_calls() -> None:
    item = {"class_name": "__numpy__", "config": {"value": [[1, 2]], "dtype": "int32"}}
    found = nodes.value(item, "test")
    assert found.dtype == np.int32
    assert found.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "raw",
    [
        5,
        {"a": 1},
        [[[["a"]]]],
        [[7]],
        [{"args": {"class_name": "__keras_tensor__", "config": {"keras_history": ["a", "b", 0]}}}],
        [{"args": [keras_tensor("a")], "kwargs": [1]}],
        [{"args": [{"class_name": "__numpy__", "config": {"value": [1], "dtype": "object"}}], "kwargs": {}}],
    ],
)
def test_broken_calls_are_refused(raw: Any) -> None:
    with pytest.raises(FormatError, match=r"test|call|inbound"):
        nodes.calls(raw, "Dense", {"a"}, "test")


def named_policy(class_name: str, **config: Any) -> dict[str, Any]:
    return {"module": "keras", "class_name": class_name, "config": config, "registered_name": None}


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("float32", "float32"),
        (named_policy("DTypePolicy", name="float64"), "float64"),
        (named_policy("Policy", name="mixed_float16"), "float16"),
        (named_policy("FloatDTypePolicy", name="mixed_bfloat16"), "bfloat16"),
        ("infer", None),
        (None, None),
        (named_policy("QuantizedDTypePolicy", mode="int8", source_name="float32"), "int8_from_float32"),
        (named_policy("DTypePolicyMap", default_policy=named_policy("DTypePolicy", name="float32"), policy_map={}), "float32"),
        (named_policy("DTypePolicyMap", default_policy="float32", policy_map={"a": "mixed_float16"}), "float16"),
        (7, "7"),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_dtypes_in_every_spelling(dtype: Any, name: str | None) -> None:
    assert values.compute_dtype(dtype, "Dense") == name


def test_an_embedding_has_no_integer_arithmetic() -> None:
    assert values.compute_dtype("int32", "Embedding") is None


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        ({"batch_input_shape": [None, 3]}, (3,)),
        ({"batch_shape": [2, 3, None]}, (3, None)),
        ({"batch_shape": {"class_name": "__tuple__", "items": [None, 4]}}, (4,)),
        ({"batch_input_shape": {"class_name": "TensorShape", "items": [None, 5]}}, (5,)),
        ({"input_shape": [6, 7]}, (6, 7)),
        ({"batch_input_shape": [None]}, ()),
        ({"batch_shape": [None, -1]}, None),
        ({"batch_shape": [None, True]}, None),
        ({"batch_shape": [[None, 1], [None, 2]]}, None),
        ({}, None),
    ],
)
def test_shapes_in_every_spelling(config: Any, shape: Any) -> None:
    assert values.input_shape(config, {}) == shape


def test_the_shape_a_layer_was_built_with() -> None:
    assert values.input_shape({}, {"build_config": {"input_shape": [None, 9]}}) == (9,)


def made(class_name: str, version: Version = K2, **config: Any) -> Layer:
    return dialect.layer({"class_name": class_name, "config": {"name": "x", **config}}, version, "test", inner(version))


def inner(version: Version) -> Any:
    def make(raw: Any, where: str, depth: int) -> Layer:
        return dialect.layer(raw, version, where, make, depth)

    return make


@pytest.mark.parametrize(
    ("entry", "version", "expected"),
    [
        ("relu", K2, "relu"),
        (None, K2, None),
        ("tf.nn.relu", TF, "relu"),
        ("swish", TF, "silu"),
        ("softmax_v2", TF, "softmax"),
        ("log_softmax_v2", TF, "log_softmax"),
        ("hard_sigmoid", K1, "hard_sigmoid_k2"),
        ("hard_sigmoid", K2, "hard_sigmoid_k2"),
        ("hard_sigmoid", TF, "hard_sigmoid_k2"),
        ("hard_sigmoid", K3, "hard_sigmoid"),
        ({"module": "builtins", "class_name": "function", "config": "swish", "registered_name": "function"}, K3, "silu"),
        ({"module": "builtins", "class_name": "function", "config": "mine", "registered_name": "function"}, K3, "mine"),
        ({"module": "user", "class_name": "function", "config": "relu", "registered_name": "relu"}, K3, "custom>relu"),
        ({"module": None, "class_name": "function", "config": "gelu", "registered_name": "gelu"}, K3, "custom>gelu"),
        ({"class_name": "__lambda__", "config": {"value": "x"}}, K3, "__lambda__"),
        (5, K3, "5"),
    ],
)
def test_activations(entry: Any, version: Version, expected: Any) -> None:
    assert dialect.activation(entry, version, "test", inner(version)) == expected


def test_a_layer_as_activation_keeps_its_parameters() -> None:
    entry = {"class_name": "LeakyReLU", "config": {"name": "leaky", "alpha": 0.1}}
    found = made("Dense", activation=entry, units=2).config["activation"]
    assert (found.class_name, found.config["negative_slope"]) == ("LeakyReLU", 0.1)


@pytest.mark.parametrize(
    ("layer", "key", "expected"),
    [
        (made("LeakyReLU"), "negative_slope", 0.3),
        (made("LeakyReLU", alpha=0.1), "negative_slope", 0.1),
        (made("LeakyReLU", alpha={"type": "ndarray", "value": 0.2}), "negative_slope", 0.2),
        (made("BatchNormalization"), "epsilon", 1e-3),
        (made("BatchNormalization", Version(1, (1, 0, 8))), "epsilon", 1e-5),
        (made("BatchNormalization", epsilon=1e-6), "epsilon", 1e-6),
        (made("LSTM", K2), "recurrent_activation", "hard_sigmoid_k2"),
        (made("LSTM", Version(2, (2, 3, 1))), "recurrent_activation", "sigmoid"),
        (made("LSTM", TF), "recurrent_activation", "sigmoid"),
        (made("CuDNNGRU", K2, units=2), "reset_after", True),
        (made("Conv2D", K2), "data_format", "channels_last"),
    ],
)
def test_defaults_of_versions_are_explicit(layer: Layer, key: str, expected: Any) -> None:
    assert layer.config[key] == expected


@pytest.mark.parametrize(
    ("class_name", "config", "target", "expected"),
    [
        ("Dense", {"output_dim": 3, "bias": False}, "Dense", {"units": 3, "use_bias": False}),
        ("TimeDistributedDense", {"output_dim": 3}, "Dense", {"units": 3}),
        (
            "Convolution1D",
            {"nb_filter": 2, "filter_length": 3, "subsample_length": 2},
            "Conv1D",
            {"filters": 2, "kernel_size": [3]},
        ),
        ("Convolution1D", {"filter_length": 3, "subsample_length": 2}, "Conv1D", {"strides": [2], "padding": "valid"}),
        ("Convolution2D", {"nb_row": 2, "nb_col": 3, "dim_ordering": "th"}, "Conv2D", {"kernel_size": [2, 3]}),
        ("Convolution2D", {"nb_row": 2, "nb_col": 3, "dim_ordering": "th"}, "Conv2D", {"data_format": "channels_first"}),
        ("Convolution3D", {"kernel_dim1": 2, "kernel_dim2": 3, "kernel_dim3": 1}, "Conv3D", {"kernel_size": [2, 3, 1]}),
        ("AtrousConvolution2D", {"nb_row": 2, "nb_col": 2, "atrous_rate": [2, 1]}, "Conv2D", {"dilation_rate": [2, 1]}),
        (
            "MaxPooling1D",
            {"pool_length": 2, "stride": None, "border_mode": "same"},
            "MaxPooling1D",
            {"pool_size": 2, "strides": 2},
        ),
        ("ZeroPadding1D", {"padding": {"left_pad": 1, "right_pad": 2}}, "ZeroPadding1D", {"padding": [1, 2]}),
        ("ZeroPadding2D", {"padding": [1, 2, 3, 4]}, "ZeroPadding2D", {"padding": [[1, 2], [3, 4]]}),
        ("ZeroPadding2D", {"padding": {"top_pad": 1}}, "ZeroPadding2D", {"padding": [[1, 0], [0, 0]]}),
        ("UpSampling1D", {"length": 2}, "UpSampling1D", {"size": 2}),
        ("Dropout", {"p": 0.5}, "Dropout", {"rate": 0.5}),
        ("GaussianNoise", {"sigma": 0.5}, "GaussianNoise", {"stddev": 0.5}),
        ("LSTM", {"output_dim": 2, "inner_activation": "tanh"}, "LSTM", {"units": 2, "recurrent_activation": "tanh"}),
        ("GRU", {"output_dim": 2}, "GRU", {"reset_after": False, "recurrent_activation": "hard_sigmoid_k2"}),
        ("Merge", {"mode": "concat", "concat_axis": 1}, "Concatenate", {"axis": 1}),
        ("Merge", {"mode": "sum", "mode_type": "raw"}, "Add", {}),
        ("Merge", {"mode": "dot", "dot_axes": [1, 2]}, "Dot", {"axes": [1, 2], "normalize": False}),
        ("Merge", {"mode": "cos", "dot_axes": 1}, "Dot", {"normalize": True, "keras1_cosine": True}),
        ("Merge", {"mode": "code", "mode_type": "lambda"}, "Merge", {}),
        ("MaxoutDense", {"output_dim": 3, "nb_feature": 2}, "MaxoutDense", {"units": 3, "nb_feature": 2}),
    ],
)
def test_keras_1(class_name: str, config: dict[str, Any], target: str, expected: dict[str, Any]) -> None:
    layer = made(class_name, K1, **config)
    assert layer.class_name == target
    assert {k: layer.config.get(k) for k in expected} == expected


def test_bidirectional_gets_its_mirror() -> None:
    lstm = {"class_name": "LSTM", "config": {"name": "forward_lstm", "units": 2, "go_backwards": False}}
    found = made("Bidirectional", layer=lstm).config["backward_layer"]
    assert (found.name, found.config["go_backwards"]) == ("backward_lstm", True)


@pytest.mark.parametrize("class_name", ["TimeDistributed", "Bidirectional", "RNN", "StackedRNNCells"])
def test_a_wrapper_without_its_layer_is_refused(class_name: str) -> None:
    with pytest.raises(FormatError, match="holds no layer"):
        made(class_name, layer=3, cell="x", cells=[])


@pytest.mark.parametrize(
    "extra",
    [
        {"module": "user_code", "registered_name": "Dense"},
        {"module": None, "registered_name": "Dense"},
        {"module": "keras.layers", "registered_name": "my>Dense"},
        {"class_name": "my>Dense"},
    ],
)
def test_users_classes_are_told_apart(extra: dict[str, Any]) -> None:
    raw = {"class_name": "Dense", "config": {"name": "x", "units": 2}, **extra}
    assert dialect.layer(raw, K3, "test", inner(K3)).module == "custom"


def test_operations_are_no_layers() -> None:
    raw = {"class_name": "Add", "config": {"name": "add"}}
    assert dialect.layer(raw, K3, "test", inner(K3)).module == "ops"
    assert made("Add", K3, trainable=True).module == ""
    assert made("SpatialDropout1D", K3, rate=0.5).module == ""


@pytest.mark.parametrize("raw", [3, {"config": {}}, {"class_name": "Dense"}, {"class_name": "Dense", "config": {}}])
def test_entries_that_are_no_layers(raw: Any) -> None:
    with pytest.raises(FormatError):
        dialect.layer(raw, K2, "test", inner(K2))


X = TensorRef("x", 0, 0)


def tf_layer(function: str, *args: Any, **kwargs: Any) -> Layer:
    return tfops.modern(Layer("TFOpLambda", "f", {"function": function}, (Call(args, kwargs),)))


@pytest.mark.parametrize(
    ("layer", "operation", "config", "args"),
    [
        (tf_layer("math.multiply", X, y=2, name=None), "Multiply", {}, (X, 2)),
        (tf_layer("__operators__.add", 1.0, y=X), "Add", {}, (1.0, X)),
        (tf_layer("math.reduce_mean", X, axis=-1, keepdims=True), "Mean", {"axis": -1, "keepdims": True}, (X,)),
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
        (tf_layer("sort", X, axis=-1, direction="ASCENDING"), "Sort", {"axis": -1}, (X,)),
        (tf_layer("sort", X, direction="DESCENDING"), "tf.sort with the arguments direction", {}, (X,)),
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
        (tf_layer("math.cumsum", X, axis=1, reverse=True), "tf.math.cumsum with the arguments axis, reverse"),
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
        ({"op": "BatchMatMulV2", "attr": {"adj_x": {}, "adj_y": {"b": True}, "T": {"type": "DT_FLOAT"}}}, [False, True]),
        ({"op": "MatMul", "attr": {"transpose_a": {"b": True}, "transpose_b": {"b": False}}}, [True, False]),
        ({"op": "BatchMatMul", "attr": {"adj_x": 7}}, [False]),
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


# topology


def sequential(*layers: Any, version: Version = K2, **config: Any) -> Model:
    return topology.model(
        {"class_name": "Sequential", "config": {"name": "s", "layers": list(layers), **config}}, version, "test"
    )


def dense(name: str, inbound: Any = None, **config: Any) -> dict[str, Any]:
    entry = {"class_name": "Dense", "name": name, "config": {"name": name, "units": 3, **config}}
    return entry if inbound is None else {**entry, "inbound_nodes": inbound}


def entrance(name: str, **config: Any) -> dict[str, Any]:
    shape = {"batch_input_shape": [None, 3], **config}
    return {"class_name": "InputLayer", "name": name, "config": {"name": name, **shape}, "inbound_nodes": []}


def functional(layers: list[Any], inputs: Any, outputs: Any, name: str = "m", **extra: Any) -> dict[str, Any]:
    config = {"name": name, "layers": layers, "input_layers": inputs, "output_layers": outputs}
    return {"class_name": "Model", "name": name, "config": config, **extra}


@pytest.mark.parametrize(
    ("model", "shape", "name"),
    [
        (sequential(dense("d", batch_input_shape=[None, 4])), (4,), "d_input"),
        (sequential(entrance("in"), dense("d")), (3,), "in"),
        (sequential(entrance("in", batch_input_shape=None), dense("d"), build_input_shape=[None, 7]), (7,), "in"),
        (sequential(dense("d")), None, "d_input"),
        (sequential(dense("d"), build_input_shape=[None, 6]), (6,), "d_input"),
        (sequential(dense("d"), dense("d_input")), None, "d_input_1"),
        (
            topology.model({"class_name": "Sequential", "config": [dense("d", batch_input_shape=[None, 2])]}, K1, "t"),
            (2,),
            "d_input",
        ),
    ],
)
def test_sequential(model: Model, shape: Any, name: str) -> None:
    first, second = model.layers[0], model.layers[1]
    assert (first.class_name, first.name, first.config["shape"]) == ("InputLayer", name, shape)
    assert second.calls == (Call((TensorRef(name, 0, 0),)),)
    assert model.outputs == [TensorRef(model.layers[-1].name, 0, 0)]


def test_the_dtype_of_a_first_layer_is_its_inputs() -> None:
    assert sequential(dense("d", dtype="float64")).layers[0].config["dtype"] == "float64"
    assert sequential(dense("d", input_dtype="int32"), version=K1).layers[0].config["dtype"] == "int32"
    assert sequential(dense("d", dtype=named_policy("Policy", name="mixed_float16"))).layers[0].config["dtype"] == "float16"


def test_a_sequential_of_a_merge_becomes_one_graph() -> None:
    def branch(name: str) -> dict[str, Any]:
        return {"class_name": "Sequential", "config": [dense(name, batch_input_shape=[None, 2])]}

    merge = {"class_name": "Merge", "config": {"name": "m", "mode": "concat", "layers": [branch("a"), branch("b")]}}
    found = topology.model({"class_name": "Sequential", "config": [merge, dense("out")]}, Version(2, (2, 0, 8)), "test")
    assert [k.name for k in found.layers] == ["a_input", "a", "b_input", "b", "m", "out"]
    assert found.inputs == [TensorRef("a_input", 0, 0), TensorRef("b_input", 0, 0)]
    assert found.layer("m").calls == (Call(([TensorRef("a", 0, 0), TensorRef("b", 0, 0)],)),)
    assert found.layer("m").class_name == "Concatenate"


def test_keras_0() -> None:
    layers = [
        {"name": "Dense", "custom_name": "dense", "output_dim": 2, "input_shape": [3]},
        {"name": "Activation", "activation": "relu"},
    ]
    found = topology.model({"name": "Sequential", "layers": layers, "loss": "mse"}, K1, "test")
    assert [k.class_name for k in found.layers] == ["InputLayer", "Dense", "Activation"]
    assert found.layers[0].config["shape"] == (3,)


def nested(class_name: str, calls: Any, version: Version, out: int, users: list[int], layers: Any = None) -> Model:
    """A model that calls another one, with the numbers of nodes as a file has them."""
    body = layers or [entrance("i"), dense("d", [[["i", 0, 0, {}]]])]
    held = functional(body, [["i", 0, 0]], [["d", 0, 0]], "e", inbound_nodes=calls)
    if class_name == "Sequential":
        held = {**held, "class_name": "Sequential", "config": {"name": "e", "layers": [dense("d")]}}
    heads = [dense(f"u{n}", [[["e", n, 0, {}]]]) if version.major < 3 else k3_dense(f"u{n}", n) for n in users]
    ends = [["e", out, 0], *([f"u{n}", 0, 0] for n in users)]
    return topology.model(functional([entrance("x"), held, *heads], [["x", 0, 0]], ends), version, "test")


def k3_dense(name: str, node: int) -> dict[str, Any]:
    return {
        **dense(name, [{"args": [keras_tensor("e", node)], "kwargs": {}}]),
        "config": {"name": name, "units": 3, "trainable": True},
    }


OLD, NEW = [[["x", 0, 0, {}]]], [{"args": [keras_tensor("x")], "kwargs": {}}]


@pytest.mark.parametrize(
    ("model", "output", "users"),
    [
        (nested("Model", OLD, K2, 1, [1]), 0, [0]),
        (nested("Model", OLD * 2, K2, 2, [1, 2]), 1, [0, 1]),
        (nested("Sequential", OLD * 2, TF, 1, [0, 1]), 1, [0, 1]),
        (nested("Model", NEW, K3, 1, [0]), 0, [0]),
        (nested("Model", NEW * 2, K3, 2, [0, 1]), 1, [0, 1]),
        (nested("Sequential", NEW * 2, K3, 1, [0, 1]), 1, [0, 1]),
    ],
)
def test_a_nested_models_own_node(model: Model, output: int, users: list[int]) -> None:
    refs = [k.calls[0].args[0] for k in model.layers if k.name.startswith("u")]
    assert model.outputs[0] == TensorRef("e", output, 0)
    assert [r.node for r in refs] == users


def test_inputs_and_outputs_in_every_form() -> None:
    a, b, d = entrance("a"), entrance("b"), dense("d", [[["a", 0, 0, {}], ["b", 0, 0, {}]]])
    flat = topology.model(functional([a, dense("d", [[["a", 0, 0, {}]]])], ["a", 0, 0], ["d", 0, 0]), K3, "test")
    assert (flat.inputs, flat.outputs) == (TensorRef("a", 0, 0), TensorRef("d", 0, 0))
    named = topology.model(
        functional([a, b, d], {"z": ["a", 0, 0], "c": ["b", 0, 0]}, {"q": ["d", 0, 0], "p": ["a", 0, 0]}), K3, "t"
    )
    assert list(named.inputs) == ["c", "z"]
    assert list(named.outputs) == ["q", "p"]
    deep = topology.model(functional([a, b, d], [["a", 0, 0], [["b", 0, 0]]], [["d", 0, 0], [["d", 0, 0]]]), K3, "test")
    assert deep.inputs == [TensorRef("a", 0, 0), TensorRef("b", 0, 0)]
    assert deep.outputs == [TensorRef("d", 0, 0)] * 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (functional([entrance("a"), entrance("a")], ["a", 0, 0], ["a", 0, 0]), "two layers are called 'a'"),
        (functional([entrance("a"), dense("d", [[["q", 0, 0, {}]]])], ["a", 0, 0], ["d", 0, 0]), "refers to layer 'q'"),
        (functional([entrance("a"), dense("d", [[["a", 1, 0, {}]]])], ["a", 0, 0], ["d", 0, 0]), "call 1 of layer 'a'"),
        (
            functional([entrance("a"), dense("d", [[["a", 0, 0, {}]]])], ["a", 0, 0], ["q", 0, 0]),
            "output_layers refers to layer 'q'",
        ),
        (functional([entrance("a"), dense("d", [[["a", 0, 0, {}]]])], ["d", 0, 0], ["d", 0, 0]), "isn't an InputLayer"),
        (functional([entrance("a")], [], [["a", 0, 0]]), "no inputs"),
        (functional([entrance("a")], [["a", 0, 0]], []), "no outputs"),
        (functional([entrance("a")], [["a", 0, 0], ["a", 0, 0]], [["a", 0, 0]]), "names an input twice"),
        (functional([entrance("a")], [7], [["a", 0, 0]]), "input_layers holds 7"),
        (functional([entrance("a"), 5], [["a", 0, 0]], [["a", 0, 0]]), "must be a dict"),
        ({"class_name": "Sequential", "config": {"layers": []}}, "no layers"),
        ({"class_name": "Sequential", "config": {}}, "no layers"),
        ([], "holds a list"),
        ({"config": {}}, "no class_name"),
        ({"class_name": "Sequential"}, "lacks class_name or config"),
    ],
)
def test_broken_topologies_are_refused(config: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        topology.model(config, K2, "test")


@pytest.mark.parametrize(
    "config",
    [
        {"class_name": "MyModel", "config": {"layers": []}},
        {"class_name": "Model", "config": {"name": "m"}},
        {
            "class_name": "Functional",
            "module": "mine",
            "config": functional([entrance("a")], ["a", 0, 0], ["a", 0, 0])["config"],
        },
    ],
)
def test_users_models_are_refused(config: Any) -> None:
    with pytest.raises(UnsupportedError, match="class of its author's"):
        topology.model(config, K3, "test")


def test_models_within_models_have_an_end() -> None:
    config: Any = dense("d")
    for k in range(80):
        config = {"class_name": "Sequential", "config": {"name": f"s{k}", "layers": [config]}}
    with pytest.raises(LimitError, match="levels deep"):
        topology.model(config, K2, "test")


def test_long_chains_need_no_recursion() -> None:
    layers = [entrance("d0"), *(dense(f"d{k}", [[[f"d{k - 1}", 0, 0, {}]]]) for k in range(1, 3000))]
    assert len(topology.model(functional(layers, ["d0", 0, 0], ["d2999", 0, 0]), K2, "test").layers) == 3000


def test_the_entry_names_the_layer() -> None:
    entry = {
        "class_name": "Dense",
        "name": "outer",
        "config": {"name": "inner", "units": 1},
        "inbound_nodes": [[["a", 0, 0, {}]]],
    }
    found = topology.model(functional([entrance("a"), entry], ["a", 0, 0], ["outer", 0, 0]), TF, "test")
    assert [k.name for k in found.layers] == ["a", "outer"]


def test_configs_stay_plain_data() -> None:
    model = sequential(dense("d", kernel_initializer={"class_name": "Anything"}, bias_constraint="x", mean=[1.0]))
    assert set(model.layers[1].config) == {"units", "mean"}
    json.dumps(model.layers[1].config)


def test_a_merge_of_models_and_layers() -> None:
    graph = functional([entrance("i"), dense("g", [[["i", 0, 0]]])], [["i", 0, 0]], [["g", 0, 0]], "branch")
    plain = dense("l", batch_input_shape=[None, 2])
    merge = {"class_name": "Merge", "config": {"name": "m", "mode": "sum", "layers": [graph, plain]}}
    found = topology.model({"class_name": "Sequential", "config": [merge]}, K1, "test")
    assert [k.name for k in found.layers] == ["i", "g", "l_input", "l", "m"]
    assert found.outputs == [TensorRef("m", 0, 0)]


def test_merges_within_merges_have_an_end() -> None:
    merge: Any = dense("d")
    for k in range(80):
        merge = {
            "class_name": "Sequential",
            "config": [{"class_name": "Merge", "config": {"name": f"m{k}", "layers": [merge]}}],
        }
    with pytest.raises(LimitError, match="levels deep"):
        topology.model(merge, K1, "test")


def test_a_branch_without_layers() -> None:
    merge = {"class_name": "Merge", "config": {"name": "m", "layers": [{"class_name": "Sequential", "config": []}]}}
    with pytest.raises(FormatError, match="no layers"):
        topology.model({"class_name": "Sequential", "config": [merge]}, K1, "test")


def test_fixed_batches_and_sparse_inputs_are_noted() -> None:
    model = sequential(entrance("in", batch_input_shape=[4, 3], sparse=True), dense("d"))
    assert model.layers[0].config == {"shape": (3,), "dtype": "float32", "batch_size": 4, "sparse": True}
