"""Functions in the place of Lambda layers, and layers that users register."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras_files as kf
import numpy as np
import pytest
from keras_files import numbers

import npinfer
from npinfer.errors import ShapeError, UnsupportedError
from npinfer.graph import Graph, Op, Spec
from npinfer.ops import load_families
from npinfer.ops.affine import Affine
from npinfer.ops.functions import Place, PythonFunction
from npinfer.ops.registry import CUSTOM, LAYERS, variables_of
from npinfer.readers.archive import Call, Layer, TensorRef
from npinfer.readers.lower import lower

F32 = np.dtype(np.float32)
W = numbers(4, 3)


def function_model(function: Any, *shapes: tuple[int | None, ...], **kwargs: Any) -> Graph:
    refs = [TensorRef(f"in{k}", 0, 0) for k in range(len(shapes))]
    calls = [Call((refs if len(refs) > 1 else refs[0],), kwargs)]
    archive = kf.archive(Layer("Lambda", "code", {}), shapes, {}, calls=calls)
    return lower(archive, functions={"code": function} if function else {}).graph


def test_functions_in_the_place_of_lambdas() -> None:
    x, y = numbers(5, 4), numbers(5, 4)
    np.testing.assert_array_equal(function_model(lambda a: a[:, ::2] * 2.0, (4,))(x)[0], 2 * x[:, ::2])
    np.testing.assert_array_equal(function_model(lambda p: p[0] + p[1], (4,), (4,), mask=None)(x, y)[0], x + y)
    graph = function_model(lambda a: (np.argmax(a, 1), np.float64(a.sum((1, 2)))), (4, None))
    assert [(s.shape, s.dtype) for s in graph.specs[1:]] == [((None,), np.dtype(int)), ((), F32)]
    graph = function_model(lambda a: np.concatenate([a, a], 1), (None, 3))
    assert graph.specs[1].shape == (None, 3)
    assert graph(np.zeros((2, 5, 3), np.float32))[0].shape == (2, 10, 3)
    assert function_model(lambda a: a, (4,))(x[:0])[0].shape == (0, 4)


def test_a_lambda_inside_a_wrapper() -> None:
    layer = Layer("TimeDistributed", "t", {"layer": Layer("Lambda", "code", {})})
    archive = kf.archive(layer, [(None, 4)], {})
    graph = lower(archive, functions={"code": lambda a: a.max(1, keepdims=True)}).graph
    x = numbers(2, 3, 4)
    np.testing.assert_array_equal(graph(x)[0], x.max(2, keepdims=True))
    with pytest.raises(UnsupportedError, match="never run"):
        lower(archive)


@pytest.mark.parametrize(
    ("function", "error", "reason"),
    [
        (None, UnsupportedError, r"functions=\{"),
        (lambda a: a - a.mean(), ShapeError, "other samples"),
        (lambda a: a.sum(), ShapeError, "the batch"),
        (lambda a: a[:1], ShapeError, "the batch"),
        (lambda a: a[0, 9], UnsupportedError, "IndexError"),
        (lambda a: np.array([["x"]] * len(a)), UnsupportedError, "numbers"),
        (lambda a: (a,) * len(a), ShapeError, "1 arrays for one sample, 2 for two"),
        (lambda a: a if a.shape[1] == 3 else a[..., None], ShapeError, "number of axes"),
    ],
)
def test_functions_that_cannot_be_layers(function: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        function_model(function, (None,))


def test_functions_are_checked_at_each_call() -> None:
    spec, template = Spec((4,), F32), ([Place(0)], {})
    with pytest.raises(ShapeError, match="for a batch of 5"):
        PythonFunction(lambda a: a[:2], template, (spec,), (spec,))(numbers(5, 4))
    with pytest.raises(ShapeError, match="returned 2 arrays"):
        PythonFunction(lambda a: (a, a), template, (spec,), (spec,))(numbers(5, 4))
    with pytest.raises(ShapeError, match="was given for"):
        PythonFunction(lambda a: a, template, (spec,), (spec,)).infer(Spec((5,), F32))


@pytest.fixture
def registry() -> Iterator[None]:
    load_families()
    custom, layers = dict(CUSTOM), dict(LAYERS)
    yield
    for table, kept in ((CUSTOM, custom), (LAYERS, layers)):
        table.clear()
        table.update(kept)


@pytest.mark.usefixtures("registry")
def test_registered_layers() -> None:
    @npinfer.register_layer("mine>Scale", variables=["factor", "~steps"])
    def scale(config: Any, weights: Any) -> Any:
        return lambda x, **_: x * weights["factor"] + config["shift"]

    layer = Layer("Scale", "s", {"shift": 1.0}, module="custom")
    assert [(v.name, v.trainable) for v in variables_of(layer)] == [("factor", True), ("steps", False)]
    archive = kf.archive(Layer("Scale", "s", {"shift": 1.0}), [(4,)], {"factor": np.float32([1, 2, 3, 4])})
    x = numbers(5, 4)
    np.testing.assert_allclose(lower(archive).graph(x)[0], x * np.float32([1, 2, 3, 4]) + 1, rtol=1e-6)

    @npinfer.register_layer("Twice", variables=lambda c: ["k"] if c.get("k") else [])
    def twice(config: Any, weights: Any) -> Op:
        return Affine(np.float32(2), np.float32(0))

    np.testing.assert_array_equal(lower(kf.archive(Layer("Twice", "t", {}), [(4,)], {})).graph(x)[0], 2 * x)
    assert [v.name for v in variables_of(Layer("Twice", "t", {"k": 1}))] == ["k"]
    assert ("custom", "Twice") in {(r.kind, r.name) for r in npinfer.supported()}


@pytest.mark.usefixtures("registry")
def test_registering_wrongly() -> None:
    with pytest.raises(ValueError, match="replace=True"):
        npinfer.register_layer("Dense")
    with pytest.raises(ValueError, match="mask"):
        npinfer.register_layer("Mine", mask="own")
    with pytest.raises(ValueError, match="name of a class"):
        npinfer.register_layer("")

    @npinfer.register_layer("Mine")
    def mine(config: Any, weights: Any) -> Any:
        return 3

    with pytest.raises(UnsupportedError, match="an Op or a function"):
        lower(kf.archive(Layer("Mine", "m", {}), [(4,)], {}))

    @npinfer.register_layer("Dense", replace=True, variables=["kernel"])
    def dense(config: Any, weights: Any) -> Any:
        return lambda x: x @ weights["kernel"] * 10

    x = numbers(5, 4)
    np.testing.assert_allclose(
        lower(kf.archive(Layer("Dense", "d", {}), [(4,)], {"kernel": W})).graph(x)[0], x @ W * 10, rtol=1e-5
    )
