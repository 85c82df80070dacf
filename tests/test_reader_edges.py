"""Corners of the readers that few files have: refusals, odd spellings, shapes that only other layers tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import graph_cases as gc
import h5py
import numpy as np
import pytest

import npinfer
from npinfer.errors import FormatError, UnsupportedError
from npinfer.readers import declared, dialect, h5, interpret, nodes, order, topology, values
from npinfer.readers.archive import Archive, Call, Layer, Model, TensorRef, Version
from npinfer.readers.h5_checks import natural
from npinfer.readers.live import from_keras
from npinfer.readers.lower import lower
from npinfer.readers.raw import RawFile, stored

TF = Version(2, (2, 15, 0), True)
KERNEL = np.linspace(-1, 1, 6, dtype="f4").reshape(3, 2)
X = TensorRef("x", 0, 0)


def archive(*layers: Layer, outputs: Any = None, inputs: Any = (X,), shape: Any = None, weights: Any = None) -> Archive:
    entry = Layer("InputLayer", "x", {"shape": shape, "dtype": "float32"}, (Call(),))
    ends = [TensorRef(layers[-1].name, 0, 0)] if outputs is None else outputs
    return Archive(Model("m", (entry, *layers), list(inputs), ends), weights or {}, (), TF, "file")


def layer(name: str, class_name: str, after: str = "x", config: Any = None, **more: Any) -> Layer:
    return Layer(class_name, name, config or {}, (Call((TensorRef(after, 0, 0),)),), **more)


def nested(name: str, inputs: list[str], shape: Any = None) -> Layer:
    entries = [Layer("InputLayer", n, {"shape": shape, "dtype": "float32"}, (Call(),)) for n in inputs]
    refs = [TensorRef(n, 0, 0) for n in inputs]
    model = Model(name, (*entries, Layer("Add", "sum", {}, (Call((refs,)),))), refs, [TensorRef("sum", 0, 0)])
    return Layer("Model", name, {"sequential": False}, (Call(([X] * len(inputs),)),), model)


#: models whose input has no shape and nothing that tells it
SHAPELESS: list[tuple[list[Layer], Any]] = [
    ([layer("f", "Flatten")], None),
    ([layer("a", "Activation", config={"activation": "relu"})], None),
    ([nested("two", ["i", "j"])], None),
    ([layer("h", "Highway")], {("h",): {"kernel": KERNEL[0]}}),
]


@pytest.mark.parametrize(("layers", "weights"), SHAPELESS, ids=["opaque", "last", "two inputs", "no sense"])
def test_shapes_that_nothing_tells(layers: list[Layer], weights: Any) -> None:
    with pytest.raises(FormatError, match="neither the config nor the weights give its shape"):
        lower(archive(*layers, weights=weights))
    with pytest.raises(FormatError, match="neither the config"):
        lower(archive(*layers, outputs=[X]))


def test_shapes_that_others_tell() -> None:
    """A later layer's own note of its input, a nested model's InputLayer."""
    made = lower(archive(layer("f", "Flatten", input_shape=(2, 3))))
    assert made.graph.inputs[0].shape == (2, 3)
    assert lower(archive(nested("one", ["i"], (4,)))).graph.inputs[0].shape == (4,)


def test_inputs_and_outputs_that_are_not_there() -> None:
    with pytest.raises(FormatError, match="input_layers names 'y', which the config doesn't hold"):
        lower(archive(layer("f", "Flatten"), inputs=[TensorRef("y", 0, 0)]))
    dense = layer("d", "Dense", config={"units": 2})
    held = {("d",): {"kernel": KERNEL, "bias": KERNEL[0]}}
    with pytest.raises(FormatError, match="refers to result 3 of 'd', which gives 1"):
        lower(archive(dense, outputs=[TensorRef("d", 0, 3)], shape=(3,), weights=held))


def test_functions_do_not_stand_for_held_layers() -> None:
    held = Layer("Odd", "inner")
    made = archive(layer("t", "TimeDistributed", config={"layer": held}), shape=(4, 3))
    with pytest.raises(UnsupportedError, match="'t/layer' \\(Odd\\): this class is unknown"):
        lower(made, functions={"inner": lambda x: x})


def test_states_are_not_kept_within_steps() -> None:
    config = {"units": 2, "stateful": True, "activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": False}
    held = Layer("LSTM", "inner", config)
    weights = {("t",): {f"layer/cell/{n}": np.zeros((k, 8), "f4") for n, k in (("kernel", 3), ("recurrent_kernel", 2))}}
    made = archive(layer("t", "TimeDistributed", config={"layer": held}), shape=(4, 5, 3), weights=weights)
    with pytest.raises(UnsupportedError, match="a stateful layer inside a layer that runs it several times"):
        lower(made)


def test_models_take_no_odd_arguments() -> None:
    inner = nested("n", ["i"], (3,))
    inner = Layer("Model", "n", inner.config, (Call((X,), {"odd": 1}),), inner.model)
    with pytest.raises(UnsupportedError, match=r"'n' \(Model\): call argument\(s\) odd"):
        lower(archive(inner, shape=(3,)))


# configs


OLD: list[tuple[Any, Any]] = [
    ({"class_name": "__tuple__", "items": [1, {"class_name": "__tuple__"}]}, (1, ())),
    ({"class_name": "TensorShape", "items": [None, 3]}, [None, 3]),
    ({"class_name": "__ellipsis__"}, ...),
    ("...", ...),
    ({"start": 1, "stop": None, "step": ["a", 0, 0]}, slice(1, None, TensorRef("a", 0, 0))),
]


@pytest.mark.parametrize(("written", "meant"), OLD)
def test_arguments_of_tf_keras(written: Any, meant: Any) -> None:
    (call,) = nodes.calls([[["a", 0, 0, {"k": written}]]], "Odd", {"a"}, "test")
    assert call == Call((TensorRef("a", 0, 0),), {"k": meant})


def test_arguments_of_keras_3() -> None:
    assert nodes.calls(None, "Odd", {"a"}, "test") == ()
    cut = {"class_name": "__slice__", "config": {"start": None, "stop": 3, "step": 1}}
    raw = {"class_name": "__bytes__", "config": {"value": "ab"}}
    assert nodes.value([cut, raw], "test") == [slice(None, 3, 1), "ab"]


def test_states_that_are_named_win() -> None:
    """[x, h] with an initial_state of its own: both stay as the file has them, for the layer to judge."""
    (call,) = nodes.calls([[["a", 0, 0, {"initial_state": ["b", 0, 0]}], ["b", 0, 0, {}]]], "LSTM", {"a", "b"}, "test")
    assert call.kwargs == {"initial_state": TensorRef("b", 0, 0)}


def test_plain_values() -> None:
    array = {"class_name": "__numpy__", "config": {"value": [1, 2], "dtype": "int32"}}
    np.testing.assert_array_equal(values.plain(array), np.array([1, 2], np.int32))


def test_sizes_written_as_floats() -> None:
    """units=2.0 is 2; a window in another form excludes nothing."""
    assert declared.fits((3, 2), declared.SHAPES["Dense"]({"units": 2.0})["kernel"])
    assert declared.SHAPES["Conv2D"]({"kernel_size": "odd", "filters": 4})["kernel"] == (None, None, None, 4)
    assert declared.SHAPES["MaxoutDense"]({"units": 2, "nb_feature": 3})["kernel"] == (3, None, 2)
    assert declared.SHAPES["BatchNormalization"]({"axis": [1, 2]}) == {}


K1: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("ZeroPadding1D", {"padding": {"left_pad": 1, "right_pad": 2}}, {"padding": [1, 2]}),
    ("ZeroPadding1D", {"padding": 2}, {"padding": 2}),
    ("ZeroPadding2D", {"padding": {"top_pad": 1, "right_pad": 4}}, {"padding": [[1, 0], [0, 4]]}),
    ("ZeroPadding2D", {"padding": [1, 2]}, {"padding": [1, 2]}),
    ("ZeroPadding2D", {}, {}),
    ("MaxPooling1D", {"pool_length": 3, "stride": None}, {"pool_size": 3, "strides": 3}),
    ("MaxPooling1D", {"pool_length": 3, "stride": 2}, {"pool_size": 3, "strides": 2}),
    ("SimpleRNN", {"output_dim": 3}, {"units": 3, "use_bias": True}),
]


@pytest.mark.parametrize(("class_name", "config", "meant"), K1)
def test_keys_of_keras_1(class_name: str, config: dict[str, Any], meant: dict[str, Any]) -> None:
    raw = {"class_name": class_name, "config": {"name": "l", **config}}

    def inner(*_: Any) -> Layer:
        raise AssertionError

    made = dialect.layer(raw, Version(1, (1, 2, 2)), "test", inner)
    assert {k: made.config[k] for k in meant} == meant
    assert "padding" in made.config or "padding" not in meant


def test_a_zero_file_of_no_layers() -> None:
    with pytest.raises(FormatError, match="no class_name"):
        topology.model({"name": "Sequential", "layers": [{"units": 3}]}, Version(1), "file")


def test_nested_models_in_other_forms() -> None:
    """A class of Keras's own names without layers is the caller's; outputs in tuples and dicts."""
    entry = {
        "class_name": "InputLayer",
        "name": "x",
        "config": {"name": "x", "batch_input_shape": [None, 3]},
        "inbound_nodes": [],
    }
    relu = {"class_name": "ReLU", "name": "r", "config": {"name": "r"}, "inbound_nodes": [[["x", 0, 0, {}]]]}
    inner = {"name": "n", "layers": [entry, relu], "input_layers": [["x", 0, 0]]}
    inner["output_layers"] = {"b": ["r", 0, 0], "a": ["x", 0, 0]}
    call = {"class_name": "Functional", "name": "n", "config": inner, "inbound_nodes": [[["x", 0, 0, {}]]]}
    outer = {"name": "m", "layers": [entry, call], "input_layers": [["x", 0, 0]]}
    outer["output_layers"] = {"class_name": "__tuple__", "items": [["n", 1, 1], ["n", 1, 0]]}
    made = topology.model({"class_name": "Functional", "config": outer}, TF, "file")
    assert made.outputs == [TensorRef("n", 0, 1), TensorRef("n", 0, 0)]
    held = made.layer("n").model
    assert held is not None
    assert list(held.outputs) == ["a", "b"]
    empty = {"class_name": "Sequential", "config": {"name": "s", "layers": [{"class_name": "Model", "config": {"name": "o"}}]}}
    made = topology.model(empty, TF, "file")
    assert made.layer("o").model is None


def test_a_sequential_that_starts_with_a_model_takes_its_shape() -> None:
    dense = {"class_name": "Dense", "config": {"name": "d", "units": 2, "batch_input_shape": [None, 3]}}
    first = {"class_name": "Sequential", "config": {"name": "inner", "layers": [dense]}}
    config = {"class_name": "Sequential", "config": {"name": "s", "layers": [first]}}
    made = topology.model(config, TF, "file")
    assert made.layers[0].config["shape"] == (3,)


def test_arrays_of_the_same_name_of_an_unknown_layer() -> None:
    config = {"class_name": "Sequential", "config": {"name": "s", "layers": [{"class_name": "Odd", "config": {"name": "o"}}]}}
    raw = RawFile(
        "file",
        config,
        "2.15.0",
        legacy=[("o", [("o/a/w:0", stored(KERNEL)), ("b/w:0", stored(KERNEL + 1)), ("w:0", stored(KERNEL))])],
    )
    made = interpret(raw, config, "2.15.0", None)
    assert list(made.weights["o",]) == ["a/w", "w", "w_1"]


def test_transposed_kernels_of_keras_1_go_round() -> None:
    """What set_weights takes is what get_weights gave, in the file's layout."""
    for order_, shape, kernel in (("tf", (4, 4, 2), (3, 3, 2, 5)), ("th", (2, 4, 4), (5, 2, 3, 3))):
        options = {
            "nb_filter": 5,
            "nb_row": 3,
            "nb_col": 3,
            "dim_ordering": order_,
            "output_shape": [None, 6, 6, 5],
            "bias": False,
        }
        entry = {"class_name": "Deconvolution2D", "config": {"name": "c", "batch_input_shape": [None, *shape], **options}}
        config = {"class_name": "Sequential", "config": [entry]}
        array = np.arange(90, dtype="f4").reshape(kernel)
        raw = RawFile("file", config, "1.2.2", legacy=[("c", [("c_W:0", stored(array))])])
        made = interpret(raw, config, "1.2.2", "tensorflow")
        np.testing.assert_array_equal(order.weights_to_list(made)[0], array)
        again = order.weights_from_list(made, [array + 1])
        np.testing.assert_array_equal(order.weights_to_list(again)[0], array + 1)


