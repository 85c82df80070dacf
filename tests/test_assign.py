"""Arrays to layers: orders, names, nested models and wrappers, and every way in which they can fail to fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from saved_files import TWO, dense, dense_entry, model, numbers, read, store

from npinfer.errors import DtypeError, FormatError, NpinferError, ShapeError, UnsupportedError
from npinfer.readers import assign, names
from npinfer.readers.raw import stored


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


def test_the_joint_report_counts_one_problem_as_one_line() -> None:
    assert assign.report("f", ["x"]) == "f: x"
    assert assign.report("f", ["x", "y"]) == "f:\n  - x\n  - y"


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
