"""Streams: step by step a model gives what it gives for the sequence so far, or is refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras_files as kf
import numpy as np
import pytest
from conftest import GOLDEN

import npinfer
from npinfer.errors import UnsupportedError
from npinfer.graph import Array, Graph, Node, Spec, State
from npinfer.ops.activations import Activation
from npinfer.ops.affine import Affine
from npinfer.ops.arithmetic import Binary
from npinfer.ops.conv import Conv
from npinfer.ops.dense import Dense
from npinfer.ops.indexing import GetItem
from npinfer.ops.joining import Concatenate, Pad
from npinfer.ops.merge import Merge
from npinfer.ops.parametric import PReLU
from npinfer.ops.recurrent import LSTMCell, Recurrent, SimpleRNNCell
from npinfer.ops.reductions import Reduce
from npinfer.ops.reshape import Reshape, Transpose
from npinfer.ops.softmax import Softmax
from npinfer.ops.wrappers import TimeDistributed
from npinfer.streams import step_graph

F32 = np.dtype(np.float32)
RNG = np.random.default_rng(6)


def array(*shape: int) -> Array:
    return RNG.normal(scale=0.5, size=shape).astype(np.float32)


def lstm(sequences: bool = True, features: int = 3, units: int = 4, **options: Any) -> Recurrent:
    wide = 4 * units
    cell = LSTMCell(Activation("tanh"), Activation("sigmoid"), array(features, wide), array(units, wide), array(wide))
    return Recurrent(cell, return_sequences=sequences, **options)


def simple(sequences: bool = True, features: int = 3, **options: Any) -> Recurrent:
    return Recurrent(SimpleRNNCell(Activation("tanh"), None, array(features, 4), array(4, 4)), sequences, **options)


def conv(taps: int = 3, dilation: int = 1, padding: Any = "causal", groups: int = 1, filters: int = 4) -> Conv:
    return Conv(array(taps, 3 // groups, filters), array(filters), (1,), padding, (dilation,), groups)


def chain(*ops: Any, inputs: tuple[Spec, ...] = (Spec((None, 3), F32, "x"),)) -> Graph:
    """Ops one after another, each on the first result of the one before."""
    nodes: list[Node] = []
    last = 0
    for k, op in enumerate(ops):
        nodes.append(Node(op, (last,), f"layer{k}"))
        last = Graph(inputs, nodes, [0]).first[-1]
    return Graph(inputs, nodes, [last])


def compare(graph: Graph, step: Graph, xs: dict[str, Array], steps: int) -> None:
    """Every step against the whole graph on the steps so far. xs: by input name; states by name start from them or from zeros.

    One rounding more or less a product: the whole run multiplies all steps at once, for which BLAS may sum in another order.
    """
    own, count = {s.input for s in graph.states}, len(step.inputs) - len(step.states)
    shapes = {s.name: s.shape for v, s in enumerate(graph.inputs) if v not in own}
    timed = {s.name for s in step.inputs[:count] if s.shape != shapes[s.name]}
    rows = len(next(iter(xs.values())))
    state = [xs.get(s.name, np.zeros((rows, *s.shape), s.dtype)) for s in step.inputs[count:]]
    zeros = [np.zeros((rows, *graph.inputs[s.input].shape), F32) for s in graph.states]
    for t in range(steps):
        now = [xs[s.name][:, t] if s.name in timed else xs[s.name] for s in step.inputs[:count]]
        got = step.run([*now, *state])
        state = list(got[len(step.outputs) :])
        whole = graph.run([*(xs[n][:, : t + 1] if n in timed else xs[n] for n in shapes), *zeros])
        for a, b in zip(got[: len(step.outputs)], whole):
            b = b if a.shape == b.shape else b[:, -1]
            np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * max(1, float(np.abs(b).max(initial=0))))


ACTIVATION = Activation("relu")
GRAPHS = {
    "lstm": lambda: chain(lstm()),
    "last": lambda: chain(lstm(sequences=False), Dense(array(4, 2))),
    "stack": lambda: chain(Affine(array(3), array(3)), lstm(), Dense(array(4, 5), array(5), ACTIVATION), simple(features=5)),
    "softmax": lambda: chain(simple(), Softmax(), GetItem((slice(None), slice(1, 3)))),
    "conv": lambda: chain(conv(), conv(2, 3, filters=3).replace(kernel=array(2, 4, 3))),
    "conv groups": lambda: chain(conv(3, 2, groups=3, filters=6)),
    "conv of one": lambda: chain(conv(1, padding="same"), simple(features=4)),
    "conv of one, groups": lambda: chain(conv(1, padding="valid", groups=3, filters=3), simple()),
    "padded by hand": lambda: chain(conv(3, 2, ((4, 0),)), simple(features=4)),
    "padded by hand, no recurrent layer": lambda: chain(conv(3, 2, ((4, 0),))),
    "zeros in front": lambda: chain(Pad(((4, 0), (0, 0))), conv(3, 2, "valid")),
    "slopes shared over time": lambda: chain(simple(), PReLU(array(1, 4)), PReLU(array(4))),
    "time distributed": lambda: chain(TimeDistributed(chain(Dense(array(3, 3)), inputs=(Spec((3,), F32),))), simple()),
    "axes": lambda: chain(simple(), Reshape((-1, 2, 2)), Transpose((0, 2, 1)), Reduce("max", (2,))),
    "after the end": lambda: chain(simple(False), Reshape((1, 4)), Dense(array(4, 3)), lstm(False)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_steps_are_the_sequence_so_far(name: str) -> None:
    graph = GRAPHS[name]()
    step = step_graph(graph)
    assert step.inputs[0].shape == (3,)
    compare(graph, step, {"x": array(2, 6, 3)}, 6)


def test_branches() -> None:
    """Joins of sequences, a mask, a static input beside what the sequence ends in."""
    inputs = (Spec((None, 3), F32, "x"), Spec((None,), np.dtype(bool), "mask"), Spec((2,), F32, "still"))
    nodes = [
        Node(simple(masked="previous"), (0, 1), "a"),  # 3, 4
        Node(conv(filters=4), (0,), "b"),  # 5
        Node(Concatenate(1), (3, 5), "c"),  # 6
        Node(Merge("add"), (3, 5), "d"),  # 7
        Node(lstm(False, 8), (6,), "e"),  # 8, 9, 10
        Node(Concatenate(0), (8, 2), "f"),  # 11
        Node(Dense(array(6, 2)), (11,), "g"),  # 12
    ]
    graph = Graph(inputs, nodes, [12, 7], {"d": 7, "g": 12})
    step = step_graph(graph)
    assert [s.name for s in step.inputs] == ["x", "mask", "still", "a/h", "b/window", "e/h", "e/c"]
    assert step.labels.keys() == graph.labels.keys()
    mask = RNG.random((2, 6)) > 0.4
    compare(graph, step, {"x": array(2, 6, 3), "mask": mask, "still": array(2, 2)}, 6)


@pytest.mark.parametrize("masked", [None, "previous", "state", "zero"])
def test_given_initial_state(masked: str | None) -> None:
    """An input that is an initial state becomes a state of the stream under its name."""
    inputs = [Spec((None, 3), F32, "x"), Spec((4,), F32, "start")]
    reads: tuple[int, ...] = (0, 1)
    if masked:
        inputs.append(Spec((None,), np.dtype(bool), "mask"))
        reads = (0, 1, 2)
    graph = Graph(inputs, [Node(simple(masked=masked), reads, "r")], [len(inputs), len(inputs) + 1])
    step = step_graph(graph)
    names = [s.name for s in step.inputs]
    assert names == ["x", *(["mask"] if masked else []), "start", *(["r/y"] if masked == "previous" else [])]
    mask = np.array([[False, True, False, True], [True, False, False, True]])
    compare(graph, step, {"x": array(2, 4, 3), "start": array(2, 4), "mask": mask}, 4)


def test_stateful_layers_keep_their_state() -> None:
    inputs = [Spec((None, 3), F32, "x"), Spec((4,), F32, "state")]
    graph = Graph(inputs, [Node(simple(), (0, 1), "r")], [2], {}, [State(1, 3)])
    step = step_graph(graph)
    assert len(step.states) == 1
    compare(graph, step, {"x": array(2, 4, 3)}, 4)


IMAGES = Conv(array(1, 1, 3, 3), None, (1, 1), "valid", (1, 1))
X, START = Spec((None, 3), F32, "x"), Spec((4,), F32, "start")
REFUSED: dict[str, tuple[Any, str]] = {
    "backwards": (lambda: chain(lstm(go_backwards=True)), "layer 'layer0' (Recurrent): it reads the sequence from its end"),
    "no time": (lambda: chain(Dense(array(3, 2))), "nothing in it walks along time"),
    "same": (lambda: chain(conv(padding="same"), lstm(features=4)), "layer 'layer0' (Conv): its window reaches later"),
    "valid": (lambda: chain(conv(padding="valid"), lstm(features=4)), "its window reaches later"),
    "strides": (lambda: chain(conv().replace(strides=(2,))), "its strides leave out"),
    "images": (
        lambda: chain(IMAGES, Reshape((-1, 3)), simple(), inputs=(Spec((None, 1, 3), F32),)),
        "a convolution along several axes",
    ),
    "reversed": (lambda: chain(GetItem((slice(None, None, -1),)), lstm()), "layer 'layer0' (GetItem): it looks across"),
    "mean": (lambda: chain(simple(), Reduce("mean", (0,))), "layer 'layer1' (Reduce): it looks across time"),
    "softmax over time": (
        lambda: chain(simple(), Softmax((-2,))),
        "layer 'layer1' (Softmax): one step can't",
    ),
    "flatten": (
        lambda: chain(simple(), Reshape((-1,)), inputs=(Spec((5, 3), F32),)),
        "layer 'layer1' (Reshape): it looks across time",
    ),
    "transposed": (lambda: chain(simple(), Transpose((1, 0))), "layer 'layer1' (Transpose): it looks across time"),
    "zeros in front, too many": (
        lambda: chain(Pad(((5, 0), (0, 0))), conv(3, 2, "valid"), lstm(features=4)),
        "its window reaches",
    ),
    "slopes of each step": (
        lambda: chain(simple(), PReLU(array(5, 4)), inputs=(Spec((5, 3), F32),)),
        "layer 'layer1' (PReLU): its weights differ from time step to time step",
    ),
    "numbers a step": (
        lambda: chain(Affine(array(5, 3), array(5, 3)), simple(), inputs=(Spec((5, 3), F32),)),
        "layer 'layer0' (Affine)",
    ),
    "joined in time": (
        lambda: Graph([X], [Node(simple(), (0,), "a"), Node(Concatenate(0), (1, 1), "b")], [3]),
        "layer 'b' (Concatenate): it joins sequences one behind the other",
    ),
    "encoder": (
        lambda: Graph([X], [Node(simple(False), (0,), "a"), Node(simple(), (0, 2), "b")], [3]),
        "layer 'b' (Recurrent): its initial state is computed by the model",
    ),
    "shared start": (
        lambda: Graph([X, START], [Node(simple(), (0, 1), "a"), Node(simple(), (0, 1), "b")], [2, 4]),
        "its initial state is read by others too",
    ),
    "last with each": (
        lambda: Graph(
            [X],
            [
                Node(simple(), (0,), "a"),
                Node(simple(False), (0,), "b"),
                Node(Reshape((1, 4)), (3,), "c"),
                Node(Merge("add"), (1, 5), "d"),
            ],
            [6],
        ),
        "layer 'd' (Merge): it joins a value of every step",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    make, words = REFUSED[name]
    graph = make()
    with pytest.raises(UnsupportedError) as caught:
        step_graph(graph)
    assert words in str(caught.value)
    assert len(caught.value.problems) == 1


def test_binary_with_numbers_of_each_step() -> None:
    """A constant with a time axis can't follow a stream."""
    graph = chain(Binary("add", array(5, 3)), simple(), inputs=(Spec((5, 3), F32),))
    with pytest.raises(UnsupportedError, match="layer 'layer0'"):
        step_graph(graph)


