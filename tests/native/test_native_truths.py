"""Comparisons, choices and masks in the compiled engine, against their NumPy meaning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from native_chains import F, close, normal

from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.arithmetic import Binary, Unary, Where
from npinfer.ops.attention import Attention
from npinfer.ops.attention_heads import HeadAttention
from npinfer.ops.cast import Cast
from npinfer.ops.embedding import Embedding
from npinfer.ops.masking import Differs, StepsKept, ZeroUnless
from npinfer.ops.pool import GlobalPool
from npinfer.ops.recurrent import GRUCell, LSTMCell, Recurrent
from npinfer.ops.reductions import Reduce
from npinfer.ops.reshape import Reshape, Transpose

GATES = {"activation": Activation("tanh"), "recurrent_activation": Activation("sigmoid")}
BOOL, SPECIAL = np.dtype(bool), (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, 2.0)


def graph(inputs: list[Any], *nodes: tuple[Op, tuple[int, ...]]) -> Graph:
    """inputs: shapes, or (shape, dtype). The last node's first result is the output."""
    specs = [Spec(*s) if isinstance(s[-1], np.dtype) else Spec(s, F) for s in inputs]
    made = Graph(specs, [Node(*n) for n in nodes], [0])
    return Graph(specs, made.nodes, [made.first[-1]])


def draw(spec: Spec, rows: int) -> Array:
    shape = (rows, *spec.shape)
    if spec.dtype != F:
        return np.random.default_rng(3).integers(0, 4, shape).astype(spec.dtype)
    return np.where(normal(*shape) > 0.3, normal(*shape), F.type(0))


def same(net: Graph, xs: list[Array] | None = None) -> None:
    """Nothing of it runs through its meaning, and its outputs are those, alone as in a batch."""
    executor = NativeExecutor(net)
    assert executor.uncovered() == []
    xs = [draw(s, 7) for s in net.inputs] if xs is None else xs
    (got,) = executor.run(xs)
    with np.errstate(all="ignore"):
        (expected,) = net(*xs)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    finite = np.isfinite(expected)
    close(got[finite], expected[finite])
    for k in range(len(got)):
        assert np.array_equal(executor.run([x[k : k + 1] for x in xs])[0][0], got[k], equal_nan=True), (
            "bits depend on the batch"
        )


def special(shape: tuple[int, ...]) -> list[Array]:
    """All pairs of SPECIAL, as two inputs of this shape."""
    pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL], F)
    return [np.resize(pairs[:, k], (7, *shape)) for k in range(2)]


@pytest.mark.parametrize("kind", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_comparisons_choose(kind: str) -> None:
    choice: tuple[Op, tuple[int, ...]] = Where(), (2, 0, 1)
    same(graph([(3, 19), (3, 19)], (Binary(kind), (0, 1)), choice), special((3, 19)))
    same(graph([(3, 19), (1, 19)], (Binary(kind, normal(19)), (0,)), choice))
    same(graph([(3, 19), (3, 1)], (Binary(kind, normal(3, 1), first=True), (0,)), choice))


@pytest.mark.parametrize("kind", ["logical_and", "logical_or", "logical_xor"])
def test_logic(kind: str) -> None:
    nodes = (Binary("less", np.zeros((), F)), (0,)), (Binary("less_equal", np.ones((), F)), (1,)), (Binary(kind), (2, 3))
    same(graph([(5, 9), (1, 9)], *nodes, (Unary("logical_not"), (4,)), (Cast(F), (5,))))
    same(graph([(5, 9)], (Unary("isnan"), (0,)), (Binary(kind, np.arange(9) % 2 == 0), (1,)), (Where(x2=normal(5, 1)), (2, 0))))


@pytest.mark.parametrize("kind", ["square", "negative", "abs", "reciprocal", "exp"])
def test_unary(kind: str) -> None:
    same(graph([(3, 19)], (Unary(kind), (0,))))
    x = special((3, 19))[0]
    with np.errstate(all="ignore"):
        expected = graph([(3, 19)], (Unary(kind), (0,)))(x)[0]
    got = NativeExecutor(graph([(3, 19)], (Unary(kind), (0,)))).run([x])[0]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(expected[~np.isnan(expected)]))


def test_choices_between_constants() -> None:
    for where, inputs in (
        (Where(x1=np.ones((), F)), (1, 0)),
        (Where(x1=normal(19), x2=normal(3, 1)), (1,)),
        (Where(condition=np.arange(19) % 3 == 0), (0, 0)),
    ):
        same(graph([(3, 19)], (Unary("isnan"), (0,)), (where, inputs)))


def test_truth_values_are_moved() -> None:
    nodes = (Binary("less", np.zeros((), F)), (0,)), (Transpose((1, 0)), (1,)), (Reshape((2, -1)), (2,)), (Cast(F), (3,))
    same(graph([(4, 6)], *nodes))
    same(graph([(4, 6)], nodes[0], (Reduce("any", (1,)), (1,)), (Cast(F), (2,))))
    same(graph([(4, 6)], (Cast(BOOL), (0,)), (Reduce("any", (0,), True), (1,)), (Where(x2=normal(6)), (2, 0))))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("masked", ["previous", "state", "zero"])
