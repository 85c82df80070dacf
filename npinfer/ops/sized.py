"""Ops whose shapes follow other tensors: reshaping and repeating by sizes that only a call knows, constants for each sample.

The functions below emit them, or plainer ops where the sizes are known; sizes.py tells what Sizes are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.arithmetic import binary, unary
from npinfer.ops.joining import Tile
from npinfer.ops.operands import cast
from npinfer.ops.registry import LayerCall, Value
from npinfer.ops.reshape import Reshape
from npinfer.ops.sizes import BATCH, Size, Sizes, bounded, is_batch

INT32 = np.dtype("int32")


class SizeOf(Op):
    """The size of a sample axis as a number of `rank` axes of size 1 for each sample."""

    axis: int
    rank: int

    def infer(self, x: Spec) -> Spec:
        return Spec((1,) * self.rank, INT32)

    def __call__(self, x: Array) -> Array:
        return np.full((len(x), *(1,) * self.rank), x.shape[self.axis + 1], INT32)


class PerSample(Op):
    """The same array for every sample of an input, of which only the batch counts."""

    array: Array

    def infer(self, x: Spec) -> Spec:
        return Spec(self.array.shape, self.array.dtype)

    def __call__(self, x: Array) -> Array:
        return np.repeat(self.array[None], len(x), axis=0)


def _resolved(sizes: Sequence[Any], shapes: Sequence[Sequence[int | None]]) -> list[int | None]:
    """Sizes in which a pair (input, axis) stands for the size of that axis."""
    return [shapes[n[0]][n[1]] if isinstance(n, tuple) else n for n in sizes]


class SizedReshape(Op):
    """Reshape where a size may be a pair (k, axis): the size of that axis of the k-th further input."""

    sizes: tuple[Any, ...]

    def infer(self, x: Spec, *like: Spec) -> Spec:
        found = _resolved(self.sizes, [s.shape for s in like])
        if None in found:
            return Spec(tuple(None if n == -1 else n for n in found), x.dtype)
        return Reshape(tuple(n for n in found if n is not None)).infer(x)

    def __call__(self, x: Array, *like: Array) -> Array:
        sizes = _resolved(self.sizes, [a.shape[1:] for a in like])
        return Reshape(tuple(n for n in sizes if n is not None))(x)


class SizedTile(Op):
    """Tile where a number of repeats may be a pair (k, axis): the size of that axis of the k-th further input."""

    repeats: tuple[Any, ...]

    def infer(self, x: Spec, *like: Spec) -> Spec:
        found = _resolved(self.repeats, [s.shape for s in like])
        if len(found) != len(x.shape):
            raise ShapeError(f"repeats {list(self.repeats)} don't fit {len(x.shape)} axes a sample")
        return Spec(tuple(None if n is None or r is None else n * r for n, r in zip(x.shape, found)), x.dtype)

    def __call__(self, x: Array, *like: Array) -> Array:
        return Tile(tuple(n or 0 for n in _resolved(self.repeats, [a.shape[1:] for a in like])))(x)


def _read(call: LayerCall, sizes: Sequence[Any]) -> tuple[tuple[Any, ...], list[Value]]:
    """Sizes as pairs (input, axis), and those inputs. Refuses sizes that are more than the size of an axis."""
    made, like = list[Any](), list[Value]()
    for n in sizes:
        if isinstance(n, Size):
            if n.of_batch:
                call.refuse(BATCH)
            if n.kind != "axis":
                call.refuse("a size computed from sizes that are unknown, beside another")
            made.append((len(like), n.operands[1]))
            like.append(n.operands[0])
        else:
            made.append(n)
    return tuple(made), like


def reshaped_to(call: LayerCall, x: Value, sizes: Sequence[Any]) -> Value:
    """x with the sample shape `sizes` of numbers, -1 and Sizes. One that is unknown is whatever is left."""
    if any(isinstance(n, Size) and n.of_batch for n in sizes):
        call.refuse("the new shape moves the batch axis; npinfer never mixes samples")
    if sum(isinstance(n, Size) or n == -1 for n in sizes) <= 1:
        return call.emit(Reshape(tuple(-1 if isinstance(n, Size) else int(n) for n in sizes)), x)
    made, like = _read(call, sizes)
    return call.emit(SizedReshape(made), x, *like)


def tiled(call: LayerCall, x: Value, repeats: Sequence[Any]) -> Value:
    """x repeated along its sample axes."""
    if all(isinstance(n, (int, np.integer)) and n == 1 for n in repeats):
        return x
    made, like = _read(call, repeats)
    return call.emit(SizedTile(made), x, *like) if like else call.emit(Tile(tuple(map(int, made))), x)


def _spread(call: LayerCall, array: Array, target: Sequence[Any]) -> Value:
    """A constant broadcast to a shape whose first entry is the size of the batch."""
    batch = target[0].operands[0]
    shape = (1,) * (len(target) - array.ndim) + array.shape
    if len(shape) > len(target) or shape[0] != 1:
        call.refuse(f"a constant of shape {list(array.shape)} fixes the size of the batch")
    free = [n if isinstance(n, Size) else 1 for n in target[1:]]
    sizes = [m if isinstance(n, Size) else int(n) for n, m in zip(target[1:], shape[1:])]
    if any(isinstance(n, Size) and m != 1 for n, m in zip(target[1:], shape[1:])):
        call.refuse(f"a constant of shape {list(array.shape)} in a shape that is unknown")
    try:
        whole = np.broadcast_to(array.reshape(shape[1:]), sizes)
    except ValueError:
        raise ShapeError(f"layer {call.name!r}: a constant of shape {list(array.shape)} doesn't fit {sizes}") from None
    return tiled(call, call.emit(PerSample(np.ascontiguousarray(whole)), batch), free)


def filled(call: LayerCall, array: Array, target: Sequence[Any]) -> Value | Sizes:
    """A constant broadcast to a shape of numbers and Sizes."""
    bounded(call, *target)
    if not any(isinstance(n, Size) for n in target):
        return Sizes(np.ascontiguousarray(np.broadcast_to(array, target)))
    if not is_batch(target[0]):
        call.refuse("a constant whose shape is unknown and doesn't start with the size of the batch")
    return _spread(call, array, target)


def repeated(call: LayerCall, array: Array, repeats: list[Any]) -> Value | Sizes:
    """A constant tiled, by the size of the batch or by numbers."""
    array = array.reshape((1,) * (len(repeats) - array.ndim) + array.shape)
    repeats = [1] * (array.ndim - len(repeats)) + repeats
    bounded(call, array.size, *repeats)
    if not any(isinstance(n, Size) for n in repeats):
        return Sizes(np.tile(array, repeats))
    if not is_batch(repeats[0]) or array.shape[0] != 1:
        call.refuse("a constant repeated by a size that is unknown")
    if any(isinstance(n, Size) for n in repeats[1:]):
        sizes: list[Any] = [n if isinstance(n, Size) else n * m for n, m in zip(repeats[1:], array.shape[1:])]
        return _spread(call, array, [repeats[0], *sizes])
    whole = np.tile(array, (1, *repeats[1:]))
    return _spread(call, whole, [repeats[0], *whole.shape[1:]])


def measured(call: LayerCall, size: Any, rank: int) -> Any:
    """A size as a tensor of `rank` axes of size 1; numbers stay what they are."""
    if not isinstance(size, Size):
        return size
    if size.kind == "batch":
        call.refuse(BATCH)
    if size.kind == "axis":
        return call.emit(SizeOf(size.operands[1], rank), size.operands[0])
    if size.kind == "cast":
        return cast(call, measured(call, size.operands[0], rank), size.operands[1])
    parts = [measured(call, o, rank) for o in size.operands]
    return unary(call, size.kind, parts[0]) if len(parts) == 1 else binary(call, size.kind, *parts)
