"""Categories to numbers."""

from __future__ import annotations

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import INT32, INT64, Value
from npinfer.ops.encoding import Count, Digitize, Lookup


@exports(Count)
def count(net: Net, op: Count, x: Value) -> Value:
    same = x.cast(INT64).unsqueeze(-1).equals(np.arange(op.classes)).cast(INT32)
    return same.reduce("ReduceMax" if op.once else "ReduceSum", [1], keepdims=False).cast(op.dtype)


@exports(Digitize)
def digitize(net: Net, op: Digitize, x: Value) -> Value:
    above = ~(x.unsqueeze(-1) < op.boundaries.astype(x.dtype))  # NaN is above all of them, as NumPy sorts it
    return above.cast(INT32).reduce("ReduceSum", [-1], keepdims=False)


@exports(Lookup)
def lookup(net: Net, op: Lookup, x: Value) -> Value:
    same = x.cast(INT64).unsqueeze(-1).equals(op.keys.astype(INT64)).cast(INT64)
    away = (op.places - op.default).astype(INT64)
    found = (same * away).reduce("ReduceSum", [-1], keepdims=False) + op.default
    if op.spread > 1:
        known = same.reduce("ReduceMax", [-1], keepdims=False)
        found = found + (1 - known) * x.cast(INT64).do("Mod", np.asarray(op.spread, INT64))
    return found.cast(op.places.dtype)
