"""The table of what npinfer computes, made from the registry: npinfer.supported() and the README."""

from __future__ import annotations

import textwrap
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


#: how str() calls the kinds
KINDS = {"layer": "Layers", "custom": "Registered here", "activation": "Activations", "operation": "Operations of keras.ops"}
WIDTH = 110


class Table(tuple[Row, ...]):
    """The rows; str() shows them as a table, with the names that need no note in a paragraph."""

    __slots__ = ()

    def __str__(self) -> str:
        parts = []
        for kind, title in KINDS.items():
            found = [r for r in self if r.kind == kind]
            if found:
                parts.append(f"{title} ({len(found)})")
                parts += _noted([r for r in found if r.note])
                bare = ", ".join(r.name for r in found if not r.note)
                parts += textwrap.wrap(bare, WIDTH, initial_indent="  ", subsequent_indent="  ")
        return "\n".join(parts)

    def __repr__(self) -> str:
        return f"Table of {len(self)} rows:\n{self}"


def _noted(rows: list[Row]) -> list[str]:
    wide = max((len(r.name) for r in rows), default=0)
    lines = []
    for r in rows:
        first, rest = f"  {r.name:{wide}}  ", " " * (wide + 4)
        lines += textwrap.wrap(r.note, WIDTH, initial_indent=first, subsequent_indent=rest)
    return lines


def supported() -> Table:
    """What npinfer computes: layers, activations, operations, and the layers that this process registered; by name. A tuple of
    Row; str() of it is a table."""
    load_families()
    found = [Row(n, "layer", note(t)) for n, t in sorted(LAYERS.items())]
    found += [Row(n, "activation", "") for n in sorted({*NAMED, *WITH_AXIS} - {"hard_sigmoid_k2", "thresholded_relu"})]
    found += [Row(n, "operation", note(t)) for n, t in sorted(OPERATIONS.items())]
    return Table([*found, *(Row(n, "custom", note(t)) for n, t in sorted(CUSTOM.items()))])


def note(kind: LayerType) -> str:
    """The first sentence of the docstring of what lowers a layer."""
    text = " ".join((kind.function.__doc__ or "").split("\n\n")[0].split())
    return text.rstrip(".")
