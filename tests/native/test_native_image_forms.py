"""Grouped and transposed convolutions, pooling of volumes and ConvLSTM in the compiled engine, composed of other rows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from native_chains import F, chain
from test_native_images import check, conv, normal

from npinfer.errors import ShapeError
from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.conv import Conv
from npinfer.ops.conv_transpose import ConvTranspose
from npinfer.ops.convlstm import ConvLSTMCell
from npinfer.ops.dense import Dense
from npinfer.ops.pool import Pool
from npinfer.ops.recurrent import MaskedStep, Recurrent
from npinfer.ops.reshape import Reshape
from npinfer.streams import step_graph

TIMES = 5
Case = tuple[tuple[int, ...], Op]


def transposed(window: tuple[int, ...], channels: int, filters: int, **options: Any) -> ConvTranspose:
    kernel = normal(*window, filters, channels) / np.float32(np.sqrt(np.prod(window) * channels))
    ones = (1,) * len(window)
    return ConvTranspose(kernel, **{"bias": normal(filters), "strides": ones, "dilation": ones, **options})


GROUPED: list[Case] = [
    *(
        ((7, 6, g * c), conv((3, 3), g * c, g * f, g, padding=p))
        for g, c, f, p in product((2, 3), (2, 5, 16), (1, 3, 16, 17), ("valid", "same"))
    ),
    *(
        ((9, 8, 6), conv((k, 3), 6, 9, 3, strides=(s, t), padding="same", activation=Activation("relu")))
        for k, s, t in product((1, 2), (1, 2), (1, 3))
    ),
    *(((11, 10, 4), conv((3, 2), 4, 6, 2, dilation=(d, e), padding="same")) for d, e in product((1, 2), (1, 3))),
    ((12, 4), conv((3,), 4, 10, 2, dilation=(2,), padding="causal", bias=None)),
    ((6, 6, 4), conv((3, 3), 4, 8, 2, padding=((0, 1), (2, 0)))),
    ((4, 5, 6, 6), conv((2, 3, 2), 6, 4, 2, padding="same", strides=(1, 2, 1))),
    ((4, 5, 6, 3), conv((2, 2, 2), 3, 6, 3, activation=Activation("tanh"))),  # depthwise
]
SPREAD: list[tuple[int, int, tuple[int, int]]] = list(product((1, 3, 16, 17), (1, 3, 16, 17), ((2, 2), (1, 3))))
TRANSPOSED: list[Case] = [
    *(((4, 5, c), transposed((3, 4), c, f, strides=s, padding="same")) for c, f, s in SPREAD),
    *(
        ((n, 2), transposed((k,), 2, 3, strides=(s,), padding=p, output_padding=o, activation=Activation("tanh")))
        for n, k, s, p, o in product((1, 2, 6), (1, 2, 3, 4, 6), (1, 2, 3), ("valid", "same"), (None, (0,), (1,)))
    ),
    *(
        ((4, 3, 2), transposed((k, m), 2, 5, strides=(s, t), padding=p))
        for k, m, s, t, p in product((1, 3), (2, 4), (1, 3), (1, 2), ("valid", "same"))
    ),
    *(((7, 6, 3), transposed((3, 2), 3, 4, dilation=d, padding=p)) for d, p in product(((2, 1), (3, 2)), ("valid", "same"))),
    ((6, 5, 3), transposed((3, 2), 3, 4, dilation=(2, 1), strides=(1, 2), bias=None)),
    *(((3, 4, 2, 3), transposed((3, 2, 3), 3, 4, strides=s, padding="same")) for s in ((1, 1, 1), (2, 2, 2), (1, 3, 2))),
    ((20, 20, 16), transposed((4, 4), 16, 16, strides=(2, 2), padding="same", activation=Activation("relu"))),
]
POOLS: list[Case] = [
    ((5, 6, 8, c), Pool(kind, w, s, p))
    for kind, c, w, s, p in product(
        ("max", "average"),
        (1, 3, 16, 17),
        ((2, 2, 2), (1, 3, 2), (3, 2, 3)),
        ((1, 1, 1), (2, 2, 2), (1, 3, 2)),
        ("valid", "same"),
    )
]


def valid(case: Case) -> bool:
    """Whether TensorFlow has that output size at all."""
    shape, op = case
    try:
        chain(shape, op)
    except ShapeError:
        return False
    return True


CASES = [case for case in (*GROUPED, *TRANSPOSED, *POOLS) if valid(case)]


def test_most_cases_are_possible() -> None:
    assert len(CASES) > 300


@pytest.mark.parametrize(("shape", "op"), CASES, ids=repr)
def test_one_op(shape: tuple[int, ...], op: Op) -> None:
    x = normal(5, *shape)
    check(chain(shape, op), x)
    check(chain(shape, Activation("relu"), op, Activation("tanh")), x)


@pytest.mark.parametrize(
    ("shape", "op"),
    [
        ((5, 6, 4), conv((3, 3), 4, 6, 2, padding="same")),
        *(((5, 6, 4), transposed((3, 4), 4, 3, strides=s, padding="same")) for s in ((1, 1), (2, 2), (3, 5))),
        *(((5, 6, 4), transposed((3, 4), 4, 3, strides=s)) for s in ((2, 2), (1, 3))),
        *(((3, 5, 6, 4), Pool(kind, (2, 3, 2), (1, 2, 2), "same")) for kind in ("max", "average")),
        *(((4, 4, 6, 4), Pool(kind, (2, 2, 2), (2, 2, 2), "valid")) for kind in ("max", "average")),
    ],
    ids=repr,
)
def test_not_a_number_and_infinity_reach_what_depends_on_them(shape: tuple[int, ...], op: Op) -> None:
    x = normal(6, *shape)
    flat = x.reshape(6, -1)
    for k, value in enumerate((np.nan, np.inf, -np.inf, np.nan, np.inf)):
        flat[k, 37 * k % flat.shape[1]] = value
    graph = chain(shape, op)
    with np.errstate(invalid="ignore"):
        expected = graph(x)[0]
    np.testing.assert_allclose(NativeExecutor(graph, 1).run([x])[0], expected, rtol=2e-5, atol=1e-5)


def test_a_transposed_kernel_with_infinite_numbers_runs_through_its_meaning() -> None:
    op = transposed((3,), 2, 3, strides=(2,))
    kernel = op.kernel.copy()
    kernel[0, 0, 0] = np.inf
    graph, x = chain((4, 2), op.replace(kernel=kernel)), normal(3, 4, 2)
    native = NativeExecutor(graph, 1)
    assert native.uncovered() == [0]
    np.testing.assert_array_equal(native.run([x])[0], graph(x)[0])


def network() -> Graph:
    return chain(
        (6, 8, 4),
        conv((3, 3), 4, 8, 2, padding="same", activation=Activation("relu")),
        transposed((3, 3), 8, 6, strides=(2, 2), padding="same", activation=Activation("relu")),
        Reshape((4, 3, 16, 6)),
        Pool("average", (2, 3, 2), (2, 1, 2)),
        transposed((2, 2, 2), 6, 3, strides=(2, 1, 1)),
    )


def test_swap_of_weights() -> None:
    a, b, x = network(), network(), normal(3, 6, 8, 4)
    native = NativeExecutor(a, 1)
    assert native.uncovered() == []
    native.run([x])
    native.prepare(b)()
    np.testing.assert_allclose(native.run([x])[0], b(x)[0], rtol=1e-4, atol=1e-5)


# ---- ConvLSTM


def cell(window: tuple[int, ...], channels: int, filters: int, act: str = "tanh", **options: Any) -> ConvLSTMCell:
    gate = options.pop("gate", "sigmoid")
    wide = 4 * filters
    return ConvLSTMCell(
        Activation(act),
        None if gate is None else Activation(gate),
        conv(window, channels, wide, **{"padding": "same", **options}),
        Conv(normal(*window, filters, wide) / np.float32(4), None, (1,) * len(window), "same", (1,) * len(window)),
    )


def walk(c: ConvLSTMCell, step: tuple[int, ...], times: int = TIMES, given: bool = False, **options: Any) -> Graph:
    """One Recurrent over a sequence, all its results as outputs."""
    state = Spec(c.state_shapes(Spec(step, F))[0], F)
    inputs = [Spec((times, *step), F, "x"), *(state._replace(name=f"s{k}") for k in range(2 * given))]
    inputs += [Spec((times,), np.dtype(bool), "mask")] if options.get("masked") else []
    n = len(inputs)
    return Graph(inputs, [Node(Recurrent(c, **options), tuple(range(n)), "rnn")], range(n, n + 3))


def values(graph: Graph, rows: int = 4) -> list[Array]:
    return [normal(rows, *(n or 0 for n in s.shape)) for s in graph.inputs]


LSTMS: list[tuple[ConvLSTMCell, tuple[int, ...], dict[str, Any]]] = [
    *((cell((3, 3), c, f), (5, 6, c), {}) for c, f in product((1, 3, 16), (1, 3, 8, 16, 17))),
    *((cell((3,), 2, 4), (7, 2), {"return_sequences": s, "go_backwards": b}) for s, b in product((False, True), repeat=2)),
    *((cell((2, 3), 2, 4), (5, 4, 2), {"return_sequences": s, "given": True}) for s in (False, True)),
    *((cell((3, 2), 2, 4, padding="valid", strides=s), (6, 7, 2), {}) for s in ((1, 1), (2, 1))),
    (cell((3, 3), 2, 4, dilation=(2, 1), bias=None), (6, 7, 2), {}),
    (cell((2, 3, 2), 2, 3), (3, 4, 3, 2), {"return_sequences": True}),
    *(
        (cell((3,), 2, 4, act, gate=g), (7, 2), {})
        for act, g in (("relu", "hard_sigmoid"), ("tanh", None), ("softplus", "tanh"))
    ),
    (cell((3,), 2, 4), (7, 2), {"times": 1}),
    (cell((1,), 2, 4), (1, 2), {"times": 64, "return_sequences": True}),
]


@pytest.mark.parametrize(("one", "step", "options"), LSTMS, ids=repr)
def test_conv_lstm(one: ConvLSTMCell, step: tuple[int, ...], options: dict[str, Any]) -> None:
    graph = walk(one, step, **options)
    given = values(graph)
    executor = NativeExecutor(graph, 1)
    assert executor.uncovered() == []
    got = executor.run(given)
    for y, expected in zip(got, graph.run(given)):
        assert (y.dtype, y.shape) == (F, expected.shape)
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-6 * max(1, float(abs(expected).max())))
    for r in range(len(given[0])):
        for y, alone in zip(got, executor.run([a[r : r + 1] for a in given])):
            np.testing.assert_array_equal(y[r : r + 1], alone)
    # only some of the results
    for v in graph.outputs:
        some = Graph(graph.inputs, graph.nodes, [v])
        np.testing.assert_array_equal(NativeExecutor(some, 1).run(given)[0], got[graph.outputs.index(v)])


def test_not_a_number_in_a_conv_lstm_spreads_as_by_its_meaning() -> None:
    graph = walk(cell((3,), 2, 4), (9, 2), return_sequences=True)
    x = normal(3, TIMES, 9, 2)
    x[0, 1, 2, 0], x[1, 0, 8, 1], x[2, 2, 4, 1] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = graph.run([x])
    for y, e in zip(NativeExecutor(graph, 1).run([x]), expected):
        np.testing.assert_allclose(y, e, rtol=2e-5, atol=1e-5)


def test_an_infinite_recurrent_kernel_meets_states_of_zeros() -> None:
    one = cell((3,), 2, 4)
    kernel = one.recurrent_conv.kernel.copy()
    kernel[1, 0, 3] = np.inf
    graph = walk(one.replace(recurrent_conv=one.recurrent_conv.replace(kernel=kernel)), (5, 2), 1)
    x = normal(2, 1, 5, 2)
    with np.errstate(invalid="ignore"):
        expected = graph.run([x])
    for y, e in zip(NativeExecutor(graph, 1).run([x]), expected):
        np.testing.assert_allclose(y, e, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(("times", "options"), [(65, {}), (4, {"masked": "previous"})])
def test_long_and_masked_sequences_run_through_their_meaning(times: int, options: dict[str, Any]) -> None:
    graph = walk(cell((3,), 2, 4), (5, 2), times, **options)
    given = [normal(2, times, 5, 2), *([np.arange(2 * times).reshape(2, times) % 3 > 0] if options else [])]
    executor = NativeExecutor(graph, 1)
    assert executor.uncovered() == [0]
    for y, expected in zip(executor.run(given), graph.run(given)):
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-6)


def stacked(filters: int = 5, times: int = 9) -> Graph:
    """Two ConvLSTMs and a Dense over a sequence."""
    nodes = [
        Node(Recurrent(cell((3, 2), 2, filters), return_sequences=True), (0,), "one"),
        Node(Recurrent(cell((2, 2), filters, 3, "relu", gate="hard_sigmoid"), return_sequences=True), (1,), "two"),
        Node(Dense(normal(3, 2), normal(2), None), (4,), "dense"),
    ]
    return Graph([Spec((times, 4, 5, 2), F, "x")], nodes, [7])


@pytest.mark.parametrize("filters", [5, 16])
def test_a_stream_gives_the_bits_of_the_whole(filters: int) -> None:
    graph = stacked(filters)
    x = normal(3, 9, 4, 5, 2)
    (whole,) = NativeExecutor(graph, 1).run([x])
    executor = NativeExecutor(step_graph(graph), 1)
    assert executor.uncovered() == []
    step, batch = executor.bind(None, False, lambda: None), executor.bind(3, False, lambda: None)
    for t in range(9):
        np.testing.assert_array_equal(step(x[1, t]), whole[1, t])
        np.testing.assert_array_equal(batch(np.ascontiguousarray(x[:, t])), whole[:, t])
    kept = step.state
    assert [s.shape for s in kept] == [(4, 5, filters)] * 2 + [(4, 5, 3)] * 2
    after = step(x[1, 0])
    step.state = kept
    np.testing.assert_array_equal(step(x[1, 0]), after)
    step.reset()
    np.testing.assert_array_equal(step(x[1, 0]), whole[1, 0])


def test_exchanged_weights_of_a_conv_lstm() -> None:
    a, b, x = stacked(), stacked(), normal(2, 9, 4, 5, 2)
    native = NativeExecutor(a, 1)
    native.run([x])
    native.prepare(b)()
    np.testing.assert_allclose(native.run([x])[0], b(x)[0], rtol=1e-4, atol=1e-5)


def test_masked_steps_run_through_their_meaning() -> None:
    one = cell((3,), 2, 4)
    inputs = [Spec((5, 2), F, "x"), Spec((5, 4), F, "h"), Spec((5, 4), F, "c"), Spec((), np.dtype(bool), "mask")]
    graph = Graph(inputs, [Node(MaskedStep(one, "zero"), (0, 1, 2, 3), "step")], [4, 5, 6])
    given = [normal(3, 5, 2), normal(3, 5, 4), normal(3, 5, 4), np.array([True, False, True])]
    for y, expected in zip(NativeExecutor(graph, 1).run(given), graph.run(given)):
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-6)


def test_a_stream_of_grouped_causal_convolutions_gives_the_bits_of_the_whole() -> None:
    whole = chain((9, 6), *(conv((3,), 6, 6, g, padding="causal", dilation=(2,)) for g in (2, 3)))
    x, executor = normal(1, 9, 6), NativeExecutor(step_graph(whole), 1)
    assert executor.uncovered() == []
    step, expected = executor.bind(None, False, lambda: None), NativeExecutor(whole, 1).run([x])[0]
    for t in range(9):
        np.testing.assert_array_equal(step(x[0, t]), expected[0, t])
