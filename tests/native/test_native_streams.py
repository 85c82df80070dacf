"""Streams in the compiled engine: the bits of the whole sequence, states kept, set and forked, weights exchanged under a
running stream."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from typing import Any

import numba as nb
import numpy as np
import pytest
from native_cells import CELLS, N_IN, TIMES, network, normal

from npinfer.errors import ShapeError
from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Graph
from npinfer.streams import step_graph


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
