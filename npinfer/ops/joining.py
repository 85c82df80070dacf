"""Joining, repeating and padding arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec, Streamed
from npinfer.ops.operands import cast, dtype_named
from npinfer.ops.registry import LayerCall, Value, layer, operation
from npinfer.ops.reshape import expanded
from npinfer.ops.shapes import agree, promote, sample_axis


class Tile(Op):
    """Repeat each sample as a whole, repeats[k] times along axis k."""

    repeats: tuple[int, ...]

    def infer(self, x: Spec) -> Spec:
        if len(self.repeats) != len(x.shape) or min(self.repeats, default=0) < 0:
            raise ShapeError(f"repeats {list(self.repeats)} don't fit {len(x.shape)} axes a sample")
        return Spec(tuple(None if n is None else n * r for n, r in zip(x.shape, self.repeats)), x.dtype)

    def __call__(self, x: Array) -> Array:
        return np.tile(x, (1, *self.repeats))


class Repeat(Op):
    """Repeat each entry along an axis `times` times in a row."""

    times: int
    axis: int

    def infer(self, x: Spec) -> Spec:
        if self.times < 0:
            raise ShapeError(f"repeats={self.times}")
        return Spec(tuple(n * self.times if k == self.axis and n is not None else n for k, n in enumerate(x.shape)), x.dtype)

    def __call__(self, x: Array) -> Array:
        return x.repeat(self.times, axis=self.axis + 1)


class Roll(Op):
    """np.roll of each sample by shifts[k] along axes[k]."""

    shifts: tuple[int, ...]
    axes: tuple[int, ...]

    def infer(self, x: Spec) -> Spec:
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        return np.roll(x, self.shifts, tuple(a + 1 for a in self.axes))


class Concatenate(Op):
    """Join inputs of one dtype along one axis of each sample."""

    axis: int

    def infer(self, *xs: Spec) -> Spec:
        shape = list(xs[0].shape)
        for x in xs[1:]:
            if len(x.shape) != len(shape):
                raise ShapeError("the inputs must have as many axes as one another")
            for k, n in enumerate(x.shape):
                if k == self.axis:
                    before = shape[k]
                    shape[k] = None if n is None or before is None else before + n
                else:
                    shape[k] = agree(shape[k], n)
        return Spec(tuple(shape), promote(*(x.dtype for x in xs)))

    def __call__(self, *xs: Array) -> Array:
        return np.concatenate(xs, axis=self.axis + 1)

    def stream(self, *_: Spec) -> Streamed:
        if self.axis == 0:
            raise ShapeError("it joins sequences one behind the other")
        return Streamed(self.replace(axis=self.axis - 1))


class FullLike(Op):
    """An array of the input's shape filled with one number."""

    value: float
    dtype: np.dtype[Any]

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, self.dtype)

    def __call__(self, x: Array) -> Array:
        return np.full(x.shape, self.value, self.dtype)


class Pad(Op):
    """Pad each sample: widths[k] is (before, after) of axis k. mode: "constant" (with `value`), "reflect" or "symmetric"."""

    widths: tuple[tuple[int, int], ...]
    mode: str = "constant"
    value: float = 0.0

    def infer(self, x: Spec) -> Spec:
        if len(self.widths) != len(x.shape) or min((n for w in self.widths for n in w), default=0) < 0:
            raise ShapeError(f"padding {list(self.widths)} doesn't fit {len(x.shape)} axes a sample")
        less = {"reflect": 1, "symmetric": 0}.get(self.mode)
        for n, width in zip(x.shape, self.widths):
            if less is not None and n is not None and max(width) > n - less:
                raise ShapeError(f"{self.mode} padding {width} is wider than an axis of size {n} allows")
        return Spec(tuple(None if n is None else n + a + b for n, (a, b) in zip(x.shape, self.widths)), x.dtype)

    def __call__(self, x: Array) -> Array:
        if self.mode != "constant":
            return np.pad(x, ((0, 0), *self.widths), self.mode)  # type: ignore[call-overload, no-any-return]
        y = np.full((len(x), *(n + a + b for n, (a, b) in zip(x.shape[1:], self.widths))), self.value, x.dtype)
        y[(slice(None), *(slice(a, a + n) for n, (a, _) in zip(x.shape[1:], self.widths)))] = x
        return y


