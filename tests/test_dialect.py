"""Configs of every Keras in one dialect: versions, calls, dtypes, shapes, activations, Keras 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from config_parts import K1, K2, K3, TF, keras_tensor, named_policy

from npinfer.errors import FormatError
from npinfer.readers import dialect, nodes, values, versions
from npinfer.readers.archive import Call, Layer, TensorRef, Version


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
