"""SimpleRNN, LSTM, GRU, RNN and their cells: Keras's arguments, states and masks, lowered to Recurrent (recurrent.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.errors import FormatError
from npinfer.graph import Array, Spec
from npinfer.ops.activations import activation_op, check_activation
from npinfer.ops.cast import as_float
from npinfer.ops.identity import Cast
from npinfer.ops.indexing import GetItem
from npinfer.ops.recurrent import Cell, GRUCell, LSTMCell, Recurrent, SimpleRNNCell
from npinfer.ops.registry import LayerCall, Value, Variable, below, layer

if TYPE_CHECKING:
    from npinfer.readers.archive import Config, Layer, Version

REVERSED = GetItem((slice(None, None, -1),))
#: the layers that Bidirectional can hold
RECURRENT = ("SimpleRNN", "LSTM", "GRU", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")


# configs and weights into cells


def _old(version: Version) -> bool:
    """Whether GRU's default is that from before Keras 2.3 and TensorFlow 2, reset_after=False."""
    return version.major < 2 or (version.major == 2 and bool(version.numbers) and version.numbers < (2, 3))


def activations(call: LayerCall, config: Config, gated: bool = True, rank: int = 1) -> dict[str, Any]:
    """A cell's activation and recurrent_activation, for states of `rank` axes."""
    gate = activation_op(call, config.get("recurrent_activation", "sigmoid"), rank) if gated else None
    return {"activation": activation_op(call, config.get("activation", "tanh"), rank), "recurrent_activation": gate}


def check_gates(config: Config) -> Iterator[str]:
    """For a recurrent layer's `check=`."""
    yield from check_activation(config, "activation", "recurrent_activation")
    if config.get("time_major"):
        yield "option time_major=True"


def _arrays(w: Mapping[str, Array]) -> dict[str, Any]:
    return {"kernel": w["kernel"], "recurrent_kernel": w["recurrent_kernel"], "bias": w.get("bias")}


def _simple(call: LayerCall, config: Config, w: Mapping[str, Array]) -> Cell:
    return SimpleRNNCell(**activations(call, config, gated=False), **_arrays(w))


def _lstm(call: LayerCall, config: Config, w: Mapping[str, Array]) -> Cell:
    return LSTMCell(**activations(call, config), **_arrays(w))


def _gru(call: LayerCall, config: Config, w: Mapping[str, Array]) -> Cell:
    """The bias, where there is one, tells reset_after, whose default changed too often: (2, 3·units) is input and recurrent."""
    arrays = _arrays(w)
    bias, after = arrays["bias"], bool(config.get("reset_after", not _old(call.version)))
    if bias is not None:
        after = bias.ndim == 2
        arrays["bias"], arrays["recurrent_bias"] = bias if after else (bias, None)
    return GRUCell(**activations(call, config), **arrays, reset_after=after)


CELLS: dict[str, Callable[[LayerCall, Config, Mapping[str, Array]], Cell]] = {
    "SimpleRNNCell": _simple,
    "LSTMCell": _lstm,
    "GRUCell": _gru,
}


def cells_of(call: LayerCall, held: Layer, prefix: str) -> list[Cell]:
    """The cells of an RNN layer's cell, a stack of them in order; `prefix` leads to their weights among the call's."""
    if held.class_name == "StackedRNNCells":
        stack = enumerate(held.config["cells"])
        return [c for k, inner in stack for c in cells_of(call, inner, f"{prefix}cells/{k}/")]
    make = CELLS.get(held.class_name)
    if make is None or held.module:
        call.refuse(f"a cell of class {held.class_name}")
    return [make(call, held.config, {n[len(prefix) :]: a for n, a in call.weights.items() if n.startswith(prefix)})]


# arguments, masks, states


