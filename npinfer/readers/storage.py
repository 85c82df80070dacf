"""How arrays are laid out in files of other times, and how they become Keras 3's variables and back.

Keras 1 keeps an LSTM in 12 arrays and transposes convolution kernels; Theano stores kernels for a true convolution (flipped);
CuDNN layers transpose and double; LoRA keeps a low-rank addition beside its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.frozen import Frozen
from npinfer.graph import Array
from npinfer.readers.archive import Config, Layer, Version

Arrays = dict[str, Array]
#: (name in the file, the variable it belongs to, optional)
PartNames = list[tuple[str, str, bool]]


class Form(Frozen):
    """parts: the file's arrays for these variables. join: those arrays → variables. split: variables → arrays."""

    name: str
    parts: Callable[[Layer, Sequence[str]], PartNames]
    join: Callable[[Layer, Arrays], Arrays]
    split: Callable[[Layer, Arrays], Arrays]


def _same(_: Layer, names: Sequence[str]) -> PartNames:
    return [(n, n, False) for n in names]


def _keep(_: Layer, arrays: Arrays) -> Arrays:
    return arrays


GATES = {"LSTM": "icfo", "ConvLSTM2D": "icfo", "GRU": "zrh"}
#: the places of Keras 1's gates in the later order (i, f, c, o) and (z, r, h)
LATER = {"LSTM": "ifco", "ConvLSTM2D": "ifco", "GRU": "zrh"}
ARRAYS = (("W", "kernel"), ("U", "recurrent_kernel"), ("b", "bias"))


def _cell(owner: Layer) -> str:
    return owner.class_name.removesuffix("Cell")


# Keras 1's recurrent layers: one array a gate


def _gate_parts(owner: Layer, names: Sequence[str]) -> PartNames:
    return [(f"{a}_{g}", v, False) for g in GATES[_cell(owner)] for a, v in ARRAYS if v in names]


def _gates_joined(owner: Layer, arrays: Arrays) -> Arrays:
    made = {}
    for a, v in ARRAYS:
        found = [arrays[f"{a}_{g}"] for g in LATER[_cell(owner)] if f"{a}_{g}" in arrays]
        if found:
            turned = [_conv_in(owner, w) if w.ndim > 2 else w for w in found]
            made[v] = np.concatenate(turned, axis=-1)
    return made


def _gates_split(owner: Layer, variables: Arrays) -> Arrays:
    made = {}
    order = LATER[_cell(owner)]
    for a, v in ARRAYS:
        if v in variables:
            for g, w in zip(order, np.split(variables[v], len(order), axis=-1)):
                made[f"{a}_{g}"] = _conv_out(owner, w) if w.ndim > 2 else w
    return made


# convolution kernels


def _first(owner: Layer) -> bool:
    return owner.config.get("data_format") == "channels_first"


def _conv_in(owner: Layer, w: Array) -> Array:
    """Keras 1's convolution kernel → (*kernel_size, in, out); of transposed ones (*kernel_size, out, in)."""
    rank = w.ndim - 2
    if owner.class_name == "Conv1D":
        filters, length = owner.config.get("filters"), (owner.config.get("kernel_size") or [None])[0]
        if w.ndim != 4:
            return w
        if w.shape[:2] != (length, 1) or w.shape[3] != filters:  # 1.0: (filters, in, length, 1)
            w = w.transpose(2, 3, 1, 0)
        return w[:, 0]
    if owner.class_name == "Conv2DTranspose":
        return w.transpose(2, 3, 0, 1) if _first(owner) else w.transpose(0, 1, 3, 2)
    return w.transpose(*range(2, 2 + rank), 1, 0) if _first(owner) else w


def _conv_out(owner: Layer, w: Array) -> Array:
    if owner.class_name == "Conv1D":
        return w[:, None]
    if owner.class_name == "Conv2DTranspose":
        return w.transpose(2, 3, 0, 1) if _first(owner) else w.transpose(0, 1, 3, 2)
    rank = w.ndim - 2
    return w.transpose(rank + 1, rank, *range(rank)) if _first(owner) else w


def _flip(w: Array) -> Array:
    """A true convolution's kernel as a correlation's: every spatial axis reversed."""
    return w[(slice(None, None, -1),) * (w.ndim - 2)]


CONVOLUTIONS = frozenset(("Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose", "Conv3DTranspose", "SeparableConv2D", "ConvLSTM2D"))


def _each(change: Callable[[Layer, Array], Array]) -> Callable[[Layer, Arrays], Arrays]:
    def apply(owner: Layer, arrays: Arrays) -> Arrays:
        return {n: change(owner, w) if w.ndim > 2 else w for n, w in arrays.items()}

    return apply


