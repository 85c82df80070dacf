"""Activations along an axis: softmax and its relatives, and the Softmax layer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from npinfer.errors import DtypeError, ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.shapes import sample_axes


class AlongAxes(Op):
    """Base of ops that mix the elements along some axes of a sample. axes: negative, counted from the last, ascending."""

    axes: tuple[int, ...] = (-1,)
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        if x.dtype.kind != "f":
            raise DtypeError(f"takes floats, the input is {x.dtype}")
        if not self.axes or any(not -len(x.shape) <= a < 0 for a in self.axes):
            raise ShapeError(f"axes {list(self.axes)} of a sample of {len(x.shape)} axes")
        return x._replace(name="")


class Softmax(AlongAxes):
    """exp(x - max) / sum(exp(x - max)) over the axes together. A row that holds +inf, NaN or nothing but -inf gives NaN."""

    def __call__(self, x: Array) -> Array:
        y: Array = np.exp(x - x.max(self.axes, keepdims=True, initial=-np.inf))
        y /= y.sum(self.axes, keepdims=True)
        return y


class LogSoftmax(AlongAxes):
    """x - max - log(sum(exp(x - max)))."""

    def __call__(self, x: Array) -> Array:
        y: Array = x - x.max(self.axes, keepdims=True, initial=-np.inf)
        y -= np.log(np.exp(y).sum(self.axes, keepdims=True))
        return y


class Sparsemax(AlongAxes):
    """max(x - tau, 0) along one axis, as Keras computes it: k is the number of largest entries whose k-th still exceeds
    (their sum - 1) / k, and tau = (S - 1) / k with S the sum of the k running sums. (Martins and Astudillo 2016 have the last
    running sum for S, which makes the results add up to 1; Keras's don't where k > 1, and its files were trained with that.)"""

    def __call__(self, x: Array) -> Array:
        (axis,) = self.axes
        falling = -np.sort(-x, axis)
        total = np.cumsum(falling, axis)
        counts = np.arange(1, x.shape[axis] + 1, dtype=x.dtype).reshape([-1 if a == axis else 1 for a in range(-x.ndim, 0)])
        support = falling - (total - 1) / counts > 0
        k = support.sum(axis, keepdims=True, dtype=x.dtype)
        tau = (np.where(support, total, 0).sum(axis, keepdims=True) - 1) / k
        return np.asarray(np.maximum(x - tau, 0))


class Glu(AlongAxes):
    """a * sigmoid(b) for the two halves a, b along one axis, which shrinks to half."""

    def infer(self, x: Spec) -> Spec:
        super().infer(x)
        (axis,) = self.axes
        n = x.shape[axis]
        if n is not None and n % 2:
            raise ShapeError(f"the axis has {n} entries; halving it needs an even number")
        shape = list(x.shape)
        shape[axis] = None if n is None else n // 2
        return Spec(tuple(shape), x.dtype)

    def __call__(self, x: Array) -> Array:
        from npinfer.ops.special import sigmoid

        if x.shape[self.axes[0]] % 2:
            raise ShapeError(f"glu: the axis has {x.shape[self.axes[0]]} entries; halving it needs an even number")
        a, b = np.split(x, 2, self.axes[0])
        return np.asarray(a * sigmoid(b))


_OPS: dict[str, type[AlongAxes]] = {"softmax": Softmax, "log_softmax": LogSoftmax, "sparsemax": Sparsemax, "glu": Glu}


def with_axis(call: LayerCall, name: str, axis: Any, rank: int) -> AlongAxes:
    """The op of an activation that takes an axis. axis counts the batch axis, as in Keras; rank is the sample's."""
    axes = tuple(a - rank for a in sample_axes(call, axis, rank + 1))
    if len(axes) != 1 and name != "softmax":
        call.refuse(f"{name} along axes {axis!r}")
    return _OPS[name](axes)


@layer("Softmax", mask="own")
def softmax(call: LayerCall, x: Value) -> Value:
    """Along one axis or several, the batch's excepted; without a mask."""
    if call.take("mask") is not None or x.mask is not None:
        call.refuse("a mask on Softmax")
    return call.emit(with_axis(call, "softmax", call.config.get("axis", -1), len(x.shape)), x)
