"""Picking parts of arrays: indices, slices, splits, rows of tables."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec, Streamed
from npinfer.ops.operands import dtype_named
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.shapes import agree, sample_axes, sample_axis
from npinfer.ops.sizes import Size, Sizes, entries, shape_of

WHOLE = object()  # the size of the axis, as a bound


class GetItem(Op):
    """x[:, *key] with whole numbers, slices, None (a new axis) and at most one Ellipsis, as NumPy reads them."""

    key: tuple[Any, ...]

    def infer(self, x: Spec) -> Spec:
        taken = sum(k is not None and k is not Ellipsis for k in self.key)
        if taken > len(x.shape) or self.key.count(Ellipsis) > 1:
            raise ShapeError(f"the index {self.key} doesn't fit {len(x.shape)} axes a sample")
        left, shape = list(x.shape), list[int | None]()
        for k in self.key:
            if k is None:
                shape.append(1)
            elif k is Ellipsis:
                shape.extend(left.pop(0) for _ in range(len(x.shape) - taken))
            elif isinstance(k, slice):
                n = left.pop(0)
                whole = k.start is None and k.stop is None and k.step in (None, 1, -1)
                shape.append(n if whole else None if n is None else len(range(*k.indices(n))))
            else:
                n = left.pop(0)
                if n is not None and not -n <= k < n:
                    raise ShapeError(f"index {k} is outside an axis of size {n}")
        return Spec((*shape, *left), x.dtype)

    def __call__(self, x: Array) -> Array:
        return x[(slice(None), *self.key)]

    def stream(self, _: Spec) -> Streamed | None:
        return Streamed(GetItem(self.key[1:])) if self.key[:1] == (slice(None),) else None


class Take(Op):
    """Entries `indices` along one axis of each sample; the axis gives way to the axes of indices."""

    indices: Array
    axis: int

    def infer(self, x: Spec) -> Spec:
        n = x.shape[self.axis]
        if n is not None and self.indices.size and not -n <= self.indices.min() <= self.indices.max() < n:
            raise ShapeError(f"indices {self.indices.min()} … {self.indices.max()} go beyond an axis of size {n}")
        return Spec((*x.shape[: self.axis], *self.indices.shape, *x.shape[self.axis + 1 :]), x.dtype)

    def __call__(self, x: Array) -> Array:
        return x.take(self.indices, axis=self.axis + 1)


class TakeRows(Op):
    """table[i] for every whole number i of the input: shape (*x.shape, *table.shape[1:]). Negative ones count from the end."""

    table: Array

    def infer(self, x: Spec) -> Spec:
        if x.dtype.kind not in "iu":
            raise ShapeError(f"indices must be whole numbers, not {x.dtype}")
        return Spec((*x.shape, *self.table.shape[1:]), self.table.dtype)

    def __call__(self, x: Array) -> Array:
        return np.asarray(self.table[x])


class TakeAlongAxis(Op):
    """np.take_along_axis(x, indices) along one axis of each sample."""

    axis: int

    def infer(self, x: Spec, indices: Spec) -> Spec:
        if len(x.shape) != len(indices.shape) or indices.dtype.kind not in "iu":
            raise ShapeError(f"indices {indices.dtype}{list(indices.shape)} don't fit {list(x.shape)}")
        sizes = zip(x.shape, indices.shape)
        return Spec(tuple(i if k == self.axis else agree(n, i) for k, (n, i) in enumerate(sizes)), x.dtype)

    def __call__(self, x: Array, indices: Array) -> Array:
        return np.take_along_axis(x, indices, axis=self.axis + 1)


class OneHot(Op):
    """1 where a new axis of size `classes` (before sample axis `axis`) equals the whole number given, else 0."""

    classes: int
    axis: int
    dtype: np.dtype[Any]

    def infer(self, x: Spec) -> Spec:
        return Spec((*x.shape[: self.axis], self.classes, *x.shape[self.axis :]), self.dtype)

    def __call__(self, x: Array) -> Array:
        classes = np.arange(self.classes).reshape(-1, *(1,) * (x.ndim - 1 - self.axis))
        return np.asarray(np.expand_dims(x, self.axis + 1) == classes, self.dtype)


@operation("GetItem", takes=("sizes",))
def get_item(call: LayerCall, x: Value, key: Any) -> Value:
    """x[key], where key counts the batch axis: it must leave that axis alone."""
    several = [_without_sizes(call, x, k, at) for at, k in enumerate(key if isinstance(key, (list, tuple)) else [key])]
    if Ellipsis in [k for k in several if not isinstance(k, np.ndarray)]:
        at = next(k for k, item in enumerate(several) if item is Ellipsis)
        taken = sum(k is not None for k in several) - 1
        several[at : at + 1] = [slice(None)] * max(len(x.shape) + 1 - taken, 0)
    first = several[0] if several else None
    if not isinstance(first, slice) or first.start or first.stop is not None or first.step not in (None, 1):
        call.refuse(f"the index {key!r} touches the batch axis; npinfer never mixes samples")
    key_of_sample = tuple(several[1:])
    if not all(k is None or isinstance(k, slice) or (isinstance(k, int) and not isinstance(k, bool)) for k in key_of_sample):
        call.refuse(f"the index {key!r}; whole numbers, slices and None are supported")
    return call.emit(GetItem(key_of_sample), x)


def _without_sizes(call: LayerCall, x: Value, key: Any, at: int) -> Any:
    """An index whose bounds are the size of the axis itself, or a number less: as None, or as a number from the end."""
    if isinstance(key, slice):
        start, stop, step = (_without_sizes(call, x, n, at) for n in (key.start, key.stop, key.step))
        if start is WHOLE or step is WHOLE or (stop is WHOLE and step is not None and step < 0):
            call.refuse("a slice that starts behind the last entry of an axis whose size is unknown")
        return slice(start, None if stop is WHOLE else stop, step)
    size = key.array.item() if isinstance(key, Sizes) and not key.array.ndim else key
    if not isinstance(size, Size):
        return key
    whole = shape_of(x).array[at] if at <= len(x.shape) else None
    if size.same(whole):
        return WHOLE
    less = size.operands[1] if size.kind == "subtract" and size.operands[0].same(whole) else None
    if not isinstance(less, int) or less < 1:
        call.refuse("an index by a size that is unknown")
    return -less


def strided_key(call: LayerCall, args: Sequence[Any]) -> list[Any]:
    """TensorFlow's begin, end, strides and masks as the key of Python's x[key]."""
    given = [call.setting(n) if len(args) <= k else args[k] for k, n in enumerate(("begin", "end", "strides"))]
    begin, end = entries(call, given[0]), entries(call, given[1])
    steps = [1] * len(begin) if given[2] is None else entries(call, given[2])
    masks = {n: int(call.config.get(f"{n}_mask", 0)) for n in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    key = list[Any]()
    for k, (a, b, step) in enumerate(zip(begin, end, steps)):
        on = {n for n, mask in masks.items() if mask >> k & 1}
        bounds = (None if "begin" in on else a, None if "end" in on else b, step)
        key.append(... if "ellipsis" in on else None if "new_axis" in on else a if "shrink_axis" in on else slice(*bounds))
    return key


def part(call: LayerCall, x: Value, axis: int, at: Any) -> Value:
    """x[..., at, ...] at one sample axis."""
    return call.emit(GetItem((*(slice(None),) * axis, at)), x)


@operation("Split", "ArraySplit", "Hsplit")
def split(call: LayerCall, x: Value) -> list[Value]:
    sections = call.config["indices_or_sections"]
    found = {"Hsplit": 1, "Dsplit": 2}.get(call.layer.class_name, call.config.get("axis", 0))
    axis = sample_axis(call, found, len(x.shape) + 1)
    n = x.shape[axis]
    if isinstance(sections, int):
        if n is None or sections < 1:
            call.refuse(f"indices_or_sections={sections} along an axis of size {n}")
        if n % sections and call.layer.class_name != "ArraySplit":
            raise ShapeError(f"layer {call.name!r}: an axis of size {n} can't be split into {sections} equal parts")
        sizes = [n // sections + (k < n % sections) for k in range(sections)]
        cuts = np.cumsum(sizes)[:-1].tolist()
    else:
        cuts = [int(c) for c in sections]
    ends = [0, *cuts, None]
    return [part(call, x, axis, slice(a, b)) for a, b in itertools.pairwise(ends)]


@operation("Unstack")
def unstack(call: LayerCall, x: Value) -> list[Value]:
    axis = sample_axis(call, call.config.get("axis", 0), len(x.shape) + 1)
    n = x.shape[axis] if x.shape[axis] is not None else call.config.get("num")
    if n is None:
        call.refuse("unstacks an axis of unknown size")
    return [part(call, x, axis, k) for k in range(n)]


@operation("Flip")
def flip(call: LayerCall, x: Value) -> Value:
    axes = sample_axes(call, call.config.get("axis"), len(x.shape) + 1)
    key = [slice(None, None, -1 if k in axes else None) for k in range(len(x.shape))]
    return call.emit(GetItem(tuple(key)), x)


@operation("Fliplr")
def fliplr(call: LayerCall, x: Value) -> Value:
    return part(call, x, sample_axis(call, 1, len(x.shape) + 1), slice(None, None, -1))


@operation("Take")
def take(call: LayerCall, x: Any, indices: Any) -> Value:
    axis = call.config.get("axis")
    if isinstance(x, Value) and not isinstance(indices, Value):
        places = np.asarray(indices)
        if places.dtype.kind not in "iu":
            call.refuse(f"indices of dtype {places.dtype}")
        return call.emit(Take(places, sample_axis(call, axis, len(x.shape) + 1)), x)
    if isinstance(x, Value) or not isinstance(indices, Value):
        call.refuse("takes entries of one tensor at places from another; use take_along_axis")
    if axis not in (0, None) or (axis is None and np.ndim(x) != 1):
        call.refuse(f"axis={axis} of a constant; axis 0 is supported")
    table = np.asarray(x)
    if table.ndim < 1 or table.dtype.kind not in "fiub":
        call.refuse(f"takes entries of {x!r:.60}")
    table = table.astype(call.dtype) if table.dtype.kind == "f" else table
    return call.emit(TakeRows(table), indices)


@operation("TakeAlongAxis")
def take_along_axis(call: LayerCall, x: Any, indices: Any) -> Value:
    if not (isinstance(x, Value) and isinstance(indices, Value)):
        call.refuse("takes a constant; two tensors are supported")
    return call.emit(TakeAlongAxis(sample_axis(call, call.config.get("axis"), len(x.shape) + 1)), x, indices)


@operation("OneHot")
def one_hot(call: LayerCall, x: Value) -> Value:
    if call.config.get("sparse"):
        call.refuse("sparse=True")
    axis = sample_axis(call, call.config.get("axis", -1), len(x.shape) + 2)
    on, off = (call.config.get(n, k) for n, k in (("on_value", 1), ("off_value", 0)))
    dtype = dtype_named(call, call.config.get("dtype"))
    plain = (on, off) == (1, 0)
    y = call.emit(OneHot(int(call.setting("num_classes")), axis, dtype if plain else np.dtype(bool)), x)
    if plain:
        return y
    from npinfer.ops.arithmetic import Where

    return call.emit(Where(x1=np.asarray(on, dtype), x2=np.asarray(off, dtype)), y)
