"""Sliding windows over the spatial axes of channels-last arrays: what convolution and pooling share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array
from npinfer.ops.registry import LayerCall, Value
from npinfer.ops.reshape import transposed

Pairs = tuple[tuple[int, int], ...]
Padding = str | Pairs


def pairs_of(
    padding: Padding, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], steps: Sequence[int]
) -> Pairs:
    """(before, after) for each spatial axis. "same" is TensorFlow's rule: ceil(n / stride) windows, the odd one of the padding
    behind; "causal": all of it in front. steps: the dilation."""
    if not isinstance(padding, str):
        return padding
    if padding == "valid":
        return ((0, 0),) * len(sizes)
    if padding == "causal":
        return tuple(((k - 1) * d, 0) for k, d in zip(kernel, steps))
    totals = [max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, k, s, d in zip(sizes, kernel, strides, steps)]
    return tuple((t // 2, t - t // 2) for t in totals)


def window_count(
    padding: Padding, sizes: Sequence[int | None], kernel: Sequence[int], strides: Sequence[int], steps: Sequence[int]
) -> tuple[int | None, ...]:
    """How many windows fit along each axis; ShapeError where none does."""
    counts: list[int | None] = []
    for axis, (n, k, s, d) in enumerate(zip(sizes, kernel, strides, steps)):
        if n is None:
            counts.append(None)
            continue
        one = padding if isinstance(padding, str) else (padding[axis],)
        before, after = pairs_of(one, [n], [k], [s], [d])[0]
        count = (n + before + after - (k - 1) * d - 1) // s + 1
        if count < 1:
            raise ShapeError(f"spatial axis {axis} of size {n} is too short for a window of {(k - 1) * d + 1}")
        counts.append(count)
    return tuple(counts)


def padded(x: Array, pairs: Pairs, value: Any = 0) -> Array:
    """x, C-contiguous, with its spatial axes padded."""
    if not any(map(any, pairs)):
        return np.ascontiguousarray(x)
    sizes = x.shape[1:-1]
    y = np.full((len(x), *(n + a + b for n, (a, b) in zip(sizes, pairs)), x.shape[-1]), value, x.dtype)
    y[(slice(None), *(slice(a, a + n) for n, (a, _) in zip(sizes, pairs)))] = x
    return y


def windows(x: Array, counts: Sequence[int], kernel: Sequence[int], strides: Sequence[int], steps: Sequence[int]) -> Array:
    """A read-only view (n, *counts, *kernel, channels) of a C-contiguous x."""
    batch, *spatial, channel = x.strides
    view: Array = np.ndarray(
        (len(x), *counts, *kernel, x.shape[-1]),
        x.dtype,
        x,
        0,
        (batch, *(b * s for b, s in zip(spatial, strides)), *(b * d for b, d in zip(spatial, steps)), channel),
    )
    return view


def several(call: LayerCall, found: Any, rank: int, what: str) -> tuple[int, ...]:
    """A config's number or list of numbers, one for each spatial axis; all positive."""
    numbers = tuple(found) if isinstance(found, (list, tuple)) else (found,) * rank
    if len(numbers) != rank or not all(isinstance(n, int) and n > 0 for n in numbers):
        call.refuse(f"option {what}={found!r}; {rank} positive whole number(s) are needed")
    return numbers


def channels_last(call: LayerCall, x: Value, rank: int) -> Value:
    """x with its channels last, whatever the layer's data_format; checks the number of axes."""
    if len(x.shape) != rank + 1:
        raise ShapeError(f"layer {call.name!r}: takes {rank + 1} axes a sample, got {list(x.shape)}")
    return transposed(call, x, (*range(1, rank + 1), 0)) if call.config.get("data_format") == "channels_first" else x


def as_asked(call: LayerCall, y: Value) -> Value:
    """A channels-last result in the layer's data_format."""
    rank = len(y.shape) - 1
    return transposed(call, y, (rank, *range(rank))) if call.config.get("data_format") == "channels_first" else y
