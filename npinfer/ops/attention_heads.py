"""Attention of several heads at once: the product of queries and keys, masks, the softmax and the weighted sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.attention import allowed, check_masks, penalise, softmax
from npinfer.ops.shapes import broadcast


class HeadAttention(Op):
    """Scaled dot-product attention of several heads: (q, k, v, *masks) -> y, or (y, scores).

    q: (…, Tq, heads·d), k: (…, Ts, kv_heads·d), v: (…, Ts, kv_heads·dv); y: (…, Tq, heads·dv); scores: (…, heads, Tq, Ts), the
    weights after the softmax. Query head h reads key head h // (heads / kv_heads). masks: kinds of the mask inputs (see
    `allowed`), True where a place may be looked at. penalised: masked scores get PENALTY added, else they are replaced by a
    number far below all others. zeroed: masked weights are 0 even where a query may look at nothing.
    """

    heads: int
    kv_heads: int
    scale: float
    causal: bool = False
    window: int | None = None
    masks: tuple[str, ...] = ()
    penalised: bool = True
    zeroed: bool = False
    scores: bool = False

    def infer(self, q: Spec, k: Spec, v: Spec, *masks: Spec) -> Spec | tuple[Spec, ...]:
        if min(len(x.shape) for x in (q, k, v)) < 2 or len({len(x.shape) for x in (q, k, v)}) > 1:
            raise ShapeError("queries, keys and values must have the same number of axes, two at least")
        out = self.width(q, k, v)
        broadcast(k.shape[:-1], v.shape[:-1])
        lead = broadcast(q.shape[:-2], k.shape[:-2])
        check_masks(self.masks, masks, self.heads, q.shape[-2], k.shape[-2])
        if masks and len(q.shape) != 2:
            raise ShapeError(f"masks on inputs of {len(q.shape)} axes a sample")
        y = Spec((*lead, q.shape[-2], out), q.dtype)
        return (y, Spec((*lead, self.heads, q.shape[-2], k.shape[-2]), q.dtype)) if self.scores else y

    def width(self, q: Spec, k: Spec, v: Spec) -> int:
        """The number of features of the result."""
        wide, depth, out = q.shape[-1], k.shape[-1], v.shape[-1]
        if wide is None or depth is None or out is None or self.heads % self.kv_heads:
            raise ShapeError("the number of heads and features must be known and fit")
        if wide % self.heads or depth * self.heads != wide * self.kv_heads or out % self.kv_heads:
            raise ShapeError(f"{wide} and {depth} features don't make {self.heads} and {self.kv_heads} heads")
        return out // self.kv_heads * self.heads

    def __call__(self, q: Array, k: Array, v: Array, *masks: Array) -> Any:
        mask = allowed(self.masks, masks, self.causal, self.window, q.shape[-2], k.shape[-2])
        y, w = self.attend(q, k, v, mask if mask is None or mask.ndim == 4 else mask[:, None])
        return (y, w) if self.scores else y

    def attend(self, q: Array, k: Array, v: Array, mask: Array | None) -> tuple[Array, Array]:
        """y and scores; the mask is broadcast to the scores."""
        groups = self.heads // self.kv_heads
        steps, places = q.shape[-2], k.shape[-2]
        # (…, kv_heads, groups, steps, d) against (…, kv_heads, 1, places, d): no key is copied
        q = (q * q.dtype.type(self.scale)).reshape(*q.shape[:-1], self.kv_heads, groups, q.shape[-1] // self.heads)
        q = np.moveaxis(q, -4, -2)
        k, v = (x.reshape(*x.shape[:-1], self.kv_heads, 1, x.shape[-1] // self.kv_heads) for x in (k, v))
        k, v = np.moveaxis(k, -4, -2), np.moveaxis(v, -4, -2)
        s = np.matmul(q, k.swapaxes(-1, -2))
        lead = s.shape[:-4]
        s = s.reshape(*lead, self.heads, steps, places)
        if mask is not None:
            s = penalise(s, mask) if self.penalised else np.where(mask, s, np.finfo(s.dtype).min * s.dtype.type(0.7))
        w = self.weigh(s)
        if mask is not None and self.zeroed:
            w = np.where(mask, w, s.dtype.type(0))
        y = np.matmul(w.reshape(*lead, self.kv_heads, groups, steps, places), v)
        return np.moveaxis(y, -2, -4).reshape(*lead, steps, self.heads * v.shape[-1]), w

    def weigh(self, scores: Array) -> Array:
        return softmax(scores)
