"""More of keras.ops inside functional models, made of the ops that there are: keras.ops.numpy, nn and image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npinfer.ops.arithmetic import BOOL, Where, binary, operands, unary
from npinfer.ops.cast import as_float
from npinfer.ops.encoding import Count, Digitize
from npinfer.ops.image_operations import cropped, framed
from npinfer.ops.indexing import GetItem, part, split
from npinfer.ops.joining import joined
from npinfer.ops.operands import cast, common, dtype_named
from npinfer.ops.pool import AdaptivePool
from npinfer.ops.products import Einsum
from npinfer.ops.reductions import Along, reduce
from npinfer.ops.registry import LayerCall, Value, operation
from npinfer.ops.reshape import expanded, reshaped, transposed
from npinfer.ops.shapes import sample_axes, sample_axis
from npinfer.ops.softmax import Softmax
from npinfer.ops.windows import as_asked, channels_last, several


@operation("Rot90")
def rot90(call: LayerCall, x: Value) -> Value:
    """In the plane of two axes of a sample."""
    rank, quarters = len(x.shape), int(call.config.get("k", 1)) % 4
    if quarters > 1:
        call.refuse(f"option k={call.config['k']!r}, which Keras computes differently from backend to backend")
    a, b = (sample_axis(call, k, rank + 1, "axes") for k in call.config.get("axes", (0, 1)))
    order = list(range(rank))
    if quarters % 2:
        order[a], order[b] = b, a
    y = transposed(call, x, tuple(order))
    key = tuple(slice(None, None, -1 if k == a else None) for k in range(rank))
    return call.emit(GetItem(key), y) if quarters else y


@operation("Select")
def select(call: LayerCall, conditions: Any, choices: Any, default: Any = 0) -> Any:
    """The first choice whose condition holds."""
    made = default
    for condition, choice in zip(reversed(conditions), reversed(choices)):
        if not isinstance(condition, Value):
            call.refuse("a condition that is a constant")
        (x1, x2), _ = common(call, choice, made, like=condition)
        fields = {k: v for k, v in (("x1", x1), ("x2", x2)) if not isinstance(v, Value)}
        made = call.emit(Where(**fields), cast(call, condition, BOOL), *(v for v in (x1, x2) if isinstance(v, Value)))
    return made


@operation("Isclose")
def is_close(call: LayerCall, *args: Any) -> Value:
    """|a - b| <= atol + rtol·|b|, with equal infinities close."""
    defaults: list[Any] = [1e-5, 1e-8, False]
    a, b, rtol, atol, equal_nan = [*args, *defaults[len(args) - 2 :]]
    if not (isinstance(a, Value) and isinstance(b, Value)) or equal_nan or call.config.get("equal_nan"):
        call.refuse("constants, or option equal_nan=True")
    a, b = as_float(call, a), as_float(call, b)
    bound = binary(call, "add", binary(call, "multiply", unary(call, "abs", b), float(rtol)), float(atol))
    near = binary(call, "less_equal", unary(call, "abs", binary(call, "subtract", a, b)), bound)
    finite = binary(call, "logical_and", near, unary(call, "isfinite", b))
    return binary(call, "logical_or", finite, binary(call, "equal", a, b))


@operation("IsIn")
def is_in(call: LayerCall, x: Value, elements: Any) -> Value:
    if isinstance(elements, Value) or not isinstance(x, Value) or not 0 < np.size(elements) <= 64:
        call.refuse("a list of elements that is no short constant")
    numbers = np.ravel(np.asarray(elements)).tolist()
    found = binary(call, "equal", x, numbers[0])
    for n in numbers[1:]:
        found = binary(call, "logical_or", found, binary(call, "equal", x, n))
    return unary(call, "logical_not", found) if call.config.get("invert") else found


@operation("Digitize")
def digitize(call: LayerCall, x: Value, bins: Any) -> Value:
    if isinstance(bins, Value) or np.ndim(bins) != 1:
        call.refuse("bins that are no constant list")
    x = as_float(call, x)
    return call.emit(Digitize(np.asarray(bins, call.dtype)), x)


@operation("Nanvar", "Nanstd")
def spread_of_numbers(call: LayerCall, x: Value) -> Value:
    """The variance and deviation of what isn't NaN."""
    axes = sample_axes(call, call.config.get("axis"), len(x.shape) + 1)
    x = as_float(call, x)
    away = binary(call, "subtract", x, reduce(call, "nanmean", x, axes, True))
    y = reduce(call, "nanmean", unary(call, "square", away), axes, bool(call.config.get("keepdims", False)))
    return y if call.layer.class_name == "Nanvar" else unary(call, "sqrt", y)


@operation("Trapezoid")
def trapezoid(call: LayerCall, x: Value) -> Value:
    axis = sample_axis(call, call.config.get("axis", -1), len(x.shape) + 1)
    if call.config.get("x") is not None or not isinstance(call.config.get("dx", 1.0), (int, float)):
        call.refuse("places that are given")
    x = as_float(call, x)
    pairs = binary(call, "add", part(call, x, axis, slice(1, None)), part(call, x, axis, slice(None, -1)))
    return binary(call, "multiply", reduce(call, "sum", pairs, (axis,)), 0.5 * float(call.config.get("dx", 1.0)))


@operation("Quantile")
def quantile(call: LayerCall, x: Value, q: Any) -> Value:
    """One quantile by linear interpolation between the two sorted neighbours."""
    axis = sample_axis(call, call.config.get("axis"), len(x.shape) + 1)
    call.option("method", "linear", default="linear")
    n = x.shape[axis]
    if not isinstance(q, (int, float)) or not 0 <= q <= 1 or not n:
        call.refuse(f"quantiles {q!r} along an axis of size {n}; one number and a known size are needed")
    ordered, place = call.emit(Along("sort", axis), as_float(call, x)), q * (n - 1)
    low, share = math.floor(place), place - math.floor(place)
    y = part(call, ordered, axis, slice(low, low + 1))
    if share:
        step = binary(call, "subtract", part(call, ordered, axis, slice(low + 1, low + 2)), y)
        y = binary(call, "add", y, binary(call, "multiply", step, share))
    return y if call.config.get("keepdims") else part(call, y, axis, 0)


