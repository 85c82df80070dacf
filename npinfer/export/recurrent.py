"""Recurrence: ONNX's RNN, GRU and LSTM where they mean the same, else Scan over npinfer's cells.

The ONNX operators are taken in float32 (ONNX Runtime has no others) for cells without a mask whose activations the operators
know. A mask of theirs (sequence_lens) holds lengths, Keras's any pattern of steps, so masked layers are scanned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import FLOAT32, INT64, Body, Value
from npinfer.graph import Array, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.convlstm import ConvLSTMCell
from npinfer.ops.recurrent import Cell, GatedCell, GRUCell, LSTMCell, MaskedStep, MatrixCell, Recurrent, SimpleRNNCell

#: an alpha that is the op's own parameter
OWN = -1.0
#: kind → (ONNX's name, alpha, beta) of activations inside ONNX's recurrent operators; None: it takes none
INSIDE: dict[str, tuple[str, float | None, float | None]] = {
    "tanh": ("Tanh", None, None),
    "sigmoid": ("Sigmoid", None, None),
    "relu": ("Relu", None, None),
    "hard_sigmoid": ("HardSigmoid", 1 / 6, 0.5),
    "hard_sigmoid_k2": ("HardSigmoid", 0.2, 0.5),
    "elu": ("Elu", OWN, None),
    "leaky_relu": ("LeakyRelu", OWN, None),
    "softsign": ("Softsign", None, None),
    "softplus": ("Softplus", None, None),
}
#: the gates' order in ONNX as places in Keras's: LSTM i, o, f, c of i, f, c, o; GRU and RNN are alike
GATES: dict[type[Cell], tuple[int, ...]] = {LSTMCell: (0, 3, 1, 2), GRUCell: (0, 1, 2), SimpleRNNCell: (0,)}
KINDS: dict[type[Cell], str] = {LSTMCell: "LSTM", GRUCell: "GRU", SimpleRNNCell: "RNN"}


@exports(Recurrent)
def recurrent(net: Net, op: Recurrent, x: Value, *rest: Value) -> tuple[Value, ...]:
    states, mask = op.split(rest)
    attributes = _operator(op.cell) if mask is None and x.dtype == FLOAT32 else None
    if attributes is not None and isinstance(op.cell, MatrixCell):
        return _by_operator(net, op, op.cell, attributes, x, states)
    return _by_scan(net, op, x, states, mask)


def _operator(cell: Cell) -> dict[str, Any] | None:
    """The attributes of the ONNX operator that computes a cell; None where there is none."""
    if type(cell) not in KINDS or not isinstance(cell, GatedCell):
        return None
    used: list[Op | None] = [cell.activation]
    if isinstance(cell, LSTMCell):
        used = [cell.recurrent_activation, cell.activation, cell.activation]
    elif isinstance(cell, GRUCell):
        used = [cell.recurrent_activation, cell.activation]
    names, alphas, betas = list[str](), list[float | None](), list[float | None]()
    for a in used:
        if a is not None and not (isinstance(a, Activation) and a.kind in INSIDE):
            return None
        name, alpha, beta = ("Affine", 1.0, 0.0) if a is None else INSIDE[a.kind]
        names.append(name)
        alphas.append(a.parameters[0] if a is not None and alpha == OWN else alpha)
        betas.append(beta)
    attributes: dict[str, Any] = {"activations": names}
    for key, numbers in (("activation_alpha", alphas), ("activation_beta", betas)):
        taken = [n for n in numbers if n is not None]
        if taken:
            # ONNX Runtime deals them out to the activations that take one, OpenVINO place by place: this serves both, since the
            # gates come first and the others are alike
            attributes[key] = [taken[0], *(0.0 if n is None else n for n in numbers[1:])]
    if isinstance(cell, GRUCell):
        attributes["linear_before_reset"] = int(cell.reset_after)
    return attributes


def _gates(cell: MatrixCell, numbers: Array) -> Array:
    """Keras's (…, parts·units) as ONNX's (1, parts·units, …), gates in its order."""
    parts = np.split(numbers, cell.parts, axis=-1)
    ordered = np.concatenate([parts[k] for k in GATES[type(cell)]], axis=-1)
    return np.ascontiguousarray(ordered.T[None])


def _by_operator(
    net: Net, op: Recurrent, cell: MatrixCell, attributes: dict[str, Any], x: Value, states: Sequence[Value]
) -> tuple[Value, ...]:
    units = cell.recurrent_kernel.shape[0]
    second = getattr(cell, "recurrent_bias", None)
    bias: Value | None = None
    if cell.bias is not None or second is not None:
        zeros = np.zeros(cell.parts * units, cell.kernel.dtype)
        both = [_gates(cell, zeros if b is None else b) for b in (cell.bias, second)]
        bias = net.fixed(np.concatenate(both, axis=1), "bias")
    steps_first = net.transpose(x, (1, 0, 2))
    given = [s.unsqueeze(0) for s in states]
    inputs = [
        steps_first,
        net.fixed(_gates(cell, cell.kernel), "kernel"),
        net.fixed(_gates(cell, cell.recurrent_kernel), "recurrent_kernel"),
        bias,
        None,
        *given,
    ]
    attributes = {"hidden_size": units, **attributes}
    if op.go_backwards:
        attributes["direction"] = "reverse"
    y, *last = net.nodes_of(KINDS[type(cell)], inputs, 1 + len(cell.state_names), None, attributes)
    finals = tuple(v.squeeze(0) for v in last)
    if not op.return_sequences:
        return (finals[0], *finals)
    whole = y.squeeze(1)
    whole.shape = (None, units)
    # ONNX lists the outputs of a backward walk in the order of the sequence, Keras in that of the walk
    whole = net.flip(whole, 0) if op.go_backwards else whole
    return (net.transpose(whole, (1, 0, 2)), *finals)


# by Scan


def _project(net: Net, cell: Cell, x: Value, steps: int) -> Value:
    """The part of all steps that needs no state. steps: how many axes stand before a step's own."""
    if isinstance(cell, ConvLSTMCell):
        if steps == 1:
            return net.apply(cell.input_conv, x)
        sizes = net.shape(x)
        folded = net.reshape(x, [-1, *sizes[2:]])
        assert x.shape is not None
        folded.shape = x.shape[1:]
        made = net.apply(cell.input_conv, folded)
        made.shape = cell.input_conv.infer(Spec(x.shape[1:], x.dtype)).shape
        rest = [net.size(made, a) for a in range(1, made.rank)]
        y = net.reshape(made, [-1, sizes[1], *rest])
        y.shape = (x.shape[0], *made.shape)
        return y
    assert isinstance(cell, MatrixCell)
    y = x.do("MatMul", net.fixed(cell.kernel, "kernel"))
    return y if cell.bias is None else y + net.fixed(cell.bias, "bias")


