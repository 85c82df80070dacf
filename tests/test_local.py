"""LocallyConnected1D and 2D beyond what real Keras shows in tests/seeded: old configs, unknown sizes, what doesn't fit."""

from __future__ import annotations

from typing import Any

import graph_cases as gc
import numpy as np
import pytest

from npinfer.errors import NpinferError, ShapeError, UnsupportedError
from npinfer.graph import Array, Spec
from npinfer.ops.local import LocallyConnected
from npinfer.readers import interpret
from npinfer.readers.archive import Layer, Version
from npinfer.readers.lower import lower
from npinfer.readers.raw import RawFile, stored

F32 = np.dtype("float32")
KERAS2 = Version(2, (2, 15, 0), True)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(F32)


def slow(x: Array, kernel: Array, bias: Array, window: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Place by place; kernel: (*places, *window, channels, filters)."""
    y = np.zeros((len(x), *bias.shape), F32)
    for place in np.ndindex(*bias.shape[:-1]):
        part = x[(slice(None), *(slice(p * s, p * s + k) for p, s, k in zip(place, strides, window)))]
        y[(slice(None), *place)] = part.reshape(len(x), -1) @ kernel[place].reshape(-1, kernel.shape[-1]) + bias[place]
    return y


OLD: list[tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    (
        "LocallyConnected1D",
        {"nb_filter": 4, "filter_length": 3, "subsample_length": 2, "border_mode": "valid", "bias": True},
        (7, 2), (3,), (2,),
    ),
    (
        "LocallyConnected2D",
        {"nb_filter": 4, "nb_row": 2, "nb_col": 3, "subsample": [1, 2], "dim_ordering": "tf", "bias": True},
        (4, 5, 2), (2, 3), (1, 2),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("class_name", "options", "shape", "window", "strides"), OLD, ids=["1d", "2d"])
def test_keras_1(class_name: str, options: dict[str, Any], shape: Any, window: Any, strides: Any) -> None:
    """Keras 1's names, against the sum that its source writes out."""
    places = tuple((n - k) // s + 1 for n, k, s in zip(shape, window, strides))
    depth = int(np.prod(window)) * shape[-1]
    kernel, bias = numbers(int(np.prod(places)), depth, 4), numbers(*places, 4)
    config = {"name": "lc", "activation": "linear", "batch_input_shape": [None, *shape], **options}
    model = {"class_name": "Sequential", "config": [{"class_name": class_name, "config": config}], "keras_version": "1.2.2"}
    raw = RawFile("file", model, "1.2.2", legacy=[("lc", [("lc_W:0", stored(kernel)), ("lc_b:0", stored(bias))])])
    x = numbers(3, *shape)
    (y,) = lower(interpret(raw, model, "1.2.2", None)).graph(x)
    want = slow(x, kernel.reshape(*places, *window, shape[-1], 4), bias, window, strides)
    np.testing.assert_allclose(y, want, rtol=0, atol=1e-5)


def local(rank: int = 1, **config: Any) -> Layer:
    return Layer(f"LocallyConnected{rank}D", "lc", {"filters": 4, "kernel_size": [3, 2][:rank], **config})


def test_sizes_that_only_arrays_tell() -> None:
    """A file without an input shape: the number of places is the kernel's or the bias's, and other lengths are refused."""
    graph = gc.graph_of(local(), (None, 2), weights={"kernel": numbers(5, 6, 4)}, version=KERAS2)
    assert graph.specs[graph.outputs[0]].shape == (5, 4)
    assert graph(numbers(2, 7, 2))[0].shape == (2, 5, 4)
    held = {"kernel": numbers(20, 12, 4), "bias": numbers(4, 5, 4)}
    graph = gc.graph_of(local(2), (None, None, 2), weights=held, version=KERAS2)
    assert graph(numbers(2, 6, 6, 2))[0].shape == (2, 4, 5, 4)
    held = {"kernel": numbers(7, 2, 5, 4), "bias": numbers(5, 4)}
    graph = gc.graph_of(local(implementation=2), (None, 2), weights=held, version=KERAS2)
    assert graph(numbers(2, 7, 2))[0].shape == (2, 5, 4)
    held = {"kernel": numbers(2, 7, 4, 5)}
    graph = gc.graph_of(local(implementation=2, data_format="channels_first"), (2, None), weights=held, version=KERAS2)
    assert graph(numbers(2, 2, 7))[0].shape == (2, 4, 5)


ONE, TWO, THREE = {"implementation": 1}, {"implementation": 2}, {"implementation": 3}
BAD: list[tuple[Layer, tuple[int | None, ...], tuple[int, ...], tuple[int, ...] | None, str]] = [
    (local(**ONE), (7, 2), (5, 6, 3), None, r"kernel has shape \[5, 6, 3\]; \[5, 6, 4\] is needed"),
    (local(**ONE), (8, 2), (5, 6, 4), None, r"\[6, 6, 4\] is needed"),
    (local(**ONE), (7, 2), (5, 6, 4), (4,), r"bias has shape \[4\]; \[5, 4\] is needed"),
    (local(**ONE), (2, 2), (5, 6, 4), None, "a window of 3 for an axis of size 2"),
    (local(**ONE), (7,), (5, 6, 4), None, "takes 2 axes a sample"),
    (local(**TWO), (7, None), (7, 2, 5, 4), None, "channels is unknown"),
    (local(**ONE, strides=0), (7, 2), (5, 6, 4), None, "strides=0"),
    (local(2, **ONE), (None, None, 2), (20, 12, 4), None, "the file doesn't say"),
    (local(**TWO), (7, 2), (7, 2, 5, 3), None, r"\[7, 2, 5, 4\] is needed"),
    (local(**TWO), (7, 2), (7, 2, 5, 4), (4,), r"\[5, 4\] is needed"),
    (local(**THREE), (7, 2), (119,), None, r"\[120\] is needed"),
    (local(**THREE), (7, 2), (4,), None, "is needed"),
    (local(**THREE), (7, 2), (5, 6, 4), None, "is needed"),
    (local(**THREE), (None, 2), (120,), None, "the file doesn't say"),
    (local(**THREE, padding="same"), (10**9, 2), (120,), None, "is needed"),
    (local(**ONE, padding="same"), (7, 2), (7, 6, 4), None, "which no Keras has"),
    (local(implementation=4), (7, 2), (5, 6, 4), None, "implementation=4"),
    (local(padding="causal", implementation=2), (7, 2), (5, 6, 4), None, "padding='causal'"),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "shape", "kernel", "bias", "words"), BAD, ids=[str(k) for k in range(len(BAD))])
def test_what_does_not_fit(layer: Layer, shape: Any, kernel: Any, bias: Any, words: str) -> None:
    held = {"kernel": numbers(*kernel)} | ({} if bias is None else {"bias": numbers(*bias)})
    with pytest.raises(NpinferError, match=words) as caught:
        gc.graph_of(layer, shape, weights=held, version=KERAS2)
    assert isinstance(caught.value, (ShapeError, UnsupportedError))
    assert "'lc'" in str(caught.value)


OP = LocallyConnected(numbers(5, 6, 4), None, (3,), (1,), ((0, 0),))


@pytest.mark.parametrize(
    ("op", "shape", "words"),
    [
        (OP, (7,), "a window"),
        (OP, (7, 3), "don't have the kernel's 6"),
        (OP, (9, 2), r"has \[7\] places"),
        (OP.replace(bias=numbers(4)), (7, 2), "a bias of shape"),
    ],
)
def test_shape_rule(op: LocallyConnected, shape: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        op.infer(Spec(shape, F32))