def arguments(call: LayerCall, first: Any, initial_state: Any = None) -> tuple[Value, list[Value], Value | None, Value | None]:
    """(sequence, initial states, mask to use, mask to hand on), however the version wrote the call: a list of the sequence and
    the states, a positional or a keyword argument.

    Keras 3 fills in the sequence's own mask only if the sequence is the only tensor given: with initial states it walks over
    masked steps as over others (and still hands the mask on).
    """
    listed = [first] if isinstance(first, Value) else list(first)
    keyword = call.take("initial_state", initial_state)
    if call.take("constants") is not None or call.config.get("num_constants"):
        call.refuse("constants handed to the cell")
    states = listed[1:] or list(_flat(keyword))
    if not all(isinstance(v, Value) for v in (listed[0], *states)):
        call.refuse("an initial state that isn't a tensor of the model")
    x: Value = listed[0]
    explicit = call.take("mask")
    if isinstance(explicit, (list, tuple)) and not isinstance(explicit, Value):
        explicit = explicit[0] if explicit else None
    if explicit is not None and not isinstance(explicit, Value):
        call.refuse("a mask that isn't a tensor of the model")
    mask = explicit if explicit is not None else x.mask
    if mask is not None and mask.spec.dtype != bool:
        mask = call.emit(Cast(np.dtype(bool)), mask)
    ignored = call.version.major >= 3 and bool(states) and explicit is None
    return as_float(call, x._replace(mask=None)), states, None if ignored else mask, mask


def _flat(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (list, tuple)) and not isinstance(tree, Value):
        for item in tree:
            yield from _flat(item)
    elif tree is not None:
        yield tree


def masked_rule(call: LayerCall, several: bool) -> str:
    """What masked steps give out (recurrent.MASKED), which depends on the Keras that wrote the file."""
    config, version = call.config, call.version
    unroll = bool(config.get("unroll"))
    if config.get("zero_output_for_mask"):
        if unroll and config.get("go_backwards"):
            call.refuse("zero_output_for_mask with unroll and go_backwards on a masked sequence (Keras zeroes other steps)")
        return "zero"
    first = version.major < 3 and not version.tf and (version.major < 2 or (bool(version.numbers) and version.numbers < (2, 3)))
    if not first or unroll or version.backend == "theano":
        return "previous"
    if several and version.numbers >= (2, 2, 3):
        call.refuse("a mask on a stack of cells (this version of Keras gives out the first cell's state at masked steps)")
    return "state"


def run(call: LayerCall, cells: Sequence[Cell], x: Value, states: list[Value], mask: Value | None) -> tuple[Value, list[Value]]:
    """Emit a layer's recurrence; returns (output, last states). A stack of cells becomes one Recurrent after another."""
    config, count = call.config, [len(c.state_names) for c in cells]
    follow: list[Callable[[Value], None]] = []
    if config.get("stateful"):
        if len(call.layer.calls) > 1:
            call.refuse("a stateful layer that is called twice in one model")
        shapes = [Spec(s, call.dtype) for c in cells for s in _state_shapes(c, cells, x)]
        kept = [call.state(spec) for spec in shapes]
        follow = [f for _, f in kept]
        # a given initial state wins over the kept one at every call, as in Keras 1, 2 and 3 (tf.keras 2.4 to 2.15 use the kept
        # one from the second call on)
        states = states or [v for v, _ in kept]
    if states and len(states) != sum(count):
        raise FormatError(f"layer {call.name!r}: called with {len(states)} initial states, its cells have {sum(count)}")
    backwards = bool(config.get("go_backwards"))
    rule = None if mask is None else masked_rule(call, len(cells) > 1)
    last: list[Value] = []
    for k, cell in enumerate(cells):
        given, states = states[: count[k]], states[count[k] :]
        end = k == len(cells) - 1
        op = Recurrent(
            cell,
            return_sequences=bool(config.get("return_sequences")) or not end,
            go_backwards=backwards and k == 0,
            masked=rule if end or rule is None else "state",
        )
        x, *new = call.emit_all(op, x, *given, *([] if mask is None else [mask]))
        last.extend(new)
        if backwards and k == 0 and mask is not None and not end:
            mask = call.emit(REVERSED, mask)
    for successor, value in zip(follow, last):
        successor(value)
    return x, last


def _state_shapes(cell: Cell, cells: Sequence[Cell], x: Value) -> tuple[tuple[int | None, ...], ...]:
    """A cell's state shapes, given the sequence that the first of the cells reads."""
    step = Spec(x.shape[1:], x.spec.dtype)
    for before in cells:
        if before is cell:
            break
        step = Spec(before.state_shapes(step)[0], x.spec.dtype)
    return cell.state_shapes(step)


