"""Rules of passes.fold: affine maps (BatchNormalization, Normalization, Rescaling) become part of one another, or of the
weights beside them."""

from __future__ import annotations

import numpy as np

from npinfer.graph import Array, Op, Spec
from npinfer.ops.affine import Affine
from npinfer.ops.dense import Dense

#: a shift of the inputs by more than so many of their deviations isn't moved into a bias: the sum of large terms that cancel
#: would lose as many digits as the shift has
LARGEST_SHIFT = 8.0


def compose(first: Op, second: Op, _: Spec) -> Op | None:
    if not (isinstance(first, Affine) and isinstance(second, Affine) and first.activation is None):
        return None
    dtype = first.scale.dtype
    with np.errstate(all="ignore"):
        scale = _wide(first.scale) * _wide(second.scale)
        offset = (_wide(first.offset) - _wide(second.center)) * _wide(second.scale) + _wide(second.offset)
    merged = _narrow(dtype, scale, offset)
    return None if merged is None else Affine(merged[0], merged[1], first.center, second.activation)


def fold_after(first: Op, second: Op, between: Spec) -> Op | None:
    """(x·K + b - c)·s + o = x·(K·s) + ((b - c)·s + o)."""
    if not (isinstance(second, Affine) and first.linear and getattr(first, "activation", None) is None):
        return None
    kernel, bias = _wide(getattr(first, "kernel", None)), _wide(getattr(first, "bias", None))
    units = kernel.shape[-1]
    if not _per_feature(second, units):
        return None
    with np.errstate(all="ignore"):
        scale = np.broadcast_to(_wide(second.scale), (units,))
        shifted = np.broadcast_to((bias - _wide(second.center)) * scale + _wide(second.offset), (units,))
        merged = _narrow(between.dtype, kernel * scale, shifted)
    return None if merged is None else first.replace(kernel=merged[0], bias=merged[1], activation=second.activation)


def fold_before(first: Op, second: Op, between: Spec) -> Op | None:
    """((x - c)·s + o)·K + b = x·(s·K) + (b + (o - c·s)·K), where o - c·s is moderate."""
    if not (isinstance(first, Affine) and isinstance(second, Dense) and first.activation is None):
        return None
    width = second.kernel.shape[0]
    if not _per_feature(first, width):
        return None
    with np.errstate(all="ignore"):
        shift = np.broadcast_to(_wide(first.offset) - _wide(first.center) * _wide(first.scale), (width,))
        if not (np.abs(shift) <= LARGEST_SHIFT).all():
            return None
        kernel = np.broadcast_to(_wide(first.scale), (width,))[:, None] * _wide(second.kernel)
        merged = _narrow(between.dtype, kernel, _wide(second.bias) + shift @ _wide(second.kernel))
    return None if merged is None else second.replace(kernel=merged[0], bias=merged[1])


def _wide(numbers: Array | None) -> Array:
    return np.zeros((), np.float64) if numbers is None else numbers.astype(np.float64)


def _narrow(dtype: object, *numbers: Array) -> tuple[Array, ...] | None:
    """The numbers in the graph's dtype, or None where one isn't finite any more: folding must not make NaN or infinity."""
    found = tuple(np.asarray(n, np.dtype(dtype)) for n in numbers)  # type: ignore[call-overload]
    return found if all(np.isfinite(n).all() for n in found) else None


def _per_feature(op: Affine, size: int) -> bool:
    numbers = [n for n in (op.scale, op.offset, op.center) if n is not None]
    return all(n.shape in ((), (1,), (size,)) for n in numbers)
