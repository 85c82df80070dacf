"""Operations along axes: sums, means, extremes, norms, running totals, orders, softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from npinfer.errors import DtypeError, ShapeError
from npinfer.graph import Array, Op, Spec, Streamed
from npinfer.ops.arithmetic import BOOL, INT32, binary, unary
from npinfer.ops.indexing import part
from npinfer.ops.joining import Pad
from npinfer.ops.operands import cast
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.shapes import sample_axes, sample_axis


class Reduction(NamedTuple):
    """A NumPy reduction (x, axis=, keepdims=) and its dtypes. takes: "any"; "sum" (bool and short integers become 32-bit);
    "float"; "bool". gives: None for the dtype taken."""

    function: Callable[..., Array]
    takes: str = "any"
    gives: np.dtype[Any] | None = None


def _logsumexp(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, np.zeros((), x.dtype))
    y: Array = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return y if keepdims else y.squeeze(axis)


def _first(function: Callable[..., Array]) -> Callable[..., Array]:
    """argmax and argmin take one axis."""
    return lambda x, axis, keepdims: function(x, axis=axis[0], keepdims=keepdims).astype(np.int32)


REDUCTIONS: dict[str, Reduction] = {
    "sum": Reduction(np.sum, "sum"),
    "prod": Reduction(np.prod, "sum"),
    "mean": Reduction(np.mean, "float"),
    "std": Reduction(np.std, "float"),
    "var": Reduction(np.var, "float"),
    "max": Reduction(np.max),
    "min": Reduction(np.min),
    "ptp": Reduction(np.ptp),
    "median": Reduction(np.median, "float"),
    "all": Reduction(np.all, "bool", BOOL),
    "any": Reduction(np.any, "bool", BOOL),
    "count_nonzero": Reduction(np.count_nonzero, "any", INT32),
    "argmax": Reduction(_first(np.argmax), "any", INT32),
    "argmin": Reduction(_first(np.argmin), "any", INT32),
    "logsumexp": Reduction(_logsumexp, "float"),
    "nansum": Reduction(np.nansum, "sum"),
    "nanprod": Reduction(np.nanprod, "sum"),
    "nanmean": Reduction(np.nanmean, "float"),
    "nanmax": Reduction(np.nanmax),
    "nanmin": Reduction(np.nanmin),
}
_CLASSES = {
    "Sum": "sum", "Prod": "prod", "Mean": "mean", "Std": "std", "Var": "var", "Max": "max", "Amax": "max", "Min": "min",
    "Amin": "min", "Ptp": "ptp", "Median": "median", "All": "all", "Any": "any", "CountNonzero": "count_nonzero",
    "Argmax": "argmax", "Argmin": "argmin", "Logsumexp": "logsumexp", "Nansum": "nansum", "Nanprod": "nanprod",
    "Nanmean": "nanmean", "Nanmax": "nanmax", "Nanmin": "nanmin",
}  # fmt: skip


class Reduce(Op):
    """REDUCTIONS[kind] over some axes of each sample."""

    kind: str
    axes: tuple[int, ...]
    keepdims: bool = False

    def infer(self, x: Spec) -> Spec:
        if not all(0 <= a < len(x.shape) for a in self.axes):
            raise ShapeError(f"axes {list(self.axes)} of {list(x.shape)} a sample")
        shape = tuple(1 if k in self.axes else n for k, n in enumerate(x.shape) if self.keepdims or k not in self.axes)
        return Spec(shape, REDUCTIONS[self.kind].gives or x.dtype)

    def __call__(self, x: Array) -> Array:
        y = REDUCTIONS[self.kind].function(x, axis=tuple(a + 1 for a in self.axes), keepdims=self.keepdims)
        return y.astype(REDUCTIONS[self.kind].gives or x.dtype, copy=False)

    def stream(self, _: Spec) -> Streamed | None:
        return None if 0 in self.axes else Streamed(self.replace(axes=tuple(a - 1 for a in self.axes)))


#: functions (x, axis=) of one axis that keep the shape
ALONG: dict[str, Callable[..., Array]] = {
    "cumsum": lambda x, axis: np.cumsum(x, axis=axis, dtype=x.dtype),
    "cumprod": lambda x, axis: np.cumprod(x, axis=axis, dtype=x.dtype),
    "sort": np.sort,
    "argsort": lambda x, axis: np.argsort(x, axis=axis, kind="stable").astype(np.int32),
}


class Along(Op):
    """ALONG[kind] along one axis of each sample."""

    kind: str
    axis: int

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, INT32 if self.kind == "argsort" else x.dtype)

    def __call__(self, x: Array) -> Array:
        return ALONG[self.kind](x, axis=self.axis + 1)


class TopK(Op):
    """The k largest entries of the last axis in falling order, and where they are (the first of equals first)."""

    k: int

    def infer(self, x: Spec) -> tuple[Spec, Spec]:
        if not x.shape or (x.shape[-1] is not None and not 0 < self.k <= x.shape[-1]):
            raise ShapeError(f"the {self.k} largest of {list(x.shape)}")
        return Spec((*x.shape[:-1], self.k), x.dtype), Spec((*x.shape[:-1], self.k), INT32)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        # stable on the reversed axis, then reversed: falling order with the first of equals first
        last = x.shape[-1] - 1
        order = last - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., : self.k]
        return np.take_along_axis(x, order, axis=-1), order.astype(np.int32)


class Triangle(Op):
    """Zero above (or, upper: below) diagonal k of the last two axes."""

    k: int
    upper: bool = False

    def infer(self, x: Spec) -> Spec:
        if len(x.shape) < 2:
            raise ShapeError("a triangle needs two axes a sample")
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        return np.triu(x, self.k) if self.upper else np.tril(x, self.k)


def reduce(call: LayerCall, kind: str, x: Value, axes: tuple[int, ...], keepdims: bool = False) -> Value:
    """REDUCTIONS[kind] of x over sample axes, in the dtype that Keras computes it in."""
    takes, dtype = REDUCTIONS[kind].takes, x.spec.dtype
    if takes == "float" and dtype.kind != "f":
        x = cast(call, x, call.dtype)
    elif takes == "bool":
        x = cast(call, x, BOOL)
    elif takes == "sum" and dtype.kind in "biu" and dtype.itemsize < 4:
        x = cast(call, x, np.dtype("uint32") if dtype.kind == "u" else INT32)
    return call.emit(Reduce(kind, axes, keepdims), x)


@operation(*_CLASSES)
def reduction(call: LayerCall, x: Value) -> Value:
    kind, c, rank = _CLASSES[call.layer.class_name], call.config, len(x.shape) + 1
    if c.get("initial") is not None:
        call.refuse(f"initial={c['initial']!r}")
    axes = sample_axes(call, c.get("axis"), rank)
    if kind == "mean" and c.get("whole") and x.spec.dtype.kind in "iu":
        call.refuse("the mean of whole numbers, which TensorFlow rounds to a whole number")
    if kind in ("argmax", "argmin") and len(axes) != 1:
        call.refuse(f"axis={c.get('axis')!r}; one axis is supported")
    y = reduce(call, kind, x, axes, bool(c.get("keepdims", False)))
    return cast(call, y, np.dtype(c["output_type"])) if c.get("output_type") in ("int32", "int64") else y


@operation("Cumsum", "Cumprod", "Sort", "Argsort")
def along(call: LayerCall, x: Value) -> Value:
    kind = call.layer.class_name.lower()
    default = -1 if kind in ("sort", "argsort") else None
    axis = sample_axis(call, call.config.get("axis", default), len(x.shape) + 1)
    if call.config.get("dtype") is not None:
        call.refuse(f"option dtype={call.config['dtype']!r}")
    if kind in ("cumsum", "cumprod") and x.spec.dtype == BOOL:
        x = cast(call, x, INT32)
    back = slice(None, None, -1)
    descending = str(call.config.get("direction", "ascending")).lower() == "descending"
    if call.config.get("reverse") or (descending and kind == "argsort"):
        # a falling order of equals starts with the first of them
        x = part(call, x, axis, back) if not descending else unary(call, "negative", x)
    if call.config.get("exclusive"):
        widths = [(0, 0)] * len(x.shape)
        widths[axis] = (1, 0)
        x = call.emit(Pad(tuple(widths), "constant", float(kind == "cumprod")), part(call, x, axis, slice(None, -1)))
    y = call.emit(Along(kind, axis), x)
    return part(call, y, axis, back) if call.config.get("reverse") or (descending and kind == "sort") else y


@operation("Average")
def average(call: LayerCall, x: Value, weights: Any = None) -> Value:
    weights = call.take("weights", weights)
    axis = sample_axis(call, call.config.get("axis"), len(x.shape) + 1)
    if weights is None:
        return reduce(call, "mean", x, (axis,))
    if isinstance(weights, Value):
        total = binary(call, "multiply", x, weights)
        return binary(call, "divide", reduce(call, "sum", total, (axis,)), reduce(call, "sum", weights, (axis,)))
    w = np.asarray(weights, call.dtype)
    if w.ndim != 1:
        call.refuse(f"weights of shape {list(w.shape)}")
    w = w.reshape(-1, *(1,) * (len(x.shape) - 1 - axis))
    return binary(call, "divide", reduce(call, "sum", binary(call, "multiply", x, w), (axis,)), np.asarray(w.sum()))


@operation("TopK")
def top_k(call: LayerCall, x: Value) -> tuple[Value, ...]:
    call.option("sorted", True, default=True)
    return call.emit_all(TopK(int(call.setting("k"))), x)


def band(rows: int, columns: int, lower: int, upper: int) -> Array:
    """Where an entry lies at most `lower` below and `upper` above the diagonal; -1: any distance."""
    away = np.arange(columns) - np.arange(rows)[:, None]
    return np.asarray(((lower < 0) | (away >= -lower)) & ((upper < 0) | (away <= upper)))


@operation("Tril", "Triu")
def triangle(call: LayerCall, x: Value) -> Value:
    return call.emit(Triangle(int(call.config.get("k", 0)), call.layer.class_name == "Triu"), x)


@operation("Diff")
def diff(call: LayerCall, x: Value) -> Value:
    axis = sample_axis(call, call.config.get("axis", -1), len(x.shape) + 1)
    if x.spec.dtype == BOOL:
        raise DtypeError(f"layer {call.name!r}: differences of booleans")
    for _ in range(int(call.config.get("n", 1))):
        x = binary(call, "subtract", part(call, x, axis, slice(1, None)), part(call, x, axis, slice(None, -1)))
    return x
