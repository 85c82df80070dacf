"""Recurrent layers against the outputs of real Keras (tests/recurrent), and what files can't show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras_files as kf
import numpy as np
import pytest

import npinfer
from npinfer.errors import DtypeError, FormatError, NpinferError, ShapeError, UnsupportedError
from npinfer.graph import Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.conv import Conv
from npinfer.ops.convlstm import ConvLSTMCell
from npinfer.ops.recurrent import Cell, GRUCell, LSTMCell, MaskedStep, Recurrent, SimpleRNNCell
from npinfer.ops.softmax import Softmax
from npinfer.readers.archive import Call, Layer, TensorRef, Version
from npinfer.readers.lower import lower

TANH, SIGMOID = Activation("tanh"), Activation("sigmoid")
F32 = np.dtype(np.float32)


@pytest.mark.parametrize("path", kf.files(attention=False), ids=kf.name)
def test_equals_keras(path: Path, engine: str) -> None:
    """One layer or two: 1e-6 of the output's scale. Stateful models: a second call goes on from the first."""
    model = npinfer.load(path, engine=engine)
    xs = kf.arrays(path, "in")
    kf.assert_near(kf.call(model, xs), kf.arrays(path, "out"), 1e-6)
    then = kf.arrays(path, "then_out")
    assert bool(then) == path.name.startswith("stateful")
    if then:
        kf.assert_near(kf.call(model, xs), then, 1e-6)
        model.reset_states()
        kf.assert_near(kf.call(model, xs), kf.arrays(path, "out"), 1e-6)


@pytest.mark.parametrize("path", kf.files(attention=False), ids=kf.name)
def test_float64(path: Path) -> None:
    """The same network in float64 lies within Keras's float32 rounding of it."""
    model = npinfer.load(path, engine="reference", dtype="float64")
    got = kf.call(model, [np.float64(x) for x in kf.arrays(path, "in")])
    assert all(y.dtype == np.float64 for y in got)
    kf.assert_near(got, kf.arrays(path, "out"), 1e-6)


def cells(dtype: Any = np.float32) -> list[Cell]:
    rng = np.random.default_rng(5)

    def kernels(parts: int) -> dict[str, Any]:
        shapes = {"kernel": (3, parts * 4), "recurrent_kernel": (4, parts * 4), "bias": (parts * 4,)}
        return {n: rng.normal(scale=0.6, size=s).astype(dtype) for n, s in shapes.items()}

    image = {
        "input_conv": Conv(rng.normal(size=(2, 3, 8)).astype(dtype), None, (1,), "same", (1,)),
        "recurrent_conv": Conv(rng.normal(size=(2, 2, 8)).astype(dtype), None, (1,), "same", (1,)),
    }
    return [
        SimpleRNNCell(TANH, None, **kernels(1)),
        LSTMCell(TANH, SIGMOID, **kernels(4)),
        LSTMCell(None, Softmax(), **kernels(4)),
        GRUCell(TANH, SIGMOID, **kernels(3)),
        GRUCell(TANH, SIGMOID, **kernels(3), recurrent_bias=rng.normal(size=12).astype(dtype), reset_after=True),
        GRUCell(None, None, **kernels(3), reset_after=True),
        ConvLSTMCell(TANH, SIGMOID, **image),
    ]


def sample(cell: Cell, steps: int, dtype: Any = np.float32) -> Any:
    shape = (2, steps, 5, 3) if isinstance(cell, ConvLSTMCell) else (2, steps, 3)
    return np.random.default_rng(1).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("cell", cells(np.float64), ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("backwards", [False, True])
def test_sequence_is_its_steps(cell: Cell, backwards: bool) -> None:
    """Recurrent gives what the cell gives step by step, with zeros or given states before the first."""
    x = sample(cell, 4, np.float64)
    shapes = cell.state_shapes(Spec(x.shape[2:], np.dtype(np.float64)))
    start = tuple(np.random.default_rng(2).normal(size=(2, *s)) for s in shapes)
    for states in ((), start):
        whole = Recurrent(cell, return_sequences=True, go_backwards=backwards)(x, *states)
        now = states or tuple(np.zeros((2, *s)) for s in shapes)
        for k, t in enumerate(reversed(range(4)) if backwards else range(4)):
            y, *now = cell(x[:, t], *now)
            np.testing.assert_allclose(whole[0][:, k], y, rtol=1e-13, atol=1e-15)
        for a, b in zip(whole[1:], now):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)
        last = Recurrent(cell, go_backwards=backwards)(x, *states)
        np.testing.assert_array_equal(last[0], whole[0][:, -1])


