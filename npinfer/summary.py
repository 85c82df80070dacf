"""What a model looks like to a person: the layer list, the summary table, the notebook form."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npinfer.executors.signature import show
from npinfer.graph import Graph, Op, Shape

if TYPE_CHECKING:
    from npinfer.model import Model


class LayerInfo(NamedTuple):
    """One op of the network: the Keras layer it came from, the op, its result's per-sample shape, its number of weights."""

    name: str
    op: Op
    shape: Shape
    parameters: int

    def __str__(self) -> str:
        return f"{self.name}: {self.op!r} -> {show(self.shape)}"


class Layers(tuple[LayerInfo, ...]):
    """The compact layer list; str() gives one line an op."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return f"Layers of {len(self)} ops:\n{self}"


def layer_list(graph: Graph) -> Layers:
    return Layers(
        LayerInfo(n.name, n.op, graph.specs[graph.first[k]].shape, sum(a.size for a in n.op.arrays()))
        for k, n in enumerate(graph.nodes)
    )


def rows(model: Model) -> list[tuple[str, str, str, str, str]]:
    """Layer, op, output shape, weights, engine of each node as it runs (after the passes)."""
    executor = model._executor
    elsewhere = set(executor.uncovered())
    found = []
    for k, info in enumerate(layer_list(executor.graph)):
        engine = f"{executor.name}: NumPy meaning" if k in elsewhere else executor.name
        activation = getattr(info.op, "activation", None)
        kind = type(info.op).__name__ + (f" + {getattr(activation, 'kind', activation)}" if activation is not None else "")
        found.append((info.name, kind, show(info.shape), f"{info.parameters:,}", engine))
    return found


def notes(model: Model) -> list[str]:
    """What a user should know: subnormal or non-finite weights, half precision, ops outside the engine."""
    found = []
    arrays = [a for a in model._graph.arrays() if a.dtype.kind == "f"]
    tiny = sum(int(np.count_nonzero((a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny))) for a in arrays)
    if tiny:
        found.append(f"{tiny:,} weights are subnormal: arithmetic on them is exact, but can be many times slower")
    bad = sum(int(np.count_nonzero(~np.isfinite(a))) for a in arrays)
    if bad:
        found.append(f"{bad:,} weights are NaN or infinite, as the file has them")
    count = len(model._executor.uncovered())
    if count:
        found.append(f"{count} op(s) run through their NumPy meaning")
    if model.engine == "numpy" and model._options.engine in ("auto", "native"):
        from npinfer.executors import native

        reason = native.refusal(model._executor.graph)
        if reason is not None:
            found.append(f"not in the native engine: {reason}")
    policies = half_precision(model)
    if policies:
        found.append(f"the file asks for {', '.join(policies)}: computed in float32, closer to the exact result")
    return found


def half_precision(model: Model) -> list[str]:
    from npinfer.readers.archive import walk

    return sorted({k.dtype for _, k in walk(model._archive.model) if k.dtype in ("float16", "bfloat16")})


HEADER = ("layer", "op", "output", "weights", "engine")


def summary(model: Model) -> str:
    table = [HEADER, *rows(model)]
    widths = [max(len(r[k]) for r in table) for k in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(r, widths)).rstrip() for r in table]
    lines.insert(1, "  ".join("-" * w for w in widths))
    total = sum(a.size for a in {id(a): a for a in model._graph.arrays()}.values())
    head = [f"{model._archive.model.name} ({model._archive.version}, {model._archive.source})"]
    head += [f"  in   {s}" for s in model.inputs] + [f"  out  {s}" for s in model.outputs]
    foot = [f"{total:,} weights, engine {model.engine}", _memory(model), *(f"note: {n}" for n in notes(model))]
    return "\n".join([*head, "", *lines, "", *foot])


def _memory(model: Model) -> str:
    memory = model._executor.memory()
    packed = f", {memory.packed:,} of them packed for the engine" if memory.packed else ""
    return f"{memory.weights:,} bytes of weights{packed}, {memory.scratch:,} of scratch for a sample"


def html(model: Model) -> str:
    from html import escape

    def line(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag} style='text-align:left'>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line(r, "td") for r in rows(model))
    return f"<p><code>{escape(repr(model))}</code></p><table>{line(HEADER, 'th')}{body}</table>"
