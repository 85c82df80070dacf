"""Layers that Keras 3 quantized: int8 and int4 weights, int8 activations, float8 rounding.

Sources: the layers' arithmetic in Keras 3.15; the float8 format e4m3fn in "FP8 Formats for Deep Learning" (2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Spec
from npinfer.ops.registry import LayerCall, Value

#: a layer's variables in the order in which Keras 3 stores them where it stores numbers instead of names
STORED = {
    "int8": ("kernel", "bias", "kernel_scale"),
    "int4": ("kernel", "bias", "kernel_scale", "kernel_zero", "g_idx"),
    "float8": (*("kernel", "bias", "inputs_scale", "inputs_amax_history", "kernel_scale", "kernel_amax_history"),),
}
EXACT = 1024  # 127 · 127 · 1024 < 2**24: float32 sums of so many products are exact


class Int8Dense(Op):
    """Each sample's vector is rounded to integers of -127 to 127, the product with the integer kernel is exact:
    s = 127 / (max|x| + epsilon), y = (round(x·s) @ kernel) / (kernel_scale·s) + bias.

    kernel: (n_in, n_out), integers held as floats; kernel_scale: (n_out,); limits: the integers' range.
    """

    kernel: Array
    kernel_scale: Array
    bias: Array | None = None
    epsilon: float = 1e-7
    limits: tuple[float, float] = (-127.0, 127.0)
    any_rank: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        n_in, n_out = self.kernel.shape
        if not x.shape or x.shape[-1] != n_in or self.kernel_scale.shape != (n_out,):
            scales = list(self.kernel_scale.shape)
            raise ShapeError(f"a kernel {list(self.kernel.shape)} with {scales} scales for {list(x.shape)} a sample")
        return Spec((*x.shape[:-1], n_out), x.dtype)

    def __call__(self, x: Array) -> Array:
        scale = self.limits[1] / (np.abs(x).max(-1, keepdims=True, initial=0) + self.epsilon)
        whole = np.clip(np.rint(x * scale), *self.limits).astype(self.kernel.dtype, copy=False)
        y: Array = np.matmul(whole, self.kernel).astype(x.dtype, copy=False)
        y /= self.kernel_scale * scale
        return y if self.bias is None else y + self.bias


class Float8Round(Op):
    """x as float8 e4m3fn holds it: round(x / scale) to four significant bits within ±448, times scale."""

    scale: float
    any_rank: ClassVar[bool] = True
    elementwise: ClassVar[bool] = True

    def infer(self, x: Spec) -> Spec:
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        return float8(x, self.scale)


def float8(x: Array, scale: float) -> Array:
    """Round to nearest, ties to even, three bits after the leading one; below 2**-6 to multiples of 2**-9."""
    y = np.clip(x / x.dtype.type(scale), -448, 448)
    unit = np.ldexp(x.dtype.type(1), np.maximum(np.frexp(y)[1] - 4, -9))
    return np.asarray(np.rint(y / unit) * unit * x.dtype.type(scale))


def bfloat16(x: Array) -> Array:
    """float32 numbers rounded to bfloat16's eight significant bits, ties to even."""
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(np.float32)


def weights(call: LayerCall) -> Mapping[str, Array]:
    """The layer's arrays by name, where its file numbers them too."""
    if "0" not in call.weights:
        return call.weights
    bias = call.config.get("use_bias", True)
    names = [n for n in STORED[call.quantization] if bias or n != "bias"]
    return {n: call.weights[str(k)] for k, n in enumerate(names) if str(k) in call.weights}


def dense(call: LayerCall, x: Value) -> Value:
    """What a quantized Dense does before its activation."""
    from npinfer.ops.dense import Dense

    kind, w = call.quantization, weights(call)
    bias = w.get("bias")
    if any(n.startswith("lora") for n in w):
        call.refuse("LoRA on a quantized layer")
    if kind == "float8":
        x = call.emit(Float8Round(float(w["inputs_scale"])), x)
        if bias is not None and call.dtype == np.float32:
            bias = bfloat16(bias)  # as Keras does, for the sake of fused kernels on GPUs
        return call.emit(Dense(float8(w["kernel"], float(w["kernel_scale"])), bias), x)
    options = _options(call.config.get("quantization_config"))
    if options is None and kind == "int4":
        call.refuse("int4 weights of a Keras before 3.13, which packs them otherwise")
    kernel = w["kernel"] if kind == "int8" else _unpacked(w["kernel"], int(call.config["units"]))
    if kernel.dtype.kind != "i" or kernel.ndim != 2:
        raise ShapeError(f"layer {call.name!r}: a quantized kernel of {kernel.dtype} with shape {list(kernel.shape)}")
    if "kernel_zero" in w:
        return call.emit(Dense(_grouped(kernel.T, w["kernel_scale"].T, w["kernel_zero"].T, w["g_idx"], call.dtype).T, bias), x)
    quantizer = {"value_range": (-127, 127), "epsilon": 1e-7} if options is None else options.get("activation_quantizer")
    if quantizer is None:
        return call.emit(Dense((kernel / w["kernel_scale"]).astype(call.dtype), bias), x)
    given = _options(quantizer) or {}
    low, high = given.get("value_range", (-127, 127))
    exact = kernel.astype(np.float32 if len(kernel) <= EXACT and call.dtype == np.float32 else np.float64)
    limits = (float(low), float(high))
    return call.emit(Int8Dense(exact, w["kernel_scale"], bias, float(given.get("epsilon", 1e-7)), limits), x)


def table(call: LayerCall) -> Array:
    """The rows of a quantized Embedding as floats: integers by each row's scale."""
    w = call.weights
    rows = w["embeddings"] if call.quantization == "int8" else _unpacked(w["embeddings"], int(call.config["output_dim"]))
    if "embeddings_zero" in w:
        return _grouped(rows, w["embeddings_scale"], w["embeddings_zero"], w["g_idx"], call.dtype)
    return np.asarray((rows.astype(call.dtype) / w["embeddings_scale"][:, None]).astype(call.dtype))


def _options(entry: Any) -> Mapping[str, Any] | None:
    """The options of a serialized object; None where there is no object."""
    if not isinstance(entry, Mapping):
        return None
    config = entry.get("config", entry)
    return config if isinstance(config, Mapping) else None


def _unpacked(packed: Array, width: int) -> Array:
    """Two's complement nibbles, the low one first, along the last axis."""
    low, high = packed & 15, (packed >> 4) & 15
    both = np.stack([low, high], -1).reshape(*packed.shape[:-1], -1)[..., :width]
    return np.asarray(np.where(both > 7, both - 16, both).astype(np.int8))


def _grouped(rows: Array, scale: Array, zero: Array, group: Array, dtype: np.dtype[Any]) -> Array:
    """(rows - zero) · scale, where entry j of each row has its numbers in column group[j]."""
    places = group.astype(np.int64)
    return np.asarray((rows - zero.astype(dtype)[:, places]) * scale[:, places]).astype(dtype, copy=False)


def check(config: Mapping[str, Any]) -> Iterator[str]:
    options = _options(config.get("quantization_config"))
    quantizer = options.get("activation_quantizer") if options is not None else None
    if isinstance(quantizer, Mapping) and quantizer.get("class_name") not in (None, "AbsMaxQuantizer"):
        yield f"activations quantized by {quantizer.get('class_name')}"
