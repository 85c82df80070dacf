"""Passes: each keeps the meaning, fires where it may and not where it mustn't."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_graphs import graphs

from npinfer.executors.numpy import NumpyExecutor
from npinfer.executors.reference import ReferenceExecutor
from npinfer.graph import Array, Graph, Node, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.affine import Affine
from npinfer.ops.dense import Dense
from npinfer.ops.identity import Cast
from npinfer.ops.merge import Merge
from npinfer.passes import PASSES, drop_identities, fold, fuse, optimise, share

F64 = np.dtype("float64")
RNG = np.random.default_rng(7)
EXACT = (drop_identities, share, fuse)


def close(got: tuple[Array, ...], want: tuple[Array, ...], rtol: float) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * scale)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(dtype="float64"))
def test_passes_keep_the_meaning(made: tuple[Graph, list[Array]]) -> None:
    graph, arrays = made
    want = ReferenceExecutor(graph).run(arrays)
    for step in PASSES:
        got = ReferenceExecutor(step(graph)).run(arrays)
        close(got, want, 0 if step in EXACT else 1e-12)
    best = optimise(graph)
    close(ReferenceExecutor(best).run(arrays), want, 1e-11)
    close(NumpyExecutor(best).run(arrays), want, 1e-11)
    assert len(best.nodes) <= len(graph.nodes)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_numpy_steps_equal_batches(made: tuple[Graph, list[Array]]) -> None:
    graph, arrays = made
    executor = NumpyExecutor(optimise(graph))
    want = executor.run(arrays)
    step = executor.bind(None, False, lambda: None)
    for i in range(len(arrays[0])):
        got = step(*(x[i] for x in arrays))
        got = (got,) if len(graph.outputs) == 1 else got
        close(tuple(got), tuple(y[i] for y in want), 1e-5)


def dense(n_in: int, n_out: int, bias: bool = True) -> Dense:
    return Dense(RNG.normal(size=(n_in, n_out)), RNG.normal(size=n_out) if bias else None)


def affine(n: int, center: float = 0.0) -> Affine:
    return Affine(RNG.normal(size=n), RNG.normal(size=n), np.full(n, center) if center else None)


def chain(*ops: object, width: int = 4) -> Graph:
    return Graph([Spec((width,), F64, "x")], [Node(op, (k,), f"n{k}") for k, op in enumerate(ops)], [len(ops)])  # type: ignore[arg-type]


def kinds(graph: Graph) -> list[str]:
    return [type(n.op).__name__ for n in graph.nodes]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (chain(dense(4, 3), Activation("relu")), ["Dense"]),
        (chain(dense(4, 3), affine(3), Activation("relu")), ["Dense"]),
        (chain(dense(4, 3, bias=False), affine(3, 5.0)), ["Dense"]),
        (chain(affine(4, 1.0), dense(4, 3)), ["Dense"]),
        (chain(affine(4, 1e4), dense(4, 3)), ["Affine", "Dense"]),  # a shift of 1e4 deviations would cost four digits
        (chain(affine(4), affine(4, 2.0), Activation("tanh")), ["Affine"]),
        (chain(dense(4, 3), Activation("relu"), affine(3)), ["Dense", "Affine"]),
        (chain(dense(4, 3), Activation("relu"), affine(3), dense(3, 2)), ["Dense", "Dense"]),
        (chain(Cast(F64), Activation("linear"), dense(4, 3)), ["Dense"]),
        (chain(dense(4, 3), Activation("relu"), Activation("tanh")), ["Dense", "Activation"]),
    ],
)
def test_what_passes_make(graph: Graph, expected: list[str]) -> None:
    best = optimise(graph)
    assert kinds(best) == expected
    x = RNG.normal(size=(5, 4))
    close(best(x), graph(x), 1e-12)


def test_a_value_that_others_read_is_kept() -> None:
    first = dense(4, 3)
    nodes = [Node(first, (0,), "d"), Node(Activation("relu"), (1,), "r"), Node(Merge("add"), (1, 2), "a")]
    graph = Graph([Spec((4,), F64, "x")], nodes, [3])
    assert kinds(optimise(graph)) == ["Dense", "Activation", "Merge"]
    tapped = Graph([Spec((4,), F64, "x")], nodes[:2], [2, 1])
    assert kinds(optimise(tapped)) == ["Dense", "Activation"]


def test_equal_ops_on_equal_values_run_once() -> None:
    shared = dense(4, 3)
    other = Dense(shared.kernel.copy(), shared.bias)
    nodes = [Node(shared, (0,), "a"), Node(shared, (0,), "b"), Node(other, (0,), "c")]
    graph = Graph([Spec((4,), F64, "x")], nodes, [1, 2, 3])
    best = share(graph)
    assert best.outputs == (1, 1, 2)
    x = RNG.normal(size=(2, 4))
    close(best(x), graph(x), 0)


def test_folding_makes_no_infinity() -> None:
    huge = Affine(np.full(3, 1e300), np.zeros(3))
    graph = chain(Dense(np.full((4, 3), 1e300)), huge)
    assert kinds(fold(graph)) == ["Dense", "Affine"]


def test_large_normalization_keeps_its_digits() -> None:
    x = (1e4 + RNG.normal(size=(50, 4))).astype(np.float32)
    norm = Affine(np.ones(4, np.float32), np.zeros(4, np.float32), np.full(4, 1e4, np.float32))
    last = Dense(RNG.normal(size=(4, 2)).astype(np.float32), np.zeros(2, np.float32))
    graph = Graph([Spec((4,), np.dtype("f4"), "x")], [Node(norm, (0,), "n"), Node(last, (1,), "d")], [2])
    exact = (x.astype(np.float64) - 1e4) @ last.kernel.astype(np.float64)
    (got,) = optimise(graph)(x)
    assert np.abs(got - exact).max() < 1e-5 * np.abs(exact).max()
