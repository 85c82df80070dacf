"""LocallyConnected1D and 2D of Keras 1 and 2: convolutions whose kernel is another one at each place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Shape, Spec
from npinfer.ops.activations import activate
from npinfer.ops.cast import as_float
from npinfer.ops.conv import activated, biased, check_conv
from npinfer.ops.dense import Dense
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.reshape import reshaped
from npinfer.ops.windows import Pairs, channels_last, padded, several, window_count, windows

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


class LocallyConnected(Op):
    """y[place] = window(x, place) · kernel[place] + bias[place], channels last.

    x: (n, *sizes, channels); kernel: (*places, window · channels, filters); bias: (*places, filters) or None. padding: (before,
    after) for each spatial axis.
    """

    kernel: Array
    bias: Array | None
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Pairs

    def infer(self, x: Spec) -> Spec:
        rank, places = len(self.window), self.kernel.shape[:-2]
        if len(x.shape) != rank + 1 or len(places) != rank or not self.kernel.size:
            raise ShapeError(
                f"a kernel of shape {list(self.kernel.shape)} and a window {self.window} for {list(x.shape)} a sample"
            )
        depth, channels = self.kernel.shape[-2], x.shape[-1]
        if channels is None or depth != channels * int(np.prod(self.window)):
            raise ShapeError(f"windows {self.window} of {channels} channels don't have the kernel's {depth} entries")
        made = window_count(self.padding, x.shape[:-1], self.window, self.strides, (1,) * rank)
        if any(n not in (None, m) for n, m in zip(made, places)):
            raise ShapeError(f"{list(x.shape)} a sample has {list(made)} places, the kernel is for {list(places)}")
        if self.bias is not None and self.bias.shape != (*places, self.kernel.shape[-1]):
            raise ShapeError(f"a bias of shape {list(self.bias.shape)} for a kernel of {list(self.kernel.shape)}")
        return Spec((*places, self.kernel.shape[-1]), x.dtype)

    def __call__(self, x: Array) -> Array:
        places, (depth, filters) = self.kernel.shape[:-2], self.kernel.shape[-2:]
        view = windows(padded(x, self.padding), places, self.window, self.strides, (1,) * len(places))
        kernel = self.kernel.reshape(-1, depth, filters)
        parts = view.reshape(len(x), len(kernel), depth).swapaxes(0, 1)
        y = np.matmul(parts, kernel).swapaxes(0, 1).reshape(len(x), *places, filters)
        return np.asarray(y if self.bias is None else y + self.bias)


class _Axis:
    """One spatial axis: size n, which windows meet which entries. Keras puts a "same" window's middle at stride · place, unlike
    a convolution's; entries that no window can meet are left out."""

    def __init__(self, n: int, window: int, stride: int, same: bool) -> None:
        self.n, self.stride = n, stride
        self.before = min(window // 2, n - 1) if same else 0
        self.window = self.before + min(window - window // 2, n) if same else window
        self.places = (n - 1) // stride + 1 if same else (n - window) // stride + 1
        self.after = max((self.places - 1) * stride + self.window - self.before - n, 0)

    def met(self) -> Array:
        """(places, window): where a window's entry lies inside."""
        found = np.arange(self.places)[:, None] * self.stride + np.arange(self.window) - self.before
        return np.asarray((found >= 0) & (found < self.n))

    def links(self) -> Array:
        """(n, places): whether a place's window meets an entry."""
        offset = np.arange(self.n)[:, None] - np.arange(self.places) * self.stride + self.before
        return np.asarray((offset >= 0) & (offset < self.window))


def _together(parts: Sequence[Array]) -> Array:
    """(a0, b0) and (a1, b1) …: (a0, a1 …, b0, b1 …), true where all are."""
    whole, rank = np.ones((1,) * 2 * len(parts), bool), len(parts)
    for k, part in enumerate(parts):
        shape = [1] * 2 * rank
        shape[k], shape[rank + k] = part.shape
        whole = whole & part.reshape(shape)
    return whole


class _Layout:
    """What a layer's config and input make of its arrays."""

    def __init__(self, call: LayerCall, x: Value, rank: int) -> None:
        c = call.config
        self.call, self.rank, self.first = call, rank, c.get("data_format") == "channels_first"
        self.window = several(call, c.get("kernel_size"), rank, "kernel_size")
        self.strides = several(call, c.get("strides", 1), rank, "strides")
        self.kernel, self.bias = call.weights["kernel"], call.weights.get("bias")
        self.filters = several(call, c.get("filters"), 1, "filters")[0]
        if len(x.shape) != rank + 1:
            raise ShapeError(f"layer {call.name!r}: takes {rank + 1} axes a sample, got {list(x.shape)}")
        self.sizes = x.shape[1:] if self.first else x.shape[:-1]
        channels = x.shape[0] if self.first else x.shape[-1]
        if channels is None:
            raise ShapeError(f"layer {call.name!r}: the number of channels is unknown")
        self.channels = channels

    def axes(self) -> list[_Axis]:
        """The axes of an input whose size is known."""
        same = self.call.config.get("padding", "valid") == "same"
        made = []
        for n, k, s in zip(self.sizes, self.window, self.strides):
            if n is None:
                self.call.refuse("an input whose size the file doesn't say")
            if n < (1 if same else k):
                raise ShapeError(f"layer {self.call.name!r}: a window of {k} for an axis of size {n}")
            made.append(_Axis(n, k, s, same))
        return made

    def wrong(self, needed: Sequence[int]) -> ShapeError:
        return ShapeError(f"layer {self.call.name!r}: the kernel has shape {list(self.kernel.shape)}; {list(needed)} is needed")

    def places(self) -> tuple[int, ...]:
        """The numbers of windows along each axis, from the input's size or else from the arrays."""
        if None not in self.sizes:
            return tuple(a.places for a in self.axes())
        if self.bias is not None:
            return self.bias.shape[:-1]
        return self.kernel.shape[:1] if self.rank == 1 else tuple(a.places for a in self.axes())

    def by_place(self) -> LocallyConnected:
        """Implementation 1: (places, window · channels, filters), the channels first where the layer's are."""
        places, depth = self.places(), int(np.prod(self.window)) * self.channels
        needed = (int(np.prod(places)), depth, self.filters)
        if self.kernel.shape != needed:
            raise self.wrong(needed)
        kernel = self.kernel
        if self.first:
            kernel = kernel.reshape(needed[0], self.channels, -1, self.filters).swapaxes(1, 2)
        return self.op(kernel, places, self.window, ((0, 0),) * self.rank)

    def by_link(self) -> LocallyConnected:
        """Implementation 3: one number a link, sorted by the flat index of the result, then of the input."""
        axes = self.axes()
        places, window = tuple(a.places for a in axes), tuple(a.window for a in axes)
        count = int(np.prod(places, dtype=object)) * self.filters * self.channels  # each place has a link to itself at least
        if self.kernel.ndim != 1 or count > self.kernel.size:
            raise self.wrong([count])
        met = _together([a.met() for a in axes]).reshape(count // (self.filters * self.channels), -1)
        if int(met.sum()) * self.filters * self.channels != self.kernel.size:
            raise self.wrong([int(met.sum()) * self.filters * self.channels])
        n, taps = met.shape
        if self.first:
            shape, known = (self.filters, n, self.channels, taps), met[None, :, None, :]
        else:
            shape, known = (n, self.filters, taps, self.channels), met[:, None, :, None]
        kernel = np.zeros(shape, self.kernel.dtype)
        kernel[np.broadcast_to(known, shape)] = self.kernel
        kernel = kernel.transpose(1, 3, 2, 0) if self.first else kernel.transpose(0, 2, 3, 1)
        return self.op(kernel, places, window, tuple((a.before, a.after) for a in axes))

    def op(self, kernel: Array, places: tuple[int, ...], window: tuple[int, ...], padding: Pairs) -> LocallyConnected:
        kernel = np.ascontiguousarray(kernel.reshape(*places, -1, self.filters))
        bias = self.checked_bias(places)
        if bias is not None and self.first:  # Keras reads the bias's numbers as (filters, *places) then
            bias = np.ascontiguousarray(np.moveaxis(bias.reshape(self.filters, *places), 0, -1))
        return LocallyConnected(kernel, bias, window, self.strides, padding)

    def checked_bias(self, places: tuple[int, ...]) -> Array | None:
        if self.bias is not None and self.bias.shape != (*places, self.filters):
            raise ShapeError(
                f"layer {self.call.name!r}: the bias has shape {list(self.bias.shape)}; {[*places, self.filters]} is needed"
            )
        return self.bias

    def by_matrix(self, x: Value) -> Value:
        """Implementation 2: a weight for each pair of entries, of which only links count; as a matrix product, so that NaN and
        inf spread as they do in Keras."""
        if None in self.sizes and self.kernel.ndim == 2 * self.rank + 2:
            self.sizes = self.kernel.shape[1 : self.rank + 1] if self.first else self.kernel.shape[: self.rank]
        axes = self.axes()
        places, sizes = tuple(a.places for a in axes), tuple(a.n for a in axes)
        taken, given = ((self.channels, *sizes), (self.filters, *places))
        if not self.first:
            taken, given = (*sizes, self.channels), (*places, self.filters)
        if self.kernel.shape != (*taken, *given):
            raise self.wrong((*taken, *given))
        links, k = _together([a.links() for a in axes]), 0 if self.first else self.rank
        mask = np.expand_dims(links, (k, self.rank + 1 + k))
        kernel = (self.kernel * mask.astype(self.kernel.dtype)).reshape(int(np.prod(taken)), -1)
        bias = self.checked_bias(places)
        flat = reshaped(self.call, x, (len(kernel),))
        y = self.call.emit(Dense(kernel, None if bias is None else bias.reshape(-1)), flat)
        return reshaped(self.call, y, given)


def _local(rank: int) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Keras 1 and 2: all implementations, strides, both data formats."""
        x = as_float(call, x)
        layout = _Layout(call, x, rank)
        implementation = call.config.get("implementation", 1)
        if implementation == 2:
            return activate(call, call.config.get("activation"), layout.by_matrix(x))
        op = layout.by_place() if implementation == 1 else layout.by_link()
        return activated(call, call.emit(op, channels_last(call, x, rank)))

    return lower


def _check(rank: int) -> Callable[[Config], list[str]]:
    def check(config: Config) -> list[str]:
        found = list(check_conv(rank)(config))
        kind = config.get("implementation", 1)
        if kind not in (1, 2, 3):
            found.append(f"option implementation={kind!r} (supported: 1, 2, 3)")
        elif kind == 1 and config.get("padding", "valid") == "same":
            found.append("option padding='same' with implementation=1, which no Keras has")
        return found

    return check


def _input_shape(rank: int) -> Callable[[Config, Mapping[str, Array]], Shape | None]:
    """Any size and the channels that the kernel tells, of implementation 1; lowering finds the number of places."""

    def shape(config: Config, weights: Mapping[str, Array]) -> Shape | None:
        kernel, size = weights.get("kernel"), config.get("kernel_size")
        window = tuple(size) if isinstance(size, (list, tuple)) else (size,) * rank
        places = math.prod(n if isinstance(n, int) else 0 for n in window)
        if kernel is None or kernel.ndim != 3 or places < 1:
            return None
        channels, free = kernel.shape[1] // places, (None,) * rank
        return (channels, *free) if config.get("data_format") == "channels_first" else (*free, channels)

    return shape


for _rank in (1, 2):
    layer(
        f"LocallyConnected{_rank}D",
        variables=biased("kernel"),
        mask="stop",
        check=_check(_rank),
        input_shape=_input_shape(_rank),
    )(_local(_rank))
