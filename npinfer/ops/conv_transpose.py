"""Transposed convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Shape, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.cast import as_float
from npinfer.ops.conv import activated, biased, check_conv
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.windows import channels_last, several

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


class ConvTranspose(Op):
    """y = activation(what a convolution of y would have read from where x is + bias), channels last.

    x: (n, *sizes, channels); kernel: (*window, filters, channels). Each x[i] adds kernel·x[i] to the outputs from i·stride on.
    padding "valid" keeps all of them; "same" cuts the borders to sizes·stride as TensorFlow's gradient of a convolution does.
    output_padding, where given, fixes the size to (n - 1)·stride + window (same: + window mod 2) + output_padding.
    """

    kernel: Array
    bias: Array | None = None
    strides: tuple[int, ...] = ()
    padding: str = "valid"
    output_padding: tuple[int, ...] | None = None
    dilation: tuple[int, ...] = ()
    activation: Activation | None = None

    def spread(self, axis: int) -> int:
        """How many outputs one input reaches along an axis."""
        return (int(self.kernel.shape[axis]) - 1) * self.dilation[axis] + 1

    def sizes(self, given: Sequence[int | None]) -> list[int | None]:
        """The output's spatial sizes."""
        result: list[int | None] = []
        for axis, n in enumerate(given):
            k, s = self.spread(axis), self.strides[axis]
            if n is None:
                result.append(None)
            elif self.output_padding is not None:
                result.append((n - 1) * s + (k % 2 if self.padding == "same" else k) + self.output_padding[axis])
            else:
                result.append(n * s if self.padding == "same" else (n - 1) * s + max(k, s))
        return result

    def infer(self, x: Spec) -> Spec:
        rank = self.kernel.ndim - 2
        if rank < 1 or not rank == len(self.strides) == len(self.dilation) or not self.kernel.size:
            raise ShapeError(f"the kernel has shape {self.kernel.shape}; it must be (*window, filters, channels)")
        if len(x.shape) != rank + 1 or x.shape[-1] != self.kernel.shape[-1]:
            raise ShapeError(
                f"the kernel {self.kernel.shape} takes {rank} spatial axes and {self.kernel.shape[-1]} channels, "
                f"the input has {list(x.shape)} a sample"
            )
        filters = self.kernel.shape[-2]
        if self.bias is not None and self.bias.shape != (filters,):
            raise ShapeError(f"the bias has shape {self.bias.shape}; {filters} filters need ({filters},)")
        sizes = self.sizes(x.shape[:-1])
        for axis, (n, size) in enumerate(zip(x.shape, sizes)):
            # TensorFlow takes only sizes from which a convolution comes back to n
            k, s = self.spread(axis), self.strides[axis]
            back = size and n and (-(-size // s) if self.padding == "same" else (size - k) // s + 1)
            if size is not None and (size < 1 or back != n):
                raise ShapeError(f"output_padding={self.output_padding} doesn't go with strides {list(self.strides)}")
        return Spec((*sizes, filters), x.dtype)

    def __call__(self, x: Array) -> Array:
        n, *given, channels = x.shape
        window, filters, sizes = self.kernel.shape[:-2], self.kernel.shape[-2], [m or 0 for m in self.sizes(x.shape[1:-1])]
        taps = self.kernel[..., 0, 0].size
        parts = np.matmul(x.reshape(-1, channels), self.kernel.reshape(-1, channels).T).reshape(n, *given, taps, filters)
        cuts = [
            max((m - 1) * s + self.spread(axis) - size, 0) // 2 if self.padding == "same" else 0
            for axis, (m, s, size) in enumerate(zip(given, self.strides, sizes))
        ]
        full = [
            max((m - 1) * s + self.spread(axis), cut + size)
            for axis, (m, s, size, cut) in enumerate(zip(given, self.strides, sizes, cuts))
        ]
        y = np.zeros((n, *full, filters), x.dtype)
        for k, tap in enumerate(np.ndindex(*window)):
            starts = [t * d for t, d in zip(tap, self.dilation)]
            places = (slice(a, a + (m - 1) * s + 1, s) for a, m, s in zip(starts, given, self.strides))
            y[(slice(None), *places)] += parts[..., k, :]
        y = y[(slice(None), *(slice(cut, cut + size) for cut, size in zip(cuts, sizes)))]
        if self.bias is not None:
            y += self.bias
        return y if self.activation is None else self.activation(y)


def _input_shape(rank: int) -> Callable[[Config, Mapping[str, Array]], Shape | None]:
    def shape(config: Config, weights: Mapping[str, Array]) -> Shape | None:
        kernel = weights.get("kernel")
        if kernel is None or kernel.ndim != rank + 2:
            return None
        free = (None,) * rank
        first = config.get("data_format") == "channels_first"
        return (kernel.shape[-1], *free) if first else (*free, kernel.shape[-1])

    return shape


def _transpose(rank: int) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Strides, output_padding, dilation without strides, both data formats."""
        c = call.config
        strides = several(call, c.get("strides", 1), rank, "strides")
        dilation = several(call, c.get("dilation_rate", 1), rank, "dilation_rate")
        extra = c.get("output_padding")
        if extra is not None:
            extra = tuple(extra) if isinstance(extra, (list, tuple)) else (extra,) * rank
            if len(extra) != rank or not all(isinstance(n, int) and n >= 0 for n in extra):
                call.refuse(f"option output_padding={c['output_padding']!r}")
        if max(strides) > 1 and max(dilation) > 1:
            call.refuse("strides and dilation_rate both above 1")
        op = ConvTranspose(
            call.weights["kernel"], call.weights.get("bias"), strides, c.get("padding", "valid"), extra, dilation
        )
        return activated(call, call.emit(op, as_float(call, channels_last(call, x, rank))))

    return lower


for _rank in (1, 2, 3):
    layer(
        f"Conv{_rank}DTranspose",
        variables=biased("kernel"),
        mask="stop",
        check=check_conv(_rank),
        input_shape=_input_shape(_rank),
    )(_transpose(_rank))
