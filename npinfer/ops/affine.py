"""Scale and shift with stored numbers: BatchNormalization, Normalization and Rescaling at inference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.cast import as_float
from npinfer.ops.registry import LayerCall, Value, Variable, layer
from npinfer.ops.shapes import broadcast, sample_axes


class Affine(Op):
    """y = activation((x - center) * scale + offset); center may be None (0).

    center, scale, offset: per sample, aligned with the last axes of x as NumPy broadcasts, in x's dtype. The centre is kept
    apart from the offset because offset - center·scale loses digits where the mean is far from zero in units of the deviation.
    """

    scale: Array
    offset: Array
    center: Array | None = None
    activation: Activation | None = None
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        for name in ("center", "scale", "offset"):
            numbers = getattr(self, name)
            if numbers is not None and broadcast(x.shape, numbers.shape) != _known(x.shape, numbers.shape):
                raise ShapeError(f"{name} has shape {list(numbers.shape)}, the input {list(x.shape)} a sample")
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        y = x * self.scale if self.center is None else (x - self.center) * self.scale
        y += self.offset
        return y if self.activation is None else self.activation(y)


def _known(x: tuple[int | None, ...], numbers: tuple[int, ...]) -> tuple[int | None, ...]:
    """x's shape, with sizes that x leaves open taken from the numbers that scale it."""
    if len(numbers) > len(x):
        raise ShapeError(f"numbers of shape {list(numbers)} for a sample of {len(x)} axes")
    return tuple(n if n is not None or m == 1 else m for n, m in zip(x, (1,) * (len(x) - len(numbers)) + numbers))


def along(numbers: Array, axes: tuple[int, ...], rank: int) -> Array:
    """Numbers for some axes of a sample (ascending, one axis of `numbers` each) in a form that broadcasts against the sample.
    Axes of size 1 in front are left out, so that numbers for the last axis are a vector."""
    shape = [1] * rank
    for axis, n in zip(axes, numbers.shape):
        shape[axis] = n
    first = axes[0] if axes else rank
    return numbers.reshape(shape[first:])


def _normalized(config: Mapping[str, Any]) -> Iterator[str | Variable]:
    if config.get("scale", True):
        yield "gamma"
    if config.get("center", True):
        yield "beta"
    yield "~moving_mean"
    yield "~moving_variance"
    if config.get("renorm"):
        yield from (Variable(n, False, True) for n in ("moving_stddev", "renorm_mean", "renorm_stddev"))


def _batch_check(config: Mapping[str, Any]) -> Iterator[str]:
    if config.get("mode", 0) != 0:
        yield f"option mode={config['mode']!r} (Keras 1: other modes normalise by the batch at hand)"


def _features(config: Mapping[str, Any], weights: Mapping[str, Array]) -> tuple[int | None, ...] | None:
    axis, mean = config.get("axis", -1), weights.get("moving_mean")
    return (mean.shape[0],) if axis in (-1, [-1]) and mean is not None and mean.ndim == 1 else None


@layer("BatchNormalization", variables=_normalized, check=_batch_check, input_shape=_features)
def batch_normalization(call: LayerCall, x: Value) -> Value:
    """gamma * (x - moving_mean) / sqrt(moving_variance + epsilon) + beta, along one axis or several."""
    x = as_float(call, x)
    rank = len(x.shape)
    axes = sample_axes(call, call.config.get("axis", -1), rank + 1)
    w = call.weights

    def spread(numbers: Array) -> Array:
        # several axes: tf.keras stores (1, 5, 6), a 1 for each axis that isn't normalised, the batch's included
        if len(axes) > 1 and numbers.ndim == rank + 1:
            numbers = numbers.reshape([numbers.shape[a + 1] for a in axes])
        if numbers.ndim != len(axes):
            raise ShapeError(f"layer {call.name!r}: weights of shape {list(numbers.shape)} for {len(axes)} axis(es)")
        return along(numbers, axes, rank)

    with np.errstate(all="ignore"):  # a broken file's negative variance gives NaN, as in Keras
        scale = 1 / np.sqrt(w["moving_variance"].astype(np.float64) + float(call.config.get("epsilon", 1e-3)))
        if "gamma" in w:
            scale = scale * w["gamma"]
        scale = scale.astype(call.dtype)
    beta = w["beta"] if "beta" in w else np.zeros_like(w["moving_mean"])
    return call.emit(Affine(spread(scale), spread(beta), spread(w["moving_mean"])), x)


def _adapted(config: Mapping[str, Any]) -> Iterable[str | Variable]:
    if config.get("mean") is not None:
        return ()
    return ("~mean", "~variance", Variable("count", False, True))


def _normalization_input(config: Mapping[str, Any], weights: Mapping[str, Array]) -> tuple[int | None, ...] | None:
    mean = weights.get("mean")
    if mean is None and config.get("mean") is not None:
        mean = np.asarray(config["mean"])
    return mean.shape if mean is not None and mean.ndim == 1 and config.get("axis", -1) in (-1, [-1], (-1,)) else None


@layer("Normalization", variables=_adapted, input_shape=_normalization_input)
def normalization(call: LayerCall, x: Value) -> Value:
    """(x - mean) / max(sqrt(variance), 1e-7) with adapted or given numbers; invert=True goes the other way."""
    x = as_float(call, x)
    rank, axis = len(x.shape), call.config.get("axis", -1)
    axes = () if axis is None else sample_axes(call, axis, rank + 1)
    given = call.config.get("mean") is not None
    source: Mapping[str, Any] = call.config if given else call.weights
    # Keras 3 makes float32 tensors of a config's numbers, whatever the layer's dtype is; tf.keras keeps all digits
    kind = np.float32 if given and call.version.major == 3 else None
    mean, variance = (np.asarray(source[n], kind).astype(call.dtype) for n in ("mean", "variance"))
    if mean.shape != variance.shape or mean.ndim > len(axes):
        # the first tf.keras versions broadcast given numbers to (1, n): the ones in front mean nothing
        mean, variance = (a.reshape(a.shape[max(a.ndim - len(axes), 0) :]) for a in (mean, variance))
    kept = axes[len(axes) - mean.ndim :]
    with np.errstate(all="ignore"):
        deviation = np.maximum(np.sqrt(variance), call.dtype.type(1e-7))
        center, scale = along(mean, kept, rank), along(deviation, kept, rank)
        nothing = np.zeros((), call.dtype)
        if not call.config.get("invert", False):
            return call.emit(Affine((1 / scale.astype(np.float64)).astype(call.dtype), nothing, center), x)
        # tf.keras up to 2.10 computes (x + mean) * deviation; its files must give its numbers
        if call.version.tf and call.version.major == 2 and call.version.numbers[:2] <= (2, 10):
            return call.emit(Affine(scale, nothing, -center), x)
        return call.emit(Affine(scale, center), x)


@layer("Rescaling")
def rescaling(call: LayerCall, x: Value) -> Value:
    """x * scale + offset, numbers or lists that broadcast along the last axes."""
    x = as_float(call, x)
    numbers = (np.asarray(call.config.get(n, 0.0)) for n in ("scale", "offset"))
    # TensorFlow makes float32 tensors of Python's floats, and casts those to the layer's dtype
    scale, offset = (a.astype(np.float32 if a.dtype.kind == "f" else np.float64).astype(call.dtype) for a in numbers)
    return call.emit(Affine(scale, offset), x)
