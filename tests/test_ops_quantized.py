"""Quantized layers: their rounding, their numbers, and what is refused."""

from __future__ import annotations

from typing import Any

import keras_files as kf
import numpy as np
import pytest
from keras_files import numbers

from npinfer.errors import UnsupportedError
from npinfer.graph import Array, Graph
from npinfer.ops import quantized
from npinfer.readers.archive import Layer
from npinfer.readers.lower import lower

W, B = numbers(4, 3), numbers(3)


def test_float8_rounding() -> None:
    """All 253 finite numbers of e4m3fn stay, what lies between goes to the nearest, ties to the even one."""
    codes = np.arange(128)
    exponent, mantissa = codes >> 3, codes & 7
    held = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))[:127]
    np.testing.assert_array_equal(quantized.float8(np.concatenate([held, -held]), 1.0), np.concatenate([held, -held]))
    middles = (held[1:] + held[:-1]) / 2
    np.testing.assert_array_equal(quantized.float8(middles, 1.0), np.where(codes[:126] % 2 == 0, held[:-1], held[1:]))
    np.testing.assert_array_equal(
        quantized.float8(np.float32([1e9, -1e9, np.nan, 3.1]), 0.5), np.float32([224, -224, np.nan, 3.0])
    )


def test_int4_nibbles() -> None:
    packed = np.array([[45, -121], [1, 0]], np.int8)  # Keras's own example: -3, 2 and 7, -8
    np.testing.assert_array_equal(quantized._unpacked(packed.T, 3), [[-3, 2, 1], [7, -8, 0]])


def quantized_model(mode: str, weights: dict[str, Array], class_name: str = "Dense", **config: Any) -> Graph:
    layer = Layer(class_name, "q", {"units": 3, "output_dim": 3, **config}, dtype=f"{mode}_from_float32")
    return lower(kf.archive(layer, [(4,)], weights)).graph


def test_int8_weights_alone() -> None:
    kernel, scale = np.arange(-6, 6, dtype=np.int8).reshape(4, 3), np.float32([10, 20, 40])
    options = {"class_name": "Int8QuantizationConfig", "config": {"activation_quantizer": None}}
    graph = quantized_model("int8", {"kernel": kernel, "kernel_scale": scale}, quantization_config=options)
    x = numbers(5, 4)
    np.testing.assert_allclose(graph(x)[0], x @ (kernel / scale), rtol=1e-5, atol=1e-7)


def test_int8_by_numbers_of_the_store() -> None:
    kernel, scale = np.arange(-6, 6, dtype=np.int8).reshape(4, 3), np.float32([10, 20, 40])
    graph = quantized_model("int8", {"0": kernel, "1": B, "2": scale})
    x = numbers(5, 4)
    steps = 127 / (np.abs(x).max(1, keepdims=True) + np.float32(1e-7))
    np.testing.assert_allclose(graph(x)[0], np.rint(x * steps) @ kernel / (scale * steps) + B, rtol=1e-5, atol=1e-6)


def test_wide_int8_sums_are_exact() -> None:
    kernel = np.full((2000, 1), 127, np.int8)
    op = quantized.Int8Dense(kernel.astype(np.float64), np.float32([1.0]))
    assert op(np.ones((1, 2000), np.float32))[0, 0] == pytest.approx(2000 * 127, rel=1e-6)


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_quantized_embedding(mode: str) -> None:
    rows, scale = np.arange(-6, 6, dtype=np.int8).reshape(4, 3), np.float32([1, 2, 4, 8])
    held = rows if mode == "int8" else (rows[:, 0::2] & 15 | np.pad(rows[:, 1::2], ((0, 0), (0, 1))) << 4).astype(np.int8)
    graph = quantized_model(mode, {"embeddings": held, "embeddings_scale": scale}, "Embedding", input_dim=4)
    np.testing.assert_allclose(graph(np.float32([[0, 1, 2, 3]]))[0][0], rows / scale[:, None], rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "config", "weights", "reason"),
    [
        ("int4", {}, {"kernel": np.zeros((4, 2), np.int8)}, "before 3.13"),
        ("gptq", {}, {}, "dtype policy"),
        ("int8", {}, {"kernel": W, "lora_kernel_a": W}, "LoRA"),
        ("int8", {"quantization_config": {"activation_quantizer": {"class_name": "Mine"}}}, {}, "quantized by Mine"),
    ],
)
def test_quantization_that_is_refused(mode: str, config: Any, weights: Any, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        quantized_model(mode, weights, **config)
