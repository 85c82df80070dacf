"""Reshaping, merging and Keras 3's operations: against real Keras (tests/graphs), and what no saved model shows."""

from __future__ import annotations

from typing import Any

import graph_cases as gc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npinfer
from npinfer.errors import DtypeError, NpinferError, ShapeError, UnsupportedError
from npinfer.graph import Graph, Node, Op, Spec
from npinfer.ops import arithmetic, indexing, joining, products, reductions, reshape
from npinfer.ops.merge import Merge
from npinfer.ops.registry import OPERATIONS
from npinfer.ops.shapes import agree, broadcast, product, promote
from npinfer.readers.archive import Call, Layer, TensorRef, Version

F32, F64, I32, BOOL = np.dtype("float32"), np.dtype("float64"), np.dtype("int32"), np.dtype(bool)
IN0, IN1 = TensorRef("in0", 0, 0), TensorRef("in1", 0, 0)
OPERATION_FILE = gc.FOLDER / "keras-3.15.npz"


# against Keras


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    with np.load(OPERATION_FILE) as data:
        return {k.removeprefix("operations/"): data[k] for k in data.files if k.startswith("operations/")}


@pytest.mark.parametrize("dtype", [None, "float64"])
@pytest.mark.parametrize("engine", ["reference", "numpy"])
def test_every_operation_equals_keras(operations: dict[str, Any], engine: str, dtype: str | None) -> None:
    """One model with an output for each operation: values within 1e-6 of Keras's float32, and Keras's dtype."""
    model = npinfer.load(operations["file"].tobytes(), engine=engine, dtype=dtype)
    xs = [operations[f"x{k}"] for k in range(5)]
    with np.errstate(all="ignore"):
        got = model([x.astype(s.dtype) for x, s in zip(xs, model.inputs)])
    wrong = []
    for name, y, spec in zip(operations["names"], got, model.outputs):
        want = operations[f"y/{name}"]
        try:
            gc.assert_near(y, want, 2e-6, str(name))
            if dtype is None:
                assert y.dtype == want.dtype == spec.dtype, name
            assert spec.shape == want.shape[1:], name
        except AssertionError as e:
            wrong.append(str(e))
    assert not wrong, "\n".join(wrong)
    assert len(got) > 300


MERGES = list(gc.cases(lambda n: n.startswith(("mask", "flatten", "reshape", "permute", "repeat"))))


@pytest.mark.parametrize(("path", "name"), MERGES)
def test_layers_equal_keras(path: Any, name: str, engine: str) -> None:
    """Merge layers of masked sequences, whose masks pass on by other rules in each generation of Keras; reshaping layers."""
    model, xs, y = gc.load(path, name, engine=engine)
    gc.assert_near(model(xs if len(xs) > 1 else xs[0]), y, 2e-6)


# the batch axis


def op(class_name: str, *args: Any, **config: Any) -> Layer:
    return Layer(class_name, "op", config, (Call(args),), module="ops")


