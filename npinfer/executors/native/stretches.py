"""Cutting a graph into what is compiled and what isn't."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from npinfer.executors.native.program import Program
from npinfer.executors.native.rules import NotNative
from npinfer.graph import Graph, Node


class Stretch(NamedTuple):
    """A part of a graph between values of it: neighbouring nodes as one program, or one node that has no compiled form.

    first: number of the first node. inputs, outputs: value numbers of the whole graph.
    """

    first: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    program: Program | None
    node: Node | None


def stretches(graph: Graph) -> Iterator[Stretch]:
    """A graph, every size known, as programs and single nodes in order; as one program if all of it has a compiled form."""
    results = (*graph.outputs, *(s.output for s in graph.states))
    try:
        yield Stretch(0, tuple(range(len(graph.inputs))), results, Program(graph), None)
        return
    except NotNative:
        pass
    native = [_is_native(graph, k) for k in range(len(graph.nodes))]
    k = 0
    while k < len(graph.nodes):
        end = k + 1
        while native[k] and end < len(graph.nodes) and native[end]:
            end += 1
        yield _cut(graph, k, end, native[k])
        k = end


def _is_native(graph: Graph, k: int) -> bool:
    try:
        return _cut(graph, k, k + 1, True).program is not None
    except NotNative:
        return False


def _cut(graph: Graph, first: int, end: int, native: bool) -> Stretch:
    """Nodes first … end - 1 as a stretch: its inputs are what they read from outside, its outputs what others read of
    theirs."""
    nodes = graph.nodes[first:end]
    start, stop = graph.first[first], graph.results(end - 1).stop
    inputs = tuple(dict.fromkeys(v for node in nodes for v in node.inputs if v < start))
    later = {v for node in graph.nodes[end:] for v in node.inputs}
    later.update((*graph.outputs, *(s.output for s in graph.states)))
    outputs = tuple(v for v in range(start, stop) if v in later)
    if not native:
        return Stretch(first, nodes[0].inputs, tuple(range(start, stop)), None, nodes[0])
    if not outputs:
        raise NotNative("nothing of it is used")
    number = {v: k for k, v in enumerate(inputs)}
    number.update((v, len(inputs) + v - start) for v in range(start, stop))
    moved = [Node(n.op, tuple(number[v] for v in n.inputs), n.name) for n in nodes]
    part = Graph([graph.specs[v] for v in inputs], moved, [number[v] for v in outputs])
    return Stretch(first, inputs, outputs, Program(part), None)
