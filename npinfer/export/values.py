"""Arrays of an ONNX graph under construction, which read like NumPy's, and the records that the graph is kept in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npinfer.graph import Array, Shape, Spec

if TYPE_CHECKING:
    from npinfer.export.net import Net

BOOL, INT32, INT64 = np.dtype(bool), np.dtype("int32"), np.dtype("int64")
FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")
#: ends of slices that ONNX cuts to the axis: its last entry, and before its first (for negative steps)
LAST, BEFORE_FIRST = 2**31 - 1, -(2**31 - 1)


class NodeRecord(NamedTuple):
    """A node: kind, names of what it reads ("" for what is left out) and makes, attributes (arrays and bodies included)."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    name: str


class Body(NamedTuple):
    """The inner graph of a Scan. It may read values of the graph around it."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: list[NodeRecord]


#: what can stand where a node reads something: numbers take the dtype of the Value beside them
Operand = Any


class Value:
    """An array of the ONNX graph. shape: per sample, None where the translator doesn't know it. origin: what it is a
    transposition of, and the order of axes (batch axis counted), or None. flipped: what it is a reversal of, and the axis."""

    __array_ufunc__ = None  # array + Value is Value.__radd__'s business

    def __init__(self, net: Net, name: str, dtype: np.dtype[Any], shape: Shape | None = None) -> None:
        self.net, self.name, self.dtype, self.shape = net, name, dtype, shape
        self.origin: tuple[Value, tuple[int, ...]] | None = None
        self.flipped: tuple[Value, int] | None = None

    def described(self, spec: Spec) -> Value:
        """The same array with a shape, cast where the translator's dtype isn't the graph's."""
        same = self if self.dtype == spec.dtype else self.cast(spec.dtype)
        made = Value(self.net, same.name, spec.dtype, spec.shape)
        made.origin, made.flipped = same.origin, same.flipped
        return made

    @property
    def rank(self) -> int:
        """The number of axes, the batch's counted."""
        assert self.shape is not None
        return len(self.shape) + 1

    def do(self, kind: str, *others: Operand, dtype: np.dtype[Any] | None = None, **attributes: Any) -> Value:
        """Node `kind` with this value as its first input."""
        return self.net.node(kind, self, *others, dtype=dtype, **attributes)

    def cast(self, dtype: np.dtype[Any]) -> Value:
        return self if dtype == self.dtype else self.do("Cast", dtype=dtype, to=dtype)

    def __add__(self, other: Operand) -> Value:
        return self.do("Add", other)

    def __radd__(self, other: Operand) -> Value:
        return self.net.node("Add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.do("Sub", other)

    def __rsub__(self, other: Operand) -> Value:
        return self.net.node("Sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.do("Mul", other)

    def __rmul__(self, other: Operand) -> Value:
        return self.net.node("Mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self.do("Div", other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.net.node("Div", other, self)

    def __neg__(self) -> Value:
        return self.do("Neg")

    def __abs__(self) -> Value:
        return self.do("Abs")

    def __lt__(self, other: Operand) -> Value:
        return self.do("Less", other, dtype=BOOL)

    def __le__(self, other: Operand) -> Value:
        return self.do("LessOrEqual", other, dtype=BOOL)

    def __gt__(self, other: Operand) -> Value:
        return self.do("Greater", other, dtype=BOOL)

    def __ge__(self, other: Operand) -> Value:
        return self.do("GreaterOrEqual", other, dtype=BOOL)

    def equals(self, other: Operand) -> Value:
        return self.do("Equal", other, dtype=BOOL)

    def __and__(self, other: Operand) -> Value:
        return self.do("And", other)

    def __or__(self, other: Operand) -> Value:
        return self.do("Or", other)

    def __invert__(self) -> Value:
        return self.do("Not")

    def where(self, x: Operand, y: Operand) -> Value:
        """x where this condition holds, else y; one of them is a Value or array."""
        return self.net.where(self, x, y)

    def exp(self) -> Value:
        return self.do("Exp")

    def sqrt(self) -> Value:
        return self.do("Sqrt")

    def clip(self, low: float, high: float) -> Value:
        if self.dtype == FLOAT32:
            return self.do("Clip", low, high)
        return self.do("Max", low).do("Min", high)  # ONNX Runtime stumbles over a float64 Clip behind a Relu

    def reduce(self, kind: str, axes: Sequence[int], keepdims: bool = True) -> Value:
        """ReduceSum, ReduceMax … over axes (batch counted)."""
        return self.do(kind, ints(axes), keepdims=int(keepdims))

    def unsqueeze(self, *axes: int) -> Value:
        return self.do("Unsqueeze", ints(axes))

    def squeeze(self, *axes: int) -> Value:
        return self.do("Squeeze", ints(axes))

    def slice(self, axis: int, start: int, end: int, step: int = 1) -> Value:
        return self.do("Slice", ints([start]), ints([end]), ints([axis]), ints([step]))


def ints(numbers: Sequence[int]) -> Array:
    return np.asarray(numbers, INT64)
