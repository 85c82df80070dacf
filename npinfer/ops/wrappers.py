"""TimeDistributed, and Lambda, whose code stays in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from npinfer.errors import ShapeError
from npinfer.graph import Array, Graph, Op, Spec, Streamed
from npinfer.ops.functions import lower_function
from npinfer.ops.registry import LayerCall, NeedsFunction, Value, below, find, layer

Emit = Callable[[Op, Sequence[Value], str], tuple[Value, ...]]


class TimeDistributed(Op):
    """A graph applied to each step: the steps (the first axis of a sample) are folded into the batch and unfolded again.

    graph: one input of shape (…), one output; the op takes (steps, …)."""

    graph: Graph

    def infer(self, x: Spec) -> Spec:
        inner = self.graph.inputs[0].shape
        if len(x.shape) != len(inner) + 1 or any(
            a is not None and b is not None and a != b for a, b in zip(x.shape[1:], inner)
        ):
            raise ShapeError(f"each step takes {list(inner)}, the input is {list(x.shape)}")
        y = self.graph.specs[self.graph.outputs[0]]
        return Spec((x.shape[0], *y.shape), y.dtype)

    def __call__(self, x: Array) -> Array:
        n, steps = x.shape[:2]
        (y,) = self.graph(x.reshape(n * steps, *x.shape[2:]))
        return y.reshape(n, steps, *y.shape[1:])

    def stream(self, _: Spec) -> Streamed:
        return Streamed(self.graph)


def _has_masks(config: Mapping[str, Any]) -> Iterator[str]:
    inner = config["layer"]
    if inner.class_name == "Masking" or inner.config.get("mask_zero"):
        yield f"{inner.class_name} that makes a mask inside TimeDistributed"


@layer("TimeDistributed", variables=lambda c: below("layer", c["layer"]), mask="own", check=_has_masks)
def time_distributed(call: LayerCall, x: Value) -> Value:
    """Around any supported layer or model of one input and one output."""
    inner = call.config["layer"]
    kind = find(inner)
    call.take("mask")
    if x.mask is not None and (inner.model is not None or (kind is not None and kind.mask == "own")):
        call.refuse(f"a mask that reaches {inner.class_name} inside TimeDistributed")
    if len(x.shape) < 1:
        raise ShapeError(f"layer {call.name!r}: TimeDistributed needs a time axis")
    graph: Graph = call.subgraph(inner, "layer", Spec(x.shape[1:], x.spec.dtype))
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        call.refuse(f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs inside TimeDistributed")
    made = over_steps(call.builder.emit, graph, [x._replace(mask=None)], call.name)
    assert made is not None  # of one input and one output there always is
    return made[0]._replace(mask=x.mask)


def over_steps(emit: Emit, graph: Graph, xs: Sequence[Value], name: str) -> list[Value] | None:
    """The results of a graph for each step (the first axis of a sample) of xs; None where no op can do that."""
    if _needs_no_loop(graph):
        values = dict(enumerate(xs))
        for k, node in enumerate(graph.nodes):
            results = emit(node.op, [values[v] for v in node.inputs], node.name)
            values.update(zip(graph.results(k), results))
        return [values[v] for v in graph.outputs]
    return list(emit(TimeDistributed(graph), xs, name)) if len(xs) == len(graph.outputs) == 1 else None


def _needs_no_loop(graph: Graph) -> bool:
    """Whether every node means the same with a time axis in front. Inputs of unequal rank would be broadcast otherwise then."""
    return all(
        node.op.any_rank and node.inputs and len({len(graph.specs[v].shape) for v in node.inputs}) == 1 for node in graph.nodes
    )


def _code(config: Mapping[str, Any]) -> Iterator[str]:
    name = config.get("name", "the layer's name")
    yield NeedsFunction(
        f"Python code in the file is never run; pass functions={{{name!r}: f}}, f a function of NumPy arrays", name
    )


@layer("Lambda", check=_code)
def lambda_layer(call: LayerCall, *args: Any) -> Any:
    """With functions={name: f}, f the layer's work as a function of NumPy arrays."""
    name = call.layer.name
    if name not in call.builder.functions:
        call.refuse(next(iter(_code({"name": name}))))
    return lower_function(call, call.builder.functions[name], args, {k: call.take(k) for k in list(call.kwargs)})
