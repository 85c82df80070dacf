"""Which call of a layer a reference means: files number a nested model's calls in three ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from npinfer.readers.archive import Call, Layer, TensorRef, tensors
from npinfer.trees import mapped


def renumber(layers: list[Layer], inputs: Any, outputs: Any, modern: bool) -> tuple[list[Layer], Any, Any]:
    """Numbers of nodes → numbers of calls. A model has a node of its own, number 0, before the calls that others make of
    it: Keras 1 and 2 count it everywhere, Keras 3 counts it for functional models in output_layers alone, tf.keras
    doesn't count it for a Sequential built late. Since every call a file keeps is referred to, the numbers tell."""
    held = {k.name: k for k in layers if k.model is not None}
    if not held:
        return layers, inputs, outputs
    used: dict[str, set[int]] = {n: set() for n in held}
    for k in layers:
        for r in refs(k.calls):
            if r.layer in used:
                used[r.layer].add(r.node)
    ends: dict[str, set[int]] = {n: {r.node for r in tensors(outputs) if r.layer == n} for n in held}
    inside, outside = {}, {}
    for name, layer in held.items():
        n = len(layer.calls)
        if modern:
            counted = not layer.config["sequential"] or max(ends[name], default=0) >= n
            inside[name], outside[name] = 0, int(counted and 0 not in ends[name])
        else:
            both = used[name] | ends[name]
            inside[name] = outside[name] = int(0 not in both)
    layers = [k.replace(calls=tuple(Call(_shift(c.args, inside), _shift(c.kwargs, inside)) for c in k.calls)) for k in layers]
    return layers, inputs, _shift(outputs, outside)


def refs(calls: Iterable[Call]) -> Iterable[TensorRef]:
    for call in calls:
        yield from tensors(call.args)
        yield from tensors(call.kwargs)


def _shift(tree: Any, by: Mapping[str, int]) -> Any:
    return mapped(tree, TensorRef, lambda r: r._replace(node=r.node - by.get(r.layer, 0)))
