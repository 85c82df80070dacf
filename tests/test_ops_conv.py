"""Convolutions, pooling, spatial layers and encodings: against real Keras (tests/graphs), against sums written out, and what no
saved model shows."""

from __future__ import annotations

import itertools
from typing import Any

import graph_cases as gc
import numpy as np
import pytest

from npinfer.errors import DtypeError, NpinferError, ShapeError, UnsupportedError
from npinfer.executors.numpy import NumpyExecutor, Plan
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops import conv as conv_module
from npinfer.ops.activations import Activation
from npinfer.ops.conv import Conv, blocks
from npinfer.ops.conv_transpose import ConvTranspose
from npinfer.ops.encoding import Count, Digitize, Lookup
from npinfer.ops.joining import Concatenate, Pad
from npinfer.ops.merge import MERGES, Merge
from npinfer.ops.pool import AdaptivePool, GlobalPool, Pool, total
from npinfer.ops.registry import find
from npinfer.ops.reshape import Reshape, Transpose
from npinfer.ops.resize import METHODS, Resize, weights
from npinfer.ops.windows import pairs_of, window_count
from npinfer.readers.archive import Layer, Version

F32, F64, I32 = np.dtype("float32"), np.dtype("float64"), np.dtype("int32")
MERGED = ("mask", "flatten", "reshape", "permute", "repeat")


