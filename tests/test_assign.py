"""Arrays to layers: orders, names, layouts of old files, stores, and every way in which they can fail to fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN

from npinfer import readers
from npinfer.errors import DtypeError, FormatError, LimitError, NpinferError, ShapeError, UnsupportedError
from npinfer.graph import Array
from npinfer.readers import assign, names, order, stores
from npinfer.readers.archive import Archive
from npinfer.readers.live import from_keras
from npinfer.readers.raw import RawFile, stored

rng = np.random.default_rng(7)


def numbers(*shape: int, dtype: str = "float32") -> Array:
    return rng.normal(size=shape).astype(dtype)


def model(*layers: tuple[str, str, dict[str, Any]], shape: tuple[int, ...] = (3,)) -> dict[str, Any]:
    made = [{"class_name": c, "config": {"name": n, **config}} for c, n, config in layers]
    made[0]["config"]["batch_input_shape"] = [None, *shape]
    return {"class_name": "Sequential", "config": {"name": "s", "layers": made}}


def read(config: Any, legacy: Any, version: str | None = "2.2.4", backend: str | None = "tensorflow", **more: Any) -> Archive:
    groups = [(layer, [(n, stored(a, n)) for n, a in held]) for layer, held in legacy]
    raw = RawFile("file", config=config, keras_version=version, backend=backend, legacy=groups, **more)
    return readers.interpret(raw, config, version, backend)


def dense(name: str, n_in: int = 3, n_out: int = 2, written: str | None = None, suffix: str = ":0") -> tuple[str, list[Any]]:
    prefix = name if written is None else written
    return name, [(f"{prefix}/kernel{suffix}", numbers(n_in, n_out)), (f"{prefix}/bias{suffix}", numbers(n_out))]


TWO = model(("Dense", "a", {"units": 2}), ("Activation", "act", {"activation": "relu"}), ("Dense", "b", {"units": 2}))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (dense("a"), dense("b", 2)),
        (dense("a", written="a_1"), dense("b", 2, written="b_7_4")),  # re-suffixed in a long session
        (dense("a", written="model/a"), dense("b", 2, written="model/b", suffix="")),
        (("a", dense("a", written="")[1]), ("b", dense("b", 2, written="")[1])),  # Keras 3.0: bare names
        (dense("x"), dense("y", 2)),  # weights of another model of the same topology
    ],
)
def test_layers_take_their_weights_in_order(first: Any, second: Any) -> None:
    archive = read(TWO, [first, ("act", []), second])
    for layer, (_, held) in (("a", first), ("b", second)):
        assert archive.weights[layer,]["kernel"] is not None
        np.testing.assert_array_equal(archive.weights[layer,]["kernel"], held[0][1])
        np.testing.assert_array_equal(archive.weights[layer,]["bias"], held[1][1])
    assert archive.order == ((("a",), "kernel"), (("a",), "bias"), (("b",), "kernel"), (("b",), "bias"))


def test_names_inside_a_layer_come_before_its_order() -> None:
    name, held = dense("a")
    archive = read(TWO, [(name, held[::-1]), dense("b", 2)])
    np.testing.assert_array_equal(archive.weights["a",]["kernel"], held[0][1])


@pytest.mark.parametrize(
    ("legacy", "error", "message"),
    [
        ([], FormatError, r"no weights \(2 layers need some: a, b\)"),
        ([dense("a")], FormatError, r"weights for 1 layers \(a\).* for 2 \(a, b\)"),
        ([dense("a"), dense("b", 2), dense("c")], FormatError, "weights for 3 layers"),
        ([dense("b", 2), dense("a")], FormatError, "another order"),
        ([("a", dense("a")[1][:1]), dense("b", 2)], FormatError, r"'a' \(Dense\) needs 2 arrays .* has 1 \(a/kernel:0\)"),
        ([("a", [*dense("a")[1], ("a/more:0", numbers(2))]), dense("b", 2)], FormatError, "has 3"),
        ([("a", [("a/bias:0", numbers(3, 2)), ("a/bias:0", numbers(2))]), dense("b", 2)], FormatError, "stands where a/kernel"),
        (
            [dense("a", 3, 5), dense("b", 5, 9)],
            ShapeError,
            r"(?s)'a': kernel has the shape \[3, 5\].*'b': bias has the shape \[9\]",
        ),
        ([("a", [("a/kernel:0", numbers(1, 3, 2)), ("a/bias:0", numbers(2))]), dense("b", 2)], ShapeError, r"\[1, 3, 2\]"),
        ([("a", [("a/kernel:0", numbers(0, 2)), ("a/bias:0", numbers(2))]), dense("b", 2)], ShapeError, "is empty"),
        (
            [("a", [("a/kernel:0", np.ones((3, 2), int)), ("a/bias:0", numbers(2))]), dense("b", 2)],
            DtypeError,
            "holds integers",
        ),
        (
            [("a", [("a/kernel:0", np.ones((3, 2), "c8")), ("a/bias:0", numbers(2))]), dense("b", 2)],
            DtypeError,
            "complex numbers",
        ),
        ([("a", [("a/kernel:0", np.ones((3, 2), "?")), ("a/bias:0", numbers(2))]), dense("b", 2)], DtypeError, "booleans"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(legacy: Any, error: type[NpinferError], message: str) -> None:
    with pytest.raises(error, match=message):
        read(TWO, legacy)


def test_weights_of_the_model_itself_are_a_subclass() -> None:
    with pytest.raises(FormatError, match="the model itself owns weights"):
        read(TWO, [dense("a"), dense("b", 2)], top_level=[("w", stored(numbers(1)))])


@pytest.mark.parametrize("units", [float("nan"), -2, 0, "2", 2.5, True])
def test_sizes_that_are_none(units: Any) -> None:
    with pytest.raises(ShapeError, match="units="):
        read(model(("Dense", "a", {"units": units})), [dense("a")])


def test_unsupported_layers_are_named_before_their_arrays_are_judged() -> None:
    config = model(("Dense", "a", {"units": 2}), ("Weird", "w", {}))
    with pytest.raises(UnsupportedError, match="Weird"):
        read(config, [dense("a"), dense("q"), dense("r")])


@pytest.mark.parametrize("name", ["w", "w_7"])
def test_an_unknown_layer_keeps_its_arrays_by_their_own_names(name: str) -> None:
    config = model(("Dense", "a", {"units": 2}), ("Weird", "w", {}), ("Dense", "b", {"units": 2}))
    held = [(f"{name}/sub/scale:0", numbers(2)), (f"{name}/shift:0", numbers(2))]
    archive = read(config, [dense("a"), (name, held), dense("b", 2)])
    assert list(archive.weights["w",]) == ["sub/scale", "shift"]
    assert {p for p, _ in archive.order} == {("a",), ("w",), ("b",)}


# nested models


def nested(trainable: bool = True, d1: str = "d1", d2: str = "d2") -> dict[str, Any]:
    inner = model(
        ("Dense", d1, {"units": 3, "trainable": trainable}),
        ("BatchNormalization", "bn", {"axis": -1}),
        ("Dense", d2, {"units": 3}),
    )
    inner["config"]["name"] = "inner"
    return {"class_name": "Sequential", "config": {"name": "s", "layers": [inner, dense_entry("out")]}}


def dense_entry(name: str) -> dict[str, Any]:
    return {"class_name": "Dense", "config": {"name": name, "units": 2}}


ALL = {
    **{f"{d}/{v}": numbers(*((3, 3) if v == "kernel" else (3,))) for d in ("d1", "d2") for v in ("kernel", "bias")},
    **{f"bn/{v}": numbers(3) for v in ("gamma", "beta", "moving_mean", "moving_variance")},
}
D1, D2 = ["d1/kernel", "d1/bias"], ["d2/kernel", "d2/bias"]
BN, STATISTICS = ["bn/gamma", "bn/beta"], ["bn/moving_mean", "bn/moving_variance"]


@pytest.mark.parametrize(
    ("config", "listed", "written"),
    [
        (nested(), D1 + BN + D2 + STATISTICS, None),
        (nested(False), BN + D2 + D1 + STATISTICS, None),
        (nested(), BN + D2 + D1 + STATISTICS, None),  # frozen when saved, not in the architecture: names decide
        (nested(), D1 + BN + D2 + STATISTICS, {"d1": "d1_2", "d2": "d1_3"}),  # names mean nothing: the order decides
        (nested(), D1 + BN + D2 + STATISTICS, {"d1": "inner/d1", "d2": "inner/d2", "bn": "inner/bn"}),
        (nested(d2="d1_1"), D1 + BN + D2 + STATISTICS, {"d1": "d1_1", "d2": "d1_1_1"}),
    ],
)
def test_nested_models_list_trainable_weights_first(config: Any, listed: list[str], written: Any) -> None:
    def name(key: str) -> str:
        layer, _, variable = key.partition("/")
        return f"{(written or {}).get(layer, layer)}/{variable}:0"

    archive = read(config, [("inner", [(name(k), ALL[k]) for k in listed]), dense("out")])
    second = config["config"]["layers"][0]["config"]["layers"][2]["config"]["name"]
    for layer, source in (("d1", "d1"), ("bn", "bn"), (second, "d2")):
        for variable, array in archive.weights["inner", layer].items():
            np.testing.assert_array_equal(array, ALL[f"{source}/{variable}"])


@pytest.mark.parametrize(
    ("version", "listed"),
    [("2.2.4", D1 + BN + D2 + STATISTICS), ("2.2.4-tf", D1 + BN + STATISTICS + D2), ("2.15.0", D1 + BN + STATISTICS + D2)],
)
def test_the_order_of_get_weights_is_the_versions(version: str, listed: list[str]) -> None:
    archive = read(nested(), [("inner", [(f"{k}:0", ALL[k]) for k in D1 + BN + D2 + STATISTICS]), dense("out")], version)
    assert ["/".join((*p[1:], v)) for p, v in archive.order][:8] == listed


def test_an_unknown_layer_inside_a_nested_model() -> None:
    inner = model(("Dense", "d1", {"units": 3}), ("Weird", "w", {}))
    config = {
        "class_name": "Sequential",
        "config": {"name": "s", "layers": [{**inner, "config": {**inner["config"], "name": "inner"}}]},
    }
    held = [*(dense("d1", 3, 3)[1]), ("w/scale:0", numbers(3))]
    archive = read(config, [("inner", held)])
    assert set(archive.weights) == {("inner", "d1"), ("inner",)}


# layouts of old files


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


def assert_same_list(found: list[Array], expected: list[Array]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


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


# Keras 3's stores


def store(config: Any, arrays: dict[str, Array], names_: dict[str, str] | None = None, version: str = "3.15.1") -> Archive:
    held = {path: stored(a, path) for path, a in arrays.items()}
    raw = RawFile("file", config=config, keras_version=version, store=held, store_names=names_ or {})
    return readers.interpret(raw, config, version, None)


def k3(*layers: tuple[str, str, dict[str, Any]], shape: tuple[int, ...] = (3,)) -> dict[str, Any]:
    return model(*((c, n, {"trainable": True, **config}) for c, n, config in layers), shape=shape)


TWO3 = k3(("Dense", "q", {"units": 2}), ("Dropout", "drop", {"rate": 0.5}), ("Dense", "p", {"units": 2}))


def pair(path: str, n_in: int = 3, n_out: int = 2) -> dict[str, Array]:
    return {f"{path}/vars/0": numbers(n_in, n_out), f"{path}/vars/1": numbers(n_out)}


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


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dense_1_W:0", "kernel"),
        ("dense_1_b", "bias"),
        ("a/dense_4/kernel:0", "kernel"),
        ("lstm_1_W_i:0", "W_i"),
        ("bn_running_std:0", "moving_variance"),
        ("param_0", None),
        ("embeddings:0", "kernel"),
        ("x/sn_u:0", "vector_u"),
    ],
)
def test_kinds_of_names(name: str, kind: str | None) -> None:
    assert names.kind(name) == kind


# lists, other files, live models


@pytest.mark.parametrize(
    "path", ["k122/t1-mlp-seed.h5", "k224/t2-nested-double.h5", "k3new/t2-nested-double.h5", "tf215/t1-act-chain.h5"]
)
def test_lists_go_round(path: str) -> None:
    archive = readers.read(GOLDEN / path)
    before = order.weights_to_list(archive)
    after = order.weights_from_list(archive, [a + 1 for a in before])
    assert_same_list(order.weights_to_list(after), [a + 1 for a in before])
    assert_same_list(order.weights_to_list(archive), before)


TWO_ARCHIVE = read(TWO, [dense("a"), dense("b", 2)])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda w: w[:-1], ShapeError, r"got 3 arrays; the model has 4: a/kernel, a/bias"),
        (lambda w: [*w, w[0]], ShapeError, "got 5 arrays"),
        (lambda w: [w[0].T, *w[1:]], ShapeError, r"a/kernel: got the shape \[2, 3\]; needed is \[3, 2\]"),
        (lambda w: [w[0], "x", *w[2:]], ShapeError, r"a/bias: got the shape \[\]"),
        (lambda w: [w[0], w[1].astype("c8"), *w[2:]], DtypeError, "a/bias: got complex64"),
        (lambda w: [w[0], [[1], [2, 3]], *w[2:]], DtypeError, "not an array"),
    ],
)
def test_lists_that_do_not_fit(change: Any, error: type[NpinferError], message: str) -> None:
    with pytest.raises(error, match=message):
        order.weights_from_list(TWO_ARCHIVE, change(order.weights_to_list(TWO_ARCHIVE)))


def test_lists_are_cast_and_copied() -> None:
    given = [np.ones((3, 2)), [1, 2], np.ones((2, 2), "float16"), np.zeros(2, int)]
    found = order.weights_from_list(TWO_ARCHIVE, given)
    assert all(a.dtype == np.float32 for held in found.weights.values() for a in held.values())
    given[0][0, 0] = 9
    assert found.weights["a",]["kernel"][0, 0] == 1


@pytest.mark.parametrize("suffix", ["h5", "wonly.h5", "weights.h5", "keras"])
def test_weights_of_another_file(suffix: str) -> None:
    folder = GOLDEN / "k3new"
    archive = readers.read(folder / "t1-dense-inputlayer.h5")
    blank = order.weights_from_list(archive, [np.zeros_like(a) for a in order.weights_to_list(archive)])
    found = readers.read_weights_into(blank, folder / f"t1-dense-inputlayer.{suffix}")
    assert_same_list(order.weights_to_list(found), order.weights_to_list(archive))
    assert not any(a.any() for a in order.weights_to_list(blank))


def test_weights_of_our_own_file(tmp_path: Path) -> None:
    from npinfer import npz

    npz.save(tmp_path / "m.npz", TWO_ARCHIVE, {})
    blank = order.weights_from_list(TWO_ARCHIVE, [np.zeros_like(a) for a in order.weights_to_list(TWO_ARCHIVE)])
    found = readers.read_weights_into(blank, tmp_path / "m.npz")
    assert_same_list(order.weights_to_list(found), order.weights_to_list(TWO_ARCHIVE))


def test_weights_of_another_shape_change_nothing() -> None:
    def gru(shape: tuple[int, ...]) -> Any:
        held = [("kernel", numbers(3, 6)), ("recurrent_kernel", numbers(2, 6)), ("bias", numbers(*shape))]
        return [("r", [(f"r/{n}:0", a) for n, a in held])]

    config = model(("GRU", "r", {"units": 2}), shape=(4, 3))
    archive = read(config, gru((2, 6)))
    raw = RawFile("other", keras_version="2.2.4", legacy=[(n, [(k, stored(a)) for k, a in h]) for n, h in gru((6,))])
    with pytest.raises(ShapeError, match=r"r/cell/bias has the shape \[6\]; the model needs \[2, 6\]"):
        order.with_weights_of(archive, raw)
    assert archive.model.layer("r").config["reset_after"] is True


def test_files_without_weights() -> None:
    with pytest.raises(FormatError, match="holds no weights"):
        order.with_weights_of(TWO_ARCHIVE, RawFile("other"))


FOLDER = GOLDEN / "k3new"
WEIGHTS, ARCHITECTURE = FOLDER / "t1-dense-inputlayer.weights.h5", FOLDER / "t1-dense-inputlayer.json"


@pytest.mark.parametrize(
    "config",
    [
        ARCHITECTURE,
        str(ARCHITECTURE),
        ARCHITECTURE.read_text(),
        ARCHITECTURE.read_bytes(),
        json.loads(ARCHITECTURE.read_text()),
        json.loads(ARCHITECTURE.read_text())["config"],
        json.dumps(ARCHITECTURE.read_text()),
        FOLDER / "t1-dense-inputlayer.h5",
        FOLDER / "t1-dense-inputlayer.keras",
    ],
    ids=["path", "str", "text", "bytes", "dict", "get_config", "twice", "h5", "keras"],
)
def test_architectures_in_every_form(config: Any) -> None:
    archive = readers.read(WEIGHTS, config)
    full = readers.read(FOLDER / "t1-dense-inputlayer.h5")
    assert_same_list(order.weights_to_list(archive), order.weights_to_list(full))


def test_a_sequentials_get_config_of_old_is_a_list() -> None:
    layers = [
        {"class_name": "Dense", "config": {"name": "a", "output_dim": 8, "batch_input_shape": [None, 6]}},
        dense_entry("b"),
    ]
    layers[1]["config"] = {"name": "b", "output_dim": 3}
    assert readers.read(GOLDEN / "k122" / "t1-dense-inputlayer.h5", layers).model.name == "sequential"


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (None, FormatError, "no architecture; pass that too"),
        (3.5, FormatError, "config is a float"),
        (WEIGHTS, FormatError, "holds no architecture"),
        ({"class_name": {1, 2}}, FormatError, "not plain data"),
        ("{", FormatError, "not valid JSON"),
        ("/no/such/file.json", FormatError, "no such file"),
    ],
)
def test_architectures_that_are_none(config: Any, error: type[NpinferError], message: str) -> None:
    with pytest.raises(error, match=message):
        readers.read(WEIGHTS, config)


def test_a_dict_without_end() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(LimitError, match="nested too deep"):
        readers.read(WEIGHTS, {"class_name": "Sequential", "config": deep})


class Variable:
    def __init__(self, name: str, value: Array) -> None:
        self.name, self.value = name, value


class FakeLayer:
    """What from_keras needs of a live layer."""

    def __init__(self, name: str, trainable: list[Variable], fixed: list[Variable]) -> None:
        self.name, self.trainable_weights, self.non_trainable_weights = name, trainable, fixed
        self.weights = trainable + fixed

    def get_weights(self) -> list[Array]:
        return [v.value for v in self.weights]


class FakeModel(FakeLayer):
    built = True

    def __init__(self, config: Any, layers: list[FakeLayer]) -> None:
        super().__init__("live", [], [])
        self.config, self.layers = config, layers

    def to_json(self) -> str:
        return json.dumps(self.config)


def live() -> FakeModel:
    layers = [FakeLayer(n, [Variable(k, a) for k, a in held], []) for n, held in (dense("a"), dense("b", 2))]
    return FakeModel({**TWO, "keras_version": "2.2.4"}, layers)


def test_a_live_model_is_copied() -> None:
    keras_model = live()
    archive = from_keras(keras_model)
    value = keras_model.layers[0].weights[0].value
    np.testing.assert_array_equal(archive.weights["a",]["kernel"], value)
    value[:] = 0
    assert archive.weights["a",]["kernel"].any()
    assert archive.version.numbers == (2, 2, 4)


def test_live_models_that_are_none() -> None:
    with pytest.raises(FormatError, match="int is no Keras model"):
        from_keras(3)
    unbuilt = live()
    unbuilt.built = False
    with pytest.raises(FormatError, match="not built yet"):
        from_keras(unbuilt)


def test_a_live_model_that_cannot_be_written_down() -> None:
    class Silent(FakeModel):
        def to_json(self) -> str:
            raise NotImplementedError("no get_config")

    with pytest.raises(FormatError, match="can't be written down"):
        from_keras(Silent({}, []))


def test_live_layers_with_borrowed_names() -> None:
    keras_model = live()
    keras_model.layers[0].__class__ = type("Dense", (FakeLayer,), {"__module__": "mine"})
    with pytest.raises(UnsupportedError, match=r"'a' \(mine.Dense\): a custom class with a built-in's name"):
        from_keras(keras_model)


def test_the_joint_report_counts_one_problem_as_one_line() -> None:
    assert assign.report("f", ["x"]) == "f: x"
    assert assign.report("f", ["x", "y"]) == "f:\n  - x\n  - y"


def test_archives_are_values() -> None:
    assert TWO_ARCHIVE.replace(source="other").weights is TWO_ARCHIVE.weights


def test_lists_of_models_with_unknown_layers() -> None:
    config = model(("Dense", "a", {"units": 2}), ("Weird", "w", {}), ("Dense", "b", {"units": 2}))
    archive = read(config, [dense("a"), ("w", [("w/x:0", numbers(2)), ("w/y:0", numbers(1))]), dense("b", 2)])
    listed = [("/".join(p), v) for p, v in archive.order]
    assert listed == [("a", "kernel"), ("a", "bias"), ("w", "x"), ("w", "y"), ("b", "kernel"), ("b", "bias")]
    before = order.weights_to_list(archive)
    after = order.weights_from_list(archive, [2 * a for a in before])
    assert_same_list(order.weights_to_list(after), [2 * a for a in before])


@pytest.mark.parametrize("counted", [True, False])
def test_variables_that_some_versions_lack(counted: bool) -> None:
    held = [("n/mean:0", numbers(3)), ("n/variance:0", numbers(3)), *([("n/count:0", np.array(5))] if counted else [])]
    archive = read(model(("Normalization", "n", {"axis": [-1]})), [("n", held)], "2.15.0")
    assert list(archive.weights["n",]) == [n[2:-2] for n, _ in held]
    assert len(order.weights_to_list(archive)) == len(held)


def test_a_normalization_that_was_never_adapted_has_no_group() -> None:
    config = model(("Normalization", "n", {"mean": [0.0] * 3, "variance": [1.0] * 3}), ("Dense", "a", {"units": 2}))
    assert set(read(config, [("n", []), dense("a")], "2.15.0").weights) == {("a",)}


INNER = model(("Dense", "d", {"units": 3, "trainable": True}), ("BatchNormalization", "bn", {"axis": -1, "trainable": True}))
WRAPPED = model(("TimeDistributed", "t", {"layer": INNER, "trainable": True}), shape=(4, 3))
LISTED = ["d/kernel", "d/bias", "bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance"]


@pytest.mark.parametrize("version", ["2.2.4", "2.15.0", "3.15.1"])
def test_models_in_wrappers(version: str) -> None:
    arrays = {n: numbers(*((3, 3) if n.endswith("kernel") else (3,))) for n in LISTED}
    archive = read(WRAPPED, [("t", [(f"t/{n}", a) for n, a in arrays.items()])], version)
    np.testing.assert_array_equal(archive.weights["t", "layer", "bn"]["gamma"], arrays["bn/gamma"])
    assert ["/".join((p[-1], v)) for p, v in archive.order] == LISTED


def test_models_in_wrappers_of_stores() -> None:
    base = "layers/time_distributed/layer/layers"
    arrays = {f"{base}/dense/vars/0": numbers(3, 3), f"{base}/dense/vars/1": numbers(3)}
    arrays |= {f"{base}/batch_normalization/vars/{k}": numbers(3) for k in range(4)}
    found = store(WRAPPED, arrays).weights
    np.testing.assert_array_equal(found["t", "layer", "d"]["kernel"], arrays[f"{base}/dense/vars/0"])


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


@pytest.mark.parametrize(
    ("class_name", "config", "shapes", "message"),
    [
        ("Embedding", {"input_dim": 5, "output_dim": 2}, {"embeddings": (5, 3)}, r"the config needs \[5, 2\]"),
        ("Conv1D", {"filters": 2, "kernel_size": 3}, {"kernel": (2, 3, 2), "bias": (2,)}, r"needs \[3, \?, 2\]"),
        ("Conv2DTranspose", {"filters": 2, "kernel_size": [3, 3]}, {"kernel": (3, 3, 3, 4), "bias": (2,)}, r"\[3, 3, 2, \?\]"),
        ("DepthwiseConv2D", {"kernel_size": [3, 3]}, {"depthwise_kernel": (3, 2, 3, 1), "bias": (3,)}, r"\[3, 3, \?, 1\]"),
        (
            "SeparableConv1D",
            {"filters": 2, "kernel_size": [3]},
            {"depthwise_kernel": (3, 3, 1), "pointwise_kernel": (1, 3, 4), "bias": (2,)},
            r"\[1, \?, 2\]",
        ),
        ("LSTM", {"units": 2}, {"kernel": (3, 8), "recurrent_kernel": (3, 8), "bias": (8,)}, r"needs \[2, 8\]"),
        ("BatchNormalization", {}, dict.fromkeys(("gamma", "beta", "moving_mean", "moving_variance"), (1, 3)), r"needs \[\?\]"),
    ],
)
def test_shapes_that_configs_exclude(class_name: str, config: Any, shapes: dict[str, Any], message: str) -> None:
    held = [(f"x/{n}:0", numbers(*shape)) for n, shape in shapes.items()]
    with pytest.raises(ShapeError, match=message):
        read(model((class_name, "x", config), shape=(5, 4, 3)), [("x", held)])


def test_arrays_of_one_layer_that_do_not_fit_together() -> None:
    held = [(n, a if n != "r_W_f:0" else numbers(5, 2)) for n, a in gates(2, 3, "icfo")]
    with pytest.raises(ShapeError, match="its arrays don't fit together"):
        read(model(("LSTM", "r", {"output_dim": 2}), shape=(4, 3)), [("r", held)], "1.2.2", None)


def test_weights_of_a_file_with_less_in_it() -> None:
    held = [("n/mean:0", numbers(3)), ("n/variance:0", numbers(3)), ("n/count:0", np.array(5))]
    config = model(("Normalization", "n", {"axis": [-1]}))
    archive = read(config, [("n", held)], "2.15.0")
    raw = RawFile("other", keras_version="2.15.0", legacy=[("n", [(n, stored(a)) for n, a in held[:2]])])
    with pytest.raises(FormatError, match="other: has no n/count"):
        order.with_weights_of(archive, raw)


def test_the_version_of_a_live_model_may_be_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    package = types.ModuleType("keras")
    package.__version__ = "3.9.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keras", package)
    keras_model = live()
    keras_model.config = TWO
    keras_model.__class__ = type("Functional", (FakeModel,), {"__module__": "keras.src.models.functional"})
    assert from_keras(keras_model).version.numbers == (3, 9, 0)