def streamable(path: Path) -> bool:
    return not any(word in path.stem for word in ("bi-", "-bi", "back", "same", "masks-on", "cell-"))


@pytest.mark.parametrize("path", [p for p in kf.files(attention=False) if streamable(p)], ids=kf.name)
def test_files(path: Path) -> None:
    """Real files: masks, stacks, initial states, images, states kept between calls."""
    graph = npinfer.load(path, engine="reference", optimize=False)._graph
    step = step_graph(graph)
    xs = dict(zip((s.name for s in graph.inputs), kf.arrays(path, "in")))
    compare(graph, step, xs, len(kf.arrays(path, "in")[0][0]))


@pytest.mark.parametrize("file", ["k3new/t3-lstm-seq.h5", "k224/t3-gru-reset_after-true-seq-nobias.h5", "k224/t3-lstm-td.h5"])
def test_bound_stream(file: str, engine: str) -> None:
    """step(x_t), step.state, step.reset() and step.fork() of a loaded model."""
    model = npinfer.load(GOLDEN / file, engine=engine)
    x = array(5, 3)
    whole = np.asarray(model(x[None]))[0]
    step = model.bind(stream=True)
    first = [step(row) for row in x]
    np.testing.assert_allclose(first, whole, atol=2e-6)
    step.reset()
    np.testing.assert_array_equal(step(x[0]), first[0])
    other = step.fork()
    np.testing.assert_array_equal(step(x[1]), first[1])
    np.testing.assert_array_equal(other(x[1]), first[1])
    assert all(np.array_equal(a, b) for a, b in zip(step.state, other.state))
