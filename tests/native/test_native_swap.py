"""Weights swapped under running calls of the native executor."""

from __future__ import annotations

import threading

import numpy as np
from native_chains import F, chain, close, mlp, normal

from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Graph
from npinfer.ops.dense import Dense


def constant_network(value: float) -> Graph:
    """Its output tells which weights were used, and whether a mix of two sets was: value² · 64 · 64 for all-one inputs."""
    return chain((64,), Dense(np.full((64, 64), value, F)), Dense(np.full((64, 64), value, F)))


def test_swaps_under_running_calls() -> None:
    executor = NativeExecutor(constant_network(1), threads=1)
    step = executor.bind(None, False, lambda: None)
    allowed = {4096.0 * v * v for v in (1.0, 2.0, 3.0)}
    seen: set[float] = set()
    stop = threading.Event()
    x, many = np.ones(64, F), np.ones((400, 64), F)

    def call() -> None:
        while not stop.is_set():
            seen.update(np.unique(step(x)).tolist())
            seen.update(np.unique(executor.run([many])[0]).tolist())

    readers = [threading.Thread(target=call) for _ in range(3)]
    for t in readers:
        t.start()
    for k in range(300):
        executor.prepare(constant_network(float(k % 3 + 1)))()
    stop.set()
    for t in readers:
        t.join()
    assert seen <= allowed, "a call saw a mix of two sets of weights"
    assert len(seen) > 1
    executor.prepare(constant_network(2))()
    assert (step(x) == 4 * 4096).all()


def test_swap_reuses_its_memory() -> None:
    executor = NativeExecutor(constant_network(1))
    executor.run([np.ones((1, 64), F)])
    context = executor._plan(((64,),)).whole
    assert context is not None
    executor.prepare(constant_network(2))()
    before = [a.ctypes.data for pair in context._memory.values() for a in pair]
    for k in range(10):
        executor.prepare(constant_network(k))()
    assert [a.ctypes.data for pair in context._memory.values() for a in pair] == before


def test_swap_to_another_arrangement() -> None:
    """Weights may change which rows a graph packs to (a pass's guard), and how much scratch that needs."""
    small, large = mlp(8, 4, 2), mlp(8, 500, 2)
    executor = NativeExecutor(small)
    step = executor.bind(None, False, lambda: None)
    x = normal(30, 8)
    for graph in (small, large, small, large):
        executor.prepare(graph)()
        close(executor.run([x])[0], graph(x)[0])
        close(step(x[0]), graph(x[:1])[0][0])
