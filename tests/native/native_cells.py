"""Recurrent cells and networks with random weights, for the compiled engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Array, Graph, Node, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.dense import Dense
from npinfer.ops.recurrent import Cell, GRUCell, LSTMCell, Recurrent, SimpleRNNCell

F = np.dtype(np.float32)
TIMES, N_IN = 31, 5
rng = np.random.default_rng(11)


def normal(*shape: int) -> Array:
    return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(F)


def make(name: str, units: int = 20, bias: bool = True, act: str = "tanh", gate: str = "sigmoid", n_in: int = N_IN) -> Cell:
    parts = {"simple": 1, "lstm": 4, "gru": 3, "gru_after": 3}[name]
    fields: dict[str, Any] = {
        "activation": Activation(act),
        "recurrent_activation": Activation(gate) if parts > 1 else None,
        "kernel": normal(n_in, parts * units),
        "recurrent_kernel": normal(units, parts * units),
        "bias": normal(parts * units) if bias else None,
    }
    if name == "simple":
        return SimpleRNNCell(**fields)
    if name == "lstm":
        return LSTMCell(**fields)
    after = name == "gru_after"
    return GRUCell(**fields, recurrent_bias=normal(3 * units) if bias and after else None, reset_after=after)


CELLS = ("simple", "lstm", "gru", "gru_after")


def walk(cell: Any, times: int = TIMES, given: bool = False, **options: Any) -> Graph:
    """One Recurrent over a sequence, all its results as outputs."""
    units, count = cell.recurrent_kernel.shape[0], len(cell.state_names)
    inputs = [Spec((times, cell.kernel.shape[0]), F, "x")]
    inputs += [Spec((units,), F, f"s{k}") for k in range(count if given else 0)]
    inputs += [Spec((times,), np.dtype(bool), "mask")] if options.get("masked") else []
    node = Node(Recurrent(cell, **options), tuple(range(len(inputs))), "rnn")
    return Graph(inputs, [node], range(len(inputs), len(inputs) + count + 1))


def arrays(graph: Graph, rows: int) -> list[Array]:
    def one(spec: Spec) -> Array:
        shape = (rows, *(n or 0 for n in spec.shape))
        return rng.random(shape) < 0.6 if spec.dtype == bool else normal(*shape[::-1]).T.copy()

    return [one(s) for s in graph.inputs]


def check(graph: Graph, rows: int = 7) -> None:
    """The compiled results are the meaning's up to rounding, and don't depend on the batch."""
    executor = NativeExecutor(graph)
    assert executor.uncovered() == []
    given = arrays(graph, rows)
    got = executor.run(given)
    for y, expected in zip(got, graph.run(given)):
        assert (y.dtype, y.shape) == (F, expected.shape)
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-6)
    for r in (0, rows - 1):
        for y, alone in zip(got, executor.run([a[r : r + 1] for a in given])):
            np.testing.assert_array_equal(y[r : r + 1], alone)


def network(name: str, units: int = 20, seed: int = 3) -> Graph:
    """Two recurrent layers and a Dense over a sequence."""
    global rng
    rng = np.random.default_rng(seed)
    first, second = make(name, units), make(name, 17, n_in=units)
    count = len(first.state_names) + 1
    nodes = [
        Node(Recurrent(first, return_sequences=True), (0,), "one"),
        Node(Recurrent(second, return_sequences=True), (1,), "two"),
        Node(Dense(normal(17, 2), normal(2), None), (1 + count,), "dense"),
    ]
    return Graph([Spec((TIMES, N_IN), F, "x")], nodes, [1 + 2 * count])
