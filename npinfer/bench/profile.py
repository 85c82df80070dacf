"""`npinfer profile`: how long each layer takes, how much it computes and reads, and in which engine.

Each node of the network becomes a network of its own in the same engine, bound to buffers of its own. They run one after
another in the network's order, so that caches are as in a real run; the price of a call (an empty network's) is taken off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from npinfer.bench.flops import node_numbers
from npinfer.bench.report import amount, columns, duration
from npinfer.checking import random_inputs
from npinfer.executors import make_executor
from npinfer.executors.signature import fix
from npinfer.graph import Array, Graph, Node, Spec
from npinfer.model import Model
from npinfer.ops.identity import Cast


def profiled(
    model: Model,
    rounds: int,
    batch: int | None,
    shapes: Sequence[Sequence[int]],
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Medians over `rounds` runs: nodes (layer, op, engine, time ns, flops, bytes, share) and the whole network's time.

    batch: rows of a call, None for one sample. shapes: per-sample shapes of the inputs, without open sizes.
    """
    executor = model._executor
    count = len(executor.graph.inputs) - len(executor.graph.states)
    inputs = (*fix(executor.graph.inputs[:count], shapes), *executor.graph.inputs[count:])
    graph = Graph(inputs, executor.graph.nodes, executor.graph.outputs, None, executor.graph.states)
    values = _values(graph, batch)
    elsewhere = set(executor.uncovered())
    steps = [_alone(model.engine, graph, k, batch) for k in range(len(graph.nodes))]
    arguments = [tuple(values[v] for v in node.inputs) for node in graph.nodes]
    whole = make_executor(model.engine, graph).bind(batch, True, lambda: None)
    feeds = tuple(values[:count])
    empty, nothing = _empty(model.engine, graph.inputs[0].dtype), np.zeros(1, graph.inputs[0].dtype)
    times = np.zeros((rounds, len(steps)), np.int64)
    totals, doors = [0] * rounds, [0] * rounds
    for step, args in zip(steps, arguments):
        step(*args)
    for r in range(rounds):
        for k, (step, args) in enumerate(zip(steps, arguments)):
            start = clock()
            step(*args)
            times[r, k] = clock() - start
        start = clock()
        whole(*feeds)
        middle = clock()
        empty(nothing)
        totals[r], doors[r] = middle - start, clock() - middle
        tick()
    door = float(np.percentile(doors, 10))  # a disturbed moment must not be taken off every layer
    medians = np.maximum(np.median(times, 0) - door, 0)
    total = max(float(medians.sum()), 1.0)
    rows = batch or 1
    nodes = []
    for k, node in enumerate(graph.nodes):
        flops, weights, moved = node_numbers(graph, k)
        nodes.append(
            {
                "layer": node.name,
                "op": _describe(node.op),
                "engine": "numpy (meaning)" if k in elsewhere else model.engine,
                "time": float(medians[k]),
                "share": float(medians[k]) / total,
                "flops": flops * rows,
                "weight_bytes": weights,
                "moved_bytes": moved * rows,
            }
        )
    return {
        "kind": "profile",
        "engine": model.engine,
        "batch": batch,
        "rounds": rounds,
        "whole": float(np.median(totals)),
        "door": door,
        "sum": float(medians.sum()),
        "nodes": nodes,
    }


def _values(graph: Graph, batch: int | None) -> list[Array]:
    """All values of one run on random inputs, as single calls take them."""
    rows = batch or 1
    values = random_inputs(graph, rows)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            got = node.op(*(values[v] for v in node.inputs))
            values += got if isinstance(got, tuple) else (got,)
    return [np.ascontiguousarray(a if batch else a[0]) for a in values]


def _alone(engine: str, graph: Graph, k: int, batch: int | None) -> Callable[..., Any]:
    """Node k as a network of its own: each distinct value it reads is an input (a value read twice is passed twice)."""
    node = graph.nodes[k]
    inputs = [graph.specs[v]._replace(name=f"value_{j}") for j, v in enumerate(node.inputs)]
    numbers = range(len(inputs), len(inputs) + len(graph.results(k)))
    alone = Graph(inputs, [Node(node.op, tuple(range(len(inputs))), node.name)], list(numbers))
    # results are written over: new memory for each would have to be mapped, which within the network doesn't happen
    step: Callable[..., Any] = make_executor(engine, alone).bind(batch, True, lambda: None)
    return step


def _empty(engine: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """A call that computes nothing, of a single number: copying is a layer's own work."""
    spec = Spec((1,), dtype)
    step: Callable[..., Any]
    try:
        step = make_executor(engine, Graph([spec], (), (0,))).bind(None, True, lambda: None)
        step(np.zeros(1, dtype))
    except Exception:  # an engine without empty networks: the cheapest one with a node
        step = make_executor(engine, Graph([spec], [Node(Cast(dtype), (0,))], (1,))).bind(None, True, lambda: None)
    return step


def _describe(op: Any) -> str:
    activation = getattr(op, "activation", None)
    kind = getattr(op, "kind", None)
    name = f"{type(op).__name__} {kind}" if isinstance(kind, str) else type(op).__name__
    return name if activation is None else f"{name} + {getattr(activation, 'kind', type(activation).__name__)}"


def table(result: dict[str, Any]) -> str:
    """The report as text."""
    rows = [["layer", "op", "time", "share", "flops", "weights", "in and out", "flop/s", "engine"]]
    for n in result["nodes"]:
        rate = n["flops"] / n["time"] * 1e9 if n["time"] > 0 else None
        rows.append(
            [n["layer"], n["op"], duration(n["time"]), f"{n['share']:.0%}", amount(n["flops"], ""), amount(n["weight_bytes"]),
             amount(n["moved_bytes"]), amount(rate, ""), n["engine"]]
        )  # fmt: skip
    what = f"a batch of {result['batch']}" if result["batch"] else "one sample"
    head = f"{result.get('file', 'network')}: {what}, engine {result['engine']}, medians of {result['rounds']} runs"
    m = result.get("machine")
    where = f"\n{m['cpu']}, {m['python']}, NumPy {m['numpy']}, {m['threads']} thread" if m else ""
    tail = (
        f"all layers {duration(result['sum'])}, the whole network in one call {duration(result['whole'])}, "
        f"an empty network {duration(result['door'])} (taken off each layer)"
    )
    return f"{head}{where}\n\n{columns(rows)}\n\n{tail}"
