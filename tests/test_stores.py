"""Keras 3's stores: arrays by path to layers, the names that paths go by, and stores that don't fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from saved_files import dense_entry, k3, numbers, pair, store

from npinfer.errors import FormatError, NpinferError, ShapeError
from npinfer.graph import Array
from npinfer.readers import stores

TWO3 = k3(("Dense", "q", {"units": 2}), ("Dropout", "drop", {"rate": 0.5}), ("Dense", "p", {"units": 2}))


@pytest.mark.parametrize(
    ("first", "second", "more"),
    [
        ("layers/dense", "layers/dense_1", {}),
        ("layers/dense", "layers/dense_1", {"layers/dropout/seed_generator/vars/0": np.zeros(2, "uint32")}),
        ("layers/dense", "layers/dense_1", {"optimizer/vars/0": numbers(1)}),
        ("_layer_checkpoint_dependencies/dense", "_layer_checkpoint_dependencies/dense_1", {}),
        ("_layer_checkpoint_dependencies/dense", "_layer_checkpoint_dependencies/dense_2", {}),  # 2.13 counts twice
        ("layers/q", "layers/p", {}),  # named after the layers
    ],
)
def test_stores(first: str, second: str, more: dict[str, Array]) -> None:
    arrays = {**pair(second, 2), **pair(first), **more}
    archive = store(TWO3, arrays)
    np.testing.assert_array_equal(archive.weights["q",]["kernel"], arrays[f"{first}/vars/0"])
    np.testing.assert_array_equal(archive.weights["p",]["bias"], arrays[f"{second}/vars/1"])


@pytest.mark.parametrize(
    ("arrays", "names_", "error", "message"),
    [
        ({}, {}, FormatError, "no weights"),
        (pair("layers/dense"), {}, FormatError, r"layer 'p' \(Dense\) needs 2 arrays \(kernel, bias\), the file has no group"),
        (
            {**pair("layers/dense"), **pair("layers/dense_1", 2), **pair("layers/gru")},
            {},
            FormatError,
            "nothing .* layers/gru/vars/0",
        ),
        ({**pair("layers/dense"), **pair("layers/dense_1", 2), "vars/0": numbers(1)}, {}, FormatError, "nothing .* vars/0"),
        ({**pair("layers/dense"), "layers/dense_1/vars/0": numbers(2, 2)}, {}, FormatError, "needs 2 arrays .* has 1"),
        ({**pair("layers/dense", 2, 3), **pair("layers/dense_1", 2)}, {}, ShapeError, r"kernel has the shape \[2, 3\]"),
        (
            {**pair("layers/dense"), **pair("layers/dense_1", 2)},
            {"layers/dense/vars": "p", "layers/dense_1/vars": "q"},
            FormatError,
            "another order: 'p' in the place of 'q'",
        ),
    ],
)
def test_stores_that_do_not_fit(arrays: Any, names_: Any, error: type[NpinferError], message: str) -> None:
    with pytest.raises(error, match=message):
        store(TWO3, arrays, names_)


def test_names_of_another_model_in_a_store_mean_nothing() -> None:
    names_ = {"layers/dense/vars": "dense_78", "layers/dense_1/vars": "dense_79"}
    assert set(store(TWO3, {**pair("layers/dense"), **pair("layers/dense_1", 2)}, names_).weights) == {("q",), ("p",)}


def test_stores_of_wrappers_and_cells() -> None:
    kinds = (("LSTMCell", "x"), ("GRUCell", "y"), ("LSTMCell", "z"))
    cells = [{"class_name": c, "config": {"name": n, "units": 2, "trainable": True}} for c, n in kinds]
    cell = {"class_name": "StackedRNNCells", "config": {"name": "st", "cells": cells, "trainable": True}}
    config = k3(("RNN", "r", {"cell": cell}), shape=(4, 3))
    arrays = {}
    for name, n_in, count in (("lstm_cell", 3, 4), ("gru_cell", 2, 3), ("lstm_cell_1", 2, 4)):
        bias = numbers(2, 6) if count == 3 else numbers(8)
        for k, a in enumerate((numbers(n_in, 2 * count), numbers(2, 2 * count), bias)):
            arrays[f"layers/rnn/cell/cells/{name}/vars/{k}"] = a
    found = store(config, arrays).weights["r",]
    np.testing.assert_array_equal(found["cell/cells/2/kernel"], arrays["layers/rnn/cell/cells/lstm_cell_1/vars/0"])


def test_a_layer_that_two_models_share_is_stored_once() -> None:
    inner = {"class_name": "Sequential", "config": {"name": "in", "layers": [dense_entry("shared")]}}
    inner["config"]["layers"][0]["config"] |= {"units": 3, "batch_input_shape": [None, 3], "trainable": True}
    last = {"class_name": "Dense", "config": {"name": "shared", "units": 3, "trainable": True}}
    config = {"class_name": "Sequential", "config": {"name": "s", "layers": [inner, last]}}
    arrays = pair("layers/sequential/layers/dense", 3, 3)
    found = store(config, arrays).weights
    np.testing.assert_array_equal(found["shared",]["kernel"], found["in", "shared"]["kernel"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("MultiHeadAttention", "multi_head_attention"), ("Conv2D", "conv2d"), ("LSTM", "lstm"), ("pkg>MyLayer", "my_layer")],
)
def test_names_of_stores(name: str, expected: str) -> None:
    assert stores.snake(name) == expected


def test_an_unknown_layer_in_a_store() -> None:
    config = k3(("Dense", "q", {"units": 2}), ("Weird", "w", {}))
    arrays = {**pair("layers/dense"), "layers/weird/vars/0": numbers(2), "layers/weird/inner/vars/0": numbers(1)}
    assert set(store(config, arrays).weights["w",]) == {"0", "inner/0"}


def test_spectral_normalization_tracks_the_kernel_of_its_layer() -> None:
    layer = {"class_name": "Dense", "config": {"name": "d", "units": 2, "trainable": True}}
    config = k3(("SpectralNormalization", "sn", {"layer": layer, "power_iterations": 1}))
    base = "layers/spectral_normalization"
    arrays = {f"{base}/vars/0": numbers(3, 2), f"{base}/vars/1": numbers(1, 2), **pair(f"{base}/layer")}
    archive = store(config, arrays)
    assert [v for _, v in archive.order] == ["layer/kernel", "vector_u", "layer/bias"]
    np.testing.assert_array_equal(archive.weights["sn",]["vector_u"], arrays[f"{base}/vars/1"])
