"""Reshaping: new shapes and orders of axes for the same elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Shape, Spec, Streamed
from npinfer.ops.indexing import GetItem
from npinfer.ops.registry import LayerCall, Value, layer, operation
from npinfer.ops.shapes import product, sample_axes, sample_axis

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


class Reshape(Op):
    """Give each sample another shape. shape: sizes, one of which may be -1 (whatever is left)."""

    shape: tuple[int, ...]

    def infer(self, x: Spec) -> Spec:
        free = self.shape.count(-1)
        if free > 1 or any(n < -1 for n in self.shape):
            raise ShapeError(f"the new shape {list(self.shape)} must hold sizes and at most one -1")
        total, known = product(x.shape), product(n for n in self.shape if n != -1)
        assert known is not None
        if total is None:
            given = product(n for n in x.shape if n is not None)
            if not free and known and given and known % given:
                raise ShapeError(f"{list(x.shape)} can't be reshaped to {list(self.shape)}")
            return Spec(tuple(None if n == -1 else n for n in self.shape), x.dtype)
        if (total % known if known else total) if free else total != known:
            raise ShapeError(f"{total} elements can't be reshaped to {list(self.shape)}")
        left = total // known if known else 0
        return Spec(tuple(left if n == -1 else n for n in self.shape), x.dtype)

    def __call__(self, x: Array) -> Array:
        if len(x):
            return x.reshape(len(x), *self.shape)
        spec = self.infer(Spec(x.shape[1:], x.dtype))  # an empty batch leaves -1 open to NumPy
        return x.reshape(0, *(n or 0 for n in spec.shape))

    def stream(self, x: Spec) -> Streamed | None:
        rest, sizes = self.shape[1:], x.shape[1:]
        kept = self.shape[:1] in ((-1,), x.shape[:1]) and -1 not in rest and product(rest) == product(sizes)
        return Streamed(Reshape(rest)) if kept else None


class Transpose(Op):
    """Reorder the axes of each sample: axis k of the result is axis axes[k] of x."""

    axes: tuple[int, ...]

    def infer(self, x: Spec) -> Spec:
        if sorted(self.axes) != list(range(len(x.shape))):
            raise ShapeError(f"the order of axes {list(self.axes)} doesn't fit {len(x.shape)} axes a sample")
        return Spec(tuple(x.shape[a] for a in self.axes), x.dtype)

    def __call__(self, x: Array) -> Array:
        return x.transpose(0, *(a + 1 for a in self.axes))

    def stream(self, _: Spec) -> Streamed | None:
        return Streamed(Transpose(tuple(a - 1 for a in self.axes[1:]))) if self.axes[0] == 0 else None


def reshaped(call: LayerCall, x: Value, shape: Shape) -> Value:
    """x in another shape of as many elements; a size that is unknown becomes -1."""
    return x if shape == x.shape else call.emit(Reshape(tuple(-1 if n is None else n for n in shape)), x)


def transposed(call: LayerCall, x: Value, axes: tuple[int, ...]) -> Value:
    """x with its axes reordered, or x itself where they stay."""
    return x if axes == tuple(range(len(axes))) else call.emit(Transpose(axes), x)


def expanded(call: LayerCall, x: Value, axis: int) -> Value:
    """x with a new axis of size 1 before sample axis `axis`."""
    if x.shape.count(None) > 1:
        return call.emit(GetItem((*(slice(None),) * axis, None)), x)
    return reshaped(call, x, (*x.shape[:axis], 1, *x.shape[axis:]))


def _data_format(config: Config) -> list[str]:
    found = config.get("data_format")
    return [] if found in (None, "channels_last", "channels_first") else [f"option data_format={found!r}"]


@layer("Flatten", mask="stop", check=_data_format)
def flatten(call: LayerCall, x: Value) -> Value:
    """Both data formats."""
    rank = len(x.shape)
    if call.config.get("data_format") == "channels_first" and rank > 1:
        x = transposed(call, x, (*range(1, rank), 0))
    return x if rank == 1 else call.emit(Reshape((-1,)), x)


@layer("Reshape", mask="stop")
def reshape(call: LayerCall, x: Value) -> Value:
    """One size may be -1."""
    target = call.config["target_shape"]
    return call.emit(Reshape(tuple(-1 if n is None else int(n) for n in target)), x)


@layer("Permute", mask="stop")
def permute(call: LayerCall, x: Value) -> Value:
    """Any order of the axes of a sample."""
    return transposed(call, x, tuple(int(d) - 1 for d in call.config["dims"]))


@operation("Transpose")
def transpose_operation(call: LayerCall, x: Value) -> Value:
    axes, rank = call.config.get("axes"), len(x.shape) + 1
    if axes is None:
        axes = tuple(range(rank))[::-1]
    if len(axes) != rank or axes[0] % rank:
        call.refuse(f"axes={list(axes)} moves the batch axis; npinfer never mixes samples")
    return transposed(call, x, tuple(sample_axis(call, a, rank, "axes") for a in axes[1:]))


@operation("Swapaxes")
def swapaxes(call: LayerCall, x: Value) -> Value:
    order = list(range(len(x.shape)))
    a, b = (sample_axis(call, call.config[k], len(order) + 1, k) for k in ("axis1", "axis2"))
    order[a], order[b] = order[b], order[a]
    return transposed(call, x, tuple(order))


@operation("Moveaxis")
def moveaxis(call: LayerCall, x: Value) -> Value:
    rank = len(x.shape)

    def places(name: str) -> list[int]:
        found = call.config[name]
        several = found if isinstance(found, (list, tuple)) else [found]
        return [sample_axis(call, a, rank + 1, name) for a in several]

    source, destination = places("source"), places("destination")
    left = iter(a for a in range(rank) if a not in source)
    where = dict(zip(destination, source))
    return transposed(call, x, tuple(where[k] if k in where else next(left) for k in range(rank)))


@operation("ExpandDims")
def expand_dims(call: LayerCall, x: Value) -> Value:
    axes = call.config.get("axis")
    several = axes if isinstance(axes, (list, tuple)) else [axes]
    for axis in sample_axes(call, axes, len(x.shape) + 1 + len(several)):
        x = expanded(call, x, axis)
    return x


@operation("Squeeze")
def squeeze(call: LayerCall, x: Value) -> Value:
    axes: Any = call.config.get("axis")
    if axes is None:
        if None in x.shape:
            call.refuse("axis=None with sizes that are unknown")
        gone = {k for k, n in enumerate(x.shape) if n == 1}
    else:
        gone = set(sample_axes(call, axes, len(x.shape) + 1))
    if any(x.shape[k] not in (1, None) for k in gone):
        raise ShapeError(f"layer {call.name!r}: axis={axes} of {list(x.shape)} a sample isn't of size 1")
    return call.emit(GetItem(tuple(0 if k in gone else slice(None) for k in range(len(x.shape)))), x) if gone else x
