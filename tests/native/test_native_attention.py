"""Products of two values in the compiled engine: attention, matmul, dot, against their NumPy meaning."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from native_chains import F, close, normal

from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Graph, Node, Op, Spec
from npinfer.ops.attention import Attention
from npinfer.ops.attention_heads import HeadAttention
from npinfer.ops.masking import StepsKept
from npinfer.ops.pool import GlobalPool
from npinfer.ops.products import BatchDot, Matmul

Shapes = tuple[tuple[int, ...], ...]
SHORT: Shapes = ((7, 20), (9, 10), (9, 6))
SELF: Shapes = ((70, 12), (70, 12), (70, 12))
LUONG: Shapes = ((7, 20), (9, 5), (9, 20))
LUONG_SELF: Shapes = ((9, 20), (9, 5), (9, 20))

CASES: list[tuple[Op, Shapes]] = [
    (HeadAttention(4, 4, 0.25), ((32, 64),) * 3),
    (HeadAttention(1, 1, 1.0), ((1, 3), (1, 3), (1, 1))),
    (HeadAttention(4, 2, 0.25, scores=True), SHORT),
    *(
        (HeadAttention(4, heads, 0.3, causal, window, (), penalised, zeroed), ((70, 12), (70, 3 * heads), (70, 3 * heads)))
        for heads in (4, 2)
        for causal, window in ((True, None), (False, 3), (True, 2))
        for penalised, zeroed in ((True, False), (False, True), (False, False))
    ),
    (Attention("dot"), LUONG),
    (Attention("dot", np.float32(0.3), causal=True), LUONG_SELF),
    (Attention("additive", normal(20), scores=True), LUONG),
    (Attention("additive", causal=True), LUONG_SELF),
    (Attention("concat", np.float32(0.3), np.float32(2), scores=True), LUONG),
    (Attention("concat"), LUONG),
    *((Matmul(), ((rows, n), (n, columns))) for rows in (1, 2, 25) for n in (1, 5, 40) for columns in (1, 3, 16, 50, 130)),
    (Matmul(), ((2, 3, 4, 5), (2, 3, 5, 17))),
    (BatchDot((0, 0)), ((5,), (5,))),
    (BatchDot((1, 1)), ((3, 5), (4, 5))),
    (BatchDot((0, 1)), ((5, 3), (4, 5))),
    (BatchDot((1, 0)), ((2, 5, 3), (5, 18))),
]


def alone(op: Op, shapes: Shapes) -> Graph:
    results = 2 if getattr(op, "scores", False) else 1
    inputs = [Spec(s, F, f"x{k}") for k, s in enumerate(shapes)]
    return Graph(inputs, [Node(op, tuple(range(len(shapes))))], [len(shapes) + k for k in range(results)])


@pytest.mark.parametrize(("op", "shapes"), CASES, ids=lambda v: repr(v)[:70])
def test_product_is_its_meaning(op: Op, shapes: Shapes) -> None:
    graph = alone(op, shapes)
    executor = NativeExecutor(graph)
    assert executor.uncovered() == []
    xs = [normal(5, *s) for s in shapes]
    got = executor.run(xs)
    for a, b in zip(got, graph(*xs), strict=True):
        assert a.shape == b.shape
        close(a, b)
    for k in range(5):
        for whole, one in zip(got, executor.run([x[k : k + 1] for x in xs])):
            assert np.array_equal(one[0], whole[k]), "bits depend on the batch"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("penalised", [True, False])
def test_what_later_steps_hold(value: float, penalised: bool) -> None:
    """Scores that are replaced hide NaN and infinity of masked places, others pass them on."""
    graph = alone(HeadAttention(3, 3, 0.4, True, None, (), penalised, not penalised), SELF)
    xs = [normal(2, *s) for s in SELF]
    xs[1][1, 50, 2] = value
    with np.errstate(all="ignore"):
        (expected,) = graph(*xs)
    (got,) = NativeExecutor(graph).run(xs)
    close(got[0], expected[0])
    close(got[1, :50, :4], expected[1, :50, :4])
    np.testing.assert_array_equal(np.isnan(got[1, :50]), np.isnan(expected[1, :50]))


def test_zeros_beside_an_infinite_score() -> None:
    """The sum of such a row is NaN; weights that are 0 before it stay 0, as the softmax of attention has it."""
    graph = alone(Attention("dot", scores=True), LUONG)
    xs = [normal(2, *s) for s in LUONG]
    xs[0][1, 3] = np.abs(xs[0][1, 3]) * np.float32(1e30)
    xs[2][1, 4] = np.abs(xs[2][1, 4]) * np.float32(1e30)
    with np.errstate(all="ignore"):
        expected = graph(*xs)
    assert np.isnan(expected[1][1, 3]).any()
    assert (expected[1][1, 3] == 0).any()
    for a, b in zip(NativeExecutor(graph).run(xs), expected, strict=True):
        close(a[0], b[0])
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))


def test_a_matrix_that_is_used_several_times_runs_as_before() -> None:
    graph = Graph([Spec((3, 4, 5), F), Spec((1, 5, 6), F)], [Node(Matmul(), (0, 1))], [2])
    executor = NativeExecutor(graph)
    assert executor.uncovered() == [0]
    xs = [normal(3, 3, 4, 5), normal(3, 1, 5, 6)]
    close(executor.run(xs)[0], graph(*xs)[0])


def test_masked_steps_that_are_not_finite() -> None:
    """Keras multiplies by the mask: NaN and infinity of masked steps come through as NaN (numbers of TensorFlow 2.15)."""
    inputs = [Spec((4, 2), F, "x"), Spec((3, 2), F, "v"), Spec((4, 1), F, "m")]
    attend = Node(Attention("dot", masks=("query",)), (0, 1, 1, 3))
    graph = Graph(inputs, [Node(StepsKept(0.0), (2,)), attend, Node(GlobalPool("average"), (0, 3))], [4, 5])
    x = np.array([[[1, 2], [np.inf, 4], [5, np.nan], [7, 8]]] * 2, np.float32)
    x[1, 1:3] = 3
    xs = [x, np.ones((2, 3, 2), np.float32), np.array([[[1], [0], [0], [1]]] * 2, np.float32)]
    executor = NativeExecutor(graph)
    assert executor.uncovered() == []
    with np.errstate(all="ignore"):
        meant = graph(*xs)
    for y, mean in (executor.run(xs), meant):
        np.testing.assert_array_equal(y[0], [[1, 1], [np.nan, np.nan], [np.nan, np.nan], [1, 1]])
        np.testing.assert_array_equal(y[1], [[1, 1], [0, 0], [0, 0], [1, 1]])
        np.testing.assert_array_equal(mean, [[np.nan, np.nan], [4, 5]])
