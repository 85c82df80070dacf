"""Recurrent layers in the compiled engine: every cell and option against its NumPy meaning, the same bits in any batch, states
that decay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_cells import CELLS, N_IN, F, arrays, check, make, walk

from npinfer.executors.native.executor import NativeExecutor
from npinfer.executors.native.program import Program
from npinfer.executors.native.rules import NotNative
from npinfer.graph import Graph, Node, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.recurrent import MaskedStep
from npinfer.ops.softmax import Softmax


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


@pytest.mark.parametrize("masked", ["previous", "state", "zero"])
def test_a_masked_step(masked: str) -> None:
    for name in CELLS:
        cell: Any = make(name)
        count = len(cell.state_names) + (masked == "previous")
        inputs = [Spec((N_IN,), F, "x"), *(Spec((20,), F, f"s{k}") for k in range(count)), Spec((), np.dtype(bool), "mask")]
        graph = Graph(inputs, [Node(MaskedStep(cell, masked), tuple(range(len(inputs))), "step")], [len(inputs)])
        check(graph, rows=9)


# states that decay


def test_decaying_states_end_at_zero() -> None:
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
