"""Activations with weights: PReLU, and Keras 1's ParametricSoftplus and SReLU. Weights align with x's last axes; axes that
share them have size 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec, Streamed
from npinfer.ops.cast import as_float
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.shapes import broadcast
from npinfer.ops.special import softplus


class Parametric(Op):
    """Base: the fields are arrays that broadcast against a sample."""

    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        for numbers in self.arrays():
            if broadcast(x.shape, numbers.shape) != x.shape:
                raise ShapeError(f"weights of shape {list(numbers.shape)} for {list(x.shape)} a sample")
        return x._replace(name="")

    def stream(self, x: Spec) -> Streamed:
        """Weights that all time steps share are those of one step."""
        numbers = {name: getattr(self, name) for name in self.fields}
        whole = {name: v for name, v in numbers.items() if v.ndim == len(x.shape)}
        if any(len(v) != 1 for v in whole.values()):
            raise ShapeError("its weights differ from time step to time step")
        return Streamed(self.replace(**{name: v[0] for name, v in whole.items()}))


class PReLU(Parametric):
    """max(x, 0) - alpha * max(-x, 0)."""

    alpha: Array

    def __call__(self, x: Array) -> Array:
        return np.asarray(np.maximum(x, 0) - self.alpha * np.maximum(-x, 0))


class ParametricSoftplus(Parametric):
    """alpha * log(1 + exp(beta * x))."""

    alpha: Array
    beta: Array

    def __call__(self, x: Array) -> Array:
        return np.asarray(softplus(self.beta * x) * self.alpha)


class SReLU(Parametric):
    """Linear between t_left and t_right, with slopes a_left and a_right beyond (Jin et al. 2015)."""

    t_left: Array
    a_left: Array
    t_right: Array
    a_right: Array

    def __call__(self, x: Array) -> Array:
        low, high = x - self.t_left, x - self.t_right
        return np.asarray(
            self.t_left
            + np.clip(low, 0, self.t_right - self.t_left)
            + self.a_left * np.minimum(low, 0)
            + self.a_right * np.maximum(high, 0)
        )


def _whole(name: str) -> Any:
    """The input's shape is the weight's where no axis shares weights."""

    def shape(config: Mapping[str, Any], weights: Mapping[str, Array]) -> tuple[int | None, ...] | None:
        numbers = weights.get(name)
        return None if numbers is None or config.get("shared_axes") or 1 in numbers.shape else numbers.shape

    return shape


@layer("PReLU", variables=lambda c: ["alpha"], input_shape=_whole("alpha"))
def prelu(call: LayerCall, x: Value) -> Value:
    """With shared axes."""
    return call.emit(PReLU(call.weights["alpha"]), as_float(call, x))


@layer("ParametricSoftplus", variables=lambda c: ["alpha", "beta"], input_shape=_whole("alpha"))
def parametric_softplus(call: LayerCall, x: Value) -> Value:
    """Keras 1."""
    return call.emit(ParametricSoftplus(call.weights["alpha"], call.weights["beta"]), as_float(call, x))


def _srelu(_: Mapping[str, Any]) -> Iterator[str]:
    yield from ("t_left", "a_left", "t_right", "a_right")


@layer("SReLU", variables=_srelu, input_shape=_whole("t_left"))
def srelu(call: LayerCall, x: Value) -> Value:
    """Keras 1."""
    w = call.weights
    # Keras stores the distance between the thresholds, of either sign
    t_right = w["t_left"] + np.abs(w["t_right"])
    return call.emit(SReLU(w["t_left"], w["a_left"], t_right, w["a_right"]), as_float(call, x))
