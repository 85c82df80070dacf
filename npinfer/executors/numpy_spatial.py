"""Prepared calls of the NumPy executor for convolution, pooling and what moves data: padded copies, patches and slices are laid
out once, so that a call copies and multiplies and does nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from npinfer.executors.numpy_calls import CALLS, Call, by_meaning, calls_for, value
from npinfer.graph import Array
from npinfer.ops.conv import Conv, blocks
from npinfer.ops.joining import Concatenate
from npinfer.ops.merge import MERGES, Merge
from npinfer.ops.pool import Pool
from npinfer.ops.reshape import Reshape, Transpose
from npinfer.ops.windows import pairs_of, windows


def _batched(buffer: Array, single: bool) -> Array:
    return value(buffer)[None] if single else value(buffer)


def _copy(to: Array, x: Array) -> Call:
    return partial(np.copyto, to, x)


def _padded(x: Array, pairs: Sequence[tuple[int, int]], fill: float) -> tuple[Array, list[Call]]:
    """x with borders, in a buffer of its own whose borders are filled once."""
    if not any(map(any, pairs)):
        return x, []
    sizes = x.shape[1:-1]
    wide = np.full((len(x), *(n + a + b for n, (a, b) in zip(sizes, pairs)), x.shape[-1]), fill, x.dtype)
    return wide, [_copy(wide[(slice(None), *(slice(a, a + n) for n, (a, _) in zip(sizes, pairs)))], x)]


def _conv(op: Conv, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    x, y = _batched(inputs[0], single), _batched(outputs[0], single)
    channels, counts, filters = x.shape[-1], y.shape[1:-1], y.shape[-1]
    if (op.groups > 1 and not op.groups == channels == filters) or not y.size:
        return by_meaning(op, inputs, outputs, single)
    pairs = pairs_of(op.padding, x.shape[1:-1], op.window, op.strides, op.dilation)
    x, calls = _padded(x, pairs, 0)
    if op.groups == 1:
        calls += _products(op, x, y, counts)
    else:
        calls.append(_depthwise(op, x, y, counts))
        if op.bias is not None:
            calls.append(partial(np.add, y, op.bias, y))
    if op.activation is not None:
        calls += calls_for(op.activation, outputs, outputs, single)
    return calls


def _products(op: Conv, x: Array, y: Array, counts: Sequence[int]) -> list[Call]:
    """Patches with a 1 at their end, times the kernel with the bias as its last row."""
    filters, depth = y.shape[-1], op.kernel[..., 0].size
    kernel = op.kernel.reshape(depth, filters)
    if depth == x.shape[-1] and max(op.strides) == 1:
        calls: list[Call] = [partial(np.matmul, x.reshape(-1, depth), kernel, y.reshape(-1, filters))]
        return calls if op.bias is None else [*calls, partial(np.add, y, op.bias, y)]
    more = op.bias is not None
    if op.bias is not None:
        kernel = np.vstack([kernel, op.bias])
    view = windows(x, counts, op.window, op.strides, op.dilation)
    axes, across = 1 + len(counts), op.across(x.shape[-1], counts[-1])
    calls, room = [], np.empty(0, x.dtype)
    for samples, rows in blocks(len(x), counts, depth * x.itemsize, kernel.nbytes):
        part, out = view[samples, rows], y[samples, rows].reshape(-1, filters)
        if len(room) != len(out) * (depth + more):
            room = np.ones(len(out) * (depth + more), x.dtype)
        if across:
            patches = room.reshape(depth + more, -1)
            order = (*range(axes, part.ndim), *range(axes))
            calls.append(_copy(patches[:depth].reshape([part.shape[k] for k in order]), part.transpose(order)))
            calls.append(partial(np.matmul, patches.T, kernel, out))
        else:
            patches = room.reshape(-1, depth + more)
            to = np.ndarray(part.shape, x.dtype, room, 0, _strides(part.shape, axes, depth + more, x.itemsize))
            calls.append(_copy(to, part))
            calls.append(partial(np.matmul, patches, kernel, out))
    return calls


def _strides(shape: Sequence[int], axes: int, width: int, itemsize: int) -> list[int]:
    """Strides of patches (the axes after the first `axes`) that lie in rows of `width` entries."""
    strides, step = list[int](), itemsize
    for k in range(len(shape) - 1, -1, -1):
        if k == axes - 1:
            step = width * itemsize
        strides.insert(0, step)
        step *= shape[k]
    return strides


def _depthwise(op: Conv, x: Array, y: Array, counts: Sequence[int]) -> Call:
    subscripts, view, kernel = op.depthwise_sum(x, counts)
    out = y.reshape(y.shape[0], *view.shape[1 : len(counts)], -1) if view.ndim < 2 * len(counts) + 2 else y
    einsum: Callable[..., object] = np.einsum
    return lambda: einsum(subscripts, view, kernel, out=out)


def _pool(op: Pool, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    x, y = _batched(inputs[0], single), _batched(outputs[0], single)
    sizes, counts = x.shape[1:-1], y.shape[1:-1]
    pairs = pairs_of(op.padding, sizes, op.window, op.strides, (1,) * len(sizes))
    maximum = op.kind == "max"
    if x.dtype.kind != "f" or not y.size:
        return by_meaning(op, inputs, outputs, single)
    x, calls = _padded(x, pairs, -np.inf if maximum else 0)
    combine = np.maximum if maximum else np.add
    last = max((axis for axis, k in enumerate(op.window) if k > 1), default=-1)
    for axis, (k, s, m) in enumerate(zip(op.window, op.strides, counts)):
        before = (slice(None),) * (axis + 1)
        parts = [x[(*before, slice(t, t + (m - 1) * s + 1, s))] for t in range(k)]
        if k == 1:
            x = parts[0]
            continue
        x = y if axis == last and parts[0].shape == y.shape else np.empty(parts[0].shape, y.dtype)
        calls.append(partial(combine, parts[0], parts[1], out=x))
        calls += [partial(combine, x, part, out=x) for part in parts[2:]]
    if not maximum:
        calls.append(partial(np.divide, x, op.shares(sizes, pairs, list(counts), y.dtype), y))
    elif x is not y:
        calls.append(_copy(y, x))
    return calls


def _concatenate(op: Concatenate, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    xs = [_batched(b, single) for b in inputs]
    if any(x.dtype != outputs[0].dtype for x in xs):
        return by_meaning(op, inputs, outputs, single)
    return [partial(np.concatenate, xs, op.axis + 1, _batched(outputs[0], single))]


def _reshape(op: Reshape, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    y = _batched(outputs[0], single)
    return [_copy(y, _batched(inputs[0], single).reshape(y.shape))]


def _transpose(op: Transpose, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    return [_copy(_batched(outputs[0], single), op(_batched(inputs[0], single)))]


def _merge(op: Merge, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    xs, y = [_batched(b, single) for b in inputs], _batched(outputs[0], single)
    if len(xs) < 2 or np.broadcast(xs[0], xs[1]).shape != y.shape:
        return by_meaning(op, inputs, outputs, single)
    combine = MERGES[op.kind]
    calls: list[Call] = [partial(combine, xs[0], xs[1], out=y), *(partial(combine, y, x, out=y) for x in xs[2:])]
    return [*calls, partial(np.divide, y, np.asarray(len(xs), y.dtype), y)] if op.kind == "average" else calls


CALLS.update({Conv: _conv, Pool: _pool, Concatenate: _concatenate, Reshape: _reshape, Transpose: _transpose, Merge: _merge})
