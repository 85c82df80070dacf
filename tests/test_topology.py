"""Layers and their calls in one graph: Sequentials, nested models, merges, inputs and outputs, users' models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from config_parts import K1, K2, K3, TF, keras_tensor, named_policy

from npinfer.errors import FormatError, LimitError, UnsupportedError
from npinfer.readers import topology
from npinfer.readers.archive import Call, Model, TensorRef, Version


def sequential(*layers: Any, version: Version = K2, **config: Any) -> Model:
    return topology.model(
        {"class_name": "Sequential", "config": {"name": "s", "layers": list(layers), **config}}, version, "test"
    )


def dense(name: str, inbound: Any = None, **config: Any) -> dict[str, Any]:
    entry = {"class_name": "Dense", "name": name, "config": {"name": name, "units": 3, **config}}
    return entry if inbound is None else {**entry, "inbound_nodes": inbound}


def entrance(name: str, **config: Any) -> dict[str, Any]:
    shape = {"batch_input_shape": [None, 3], **config}
    return {"class_name": "InputLayer", "name": name, "config": {"name": name, **shape}, "inbound_nodes": []}


def functional(layers: list[Any], inputs: Any, outputs: Any, name: str = "m", **extra: Any) -> dict[str, Any]:
    config = {"name": name, "layers": layers, "input_layers": inputs, "output_layers": outputs}
    return {"class_name": "Model", "name": name, "config": config, **extra}


@pytest.mark.parametrize(
    ("model", "shape", "name"),
    [
        (sequential(dense("d", batch_input_shape=[None, 4])), (4,), "d_input"),
        (sequential(entrance("in"), dense("d")), (3,), "in"),
        (sequential(entrance("in", batch_input_shape=None), dense("d"), build_input_shape=[None, 7]), (7,), "in"),
        (sequential(dense("d")), None, "d_input"),
        (sequential(dense("d"), build_input_shape=[None, 6]), (6,), "d_input"),
        (sequential(dense("d"), dense("d_input")), None, "d_input_1"),
        (
            topology.model({"class_name": "Sequential", "config": [dense("d", batch_input_shape=[None, 2])]}, K1, "t"),
            (2,),
            "d_input",
        ),
    ],
)
def test_sequential(model: Model, shape: Any, name: str) -> None:
    first, second = model.layers[0], model.layers[1]
    assert (first.class_name, first.name, first.config["shape"]) == ("InputLayer", name, shape)
    assert second.calls == (Call((TensorRef(name, 0, 0),)),)
    assert model.outputs == [TensorRef(model.layers[-1].name, 0, 0)]


def test_the_dtype_of_a_first_layer_is_its_inputs() -> None:
    assert sequential(dense("d", dtype="float64")).layers[0].config["dtype"] == "float64"
    assert sequential(dense("d", input_dtype="int32"), version=K1).layers[0].config["dtype"] == "int32"
    assert sequential(dense("d", dtype=named_policy("Policy", name="mixed_float16"))).layers[0].config["dtype"] == "float16"


def test_a_sequential_of_a_merge_becomes_one_graph() -> None:
    def branch(name: str) -> dict[str, Any]:
        return {"class_name": "Sequential", "config": [dense(name, batch_input_shape=[None, 2])]}

    merge = {"class_name": "Merge", "config": {"name": "m", "mode": "concat", "layers": [branch("a"), branch("b")]}}
    found = topology.model({"class_name": "Sequential", "config": [merge, dense("out")]}, Version(2, (2, 0, 8)), "test")
    assert [k.name for k in found.layers] == ["a_input", "a", "b_input", "b", "m", "out"]
    assert found.inputs == [TensorRef("a_input", 0, 0), TensorRef("b_input", 0, 0)]
    assert found.layer("m").calls == (Call(([TensorRef("a", 0, 0), TensorRef("b", 0, 0)],)),)
    assert found.layer("m").class_name == "Concatenate"


def test_keras_0() -> None:
    layers = [
        {"name": "Dense", "custom_name": "dense", "output_dim": 2, "input_shape": [3]},
        {"name": "Activation", "activation": "relu"},
    ]
    found = topology.model({"name": "Sequential", "layers": layers, "loss": "mse"}, K1, "test")
    assert [k.class_name for k in found.layers] == ["InputLayer", "Dense", "Activation"]
    assert found.layers[0].config["shape"] == (3,)


def nested(class_name: str, calls: Any, version: Version, out: int, users: list[int], layers: Any = None) -> Model:
    """A model that calls another one, with the numbers of nodes as a file has them."""
    body = layers or [entrance("i"), dense("d", [[["i", 0, 0, {}]]])]
    held = functional(body, [["i", 0, 0]], [["d", 0, 0]], "e", inbound_nodes=calls)
    if class_name == "Sequential":
        held = {**held, "class_name": "Sequential", "config": {"name": "e", "layers": [dense("d")]}}
    heads = [dense(f"u{n}", [[["e", n, 0, {}]]]) if version.major < 3 else k3_dense(f"u{n}", n) for n in users]
    ends = [["e", out, 0], *([f"u{n}", 0, 0] for n in users)]
    return topology.model(functional([entrance("x"), held, *heads], [["x", 0, 0]], ends), version, "test")


def k3_dense(name: str, node: int) -> dict[str, Any]:
    return {
        **dense(name, [{"args": [keras_tensor("e", node)], "kwargs": {}}]),
        "config": {"name": name, "units": 3, "trainable": True},
    }


OLD, NEW = [[["x", 0, 0, {}]]], [{"args": [keras_tensor("x")], "kwargs": {}}]


@pytest.mark.parametrize(
    ("model", "output", "users"),
    [
        (nested("Model", OLD, K2, 1, [1]), 0, [0]),
        (nested("Model", OLD * 2, K2, 2, [1, 2]), 1, [0, 1]),
        (nested("Sequential", OLD * 2, TF, 1, [0, 1]), 1, [0, 1]),
        (nested("Model", NEW, K3, 1, [0]), 0, [0]),
        (nested("Model", NEW * 2, K3, 2, [0, 1]), 1, [0, 1]),
        (nested("Sequential", NEW * 2, K3, 1, [0, 1]), 1, [0, 1]),
    ],
)
def test_a_nested_models_own_node(model: Model, output: int, users: list[int]) -> None:
    refs = [k.calls[0].args[0] for k in model.layers if k.name.startswith("u")]
    assert model.outputs[0] == TensorRef("e", output, 0)
    assert [r.node for r in refs] == users


def test_inputs_and_outputs_in_every_form() -> None:
    a, b, d = entrance("a"), entrance("b"), dense("d", [[["a", 0, 0, {}], ["b", 0, 0, {}]]])
    flat = topology.model(functional([a, dense("d", [[["a", 0, 0, {}]]])], ["a", 0, 0], ["d", 0, 0]), K3, "test")
    assert (flat.inputs, flat.outputs) == (TensorRef("a", 0, 0), TensorRef("d", 0, 0))
    named = topology.model(
        functional([a, b, d], {"z": ["a", 0, 0], "c": ["b", 0, 0]}, {"q": ["d", 0, 0], "p": ["a", 0, 0]}), K3, "t"
    )
    assert list(named.inputs) == ["c", "z"]
    assert list(named.outputs) == ["q", "p"]
    deep = topology.model(functional([a, b, d], [["a", 0, 0], [["b", 0, 0]]], [["d", 0, 0], [["d", 0, 0]]]), K3, "test")
    assert deep.inputs == [TensorRef("a", 0, 0), TensorRef("b", 0, 0)]
    assert deep.outputs == [TensorRef("d", 0, 0)] * 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (functional([entrance("a"), entrance("a")], ["a", 0, 0], ["a", 0, 0]), "two layers are called 'a'"),
        (functional([entrance("a"), dense("d", [[["q", 0, 0, {}]]])], ["a", 0, 0], ["d", 0, 0]), "refers to layer 'q'"),
        (functional([entrance("a"), dense("d", [[["a", 1, 0, {}]]])], ["a", 0, 0], ["d", 0, 0]), "call 1 of layer 'a'"),
        (
            functional([entrance("a"), dense("d", [[["a", 0, 0, {}]]])], ["a", 0, 0], ["q", 0, 0]),
            "output_layers refers to layer 'q'",
        ),
        (functional([entrance("a"), dense("d", [[["a", 0, 0, {}]]])], ["d", 0, 0], ["d", 0, 0]), "isn't an InputLayer"),
        (functional([entrance("a")], [], [["a", 0, 0]]), "no inputs"),
        (functional([entrance("a")], [["a", 0, 0]], []), "no outputs"),
        (functional([entrance("a")], [["a", 0, 0], ["a", 0, 0]], [["a", 0, 0]]), "names an input twice"),
        (functional([entrance("a")], [7], [["a", 0, 0]]), "input_layers holds 7"),
        (functional([entrance("a"), 5], [["a", 0, 0]], [["a", 0, 0]]), "must be a dict"),
        ({"class_name": "Sequential", "config": {"layers": []}}, "no layers"),
        ({"class_name": "Sequential", "config": {}}, "no layers"),
        ([], "holds a list"),
        ({"config": {}}, "no class_name"),
        ({"class_name": "Sequential"}, "lacks class_name or config"),
    ],
)
def test_broken_topologies_are_refused(config: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        topology.model(config, K2, "test")


@pytest.mark.parametrize(
    "config",
    [
        {"class_name": "MyModel", "config": {"layers": []}},
        {"class_name": "Model", "config": {"name": "m"}},
        {
            "class_name": "Functional",
            "module": "mine",
            "config": functional([entrance("a")], ["a", 0, 0], ["a", 0, 0])["config"],
        },
    ],
)
def test_users_models_are_refused(config: Any) -> None:
    with pytest.raises(UnsupportedError, match="class of its author's"):
        topology.model(config, K3, "test")


def test_models_within_models_have_an_end() -> None:
    config: Any = dense("d")
    for k in range(80):
        config = {"class_name": "Sequential", "config": {"name": f"s{k}", "layers": [config]}}
    with pytest.raises(LimitError, match="levels deep"):
        topology.model(config, K2, "test")


def test_long_chains_need_no_recursion() -> None:
    layers = [entrance("d0"), *(dense(f"d{k}", [[[f"d{k - 1}", 0, 0, {}]]]) for k in range(1, 3000))]
    assert len(topology.model(functional(layers, ["d0", 0, 0], ["d2999", 0, 0]), K2, "test").layers) == 3000


def test_the_entry_names_the_layer() -> None:
    entry = {
        "class_name": "Dense",
        "name": "outer",
        "config": {"name": "inner", "units": 1},
        "inbound_nodes": [[["a", 0, 0, {}]]],
    }
    found = topology.model(functional([entrance("a"), entry], ["a", 0, 0], ["outer", 0, 0]), TF, "test")
    assert [k.name for k in found.layers] == ["a", "outer"]


def test_configs_stay_plain_data() -> None:
    model = sequential(dense("d", kernel_initializer={"class_name": "Anything"}, bias_constraint="x", mean=[1.0]))
    assert set(model.layers[1].config) == {"units", "mean"}
    json.dumps(model.layers[1].config)


def test_a_merge_of_models_and_layers() -> None:
    graph = functional([entrance("i"), dense("g", [[["i", 0, 0]]])], [["i", 0, 0]], [["g", 0, 0]], "branch")
    plain = dense("l", batch_input_shape=[None, 2])
    merge = {"class_name": "Merge", "config": {"name": "m", "mode": "sum", "layers": [graph, plain]}}
    found = topology.model({"class_name": "Sequential", "config": [merge]}, K1, "test")
    assert [k.name for k in found.layers] == ["i", "g", "l_input", "l", "m"]
    assert found.outputs == [TensorRef("m", 0, 0)]


def test_merges_within_merges_have_an_end() -> None:
    merge: Any = dense("d")
    for k in range(80):
        merge = {
            "class_name": "Sequential",
            "config": [{"class_name": "Merge", "config": {"name": f"m{k}", "layers": [merge]}}],
        }
    with pytest.raises(LimitError, match="levels deep"):
        topology.model(merge, K1, "test")


def test_a_branch_without_layers() -> None:
    merge = {"class_name": "Merge", "config": {"name": "m", "layers": [{"class_name": "Sequential", "config": []}]}}
    with pytest.raises(FormatError, match="no layers"):
        topology.model({"class_name": "Sequential", "config": [merge]}, K1, "test")


def test_fixed_batches_and_sparse_inputs_are_noted() -> None:
    model = sequential(entrance("in", batch_input_shape=[4, 3], sparse=True), dense("d"))
    assert model.layers[0].config == {"shape": (3,), "dtype": "float32", "batch_size": 4, "sparse": True}
