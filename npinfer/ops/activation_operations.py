"""Activations as operations of Keras 3 (keras.ops.relu …): the functions that layers name, with defaults of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npinfer.ops.activations import NAMED, WITH_AXIS, Activation, activate
from npinfer.ops.registry import LayerCall, Value, operation


def _operation(name: str) -> Callable[..., Value]:
    def lower(call: LayerCall, x: Value, *values: Any) -> Value:
        if values:
            call.refuse(f"{len(values)} positional argument(s) besides the tensor")
        given = {**call.config, **{k: call.take(k) for k in list(call.kwargs)}}
        entry = {k: v for k, v in given.items() if k not in ("name", "dtype", "trainable") and v is not None}
        return activate(call, {**OPERATION_DEFAULTS.get(name, {}), **entry, "name": name}, x)

    return lower


#: where keras.ops has another default than keras.activations
OPERATION_DEFAULTS: dict[str, dict[str, Any]] = {"gelu": {"approximate": True}}
_NO_OPERATION = ("linear", "exponential", "swish", "hard_swish", "gelu_approximate", "hard_sigmoid_k2", "thresholded_relu")
for _name in (*NAMED, *WITH_AXIS):
    if _name not in _NO_OPERATION:
        operation("".join(part.capitalize() for part in _name.split("_")))(_operation(_name))
operation("ReLU")(_operation("relu"))


@operation("Erf")
def erf(call: LayerCall, x: Value) -> Value:
    return call.emit(Activation("erf"), x)
