"""Functions of TensorFlow and of keras.ops inside functional models, and shapes as values: against real Keras
(tests/graphs/functions-*.npz, made by tools/make_operation_cases.py), and what no saved model shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import graph_cases as gc
import numpy as np
import pytest

import npinfer
from npinfer.errors import UnsupportedError
from npinfer.graph import Array, Graph
from npinfer.readers import tf_nodes, tfops
from npinfer.readers.archive import Archive, Call, Layer, Model, TensorRef, Version
from npinfer.readers.lower import lower

FILES = sorted(gc.FOLDER.glob("functions-*.npz"))
SHAPE = Layer("TFOpLambda", "s", {"function": "compat.v1.shape"}, (Call((TensorRef("x", 0, 0),)),))
X, S = TensorRef("x", 0, 0), TensorRef("s", 0, 0)


def results(path: Path) -> tuple[bytes, list[Array], list[str], list[Array]]:
    """A file, its inputs, and the names and arrays of what Keras gave."""
    with np.load(path) as data:
        xs, flat, names, ys = [data[f"x{k}"] for k in range(6)], data["y"].tobytes(), [], []
        for name, dtype, shape in json.loads(str(data["specs"])):
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            ys.append(np.frombuffer(flat[:size], dtype).reshape(shape))
            names.append(name)
            flat = flat[size:]
        return data["operations/file"].tobytes(), xs, names, ys


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_function_equals_keras(path: Path, engine: str) -> None:
    """An output for each: values within a few roundings of Keras's float32, and Keras's dtype and shape."""
    file, xs, names, wanted = results(path)
    model = npinfer.load(file, engine=engine)
    with np.errstate(all="ignore"):
        got = model(xs)
    wrong = []
    for name, y, want in zip(names, got, wanted):
        try:
            assert y.dtype == want.dtype, name
            gc.assert_near(y, want, 3e-6, name)
        except AssertionError as e:
            wrong.append(str(e))
    assert not wrong, "\n".join(wrong)
    assert len(got) == len(names) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_bound_and_single_samples_give_the_same(path: Path) -> None:
    """Sizes that a call knows may be fixed by bind, and a batch is its samples."""
    file, xs, names, _ = results(path)
    model = npinfer.load(file, engine="numpy", outputs=None)
    with np.errstate(all="ignore"):
        whole = model(xs)
        for k in range(2):
            for name, y, one in zip(names, whole, model([x[k : k + 1] for x in xs])):
                gc.assert_near(one, y[k : k + 1], 2e-6, name)
        assert all(len(y) == 0 for y in model([x[:0] for x in xs]))


def shaped(function: str, *args: Any, before: Layer = SHAPE, **kwargs: Any) -> Graph:
    """A model of x (?, 4), another layer (its shape s), and a function of these."""
    entrance = Layer("InputLayer", "x", {"shape": (None, 4), "dtype": "float32"}, (Call(),))
    made = Layer("TFOpLambda", "f", {"function": function}, (Call(args, kwargs),))
    model = Model("model", (entrance, tfops.modern(before), tfops.modern(made)), X, TensorRef("f", 0, 0))
    return lower(Archive(model, {}, (), Version(2, (2, 15), True), "file")).graph


def test_constants_are_evaluated_while_lowering() -> None:
    given = Call(([0, 2],), {"depth": 4, "on_value": 2.0, "off_value": -1.0})
    graph = shaped("math.add", X, S, before=Layer("TFOpLambda", "s", {"function": "one_hot"}, (given,)))
    assert len(graph.nodes) == 1
    (y,) = graph(np.zeros((1, 2, 4), np.float32))
    np.testing.assert_array_equal(y, [[[2, -1, -1, -1], [-1, -1, 2, -1]]])


MIXED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("math.multiply", (X, S), {}, "the size of the batch would enter"),
    ("reshape", (X,), {"shape": [2, S]}, "fixes the size of the batch"),
    ("reshape", (X,), {"shape": [-1, S]}, "moves the batch axis"),
    ("tile", (X,), {"multiples": S}, "repeats along the batch axis"),
    ("tile", (X,), {"multiples": [1, 1, S]}, "repeats along the batch axis"),
    ("broadcast_to", (X,), {"shape": [5, 2, 4]}, "fixes the size of the batch"),
    ("broadcast_to", ([[1.0], [2.0]],), {"shape": S}, "a constant of shape"),
    ("slice", (X,), {"begin": [0, 0, 0], "size": [2, -1, -1]}, "cuts the batch axis"),
    ("slice", (X,), {"begin": [0, 0, 0], "size": [-1, S, -1]}, "size that is unknown"),
    ("strided_slice", (X, S, [0, 0, 0], [1, 1, 1]), {"begin_mask": 1, "end_mask": 7}, "starts behind the last entry"),
    ("strided_slice", (X, [1, 0], [2, 0], [1, 1]), {}, "touches the batch axis"),
    ("identity", (S,), {}, "returns a shape or a constant"),
    ("range", (S,), {}, "a range over a size that is unknown"),
    ("range", (10**9,), {}, "a constant of 1000000000 entries"),
    ("fill", ([10**6, 10**6], 1.0), {}, "a constant of 10"),
    ("tile", ([1.0],), {"multiples": [10**9]}, "a constant of 10"),
    ("math.exp", (S,), {}, "returns a shape or a constant"),
    ("one_hot", (X,), {"depth": S}, "the size of the batch would enter"),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "reason"), MIXED)
def test_the_batch_enters_no_arithmetic(function: str, args: Any, kwargs: Any, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        shaped(function, *args, **kwargs)


def test_unknown_nodes_and_their_settings_keep_their_names() -> None:
    node = {"op": "Conv2D", "attr": {"data_format": {"s": "TkNIVw=="}}}
    layer = tfops.modern(Layer("TensorFlowOpLayer", "f", {"node_def": node}, (Call(([X],)),)))
    assert layer.class_name == "TensorFlow op Conv2D"
    for op, attr in (("GatherV2", {"batch_dims": {"i": "2"}}), ("ResizeBilinear", {"align_corners": {"b": True}})):
        assert tf_nodes.bound({"op": op, "attr": attr}, [X, X]) is None


def test_attributes_of_nodes() -> None:
    attr = {"keep_dims": {"b": True}, "T": {"type": "DT_FLOAT"}, "odd": 3, "text": {"s": "?"}}
    found = tf_nodes.bound({"op": "Sum", "attr": attr}, [X, [1]])
    assert found == tf_nodes.Bound("Sum", (X,), {"axis": [1], "keepdims": True})
    found = tf_nodes.bound({"op": "Cast", "attr": {"DstT": {"type": "DT_INT32"}}}, [X])
    assert found == tf_nodes.Bound("Cast", (X,), {"dtype": "int32"})
    assert tf_nodes.bound({"op": "AddN"}, [X, S]) == tf_nodes.Bound("Add list", ([X, S],), {})
    assert tf_nodes.bound({"op": "Shape"}, [X, S]) is None
