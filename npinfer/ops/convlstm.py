"""ConvLSTM1D to 3D: an LSTM whose products are convolutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from npinfer.errors import ShapeError
from npinfer.graph import Array, Shape, Spec
from npinfer.ops.cast import as_float
from npinfer.ops.conv import Conv, check_conv, conv_shape
from npinfer.ops.recurrent import GatedCell
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.reshape import transposed
from npinfer.ops.rnn_layers import activations, arguments, check_gates, finish, held_cell, run
from npinfer.ops.windows import several

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


class ConvLSTMCell(GatedCell):
    """z = input_conv(x) + recurrent_conv(h), then GatedCell.lstm with the filters as units. x: (*sizes, channels); states: the
    sizes of input_conv's output, filters."""

    input_conv: Conv
    recurrent_conv: Conv
    state_names: ClassVar[tuple[str, ...]] = ("h", "c")

    def state_shapes(self, x: Spec) -> tuple[Shape, ...]:
        made = self.input_conv.infer(x)
        filters = self.recurrent_conv.kernel.shape[-2]
        state = made._replace(shape=(*made.shape[:-1], filters))
        if made.shape[-1] != 4 * filters or self.recurrent_conv.infer(state).shape != made.shape:
            raise ShapeError(
                f"kernels of shape {self.input_conv.kernel.shape} and {self.recurrent_conv.kernel.shape} don't fit one another"
            )
        return state.shape, state.shape

    def project(self, x: Array) -> Array:
        rank = len(self.input_conv.window) + 1
        p = self.input_conv(x.reshape(-1, *x.shape[-rank:]))
        return p.reshape(*x.shape[:-rank], *p.shape[1:])

    def advance(self, projected: Array, *states: Array) -> tuple[Array, ...]:
        h, c = states
        return self.lstm(self.recurrent_conv(h) + projected, c)


def _check(rank: int) -> Callable[[Config], Iterator[str]]:
    def check(config: Config) -> Iterator[str]:
        yield from check_conv(rank)({**config, "activation": None})
        yield from check_gates(config)

    return check


def _shape(rank: int) -> Callable[[Config, Any], Shape | None]:
    def shape(config: Config, weights: Any) -> Shape | None:
        step = conv_shape(rank, "cell/kernel")(config, weights)
        return None if step is None else (None, *step)

    return shape


def _conv_lstm(rank: int) -> Callable[..., Any]:
    def lower(call: LayerCall, first: Any, initial_state: Any = None) -> Any:
        """Everything runs channels last; states and outputs are handed on as the layer's data_format has them."""
        x, states, mask, passed = arguments(call, first, initial_state)
        if len(x.shape) != rank + 2:
            raise ShapeError(f"layer {call.name!r}: takes {rank + 2} axes a sample, got {list(x.shape)}")
        turned = call.config.get("data_format") == "channels_first"
        if turned:
            x, states = _moved(call, x, 1, -1), [_moved(call, as_float(call, s), 0, -1) for s in states]
        y, last = run(call, [_cell(call, rank)], x, states, mask)
        if turned:
            y, last = _moved(call, y, -1, len(y.shape) - rank - 1), [_moved(call, s, -1, 0) for s in last]
        return finish(call, y, last, passed)

    return lower


def _cell(call: LayerCall, rank: int) -> ConvLSTMCell:
    config, w = call.config, call.weights
    ones = (1,) * rank
    found = activations(call, config, rank=rank + 1)
    if config.get("data_format") == "channels_first" and not all(op is None or op.elementwise for op in found.values()):
        call.refuse("an activation along an axis with data_format='channels_first'")
    strides = several(call, config.get("strides", 1), rank, "strides")
    dilation = several(call, config.get("dilation_rate", 1), rank, "dilation_rate")
    return ConvLSTMCell(
        **found,
        input_conv=Conv(w["cell/kernel"], w.get("cell/bias"), strides, config.get("padding", "valid"), dilation),
        recurrent_conv=Conv(w["cell/recurrent_kernel"], None, ones, "same", ones),
    )


def _moved(call: LayerCall, x: Value, start: int, end: int) -> Value:
    """x with axis `start` at place `end`; -1 is the last."""
    order = list(range(len(x.shape)))
    moved = order.pop(start)
    order.insert(end if end >= 0 else len(order), moved)
    return transposed(call, x, tuple(order))


for _rank in (1, 2, 3):
    layer(f"ConvLSTM{_rank}D", variables=held_cell, mask="own", check=_check(_rank), input_shape=_shape(_rank))(
        _conv_lstm(_rank)
    )
