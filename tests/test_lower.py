"""Archive → Graph: input shapes, nested models, orders of calls, taps, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npinfer.errors import FormatError, NpinferError, ShapeError, UnsupportedError
from npinfer.readers.archive import Archive, Call, Layer, Model, TensorRef, Version, tensors, walk
from npinfer.readers.lower import Lowered, lower
from npinfer.readers.problems import unsupported

TF = Version(2, (2, 15, 0), True)


def ref(name: str, node: int = 0, tensor: int = 0) -> TensorRef:
    return TensorRef(name, node, tensor)


def entrance(name: str = "x", shape: Any = (3,), dtype: str = "float32", **config: Any) -> Layer:
    return Layer("InputLayer", name, {"shape": shape, "dtype": dtype, **config})


def dense(name: str, *args: Any, units: int = 2, **more: Any) -> Layer:
    calls = tuple(Call((a,)) for a in args or (ref("x"),))
    return Layer("Dense", name, {"units": units}, calls, **more)


def made(name: str, class_name: str, *args: Any, config: Any = None, kwargs: Any = None) -> Layer:
    return Layer(class_name, name, config or {}, (Call(args, kwargs or {}),))


def archive(*layers: Layer, outputs: Any, inputs: Any = None, widths: Any = None, version: Version = TF) -> Archive:
    given = [ref(k.name) for k in layers if k.class_name == "InputLayer"] if inputs is None else inputs
    model = Model("m", layers, given, outputs)
    weights: dict[tuple[str, ...], dict[str, Any]] = {}
    rng = np.random.default_rng(3)
    for path, layer in walk(model):
        if layer.class_name == "Dense":
            n_in = (widths or {}).get("/".join(path), 3)
            units = layer.config["units"]
            weights[path] = {"kernel": rng.normal(size=(n_in, units)).astype("f4"), "bias": np.zeros(units, "f4")}
    return Archive(model, weights, (), version, "file")


def run(lowered: Lowered, *arrays: Any) -> tuple[Any, ...]:
    return lowered.graph(*(np.asarray(a, np.float32) for a in arrays))


def inner(*layers: Layer, outputs: Any, inputs: Any = None, name: str = "inner", calls: Any = ()) -> Layer:
    given = [ref(k.name) for k in layers if k.class_name == "InputLayer"] if inputs is None else inputs
    return Layer("Model", name, {"sequential": False}, calls, Model(name, layers, given, outputs))


@pytest.mark.parametrize(
    ("shape", "before", "expected"),
    [
        ((3,), [], (3,)),
        (None, [], (3,)),
        ((None,), [], (3,)),
        ((None, None), [], (None, None)),
        ((4, None), [], (4, None)),
        (None, [made("act", "Activation", ref("x"), config={"activation": "relu"})], (3,)),
        (None, [made("drop", "Dropout", ref("x"))], (3,)),
    ],
)
def test_open_sizes_come_from_the_weights(shape: Any, before: list[Layer], expected: Any) -> None:
    last = dense("d", ref(before[-1].name) if before else ref("x"))
    made_ = archive(entrance(shape=shape), *before, last, outputs=[ref("d")])
    if len(expected) == 2:
        with pytest.raises(ShapeError, match="the kernel takes 3 inputs"):
            lower(made_)
    else:
        assert lower(made_).graph.inputs[0].shape == expected


def test_open_sizes_within_a_nested_model() -> None:
    held = inner(entrance("i", None), dense("d", ref("i")), outputs=[ref("d")], calls=(Call((ref("x"),)),))
    assert lower(archive(entrance(shape=None), held, outputs=[ref("inner")])).graph.inputs[0].shape == (3,)


@pytest.mark.parametrize(
    "between", [made("f", "Flatten", ref("x")), made("f", "Reshape", ref("x"), config={"target_shape": [3]})]
)
def test_a_shape_that_nothing_gives(between: Layer) -> None:
    with pytest.raises(FormatError, match="input 'x': neither the config nor the weights give its shape"):
        lower(archive(entrance(shape=None), between, dense("d", ref("f")), outputs=[ref("d")]))


@pytest.mark.parametrize(
    ("config", "message"),
    [({"dtype": "string"}, "dtype 'string'"), ({"sparse": True}, "a sparse tensor"), ({"ragged": True}, "a ragged tensor")],
)
def test_inputs_that_are_not_computed(config: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        lower(archive(entrance(**config), dense("d"), outputs=[ref("d")]))


@pytest.mark.parametrize(
    ("asked", "override", "found"),
    [
        ("float32", None, "float32"),
        ("float64", None, "float64"),
        ("float16", None, "float32"),
        ("float32", "float64", "float64"),
        ("int32", "float64", "int32"),
    ],
)
def test_dtypes_of_inputs(asked: str, override: str | None, found: str) -> None:
    made_ = archive(
        entrance(dtype=asked), made("a", "Activation", ref("x"), config={"activation": "linear"}), outputs=[ref("x")]
    )
    assert lower(made_, override).graph.inputs[0].dtype == found


def test_a_layer_used_twice_has_its_weights_once() -> None:
    shared = dense("d", ref("x"), ref("d"), units=3)
    lowered = lower(archive(entrance(), shared, outputs=[ref("d", 1)]))
    first, second = (n.op for n in lowered.graph.nodes)
    assert first.kernel is second.kernel or np.shares_memory(first.kernel, second.kernel)
    x = np.ones((2, 3))
    np.testing.assert_allclose(run(lowered, x)[0], x @ first.kernel @ first.kernel, rtol=1e-5)


def test_calls_run_after_those_they_read() -> None:
    layers = [entrance(), dense("last", ref("first"), units=3), dense("first", units=3), dense("unused", units=3)]
    assert [n.name for n in lower(archive(*layers, outputs=[ref("last")])).graph.nodes] == ["first", "last"]


def test_cycles_are_refused() -> None:
    with pytest.raises(FormatError, match="file: the model: layer 'a' needs its own result"):
        lower(archive(entrance(), dense("a", ref("b")), dense("b", ref("a")), outputs=[ref("a")]))


@pytest.mark.parametrize("bad", [ref("d", 3), ref("q")])
def test_references_to_nothing(bad: TensorRef) -> None:
    with pytest.raises(FormatError, match="which the config doesn't hold"):
        lower(archive(entrance(), dense("d"), outputs=[bad]))


def test_results_that_a_layer_does_not_give() -> None:
    with pytest.raises(FormatError, match="refers to result 1 of 'd', which gives 1"):
        lower(archive(entrance(), dense("d"), outputs=[ref("d", 0, 1)]))


def test_chains_may_be_thousands_long() -> None:
    layers = [
        entrance(),
        *(made(f"a{k}", "Activation", ref(f"a{k - 1}" if k else "x"), config={"activation": "relu"}) for k in range(3000)),
    ]
    assert len(lower(archive(*layers, outputs=[ref("a2999")])).graph.nodes) == 3000


def test_outputs_keep_their_form() -> None:
    layers = [entrance(), dense("a"), dense("b", units=1)]
    one = lower(archive(*layers, outputs=ref("a"), inputs=ref("x")))
    assert (one.inputs, one.outputs) == (0, 0)
    named = lower(archive(*layers, outputs={"p": ref("b"), "q": ref("a")}))
    assert named.outputs == {"p": 0, "q": 1}
    assert [named.graph.specs[v].shape for v in named.graph.outputs] == [(1,), (2,)]
    twice = lower(archive(*layers, outputs=[ref("a"), ref("a"), ref("x")]))
    assert len(twice.graph.outputs) == 3


def test_inner_layers_can_be_returned() -> None:
    made_ = archive(entrance(), dense("a"), dense("b"), outputs=[ref("b")])
    lowered = lower(made_, outputs=["a"])
    assert lowered.outputs == 0
    assert len(lower(made_, outputs=["a", "b"]).graph.outputs) == 2
    with pytest.raises(UnsupportedError, match="no layer called 'q' to return; there are: x"):
        lower(made_, outputs=["q"])


# nested models


def test_a_nested_model_is_inlined() -> None:
    held = inner(
        entrance("i"), dense("d", ref("i"), units=3), outputs=[ref("d")], calls=(Call((ref("x"),)), Call((ref("inner"),)))
    )
    lowered = lower(archive(entrance(), held, outputs=[ref("inner", 1)]))
    assert [n.name for n in lowered.graph.nodes] == ["inner/d", "inner/d"]
    assert "inner/d" in lowered.graph.labels


PAIR = [entrance("p", (2,)), entrance("q", (3,)), made("c", "Concatenate", [ref("q"), ref("p")], config={"axis": -1})]


@pytest.mark.parametrize(
    ("inputs", "args"),
    [
        ([ref("p"), ref("q")], ([ref("y"), ref("x")],)),
        ([ref("p"), ref("q")], ({"q": ref("x"), "p": ref("y")},)),
        ({"p": ref("p"), "q": ref("q")}, ({"q": ref("x"), "p": ref("y")},)),
        ({"p": ref("p"), "q": ref("q")}, ([ref("y"), ref("x")],)),
        ([ref("p"), ref("q")], (ref("y"), ref("x"))),
    ],
)
def test_arguments_of_nested_models(inputs: Any, args: Any) -> None:
    held = inner(*PAIR, inputs=inputs, outputs=ref("c"), calls=(Call(args),))
    lowered = lower(archive(entrance("x"), entrance("y", (2,)), held, outputs=ref("inner")))
    found = run(lowered, [[1, 2, 3]], [[4, 5]])[0]
    np.testing.assert_array_equal(found, [[1, 2, 3, 4, 5]])


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (([ref("x")],), {}, FormatError, "called with 1 tensors, the model has 2 inputs"),
        (({"p": ref("y")},), {}, FormatError, "called with p; its inputs are p, q"),
        (([ref("x"), ref("y")],), {}, ShapeError, r"input 'p' takes \[2\] a sample, got \[3\]"),
        (([ref("y"), ref("x")],), {"extra": 1}, UnsupportedError, "call argument.* extra"),
    ],
)
def test_arguments_that_do_not_fit(args: Any, kwargs: Any, error: type[NpinferError], message: str) -> None:
    held = inner(*PAIR, outputs=ref("c"), calls=(Call(args, kwargs),))
    with pytest.raises(error, match=message):
        lower(archive(entrance("x"), entrance("y", (2,)), held, outputs=ref("inner")))


@pytest.mark.parametrize(("version", "expected"), [(TF, "float64"), (Version(2, (2, 2, 4)), "float32")])
def test_a_nested_models_input_is_cast_as_its_keras_does(version: Version, expected: str) -> None:
    held = inner(entrance("i", dtype="float64"), outputs=[ref("i")], calls=(Call((ref("x"),)),))
    lowered = lower(archive(entrance(), held, outputs=[ref("inner")], version=version))
    assert lowered.graph.specs[lowered.graph.outputs[0]].dtype == expected


# refusals


def test_all_that_is_unsupported_is_reported_at_once() -> None:
    layers = [
        entrance(),
        made("a", "Weird", ref("x")),
        Layer("Mine", "b", {}, (Call((ref("x"),)),), module="custom"),
        Layer("Strange", "c", {}, (Call((ref("x"),)),), module="ops"),
        dense("d", dtype="complex64"),
        made("e", "Activation", ref("x"), config={"activation": "wobble"}),
    ]
    with pytest.raises(UnsupportedError) as caught:
        lower(archive(*layers, outputs=[ref("d"), ref("c")]))
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    for part in (
        "'a' (Weird): this class is unknown",
        "'b' (Mine): a custom class",
        "'c' (Strange): this operation is unknown",
    ):
        assert part in text
    assert "dtype policy 'complex64'" in text
    assert "wobble" in text


def test_operations_that_no_output_needs_are_no_problem() -> None:
    """tf.keras keeps those of a loss that add_loss was given."""
    loss = Layer("Strange", "c", {}, (Call((ref("d"),)),), module="ops")
    graph = lower(archive(entrance(), dense("d"), loss, outputs=[ref("d")])).graph
    assert len(graph.nodes) == 1
    with pytest.raises(UnsupportedError, match="Strange"):
        lower(archive(entrance(), dense("d"), loss, outputs=[ref("d")]), outputs=["c"])


def test_call_arguments_that_nobody_takes_are_refused() -> None:
    layer = Layer("Dense", "d", {"units": 2}, (Call((ref("x"),), {"training": False, "odd": 3}),))
    with pytest.raises(UnsupportedError, match=r"call argument\(s\) odd=3"):
        lower(archive(entrance(), layer, outputs=[ref("d")]))


def test_weights_that_do_not_fit_name_the_layer() -> None:
    with pytest.raises(ShapeError, match=r"file: layer 'd' \(Dense on \[3\]\): the kernel takes 5 inputs"):
        lower(archive(entrance(), dense("d"), outputs=[ref("d")], widths={"d": 5}))


def test_configs_without_sense_are_format_errors() -> None:
    layer = made("r", "Permute", ref("x"), config={"dims": "abc"})
    with pytest.raises(NpinferError, match="'r'"):
        lower(archive(entrance(), layer, outputs=[ref("r")]))


def test_missing_weights_are_format_errors() -> None:
    made_ = archive(entrance(), dense("d"), outputs=[ref("d")])
    with pytest.raises(FormatError, match="layer 'd'"):
        lower(made_.replace(weights={}))


def test_the_archive_walks_everything() -> None:
    held = inner(entrance("i"), dense("d", ref("i")), outputs=[ref("d")])
    wrapper = Layer("TimeDistributed", "t", {"layer": dense("k"), "cells": [dense("c0")]})
    found = ["/".join(p) for p, _ in walk(Model("m", (held, wrapper), [], []))]
    assert found == ["inner", "inner/i", "inner/d", "t", "t/layer", "t/cells/0"]
    assert list(tensors({"a": [ref("x")], "b": (ref("y"), 3)})) == [ref("x"), ref("y")]


def test_one_error_for_many_problems() -> None:
    assert unsupported("f", ["a", "b"]).problems == ("a", "b")
