"""Pooling: maxima and averages of windows, of whole images, and adaptive ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.indexing import GetItem
from npinfer.ops.registry import LayerCall, Value, layer, operation
from npinfer.ops.windows import Padding, as_asked, channels_last, padded, pairs_of, several, window_count

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


class Pool(Op):
    """The maximum or average of each window of the spatial axes, channels last. kind: "max" or "average".

    padding: "valid", "same" or pairs; what is padded takes no part (TensorFlow's average divides by what is left)."""

    kind: str
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding = "valid"

    def infer(self, x: Spec) -> Spec:
        if len(x.shape) != len(self.window) + 1:
            raise ShapeError(f"a window of {len(self.window)} axes on {list(x.shape)} a sample")
        ones = (1,) * len(self.window)
        return Spec((*window_count(self.padding, x.shape[:-1], self.window, self.strides, ones), x.shape[-1]), x.dtype)

    def __call__(self, x: Array) -> Array:
        sizes, ones = x.shape[1:-1], (1,) * len(self.window)
        counts = [c or 0 for c in window_count(self.padding, sizes, self.window, self.strides, ones)]
        pairs = pairs_of(self.padding, sizes, self.window, self.strides, ones)
        maximum = self.kind == "max"
        if any(map(any, pairs)):
            lowest = (-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min) if maximum else 0
            x = padded(x, pairs, lowest)
        combine = np.maximum if maximum else np.add
        for axis, (k, s, m) in enumerate(zip(self.window, self.strides, counts)):
            # windows are boxes: one axis after the other needs k₁ + k₂ steps instead of k₁·k₂
            before = (slice(None),) * (axis + 1)
            y = x[(*before, slice(0, (m - 1) * s + 1, s))]
            for t in range(1, k):
                part = x[(*before, slice(t, t + (m - 1) * s + 1, s))]
                y = combine(y, part, out=y) if t > 1 else combine(y, part)
            x = y
        if maximum:
            return x
        return x / self.shares(sizes, pairs, counts, x.dtype)

    def shares(self, sizes: tuple[int, ...], pairs: Any, counts: list[int], dtype: np.dtype[Any]) -> Array:
        """How many entries of each window are inside the image."""
        if not any(map(any, pairs)):
            return np.asarray(np.prod(self.window), dtype)
        share = np.ones((), dtype)
        for n, (a, _), k, s, m in zip(sizes, pairs, self.window, self.strides, counts):
            start = np.arange(m) * s - a
            share = share[..., None] * (np.minimum(start + k, n) - np.maximum(start, 0)).astype(dtype)
        return share[..., None]


class GlobalPool(Op):
    """The maximum or average over all spatial axes, channels last. With a second input, a mask (n, steps), the average is
    over the steps where it is True."""

    kind: str
    keepdims: bool = False

    def infer(self, x: Spec, *mask: Spec) -> Spec:
        if len(x.shape) < 2 or 0 in x.shape:
            raise ShapeError(f"nothing to pool in {list(x.shape)} a sample")
        if mask and (len(x.shape) != 2 or self.kind != "average"):
            raise ShapeError("only an average over steps takes a mask")
        return Spec((*(1,) * (len(x.shape) - 1 if self.keepdims else 0), x.shape[-1]), x.dtype)

    def __call__(self, x: Array, *mask: Array) -> Array:
        if self.kind == "max":
            y: Array = x.max(axis=tuple(range(1, x.ndim - 1)), keepdims=True)
        elif mask:
            kept = mask[0][..., None].astype(x.dtype)
            y = total(x * kept) / kept.sum(axis=1, keepdims=True)  # as Keras does it: NaN at a masked step stays
        else:
            y = total(x) / np.asarray(np.prod(x.shape[1:-1]), x.dtype)
        return y if self.keepdims else y.reshape(len(x), x.shape[-1])


def total(x: Array) -> Array:
    """Sums over the spatial axes (kept, with size 1), axis by axis and long axes in pieces: float32 sums of n entries one after
    another lose up to n roundings, these about 2·√n."""
    for axis in range(x.ndim - 2, 0, -1):
        if x.shape[axis] > 256:
            x = np.add.reduceat(x, range(0, x.shape[axis], 64), axis=axis)
        x = x.sum(axis=axis, keepdims=True)
    return x


class AdaptivePool(Op):
    """The maximum or average of `sizes` windows along each spatial axis: window i covers ⌊i·n/m⌋ … ⌈(i+1)·n/m⌉."""

    kind: str
    sizes: tuple[int, ...]

    def infer(self, x: Spec) -> Spec:
        if len(x.shape) != len(self.sizes) + 1 or 0 in x.shape:
            raise ShapeError(f"{len(self.sizes)} output sizes for {list(x.shape)} a sample")
        return Spec((*self.sizes, x.shape[-1]), x.dtype)

    def __call__(self, x: Array) -> Array:
        for axis, m in enumerate(self.sizes, 1):
            n = x.shape[axis]
            parts = [x[(*(slice(None),) * axis, slice(i * n // m, -(-(i + 1) * n // m)))] for i in range(m)]
            x = np.stack([p.max(axis=axis) if self.kind == "max" else p.mean(axis=axis) for p in parts], axis=axis)
        return x


def _check(config: Config) -> Iterable[str]:
    if config.get("padding", "valid") not in ("valid", "same"):
        yield f"option padding={config['padding']!r}"
    if config.get("data_format") not in (None, "channels_last", "channels_first"):
        yield f"option data_format={config['data_format']!r}"


def pooled(call: LayerCall, x: Value, rank: int, kind: str) -> Value:
    window = several(call, call.config["pool_size"], rank, "pool_size")
    found = call.config.get("strides")
    strides = window if found is None else several(call, found, rank, "strides")
    padding: Padding = call.config.get("padding", "valid")
    x = channels_last(call, x, rank)
    if padding == "same" and call.version.backend == "theano":
        return as_asked(call, _theano_same(call, x, kind, window, strides))
    return as_asked(call, call.emit(Pool(kind, window, strides, padding), x))


def _theano_same(call: LayerCall, x: Value, kind: str, window: tuple[int, ...], strides: tuple[int, ...]) -> Value:
    """Keras on Theano let the first window of an axis begin window - 2 places before the first element, or window - 1 where the
    window is even or 1, and cut the result to the length that TensorFlow's has."""
    pairs, counts = [], []
    for n, k, stride in zip(x.shape, window, strides):
        if n is None:
            call.refuse("padding='same' of Keras on Theano with a size that is unknown")
        before, count = k - 2 if k % 2 and k > 1 else k - 1, -(-n // stride)
        pairs.append((before, max((count - 1) * stride + k - n - before, 0)))
        counts.append(slice(0, count))
    return call.emit(GetItem(tuple(counts)), call.emit(Pool(kind, window, strides, tuple(pairs)), x))


def _pool(rank: int, kind: str) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Strides, both paddings, both data formats."""
        return pooled(call, x, rank, kind)

    return lower


def _global(rank: int, kind: str) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """With or without keepdims; the average over steps leaves masked ones out."""
        keepdims, given = bool(call.config.get("keepdims", False)), call.take("mask")
        mask = x.mask if given is None else given
        y = channels_last(call, x._replace(mask=None), rank)
        takes = mask is not None and kind == "average" and rank == 1
        y = call.emit(GlobalPool(kind, keepdims), y, mask) if takes else call.emit(GlobalPool(kind, keepdims), y)
        return as_asked(call, y) if keepdims else y

    return lower


def _adaptive(rank: int, kind: str) -> Callable[[LayerCall, Value], Value]:
    def lower(call: LayerCall, x: Value) -> Value:
        """Any output size."""
        sizes = several(call, call.config["output_size"], rank, "output_size")
        return as_asked(call, call.emit(AdaptivePool(kind, sizes), channels_last(call, x, rank)))

    return lower


for _kind, _word in (("max", "Max"), ("average", "Average")):
    for _rank in (1, 2, 3):
        layer(f"{_word}Pooling{_rank}D", mask="stop", check=_check)(_pool(_rank, _kind))
        layer(f"Global{_word}Pooling{_rank}D", mask="own", check=_check)(_global(_rank, _kind))
        layer(f"Adaptive{_word}Pooling{_rank}D", mask="stop", check=_check)(_adaptive(_rank, _kind))


@operation("MaxPool", "AveragePool")
def pool_operation(call: LayerCall, x: Value) -> Value:
    kind = "max" if call.layer.class_name == "MaxPool" else "average"
    for reason in _check(call.config):
        call.refuse(reason)
    return pooled(call, x, len(x.shape) - 1, kind)
