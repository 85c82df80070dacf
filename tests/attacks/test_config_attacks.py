"""Architectures that ask for code, for memory or for nonsense; and weights that don't fit them. Sound as HDF5 or zip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hostile_files import KERNEL, config, dense, members, old, outcome, pack, store

import npinfer
from npinfer import FormatError, NpinferError, UnsupportedError

LAMBDA = {
    "class_name": "Lambda",
    "config": {
        "name": "lambda_1",
        "trainable": True,
        "dtype": "float32",
        "function": {"class_name": "__lambda__", "config": {"code": "4wEAAAAAAAAA", "defaults": None, "closure": None}},
    },
}


LAMBDA2 = {"class_name": "Lambda", "config": {"name": "lambda_1", "function": ["4wEAAA==\n", None, None]}}


def refuse(source: Any, kind: type[Exception], says: str) -> None:
    error = outcome(lambda: npinfer.load(source, engine="numpy"))
    assert isinstance(error, kind), error
    assert says in str(error)


ARCHITECTURES: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown class": (config({"class_name": "Foo", "config": {"name": "foo"}}), UnsupportedError, "Foo"),
    "unknown activation": (config(dense("dense", 8, "wobble"), dense("dense_1", 3)), UnsupportedError, "wobble"),
    "a method as activation": (config(dense("dense", 8, "__class__"), dense("dense_1", 3)), UnsupportedError, "__class__"),
    "Lambda in a list (Keras 2)": (config(dense("dense", 8), LAMBDA2), UnsupportedError, "lambda_1"),
    "Lambda as marshalled code (Keras 3)": (config(dense("dense", 8), LAMBDA), UnsupportedError, "lambda_1"),
    "more units than weights": (config(dense("dense", 9), dense("dense_1", 3)), NpinferError, "dense"),
    "negative units": (config(dense("dense", -8), dense("dense_1", 3)), NpinferError, "dense"),
    "units not a number": (config(dense("dense", float("nan")), dense("dense_1", 3)), NpinferError, "dense"),
    "infinite units": (config(dense("dense", float("inf")), dense("dense_1", 3)), NpinferError, "dense"),
    "huge units": (config(dense("dense", 2**40), dense("dense_1", 3)), NpinferError, "dense"),
    "units in a list": (config(dense("dense", [8]), dense("dense_1", 3)), NpinferError, "dense"),
    "layers no list": ({"class_name": "Sequential", "config": {"name": "s", "layers": 5}}, FormatError, ""),
    "a layer no dict": ({"class_name": "Sequential", "config": {"name": "s", "layers": [5]}}, FormatError, ""),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(tmp_path: Path, name: str) -> None:
    architecture, kind, says = ARCHITECTURES[name]
    refuse(old(tmp_path / "bad.h5", architecture), kind, says)


DTYPES: dict[str, Any] = {
    "a dict of nothing known": {"a": 1},
    "a policy without a name": {"class_name": "Policy", "config": {}},
    "a policy of numbers": {"class_name": "Policy", "config": {"name": 7}},
    "a number": 5,
    "a list": ["float32"],
    "true": True,
    "a word": "floaty",
    "a map with nonsense": {
        "class_name": "DTypePolicyMap",
        "config": {"policy_map": {"a": {"b": 2}}, "default_policy": "float32"},
    },
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_that_are_none(tmp_path: Path, name: str) -> None:
    """Refused by the layer's name with what was found, not taken for float32; an input's too."""
    path = old(tmp_path / "bad.h5", config(dense("dense", 8, dtype=DTYPES[name]), dense("dense_1", 3)))
    refuse(path, UnsupportedError, "layer 'dense' (Dense): dtype policy ")
    architecture = config()
    architecture["config"]["layers"][0]["config"]["dtype"] = DTYPES[name]
    refuse(old(tmp_path / "bad.h5", architecture), UnsupportedError, "input 'input_1': dtype ")


def test_generations_to_come(tmp_path: Path) -> None:
    """A Keras 9 may mean anything by its keys; its arrays can still be read. A newer minor version of 3 is as good as known."""
    path = pack(tmp_path / "m.keras", members(metadata_json=b'{"keras_version": "9.9"}'))
    refuse(
        path,
        UnsupportedError,
        "written by Keras 9.9, of a generation that this npinfer doesn't know; known are Keras 0.3 to 3.x",
    )
    assert list(npinfer.read_weights(path)["dense"]) == ["0", "1"]
    good = old(tmp_path / "m.h5")
    model = npinfer.load(good, engine="numpy")
    for bad in (path, old(tmp_path / "w.h5")):
        if bad.suffix == ".h5":
            with h5py.File(bad, "a") as f:
                f.attrs["keras_version"] = "4.0.0"
            refuse(bad, UnsupportedError, "Keras 4.0.0")
        error = outcome(lambda b=bad: model.load_weights(b))
        assert isinstance(error, UnsupportedError)
    path = pack(tmp_path / "m.keras", members(metadata_json=b'{"keras_version": "3.99.1"}'))
    assert npinfer.load(path, engine="numpy")(np.ones((1, 6), "f4")).shape == (1, 3)


def keras3(*layers: dict[str, Any]) -> bytes:
    return json.dumps(config(*layers)).encode()


def test_builtins_as_activation(tmp_path: Path) -> None:
    """Keras 3 serialises functions as module and name; resolving them would be an import."""
    exec_ = {"module": "builtins", "class_name": "function", "config": "exec", "registered_name": "function"}
    content = members(config_json=keras3(dense("dense", 8, exec_), dense("dense_1", 3)))
    refuse(pack(tmp_path / "bad.keras", content), UnsupportedError, "exec")


def test_lambda_in_a_zip(tmp_path: Path) -> None:
    content = members(config_json=keras3(dense("dense", 8), LAMBDA, dense("dense_1", 3)))
    refuse(pack(tmp_path / "bad.keras", content), UnsupportedError, "lambda_1")


def functional(*layers: dict[str, Any], outputs: Any) -> dict[str, Any]:
    first = {
        "class_name": "InputLayer",
        "name": "x",
        "config": {"batch_input_shape": [None, 6], "name": "x"},
        "inbound_nodes": [],
    }
    inner = {"name": "m", "layers": [first, *layers], "input_layers": [["x", 0, 0]], "output_layers": outputs}
    return {"class_name": "Functional", "config": inner}


def add(name: str, *inputs: list[Any]) -> dict[str, Any]:
    return {"class_name": "Add", "name": name, "config": {"name": name}, "inbound_nodes": [[[*i, {}] for i in inputs]]}


GRAPHS: dict[str, Any] = {
    "a cycle": functional(add("a", ["x", 0, 0], ["b", 0, 0]), add("b", ["a", 0, 0], ["x", 0, 0]), outputs=[["b", 0, 0]]),
    "itself": functional(add("a", ["a", 0, 0], ["x", 0, 0]), outputs=[["a", 0, 0]]),
    "a missing layer": functional(add("a", ["ghost", 0, 0], ["x", 0, 0]), outputs=[["a", 0, 0]]),
    "a missing call": functional(add("a", ["x", 7, 0], ["x", 0, 0]), outputs=[["a", 0, 0]]),
    "a missing tensor": functional(add("a", ["x", 0, 3], ["x", 0, 0]), outputs=[["a", 0, 0]]),
    "a missing output": functional(add("a", ["x", 0, 0], ["x", 0, 0]), outputs=[["ghost", 0, 0]]),
    "an output no reference": functional(add("a", ["x", 0, 0], ["x", 0, 0]), outputs=[5]),
}


def graph_file(path: Path, architecture: Any) -> Path:
    with h5py.File(path, "w") as f:
        f.attrs["keras_version"], f.attrs["backend"] = "2.15.0", "tensorflow"
        f.attrs["model_config"] = json.dumps(architecture)
        group = f.create_group("model_weights")
        group.attrs["layer_names"] = np.array([], "S1")
    return path


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(tmp_path: Path, name: str) -> None:
    refuse(graph_file(tmp_path / "bad.h5", GRAPHS[name]), NpinferError, "")


def test_doubling(tmp_path: Path) -> None:
    """x + x, sixty times: 2**60 paths, sixty additions."""
    layers = [add(f"a{k}", *[[f"a{k - 1}" if k else "x", 0, 0]] * 2) for k in range(60)]
    path = graph_file(tmp_path / "odd.h5", functional(*layers, outputs=[["a59", 0, 0]]))
    loaded = []
    assert outcome(lambda: loaded.append(npinfer.load(path, engine="numpy"))) is None
    assert np.array_equal(loaded[0](np.ones((1, 6), "f4")), np.full((1, 6), 2.0**60, "f4"))


def test_long_chain(tmp_path: Path) -> None:
    """1,500 layers one after another: no recursion, and a config above 64 KB."""
    layers = [{"class_name": "Activation", "config": {"name": f"a{k}", "activation": "linear"}} for k in range(1500)]
    path = graph_file(tmp_path / "odd.h5", config(*layers))
    loaded = []
    assert outcome(lambda: loaded.append(npinfer.load(path, engine="numpy"))) is None
    assert np.array_equal(loaded[0](np.ones((1, 6), "f4")), np.ones((1, 6), "f4"))


KERNELS: dict[str, Any] = {
    "empty": np.zeros((0, 8), "f4"),
    "of three axes": KERNEL[None],
    "for another width": np.zeros((7, 8), "f4"),
    "a scalar": np.float32(1),
}
BIASES: dict[str, Any] = {"a scalar": np.float32(1), "of one element": np.ones(1, "f4"), "of two axes": np.ones((1, 8), "f4")}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(tmp_path: Path, name: str) -> None:
    path = old(tmp_path / "bad.h5")
    with h5py.File(path, "r+") as f:
        del f["model_weights/dense/dense/kernel:0"]
        f["model_weights/dense/dense/kernel:0"] = KERNELS[name]
    refuse(path, NpinferError, "dense")


@pytest.mark.parametrize("name", BIASES)
def test_biases(tmp_path: Path, name: str) -> None:
    """A bias of another shape would broadcast and give wrong numbers without a word."""
    path = old(tmp_path / "bad.h5")
    with h5py.File(path, "r+") as f:
        del f["model_weights/dense/dense/bias:0"]
        f["model_weights/dense/dense/bias:0"] = BIASES[name]
    refuse(path, NpinferError, "dense")


def test_swapped_variables(tmp_path: Path) -> None:
    memory = tmp_path / "w.h5"
    arrays = {"dense": (np.ones(8, "f4"), KERNEL), "dense_1": (KERNEL[:3].T.copy(), np.ones(3, "f4"))}
    content = {**members(), "model.weights.h5": store(memory, arrays).read_bytes()}
    refuse(pack(tmp_path / "bad.keras", content), NpinferError, "dense")


def test_weights_without_architecture(tmp_path: Path) -> None:
    refuse(store(tmp_path / "w.weights.h5"), FormatError, "config")
    path = old(tmp_path / "w.h5")
    with h5py.File(path, "r+") as f:
        del f.attrs["model_config"]
    refuse(path, FormatError, "config")


def test_missing_bias(tmp_path: Path) -> None:
    path = old(tmp_path / "bad.h5")
    with h5py.File(path, "r+") as f:
        f["model_weights/dense"].attrs["weight_names"] = np.array([b"dense/kernel:0"])
    refuse(path, NpinferError, "dense")
