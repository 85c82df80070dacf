"""Convolutions, pooling, spatial layers and encodings: against real Keras (tests/graphs) and against sums written out."""

from __future__ import annotations

import itertools
from typing import Any

import graph_cases as gc
import numpy as np
import pytest
from graph_cases import numbers

from npinfer.errors import UnsupportedError
from npinfer.executors.numpy import NumpyExecutor, Plan
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops import conv as conv_module
from npinfer.ops.activations import Activation
from npinfer.ops.conv import Conv, blocks
from npinfer.ops.conv_transpose import ConvTranspose
from npinfer.ops.joining import Concatenate
from npinfer.ops.merge import MERGES, Merge
from npinfer.ops.pool import GlobalPool, Pool, total
from npinfer.ops.reshape import Reshape, Transpose
from npinfer.ops.resize import METHODS, Resize, weights
from npinfer.readers.archive import Layer, Version

F32, F64, I32 = np.dtype("float32"), np.dtype("float64"), np.dtype("int32")
MERGED = ("mask", "flatten", "reshape", "permute", "repeat")


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
