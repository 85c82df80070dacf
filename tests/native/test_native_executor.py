"""The native executor: every packed op against its NumPy meaning, the same bits in any batch."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from native_chains import F, chain, close, mlp, normal, rng
from random_graphs import graphs

from npinfer.errors import ShapeError
from npinfer.executors.native import refusal, rules
from npinfer.executors.native.executor import NativeExecutor
from npinfer.executors.native.program import Program
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.affine import Affine
from npinfer.ops.arithmetic import Binary, Unary
from npinfer.ops.cast import Cast
from npinfer.ops.dense import Dense
from npinfer.ops.embedding import Embedding
from npinfer.ops.indexing import GetItem
from npinfer.ops.joining import Concatenate
from npinfer.ops.merge import Merge
from npinfer.ops.norm import LayerNorm, RMSNorm
from npinfer.ops.parametric import PReLU
from npinfer.ops.pool import GlobalPool
from npinfer.ops.reductions import Reduce
from npinfer.ops.reshape import Reshape, Transpose
from npinfer.ops.softmax import LogSoftmax, Softmax


def kernel(n: int, m: int) -> Array:
    return normal(n, m) / np.sqrt(np.float32(n))


ONE_INPUT: list[tuple[tuple[int, ...], Op]] = [
    *(
        ((n,), Dense(kernel(n, m), normal(m)))
        for n in (1, 2, 7, 16, 33, 100, 200)
        for m in (1, 3, 8, 15, 16, 17, 31, 48, 64, 65, 130)
    ),
    ((40,), Dense(kernel(40, 24))),
    ((40,), Dense(kernel(40, 24), normal(24), Activation("tanh"))),
    ((3, 5, 40), Dense(kernel(40, 20), normal(20), Activation("relu"))),
    ((50, 10), Dense(kernel(10, 64), normal(64))),
    ((2, 70), Dense(kernel(70, 2), normal(2), Activation("sigmoid"))),
    ((19,), Activation("gelu")),
    ((4, 5), Activation("leaky_relu", (0.3,))),
    ((19,), Affine(normal(19), normal(19), normal(19), Activation("relu"))),
    ((3, 19), Affine(normal(3, 1), np.float32(2) * np.ones((), F))),
    ((3, 19), Binary("subtract", normal(19))),
    ((3, 19), Binary("divide", normal(3, 1), first=True)),
    ((3, 4, 5), Transpose((2, 0, 1))),
    ((3, 4, 5), Reshape((15, -1))),
    ((7, 6), GetItem((slice(1, None, 2), slice(None, None, -1)))),
    ((7, 6), GetItem((3,))),
    *(((4, 33, 3), Softmax(axes)) for axes in ((-1,), (-2,), (-2, -1), (-3,))),
    ((4, 33), LogSoftmax()),
    ((10,), Softmax()),
    ((4, 33), LayerNorm((-1,), 1e-3, normal(33), normal(33))),
    ((4, 33), LayerNorm((-2,), 1e-3)),
    ((4, 33), RMSNorm((-1,), 1e-6, normal(33))),
    *(((4, 33, 3), Reduce(kind, (1,), keep)) for kind in ("sum", "mean", "max", "min", "prod") for keep in (False, True)),
    ((4, 33, 3), Reduce("mean", (0, 2))),
    ((5, 6, 3), GlobalPool("average")),
    ((5, 6, 3), GlobalPool("max", True)),
    ((3, 19), PReLU(normal(19))),
]


@pytest.mark.parametrize(("shape", "op"), ONE_INPUT, ids=lambda v: repr(v)[:60])
@pytest.mark.parametrize("around", [False, True], ids=["alone", "between"])
def test_op_is_its_meaning(shape: tuple[int, ...], op: Op, around: bool) -> None:
    """Alone, it reads and writes the caller's memory; between others, the engine's own."""
    graph = chain(shape, *([Activation("softsign"), op, Activation("softsign")] if around else [op]))
    executor = NativeExecutor(graph)
    assert executor.uncovered() == []
    x = normal(11, *shape)
    (got,) = executor.run([x])
    (expected,) = graph(x)
    assert got.shape == expected.shape
    assert got.dtype == F
    close(got, expected)
    for k in range(len(x)):
        assert np.array_equal(executor.run([x[k : k + 1]])[0][0], got[k]), "bits depend on the batch"


@pytest.mark.parametrize("kind", ["add", "subtract", "multiply", "average", "maximum", "minimum"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_merge(kind: str, count: int) -> None:
    shapes = ((3, 19), (1, 19), (3, 1), (3, 19))[:count]
    graph = Graph([Spec(s, F, f"x{k}") for k, s in enumerate(shapes)], [Node(Merge(kind), tuple(range(count)))], [count])
    xs = [normal(5, *s) for s in shapes]
    executor = NativeExecutor(graph)
    assert executor.uncovered() == []
    close(executor.run(xs)[0], graph(*xs)[0])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concatenate(axis: int) -> None:
    shapes = [[4, 5, 6], [4, 5, 6], [4, 5, 6]]
    for k, shape in enumerate(shapes):
        shape[axis] = k + 1
    graph = Graph([Spec(tuple(s), F) for s in shapes], [Node(Concatenate(axis), (2, 0, 1))], [3])
    xs = [normal(5, *s) for s in shapes]
    assert np.array_equal(NativeExecutor(graph).run(xs)[0], graph(*xs)[0])


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_random_graphs(case: tuple[Graph, list[Array]]) -> None:
    graph, xs = case
    executor = NativeExecutor(graph)
    assert executor.uncovered() == []
    got = executor.run(xs)
    for a, b in zip(got, graph(*xs)):
        assert a.shape == b.shape
        close(a, b)
    for k in range(len(xs[0])):
        for whole, one in zip(got, executor.run([x[k : k + 1] for x in xs])):
            assert np.array_equal(whole[k], one[0])


@pytest.mark.parametrize(
    "sizes",
    [(40, 64, 128, 128, 1), (7, 33, 5), (17, 200, 100, 3), (100, 10), (4, 16, 16, 2), (300, 300), (100, 100, 35), (2, 2, 1, 1)],
)
def test_bits_do_not_depend_on_batch_position_or_thread(sizes: tuple[int, ...]) -> None:
    graph = mlp(*sizes, kind="tanh")
    x = normal(3000, sizes[0])
    one = NativeExecutor(graph, threads=1)
    (whole,) = one.run([x])
    np.testing.assert_allclose(whole[:200], graph(x[:200])[0], rtol=0, atol=1e-5)
    assert np.array_equal(NativeExecutor(graph, threads=3).run([x])[0], whole)
    for start, n in ((0, 1), (1, 2), (3, 5), (100, 6), (123, 23), (500, 64), (777, 1001)):
        assert np.array_equal(one.run([x[start : start + n]])[0], whole[start : start + n])
    step = one.bind(None, False, lambda: None)
    assert np.array_equal(np.array([step(row) for row in x[:50]]), whole[:50])


def test_threads_share_large_batches() -> None:
    graph = mlp(64, 256, 256, 8)
    executor = NativeExecutor(graph, threads=2)
    seen: set[int] = set()
    plan = executor._plan(((64,),))
    assert plan.whole is not None
    run = plan.whole.run
    both = threading.Event()

    def watched(arrays: list[Array], results: list[Array], start: int = 0, stop: int | None = None) -> int:
        seen.add(threading.get_ident())
        if len(seen) == 2:
            both.set()
        if start:  # or the first thread could do everything before the second one wakes up
            assert both.wait(60)
        return run(arrays, results, start, stop)

    plan.whole.run = watched  # type: ignore[method-assign]
    executor.run([normal(3, 64)])
    assert seen == {threading.get_ident()}, "a small batch wakes nobody"
    x = normal(2000, 64)
    (got,) = executor.run([x])
    assert len(seen) == 2
    assert np.array_equal(got, NativeExecutor(graph, threads=1).run([x])[0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sizes", [(33, 17, 3), (40, 20, 1), (5, 70, 2)])
def test_nan_and_infinity(value: float, sizes: tuple[int, ...]) -> None:
    """Lanes that fill up a vector must not leak (0 · inf), and NaN must pass through relu."""
    graph = mlp(*sizes)
    x = normal(7, sizes[0])
    x[3, -1] = value
    (got,) = NativeExecutor(graph).run([x])
    with np.errstate(all="ignore"):
        (expected,) = graph(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    close(np.nan_to_num(np.delete(got, 3, 0)), np.delete(expected, 3, 0))
    infinite = chain((3,), Activation("linear"), Dense(np.full((3, 40), 1e38, F)), Dense(np.ones((40, 2), F)))
    big = np.full((2, 3), 3e38, F)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(NativeExecutor(infinite).run([big])[0], infinite(big)[0])


def test_outputs_of_all_kinds() -> None:
    """An input as an output, one value twice, a reshaped one beside what it came from, and what others still read."""
    nodes = [
        Node(Dense(normal(6, 12), normal(12), Activation("relu")), (0,)),
        Node(Reshape((3, 4)), (1,)),
        Node(Activation("tanh"), (2,)),
        Node(Dense(normal(4, 5)), (3,)),
        Node(Dense(normal(12, 3)), (1,)),
    ]
    graph = Graph([Spec((6,), F, "x")], nodes, [0, 2, 1, 4, 4, 5, 3])
    executor = NativeExecutor(graph)
    assert executor.uncovered() == []
    x = normal(9, 6)
    got = executor.run([x])
    for a, b in zip(got, graph(x)):
        close(a, b)
    assert len({a.ctypes.data for a in got}) == len(got), "each output has memory of its own"
    assert not np.shares_memory(got[0], x)


def test_every_rule_is_found() -> None:
    """Rules are imported when a graph has an op of a module that ELSEWHERE names."""
    native = Path(rules.__file__).parent
    for name in sorted(p.stem for p in native.glob("pack*.py")):
        import_module(f"npinfer.executors.native.{name}")
    for op, rule in rules.RULES.items():
        where = rule.__module__.rpartition(".")[2]
        assert where in ("pack", "pack_elements") or rules.ELSEWHERE[op.__module__.rpartition(".")[2]] == where


def test_empty_batch() -> None:
    assert NativeExecutor(mlp(5, 4)).run([normal(0, 5)])[0].shape == (0, 4)


def test_open_sizes() -> None:
    graph = Graph([Spec((None, 6), F, "x")], [Node(Dense(normal(6, 20), normal(20), Activation("relu")), (0,))], [1])
    executor = NativeExecutor(graph)
    for steps in (1, 5, 31, 5):
        x = normal(3, steps, 6)
        close(executor.run([x])[0], graph(x)[0])
    assert executor.uncovered() == []


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_embedding_and_its_errors(dtype: str) -> None:
    table = normal(10, 6)
    nodes = [Node(Cast(np.dtype("int32")), (0,)), Node(Embedding(table), (1,)), Node(Dense(normal(6, 4)), (2,))]
    if dtype != "float32":
        nodes = [Node(Embedding(table), (0,)), Node(Dense(normal(6, 4)), (1,))]
    graph = Graph([Spec((5,), np.dtype(dtype), "words")], nodes, [len(nodes)])
    executor = NativeExecutor(graph)
    assert executor.uncovered() == []
    x = rng.integers(0, 10, (8, 5)).astype(dtype)
    close(executor.run([x])[0], graph(x)[0])
    for wrong in (-1, 10, 2_000_000_000):
        y = x.copy()
        y[3, 2] = wrong
        with pytest.raises(ShapeError, match="indices"):
            executor.run([y])
    if dtype == "float32":
        y = x + np.float32(0.75)  # truncated, as Cast does
        close(executor.run([y])[0], graph(y)[0])


def test_ops_without_a_compiled_form_run_in_between() -> None:
    nodes = [
        Node(Dense(normal(6, 9), normal(9), Activation("relu")), (0,)),
        Node(Unary("tan"), (1,)),
        Node(Dense(normal(9, 5), normal(5)), (2,)),
        Node(Merge("add"), (3, 3)),
    ]
    graph = Graph([Spec((6,), F, "x")], nodes, [4, 1])
    executor = NativeExecutor(graph)
    assert executor.uncovered() == [1]
    x = normal(17, 6)
    got = executor.run([x])
    for a, b in zip(got, graph(x)):
        close(a, b)
    for k in range(17):
        assert all(np.array_equal(a[k], b[0]) for a, b in zip(got, executor.run([x[k : k + 1]])))
    step = executor.bind(None, False, lambda: None)
    assert np.array_equal(step(x[0])[0], got[0][0])
    executor.prepare(
        Graph(graph.inputs, [nodes[0], nodes[1], Node(Dense(np.zeros((9, 5), F)), (2,)), nodes[3]], graph.outputs)
    )()
    assert not executor.run([x])[0].any()


def test_buffers_are_shared_where_their_lives_do_not_meet() -> None:
    deep = Program(mlp(64, *[64] * 20))
    assert deep.scratch_row <= 3 * 256


def test_float64_is_refused_with_a_reason() -> None:
    graph = Graph([Spec((3,), np.dtype("f8"))], [Node(Activation("tanh"), (0,))], [1])
    assert "float32" in str(refusal(graph))
    assert refusal(mlp(3, 2)) is None
