"""Normalization by statistics of the sample itself: LayerNormalization, GroupNormalization, RMS, unit length; and
SpectralNormalization, whose kernel is stored normalised. (BatchNormalization has stored statistics: see affine.py.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.affine import along
from npinfer.ops.cast import as_float
from npinfer.ops.registry import LayerCall, Value, Variable, below, layer
from npinfer.ops.shapes import broadcast, product, sample_axes, sample_axis
from npinfer.ops.softmax import AlongAxes


class LayerNorm(AlongAxes):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, moments over the axes of each sample together, in two passes.

    gamma, beta: aligned with x's last axes, or None. spread_only: Keras's deprecated rms_scaling, which divides x itself by the
    deviation about the mean. Where x² overflows the variance is infinite and the result beta, as in Keras 3 (Keras 2: NaN).
    """

    epsilon: float = 1e-3
    gamma: Array | None = None
    beta: Array | None = None
    spread_only: bool = False

    def infer(self, x: Spec) -> Spec:
        _fits(x, self.gamma, self.beta)
        return super().infer(x)

    def __call__(self, x: Array) -> Array:
        away = x - x.mean(self.axes, keepdims=True)
        inverse = 1 / np.sqrt((away * away).mean(self.axes, keepdims=True) + self.epsilon)
        y = x * inverse if self.spread_only else np.multiply(away, inverse, out=away)
        return _scaled(y, self.gamma, self.beta)


class RMSNorm(AlongAxes):
    """x / sqrt(mean(x²) + epsilon) * gamma."""

    epsilon: float = 1e-6
    gamma: Array | None = None

    def infer(self, x: Spec) -> Spec:
        _fits(x, self.gamma)
        return super().infer(x)

    def __call__(self, x: Array) -> Array:
        return _scaled(x * (1 / np.sqrt((x * x).mean(self.axes, keepdims=True) + self.epsilon)), self.gamma, None)


class UnitNorm(AlongAxes):
    """x / sqrt(sum(x²)), the factor at most `limit` (rows near zero)."""

    limit: float = 1e12

    def __call__(self, x: Array) -> Array:
        squares = (x * x).sum(self.axes, keepdims=True)
        with np.errstate(divide="ignore"):
            return np.asarray(x * np.minimum(1 / np.sqrt(squares), self.limit))


