"""Attention, written out: products, masks, softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import Value
from npinfer.graph import Spec
from npinfer.ops.attention import PENALTY, Attention
from npinfer.ops.attention_axes import AxesAttention
from npinfer.ops.attention_heads import HeadAttention
from npinfer.ops.shapes import product


def _turned(x: Value) -> Value:
    """The last two axes swapped."""
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return x.net.transpose(x, order)


def allowed(
    net: Net, kinds: Sequence[str], masks: Sequence[Value], causal: bool, window: int | None, q: int | Value, s: int | Value
) -> Value | None:
    """Which places each query may look at, as in npinfer.ops.attention.allowed; (n, q, s) or, with a mask of that rank,
    (n, heads, q, s)."""
    parts: list[tuple[int, Value]] = []
    for kind, mask in zip(kinds, masks):
        if kind == "attention":
            parts.append((mask.rank, mask))
        else:
            parts.append((3, mask.unsqueeze(-1 if kind == "query" else -2)))
    if causal or window is not None:
        rows, columns = net.arange(q).unsqueeze(-1), net.arange(s).unsqueeze(0)
        if causal:
            parts.append((3, (rows >= columns).unsqueeze(0)))
        if window is not None:
            parts.append((3, (abs(rows - columns) < window).unsqueeze(0)))
    rank = max((r for r, _ in parts), default=3)
    whole: Value | None = None
    for r, part in parts:
        part = part if r == rank else part.unsqueeze(1)
        whole = part if whole is None else whole & part
    if whole is not None:
        whole.shape = (None,) * (rank - 1)
    return whole


def _penalised(scores: Value, mask: Value) -> Value:
    return scores + (1.0 - mask.cast(scores.dtype)) * PENALTY


@exports(Attention)
def attention(net: Net, op: Attention, q: Value, v: Value, k: Value, *masks: Value) -> Value | tuple[Value, ...]:
    if op.kind == "dot":
        s = q.do("MatMul", _turned(k))
        s = s if op.scale is None else s * op.scale
    else:
        pairs = q.unsqueeze(2) + k.unsqueeze(1)
        if op.kind == "concat":
            pairs = pairs if op.scale is None else pairs * op.scale
            s = pairs.do("Tanh").reduce("ReduceSum", [-1], keepdims=False)
            s = s if op.weight is None else s * op.weight
        else:
            pairs = pairs.do("Tanh")
            pairs = pairs if op.scale is None else pairs * op.scale
            s = pairs.reduce("ReduceSum", [-1], keepdims=False)
    places = [(kind, m) for kind, m in zip(op.masks, masks) if kind != "query"]
    steps = net.size(q, 1), net.size(k, 1)
    mask = allowed(net, [a for a, _ in places], [m for _, m in places], op.causal, None, *steps)
    w = (s if mask is None else _penalised(s, mask)).do("Softmax", axis=-1)
    y = w.do("MatMul", v)
    if "query" in op.masks:
        y = y * masks[op.masks.index("query")].unsqueeze(-1).cast(y.dtype)
    return (y, w) if op.scores else y


def _split(x: Value, heads: int, copies: int, order: tuple[int, int, int]) -> Value:
    """(…, steps, heads·d) as (…, *the axes steps, heads, d in another order), each head `copies` times in a row."""
    net, lead = x.net, x.rank - 2
    assert x.shape is not None
    wide = x.shape[-1]
    assert wide is not None
    parts = net.reshape(x, [*(0 for _ in range(lead + 1)), heads, wide // heads])
    parts.shape = (*x.shape[:-1], heads, wide // heads)
    if copies > 1:
        parts = parts.do("Gather", np.arange(heads).repeat(copies), axis=lead + 1)
    return net.transpose(parts, [*range(lead), *(lead + a for a in order)])


@exports(HeadAttention)
def head_attention(net: Net, op: HeadAttention, q: Value, k: Value, v: Value, *masks: Value) -> Value | tuple[Value, ...]:
    mask = allowed(net, op.masks, masks, op.causal, op.window, net.size(q, q.rank - 2), net.size(k, k.rank - 2))
    y, w = attend(op, q, k, v, mask if mask is None or mask.rank == 4 else mask.unsqueeze(1))
    return (y, w) if op.scores else y


def attend(op: HeadAttention, q: Value, k: Value, v: Value, mask: Value | None, several: bool = False) -> tuple[Value, Value]:
    """y and scores, as HeadAttention.attend; several: the weights as AxesAttention makes them over several axes."""
    net, groups, lead = q.net, op.heads // op.kv_heads, q.rank - 2
    scaled = q * op.scale
    scaled.shape = q.shape
    queries, keys = _split(scaled, op.heads, 1, (1, 0, 2)), _split(k, op.kv_heads, groups, (1, 2, 0))
    s = queries.do("MatMul", keys)
    if mask is not None:
        lowest = np.finfo(s.dtype).min * s.dtype.type(0.7)
        s = _penalised(s, mask) if op.penalised else mask.where(s, lowest)
    w = (s - s.reduce("ReduceLogSumExp", [-1])).exp() if several else s.do("Softmax", axis=-1)
    if mask is not None and op.zeroed:
        w = mask.where(w, 0.0)
    y = w.do("MatMul", _split(v, op.kv_heads, groups, (1, 0, 2)))
    y = net.transpose(y, [*range(lead), lead + 1, lead, lead + 2])
    assert v.shape is not None
    assert v.shape[-1] is not None
    return net.reshape(y, [*(0 for _ in range(lead + 1)), v.shape[-1] // op.kv_heads * op.heads]), w


@exports(AxesAttention)
def axes_attention(net: Net, op: AxesAttention, q: Value, k: Value, v: Value, *masks: Value) -> Value | tuple[Value, ...]:
    """The attended axes as one, HeadAttention, and back."""
    other = op.other(q.rank - 1)
    order = [a + 1 for a in (*other, *op.axes)]

    def flat(x: Value) -> Value:
        assert x.shape is not None
        turned, width = net.transpose(x, [0, *order, x.rank - 1]), x.shape[-1]
        assert width is not None
        made = net.reshape(turned, [*(0 for _ in range(len(other) + 1)), -1, width])
        made.shape = (*(x.shape[a] for a in other), product(x.shape[a] for a in op.axes), width)
        return made

    queries, keys = flat(q), flat(k)
    sizes = [net.size(x, a + 1) for x in (q, k) for a in op.axes]
    mask = _combined(net, op, masks, net.size(q, 1), net.size(k, 1))
    if mask is not None:
        whole = len(other) + len(op.of_heads()) + len(sizes) + 1
        index = op.aligned(mask.rank, whole)
        fresh = [a for a, n in enumerate(index) if n is None]
        mask, front = mask.unsqueeze(*fresh) if fresh else mask, whole - len(sizes)
        if len(op.axes) > 1:
            mask = mask.do("Expand", net.vector([*(1 for _ in range(front)), *sizes]))
            places = net.size(queries, queries.rank - 2), net.size(keys, keys.rank - 2)
            mask = net.reshape(mask, [*(0 for _ in range(front)), *places])
        mask = mask.unsqueeze(-3) if op.headless else mask
    y, w = attend(op, queries, keys, flat(v), mask, len(op.axes) > 1)
    features = op.width(*(Spec(x.shape or (), x.dtype) for x in (q, k, v)))
    y = net.reshape(y, [*(0 for _ in range(len(other) + 1)), *sizes[: len(op.axes)], features])
    y = net.transpose(y, [0, *(int(a) + 1 for a in np.argsort(order)), q.rank - 1])
    if not op.scores:
        return y
    return y, net.reshape(w, [*(net.size(q, a) for a in (0, *(a + 1 for a in other))), *op.of_heads(), *sizes])


def _combined(net: Net, op: AxesAttention, masks: Sequence[Value], steps: int | Value, places: int | Value) -> Value | None:
    """As AxesAttention.combined."""
    parts: list[Value] = []
    rank = 3
    for kind, mask in zip(op.masks, masks):
        fresh = [a for a, n in enumerate(op.unfolded(kind, mask.rank)) if n is None]
        rank = mask.rank + len(fresh)
        parts.append(mask.unsqueeze(*fresh) if fresh else mask)
    known = allowed(net, (), (), op.causal, op.window, steps, places)
    whole = None
    for part in [*parts, *([] if known is None else [known])]:
        whole = part if whole is None else whole & part
    if whole is not None:
        whole.shape = (None,) * (rank - 1)
    return whole
