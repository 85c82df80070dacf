"""Recurrent layers in the compiled engine: every cell and option against its NumPy meaning, the same bits in any batch and as a
stream, states kept, set and forked, weights exchanged under a running stream, states that decay."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
import pytest

from npinfer.errors import ShapeError
from npinfer.executors.native.executor import NativeExecutor
from npinfer.executors.native.program import NotNative, Program
from npinfer.graph import Array, Graph, Node, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.dense import Dense
from npinfer.ops.recurrent import Cell, GRUCell, LSTMCell, MaskedStep, Recurrent, SimpleRNNCell
from npinfer.ops.softmax import Softmax
from npinfer.streams import step_graph

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


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("units", [1, 5, 16, 33, 64])
def test_sizes(name: str, units: int) -> None:
    check(walk(make(name, units), return_sequences=True))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("times", [1, 2, 6, 7, 24, 25, 100])
def test_lengths(name: str, times: int) -> None:
    check(walk(make(name), times, return_sequences=True), rows=3)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_options(name: str, sequences: bool, back: bool, given: bool) -> None:
    check(walk(make(name), given=given, return_sequences=sequences, go_backwards=back), rows=50)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("masked", ["previous", "state", "zero"])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("back", [False, True])
def test_masks(name: str, masked: str, given: bool, back: bool) -> None:
    check(walk(make(name), given=given, return_sequences=True, masked=masked, go_backwards=back))
    check(walk(make(name), given=given, masked=masked, go_backwards=back), rows=2)


@pytest.mark.parametrize("name", CELLS)
def test_without_bias(name: str) -> None:
    check(walk(make(name, bias=False), return_sequences=True))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(
    ("act", "gate"), [("relu", "hard_sigmoid_k2"), ("linear", "hard_sigmoid"), ("elu", "tanh"), ("softsign", "linear")]
)
def test_activations(name: str, act: str, gate: str) -> None:
    cell = make(name, act=act, gate=gate)
    if act == "elu":
        cell = cell.replace(activation=Activation("elu", (0.7,)))
    check(walk(cell, times=9, return_sequences=True))


def test_no_activation_is_linear() -> None:
    for name in CELLS:
        check(walk(make(name).replace(activation=None), times=5))


def test_what_has_no_compiled_form() -> None:
    cell = make("lstm").replace(recurrent_activation=Softmax((0,)))
    with pytest.raises(NotNative):
        Program(walk(cell))
    with pytest.raises(NotNative, match="empty"):
        Program(walk(make("gru"), times=0))


def test_nan_and_infinity_spread_as_by_meaning() -> None:
    for name in CELLS:
        graph = walk(make(name), return_sequences=True)
        x = arrays(graph, 3)[0]
        x[0, 4, 1], x[1, 4, 1] = np.nan, np.inf
        with np.errstate(all="ignore"):
            expected = graph.run([x])
        for y, e in zip(NativeExecutor(graph).run([x]), expected):
            np.testing.assert_allclose(y, e, rtol=2e-5, atol=2e-6)
            assert np.isfinite(y[2]).all()


# streams


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


class Stream:
    """A stream's executor and what binds it."""

    def __init__(self, graph: Graph) -> None:
        self.executor = NativeExecutor(step_graph(graph))

    def bind(self, rows: int | None = None, reuse_output: bool = False) -> Any:
        return self.executor.bind(rows, reuse_output, Again(self, rows, reuse_output))


KEPT: list[Stream] = []  # pickled steps find their executor here


class Again:
    def __init__(self, stream: Stream, rows: int | None, reuse_output: bool) -> None:
        KEPT.append(stream)
        self.number, self.options = len(KEPT) - 1, (rows, reuse_output)

    def __call__(self) -> Any:
        return KEPT[self.number].bind(*self.options)


@pytest.mark.parametrize("name", CELLS)
def test_a_stream_gives_the_bits_of_the_whole(name: str) -> None:
    graph = network(name)
    x = normal(4, TIMES, N_IN)
    (whole,) = NativeExecutor(graph).run([x])
    stream = Stream(graph)
    assert stream.executor.uncovered() == []
    step, batch = stream.bind(), stream.bind(rows=4)
    for t in range(TIMES):
        np.testing.assert_array_equal(step(x[1, t]), whole[1, t])
        np.testing.assert_array_equal(batch(np.ascontiguousarray(x[:, t])), whole[:, t])


@pytest.mark.parametrize("name", ["lstm", "gru_after"])
def test_states_are_kept_set_reset_forked_and_pickled(name: str) -> None:
    step = Stream(network(name)).bind()
    x = normal(TIMES, N_IN)
    start = [step(v).copy() for v in x[:9]]
    state = step.state
    assert [s.shape for s in state] == [(20,), (20,), (17,), (17,)][:: 1 if name == "lstm" else 2]
    after = step(x[9])
    fork = step.fork()
    others = [pickle.loads(pickle.dumps(step)), copy.deepcopy(step), fork]
    expected = step(x[10])
    for other in others:
        np.testing.assert_array_equal(other(x[10]), expected)
    step.state = state
    np.testing.assert_array_equal(step(x[9]), after)
    step.reset()
    np.testing.assert_array_equal([step(v) for v in x[:9]], start)
    with pytest.raises(ShapeError):
        step.state = state[:-1]
    kept = step.state
    with pytest.raises(ShapeError):
        step(x[:2])
    for a, b in zip(kept, step.state):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["simple", "lstm"])
