"""Masking: which time steps count, and zeros for those that don't."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.registry import LayerCall, Value, layer

BOOL = np.dtype(bool)


class Differs(Op):
    """x != value, element by element: Embedding's mask_zero."""

    value: float
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, BOOL)

    def __call__(self, x: Array) -> Array:
        return np.asarray(x != self.value)


class StepsKept(Op):
    """True where a step has any feature other than `value`: (…, features) → (…). NaN differs from everything."""

    value: float
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        if not x.shape:
            raise ShapeError("Masking needs a features axis")
        return Spec(x.shape[:-1], BOOL)

    def __call__(self, x: Array) -> Array:
        return np.asarray((x != self.value).any(-1))


class ZeroUnless(Op):
    """x with the steps that a mask leaves out set to 0: (…, features), (…) → (…, features)."""

    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec, mask: Spec) -> Spec:
        if mask.shape != x.shape[:-1]:
            raise ShapeError(f"a mask of shape {list(mask.shape)} for {list(x.shape)} a sample")
        return x._replace(name="")

    def __call__(self, x: Array, mask: Array) -> Array:
        return np.where(mask[..., None], x, 0)


def _check(config: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(config.get("mask_value", 0.0), (int, float)):
        yield f"option mask_value={config['mask_value']!r} (supported: a number)"


@layer("Masking", mask="own", check=_check)
def masking(call: LayerCall, x: Value) -> Value:
    """Steps all of whose features equal mask_value become zeros, and masked for the layers that follow."""
    call.take("mask")
    mask = call.emit(StepsKept(float(call.config.get("mask_value", 0.0))), x)
    return call.emit(ZeroUnless(), x, mask)._replace(mask=mask)
