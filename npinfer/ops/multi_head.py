"""The layers MultiHeadAttention and GroupQueryAttention.

The projections are Dense ops (an einsum over one axis is a matrix product once heads and head size are one axis); what stays is
the product of queries and keys, the masks, the softmax and the weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Op
from npinfer.ops.activations import activate
from npinfer.ops.attention import BOOL, boolean
from npinfer.ops.attention_axes import AxesAttention
from npinfer.ops.attention_heads import HeadAttention
from npinfer.ops.cast import as_float
from npinfer.ops.dense import Dense
from npinfer.ops.identity import Cast
from npinfer.ops.merge import Merge
from npinfer.ops.registry import LayerCall, Value, layer
from npinfer.ops.reshape import reshaped

if TYPE_CHECKING:
    from npinfer.readers.archive import Config


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
    window, rank = config.get("sliding_window"), len(query.shape)
    fields = {"penalised": not fused, "zeroed": zeroed, "scores": scores}
    plain = HeadAttention(heads, kv_heads, 1.0 / float(np.sqrt(float(depth))), causal, window, tuple(masks), **fields)
    axes = (0,) if fused else _axes(call, rank)  # the fused path knows no other
    headless = rank - 1 in axes
    if axes == (rank - 2,) and (rank == 2 or not (masks or causal or window is not None)):
        op: Op = plain
    else:
        counts = {"heads": 1, "kv_heads": 1} if headless else {"heads": heads, "kv_heads": kv_heads}
        kept = {n: getattr(plain, n) for n in HeadAttention.fields}
        op = AxesAttention(**{**kept, **counts}, axes=axes, early=version.major < 3, headless=headless)
    q, v, k = (as_float(call, x._replace(mask=None)) for x in (query, value, value if key is None else key))
    parts = [_project(call, x, name) for x, name in ((q, "query"), (k, "key"), (v, "value"))]
    if headless:
        parts = [_apart(call, x, heads) for x in parts]
    y, *weights = call.emit_all(op, *parts, *masks.values())
    if headless:
        y = reshaped(call, y, (*y.shape[:-2], call.weights["output_dense/kernel"][..., 0].size))
    if config.get("use_gate"):
        y = call.emit(Merge("multiply"), y, activate(call, "sigmoid", _project(call, q, "gate")))
    made = call.weights["output_dense/kernel"].shape[2:]
    y = _project(call, y, "output", 2)
    if len(made) != 1:
        y = reshaped(call, y, (*y.shape[:-1], *made))
    y = y._replace(mask=query.mask)
    if _takes_masks(call):
        call.builder.unmasked.update(v.number for v in given)
    return (y, *weights) if weights else y


def _apart(call: LayerCall, x: Value, heads: int) -> Value:
    """The heads as an axis of their own before their features."""
    return reshaped(call, x, (*x.shape[:-1], heads, (x.shape[-1] or 0) // heads))


def _axes(call: LayerCall, rank: int) -> tuple[int, ...]:
    """The sample axes that are attended over, of projected tensors: of the query's `rank` axes all but the features, then the
    heads. Negative ones are counted there too before Keras 3.12; later ones leave the heads out."""
    found: Any = call.config.get("attention_axes")
    if found is None:
        return tuple(range(rank - 1))
    version = call.version
    whole = rank + 2 if version.major < 3 or () < version.numbers < (3, 12) else rank + 1
    axes = []
    for axis in found if isinstance(found, (list, tuple)) else [found]:
        place = axis + whole if isinstance(axis, int) and axis < 0 else axis
        if not isinstance(place, int) or not 0 < place <= rank:
            call.refuse(f"option attention_axes={found!r} on inputs of {rank + 1} axes; places are axes 1 to {rank}")
        axes.append(place - 1)
    return tuple(axes)


def _takes_masks(call: LayerCall) -> bool:
    """Since Keras 3.8 MultiHeadAttention goes by the query's own mask, and takes the masks away from the tensors that it was
    given: layers that run later find none."""
    version = call.version
    return call.layer.class_name == "MultiHeadAttention" and version.major >= 3 and not () < version.numbers < (3, 8)


def _collect(call: LayerCall, query: Value, value: Value, key: Value | None) -> dict[str, Value]:
    """The masks that count, by kind: the tensors' own, unless the call names others. TensorFlow before 2.10 used none."""
    automatic = not (call.version.major == 2 and bool(call.version.numbers) and call.version.numbers < (2, 10))
    found: dict[str, Value] = {}
    for kind, tensor in (("query", query), ("value", value), ("key", key)):
        mask = call.take(f"{kind}_mask")
        if tensor is not None and ((mask is None and automatic) or (kind == "query" and _takes_masks(call))):
            mask = tensor.mask
        mask = boolean(call, mask)
        if mask is not None and not (kind == "key" and mask is found.get("value")):
            found[kind] = mask
    explicit = call.take("attention_mask")
    if explicit is not None:
        if not isinstance(explicit, Value):  # a constant: which places all samples may look at
            from npinfer.ops.sized import PerSample

            array = np.asarray(explicit)
            shared = array.ndim == 2 or array.shape[:1] == (1,)
            array = array[0] if array.ndim > 2 and shared else array
            if array.dtype.kind not in "biuf" or array.ndim not in (2, 3) or not shared:
                call.refuse("an attention_mask that is neither a tensor of the model nor one constant for all samples")
            explicit = call.emit(PerSample(array.astype(bool)), query)
        found["attention"] = explicit._replace(mask=None)
    return found


@layer("MultiHeadAttention", variables=_projected, mask="own")
def multi_head_attention(call: LayerCall, query: Value, value: Any = None, key: Any = None) -> Any:
    """Any attention axes, masks, causal mask, sliding window, gate, scores."""
    heads, depth = call.config["num_heads"], call.config["key_dim"]
    return _heads(call, query, value, key, heads, heads, depth)


@layer("GroupedQueryAttention", "GroupQueryAttention", variables=_projected, mask="own")
def grouped_query_attention(call: LayerCall, query: Value, value: Any = None, key: Any = None) -> Any:
    """Masks, causal mask, sliding window, gate, scores."""
    config: Mapping[str, Any] = call.config
    return _heads(call, query, value, key, config["num_query_heads"], config["num_key_value_heads"], config["head_dim"])
