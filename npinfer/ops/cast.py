"""The dtype cast, and the one that layers with float weights apply to what they are given."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from npinfer.graph import Array, Op, Spec
from npinfer.ops.registry import LayerCall, Value


class Cast(Op):
    """Convert to another dtype as Keras's autocast does (float to integer truncates)."""

    dtype: np.dtype[Any]
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, self.dtype)

    def __call__(self, x: Array) -> Array:
        return x.astype(self.dtype, copy=False)


def as_float(call: LayerCall, x: Value) -> Value:
    """x in the layer's compute dtype: layers with float weights take integers too."""
    return x if x.spec.dtype == call.dtype else call.emit(Cast(call.dtype), x)
