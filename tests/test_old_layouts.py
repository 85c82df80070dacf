"""Layouts of arrays in files of Keras 0 to 2 and of other backends, turned into today's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN
from saved_files import assert_same_list, model, numbers, read

from npinfer import readers
from npinfer.errors import ShapeError
from npinfer.graph import Array
from npinfer.readers import order


def gates(units: int, n_in: int, order_: str) -> list[tuple[str, Array]]:
    return [
        (f"r_{a}_{g}:0", numbers(*s)) for g in order_ for a, s in (("W", (n_in, units)), ("U", (units, units)), ("b", (units,)))
    ]


@pytest.mark.parametrize(("class_name", "order_", "later"), [("LSTM", "icfo", "ifco"), ("GRU", "zrh", "zrh")])
def test_keras_1_keeps_one_array_a_gate(class_name: str, order_: str, later: str) -> None:
    config = model((class_name, "r", {"output_dim": 2}), shape=(4, 3))
    held = gates(2, 3, order_)
    archive = read(config, [("r", held)], "1.2.2", None)
    found, arrays = archive.weights["r",], dict(held)
    np.testing.assert_array_equal(found["cell/kernel"], np.concatenate([arrays[f"r_W_{g}:0"] for g in later], -1))
    np.testing.assert_array_equal(found["cell/bias"], np.concatenate([arrays[f"r_b_{g}:0"] for g in later]))
    assert_same_list(order.weights_to_list(archive), [a for _, a in held])


CONV2D = {"filters": 5, "nb_filter": 5, "nb_row": 2, "nb_col": 3, "kernel_size": [2, 3], "border_mode": "valid"}


@pytest.mark.parametrize(
    ("config", "version", "backend", "suffix", "kernel", "change"),
    [
        (CONV2D, "1.2.2", None, ":0", (2, 3, 4, 5), lambda w: w),
        ({**CONV2D, "dim_ordering": "th"}, "1.2.2", None, ":0", (5, 4, 2, 3), lambda w: w.transpose(2, 3, 1, 0)),
        ({**CONV2D, "dim_ordering": "th"}, "1.2.2", None, "", (5, 4, 2, 3), lambda w: w.transpose(2, 3, 1, 0)[::-1, ::-1]),
        (CONV2D, "1.2.2", None, "", (2, 3, 4, 5), lambda w: w[::-1, ::-1]),
        (CONV2D, "2.0.9", "theano", "", (2, 3, 4, 5), lambda w: w[::-1, ::-1]),
        (CONV2D, "2.0.9", "tensorflow", ":0", (2, 3, 4, 5), lambda w: w),
    ],
)
def test_convolution_kernels(config: Any, version: str, backend: Any, suffix: str, kernel: Any, change: Any) -> None:
    old = version[0] == "1"
    class_name = "Convolution2D" if old else "Conv2D"
    w, b = numbers(*kernel), numbers(5)
    held = [(f"c_W{suffix}", w), (f"c_b{suffix}", b)] if old else [(f"c/kernel{suffix}", w), (f"c/bias{suffix}", b)]
    archive = read(model((class_name, "c", config), shape=(6, 6, 4)), [("c", held)], version, backend)
    np.testing.assert_array_equal(archive.weights["c",]["kernel"], change(w))
    assert_same_list(order.weights_to_list(archive), [w, b])


@pytest.mark.parametrize("shape", [(3, 1, 4, 5), (5, 4, 3, 1)])
def test_keras_1_convolutions_of_one_axis(shape: tuple[int, ...]) -> None:
    config = model(("Convolution1D", "c", {"nb_filter": 5, "filter_length": 3}), shape=(9, 4))
    w = numbers(*shape)
    archive = read(config, [("c", [("c_W:0", w), ("c_b:0", numbers(5))])], "1.2.2", None)
    np.testing.assert_array_equal(archive.weights["c",]["kernel"], w[:, 0] if shape[1] == 1 else w.transpose(2, 3, 1, 0)[:, 0])


def test_keras_1_files_on_theano_say_so_by_their_names_alone() -> None:
    archive = read(
        model(("Dense", "a", {"output_dim": 2})), [("a", [("a_W", numbers(3, 2)), ("a_b", numbers(2))])], "1.2.2", None
    )
    assert archive.version.backend == "theano"


@pytest.mark.parametrize("names_", [("W", "W_carry", "b", "b_carry"), ("W", "b", "W_carry", "b_carry")])
def test_highway_goes_by_names(names_: tuple[str, ...]) -> None:
    arrays = {n: numbers(*((3, 3) if n[0] == "W" else (3,))) for n in names_}
    archive = read(model(("Highway", "h", {})), [("h", [(f"h_{n}:0", arrays[n]) for n in names_])], "1.2.2", None)
    found = [archive.weights["h",][n] for n in ("kernel", "carry_kernel", "bias", "carry_bias")]
    assert_same_list(found, [arrays[n] for n in ("W", "W_carry", "b", "b_carry")])


def test_keras_0_counts_layers_without_weights() -> None:
    config = model(
        ("Dense", "a", {"output_dim": 2}), ("Activation", "r", {"activation": "relu"}), ("Dense", "b", {"output_dim": 2})
    )
    w = [numbers(3, 2), numbers(2), numbers(2, 2), numbers(2)]
    legacy = [
        ("layer_0", [("param_0", w[0]), ("param_1", w[1])]),
        ("layer_1", []),
        ("layer_2", [("param_0", w[2]), ("param_1", w[3])]),
    ]
    archive = read(config, legacy, None, None, nb_layers=True)
    assert_same_list([archive.weights["b",]["kernel"], archive.weights["b",]["bias"]], w[2:])


def test_batch_normalization_of_keras_1_keeps_a_variance() -> None:
    held = [(f"n_{k}:0", numbers(3)) for k in ("gamma", "beta", "running_mean", "running_std")]
    archive = read(model(("BatchNormalization", "n", {"mode": 0})), [("n", held)], "1.2.2", None)
    np.testing.assert_array_equal(archive.weights["n",]["moving_variance"], held[3][1])


@pytest.mark.parametrize(("class_name", "count"), [("LSTM", 4), ("GRU", 3)])
@pytest.mark.parametrize("prefix", ["", "CuDNN"])
def test_cudnn_layouts_by_the_size_of_the_bias(class_name: str, count: int, prefix: str) -> None:
    config = model((prefix + class_name, "r", {"units": 2}), shape=(4, 3))
    held = [numbers(3, 2 * count), numbers(2, 2 * count), numbers(4 * count)]
    archive = read(config, [("r", [(f"r/{n}:0", a) for n, a in zip(("kernel", "recurrent_kernel", "bias"), held)])])
    found = archive.weights["r",]
    for g in range(count):
        part = slice(2 * g, 2 * g + 2)
        np.testing.assert_array_equal(found["cell/recurrent_kernel"][:, part], held[1][:, part].T)
        np.testing.assert_array_equal(found["cell/kernel"][:, part].T.reshape(-1), np.ravel(held[0][:, part]))
    assert found["cell/bias"].shape == ((2, 6) if count == 3 else (8,))
    again = order.weights_from_list(archive, order.weights_to_list(archive))
    assert_same_list(list(again.weights["r",].values()), list(found.values()))


@pytest.mark.parametrize(("shape", "after"), [((6,), False), ((2, 6), True)])
@pytest.mark.parametrize("said", [{}, {"reset_after": True}, {"reset_after": False}])
def test_the_rank_of_a_grus_bias_decides(shape: tuple[int, ...], after: bool, said: dict[str, Any]) -> None:
    held = [("kernel", numbers(3, 6)), ("recurrent_kernel", numbers(2, 6)), ("bias", numbers(*shape))]
    archive = read(model(("GRU", "r", {"units": 2, **said}), shape=(4, 3)), [("r", [(f"r/{n}:0", a) for n, a in held])])
    assert archive.model.layer("r").config["reset_after"] is after


def test_lora_is_merged() -> None:
    arrays = {"bias": numbers(2), "lora_kernel_a": numbers(3, 2), "lora_kernel_b": numbers(2, 2), "kernel": numbers(3, 2)}
    config = model(("Dense", "a", {"units": 2, "trainable": True, "lora_rank": 2, "lora_alpha": 4}))
    archive = read(config, [("a", [(f"s/a/{n}", a) for n, a in arrays.items()])], "3.15.1")
    expected = arrays["kernel"] + 2 * arrays["lora_kernel_a"] @ arrays["lora_kernel_b"]
    np.testing.assert_allclose(archive.weights["a",]["kernel"], expected, rtol=1e-6)


def test_a_float64_file_without_dtypes_is_float64_by_its_input() -> None:
    archive = readers.read(GOLDEN / "k122" / "t1-dense-f64.h5")
    assert archive.model.layers[0].config["dtype"] == "float64"


def test_arrays_of_one_layer_that_do_not_fit_together() -> None:
    held = [(n, a if n != "r_W_f:0" else numbers(5, 2)) for n, a in gates(2, 3, "icfo")]
    with pytest.raises(ShapeError, match="its arrays don't fit together"):
        read(model(("LSTM", "r", {"output_dim": 2}), shape=(4, 3)), [("r", held)], "1.2.2", None)
