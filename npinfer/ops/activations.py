"""Activations: a table of elementwise functions by name, softmax, and the ways Keras configs ask for them.

To add one: a function `(x, **parameters)` in ACTIVATIONS, and a row of defaults in NAMED where a config may name it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from npinfer.graph import Array, Op, Spec
from npinfer.ops.registry import LayerCall, Value

#: elementwise functions; parameters are Python floats, results have the input's dtype
ACTIVATIONS: dict[str, Callable[..., Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": lambda x: np.tanh(x),
}


class Activation(Op):
    """An elementwise activation: ACTIVATIONS[kind](x, *parameters)."""

    kind: str
    parameters: tuple[float, ...] = ()
    elementwise: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        return ACTIVATIONS[self.kind](x, *self.parameters)


def activate(call: LayerCall, activation: Any, x: Value) -> Value:
    """Emit the activation that a config entry asks for (a name, or a serialized activation layer or function), or nothing."""
    if activation is None or activation == "linear":
        return x
    return call.emit(Activation(activation), x)
