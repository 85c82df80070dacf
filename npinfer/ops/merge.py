"""Keras's merge layers: Add, Average, Concatenate, Dot and their kin, with their mask rules of each version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce as fold
from typing import Any, ClassVar

import numpy as np

from npinfer.errors import DtypeError, ShapeError, shown
from npinfer.graph import Array, Op, Spec
from npinfer.ops.affine import Affine
from npinfer.ops.arithmetic import BOOL, Where, binary, unary
from npinfer.ops.joining import FullLike, joined
from npinfer.ops.norm_operations import normalized
from npinfer.ops.operands import cast
from npinfer.ops.products import BatchDot
from npinfer.ops.reductions import reduce
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.reshape import expanded, reshaped
from npinfer.ops.shapes import broadcast, promote, sample_axis

MERGES: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "average": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


class Merge(Op):
    """MERGES[kind] over any number of inputs of one dtype and rank, from the first on; "average" divides by their number."""

    kind: str
    any_rank: ClassVar[bool] = True

    def infer(self, *xs: Spec) -> Spec:
        if len({x.dtype for x in xs}) != 1 or len({len(x.shape) for x in xs}) != 1:
            raise DtypeError("the inputs must have one dtype and rank")
        return Spec(broadcast(*(x.shape for x in xs)), xs[0].dtype)

    def __call__(self, *xs: Array) -> Array:
        y = fold(MERGES[self.kind], xs)
        return y / len(xs) if self.kind == "average" else y


def _tensors(call: LayerCall, xs: Any) -> list[Value]:
    if not isinstance(xs, (list, tuple)) or not xs or not all(isinstance(x, Value) for x in xs):
        raise ShapeError(f"layer {call.name!r}: takes a list of tensors")
    return list(xs)


def new_mask_rules(call: LayerCall) -> bool:
    """Keras 3.4 rewrote masking in merge layers (commit 603db80): OR where AND was, and masked entries count as neutral."""
    return call.version.major == 3 and (not call.version.numbers or call.version.numbers >= (3, 4))


def loses_masks(call: LayerCall) -> bool:
    """Keras 3.0 to 3.3 asked a list of inputs for its mask, which has none: the results of layers that take lists have none."""
    return call.version.major == 3 and () < call.version.numbers < (3, 4)


def merged_mask(call: LayerCall, xs: Sequence[Value]) -> Value | None:
    masks = [x.mask for x in xs if x.mask is not None]
    if not masks or loses_masks(call) or (new_mask_rules(call) and len(masks) < len(xs)):
        return None
    if len({len(m.shape) for m in masks}) > 1:
        call.refuse("merges masks of different ranks")
    return any_of(call, masks) if new_mask_rules(call) else all_of(call, masks)


def any_of(call: LayerCall, masks: Sequence[Value]) -> Value:
    return fold(lambda a, b: binary(call, "logical_or", a, b), masks)


def all_of(call: LayerCall, masks: Sequence[Value]) -> Value:
    return fold(lambda a, b: binary(call, "logical_and", a, b), masks)


@layer("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", mask="own")
def merge(call: LayerCall, xs: Any) -> Value:
    """Any number of inputs; those of lower rank get axes of size 1 after the batch axis, then all are broadcast; masks."""
    values = _tensors(call, xs)
    kind = call.layer.class_name.lower()
    if kind == "subtract" and len(values) != 2:
        raise ShapeError(f"layer {call.name!r}: takes two inputs, got {len(values)}")
    rank = max(len(x.shape) for x in values)
    dtype = promote(*(x.spec.dtype for x in values))
    if kind == "average" and dtype.kind != "f":
        dtype = call.dtype
    plain = [cast(call, x, dtype)._replace(mask=x.mask) for x in values]
    for k, x in enumerate(plain):
        while len(x.shape) < rank:
            x = expanded(call, x, 0)
        plain[k] = x._replace(mask=values[k].mask)
    mask = merged_mask(call, values)
    if new_mask_rules(call) and kind in ("multiply", "maximum", "minimum") and any(x.mask is not None for x in plain):
        return _masked(call, kind, plain)._replace(mask=mask)
    if len(plain) == 1:
        return plain[0]._replace(mask=mask)
    return call.emit(Merge(kind), *(x._replace(mask=None) for x in plain))._replace(mask=mask)


def _masked(call: LayerCall, kind: str, xs: Sequence[Value]) -> Value:
    """Keras 3.4 and later: a masked entry doesn't take part; Multiply gives 0 where all of an entry's inputs are masked."""
    wide: list[Value | None] = []
    for x in xs:
        if x.mask is not None and len(x.mask.shape) != len(x.shape) - 1:
            call.refuse("a mask that lacks more than the last axis of its input")
        wide.append(None if x.mask is None else expanded(call, x.mask, len(x.mask.shape)))
    if kind == "multiply":
        one, zero = (np.asarray(n, xs[0].spec.dtype) for n in (1, 0))
        parts = [x if m is None else call.emit(Where(x2=one), m, x) for x, m in zip(xs, wide)]
        y = call.emit(Merge(kind), *parts) if len(parts) > 1 else parts[0]
        known = [m for m in wide if m is not None]
        if len(known) < len(xs):
            return y
        return call.emit(Where(x2=zero), any_of(call, known), y)
    y, seen = xs[0], wide[0]
    for x, m in zip(xs[1:], wide[1:]):
        x = x if m is None else call.emit(Where(), m, x, y)
        y = y if seen is None else call.emit(Where(), seen, y, x)
        seen = None if m is None or seen is None else binary(call, "logical_or", seen, m)
        y = call.emit(Merge(kind), y, x)
    return y


@layer("Concatenate", mask="own")
def concatenate(call: LayerCall, xs: Any) -> Value:
    """Along any axis but the batch's; masks."""
    values = _tensors(call, xs)
    axis = sample_axis(call, call.config.get("axis", -1), len(values[0].shape) + 1)
    mask = _joined_mask(call, values, axis)
    return joined(call, [x._replace(mask=None) for x in values], axis)._replace(mask=mask)