MIXING: list[tuple[Layer, list[tuple[int | None, ...]]]] = [
    (op("Sum", IN0, axis=0), [(4,)]),
    (op("Sum", IN0, axis=None), [(4,)]),
    (op("Mean", IN0, axis=(0, 1)), [(4,)]),
    (op("Max", IN0, axis=-2), [(4,)]),
    (op("Softmax", IN0, axis=0), [(4,)]),
    (op("Cumsum", IN0, axis=None), [(4,)]),
    (op("Norm", IN0, axis=None), [(4,)]),
    (op("Concatenate", [IN0, IN1], axis=0), [(4,), (4,)]),
    (op("Stack", [IN0, IN1], axis=0), [(4,), (4,)]),
    (op("Split", IN0, indices_or_sections=2, axis=0), [(4,)]),
    (op("Flip", IN0, axis=None), [(4,)]),
    (op("Tile", IN0, repeats=[2, 1]), [(4,)]),
    (op("Repeat", IN0, repeats=2, axis=0), [(4,)]),
    (op("Roll", IN0, shift=1, axis=None), [(4,)]),
    (op("Pad", IN0, pad_width=1), [(4,)]),
    (op("ExpandDims", IN0, axis=0), [(4,)]),
    (op("Reshape", IN0, newshape=[2, -1]), [(4,)]),
    (op("Reshape", IN0, newshape=[-1, 3]), [(4,)]),
    (op("Transpose", IN0, axes=None), [(4,)]),
    (op("Transpose", IN0, axes=[1, 0]), [(4,)]),
    (op("Swapaxes", IN0, axis1=0, axis2=1), [(4,)]),
    (op("Moveaxis", IN0, source=0, destination=1), [(4,)]),
    (op("GetItem", IN0, 1), [(4,)]),
    (op("GetItem", IN0, slice(1, 2)), [(4,)]),
    (op("GetItem", IN0, [None, slice(None)]), [(4,)]),
    (op("Take", IN0, [0], axis=None), [(4,)]),
    (op("Take", IN0, IN1, axis=1), [(4,), (4,)]),
    (op("BroadcastTo", IN0, shape=[5, 4]), [(4,)]),
    (op("Matmul", IN0, IN1), [(4,), (4,)]),
    (op("Matmul", IN0, IN1), [(4,), (4, 3)]),
    (op("Dot", IN0, IN1), [(4,), (4,)]),
    (op("Tensordot", IN0, [[1.0]], axes=2), [(4,)]),
    (op("Einsum", IN0, IN1, subscripts="bi,ci->bc"), [(4,), (4,)]),
    (op("Einsum", IN0, IN1, subscripts="bi,bj->ij"), [(4,), (4,)]),
    (op("Einsum", IN0, subscripts="bi->ib"), [(4,)]),
    (op("Add", IN0, IN1), [(4,), (3, 4)]),
    (op("Add", IN0, [[1.0], [2.0]]), [(4,)]),
    (op("Where", IN0, IN1, 0.0), [(4,), (3, 4)]),
    (Layer("Concatenate", "op", {"axis": 0}), [(4,), (4,)]),
    (Layer("Dot", "op", {"axes": 0}), [(4,), (4,)]),
]


@pytest.mark.parametrize(("layer", "shapes"), MIXING, ids=lambda v: getattr(v, "class_name", ""))
def test_samples_are_never_mixed(layer: Layer, shapes: list[tuple[int | None, ...]]) -> None:
    with pytest.raises(UnsupportedError, match=r"layer 'op' \(\w+\)"):
        gc.graph_of(layer, *shapes)


