"""Picking parts of arrays: indices, slices, rows of tables."""

from __future__ import annotations

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import BEFORE_FIRST, INT64, LAST, Value, ints
from npinfer.ops.embedding import Embedding
from npinfer.ops.indexing import GetItem, OneHot, Take, TakeAlongAxis, TakeRows


@exports(GetItem)
def get_item(net: Net, op: GetItem, x: Value) -> Value:
    """Slices of all axes at once, then single entries, then new axes."""
    if op.key == (slice(None, None, -1),):
        return net.flip(x, 1)
    axis, starts, ends, axes, steps, picked, fresh, place = 1, [], [], [], [], [], [], 1
    taken = sum(k is not None and k is not Ellipsis for k in op.key)
    for k in op.key:
        if k is None:
            fresh.append(place)
            place += 1
        elif k is Ellipsis:
            left = x.rank - 1 - taken
            axis, place = axis + left, place + left
        elif isinstance(k, slice):
            step = 1 if k.step is None else int(k.step)
            if (k.start, k.stop, step) != (None, None, 1):
                first, last = (0, LAST) if step > 0 else (LAST, BEFORE_FIRST)
                starts.append(first if k.start is None else int(k.start))
                ends.append(last if k.stop is None else int(k.stop))
                axes.append(axis)
                steps.append(step)
            axis, place = axis + 1, place + 1
        else:
            picked.append((axis, int(k)))
            axis += 1
    if axes:
        x = x.do("Slice", ints(starts), ints(ends), ints(axes), ints(steps))
    for at, k in reversed(picked):
        x = x.do("Gather", np.asarray(k, INT64), axis=at)
    return x.unsqueeze(*fresh) if fresh else x


@exports(Take)
def take(net: Net, op: Take, x: Value) -> Value:
    return x.do("Gather", op.indices.astype(INT64), axis=op.axis + 1)


def _places(x: Value) -> Value:
    return x if x.dtype.name in ("int32", "int64") else x.cast(INT64)


@exports(TakeRows)
def take_rows(net: Net, op: TakeRows, x: Value) -> Value:
    return net.fixed(op.table, "table").do("Gather", _places(x))


@exports(Embedding)
def embedding(net: Net, op: Embedding, x: Value) -> Value:
    """ONNX counts negative indices from the end, where no row of an Embedding is right: they are made too large, which a
    runtime that checks indices refuses, as npinfer does."""
    places = _places(x)
    if x.dtype.kind == "i":
        places = (places < 0).where(len(op.table), places)
    return net.fixed(op.table, "embeddings").do("Gather", places)


@exports(TakeAlongAxis)
def take_along_axis(net: Net, op: TakeAlongAxis, x: Value, indices: Value) -> Value:
    return x.do("GatherElements", _places(indices), axis=op.axis + 1)


@exports(OneHot)
def one_hot(net: Net, op: OneHot, x: Value) -> Value:
    classes = np.arange(op.classes).reshape(-1, *(1,) * (x.rank - 1 - op.axis))
    return x.cast(INT64).unsqueeze(op.axis + 1).equals(classes).cast(op.dtype)