def test_a_stream_inside_compiled_code(name: str) -> None:
    stream = Stream(network(name))
    step, x = stream.bind(), normal(TIMES, N_IN)
    states = [np.zeros_like(s) for s in step.state]

    @nb.njit
    def lstm(f: Any, xs: Any, states: Any) -> Any:
        ys = np.empty((len(xs), 2), np.float32)
        a, b, c, d = states
        for t in range(len(xs)):
            ys[t], a, b, c, d = f(xs[t], a, b, c, d)
        return ys

    @nb.njit
    def simple(f: Any, xs: Any, states: Any) -> Any:
        ys = np.empty((len(xs), 2), np.float32)
        a, b = states
        for t in range(len(xs)):
            ys[t], a, b = f(xs[t], a, b)
        return ys

    f = stream.executor.jit(lambda: None)
    got = (lstm if name == "lstm" else simple)(f, x, tuple(states))
    np.testing.assert_array_equal(got, [step(v) for v in x])


@pytest.mark.parametrize("masked", ["previous", "state", "zero"])
def test_a_masked_step(masked: str) -> None:
    for name in CELLS:
        cell: Any = make(name)
        count = len(cell.state_names) + (masked == "previous")
        inputs = [Spec((N_IN,), F, "x"), *(Spec((20,), F, f"s{k}") for k in range(count)), Spec((), np.dtype(bool), "mask")]
        graph = Graph(inputs, [Node(MaskedStep(cell, masked), tuple(range(len(inputs))), "step")], [len(inputs)])
        check(graph, rows=9)


def test_weights_exchanged_under_a_running_stream() -> None:
    """Every step is computed on the old or on the new weights as a whole, from the state that the step before left."""
    graphs = [step_graph(network("lstm", seed=s)) for s in (3, 4)]
    executor = NativeExecutor(graphs[0])
    alone = [NativeExecutor(g) for g in graphs]
    step = executor.bind(None, False, lambda: None)
    x, done = normal(N_IN), threading.Event()

    def exchange() -> None:
        k = 0
        while not done.is_set():
            k += 1
            executor.prepare(graphs[k % 2])()
            time.sleep(0.0005)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        seen = set()
        for _ in range(1500):
            before = [x[None], *(s[None] for s in step.state)]
            y = step(x)
            fits = [k for k, e in enumerate(alone) if np.array_equal(e.run(before)[0][0], y)]
            assert len(fits) == 1
            seen.update(fits)
            assert all(np.array_equal(a, b[0]) for a, b in zip(step.state, alone[fits[0]].run(before)[1:]))
    finally:
        done.set()
        thread.join()
    assert seen == {0, 1}


# states that decay


def best(call: Callable[[], object]) -> float:
    laps = []
    for _ in range(300):
        start = time.perf_counter()
        call()
        laps.append(time.perf_counter() - start)
    return min(laps)


def test_decaying_states_end_at_zero_and_cost_no_more() -> None:
    """A state that is halved each step would be subnormal for 23 steps, and stay there where its decay rounds up."""
    for name in CELLS:
        cell: Any = make(name, 64, bias=False, act="linear", gate="hard_sigmoid")
        u = np.zeros_like(cell.recurrent_kernel)
        if name == "simple":
            u[:] = np.eye(64) * 0.75
        cell = cell.replace(recurrent_kernel=u, kernel=np.zeros_like(cell.kernel))
        count = len(cell.state_names)
        states = [Spec((64,), F, f"s{k}") for k in range(count)]
        node = Node(cell, tuple(range(1 + count)), "step")
        graph = Graph([Spec((N_IN,), F, "x"), *states], [node], range(1 + count, 2 + 2 * count))
        executor = NativeExecutor(graph)
        x, tiny = np.ones((1, N_IN), F), np.full((1, 64), 1.3e-38, F)
        for y in executor.run([x, *[tiny] * count]):
            np.testing.assert_array_equal(y, 0)
        (small,) = executor.run([x, *[np.full((1, 64), 1e-37, F)] * count])[:1]
        assert (small > 0).all()  # normal numbers are left as they are


def test_a_decayed_walk_is_as_fast_as_another() -> None:
    cell: Any = make("simple", 64, bias=False, act="linear")
    graph = walk(cell.replace(recurrent_kernel=np.full((64, 64), 0.99 / 64, F)), times=20, given=True)
    executor = NativeExecutor(graph)
    x = np.zeros((1, 20, N_IN), F)
    usual, decayed = np.ones((1, 64), F), np.full((1, 64), 1.2e-38, F)
    assert best(lambda: executor.run([x, decayed])) < 5 * best(lambda: executor.run([x, usual]))
