"""Ops whose shapes follow other tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import REFUSED, exports
from npinfer.export.values import INT32, INT64, Value, ints
from npinfer.ops.linear_algebra import LinearAlgebra
from npinfer.ops.sized import PerSample, SizedReshape, SizedTile, SizeOf

REFUSED[LinearAlgebra] = "ONNX has no inverses, factors or solutions of matrices"


def _batch(net: Net, x: Value) -> Value:
    """The size of the batch, an int64 vector of one entry."""
    size = net.size(x, 0)
    assert isinstance(size, Value)
    return size


@exports(SizeOf)
def size_of(net: Net, op: SizeOf, x: Value) -> Value:
    size = net.size(x, op.axis + 1)
    number = net.fixed(ints([size])) if isinstance(size, int) else size
    shaped = net.reshape(number.cast(INT32), [1] * (op.rank + 1))
    return shaped.do("Expand", net.vector([_batch(net, x), *(1,) * op.rank]))


@exports(PerSample)
def per_sample(net: Net, op: PerSample, x: Value) -> Value:
    return net.fixed(op.array[None]).do("Expand", net.vector([_batch(net, x), *op.array.shape]))


def _sizes(net: Net, sizes: Sequence[Any], like: Sequence[Value]) -> list[int | Value]:
    return [net.size(like[n[0]], n[1] + 1) if isinstance(n, tuple) else n for n in sizes]


@exports(SizedReshape)
def sized_reshape(net: Net, op: SizedReshape, x: Value, *like: Value) -> Value:
    return net.reshape(x, [0, *_sizes(net, op.sizes, like)])


@exports(SizedTile)
def sized_tile(net: Net, op: SizedTile, x: Value, *like: Value) -> Value:
    repeats = net.vector([1, *_sizes(net, op.repeats, like)])
    return x.do("Tile", repeats.astype(INT64) if isinstance(repeats, np.ndarray) else repeats)
