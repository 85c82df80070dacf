"""Sums, extremes, orders along axes of a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.softmax import ranked
from npinfer.export.values import BOOL, INT32, INT64, Value
from npinfer.ops.reductions import Along, Reduce, TopK, Triangle

Axes = Sequence[int]


def _plain(kind: str) -> Callable[[Value, Axes], Value]:
    return lambda x, axes: x.reduce(kind, axes)


def _extreme(kind: str) -> Callable[[Value, Axes], Value]:
    def function(x: Value, axes: Axes) -> Value:
        narrow = x.dtype  # bool and short integers have no such reduction in ONNX or in its runtimes
        wide = x if narrow.kind == "f" or narrow.itemsize >= 4 else x.cast(INT32)
        return wide.reduce(kind, axes).cast(narrow)

    return function


def _variance(x: Value, axes: Axes) -> Value:
    away = x - x.reduce("ReduceMean", axes)
    return (away * away).reduce("ReduceMean", axes)


def _logsumexp(x: Value, axes: Axes) -> Value:
    top = x.reduce("ReduceMax", axes)
    top = (abs(top) < inf).where(top, 0.0)
    return (x - top).exp().reduce("ReduceSum", axes).do("Log") + top


def _median(x: Value, axes: Axes) -> Value:
    """The mean of the two middle entries; NaN where there is one."""
    net, rank = x.net, x.rank
    kept = [a for a in range(rank) if a not in axes]
    sizes = [net.size(x, a) for a in axes]
    if not all(isinstance(n, int) for n in sizes):
        net.refuse("the median over an axis of unknown size")
    count = int(np.prod([n for n in sizes if isinstance(n, int)]))
    flat = net.reshape(net.transpose(x, [*kept, *axes]), [*(0 for _ in kept), *([-1] if count else [0])])
    rising, _ = ranked(Value(net, flat.name, x.dtype, (None,) * len(kept)), -1, largest=False, count=count)
    middle = rising.slice(-1, (count - 1) // 2, count // 2 + 1).reduce("ReduceMean", [-1], keepdims=False)
    lost = x.do("IsNaN", dtype=BOOL).cast(INT32).reduce("ReduceMax", axes).cast(BOOL)
    return lost.where(np.nan, middle.unsqueeze(*axes))


def _logical(kind: str) -> Callable[[Value, Axes], Value]:
    return lambda x, axes: x.cast(INT32).reduce(kind, axes).cast(BOOL)


def _nonzero(x: Value, axes: Axes) -> Value:
    other = x if x.dtype == BOOL else ~x.equals(0)
    return other.cast(INT32).reduce("ReduceSum", axes)


def _place(kind: str) -> Callable[[Value, Axes], Value]:
    def function(x: Value, axes: Axes) -> Value:
        wide = x if x.dtype.kind == "f" or x.dtype.itemsize >= 4 else x.cast(INT32)
        return wide.do(kind, dtype=INT64, axis=axes[0], keepdims=1).cast(INT32)

    return function


def _without_nan(x: Value, instead: float) -> Value:
    return x if x.dtype.kind != "f" else x.do("IsNaN", dtype=BOOL).where(instead, x)


def _nan_extreme(kind: str, instead: float) -> Callable[[Value, Axes], Value]:
    def function(x: Value, axes: Axes) -> Value:
        best = _extreme(kind)(_without_nan(x, instead), axes)
        if x.dtype.kind != "f":
            return best
        empty = x.do("IsNaN", dtype=BOOL).cast(INT32).reduce("ReduceMin", axes).cast(BOOL)
        return empty.where(np.nan, best)

    return function


def _nanmean(x: Value, axes: Axes) -> Value:
    counted = (~x.do("IsNaN", dtype=BOOL)).cast(x.dtype).reduce("ReduceSum", axes)
    return _without_nan(x, 0.0).reduce("ReduceSum", axes) / counted


#: (x, axes with the batch counted) → the reduction with its axes kept; the kinds of npinfer.ops.reductions.REDUCTIONS
KINDS: dict[str, Callable[[Value, Axes], Value]] = {
    "sum": _plain("ReduceSum"),
    "prod": _plain("ReduceProd"),
    "mean": _plain("ReduceMean"),
    "std": lambda x, axes: _variance(x, axes).sqrt(),
    "var": _variance,
    "max": _extreme("ReduceMax"),
    "min": _extreme("ReduceMin"),
    "ptp": lambda x, axes: _extreme("ReduceMax")(x, axes) - _extreme("ReduceMin")(x, axes),
    "median": _median,
    "all": _logical("ReduceMin"),
    "any": _logical("ReduceMax"),
    "count_nonzero": _nonzero,
    "argmax": _place("ArgMax"),
    "argmin": _place("ArgMin"),
    "logsumexp": _logsumexp,
    "nansum": lambda x, axes: _without_nan(x, 0.0).reduce("ReduceSum", axes),
    "nanprod": lambda x, axes: _without_nan(x, 1.0).reduce("ReduceProd", axes),
    "nanmean": _nanmean,
    "nanmax": _nan_extreme("ReduceMax", -inf),
    "nanmin": _nan_extreme("ReduceMin", inf),
}


@exports(Reduce)
def reduce(net: Net, op: Reduce, x: Value) -> Value:
    axes = [a + 1 for a in op.axes]
    y = KINDS[op.kind](x, axes) if axes else x
    return y if op.keepdims or not axes else y.squeeze(*axes)


def _running_product(x: Value, axis: int) -> Value:
    """Each entry's product with those before it: the square of all pairs, for ONNX has no CumProd."""
    net = x.net
    places = net.arange(net.size(x, axis))
    upto = places.unsqueeze(0) <= places.unsqueeze(1)  # (to, from)
    pairs = x.unsqueeze(axis)
    upto = upto.unsqueeze(*range(2, 2 + x.rank - 1 - axis)) if x.rank - 1 > axis else upto
    return upto.where(pairs, np.asarray(1, x.dtype)).reduce("ReduceProd", [axis + 1], keepdims=False)


@exports(Along)
def along(net: Net, op: Along, x: Value) -> Value:
    axis = op.axis + 1
    if op.kind == "cumprod":
        return _running_product(x, axis)
    if op.kind == "cumsum":
        return x.do("CumSum", np.asarray(axis, INT64))
    values, places = ranked(x, axis, largest=False)
    return values if op.kind == "sort" else places.cast(INT32)


@exports(TopK)
def top_k(net: Net, op: TopK, x: Value) -> tuple[Value, Value]:
    values, places = ranked(x, -1, largest=True, count=op.k)
    return values, places.cast(INT32)


@exports(Triangle)
def triangle(net: Net, op: Triangle, x: Value) -> Value:
    return x.do("Trilu", np.asarray(op.k, INT64), upper=int(op.upper))
