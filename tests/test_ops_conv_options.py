"""Convolutions, pooling, spatial layers and encodings: shapes, options and versions that no saved model shows."""

from __future__ import annotations

from typing import Any

import graph_cases as gc
import numpy as np
import pytest
from graph_cases import numbers

from npinfer.errors import DtypeError, NpinferError, ShapeError, UnsupportedError
from npinfer.graph import Graph, Node, Op, Spec
from npinfer.ops.conv import Conv
from npinfer.ops.conv_transpose import ConvTranspose
from npinfer.ops.encoding import Count, Digitize, Lookup
from npinfer.ops.joining import Pad
from npinfer.ops.pool import AdaptivePool, GlobalPool, Pool
from npinfer.ops.registry import find, variables_of
from npinfer.ops.resize import Resize
from npinfer.ops.windows import pairs_of, window_count
from npinfer.readers.archive import Archive, Call, Layer, Model, TensorRef, Version
from npinfer.readers.lower import lower

F32, F64 = np.dtype("float32"), np.dtype("float64")


KERNEL = numbers(3, 3, 2, 4)
BAD: list[tuple[Op, tuple[int | None, ...], str]] = [
    (Conv(KERNEL, None, (1, 1), "valid", (1, 1)), (2, 9, 2), "too short"),
    (Conv(KERNEL, None, (1, 1), "valid", (1, 1)), (9, 9, 3), "2 channels"),
    (Conv(KERNEL, None, (1, 1), "valid", (1, 1)), (9, 9), "2 spatial axes"),
    (Conv(KERNEL, None, (1,), "valid", (1,)), (9, 9, 2), "must be"),
    (Conv(KERNEL, numbers(3), (1, 1), "valid", (1, 1)), (9, 9, 2), "bias"),
    (Conv(KERNEL, None, (1, 1), "valid", (1, 1), 3), (9, 9, 6), "3 groups"),
    (Conv(KERNEL, None, (1, 1), "valid", (4, 4)), (8, 8, 2), "window of 9"),
    (ConvTranspose(KERNEL, None, (1, 1), "valid", None, (1, 1)), (9, 9, 2), "4 channels"),
    (ConvTranspose(KERNEL, numbers(3), (1, 1), "valid", None, (1, 1)), (9, 9, 4), "bias"),
    (ConvTranspose(KERNEL, None, (1,), "valid", None, (1,)), (9, 9, 4), "must be"),
    (ConvTranspose(numbers(2, 3, 4), None, (2,), "same", (0,), (1,)), (5, 4), "output_padding"),
    (Pool("max", (3,), (1,)), (2, 4), "too short"),
    (Pool("max", (3,), (1,)), (9, 9, 2), "1 axes"),
    (GlobalPool("max"), (4,), "nothing to pool"),
    (AdaptivePool("max", (3,)), (4, 4, 2), "output sizes"),
    (Resize((3, 3)), (4, 4), "images"),
    (Pad(((1, 1),)), (4, 4), "doesn't fit"),
    (Count(3, True, F32), (4,), "whole numbers"),
    (Digitize(np.array([1.0, 0.0])), (4,), "rising"),
]


@pytest.mark.parametrize(("op", "shape", "reason"), BAD, ids=lambda v: type(v).__name__ if isinstance(v, Op) else "")
def test_shapes_that_do_not_fit(op: Op, shape: tuple[int | None, ...], reason: str) -> None:
    with pytest.raises(ShapeError, match=rf"layer 'n'.*{reason}"):
        Graph([Spec(shape, F64)], [Node(op, (0,), "n")], [1])


def test_short_inputs_of_open_size_are_refused_when_called() -> None:
    op = Conv(numbers(5, 2, 3), None, (1,), "valid", (1,))
    assert op.infer(Spec((None, 2), F64)).shape == (None, 3)
    with pytest.raises(ShapeError, match="too short"):
        op(numbers(1, 4, 2))


def test_lookups_take_whole_numbers() -> None:
    with pytest.raises(DtypeError, match="whole numbers"):
        Lookup(np.array([1]), np.array([0]), 0).infer(Spec((2,), F32))


def test_windows_of_pairs() -> None:
    assert pairs_of(((1, 2),), [5], [3], [1], [1]) == ((1, 2),)
    assert window_count(((1, 2), (0, 0)), [5, None], [3, 2], [1, 1], [1, 1]) == (6, None)