def recurrent(call: LayerCall, cells: Sequence[Cell], first: Any, initial_state: Any = None) -> Any:
    """A whole recurrent layer: what Keras's RNN.call returns, with masks."""
    x, states, mask, passed = arguments(call, first, initial_state)
    # Keras 2.0 to 2.2.2 lists the states of a stack from the last cell to the first
    turn = len(cells) > 1 and not call.version.tf and call.version.major == 2 and () < call.version.numbers < (2, 2, 3)
    counts = [len(c.state_names) for c in cells]
    y, last = run(call, cells, x, _turned(states, counts[::-1]) if turn else states, mask)
    return finish(call, y, _turned(last, counts) if turn else last, passed)


def finish(call: LayerCall, y: Value, last: Sequence[Value], passed: Value | None) -> Any:
    """A layer's output with its mask, and its states if they are asked for."""
    if call.config.get("return_sequences"):
        y = y._replace(mask=passed)
    return (y, *last) if call.config.get("return_state") else y


def _turned(states: list[Value], counts: Sequence[int]) -> list[Value]:
    """States in groups of these sizes, the last group first."""
    left, groups = list(states), list[list[Value]]()
    for n in counts:
        groups.insert(0, left[:n])
        left = left[n:]
    return [v for group in (*groups, left) for v in group]


# the layers


def cell_variables(config: Config) -> Iterable[str]:
    return ["kernel", "recurrent_kernel", *(["bias"] if config.get("use_bias", True) else [])]


def held_cell(config: Config) -> Iterable[str]:
    return [f"cell/{n}" for n in cell_variables(config)]


def _width(config: Config, weights: Mapping[str, Array]) -> tuple[int | None, ...] | None:
    kernel = weights.get("cell/kernel")
    return None if kernel is None or kernel.ndim != 2 else (None, kernel.shape[0])


@layer("SimpleRNN", "LSTM", "GRU", variables=held_cell, mask="own", check=check_gates, input_shape=_width)
def rnn_layer(call: LayerCall, first: Any, initial_state: Any = None) -> Any:
    """return_sequences, return_state, go_backwards, stateful, masks, initial states; CuDNN's arrays and Keras 1's too."""
    w = {n.removeprefix("cell/"): a for n, a in call.weights.items()}
    return recurrent(call, [CELLS[f"{call.layer.class_name}Cell"](call, call.config, w)], first, initial_state)


def _stacked(config: Config) -> list[Variable]:
    return [v for k, cell in enumerate(config["cells"]) for v in below(f"cells/{k}", cell)]


def _cell_check(config: Config) -> Iterator[str]:
    held = config.get("cell")
    for cell in getattr(held, "config", {}).get("cells", [held]):
        if getattr(cell, "class_name", None) not in CELLS or cell.module:
            yield f"a cell of class {getattr(cell, 'class_name', cell)}"
    if config.get("time_major"):
        yield "option time_major=True"


@layer("RNN", variables=lambda c: below("cell", c["cell"]), mask="own", check=_cell_check)
def rnn(call: LayerCall, first: Any, initial_state: Any = None) -> Any:
    """Around Keras's own cells, one or several stacked; options as of the layers that are named after a cell."""
    return recurrent(call, cells_of(call, call.config["cell"], "cell/"), first, initial_state)


@layer("SimpleRNNCell", "LSTMCell", "GRUCell", variables=cell_variables, mask="stop", check=check_gates)
@layer("StackedRNNCells", variables=_stacked, mask="stop")
def cell_layer(call: LayerCall, x: Value, states: Any = None) -> Any:
    """A cell called as a layer: cell(x, states) -> (output, states)."""
    given = list(_flat(call.take("states", states)))
    x, last = as_float(call, x), list[Value]()
    for cell in cells_of(call, call.layer, ""):
        count = len(cell.state_names)
        x, *new = call.emit_all(cell, x, *given[:count])
        given = given[count:]
        last.extend(new)
    return (x, *last)
