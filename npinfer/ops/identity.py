"""Layers that do nothing at inference, and the dtype cast."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.graph import Array, Op, Spec
from npinfer.ops.registry import LayerCall, Value, layer


class Cast(Op):
    """Convert to another dtype as Keras's autocast does (float to integer truncates)."""

    dtype: np.dtype[Any]

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, self.dtype)

    def __call__(self, x: Array) -> Array:
        return x.astype(self.dtype, copy=False)


@layer("Dropout")
def nothing(call: LayerCall, x: Value) -> Value:
    call.take("training")
    return x