REFUSED: list[tuple[Layer, list[tuple[int | None, ...]], str]] = [
    (op("Where", IN0), [(4,)], "depends on the data"),
    (op("Add", 1.0, 2.0), [(4,)], "returns a shape or a constant"),
    (op("GetItem", IN0, [slice(None), [0, 2]]), [(4,)], "whole numbers, slices"),
    (op("Max", IN0, axis=1, initial=0.0), [(4,)], "initial"),
    (op("Reshape", IN0, newshape=[-1, 2]), [(4,)], "returns steps of samples as samples"),
    (op("Argmax", IN0, axis=[1, 2]), [(4, 3)], "one axis"),
    (op("Cast", IN0, dtype="complex64"), [(4,)], "complex64"),
    (op("Unstack", IN0, axis=1), [(None,)], "unknown size"),
    (op("Split", IN0, indices_or_sections=2, axis=1), [(None,)], "indices_or_sections"),
    (op("Squeeze", IN0, axis=None), [(None, 1)], "unknown"),
    (op("OneHot", IN0, num_classes=3, sparse=True), [(4,)], "sparse"),
    (op("Repeat", IN0, repeats=[1, 0.5], axis=1), [(2,)], "repeats"),
    (op("Norm", IN0, ord="nuc", axis=[1, 2]), [(2, 2)], "nuc"),
    (op("Cumsum", IN0, axis=1, dtype="float64"), [(4,)], "dtype"),
    (op("Average", IN0, [[1.0]], axis=1), [(4,)], "weights"),
    (op("Matmul", [[1.0]], IN0), [(4,)], "across the batch"),
    (op("Matmul", [[1.0]], [[2.0]]), [(4,)], "constants alone"),
    (op("Matmul", IN0, [[[1.0]], [[2.0]]]), [(4,)], "across the batch"),
    (op("Matmul", [[[[1.0]]], [[[2.0]]]], IN0), [(4, 1)], "across the batch"),
    (op("Matmul", IN0, IN1, transpose_a=True), [(4,), (4,)], "turned around multiplies across the batch"),
    (op("Einsum", [1.0], subscripts="b->b"), [(4,)], "doesn't tell its operands"),
    (op("Resize", IN0, size=IN1), [(4, 4, 1), (2,)], "the shape"),
    (op("DepthToSpace", IN0, block_size=2), [(None, 4, 4)], "unknown"),
    (op("Einsum", IN0, [1.0], [2.0], subscripts="bi,j,k->bijk"), [(4,)], "more than one constant"),
    (op("Einsum", IN0, subscripts="bi"), [(4,)], "subscripts"),
    (op("Append", IN0, 1.0, axis=1), [(4,)], "list of tensors"),
    (op("FullLike", IN0, [1.0]), [(4,)], "a number"),
    (op("LayerNorm", IN0, IN1), [(4,), (4,)], "tensor of the model"),
    (op("BatchNorm", IN0, axis=-1), [(4,)], "statistics"),
    (op("Take", [[1.0]], IN0, axis=1), [(4,)], "axis 0"),
    (op("TakeAlongAxis", IN0, [[0]], axis=1), [(4,)], "two tensors"),
    (op("TopK", IN0, k=2, sorted=False), [(4,)], "sorted"),
    (Layer("Dot", "op", {"axes": [1, 1, 1]}), [(4,), (4,)], "axes"),
]