def numbers(*shape: int, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


# against Keras


CASES = list(gc.cases(lambda n: not n.startswith(MERGED)))


@pytest.mark.parametrize(("path", "name"), CASES)
def test_equals_keras(path: Any, name: str, engine: str) -> None:
    """Within 2e-6 of the output's scale (patches are summed in other orders), in Keras's dtype; no rows give no rows."""
    model, xs, y = gc.load(path, name, engine=engine)
    got = model(xs[0])
    assert got.dtype == y.dtype
    gc.assert_near(got, y, 2e-6)
    assert model.outputs[0].shape == y.shape[1:]
    assert model(xs[0][:0]).shape == (0, *y.shape[1:])


@pytest.mark.parametrize(("path", "name"), CASES)
def test_float64(path: Any, name: str) -> None:
    """The same network in float64 lies within Keras's float32 rounding of it."""
    model, xs, y = gc.load(path, name, engine="reference", dtype="float64")
    gc.assert_near(model(xs[0]), y, 2e-6)


# against sums written out


def steps(padding: str, sizes: tuple[int, ...], op: Conv | Pool, dilation: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """First index and number of windows along each axis, from the definition of each padding."""
    window = op.window
    starts, counts = [], []
    for n, k, s, d in zip(sizes, window, op.strides, dilation):
        reach = (k - 1) * d + 1
        if padding == "valid":
            starts.append(0)
            counts.append((n - reach) // s + 1)
        elif padding == "causal":
            starts.append(1 - reach)
            counts.append((n - 1) // s + 1)
        else:
            counts.append(-(-n // s))
            starts.append(-(max((counts[-1] - 1) * s + reach - n, 0) // 2))
    return starts, counts


def inside(place: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    return all(0 <= p < n for p, n in zip(place, sizes))


def slow_conv(op: Conv, x: Array) -> Array:
    sizes, channels, filters = x.shape[1:-1], x.shape[-1], op.kernel.shape[-1]
    assert isinstance(op.padding, str)
    starts, counts = steps(op.padding, sizes, op, op.dilation)
    y = np.zeros((len(x), *counts, filters))
    each = channels // op.groups
    for at in np.ndindex(*counts):
        for tap in np.ndindex(*op.window):
            place = tuple(a + i * s + t * d for a, i, s, t, d in zip(starts, at, op.strides, tap, op.dilation))
            if not inside(place, sizes):
                continue
            for f in range(filters):
                group = f // (filters // op.groups)
                y[(slice(None), *at, f)] += (
                    x[(slice(None), *place, slice(group * each, (group + 1) * each))] @ op.kernel[(*tap, slice(None), f)]
                )
    return y if op.bias is None else y + op.bias


CONVS = [
    Conv(numbers(*window, channels // groups, filters), numbers(filters), strides, padding, dilation, groups)
    for (window, strides, dilation), padding, (channels, groups, filters) in itertools.product(
        [
            ((3,), (1,), (1,)), ((2,), (3,), (1,)), ((3,), (1,), (2,)), ((1,), (2,), (1,)),
            ((2, 3), (1, 1), (1, 1)), ((3, 2), (2, 1), (1, 1)), ((2, 2), (1, 1), (2, 1)), ((1, 1), (1, 1), (1, 1)),
            ((2, 1, 3), (1, 2, 1), (1, 1, 1)),
        ],
        ("valid", "same", "causal"),
        [(4, 1, 6), (4, 2, 6), (4, 4, 4), (4, 4, 8), (1, 1, 2)],
    )
    if padding != "causal" or len(window) == 1
]  # fmt: skip


@pytest.mark.parametrize("op", CONVS, ids=lambda op: f"{op.kernel.shape}-{op.strides}-{op.padding}-{op.dilation}-{op.groups}")
def test_convolution_is_its_sum(op: Conv) -> None:
    channels = op.kernel.shape[-2] * op.groups
    x = numbers(2, *(7, 6, 5)[: len(op.window)], channels)
    want = slow_conv(op, x)
    np.testing.assert_allclose(op(x), want, rtol=0, atol=1e-13)
    spec = op.infer(Spec(x.shape[1:], F64))
    assert isinstance(spec, Spec)
    assert spec.shape == want.shape[1:]
    assert op.infer(Spec((*(None,) * len(op.window), channels), F64)).shape == (*(None,) * len(op.window), want.shape[-1])


def test_blocks_cover_every_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the block size: of samples, of rows, of one row."""
    op, x = Conv(numbers(3, 3, 2, 5), None, (1, 1), "same", (1, 1)), numbers(4, 9, 8, 2)
    want = op(x)
    for size in (1, 8 * 18 * 8 * 2, 8 * 18 * 8 * 9, 1 << 30):
        monkeypatch.setattr(conv_module, "BLOCK", size)
        np.testing.assert_allclose(op(x), want, rtol=0, atol=1e-14)
        seen = np.zeros((4, 9), int)
        for samples, rows in blocks(4, (9, 8), 18 * 8, 0):
            seen[samples, rows] += 1
        assert (seen == 1).all()


def slow_transpose(op: ConvTranspose, x: Array) -> Array:
    """The adjoint of the convolution that takes y to x: y · adjoint(x) = conv(y) · x for every y."""
    spec = op.infer(Spec(x.shape[1:], F64))
    assert isinstance(spec, Spec)
    y = np.zeros((len(x), *(n or 0 for n in spec.shape)))
    forward = Conv(op.kernel, None, op.strides, op.padding, op.dilation)
    for at in np.ndindex(*y.shape[1:]):
        one = np.zeros((1, *y.shape[1:]))
        one[(0, *at)] = 1
        y[(slice(None), *at)] = (forward(one) * x).reshape(len(x), -1).sum(axis=1)
    return y if op.bias is None else y + op.bias


TRANSPOSES = [
    ConvTranspose(numbers(*window, 2, 3), numbers(2), strides, padding, extra, dilation)
    for (window, strides, extra, dilation), padding in itertools.product(
        [
            ((3,), (1,), None, (1,)), ((3,), (2,), None, (1,)), ((2,), (3,), None, (1,)), ((3,), (1,), None, (2,)),
            ((5,), (2,), (1,), (1,)), ((2, 3), (2, 1), None, (1, 1)), ((1, 2), (2, 2), None, (1, 1)),
            ((2, 2, 2), (1, 2, 1), None, (1, 1, 1)),
        ],
        ("valid", "same"),
    )
]  # fmt: skip


@pytest.mark.parametrize("op", TRANSPOSES, ids=lambda op: f"{op.kernel.shape}-{op.strides}-{op.padding}-{op.output_padding}")
def test_transposed_convolution_is_the_adjoint(op: ConvTranspose) -> None:
    x = numbers(2, *(4, 3, 2)[: op.kernel.ndim - 2], 3)
    np.testing.assert_allclose(op(x), slow_transpose(op, x), rtol=0, atol=1e-13)


POOLS = [
    Pool(kind, window, strides, padding)
    for kind, padding, (window, strides) in itertools.product(
        ("max", "average"),
        ("valid", "same"),
        [((2,), (2,)), ((3,), (1,)), ((1,), (2,)), ((2, 3), (1, 2)), ((3, 1), (2, 2)), ((2, 1, 2), (2, 1, 1))],
    )
]


@pytest.mark.parametrize("op", POOLS, ids=lambda op: f"{op.kind}-{op.window}-{op.strides}-{op.padding}")
def test_pooling_is_its_definition(op: Pool) -> None:
    x = numbers(2, *(7, 6, 5)[: len(op.window)], 3)
    sizes = x.shape[1:-1]
    assert isinstance(op.padding, str)
    starts, counts = steps(op.padding, sizes, op, (1,) * len(sizes))
    want = np.zeros((2, *counts, 3))
    for at in np.ndindex(*counts):
        places = [tuple(a + i * s + t for a, i, s, t in zip(starts, at, op.strides, tap)) for tap in np.ndindex(*op.window)]
        kept = np.stack([x[(slice(None), *p)] for p in places if inside(p, sizes)])
        want[(slice(None), *at)] = kept.max(axis=0) if op.kind == "max" else kept.mean(axis=0)
    np.testing.assert_allclose(op(x), want, rtol=0, atol=1e-14)


def test_sums_of_many_float32_keep_their_digits() -> None:
    x = np.random.default_rng(0).uniform(size=(1, 100_000, 2)).astype(F32)
    np.testing.assert_allclose(total(x), x.sum(axis=1, keepdims=True, dtype=F64), rtol=1e-6)


def test_maxima_of_integers() -> None:
    x = np.array([[[-5], [-7], [-9]]], I32)
    np.testing.assert_array_equal(Pool("max", (2,), (2,), "same")(x), [[[-5], [-9]]])


def test_nan_and_inf_pass_through_maxima() -> None:
    x = np.array([[[np.nan], [1.0], [np.inf], [2.0]]], F32)
    np.testing.assert_array_equal(Pool("max", (2,), (2,))(x), [[[np.nan], [np.inf]]])
    np.testing.assert_array_equal(GlobalPool("max")(x), [[np.nan]])


def test_average_over_masked_steps() -> None:
    x, mask = numbers(2, 4, 3), np.array([[True, True, False, False], [False] * 4])
    with np.errstate(invalid="ignore"):
        y = GlobalPool("average", True)(x, mask)
    np.testing.assert_allclose(y[0, 0], x[0, :2].mean(axis=0))
    assert np.isnan(y[1]).all()


@pytest.mark.parametrize("method", [m for m in METHODS if m != "nearest"])
def test_constant_images_stay_constant(method: str) -> None:
    """Also where images shrink, and however TensorFlow places pixels."""
    x = np.full((1, 9, 7, 2), 3.0)
    for antialias, centered in itertools.product((False, True), repeat=2):
        y = Resize((4, 11), method, antialias, centered)(x)
        np.testing.assert_allclose(y, np.full((1, 4, 11, 2), 3.0), rtol=1e-6)
    assert weights(9, 4, method, True, True).shape == (4, 9)


# the NumPy executor's prepared calls


def narrow(op: Conv, biased: bool) -> Conv:
    """A case in float32, with its bias or without."""
    assert op.bias is not None
    return op.replace(kernel=op.kernel.astype(F32), bias=op.bias.astype(F32) if biased else None)


def image(op: Conv) -> tuple[int, ...]:
    return (*(7, 6, 5)[: len(op.window)], op.kernel.shape[-2] * op.groups)


PREPARED: list[tuple[Op, list[tuple[int, ...]]]] = [
    *((narrow(op, k % 2 == 0), [image(op)]) for k, op in enumerate(CONVS)),
    (Conv(numbers(3, 3, 2, 4, dtype=F32), numbers(4, dtype=F32), (1, 1), "same", (1, 1), 1, Activation("relu")), [(9, 8, 2)]),
    (Conv(numbers(3, 3, 1, 4, dtype=F32), numbers(4, dtype=F32), (1, 1), "same", (1, 1), 4, Activation("relu")), [(9, 8, 4)]),
    (Conv(numbers(3, 3, 1, 300, dtype=F32), None, (1, 1), "same", (1, 1), 300), [(4, 5, 300)]),
    (Conv(numbers(3, 3, 1, 2, dtype=F32), numbers(2, dtype=F32), (1, 1), "valid", (1, 1)), [(9, 60, 1)]),
    *((op, [(*(7, 6, 5)[: len(op.window)], 3)]) for op in POOLS),
    (Pool("max", (1, 1), (1, 1)), [(3, 4, 2)]),
    (Concatenate(1), [(3, 2), (3, 4)]),
    (Reshape((2, -1)), [(3, 4)]),
    (Reshape((-1,)), [(3, 4)]),
    (Transpose((1, 0)), [(3, 4)]),
    *((Merge(kind), [(3, 4)] * 2) for kind in MERGES),
    (Merge("average"), [(3, 4), (3, 4), (1, 4)]),
    (Merge("add"), [(1, 4), (3, 1), (3, 4)]),
    (Merge("add"), [(3, 4)]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shapes"), PREPARED, ids=lambda v: repr(v)[:80] if isinstance(v, Op) else "")
def test_prepared_calls_equal_the_meaning(op: Op, shapes: list[tuple[int, ...]]) -> None:
    """One sample, several, and a second run on the same buffers."""
    graph = Graph([Spec(s, F32) for s in shapes], [Node(op, tuple(range(len(shapes))), "n")], [len(shapes)])
    executor = NumpyExecutor(graph)
    for rows in (3, 1, 3):
        xs = [numbers(rows, *s, dtype=F32) for s in shapes]
        want = graph(*xs)[0]
        np.testing.assert_allclose(executor.run(xs)[0], want, rtol=0, atol=2e-6 * np.abs(want).max())
    one = Plan(graph, None)([x[0] for x in xs])[0]
    np.testing.assert_allclose(one, want[0], rtol=0, atol=2e-6 * np.abs(want).max())


# shapes and options


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
    (Layer("IntegerLookup", "k", {"vocabulary": [1], "num_oov_indices": 2}), (4,), "num_oov_indices"),
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


def test_same_pooling_of_theano_begins_earlier() -> None:
    """As Keras 1.1.2 on Theano computes it; TensorFlow's windows of two begin at the first element."""
    x = np.arange(1, 6, dtype=np.float32).reshape(1, 5, 1)
    config = {"pool_size": [2], "strides": [2], "padding": "same"}
    theano = Version(1, (1, 1, 2), backend="theano")
    y = gc.graph_of(Layer("MaxPooling1D", "k", config), (5, 1), version=theano)(x)[0]
    np.testing.assert_array_equal(y, np.array([1, 3, 5], np.float32).reshape(1, 3, 1))
    with pytest.raises(UnsupportedError, match="Theano with a size that is unknown"):
        gc.graph_of(Layer("MaxPooling1D", "k", config), (None, 1), version=theano)


def test_same_convolution_of_theano_begins_half_a_kernel_earlier() -> None:
    """Even kernels and strides: TensorFlow's windows begin elsewhere (here at the first element)."""
    x, weights = np.arange(1, 5, dtype=np.float32).reshape(1, 4, 1), {"kernel": np.ones((2, 1, 1), np.float32)}
    config = {"filters": 1, "kernel_size": [2], "strides": [2], "padding": "same", "use_bias": False}
    theano = Version(1, (1, 1, 2), backend="theano")
    layer = Layer("Conv1D", "k", config)
    for version, want in ((theano, [1, 5]), (gc.KERAS3, [3, 7])):
        y = gc.graph_of(layer, (4, 1), version=version, weights=weights)(x)[0]
        np.testing.assert_array_equal(y, np.array(want, np.float32).reshape(1, 2, 1))
    with pytest.raises(UnsupportedError, match="Theano with strides and a size that is unknown"):
        gc.graph_of(layer, (None, 1), version=theano, weights=weights)
