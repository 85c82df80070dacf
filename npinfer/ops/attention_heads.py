"""MultiHeadAttention and GroupQueryAttention.

The projections are Dense ops (an einsum over one axis is a matrix product once heads and head size are one axis); what stays is
the product of queries and keys, the masks, the softmax and the weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.activations import activate
from npinfer.ops.attention import BOOL, allowed, boolean, check_masks, penalise, softmax
from npinfer.ops.cast import as_float
from npinfer.ops.dense import Dense
from npinfer.ops.identity import Cast
from npinfer.ops.merge import Merge
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.reshape import reshaped
from npinfer.ops.shapes import broadcast

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


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
        wide, depth, out = q.shape[-1], k.shape[-1], v.shape[-1]
        if wide is None or depth is None or out is None or self.heads % self.kv_heads:
            raise ShapeError("the number of heads and features must be known and fit")
        if wide % self.heads or depth * self.heads != wide * self.kv_heads or out % self.kv_heads:
            raise ShapeError(f"{wide} and {depth} features don't make {self.heads} and {self.kv_heads} heads")
        broadcast(k.shape[:-1], v.shape[:-1])
        lead = broadcast(q.shape[:-2], k.shape[:-2])
        check_masks(self.masks, masks, self.heads, q.shape[-2], k.shape[-2])
        if masks and len(q.shape) != 2:
            raise ShapeError(f"masks on inputs of {len(q.shape)} axes a sample")
        y = Spec((*lead, q.shape[-2], out // self.kv_heads * self.heads), q.dtype)
        return (y, Spec((*lead, self.heads, q.shape[-2], k.shape[-2]), q.dtype)) if self.scores else y

    def __call__(self, q: Array, k: Array, v: Array, *masks: Array) -> Any:
        groups = self.heads // self.kv_heads
        steps, places = q.shape[-2], k.shape[-2]
        # (…, kv_heads, groups, steps, d) against (…, kv_heads, 1, places, d): no key is copied
        q = (q * q.dtype.type(self.scale)).reshape(*q.shape[:-1], self.kv_heads, groups, -1)
        q = np.moveaxis(q, -4, -2)
        k, v = (np.moveaxis(x.reshape(*x.shape[:-1], self.kv_heads, 1, -1), -4, -2) for x in (k, v))
        s = np.matmul(q, k.swapaxes(-1, -2))
        lead = s.shape[:-4]
        s = s.reshape(*lead, self.heads, steps, places)
        mask = allowed(self.masks, masks, self.causal, self.window, steps, places)
        if mask is not None:
            mask = mask if mask.ndim == 4 else mask[:, None]
            s = penalise(s, mask) if self.penalised else np.where(mask, s, np.finfo(s.dtype).min * s.dtype.type(0.7))
        w = softmax(s)
        if mask is not None and self.zeroed:
            w = np.where(mask, w, s.dtype.type(0))
        y = np.matmul(w.reshape(*lead, self.kv_heads, groups, steps, places), v)
        y = np.moveaxis(y, -2, -4).reshape(*lead, steps, -1)
        return (y, w) if self.scores else y


# the layers


def _projected(config: Config) -> Iterable[str]:
    for name in ("query", "key", *(["gate"] if config.get("use_gate") else []), "value", "output"):
        yield f"{name}_dense/kernel"
        if config.get("use_bias", True):
            yield f"{name}_dense/bias"


def _project(call: LayerCall, x: Value, name: str, bound: int = 1) -> Value:
    """The einsum projection `name`: its first `bound` kernel axes are summed over, the others made."""
    kernel, bias = call.weights[f"{name}_dense/kernel"], call.weights.get(f"{name}_dense/bias")
    n_in = int(np.prod(kernel.shape[:bound]))
    return call.emit(Dense(kernel.reshape(n_in, -1), None if bias is None else bias.reshape(-1)), x)


def _heads(call: LayerCall, query: Any, value: Any, key: Any, heads: int, kv_heads: int, depth: int) -> Any:
    """The multi-head layers, whose config says the same in other words."""
    value, key = call.take("value", value), call.take("key", key)
    given = [query, value] if key is None else [query, value, key]
    if not all(isinstance(v, Value) for v in given):
        raise ShapeError(f"layer {call.name!r}: takes query, value and perhaps key")
    scores = bool(call.take("return_attention_scores"))
    causal = bool(call.take("use_causal_mask"))
    masks = _collect(call, query, value, key)
    version, config = call.version, call.config
    newest = version.major >= 3 and not version.numbers
    # Keras 3.7 brought a fused path, which replaces masked scores; 3.10 sets masked weights to 0 on the other one
    fused = (newest or version.numbers >= (3, 7)) and version.major >= 3
    fused = fused and not scores and not config.get("dropout") and len(query.shape) == 2
    zeroed = not fused and version.major >= 3 and (newest or version.numbers >= (3, 10))
    if fused or len(masks) > 1 or causal:
        masks = {k: m if m.spec.dtype == BOOL else call.emit(Cast(BOOL), m) for k, m in masks.items()}
    op = HeadAttention(
        heads,
        kv_heads,
        1.0 / float(np.sqrt(float(depth))),
        causal,
        config.get("sliding_window"),
        tuple(masks),
        penalised=not fused,
        zeroed=zeroed,
        scores=scores,
    )
    q, v, k = (as_float(call, x._replace(mask=None)) for x in (query, value, value if key is None else key))
    parts = _project(call, q, "query"), _project(call, k, "key"), _project(call, v, "value")
    y, *weights = call.emit_all(op, *parts, *masks.values())
    if config.get("use_gate"):
        y = call.emit(Merge("multiply"), y, activate(call, "sigmoid", _project(call, q, "gate")))
    made = call.weights["output_dense/kernel"].shape[2:]
    y = _project(call, y, "output", 2)
    if len(made) != 1:
        y = reshaped(call, y, (*y.shape[:-1], *made))
    y = y._replace(mask=query.mask)
    return (y, *weights) if weights else y


def _collect(call: LayerCall, query: Value, value: Value, key: Value | None) -> dict[str, Value]:
    """The masks that count, by kind: the tensors' own, unless the call names others. TensorFlow before 2.10 used none."""
    automatic = not (call.version.major == 2 and bool(call.version.numbers) and call.version.numbers < (2, 10))
    found: dict[str, Value] = {}
    for kind, tensor in (("query", query), ("value", value), ("key", key)):
        mask = call.take(f"{kind}_mask")
        if mask is None and automatic and tensor is not None:
            mask = tensor.mask
        mask = boolean(call, mask)
        if mask is not None and not (kind == "key" and mask is found.get("value")):
            found[kind] = mask
    explicit = call.take("attention_mask")
    if explicit is not None:
        if not isinstance(explicit, Value):
            call.refuse("an attention_mask that isn't a tensor of the model")
        found["attention"] = explicit._replace(mask=None)
    if found and len(query.shape) != 2:
        call.refuse(f"masks on inputs of {len(query.shape)} axes a sample")
    return found