def test_a_live_model_of_no_package_says_nothing_of_its_version() -> None:
    class Live:
        name, layers, built = "live", (), True

        def get_weights(self) -> list[Any]:
            return []

        def to_json(self) -> str:
            first = {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 3]}}
            relu = {"class_name": "ReLU", "config": {"name": "r"}}
            return json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": [first, relu]}})

    assert from_keras(Live()).version.numbers == ()


# containers


def test_attributes_of_other_kinds(tmp_path: Path) -> None:
    """An attribute of floats where names are due is no list of names; one without a value is an empty list."""
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as f:
        f.attrs["layer_names"] = np.ones(2)
    with pytest.raises(FormatError):
        npinfer.read_weights(path)
    with h5py.File(path, "w") as f:
        f.attrs["layer_names"] = h5py.Empty("f4")
    assert npinfer.read_weights(path) == {}


def test_datasets_elsewhere_are_refused_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a header hide it, the library's own description of the dataset tells."""
    monkeypatch.setattr(h5, "foreign", lambda *_: "")
    layout = h5py.VirtualLayout((3, 2), "f4")
    layout[...] = h5py.VirtualSource("other.h5", "k", (3, 2), "f4")
    for kind in ("virtual dataset", "external storage"):
        path = tmp_path / "m.h5"
        with h5py.File(path, "w") as f:
            f.attrs["layer_names"] = np.array([b"d"])
            group = f.create_group("d")
            group.attrs["weight_names"] = np.array([b"k"])
            if kind == "virtual dataset":
                group.create_virtual_dataset("k", layout)
            else:
                group.create_dataset("k", (3, 2), "f4", external=[("other.bin", 0, 24)])
        with pytest.raises(FormatError, match=kind):
            npinfer.read_weights(path)


def test_natural_order() -> None:
    assert sorted(["a10", "a9", "b"], key=natural) == ["a9", "a10", "b"]


def test_graphs_of_one_layer_have_its_name() -> None:
    assert gc.graph_of(Layer("ReLU", "r"), (3,)).nodes[0].name == "r"
