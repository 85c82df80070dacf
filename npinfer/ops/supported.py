"""The table of what npinfer computes, made from the registry: npinfer.supported() and the README."""

from __future__ import annotations

from typing import NamedTuple

from npinfer.ops import load_families
from npinfer.ops.activations import NAMED, WITH_AXIS
from npinfer.ops.registry import CUSTOM, LAYERS, OPERATIONS, LayerType


class Row(NamedTuple):
    """name: of the layer class, operation or activation. kind: "layer", "activation", "operation" (keras.ops in a functional
    model) or "custom". note: options and limits, in a sentence; "" where there is nothing to say."""

    name: str
    kind: str
    note: str


def supported() -> list[Row]:
    """What npinfer computes: layers, activations, operations, and the layers that this process registered; by name."""
    load_families()
    found = [Row(n, "layer", note(t)) for n, t in sorted(LAYERS.items())]
    found += [Row(n, "activation", "") for n in sorted({*NAMED, *WITH_AXIS} - {"hard_sigmoid_k2", "thresholded_relu"})]
    found += [Row(n, "operation", note(t)) for n, t in sorted(OPERATIONS.items())]
    return found + [Row(n, "custom", note(t)) for n, t in sorted(CUSTOM.items())]


def note(kind: LayerType) -> str:
    """The first sentence of the docstring of what lowers a layer."""
    text = " ".join((kind.function.__doc__ or "").split("\n\n")[0].split())
    return text.rstrip(".")