def _joined_mask(call: LayerCall, xs: Sequence[Value], axis: int) -> Value | None:
    """Masks get the input's axes, are joined as the inputs are, and keep what holds for any (before Keras 3.4: for all) entry
    of the last axis. Before 3.4 a mask's new last axis had size 1, where now it has the input's."""
    if loses_masks(call) or all(x.mask is None for x in xs):
        return None
    masks, new = list[Value](), new_mask_rules(call)
    for x in xs:
        if x.mask is None:
            masks.append(call.emit(FullLike(1.0, BOOL), x._replace(mask=None)))
        elif len(x.mask.shape) < len(x.shape):
            m = expanded(call, x.mask, len(x.mask.shape))
            masks.append(binary(call, "logical_or", m, call.emit(FullLike(0.0, BOOL), x._replace(mask=None))) if new else m)
        else:
            masks.append(x.mask)
    if len({len(m.shape) for m in masks}) > 1:
        call.refuse("joins masks of different ranks")
    whole = joined(call, masks, axis)
    return reduce(call, "any" if new else "all", whole, (len(whole.shape) - 1,))


@layer("Dot", mask="stop")
def dot(call: LayerCall, xs: Any) -> Value:
    """Any axes, normalize."""
    values = _tensors(call, xs)
    if len(values) != 2:
        raise ShapeError(f"layer {call.name!r}: takes two inputs, got {len(values)}")
    found = call.config["axes"]
    pair = found if isinstance(found, (list, tuple)) else [found, found]
    if len(pair) != 2:
        call.refuse(f"axes={found!r}")
    a, b = (sample_axis(call, n, len(x.shape) + 1, "axes") for n, x in zip(pair, values))
    dtype = promote(*(x.spec.dtype for x in values))
    values = [cast(call, x, dtype) for x in values]
    if call.config.get("keras1_cosine"):
        return _cosine(call, values, (a, b))
    if call.config.get("normalize", False):
        # Keras 2's l2_normalize bounds the squared norm by 1e-12, Keras 3's normalize the norm by 1e-7
        epsilon = 1e-7 if call.version.major == 3 else 1e-6
        values = [normalized(call, x, (k,), epsilon=epsilon) for x, k in zip(values, (a, b))]
    y = call.emit(BatchDot((a, b)), *values)
    return y if y.shape else reshaped(call, y, (1,))


def _cosine(call: LayerCall, values: Sequence[Value], axes: tuple[int, int]) -> Value:
    """Keras 1's Merge(mode="cos"): a·b / max(sqrt((a·a)(b·b)), 1e-7), with one more axis in front."""
    dots = [call.emit(BatchDot(axes), x, y) for x, y in ((values[0],) * 2, (values[1],) * 2, tuple(values))]
    norm = unary(call, "sqrt", binary(call, "multiply", dots[0], dots[1]))
    y = binary(call, "divide", dots[2], binary(call, "maximum", norm, 1e-7))
    return reshaped(call, y, (1, *(y.shape or (1,))))


def _factor(config: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(config.get("scale"), (int, float)):
        yield f"option scale={shown(config.get('scale'))} (needs a number)"


@layer("CustomScaleLayer", check=_factor)
def custom_scale_layer(call: LayerCall, xs: Any) -> Value:
    """x0 + x1 * scale, as InceptionResNetV2 of keras.applications uses it."""
    tensors = _tensors(call, xs)
    if len(tensors) != 2:
        raise ShapeError(f"layer {call.name!r}: takes a list of two tensors, got {len(tensors)}")
    scale = np.asarray(call.config["scale"], call.dtype)
    return binary(call, "add", tensors[0], call.emit(Affine(scale, np.zeros((), call.dtype)), tensors[1]))