@operation("Linspace")
def linspace(call: LayerCall, *args: Any) -> Value:
    """Between tensors or numbers, along a new axis that isn't the first."""
    start, stop = operands(call, args, "start", "stop")
    count = int(call.config.get("num", 50))
    (start, stop), _ = common(call, start, stop, floats=True)
    if not (isinstance(start, Value) and isinstance(stop, Value)) or call.config.get("retstep") or count < 2:
        call.refuse("bounds that are constants, or option retstep=True")
    axis = sample_axis(call, call.config.get("axis", 0), len(start.shape) + 2)
    a, b = expanded(call, start, axis), expanded(call, stop, axis)
    last = count - 1 if call.config.get("endpoint", True) else count
    shares = (np.arange(count) / last).astype(call.dtype).reshape(-1, *(1,) * (len(start.shape) - axis))
    return binary(call, "add", a, binary(call, "multiply", binary(call, "subtract", b, a), shares))


@operation("Dstack", "Dsplit")
def third_axis(call: LayerCall, x: Any) -> Any:
    """Along the third axis, the batch's counted."""
    if call.layer.class_name == "Dstack":
        if not all(isinstance(v, Value) and len(v.shape) >= 2 for v in x):
            call.refuse("joins something other than tensors of three axes")
        return joined(call, list(x), 1)
    return split(call, x)


@operation("MultiHot")
def multi_hot(call: LayerCall, x: Value) -> Value:
    if call.config.get("axis", -1) != -1 or call.config.get("sparse") or not x.shape:
        call.refuse("another axis than the last, or sparse=True")
    if len(x.shape) != 1:
        call.refuse(f"{list(x.shape)} a sample; a vector is supported")
    return call.emit(Count(int(call.config["num_classes"]), True, dtype_named(call, call.config.get("dtype"))), x)


@operation("AdaptiveMaxPool", "AdaptiveAveragePool")
def adaptive_pool(call: LayerCall, x: Value) -> Value:
    rank = len(x.shape) - 1
    sizes = several(call, call.config["output_size"], rank, "output_size")
    kind = "max" if call.layer.class_name == "AdaptiveMaxPool" else "average"
    return as_asked(call, call.emit(AdaptivePool(kind, sizes), channels_last(call, x, rank)))


@operation("CropImages", "PadImages")
def bordered(call: LayerCall, x: Value) -> Value:
    """Two of border before, border behind and new size, for height and width."""
    x = channels_last(call, x, 2)
    crops = call.layer.class_name == "CropImages"
    word, sign, found = ("cropping", -1, []) if crops else ("padding", 1, list[int]())
    for n, before, behind, side in zip(x.shape, ("top", "left"), ("bottom", "right"), ("height", "width")):
        start, end, size = (call.config.get(k) for k in (f"{before}_{word}", f"{behind}_{word}", f"target_{side}"))
        if n is None or sum(k is None for k in (start, end, size)) != 1:
            call.refuse("an image size that is unknown, or borders that aren't two of three numbers")
        size = n + sign * ((start or 0) + (end or 0)) if size is None else int(size)
        found += [int(start) if start is not None else sign * (size - n) - int(end or 0), size]
    (top, height, left, width) = found
    return as_asked(call, (cropped if crops else framed)(call, x, top, left, height, width))


@operation("DotProductAttention")
def dot_product_attention(call: LayerCall, query: Value, key: Value, value: Value, *rest: Any) -> Value:
    """softmax(scale · q·k + bias, where the mask allows) · v for each head; tensors are (steps, heads, size) a sample."""
    bias, mask, scale = (call.take(n, rest[k] if k < len(rest) else None) for k, n in enumerate(("bias", "mask", "scale")))
    causal = call.take("is_causal", call.config.get("is_causal", False))
    call.take("flash_attention")
    if call.config.get("attn_logits_soft_cap") is not None:
        call.refuse("option attn_logits_soft_cap")
    query, key, value = (as_float(call, v) for v in (query, key, value))
    if any(len(v.shape) != 3 for v in (query, key, value)) or query.shape[1:] != key.shape[1:]:
        call.refuse("queries and keys of unequal heads")
    size = query.shape[-1]
    factor = scale if scale is not None else 1 / math.sqrt(size or 1)
    if not isinstance(factor, (int, float)):
        call.refuse("a scale that is no number")
    scores = binary(call, "multiply", call.emit(Einsum("btnh,bsnh->bnts"), query, key), float(factor))
    if bias is not None:
        scores = binary(call, "add", scores, bias)
    steps, places = scores.shape[1:]
    if mask is not None and not isinstance(mask, Value):
        call.refuse("a mask that is a constant")
    least = np.asarray(np.finfo(np.float32).min * 0.7, call.dtype)
    if mask is not None:
        mask = reshaped(call, mask, (1, *mask.shape)) if len(mask.shape) == 2 else mask
        scores = call.emit(Where(x2=least), cast(call, mask, BOOL), scores)
    if causal:
        if steps is None or places is None:
            call.refuse("is_causal with a number of steps that is unknown")
        scores = call.emit(Where(condition=np.tri(steps, places, dtype=bool), x2=least), scores)
    return call.emit(Einsum("bnts,bsnh->btnh"), call.emit(Softmax((-1,)), scores), value)