def _axes_check(config: Config) -> Iterator[str]:
    axes = config.get("attention_axes")
    if isinstance(axes, (list, tuple)) and len(axes) > 1:
        yield f"option attention_axes={list(axes)} (one axis is supported)"


@layer("MultiHeadAttention", variables=_projected, mask="own", check=_axes_check)
def multi_head_attention(call: LayerCall, query: Value, value: Any = None, key: Any = None) -> Any:
    axes: Any = call.config.get("attention_axes")
    rank = len(query.shape) + 1
    axis: int | None = axes[0] if isinstance(axes, (list, tuple)) and axes else axes
    # attention over the last axis before the features; with three axes in all that is the default
    if (axis is None and rank != 3) or (axis is not None and axis % rank != rank - 2):
        call.refuse(f"option attention_axes={axes!r} on inputs of {rank} axes")
    heads, depth = call.config["num_heads"], call.config["key_dim"]
    return _heads(call, query, value, key, heads, heads, depth)


@layer("GroupedQueryAttention", "GroupQueryAttention", variables=_projected, mask="own")
def grouped_query_attention(call: LayerCall, query: Value, value: Any = None, key: Any = None) -> Any:
    config: Mapping[str, Any] = call.config
    return _heads(call, query, value, key, config["num_query_heads"], config["num_key_value_heads"], config["head_dim"])