UNSUPPORTED: list[tuple[Layer, tuple[int | None, ...], str]] = [
    (Layer("Conv2D", "k", {"padding": "causal"}), (9, 9, 2), "padding='causal'"),
    (Layer("Conv2D", "k", {"data_format": "NHWC"}), (9, 9, 2), "data_format"),
    (Layer("Conv2D", "k", {"activation": "no such"}), (9, 9, 2), "no such"),
    (Layer("Conv2D", "k", {"strides": [1, 0]}), (9, 9, 2), "strides"),
    (Layer("Conv2D", "k", {"strides": [1, 1, 1]}), (9, 9, 2), "strides"),
    (Layer("Conv2DTranspose", "k", {"strides": 2, "dilation_rate": 2}), (9, 9, 4), "both above 1"),
    (Layer("Conv2DTranspose", "k", {"output_padding": [1]}), (9, 9, 4), "output_padding"),
    (Layer("MaxPooling1D", "k", {"pool_size": 2, "padding": "full"}), (9, 2), "padding='full'"),
    (Layer("MaxPooling1D", "k", {"pool_size": 2, "data_format": "NWC"}), (9, 2), "data_format"),
    (Layer("ZeroPadding1D", "k", {"padding": [1, 2, 3]}), (9, 2), "padding"),
    (Layer("UpSampling2D", "k", {"size": 2, "interpolation": "cubic"}), (9, 9, 2), "cubic"),
    (Layer("Resizing", "k", {"height": 2, "width": 2, "interpolation": "cubic"}), (9, 9, 2), "cubic"),
    (Layer("Resizing", "k", {"height": 2, "width": 2, "crop_to_aspect_ratio": True}), (None, 9, 2), "unknown"),
    (Layer("Resizing", "k", {"height": 2, "width": 2, "pad_to_aspect_ratio": True}), (None, 9, 2), "unknown"),
    (Layer("Resizing", "k", {"height": 2, "width": 2, "pad_to_aspect_ratio": True, "fill_mode": "wrap"}), (9, 9, 2), "wrap"),
    (Layer("CenterCrop", "k", {"height": 2, "width": 2}), (None, 9, 2), "unknown"),
    (Layer("CategoryEncoding", "k", {"num_tokens": None}), (4,), "num_tokens"),
    (Layer("CategoryEncoding", "k", {"num_tokens": 3, "output_mode": "tf_idf"}), (4,), "tf_idf"),
    (Layer("CategoryEncoding", "k", {"num_tokens": 3, "sparse": True}), (4,), "sparse"),
    (Layer("CategoryEncoding", "k", {"num_tokens": 3}), (4, 2), "output_mode"),
    (Layer("Discretization", "k", {"bin_boundaries": None}), (4,), "boundaries"),
    (Layer("Discretization", "k", {"bin_boundaries": [1.0], "output_mode": "x", "sparse": True}), (4,), "output_mode"),
    (Layer("IntegerLookup", "k", {"vocabulary": None}), (4,), "vocabulary"),
    (Layer("IntegerLookup", "k", {"vocabulary": [1], "num_oov_indices": 0}), (4,), "num_oov_indices"),
    (Layer("IntegerLookup", "k", {"vocabulary": [1], "output_mode": "x"}), (4,), "output_mode"),
    (Layer("Resize", "k", {"size": [2, 2], "interpolation": "cubic"}, module="ops"), (9, 9, 2), "cubic"),
    (Layer("MaxPool", "k", {"pool_size": 2, "padding": "full"}, module="ops"), (9, 9, 2), "full"),
    (Layer("Conv", "k", {}, module="ops"), (9, 9, 2), "tensor of the model"),
]


@pytest.mark.parametrize(("layer", "shape", "reason"), UNSUPPORTED, ids=lambda v: getattr(v, "class_name", ""))
def test_unsupported_options(layer: Layer, shape: tuple[int | None, ...], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        gc.graph_of(layer, shape, weights={"kernel": KERNEL})


def test_standalone_keras_enlarges_as_tensorflow_1() -> None:
    layer, x = Layer("UpSampling2D", "k", {"size": 2, "interpolation": "bilinear"}), np.arange(2.0).reshape(1, 1, 2, 1)
    for version, want in (
        (Version(2, (2, 2, 4)), [0, 0.5, 1, 1]),
        (Version(2, (2, 15, 0), True), [0, 0.25, 0.75, 1]),
        (gc.KERAS3, [0, 0.25, 0.75, 1]),
    ):
        y = gc.graph_of(layer, (1, 2, 1), version=version)(x.astype(F32))[0]
        np.testing.assert_allclose(y[0, 0, :, 0], want)
    with pytest.raises(UnsupportedError, match="theano"):
        gc.graph_of(layer, (1, 2, 1), version=Version(2, (2, 2, 4), False, "theano"))


def test_images_of_whole_numbers() -> None:
    """Keras 3 rounds resized integers back, which is refused; Keras 2 gives floats."""
    layer = Layer("Resizing", "k", {"height": 2, "width": 2})
    with pytest.raises(UnsupportedError, match="rounds"):
        gc.graph_of(layer, (4, 4, 1), dtypes=("uint8",))
    graph = gc.graph_of(layer, (4, 4, 1), dtypes=("uint8",), version=Version(2, (2, 15, 0), True))
    assert graph.specs[-1].dtype == F32


@pytest.mark.parametrize("activation", ["relu", "softmax", {"name": "elu", "alpha": 0.3}])
def test_channels_first(activation: Any) -> None:
    """The same numbers with axes moved; an activation along an axis takes the last one of the file's format, as in Keras."""
    config = {"padding": "same", "kernel_size": [3, 3], "activation": activation}
    weights_of = {"kernel": KERNEL, "bias": numbers(4)}
    x = numbers(2, 5, 6, 2, dtype=F32)
    first = gc.graph_of(Layer("Conv2D", "k", {**config, "data_format": "channels_first"}), (2, 5, 6), weights=weights_of)
    plain = gc.graph_of(Layer("Conv2D", "k", {**config, "activation": None}), (5, 6, 2), weights=weights_of)
    y = plain(x)[0].transpose(0, 3, 1, 2)
    if activation == "relu":
        want = np.maximum(y, 0)
    elif activation == "softmax":
        want = np.exp(y) / np.exp(y).sum(axis=-1, keepdims=True)
    else:
        want = np.where(y > 0, y, 0.3 * np.expm1(y))
    np.testing.assert_allclose(first(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))[0], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "variable", "shape"),
    [
        (Layer("Conv2D", "k"), "kernel", (None, None, 2)),
        (Layer("Conv2D", "k", {"groups": 3, "data_format": "channels_first"}), "kernel", (6, None, None)),
        (Layer("DepthwiseConv2D", "k"), "kernel", (None, None, 2)),
        (Layer("SeparableConv2D", "k"), "depthwise_kernel", (None, None, 2)),
        (Layer("Conv2DTranspose", "k"), "kernel", (None, None, 4)),
        (Layer("Conv2DTranspose", "k", {"data_format": "channels_first"}), "kernel", (4, None, None)),
        (Layer("Conv1D", "k"), "kernel", None),
        (Layer("Conv1DTranspose", "k"), "kernel", None),
    ],
)
def test_input_shapes_from_kernels(layer: Layer, variable: str, shape: tuple[int | None, ...] | None) -> None:
    kind = find(layer)
    assert kind is not None
    assert kind.input_shape(layer.config, {variable: KERNEL}) == shape
    assert kind.input_shape(layer.config, {}) is None