def _gate(net: Net, op: Op | None, z: Value, start: int, end: int) -> Value:
    part = z.slice(-1, start, end)
    part.shape = z.shape and (*z.shape[:-1], end - start)
    return part if op is None else net.apply(op, part)


def _lstm(net: Net, cell: GatedCell, z: Value, c: Value, units: int) -> tuple[Value, ...]:
    i, f, o = (_gate(net, cell.recurrent_activation, z, k * units, (k + 1) * units) for k in (0, 1, 3))
    c = f * c + i * _gate(net, cell.activation, z, 2 * units, 3 * units)
    c.shape = z.shape and (*z.shape[:-1], units)
    h = o * (c if cell.activation is None else net.apply(cell.activation, c))
    return h, c


def _advance(net: Net, cell: Cell, projected: Value, states: Sequence[Value]) -> tuple[Value, ...]:
    """The next states; the first of them is the output."""
    h = states[0]
    if isinstance(cell, ConvLSTMCell):
        z = net.apply(cell.recurrent_conv, h) + projected
        z.shape = projected.shape
        return _lstm(net, cell, z, states[1], cell.recurrent_conv.kernel.shape[-2])
    assert isinstance(cell, MatrixCell)
    units = cell.recurrent_kernel.shape[0]
    if isinstance(cell, GRUCell):
        return (_gru(net, cell, projected, h, units),)
    z = h.do("MatMul", net.fixed(cell.recurrent_kernel, "recurrent_kernel")) + projected
    z.shape = projected.shape
    if isinstance(cell, LSTMCell):
        return _lstm(net, cell, z, states[1], units)
    return (z if cell.activation is None else net.apply(cell.activation, z),)


def _gru(net: Net, cell: GRUCell, projected: Value, h: Value, units: int) -> Value:
    two, three = 2 * units, 3 * units
    kernel = cell.recurrent_kernel if cell.reset_after else cell.recurrent_kernel[:, :two]
    m = h.do("MatMul", net.fixed(kernel, "recurrent_kernel"))
    if cell.reset_after and cell.recurrent_bias is not None:
        m = m + net.fixed(cell.recurrent_bias, "recurrent_bias")
    both = projected.slice(-1, 0, two) + (m.slice(-1, 0, two) if cell.reset_after else m)
    both.shape = (two,)
    z, r = (_gate(net, cell.recurrent_activation, both, k * units, (k + 1) * units) for k in (0, 1))
    if cell.reset_after:
        candidate = r * m.slice(-1, two, three)
    else:
        candidate = (r * h).do("MatMul", net.fixed(cell.recurrent_kernel[:, two:], "candidate_kernel"))
    candidate = candidate + projected.slice(-1, two, three)
    candidate.shape = (units,)
    candidate = candidate if cell.activation is None else net.apply(cell.activation, candidate)
    return z * h + (1.0 - z) * candidate