def test_gru_formula() -> None:
    """Both forms of the GRU, written out for one unit."""
    x, h = 0.7, -0.4
    kernel, own = np.array([[0.3, -0.5, 0.9]]), np.array([[0.8, 0.2, -0.6]])
    bias, other = np.array([0.1, 0.2, 0.3]), np.array([-0.2, 0.4, 0.5])

    def sigma(v: float) -> float:
        return 1 / (1 + float(np.exp(-v)))

    z, r = (sigma(x * kernel[0, k] + bias[k] + h * own[0, k]) for k in (0, 1))
    want = z * h + (1 - z) * np.tanh(x * 0.9 + 0.3 + r * h * -0.6)
    y, _ = GRUCell(TANH, SIGMOID, kernel, own, bias)(np.array([[x]]), np.array([[h]]))
    np.testing.assert_allclose(y, want, rtol=1e-14)
    z, r = (sigma(x * kernel[0, k] + bias[k] + h * own[0, k] + other[k]) for k in (0, 1))
    want = z * h + (1 - z) * np.tanh(x * 0.9 + 0.3 + r * (h * -0.6 + 0.5))
    y, _ = GRUCell(TANH, SIGMOID, kernel, own, bias, other, True)(np.array([[x]]), np.array([[h]]))
    np.testing.assert_allclose(y, want, rtol=1e-14)


@pytest.mark.parametrize("masked", ["previous", "state", "zero"])
def test_masked_steps_keep_states(masked: str) -> None:
    cell, h = cells()[0], np.full((2, 4), 0.5, np.float32)
    x = sample(cell, 4)
    mask = np.array([[False, True, False, True], [True, False, False, False]])
    y, last = Recurrent(cell, True, masked=masked)(x, h, mask)
    first, one = cell(x[:1, 1], h[:1])[0], cell(x[1:, 0], h[1:])[0]
    before = {"previous": np.zeros(4), "state": h[0], "zero": np.zeros(4)}[masked]
    np.testing.assert_allclose(y[0, 0], before)
    np.testing.assert_allclose(y[0, 1], first[0], rtol=1e-6)
    np.testing.assert_allclose(y[1, 1:], np.zeros((3, 4)) if masked == "zero" else np.broadcast_to(one, (3, 4)), rtol=1e-6)
    np.testing.assert_allclose(last[1], one[0], rtol=1e-6)


def test_masked_step_is_a_masked_sequence_of_one() -> None:
    cell, h = cells()[0], np.full((2, 4), 0.5, np.float32)
    x, mask = sample(cell, 1), np.array([True, False])
    for kind, extra in (("state", ()), ("zero", ()), ("previous", (np.zeros((2, 4), np.float32),))):
        got = MaskedStep(cell, kind)(x[:, 0], h, *extra, mask)
        want = Recurrent(cell, masked=kind)(x, h, mask[:, None])
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_no_steps() -> None:
    cell = cells()[1]
    whole, h, c = Recurrent(cell, return_sequences=True)(np.zeros((2, 0, 3), np.float32))
    last, *_ = Recurrent(cell)(np.zeros((2, 0, 3), np.float32))
    assert whole.shape == (2, 0, 4)
    assert not last.any()
    assert not h.any()
    assert not c.any()


def test_subnormal_states_are_exact() -> None:
    """A state that decays stays exact through the subnormal numbers."""
    cell = SimpleRNNCell(None, None, np.zeros((1, 1), np.float32), np.full((1, 1), 0.5, np.float32))
    h = np.full((1, 1), np.finfo(np.float32).tiny)
    _, last = Recurrent(cell)(np.zeros((1, 3, 1), np.float32), h)
    assert last[0, 0] == np.finfo(np.float32).tiny / 8


WRONG: list[tuple[str, type[NpinferError], Op, list[Spec], str]] = [
    ("width", ShapeError, Recurrent(cells()[1]), [Spec((5, 4), F32)], "the kernel takes (3,)"),
    ("rank", ShapeError, Recurrent(cells()[1]), [Spec((5,), F32)], "(time steps, features)"),
    ("states", ShapeError, Recurrent(cells()[1]), [Spec((5, 3), F32), Spec((4,), F32)], "the cell has 2 (h, c)"),
    ("state", ShapeError, Recurrent(cells()[0]), [Spec((5, 3), F32), Spec((3,), F32)], "state h is float32[3]"),
    ("dtype", DtypeError, Recurrent(cells()[0]), [Spec((5, 3), np.dtype(np.int32))], "floating-point"),
    ("mask", ShapeError, Recurrent(cells()[0], masked="state"), [Spec((5, 3), F32), Spec((4,), np.dtype(bool))], "mask"),
    ("kind", ShapeError, Recurrent(cells()[0], masked="state"), [Spec((5, 3), F32), Spec((5,), F32)], "mask"),
    ("one mask", ShapeError, MaskedStep(cells()[0], "state"), [Spec((3,), F32), Spec((4,), F32), Spec((1,), F32)], "mask"),
    ("kernel", ShapeError, SimpleRNNCell(None, None, np.zeros((3, 5)), np.zeros((4, 4))), [Spec((3,), F32)], "4 units"),
    ("axes", ShapeError, SimpleRNNCell(None, None, np.zeros(3), np.zeros((4, 4))), [Spec((3,), F32)], "two axes"),
    ("bias", ShapeError, cells()[1].replace(bias=np.zeros(3)), [Spec((3,), F32)], "(16,) is needed"),
    ("filters", ShapeError, cells()[6].replace(recurrent_conv=cells()[6].input_conv), [Spec((5, 3), F32)], "fit"),  # type: ignore[attr-defined]
]