def test_kernels_that_contradict_the_config() -> None:
    for layer, kernel in (
        (Layer("Conv2D", "k", {"kernel_size": [2, 2]}), KERNEL),
        (Layer("DepthwiseConv2D", "k", {}), numbers(3, 3, 2)),
    ):
        with pytest.raises(NpinferError, match="kernel"):
            gc.graph_of(layer, (9, 9, 2), weights={"kernel": kernel})


def test_ranks_that_contradict_the_layer() -> None:
    for name in ("Conv2D", "ZeroPadding2D", "Cropping2D", "MaxPooling2D"):
        config = {"padding": 1} if name.startswith("Zero") else {"cropping": 1, "pool_size": 2}
        with pytest.raises(ShapeError, match="3 axes"):
            gc.graph_of(Layer(name, "k", config), (9, 2), weights={"kernel": KERNEL})
    with pytest.raises(ShapeError, match="leaves nothing"):
        gc.graph_of(Layer("Cropping1D", "k", {"cropping": [4, 5]}), (9, 2))


def test_unknown_numbers_are_spread_by_remainder() -> None:
    """As Keras 3.15 gives for vocabulary [3, 5, 1]: places 0 and 1 take what is unknown."""
    layer = Layer("IntegerLookup", "k", {"vocabulary": [3, 5, 1], "num_oov_indices": 2})
    graph = gc.graph_of(layer, (6,), dtypes=("int32",))
    np.testing.assert_array_equal(graph(np.array([[0, 1, 2, 3, 4, 7]], np.int32))[0], [[0, 4, 0, 2, 0, 1]])


def test_an_activation_with_weights_in_a_convolution() -> None:
    held = Layer("PReLU", "p", {})
    layer = Layer("Conv1D", "k", {"kernel_size": 1, "activation": held})
    weights = {"kernel": np.ones((1, 1, 1), F32), "bias": np.zeros(1, F32), "activation/alpha": np.full((2, 1), 0.5, F32)}
    assert [v.name for v in variables_of(layer)] == ["kernel", "bias", "activation/alpha"]
    graph = gc.graph_of(layer, (2, 1), weights=weights)
    np.testing.assert_array_equal(graph(np.array([[[-2.0], [3.0]]], F32))[0], [[[-1.0], [3.0]]])


def test_results_of_lists_have_no_mask_in_keras_3_0_to_3_3() -> None:
    calls = (Call(([TensorRef("m", 0, 0), TensorRef("m", 0, 0)],)),)
    x = np.array([[[1.0], [0.0]]], F32)
    for version, want in ((Version(3, (3, 3, 3)), 1.0), (gc.KERAS3, 2.0)):
        layers = (
            Layer("InputLayer", "i", {"shape": (2, 1), "dtype": "float32"}, (Call(),)),
            Layer("Masking", "m", {}, (Call((TensorRef("i", 0, 0),)),)),
            Layer("Add", "a", {}, calls),
            Layer("GlobalAveragePooling1D", "g", {}, (Call((TensorRef("a", 0, 0),)),)),
        )
        model = Model("f", layers, (TensorRef("i", 0, 0),), TensorRef("g", 0, 0))
        graph = lower(Archive(model, {}, (), version, "file")).graph
        np.testing.assert_array_equal(graph(x)[0], [[want]])
