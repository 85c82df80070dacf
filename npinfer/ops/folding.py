"""Layers whose batch counts the steps of all samples: run over the steps of each sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npinfer.graph import Graph, Op
from npinfer.ops.registry import Value
from npinfer.ops.wrappers import TimeDistributed, needs_no_loop

Emit = Callable[[Op, Sequence[Value], str], tuple[Value, ...]]


def over_steps(emit: Emit, graph: Graph, xs: Sequence[Value], name: str) -> list[Value] | None:
    """The results of a graph for each step (the first axis of a sample) of xs; None where no op can do that."""
    if needs_no_loop(graph):
        values = dict(enumerate(xs))
        for k, node in enumerate(graph.nodes):
            made = emit(node.op, [values[v] for v in node.inputs], node.name)
            values.update(zip(graph.results(k), made))
        return [values[v] for v in graph.outputs]
    if len(xs) == len(graph.outputs) == 1:
        return list(emit(TimeDistributed(graph), xs, name))
    return None
