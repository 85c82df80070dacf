"""What comes into a model: the specs of the outermost model's inputs, and the arguments of nested models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npinfer.errors import FormatError
from npinfer.graph import Shape, Spec
from npinfer.ops.registry import Value, find
from npinfer.ops.sizes import Sizes, StepsInBatch
from npinfer.readers.archive import Archive, Config, Layer, Model, Path, TensorRef, tensors
from npinfer.trees import leaves

COMPUTED = {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}
INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: layers whose input has the shape of their output, so that a later layer's weights tell it
TRANSPARENT = {
    "Activation", "ActivityRegularization", "AlphaDropout", "Dropout", "ELU", "GaussianDropout", "GaussianNoise", "Identity",
    "LeakyReLU", "Masking", "PReLU", "ReLU", "Rescaling", "Softmax", "SpatialDropout1D", "SpatialDropout2D",
    "SpatialDropout3D", "ThresholdedReLU",
}  # fmt: skip


def layer_of(archive: Archive, model: Model, ref: TensorRef) -> Layer:
    found = next((k for k in model.layers if k.name == ref.layer), None)
    if found is None:
        raise FormatError(f"{archive.source}: input_layers names {ref.layer!r}, which the config doesn't hold")
    return found


def dtype_of(layer: Layer, override: str | None) -> np.dtype[Any] | None:
    """The dtype of an InputLayer's tensor, half precision as float32; None for one that npinfer doesn't compute with."""
    asked = layer.config.get("dtype") or "float32"
    name = asked if asked in INTEGERS else override or COMPUTED.get(asked) if asked in COMPUTED else None
    return None if name is None else np.dtype(name)


def spec(archive: Archive, model: Model, ref: TensorRef, override: str | None) -> Spec | str:
    """The spec of one input of the outermost model, or why it has none."""
    layer = layer_of(archive, model, ref)
    dtype = dtype_of(layer, override)
    if dtype is None:
        return f"input {layer.name!r}: dtype {layer.config.get('dtype')!r}"
    for kind in ("sparse", "ragged"):
        if layer.config.get(kind):
            return f"input {layer.name!r}: a {kind} tensor"
    return Spec(_shape(archive, model, layer), dtype, layer.name)


def _shape(archive: Archive, model: Model, layer: Layer) -> Shape:
    """The declared shape; sizes it leaves open come from the first layer behind whose weights tell them."""
    declared = layer.config.get("shape")
    if declared is not None and None not in declared:
        return tuple(declared)
    told = _from_weights(archive, model, layer.name)
    if declared is None:
        if told is None:
            raise FormatError(
                f"{archive.source}: input {layer.name!r}: neither the config nor the weights give its shape; "
                "build or call the model in Keras and save it again, or pass its architecture with the input shape as config="
            )
        return told
    if told is None or len(told) != len(declared):
        return tuple(declared)
    return tuple(n if n is not None else m for n, m in zip(declared, told))


def guess(archive: Archive, refs: Sequence[TensorRef], given: Sequence[Value]) -> str:
    """What to add to an error about shapes where a file leaves an input's shape to its weights, which can't tell all of it."""
    for value, ref in zip(given, refs):
        if layer_of(archive, archive.model, ref).config.get("shape") is None:
            return (
                f"; the file doesn't say which shape {ref.layer!r} has, and {list(value.shape)}, as its first weights suggest, "
                "doesn't fit: pass the architecture with the input shape as config="
            )
    return ""


def _from_weights(archive: Archive, model: Model, name: str) -> Shape | None:
    path: Path = ()
    for _ in range(100):
        user = next((k for k in model.layers if any(r.layer == name for c in k.calls for r in tensors(c.args))), None)
        if user is None:
            return None
        if user.model is not None:
            ends = list(tensors(user.model.inputs))
            if len(ends) != 1:
                return None
            model, name, path = user.model, ends[0].layer, (*path, user.name)
            known: Shape | None = model.layer(name).config.get("shape")
            if known is not None and None not in known:
                return tuple(known)
            continue
        kind = find(user)
        try:
            told = None if kind is None else kind.input_shape(user.config, archive.weights.get((*path, user.name), {}))
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            return None  # a config without sense: the call itself says what is wrong with it
        if told is not None:
            return told
        if user.input_shape is not None:
            return user.input_shape
        if user.class_name not in TRANSPARENT:
            return None
        name = user.name
    return None


def spread(model: Model, args: Sequence[Any], where: str) -> list[Value]:
    """The values of a nested model's inputs, in order: one, a list, or a dict by the names of its inputs."""
    inputs = model.inputs
    first = args[0] if args else None
    if isinstance(first, Mapping):
        names: list[str] = list(inputs) if isinstance(inputs, Mapping) else [r.layer for r in tensors(inputs)]
        if set(names) - set(first):
            raise FormatError(f"{where}: called with {', '.join(map(str, first))}; its inputs are {', '.join(names)}")
        return [v for n in names for v in values(first[n])]
    return list(values(args))


def values(tree: Any) -> list[Value]:
    """The Values of a tree, in order."""
    return list(leaves(tree, Value))


def results(tree: Any) -> list[Any]:
    """The Values, and what may stand in the place of one, in order: a call's results to Keras."""
    return list(leaves(tree, (Value, Sizes, StepsInBatch)))


def misfit(config: Config, shape: Shape) -> str | None:
    """Why a value of this shape can't be a nested model's input."""
    declared = config.get("shape")
    if declared is None:
        return None
    fits = len(declared) == len(shape) and all(a is None or b is None or a == b for a, b in zip(declared, shape))
    return None if fits else f"takes {list(declared)} a sample, got {list(shape)}"