def _masked(
    net: Net, masked: str, rank: int, mask: Value, before: Value, new: Sequence[Value], states: Sequence[Value]
) -> tuple[Value, tuple[Value, ...]]:
    """(output, next states) of a step that samples whose mask (n,) is False skip."""
    at = mask.unsqueeze(*range(1, rank)) if rank > 1 else mask
    other = {"previous": before, "state": states[0], "zero": 0.0}[masked]
    return at.where(new[0], other), tuple(at.where(a, b) for a, b in zip(new, states))


def _zeros(net: Net, cell: Cell, x: Value, projected: Value) -> list[Value]:
    """States of zeros for every sample."""
    assert x.shape is not None
    shapes = cell.state_shapes(Spec(x.shape[1:], x.dtype))
    if None not in shapes[0]:
        return [net.filled(0.0, [net.size(x, 0), *(n or 0 for n in s)], x.dtype) for s in shapes]
    first = projected.do("Gather", np.asarray(0, INT64), axis=1)
    sizes = first.slice(-1, 0, shapes[0][-1] or 0).do("Shape", dtype=INT64)
    return [net.node("ConstantOfShape", sizes, dtype=x.dtype, value=np.zeros(1, x.dtype))] * len(shapes)


def _by_scan(net: Net, op: Recurrent, x: Value, states: Sequence[Value], mask: Value | None) -> tuple[Value, ...]:
    """Scan along the time axis; the body's states are the cell's, and the last output where masked steps repeat it."""
    cell = op.cell
    projected = _project(net, cell, x, 2)
    assert x.shape is not None
    step = cell.state_shapes(Spec(x.shape[1:], x.dtype))[0]
    starts = list(states) or _zeros(net, cell, x, projected)
    count = len(starts)
    repeats = op.masked == "previous"
    if repeats:
        starts.append(_zeros(net, cell, x, projected)[0])
    wide = projected.shape[1:] if projected.shape is not None else (*step[:-1], None)
    with net.body() as nodes:
        held = [net.placeholder(x.dtype, step, "state") for _ in starts]
        now = net.placeholder(x.dtype, wide, "projected")
        new = _advance(net, cell, now, held[:count])
        inputs, y = [*held, now], new[0]
        if mask is not None and op.masked is not None:
            counts = net.placeholder(mask.dtype, (), "mask")
            inputs.append(counts)
            y, new = _masked(net, op.masked, len(step) + 1, counts, held[-1], new, held[:count])
        ends = [*new, *([y] if repeats else []), y]
        outputs = tuple(net.copy(v) for v in ends)
    walks = 1 if mask is None else 2
    made = net.nodes_of(
        "Scan",
        [*starts, projected, *([] if mask is None else [mask])],
        len(starts) + 1,
        x.dtype,
        {
            "body": Body(tuple(inputs), outputs, nodes),
            "num_scan_inputs": walks,
            "scan_input_axes": [1] * walks,
            "scan_input_directions": [int(op.go_backwards)] * walks,
            "scan_output_axes": [1],
        },
    )
    last = made[:count]
    if op.return_sequences:
        return (made[-1], *last)
    if op.masked in (None, "state"):
        return (last[0], *last)
    if repeats:
        return (made[count], *last)
    return (made[-1].do("Gather", np.asarray(-1, INT64), axis=1), *last)


@exports(SimpleRNNCell, LSTMCell, GRUCell, ConvLSTMCell)
def cell_step(net: Net, op: Cell, x: Value, *states: Value) -> tuple[Value, ...]:
    """A cell called as a layer: one step."""
    projected = _project(net, op, x, 1)
    assert x.shape is not None
    if projected.shape is None and isinstance(op, ConvLSTMCell):
        projected.shape = op.input_conv.infer(Spec(x.shape, x.dtype)).shape
    new = _advance(net, op, projected, states)
    return (new[0], *new)


@exports(MaskedStep)
def masked_step(net: Net, op: MaskedStep, x: Value, *rest: Value) -> tuple[Value, ...]:
    states, mask = rest[:-1], rest[-1]
    before = states[-1]
    if op.masked == "previous":
        states = states[:-1]
    new = cell_step(net, op.cell, x, *states)[1:]
    assert states[0].shape is not None
    y, following = _masked(net, op.masked, len(states[0].shape) + 1, mask, before, new, states)
    return (y, *following)