@pytest.mark.parametrize("backwards", [False, True])
def test_embedding_masks_recurrence(dtype: str, masked: str, backwards: bool) -> None:
    gates = normal(8, 64) / 4, normal(16, 64) / 4, normal(64)
    cell = LSTMCell(kernel=gates[0], recurrent_kernel=gates[1], bias=gates[2], **GATES)
    for whole in (False, True):
        run = Recurrent(cell, return_sequences=whole, go_backwards=backwards, masked=masked)
        nodes = (Differs(0.0), (0,)), (Cast(np.dtype("int32")), (0,)), (Embedding(normal(4, 8)), (2,)), (run, (3, 1))
        ids = np.arange(7 * 9, dtype=dtype).reshape(7, 9) % 4
        same(graph([((9,), np.dtype(dtype))], *nodes), [ids])
    if dtype != "float32":
        compared = Binary("not_equal", np.zeros((), dtype)), Binary("equal", np.zeros((1,), dtype))
        for op in compared:
            same(graph([((9,), np.dtype(dtype))], (op, (0,)), (Cast(F), (1,))))


def test_masking_layer() -> None:
    cell = GRUCell(kernel=normal(5, 48) / 4, recurrent_kernel=normal(16, 48) / 4, bias=normal(48), **GATES)
    mask, zero = (StepsKept(0.0), (0,)), (ZeroUnless(), (0, 1))
    x = draw(Spec((9, 5), F), 7)
    x[:, ::2] = 0
    x[2, 3, 1] = np.nan
    same(graph([(9, 5)], mask, zero, (Recurrent(cell, return_sequences=True, masked="zero"), (2, 1))), [x])
    same(graph([(9, 5)], mask, zero, (GlobalPool("average"), (2, 1))), [x])
    same(graph([(9, 5)], mask, (GlobalPool("average", True), (0, 1))), [np.zeros_like(x)])


def test_high_words_count() -> None:
    """2**32 isn't 0, though its low 32 bits are."""
    net = graph([((3,), np.dtype("int64"))], (Differs(0.0), (0,)), (Cast(F), (1,)))
    x = np.array([[0, 1 << 32, -(1 << 40)], [5, -1, 0]])
    np.testing.assert_array_equal(NativeExecutor(net).run([x])[0], [[0, 1, 1], [1, 1, 0]])


HEADS = ((9, 12), (11, 12), (11, 12))


@pytest.mark.parametrize("kinds", [("value",), ("query",), ("query", "value", "key"), ("attention",), ("value", "attention")])
@pytest.mark.parametrize(("penalised", "zeroed"), [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("causal", [False, True])
def test_masked_heads(kinds: tuple[str, ...], penalised: bool, zeroed: bool, causal: bool) -> None:
    shapes: dict[str, tuple[int, ...]] = {"query": (9,), "value": (11,), "key": (11,), "attention": (9, 11)}
    masks = [(Differs(0.0), (3 + k,)) for k in range(len(kinds))]
    op = HeadAttention(3, 3, 0.4, causal, None, kinds, penalised, zeroed)
    first = 3 + len(kinds)
    inputs = [*HEADS, *(shapes[k] for k in kinds)]
    net = graph(inputs, *masks, (op, (0, 1, 2, *range(first, first + len(kinds)))))
    same(net)
    xs = [draw(s, 7) for s in net.inputs]
    xs[1][4, 10, 3] = np.nan
    if not penalised:
        xs[3][4, ..., -1] = 0
        same(net, xs)


def test_a_mask_for_each_head() -> None:
    op = HeadAttention(3, 3, 0.4, masks=("attention",), penalised=False, zeroed=True)
    same(graph([*HEADS, (3, 9, 11)], (Differs(0.0), (3,)), (op, (0, 1, 2, 4))))


@pytest.mark.parametrize("kind", ["dot", "additive"])
@pytest.mark.parametrize("kinds", [("value",), ("query", "value"), ("query",)])
def test_masked_attention(kind: str, kinds: tuple[str, ...]) -> None:
    shapes = {"query": (9,), "value": (11,)}
    masks = [(Differs(0.0), (3 + k,)) for k in range(len(kinds))]
    first = 3 + len(kinds)
    op = Attention(kind, causal=True, masks=kinds)
    inputs = [(9, 12), (11, 5), (11, 12), *(shapes[k] for k in kinds)]
    same(graph(inputs, *masks, (op, (0, 1, 2, *range(first, first + len(kinds))))))


def test_truth_values_of_the_caller_run_as_before() -> None:
    """Bytes have no compiled form, except as the mask of a recurrent layer; nor have truth values as outputs."""
    for net in (
        graph([(3, 5), ((3, 5), BOOL)], (Where(x2=np.zeros((), F)), (1, 0))),
        graph([*HEADS, ((11,), BOOL)], (HeadAttention(3, 3, 0.4, masks=("value",), penalised=False), (0, 1, 2, 3))),
        graph([(3, 5)], (Binary("less", np.zeros((), F)), (0,))),
    ):
        executor = NativeExecutor(net)
        assert executor.uncovered() == [0]
        xs = [draw(s, 5) for s in net.inputs]
        got, expected = executor.run(xs)[0], net(*xs)[0]
        assert got.dtype == expected.dtype
        close(got.astype(F), expected.astype(F))