@pytest.mark.parametrize(("error", "op", "specs", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_does_not_fit(error: type[NpinferError], op: Op, specs: list[Spec], words: str) -> None:
    with pytest.raises(error) as caught:
        op.infer(*specs)
    assert words in str(caught.value)


def rnn(class_name: str = "LSTM", **config: Any) -> Layer:
    return Layer(class_name, "r", {"units": 4, "activation": "tanh", "recurrent_activation": "sigmoid", **config})


def weights(parts: int = 4) -> dict[str, Any]:
    return kf.random_weights(np.random.default_rng(3), 3, 4, parts)


MASKING = Layer("Masking", "m", {"mask_value": 0.0})


def stack(**config: Any) -> tuple[Layer, dict[str, Any]]:
    rng = np.random.default_rng(4)
    held = [Layer("SimpleRNNCell", f"c{k}", {"units": 4, "activation": "tanh"}) for k in range(2)]
    whole = Layer("RNN", "r", {"cell": Layer("StackedRNNCells", "s", {"cells": held}), **config})
    first = kf.random_weights(rng, 3, 4, 1, "cell/cells/0/")
    return whole, {**first, **kf.random_weights(rng, 4, 4, 1, "cell/cells/1/")}


def refusals() -> list[tuple[str, Any, str]]:
    a, h = TensorRef("in0", 0, 0), TensorRef("in1", 0, 0)
    custom = Layer("RNN", "r", {"cell": Layer("MinimalCell", "c", {}, module="custom")})
    whole, held = stack()
    odd = Layer("Bidirectional", "b", {"layer": rnn(), "backward_layer": rnn(), "merge_mode": "max"})
    dense = Layer("Bidirectional", "b", {"layer": Layer("Dense", "d", {}), "backward_layer": Layer("Dense", "d", {})})
    zero = rnn(zero_output_for_mask=True, unroll=True, go_backwards=True)
    twice = [Call((a,)), Call((a,))]
    return [
        ("time_major", kf.archive(rnn(time_major=True), [(5, 3)], weights()), "time_major"),
        ("activation", kf.archive(rnn(activation="mine"), [(5, 3)], weights()), "'mine'"),
        ("cell", kf.archive(custom, [(5, 3)], {}), "MinimalCell"),
        ("merge_mode", kf.archive(odd, [(5, 3)], {}), "merge_mode='max'"),
        ("held", kf.archive(dense, [(5, 3)], {}), "'Dense', not a recurrent layer"),
        ("constants", kf.archive(rnn(), [(5, 3)], weights(), calls=[Call((a,), {"constants": [a]})]), "constants"),
        ("mask", kf.archive(rnn(), [(5, 3)], weights(), calls=[Call((a,), {"mask": 3})]), "a mask that isn't"),
        ("state", kf.archive(rnn(), [(5, 3)], weights(), calls=[Call((a,), {"initial_state": [1, 2]})]), "initial state"),
        ("stateful", kf.archive(rnn(stateful=True), [(5, 3)], weights(), calls=twice), "called twice"),
        ("zero", kf.archive(zero, [(5, 3)], weights(), before=[MASKING]), "zero_output_for_mask with unroll"),
        ("stack", kf.archive(whole, [(5, 3)], held, kf.OLD, before=[MASKING]), "stack of cells"),
        ("argument", kf.archive(rnn(), [(5, 3), (4,)], weights(), calls=[Call((a,), {"odd": h})]), "odd"),
    ]


@pytest.mark.parametrize(("archive", "words"), [r[1:] for r in refusals()], ids=[r[0] for r in refusals()])
def test_refusals(archive: Any, words: str) -> None:
    """What can't be computed exactly is refused by the layer's name."""
    with pytest.raises(UnsupportedError) as caught:
        lower(archive)
    assert words in str(caught.value)
    assert "layer 'r" in str(caught.value) or "layer 'b" in str(caught.value)


def test_wrong_number_of_states() -> None:
    with pytest.raises(FormatError, match="1 initial states, its cells have 2"):
        lower(kf.archive(rnn(), [(5, 3), (4,)], weights()))
    held = {f"{d}/{n}": a for d in ("forward_layer", "backward_layer") for n, a in weights().items()}
    both = Layer("Bidirectional", "b", {"layer": rnn(), "backward_layer": rnn(go_backwards=True), "merge_mode": "sum"})
    with pytest.raises(FormatError, match="even number"):
        lower(kf.archive(both, [(5, 3), (4,)], held))


@pytest.mark.parametrize("version", [Version(2, (2, 2, 2)), Version(2, (2, 2, 3)), kf.TF215], ids=str)
def test_order_of_stacked_states(version: Version) -> None:
    """Keras 2.0 to 2.2.2 lists the last cell's state first, given and returned."""
    layer, held = stack(return_state=True)
    a, h0, h1 = (TensorRef(f"in{k}", 0, 0) for k in range(3))
    made = kf.archive(layer, [(5, 3), (4,), (4,)], held, version, [Call(([a, h0, h1],))])
    model = made.model
    outputs = [TensorRef("r", 0, k) for k in range(3)]
    made = type(made)(type(model)(model.name, model.layers, model.inputs, outputs), made.weights, made.order, version, "test")
    rng = np.random.default_rng(8)
    x, *start = (rng.normal(size=(2, *s)).astype(np.float32) for s in ((5, 3), (4,), (4,)))
    y, first, second = lower(made).graph(x, *start)
    reverse = version.numbers == (2, 2, 2)
    np.testing.assert_array_equal(y, first if reverse else second)
    one = SimpleRNNCell(TANH, None, *(held[f"cell/cells/0/{n}"] for n in ("kernel", "recurrent_kernel", "bias")))
    _, last = Recurrent(one)(x, start[1 if reverse else 0])
    np.testing.assert_allclose(second if reverse else first, last, rtol=1e-6)


@pytest.mark.parametrize(
    ("version", "unroll", "kind"),
    [
        (kf.OLD, False, "state"),
        (kf.OLD, True, "previous"),
        (kf.OLD.replace(backend="theano"), False, "previous"),
        (Version(1, (1, 2, 2)), False, "state"),
        (Version(2, (2, 3, 1)), False, "previous"),
        (Version(2, (2, 2, 4), True), False, "previous"),
        (kf.TF215, False, "previous"),
        (kf.KERAS3, False, "previous"),
    ],
    ids=str,
)
def test_rule_for_masked_steps(version: Version, unroll: bool, kind: str) -> None:
    made = kf.archive(rnn(unroll=unroll, return_sequences=True), [(5, 3)], weights(), version, before=[MASKING])
    (op,) = (n.op for n in lower(made).graph.nodes if isinstance(n.op, Recurrent))
    assert op.masked == kind


def test_channels_first_images() -> None:
    """data_format="channels_first" is the same network on transposed images."""
    rng = np.random.default_rng(2)
    w = {
        n: rng.normal(size=s).astype(np.float32)
        for n, s in (("cell/kernel", (2, 2, 3, 8)), ("cell/recurrent_kernel", (2, 2, 2, 8)))
    }
    config = {"filters": 2, "kernel_size": 2, "use_bias": False, "return_sequences": True, "recurrent_activation": "sigmoid"}
    x = rng.normal(size=(2, 3, 4, 5, 3)).astype(np.float32)
    last = lower(kf.archive(Layer("ConvLSTM2D", "c", config), [x.shape[1:]], w)).graph(x)[0]
    turned = np.ascontiguousarray(x.transpose(0, 1, 4, 2, 3))
    first = lower(kf.archive(Layer("ConvLSTM2D", "c", {**config, "data_format": "channels_first"}), [turned.shape[1:]], w))
    np.testing.assert_array_equal(first.graph(turned)[0], last.transpose(0, 1, 4, 2, 3))
    softmax = {**config, "data_format": "channels_first", "activation": "softmax"}
    with pytest.raises(UnsupportedError, match="along an axis"):
        lower(kf.archive(Layer("ConvLSTM2D", "c", softmax), [turned.shape[1:]], w))


def test_width_from_weights() -> None:
    """A file without an input shape: the width is the kernel's, the number of steps is open."""
    made = kf.archive(rnn(), [(5, 3)], weights())
    model = made.model
    layers = (Layer("InputLayer", "in0", {"shape": None}, (Call(),)), model.layers[-1])
    made = type(made)(type(model)("m", layers, model.inputs, model.outputs), made.weights, made.order, made.version, "test")
    assert lower(made).graph.inputs[0].shape == (None, 3)
