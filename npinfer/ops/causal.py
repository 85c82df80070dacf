"""Causal convolutions one step at a time: the steps that a window still needs are the stream's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Graph, Node, Op, Spec, Streamed
from npinfer.ops.dense import Dense
from npinfer.ops.reshape import Reshape

if TYPE_CHECKING:
    from npinfer.ops.conv import Conv


class Window(Op):
    """(x, memory) -> (window, next memory): the newest step behind the memory's steps.

    x: (channels,); memory: (steps, channels), oldest first; window: every `dilation`-th of the steps + 1 rows, up to the
    newest, as one vector (taps·channels,). steps is a multiple of dilation.
    """

    dilation: int = 1

    def infer(self, x: Spec, memory: Spec) -> tuple[Spec, Spec]:
        if len(x.shape) != 1 or len(memory.shape) != 2 or memory.shape[1] != x.shape[0] or memory.dtype != x.dtype:
            raise ShapeError(f"a step {list(x.shape)} doesn't fit a memory of {list(memory.shape)}")
        steps, channels = memory.shape
        assert steps is not None
        if channels is None or steps % self.dilation:
            raise ShapeError(f"a memory of {list(memory.shape)} for a dilation of {self.dilation}")
        return Spec(((steps // self.dilation + 1) * channels,), x.dtype), memory._replace(name="")

    def __call__(self, x: Array, memory: Array) -> tuple[Array, Array]:
        rows = np.concatenate([memory, x[:, None]], axis=1)
        return rows[:, :: self.dilation].reshape(len(x), -1), rows[:, 1:]


class WindowDense(Dense):
    """A convolution's window as one vector times its kernel. An op of its own, so that an engine whose convolutions add in
    another order than its Dense layers can add in that order here too: a stream then equals the whole run to the last bit."""


def stream_conv(conv: Conv, x: Spec) -> Streamed:
    """A Conv over time as one step: a Dense on its window, or a Conv of one window where channels come in groups.

    Raises ShapeError with the reason where the convolution skips steps or sees later ones.
    """
    if len(conv.window) != 1:
        raise ShapeError("a convolution along several axes, of which time would be one")
    (taps,), (stride,), (dilation,) = conv.window, conv.strides, conv.dilation
    reach = (taps - 1) * dilation
    if stride != 1:
        raise ShapeError("its strides leave out time steps")
    if reach and conv.padding not in ("causal", ((reach, 0),)):
        raise ShapeError(f"its window reaches later time steps (padding={conv.padding!r})")
    channels, filters = x.shape[-1], conv.kernel.shape[-1]
    assert channels is not None
    step = Spec((channels,), x.dtype)
    memory = Spec((reach, channels), x.dtype, "window")
    inputs = [step, memory] if reach else [step]
    nodes = [Node(Window(dilation), (0, 1))] if reach else []
    alone = conv.replace(padding="valid", dilation=(1,))
    chain: list[Op] = [Reshape((taps, channels)), alone, Reshape((filters,))]
    if conv.groups == 1:
        chain = [WindowDense(conv.kernel.reshape(-1, filters), conv.bias, conv.activation)]
    last, following = (2, 4) if reach else (0, 1)
    for op in chain:
        nodes.append(Node(op, (last,)))
        last, following = following, following + 1
    if not reach:
        return Streamed(Graph(inputs, nodes, [last]))
    return Streamed(Graph(inputs, nodes, [last, 3]), (0, -1), (memory,), (None,), (1,), (0,))