K1_CONV = Form("keras1", _same, _each(_conv_in), _each(_conv_out))
K1_GATES = Form("keras1", _gate_parts, _gates_joined, _gates_split)
THEANO = Form("theano", _same, _each(lambda _, w: _flip(w)), _each(lambda _, w: _flip(w)))
K1_THEANO = Form("keras1-theano", _same, _each(lambda o, w: _flip(_conv_in(o, w))), _each(lambda o, w: _conv_out(o, _flip(w))))
PLAIN = Form("", _same, _keep, _keep)


# CuDNN: kernels transposed gate by gate, two biases


def _by_gate(kernel: Array, gates: int, change: Callable[[Array], Array]) -> Array:
    return np.hstack([change(k) for k in np.hsplit(kernel, gates)])


def _cudnn_joined(owner: Layer, arrays: Arrays) -> Arrays:
    """As Keras 2.2's conversion: input kernels read in Fortran order, recurrent ones transposed, an LSTM's biases added, a
    GRU's kept as two rows. Twice the plain layer's bias in one row is what tells CuDNN's arrays, as in Keras: either kind may
    be loaded into either class. The layer's config notes which it was."""
    gates, bias = len(LATER[_cell(owner)]), arrays.get("bias")
    doubled = bias is not None and bias.ndim == 1 and bias.size == 2 * arrays["recurrent_kernel"].shape[-1]
    note(owner, "stored_layout", "cudnn" if doubled else None)
    if bias is None or not doubled:
        return arrays
    return {
        "kernel": _by_gate(arrays["kernel"], gates, lambda k: k.T.reshape(k.shape, order="F")),
        "recurrent_kernel": _by_gate(arrays["recurrent_kernel"], gates, lambda k: k.T),
        "bias": bias.reshape(2, -1) if gates == 3 else bias[: bias.size // 2] + bias[bias.size // 2 :],
    }


def _cudnn_split(owner: Layer, variables: Arrays) -> Arrays:
    if owner.config.get("stored_layout") != "cudnn":
        return variables
    gates, bias = len(LATER[_cell(owner)]), variables["bias"]
    return {
        "kernel": _by_gate(variables["kernel"], gates, lambda k: k.T.reshape(k.shape, order="C")),
        "recurrent_kernel": _by_gate(variables["recurrent_kernel"], gates, lambda k: k.T),
        "bias": bias.reshape(-1) if gates == 3 else np.tile(bias * bias.dtype.type(0.5), 2),
    }


CUDNN = Form("cudnn", _same, _cudnn_joined, _cudnn_split)


# LoRA: kernel + scale · a @ b, where the file keeps them apart


def _lora_parts(owner: Layer, names: Sequence[str]) -> PartNames:
    target = "embeddings" if "embeddings" in names else "kernel"
    extra = [(f"lora_{target}_{k}", target, True) for k in "ab"]
    return [*((n, n, False) for n in names if n != target), *extra, (target, target, False)]


def _lora_joined(owner: Layer, arrays: Arrays) -> Arrays:
    made = {n: w for n, w in arrays.items() if not n.startswith("lora_")}
    for target in ("kernel", "embeddings"):
        a, b = arrays.get(f"lora_{target}_a"), arrays.get(f"lora_{target}_b")
        if target in made and a is not None and b is not None:
            rank = owner.config.get("lora_rank") or a.shape[-1]
            scale = (owner.config.get("lora_alpha") or rank) / rank
            made[target] = (made[target] + scale * np.matmul(a, b)).astype(made[target].dtype)
    return made


LORA = Form("lora", _lora_parts, _lora_joined, _keep)


def form(owner: Layer, names: Sequence[str], version: Version) -> Form:
    """The form in which a file of this version keeps a layer's variables."""
    config: Config = owner.config
    if config.get("lora_rank"):
        return LORA
    old = version.major == 1
    if old and _cell(owner) in GATES and config.get("consume_less") != "gpu":
        return K1_GATES
    if _cell(owner) in ("LSTM", "GRU"):
        return CUDNN
    if owner.class_name in CONVOLUTIONS:
        if version.backend == "theano":
            return K1_THEANO if old else THEANO
        return K1_CONV if old else PLAIN
    return PLAIN


def note(owner: Layer, key: str, value: Any) -> None:
    """Write into a layer's config what only its arrays tell. Reading owns the configs it made; nobody else has seen them."""
    if isinstance(owner.config, dict) and owner.config.get(key) != value:
        owner.config[key] = value