@pytest.mark.parametrize(("layer", "shapes", "reason"), REFUSED, ids=lambda v: getattr(v, "class_name", ""))
def test_refusals(layer: Layer, shapes: list[tuple[int | None, ...]], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        gc.graph_of(layer, *shapes)


WRONG: list[tuple[Layer, list[tuple[int | None, ...]], str]] = [
    (op("Sum", IN0, axis=3), [(4,)], "2 axes"),
    (op("Squeeze", IN0, axis=1), [(4,)], "size 1"),
    (op("Split", IN0, indices_or_sections=3, axis=1), [(4,)], "equal parts"),
    (op("Concatenate", [IN0, IN1], axis=1), [(4, 2), (4, 3)], "should be equal"),
    (op("Take", IN0, [5], axis=1), [(4,)], "beyond"),
    (op("GetItem", IN0, [slice(None), 4]), [(4,)], "outside"),
    (op("BroadcastTo", IN0, shape=[None, 5]), [(4,)], "can't be broadcast"),
    (op("Matmul", IN0, IN1), [(2, 3), (2, 3)], "should be equal"),
    (op("TopK", IN0, k=9), [(4,)], "largest"),
    (op("Tril", IN0), [(4,)], "two axes"),
    (op("Pad", IN0, pad_width=[[0, 0], [5, 0]], mode="reflect"), [(4,)], "wider"),
    (op("Tile", IN0, repeats=[1, -1]), [(4,)], "repeats"),
    (Layer("Reshape", "op", {"target_shape": [3, -1]}), [(4,)], "reshaped"),
    (Layer("Reshape", "op", {"target_shape": [-1, -1]}), [(4,)], "at most one"),
    (Layer("Permute", "op", {"dims": [1, 3]}), [(4, 2)], "order of axes"),
    (Layer("RepeatVector", "op", {"n": 2}), [(4, 2)], "vector"),
    (Layer("Subtract", "op", {}), [(4,), (4,), (4,)], "two inputs"),
    (Layer("Add", "op", {}, (Call((IN0,)),)), [(4,)], "list of tensors"),
    (Layer("Add", "op", {}), [(4,), (3,)], "broadcast"),
    (Layer("Dot", "op", {"axes": 1}), [(4,), (3,)], "should be equal"),
]


@pytest.mark.parametrize(("layer", "shapes", "reason"), WRONG, ids=lambda v: getattr(v, "class_name", ""))
def test_shapes_that_do_not_fit(layer: Layer, shapes: list[tuple[int | None, ...]], reason: str) -> None:
    with pytest.raises(NpinferError, match=reason) as caught:
        gc.graph_of(layer, *shapes)
    assert isinstance(caught.value, ShapeError)


# rules


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(st.lists(st.lists(st.sampled_from([1, 1, 3]), max_size=4), min_size=1, max_size=4))
def test_broadcast_is_numpys(shapes: list[list[int]]) -> None:
    assert broadcast(*map(tuple, shapes)) == np.broadcast_shapes(*map(tuple, shapes))


def test_unknown_sizes() -> None:
    assert broadcast((None, 3), (1, 1)) == (None, 3)
    assert broadcast((None,), (4,)) == (4,)
    assert agree(None, 3) == agree(3, None) == 3
    assert product((2, None)) is None
    with pytest.raises(ShapeError, match="broadcast"):
        broadcast((2,), (3,))
    with pytest.raises(ShapeError, match="equal"):
        agree(2, 3)


@pytest.mark.parametrize(
    ("dtypes", "result"),
    [("int64 float32", "float32"), ("bool int8", "int8"), ("uint8 int8", "int16"), ("float32 float64", "float64")],
)
def test_dtypes_promote_as_in_keras(dtypes: str, result: str) -> None:
    assert promote(*map(np.dtype, dtypes.split())) == result


def test_complex_numbers_do_not_promote() -> None:
    with pytest.raises(DtypeError, match="complex64"):
        promote(np.dtype("complex64"), F32)


def test_merges_of_different_rank() -> None:
    """Axes of size 1 go after the batch axis, where NumPy alone would put them before it."""
    graph = gc.graph_of(Layer("Multiply", "op"), (3,), (2, 4, 3))
    a, b = np.random.default_rng(0).normal(size=(5, 3)).astype(F32), np.ones((5, 2, 4, 3), F32)
    np.testing.assert_array_equal(graph(a, b)[0], np.broadcast_to(a[:, None, None], b.shape))


def test_merges_of_integers_average_to_floats() -> None:
    graph = gc.graph_of(Layer("Average", "op"), (2,), (2,), dtypes=("int32", "int32"))
    y = graph(np.array([[1, 2]], I32), np.array([[2, 2]], I32))[0]
    assert y.dtype == F32
    np.testing.assert_array_equal(y, [[1.5, 2]])


def test_dot_layer_bounds_norms_as_its_version_did() -> None:
    """Vectors shorter than the bound: Keras 3's norm is at least 1e-7, Keras 2's squared norm 1e-12."""
    layer, x = Layer("Dot", "op", {"axes": 1, "normalize": True}), np.full((1, 1), 1e-7, F32)
    for version, want in ((gc.KERAS3, 1.0), (Version(2, (2, 15, 0), True), 0.01)):
        graph = gc.graph_of(layer, (1,), (1,), version=version)
        np.testing.assert_allclose(graph(x, x)[0], [[want]], rtol=1e-5)


def test_operands_by_name() -> None:
    layer = Layer("Subtract", "op", {}, (Call((IN0,), {"x2": 1.0}),), module="ops")
    np.testing.assert_array_equal(gc.graph_of(layer, (2,))(np.ones((1, 2), F32))[0], [[0, 0]])


def test_pixels_and_channels_change_places() -> None:
    """The orders of keras.ops.depth_to_space and space_to_depth in Keras 3.15."""
    x = np.arange(32, dtype=F32).reshape(1, 2, 4, 4)
    deep = [np.r_[a : a + 8, a + 16 : a + 24] for a in (0, 8)]
    flat = np.ravel([[a, a + 1, a + 4, a + 5, a + 8, a + 9, a + 12, a + 13] for a in (0, 2, 16, 18)])
    space, depth = op("DepthToSpace", IN0, block_size=2), op("SpaceToDepth", IN0, block_size=2, data_format="channels_last")
    np.testing.assert_array_equal(gc.graph_of(space, (2, 4, 4))(x)[0], flat.reshape(1, 4, 8, 1))
    np.testing.assert_array_equal(gc.graph_of(depth, (2, 4, 4))(x)[0], np.ravel(deep).reshape(1, 1, 2, 16))
    first = op("DepthToSpace", IN0, block_size=2, data_format="channels_first")
    np.testing.assert_array_equal(gc.graph_of(first, (4, 2, 4))(x.transpose(0, 3, 1, 2))[0], flat.reshape(1, 1, 4, 8))


def test_squared_difference() -> None:
    assert gc.graph_of(op("SquaredDifference", IN0, 0.5), (2,))(np.array([[2.0, 0.0]], F32))[0].tolist() == [[2.25, 0.25]]


def test_clip_prefers_its_lower_bound() -> None:
    graph = gc.graph_of(op("Clip", IN0, x_min=1.0, x_max=-1.0), (3,))
    np.testing.assert_array_equal(graph(np.array([[-5, 0, 5]], F32))[0], [[1, 1, 1]])


def test_half_precision_constants_are_computed_in_the_models_dtype() -> None:
    graph = gc.graph_of(op("Add", IN0, np.ones(2, np.float16)), (2,))
    assert graph.specs[-1].dtype == F32


def test_nan_to_num_takes_the_dtypes_largest() -> None:
    graph = gc.graph_of(op("NanToNum", IN0), (3,))
    y = graph(np.array([[np.nan, np.inf, -np.inf]], F32))[0]
    np.testing.assert_array_equal(y, np.array([[0, np.finfo(F32).max, np.finfo(F32).min]], F32))


BAD_OPS: list[tuple[Op, list[Spec]]] = [
    (arithmetic.Binary("add"), [Spec((2,), F32), Spec((2,), F64)]),
    (arithmetic.Where(), [Spec((2,), F32), Spec((2,), F32), Spec((2,), F32)]),
    (Merge("add"), [Spec((2,), F32), Spec((2, 2), F32)]),
    (indexing.GetItem((0, 0)), [Spec((2,), F32)]),
    (indexing.TakeRows(np.ones((2, 2), F32)), [Spec((2,), F32)]),
    (indexing.TakeAlongAxis(0), [Spec((2,), F32), Spec((2,), F32)]),
    (joining.Concatenate(0), [Spec((2,), F32), Spec((2, 2), F32)]),
    (joining.Repeat(-1, 0), [Spec((2,), F32)]),
    (reductions.Reduce("sum", (1,)), [Spec((2,), F32)]),
    (products.Matmul(), [Spec((2,), F32), Spec((2, 2), F32)]),
    (products.Einsum("ab,ac->ab"), [Spec((2,), F32)]),
    (products.Einsum("abc->ab"), [Spec((2,), F32)]),
    (reshape.Reshape((3,)), [Spec((2, None), F32)]),
]


@pytest.mark.parametrize(("bad", "specs"), BAD_OPS, ids=lambda v: type(v).__name__)
def test_ops_check_what_they_are_given(bad: Op, specs: list[Spec]) -> None:
    with pytest.raises((ShapeError, DtypeError), match="layer 'n'"):
        Graph(specs, [Node(bad, tuple(range(len(specs))), "n")], [len(specs)])


def test_empty_batches_reshape() -> None:
    assert reshape.Reshape((-1, 2))(np.zeros((0, 4), F32)).shape == (0, 2, 2)
    assert reshape.Reshape((-1,))(np.zeros((0, 4, 3), F32)).shape == (0, 12)


def test_the_tables_are_registered() -> None:
    """Every elementwise kind is reachable from a Keras class, and no class is registered twice with other operands."""
    assert {*arithmetic._UNARY, *arithmetic._BINARY, *reductions._CLASSES} <= OPERATIONS.keys()
    assert len(arithmetic.UNARY) == len(arithmetic._UNARY)
    assert len(arithmetic.BINARY) == len(arithmetic._BINARY)
