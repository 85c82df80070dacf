"""The order in which a model's calls run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npinfer.errors import FormatError
from npinfer.readers.archive import Layer, Model, TensorRef, tensors


def needed_calls(
    model: Model, layers: Mapping[str, Layer], given: set[tuple[str, int]], taps: Sequence[TensorRef]
) -> list[tuple[Layer, int]]:
    """The calls that the outputs and taps need, each after those it reads: depth first, and without recursion, since chains may
    be thousands long. given: what is known already. Raises FormatError for cycles and for references to nothing."""
    order: list[tuple[Layer, int]] = []
    finished, open_ = set(given), set[tuple[str, int]]()
    stack = [(r.layer, r.node) for r in [*tensors(model.outputs), *taps]][::-1]
    while stack:
        key = stack[-1]
        if key in finished:
            stack.pop()
            continue
        layer = layers.get(key[0])
        if layer is None or not 0 <= key[1] < len(layer.calls):
            raise FormatError(f"refers to call {key[1]} of layer {key[0]!r}, which the config doesn't hold")
        call = layer.calls[key[1]]
        needed = [(r.layer, r.node) for r in (*tensors(call.args), *tensors(call.kwargs))]
        missing = [k for k in needed if k not in finished]
        if not missing:
            finished.add(key)
            order.append((layer, key[1]))
            stack.pop()
        elif key in open_:
            raise FormatError(f"layer {key[0]!r} needs its own result: the graph has a cycle")
        else:
            open_.add(key)
            stack.extend(missing[::-1])
    return order


def by_depth(order: Sequence[tuple[Layer, int]]) -> list[tuple[Layer, int]]:
    """The same calls as Keras 3 runs them: those furthest from the outputs first (the calls of one layer count as far as the
    furthest of those after them), and of equally far ones those first that a walk from the last output meets first."""
    depths: dict[tuple[str, int], int] = {}
    of_layer: dict[str, int] = {}
    for layer, number in reversed(order):
        depth = max(depths.get((layer.name, number), 0), of_layer.get(layer.name, 0))
        depths[layer.name, number] = of_layer[layer.name] = depth
        call = layer.calls[number]
        for r in (*tensors(call.args), *tensors(call.kwargs)):
            depths[r.layer, r.node] = max(depths.get((r.layer, r.node), 0), depth + 1)
    met = {key: k for k, key in enumerate(depths)}
    return sorted(order, key=lambda c: (-depths[c[0].name, c[1]], met[c[0].name, c[1]]))