def joined(call: LayerCall, xs: list[Value], axis: int) -> Value:
    """xs in their common dtype, joined along a sample axis."""
    dtype = promote(*(x.spec.dtype for x in xs))
    return xs[0] if len(xs) == 1 else call.emit(Concatenate(axis), *(cast(call, x, dtype) for x in xs))


def _tensors(call: LayerCall, xs: Any) -> list[Value]:
    if not isinstance(xs, (list, tuple)) or not xs or not all(isinstance(x, Value) for x in xs):
        call.refuse("joins something other than a list of tensors")
    return list(xs)


@operation("Concatenate")
def concatenate(call: LayerCall, xs: Any) -> Value:
    values = _tensors(call, xs)
    return joined(call, values, sample_axis(call, call.config.get("axis", 0), len(values[0].shape) + 1))


@operation("Append")
def append(call: LayerCall, x1: Any, x2: Any) -> Value:
    values = _tensors(call, [x1, x2])
    return joined(call, values, sample_axis(call, call.config.get("axis"), len(values[0].shape) + 1))


@operation("Stack")
def stack(call: LayerCall, xs: Any) -> Value:
    values = _tensors(call, xs)
    axis = sample_axis(call, call.config.get("axis", 0), len(values[0].shape) + 2)
    return joined(call, [expanded(call, x, axis) for x in values], axis)


@operation("Hstack")
def hstack(call: LayerCall, xs: Any) -> Value:
    values = _tensors(call, xs)
    return joined(call, values, sample_axis(call, 1, len(values[0].shape) + 1))


@layer("RepeatVector", mask="stop")
def repeat_vector(call: LayerCall, x: Value) -> Value:
    """A vector a sample, any number of times."""
    if len(x.shape) != 1:
        raise ShapeError(f"layer {call.name!r}: takes a vector a sample, got {list(x.shape)}")
    return call.emit(Tile((int(call.config["n"]), 1)), expanded(call, x, 0))


@operation("Roll")
def roll(call: LayerCall, x: Value) -> Value:
    shift, axis = call.config["shift"], call.config.get("axis")
    axes = axis if isinstance(axis, (list, tuple)) else [axis]
    shifts = shift if isinstance(shift, (list, tuple)) else [shift] * len(axes)
    if axis is None or len(shifts) != len(axes):
        call.refuse(f"shift={shift!r} with axis={axis!r}")
    return call.emit(Roll(tuple(map(int, shifts)), tuple(sample_axis(call, a, len(x.shape) + 1) for a in axes)), x)


@operation("Pad")
def pad(call: LayerCall, x: Value, constant_values: Any = None) -> Value:
    widths, rank = call.config["pad_width"], len(x.shape) + 1
    value = call.setting("constant_values", constant_values)
    if not isinstance(value, (int, float, type(None))):
        call.refuse(f"constant_values={value!r}")
    mode = call.option("mode", "constant", "reflect", "symmetric", default="constant")
    array = np.broadcast_to(np.asarray(widths), (rank, 2)).tolist()
    if any(array[0]):
        call.refuse(f"pad_width={widths!r} pads the batch axis")
    return call.emit(Pad(tuple((int(a), int(b)) for a, b in array[1:]), mode, float(value or 0)), x)


@operation("ZerosLike", "OnesLike")
def filled(call: LayerCall, x: Value) -> Value:
    value = 0.0 if call.layer.class_name == "ZerosLike" else 1.0
    return call.emit(FullLike(value, dtype_named(call, call.config.get("dtype"), x.spec.dtype)), x)


@operation("FullLike")
def full_like(call: LayerCall, x: Value, fill_value: Any) -> Value:
    if not isinstance(fill_value, (int, float)):
        call.refuse("fill_value must be a number")
    return call.emit(FullLike(fill_value, dtype_named(call, call.config.get("dtype"), x.spec.dtype)), x)