class GroupNorm(Op):
    """LayerNormalization within each of `groups` equal parts of one axis, over all other axes too; then gamma, beta.

    axis: negative. gamma, beta: aligned with x's last axes, or None."""

    groups: int
    axis: int = -1
    epsilon: float = 1e-3
    gamma: Array | None = None
    beta: Array | None = None

    def infer(self, x: Spec) -> Spec:
        n = x.shape[self.axis]
        if n is None or self.groups < 1 or n % self.groups:
            raise ShapeError(f"an axis of {n} entries doesn't fall into {self.groups} groups")
        _fits(x, self.gamma, self.beta)
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        a = x.ndim + self.axis
        parts = x.reshape((*x.shape[:a], self.groups, x.shape[a] // self.groups, *x.shape[a + 1 :]))
        axes = tuple(k for k in range(1, parts.ndim) if k != a)
        away = parts - parts.mean(axes, keepdims=True)
        away *= 1 / np.sqrt((away * away).mean(axes, keepdims=True) + self.epsilon)
        return _scaled(away.reshape(x.shape), self.gamma, self.beta)


def _fits(x: Spec, *numbers: Array | None) -> None:
    for n in numbers:
        if n is not None and len(broadcast(x.shape, n.shape)) != len(x.shape):
            raise ShapeError(f"weights of shape {list(n.shape)} for {list(x.shape)} a sample")


def _scaled(y: Array, gamma: Array | None, beta: Array | None) -> Array:
    if gamma is not None:
        y *= gamma
    if beta is not None:
        y += beta
    return y


def _gamma_beta(config: Mapping[str, Any]) -> Iterator[str]:
    rms = config.get("rms_scaling", False)
    if config.get("scale", True) or rms:
        yield "gamma"
    if config.get("center", True) and not rms:
        yield "beta"


def _last(name: str) -> Any:
    def shape(config: Mapping[str, Any], weights: Mapping[str, Array]) -> tuple[int | None, ...] | None:
        numbers = weights.get(name)
        return numbers.shape if config.get("axis", -1) in (-1, [-1]) and numbers is not None and numbers.ndim == 1 else None

    return shape


def _weights_along(call: LayerCall, x: Value, axes: tuple[int, ...], *names: str) -> Iterator[Array | None]:
    """Weights in a form that broadcasts against x. Keras lays them out anew in the order of x's axes, whatever the config's."""
    for name in names:
        numbers = call.weights.get(name)
        if numbers is None:
            yield None
            continue
        sizes = [x.shape[a] or n for a, n in zip(axes, numbers.shape)]
        if numbers.ndim != len(axes) or numbers.size != product(sizes):
            raise ShapeError(f"layer {call.name!r}: {name} has shape {list(numbers.shape)}; the input's axes need {sizes}")
        yield along(numbers.reshape(sizes), axes, len(x.shape))


def negative(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return tuple(a - rank for a in axes)


@layer("LayerNormalization", variables=_gamma_beta, input_shape=_last("gamma"))
def layer_normalization(call: LayerCall, x: Value) -> Value:
    """Along one axis or several, with or without center and scale; rms_scaling."""
    x = as_float(call, x)
    axes = sample_axes(call, call.config.get("axis", -1), len(x.shape) + 1)
    gamma, beta = _weights_along(call, x, axes, "gamma", "beta")
    rms = bool(call.config.get("rms_scaling", False))
    epsilon = float(call.config.get("epsilon", 1e-3))
    return call.emit(LayerNorm(negative(axes, len(x.shape)), epsilon, gamma, beta, rms), x)


@layer("RMSNormalization", variables=lambda c: ["scale"], input_shape=_last("scale"))
def rms_normalization(call: LayerCall, x: Value) -> Value:
    """Along one axis or several."""
    x = as_float(call, x)
    axes = negative(sample_axes(call, call.config.get("axis", -1), len(x.shape) + 1), len(x.shape))
    # the scale is multiplied as it is, not moved to the axis: with another than the last it meets the last, as in Keras
    return call.emit(RMSNorm(axes, float(call.config.get("epsilon", 1e-6)), call.weights["scale"]), x)


@layer("UnitNormalization")
def unit_normalization(call: LayerCall, x: Value) -> Value:
    """Each sample's vectors along one axis or several to length 1."""
    x = as_float(call, x)
    axes = negative(sample_axes(call, call.config.get("axis", -1), len(x.shape) + 1), len(x.shape))
    # up to Keras 3.5 the sum of squares is at least 1e-12, later the factor at most 1e12
    late = call.version.major >= 3 and call.version.numbers >= (3, 6)
    return call.emit(UnitNorm(axes, 1e12 if late else 1e6), x)


@layer("GroupNormalization", variables=_gamma_beta, mask="own", input_shape=_last("gamma"))
def group_normalization(call: LayerCall, x: Value) -> Value:
    """Any number of groups along one axis."""
    if x.mask is not None and call.version.major < 3:
        call.refuse("a mask on GroupNormalization (Keras 2 leaves masked steps out of the statistics)")
    call.take("mask")
    mask, x = x.mask, as_float(call, x)
    rank = len(x.shape)
    axis = sample_axis(call, call.config.get("axis", -1), rank + 1)
    groups = int(call.config.get("groups", 32))
    n = x.shape[axis]
    if groups == -1 and n is not None:
        groups = n
    gamma, beta = _weights_along(call, x, (axis,), "gamma", "beta")
    y = call.emit(GroupNorm(groups, axis - rank, float(call.config.get("epsilon", 1e-3)), gamma, beta), x)
    return y._replace(mask=mask)


def _inner(config: Mapping[str, Any]) -> Iterator[Variable]:
    # the wrapper holds the kernel as its own first variable, so Keras 3 lists it before vector_u and the others after it
    held = below("layer", config["layer"])
    yield from held[:1]
    yield Variable("vector_u", trainable=False)
    yield from held[1:]


@layer("SpectralNormalization", variables=_inner)
def spectral_normalization(call: LayerCall, x: Value) -> Value:
    """Around any supported layer: training stores the normalised kernel, so inference is that layer's."""
    return call.lower_inner(call.config["layer"], "layer", x)  # type: ignore[no-any-return]
