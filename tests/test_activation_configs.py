"""Activations by the names and entries of configs, and the table of what is supported."""

from __future__ import annotations

from typing import Any

import keras_files as kf
import numpy as np
import pytest

import npinfer
from npinfer.errors import ShapeError, UnsupportedError
from npinfer.graph import Array
from npinfer.ops.activations import NAMED, WITH_AXIS, Activation, check_activation
from npinfer.ops.registry import NeedsFunction
from npinfer.ops.softmax import Softmax
from npinfer.readers.archive import Layer
from npinfer.readers.lower import lower


def made_of(entry: Any, x: Array, functions: Any = None, class_name: str = "Activation", **config: Any) -> Array:
    layer = Layer(class_name, "act", {"activation": entry, **config})
    lowered = lower(kf.archive(layer, [x.shape[1:]], {}), functions=functions or {})
    return lowered.graph(x)[0]


X = np.random.default_rng(2).normal(scale=2, size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (None, X),
        ("linear", X),
        ("relu6", np.clip(X, 0, 6)),
        ("leaky_relu", np.where(X > 0, X, np.float32(0.2) * X)),
        ({"name": "leaky_relu", "negative_slope": 0.5}, np.where(X > 0, X, X / 2)),
        ({"name": "relu", "max_value": 1, "negative_slope": 0.5}, np.clip(X, 0, 1) - 0.5 * np.maximum(-X, 0)),
        (Layer("LeakyReLU", "l", {}), np.where(X > 0, X, np.float32(0.3) * X)),
        (Layer("ReLU", "l", {"threshold": 0.5}), np.where(X > 0.5, X, 0)),
        (Layer("ELU", "l", {"alpha": 2.0}), np.where(X > 0, X, 2 * np.expm1(np.minimum(X, 0)))),
        (Layer("Activation", "l", {"activation": "tanh"}), np.tanh(X)),
        ({"name": "softmax", "axis": 1}, Softmax()(X)),
        (Layer("Softmax", "l", {"axis": -1}), Softmax()(X)),
        ("silu", X / (1 + np.exp(-X))),
        ("gelu_approximate", Activation("gelu_tanh")(X)),
        ({"name": "gelu", "approximate": True}, Activation("gelu_tanh")(X)),
    ],
    ids=str,
)
def test_config_entries(entry: Any, expected: Array) -> None:
    np.testing.assert_allclose(made_of(entry, X), expected, rtol=1e-6, atol=1e-7)


def test_every_name_works() -> None:
    for name in (*NAMED, *WITH_AXIS):
        entry = {"name": "threshold", "threshold": 0.5, "default_value": 0.0} if name == "threshold" else name
        assert made_of(entry, X).dtype == np.float32


def test_slopes_are_float32_numbers_in_float64_too() -> None:
    """TensorFlow keeps leaky_relu's slope as a float32 attribute."""
    x = X.astype(np.float64)
    layer = Layer("Activation", "act", {"activation": "leaky_relu"}, dtype="float64")
    y = lower(kf.archive(layer, [(4,)], {}), dtype="float64").graph(x)[0]
    np.testing.assert_allclose(y, np.where(x > 0, x, 0.20000000298023224 * x), rtol=1e-15)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("my_act", "'my_act' is unknown"),
        ("custom>relu", "'relu' is unknown"),
        ({"name": "relu", "shape": 3}, "'relu' with"),
        ({"name": "softmax", "axes": 3}, "'softmax' with"),
        ({"name": "threshold"}, "'threshold' with"),
        (7, "activation 7"),
    ],
)
def test_refused_entries(entry: Any, reason: str) -> None:
    (problem,) = check_activation({"activation": entry})
    assert reason in problem
    with pytest.raises(UnsupportedError, match="layer 'act'"):
        made_of(entry, X)


@pytest.mark.parametrize("axis", [0, [0, 1], -2])
def test_softmax_over_the_batch_is_refused(axis: Any) -> None:
    with pytest.raises(UnsupportedError, match="batch axis"):
        made_of(None, X, class_name="Softmax", axis=axis)


def test_functions_stand_in_for_unknown_names() -> None:
    """By the activation's name; not for Keras's own names, unless the file says that the function is the author's."""
    negative = {"relu": lambda x: -x}
    np.testing.assert_array_equal(made_of("my_act", X, {"my_act": lambda x: 2.0 * x}), 2 * X)
    np.testing.assert_array_equal(made_of("custom>relu", X, negative), -X)
    with pytest.raises(UnsupportedError, match="no layer or activation of its own called 'relu'"):
        made_of("relu", X, negative)
    problem = next(check_activation({"activation": "my_act"}))
    assert isinstance(problem, NeedsFunction)
    assert problem.name == "my_act"
    with pytest.raises(ShapeError, match="made shape"):
        made_of("my_act", X, {"my_act": lambda x: x[:, :1]})


def test_supported_lists_layers_and_activations() -> None:
    rows = npinfer.supported()
    found = {(r.kind, r.name): r.note for r in rows}
    assert found["layer", "Dense"].startswith("Over the last axis")
    assert {("activation", "gelu"), ("operation", "Gelu")} <= set(found)
    assert ("activation", "hard_sigmoid_k2") not in found
    assert not [r.name for r in rows if r.kind == "layer" and not r.note]


def test_supported_reads_as_a_table() -> None:
    rows = npinfer.supported()
    lines = str(rows).split("\n")
    assert lines[0] == f"Layers ({sum(r.kind == 'layer' for r in rows)})"
    assert max(map(len, lines)) <= 110
    (dense,) = (line for line in lines if line.split()[:1] == ["Dense"])
    assert dense.split(None, 1)[1].startswith("Over the last axis")
    text = " ".join(" ".join(lines).replace(",", " ").split())
    assert all(f" {r.name} " in f"{text} " for r in rows)
    assert repr(rows).startswith(f"Table of {len(rows)} rows:\nLayers (")
