"""Attention and AdditiveAttention, and what all attention shares: masks and the softmax over places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Shape, Spec
from npinfer.ops.cast import as_float
from npinfer.ops.identity import Cast
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.shapes import broadcast

if TYPE_CHECKING:
    from npinfer.readers.archive import Config

BOOL = np.dtype(bool)
#: what Keras adds to the score of a masked place
PENALTY = -1e9


def softmax(scores: Array) -> Array:
    """exp(s - max s) / sum over the last axis; overwrites scores.

    A weight of exactly 0 stays 0 in a row whose sum is NaN (a score is +inf); Keras gives 0 or NaN there, machine by machine.
    """
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    np.divide(scores, scores.sum(axis=-1, keepdims=True), out=scores, where=scores != 0)
    return scores


def allowed(kinds: Sequence[str], masks: Sequence[Array], causal: bool, window: int | None, q: int, s: int) -> Array | None:
    """Which of s places each of q queries may look at: all masks at once, to be broadcast to (n, q, s) or (n, heads, q, s).

    kinds: "query" (n, q), "value" or "key" (n, s), "attention" (n, q, s) or (n, heads, q, s).
    """
    parts: list[Array] = []
    for kind, mask in zip(kinds, masks):
        parts.append(mask[..., None] if kind == "query" else mask[..., None, :] if kind in ("value", "key") else mask)
    if causal:
        parts.append(np.tri(q, s, dtype=bool)[None])
    if window is not None:
        parts.append((np.abs(np.arange(q)[:, None] - np.arange(s)) < window)[None])
    rank = max((p.ndim for p in parts), default=0)
    whole: Array | None = None
    for part in parts:
        part = part if part.ndim == rank else part[:, None]
        whole = part if whole is None else whole & part
    return whole


def check_masks(kinds: Sequence[str], masks: Sequence[Spec], heads: int, q: int | None, s: int | None) -> None:
    if len(kinds) != len(masks):
        raise ShapeError(f"{len(masks)} masks given, {len(kinds)} are needed")
    for kind, mask in zip(kinds, masks):
        needed: Shape = {"query": (q,), "value": (s,), "key": (s,)}.get(kind, (q, s))
        if kind == "attention" and len(mask.shape) == 3:
            needed = (heads, q, s)
        if len(mask.shape) != len(needed) or not all(n in (None, 1, m) or m is None for n, m in zip(mask.shape, needed)):
            raise ShapeError(f"the {kind} mask has shape {list(mask.shape)}; {list(needed)} is needed")


def penalise(scores: Array, mask: Array) -> Array:
    """scores + (1 - mask) * PENALTY, as Keras computes it: in float32 a row that is masked throughout loses its digits."""
    penalty: Array = (1 - mask.astype(scores.dtype)) * scores.dtype.type(PENALTY)
    return scores + penalty


class Attention(Op):
    """Keras's Attention and AdditiveAttention: (query, value, key, *masks) -> y, or (y, scores).

    query: (Tq, d), key: (Ts, d), value: (Ts, dv); y: (Tq, dv). Scores by kind: "dot" scale·(q·k) · "concat"
    weight·Σ tanh(scale·(q + k)) · "additive" Σ scale·tanh(q + k). scale: (), or (d,) for "additive", or None.
    masks: "query" (rows of y are multiplied by it) and "value".
    """

    kind: str
    scale: Array | None = None
    weight: Array | None = None
    causal: bool = False
    masks: tuple[str, ...] = ()
    scores: bool = False
    kinds: ClassVar[tuple[str, ...]] = ("dot", "concat", "additive")

    def infer(self, q: Spec, v: Spec, k: Spec, *masks: Spec) -> Spec | tuple[Spec, ...]:
        if {len(x.shape) for x in (q, v, k)} != {2}:
            raise ShapeError("query, value and key must be (steps, features) a sample")
        broadcast(q.shape[-1:], k.shape[-1:])
        broadcast(v.shape[:1], k.shape[:1])
        wanted = (q.shape[-1],) if self.kind == "additive" else ()
        if self.scale is not None and broadcast(self.scale.shape, wanted) != broadcast(wanted, wanted):
            raise ShapeError(f"scale has shape {list(self.scale.shape)}; {list(wanted)} is needed")
        check_masks(self.masks, masks, 1, q.shape[0], k.shape[0])
        y = Spec((q.shape[0], v.shape[1]), q.dtype)
        return (y, Spec((q.shape[0], k.shape[0]), q.dtype)) if self.scores else y

    def _scores(self, q: Array, k: Array) -> Array:
        if self.kind == "dot":
            s: Array = np.matmul(q, k.swapaxes(-1, -2))
            return s if self.scale is None else s * self.scale
        pairs = q[:, :, None] + k[:, None]
        if self.kind == "concat":
            pairs = pairs if self.scale is None else self.scale * pairs
            total: Array = np.tanh(pairs).sum(axis=-1)
            return total if self.weight is None else self.weight * total
        pairs = np.tanh(pairs)
        weighed: Array = (pairs if self.scale is None else self.scale * pairs).sum(axis=-1)
        return weighed

    def __call__(self, q: Array, v: Array, k: Array, *masks: Array) -> Any:
        s = self._scores(q, k)
        places = [(kind, m) for kind, m in zip(self.masks, masks) if kind != "query"]
        mask = allowed([a for a, _ in places], [m for _, m in places], self.causal, None, s.shape[-2], s.shape[-1])
        w = softmax(s if mask is None else penalise(s, mask))
        y = np.matmul(w, v)
        if "query" in self.masks:
            y *= masks[self.masks.index("query")][..., None]  # as Keras does: NaN stays
        return (y, w) if self.scores else y


# Attention and AdditiveAttention


def _scored(config: Config) -> Iterable[str]:
    if config.get("use_scale", False):
        yield "scale"
    if config.get("score_mode", "dot") == "concat":
        yield "concat_score_weight"


def _score_check(config: Config) -> Iterator[str]:
    if config.get("score_mode", "dot") not in ("dot", "concat"):
        yield f"option score_mode={config['score_mode']!r}"


def _attend(call: LayerCall, inputs: Any, kind: str) -> Any:
    if isinstance(inputs, Value) or not 2 <= len(inputs) <= 3:
        raise ShapeError(f"layer {call.name!r}: takes [query, value] or [query, value, key]")
    given = call.take("mask")
    masks = list(given) if isinstance(given, (list, tuple)) and not isinstance(given, Value) else [v.mask for v in inputs]
    query_mask, value_mask = (boolean(call, m) for m in masks[:2])
    q, v, *key = (as_float(call, x._replace(mask=None)) for x in inputs)
    present = [(name, m) for name, m in (("query", query_mask), ("value", value_mask)) if m is not None]
    op = Attention(
        kind,
        call.weights.get("scale"),
        call.weights.get("concat_score_weight"),
        causal=bool(call.take("use_causal_mask")) or bool(call.config.get("causal")),
        masks=tuple(name for name, _ in present),
        scores=bool(call.take("return_attention_scores")),
    )
    y, *scores = call.emit_all(op, q, v, key[0] if key else v, *(m for _, m in present))
    y = y._replace(mask=query_mask)
    return (y, *scores) if scores else y


def boolean(call: LayerCall, mask: Any) -> Value | None:
    if mask is None:
        return None
    if not isinstance(mask, Value):
        call.refuse("a mask that isn't a tensor of the model")
    return mask if mask.spec.dtype == BOOL else call.emit(Cast(BOOL), mask._replace(mask=None))


@layer("Attention", variables=_scored, mask="own", check=_score_check)
def attention(call: LayerCall, inputs: Any) -> Any:
    """Dot and concat scores, with or without scale; masks, causal mask, scores."""
    return _attend(call, inputs, call.config.get("score_mode", "dot"))


@layer("AdditiveAttention", variables=lambda c: ["scale"] if c.get("use_scale", True) else [], mask="own")
def additive_attention(call: LayerCall, inputs: Any) -> Any:
    """With or without scale; masks, causal mask, scores."""
    return _attend(call, inputs, "additive")
