"""Convolutions: Conv1D to 3D, depthwise and separable ones, all one op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Shape, Spec, Streamed
from npinfer.ops.activations import NAMED, Activation, activate, activation_variables, check_activation
from npinfer.ops.cast import as_float
from npinfer.ops.registry import LayerCall, Value, Variable, layer, operation
from npinfer.ops.windows import Padding, as_asked, channels_last, padded, pairs_of, several, window_count, windows

if TYPE_CHECKING:
    from npinfer.readers.archive import Config

#: Patches are copied in blocks of about this many bytes, so that they stay in the cache between the copy and the product.
BLOCK = 1 << 18


class Conv(Op):
    """y = activation(cross-correlation of x with kernel + bias), channels last.

    x: (n, *sizes, channels); kernel: (*window, channels / groups, filters); bias: (filters,) or None. padding: "valid",
    "same" (TensorFlow's: found from the sizes at each call), "causal", or (before, after) for each spatial axis. Group g reads
    the g-th part of the channels and gives the g-th part of the filters; groups = channels is the depthwise convolution.
    """

    linear: ClassVar[bool] = True

    kernel: Array
    bias: Array | None = None
    strides: tuple[int, ...] = ()
    padding: Padding = "valid"
    dilation: tuple[int, ...] = ()
    groups: int = 1
    activation: Activation | None = None

    @property
    def window(self) -> tuple[int, ...]:
        return self.kernel.shape[:-2]

    def infer(self, x: Spec) -> Spec:
        rank = self.kernel.ndim - 2
        if rank < 1 or not rank == len(self.strides) == len(self.dilation) or not self.kernel.size:
            raise ShapeError(f"the kernel has shape {self.kernel.shape}; it must be (*window, channels / groups, filters)")
        *sizes, channels = x.shape if len(x.shape) == rank + 1 else (None,)
        filters = self.kernel.shape[-1]
        if len(sizes) != rank or channels != self.kernel.shape[-2] * self.groups:
            raise ShapeError(
                f"the kernel {self.kernel.shape} in {self.groups} group(s) takes {rank} spatial axes and "
                f"{self.kernel.shape[-2] * self.groups} channels, the input has {list(x.shape)} a sample"
            )
        if filters % self.groups or (self.bias is not None and self.bias.shape != (filters,)):
            raise ShapeError(f"{filters} filters don't fit {self.groups} groups and the bias")
        return Spec((*window_count(self.padding, sizes, self.window, self.strides, self.dilation), filters), x.dtype)

    def __call__(self, x: Array) -> Array:
        _, *sizes, channels = x.shape
        window, strides, steps = self.window, self.strides, self.dilation
        counts = [c or 0 for c in window_count(self.padding, sizes, window, strides, steps)]
        x = padded(x, pairs_of(self.padding, sizes, window, strides, steps))
        if self.groups == 1:
            y = self._dense(x, counts)
        elif self.groups == channels:
            y = self._depthwise(x, counts)
        else:
            y = self._grouped(x, counts)
        if self.bias is not None:
            y += self.bias
        return y if self.activation is None else self.activation(y)

    def time_inputs(self) -> tuple[int, ...]:
        reach = (self.window[0] - 1) * self.dilation[0]
        return (0,) if self.padding == "causal" or (reach and self.padding == ((reach, 0),)) else ()

    def stream(self, x: Spec) -> Streamed:
        from npinfer.ops.causal import stream_conv

        return stream_conv(self, x)

    def _dense(self, x: Array, counts: list[int]) -> Array:
        """Patches times the kernel as a matrix, a block of patches at a time."""
        n, channels = len(x), x.shape[-1]
        window, filters = self.window, self.kernel.shape[-1]
        kernel = self.kernel.reshape(-1, filters)
        y = np.empty((n, *counts, filters), x.dtype)
        if max(window) == 1:
            x = x[(slice(None), *(slice(None, None, s) for s in self.strides))] if max(self.strides) > 1 else x
            np.matmul(x.reshape(-1, channels), kernel, out=y.reshape(-1, filters))
            return y
        view = windows(x, counts, window, self.strides, self.dilation)
        depth, across = len(kernel), self.across(channels, counts[-1])
        for samples, rows in blocks(n, counts, depth * x.itemsize, kernel.nbytes):
            part, out = view[samples, rows], y[samples, rows].reshape(-1, filters)
            if across:
                axes = 1 + len(counts)
                np.matmul(part.transpose(*range(axes, part.ndim), *range(axes)).reshape(depth, -1).T, kernel, out=out)
            else:
                np.matmul(part.reshape(-1, depth), kernel, out=out)
        return y

    def across(self, channels: int, width: int) -> bool:
        """Whether patches are better copied entry by entry than patch by patch: a few channels make the runs of memory within
        a patch short, while one entry of all patches in an output row is a run of `width`."""
        return 4 * channels * (self.window[-1] if self.dilation[-1] == 1 else 1) < width

    def _depthwise(self, x: Array, counts: Sequence[int]) -> Array:
        times = self.kernel.shape[-1] // x.shape[-1]
        if times > 1:
            x = x.repeat(times, axis=-1)
        subscripts, view, kernel = self.depthwise_sum(x, counts)
        return np.asarray(np.einsum(subscripts, view, kernel)).reshape(len(x), *counts, x.shape[-1])

    def depthwise_sum(self, x: Array, counts: Sequence[int]) -> tuple[str, Array, Array]:
        """The depthwise convolution of a padded x, one filter a channel, as an einsum over a view of x. Where windows move by
        single pixels and channels are few, it runs along whole output rows, which are long runs of memory."""
        view, kernel, channels = (
            windows(x, counts, self.window, self.strides, self.dilation),
            self.kernel[..., 0, :],
            x.shape[-1],
        )
        spatial, taps = "abc"[: len(counts)], "xyz"[: len(counts)]
        if self.strides[-1] == 1 and channels <= 256:
            shape = (len(x), *counts[:-1], *self.window, counts[-1] * channels)
            strides = (*view.strides[: len(counts)], *view.strides[len(counts) + 1 :])
            view = np.ndarray(shape, x.dtype, x, 0, strides)
            kernel, spatial = np.tile(kernel, (*(1,) * len(counts), counts[-1])), spatial[:-1]
        return f"n{spatial}{taps}k,{taps}k->n{spatial}k", view, kernel

    def _grouped(self, x: Array, counts: list[int]) -> Array:
        groups, filters = self.groups, self.kernel.shape[-1]
        view = windows(x, counts, self.window, self.strides, self.dilation)
        parts = np.moveaxis(
            view.reshape(*view.shape[:-1], groups, x.shape[-1] // groups), -2, 0
        )  # splitting an axis copies nothing
        parts = parts.reshape(groups, len(x) * int(np.prod(counts)), self.kernel[..., 0].size)
        kernel = self.kernel.reshape(-1, groups, filters // groups).swapaxes(0, 1)
        return np.asarray(np.matmul(parts, kernel)).swapaxes(0, 1).reshape(len(x), *counts, filters)


def blocks(n: int, counts: Sequence[int], patch: int, kernel: int) -> Iterator[tuple[slice, slice]]:
    """Cut (n, *counts) patches of `patch` bytes into blocks of about BLOCK bytes, or the kernel's size where that is more, so
    that reading the kernel pays: slices of the samples and of the first spatial axis."""
    row = max(1, int(np.prod(counts[1:])) * patch)
    rows = max(1, max(BLOCK, kernel) // row)
    step = max(1, rows // max(1, counts[0]))
    for i in range(0, n, step):
        for r in range(0, counts[0], counts[0] if rows >= counts[0] else rows):
            yield slice(i, i + step), slice(r, r + rows)


PADDINGS = ("valid", "same", "causal")


def check_conv(rank: int, allowed: tuple[str, ...] = PADDINGS[:2]) -> Callable[[Config], Iterable[str]]:
    """The options of a convolution that can't be computed."""

    def check(config: Config) -> Iterable[str]:
        padding = config.get("padding", "valid")
        if padding not in allowed:
            yield f"option padding={padding!r}"
        if config.get("data_format") not in (None, "channels_last", "channels_first"):
            yield f"option data_format={config['data_format']!r}"
        yield from check_activation(config)

    return check


def conv_shape(rank: int, weight: str) -> Callable[[Config, Mapping[str, Array]], Shape | None]:
    """The input shape that a kernel tells: any sizes, its channels."""

    def shape(config: Config, weights: Mapping[str, Array]) -> Shape | None:
        kernel = weights.get(weight)
        if kernel is None or kernel.ndim != rank + 2:
            return None
        groups = config.get("groups", 1) if isinstance(config.get("groups", 1), int) else 1
        channels = kernel.shape[-2] * groups
        free = (None,) * rank
        return (channels, *free) if config.get("data_format") == "channels_first" else (*free, channels)

    return shape


def biased(*names: str) -> Callable[[Config], list[str | Variable]]:
    """A layer's variables: these, a bias unless it has none, and its activation's."""
    return lambda config: [*names, *(["bias"] if config.get("use_bias", True) else []), *activation_variables(config)]


def convolve(call: LayerCall, x: Value, rank: int, kernel: Array, bias: Array | None, groups: int) -> Value:
    """A Conv with the layer's strides, padding and dilation; x is channels-last."""
    strides = several(call, call.config.get("strides", 1), rank, "strides")
    dilation = several(call, call.config.get("dilation_rate", 1), rank, "dilation_rate")
    x = as_float(call, x)
    padding: Padding = call.config.get("padding", "valid")
    if padding == "same" and call.version.backend == "theano":
        padding = _theano_same(call, x.shape[:-1], kernel.shape, strides, dilation)
    return call.emit(Conv(kernel, bias, strides, padding, dilation, groups), x)


def _theano_same(call: LayerCall, sizes: Shape, kernel: Shape, strides: Shape, dilation: Shape) -> tuple[tuple[int, int], ...]:
    """Keras on Theano always let half of the kernel stand before the first element; TensorFlow depends on size and strides."""
    pairs = []
    for n, k, stride, step in zip(sizes, kernel, strides, dilation):
        reach = ((k or 1) - 1) * (step or 1) + 1
        if n is None and stride != 1:
            call.refuse("padding='same' of Keras on Theano with strides and a size that is unknown")
        last = 0 if n is None else (-(-n // (stride or 1)) - 1) * (stride or 1) - n + 1
        pairs.append((reach // 2, max(last + reach - 1 - reach // 2, 0)))
    return tuple(pairs)


def activated(call: LayerCall, y: Value) -> Value:
    """The layer's activation of a channels-last result, which is then put in the layer's data_format. An activation along an
    axis (softmax) takes the last one of that format; an elementwise one goes first, so that it can be fused."""
    entry = call.config.get("activation")
    if call.config.get("data_format") != "channels_first" or not (isinstance(entry, str) and entry in NAMED):
        return activate(call, entry, as_asked(call, y))
    return as_asked(call, activate(call, entry, y))


def _check_window(call: LayerCall, rank: int, kernel: Array) -> None:
    found = call.config.get("kernel_size")
    if found is not None and several(call, found, rank, "kernel_size") != kernel.shape[:rank]:
        raise ShapeError(f"layer {call.name!r}: kernel_size={found}, but the kernel has shape {list(kernel.shape)}")


def _conv(rank: int) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Strides, dilation, groups, all paddings, both data formats."""
        kernel = call.weights["kernel"]
        _check_window(call, rank, kernel)
        groups = several(call, call.config.get("groups") or 1, 1, "groups")[0]
        return activated(call, convolve(call, channels_last(call, x, rank), rank, kernel, call.weights.get("bias"), groups))

    return lower


def depthwise(call: LayerCall, x: Value, rank: int, kernel: Array, bias: Array | None) -> Value:
    """kernel: (*window, channels, multiplier); filter c·multiplier + m is the m-th of channel c."""
    _check_window(call, rank, kernel)
    if kernel.ndim != rank + 2:
        raise ShapeError(f"layer {call.name!r}: a depthwise kernel of shape {list(kernel.shape)}")
    flat = kernel.reshape(*kernel.shape[:rank], 1, -1)
    return convolve(call, channels_last(call, x, rank), rank, flat, bias, kernel.shape[-2])


def _depthwise(rank: int) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Strides, dilation, depth multiplier, both data formats."""
        return activated(call, depthwise(call, x, rank, call.weights["kernel"], call.weights.get("bias")))

    return lower


def _separable(rank: int) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Strides, dilation, depth multiplier, both data formats."""
        middle = depthwise(call, x, rank, call.weights["depthwise_kernel"], None)
        ones = (1,) * rank
        y = call.emit(Conv(call.weights["pointwise_kernel"], call.weights.get("bias"), ones, "valid", ones), middle)
        return activated(call, y)

    return lower


for _rank in (1, 2, 3):
    _paddings = PADDINGS if _rank == 1 else PADDINGS[:2]
    layer(
        f"Conv{_rank}D",
        variables=biased("kernel"),
        mask="stop",
        check=check_conv(_rank, _paddings),
        input_shape=conv_shape(_rank, "kernel"),
    )(_conv(_rank))
    if _rank == 3:
        continue
    layer(
        f"DepthwiseConv{_rank}D",
        variables=biased("kernel"),
        mask="stop",
        check=check_conv(_rank),
        input_shape=conv_shape(_rank, "kernel"),
    )(_depthwise(_rank))
    layer(
        f"SeparableConv{_rank}D",
        variables=biased("depthwise_kernel", "pointwise_kernel"),
        mask="stop",
        check=check_conv(_rank, _paddings),
        input_shape=conv_shape(_rank, "depthwise_kernel"),
    )(_separable(_rank))


def constant_kernel(call: LayerCall, kernel: object, name: str = "kernel") -> Array:
    found = call.take(name, kernel)
    if isinstance(found, Value) or found is None:
        call.refuse("a kernel that is a tensor of the model")
    return np.asarray(found, call.dtype)


@operation("Conv", "DepthwiseConv", "SeparableConv")
def conv_operation(call: LayerCall, x: Value, kernel: object = None, pointwise: object = None) -> Value:
    """keras.ops.conv, depthwise_conv and separable_conv with constant kernels."""
    separable = call.layer.class_name == "SeparableConv"
    array = constant_kernel(call, kernel, "depthwise_kernel" if separable else "kernel")
    rank = array.ndim - 2
    padding = call.config.get("padding", "valid")
    if padding not in PADDINGS[:2] and not (isinstance(padding, tuple) and len(padding) == rank):
        call.refuse(f"option padding={padding!r}")
    if call.layer.class_name == "DepthwiseConv":
        return as_asked(call, depthwise(call, x, rank, array, None))
    if separable:
        middle = depthwise(call, x, rank, array, None)
        points, ones = constant_kernel(call, pointwise, "pointwise_kernel"), (1,) * rank
        return as_asked(call, call.emit(Conv(points, None, ones, "valid", ones), middle))
    x = channels_last(call, x, rank)
    groups = (x.shape[-1] or 0) // max(array.shape[-2], 1)
    return as_asked(call, convolve(call, x, rank, array, None, groups))
