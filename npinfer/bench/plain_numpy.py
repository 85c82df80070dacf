"""The peer `numpy`: a chain of Dense layers as people write it by hand, `np.maximum(x @ W + b, 0)` a layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.bench.measure import Local, Runner
from npinfer.graph import Array, Graph, Op
from npinfer.ops.activations import Activation
from npinfer.ops.dense import Dense
from npinfer.ops.softmax import Softmax

if TYPE_CHECKING:
    from npinfer.bench.peers import Context

Function = Callable[[Any], Any]
#: activations as one writes them
WRITTEN: dict[str, Function] = {
    "linear": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "exponential": np.exp,
}


def _softmax(z: Array) -> Any:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _function(op: Op | None) -> Function | None:
    """An activation by hand, or None where people have no one line for it."""
    if op is None:
        return WRITTEN["linear"]
    if isinstance(op, Softmax):
        return _softmax
    return WRITTEN.get(op.kind) if isinstance(op, Activation) and not op.parameters else None


def layers(graph: Graph) -> list[tuple[Array, Any, Function]]:
    """(W, b, function) of each layer. Raises Absent for anything but a chain of Dense layers."""
    from npinfer.bench.peers import Absent

    found: list[tuple[Array, Any, Function]] = []
    for k, node in enumerate(graph.nodes):
        op = node.op
        function = _function(op.activation if isinstance(op, Dense) else op)
        chained = len(graph.inputs) == 1 and node.inputs == (k,) and function is not None
        if chained and function and isinstance(op, Dense):
            found.append((op.kernel, 0 if op.bias is None else op.bias, function))
        elif chained and function and found and found[-1][2] is WRITTEN["linear"]:
            found[-1] = (*found[-1][:2], function)
        else:
            raise Absent(
                f"only chains of Dense layers are written by hand, layer {node.name!r} ({type(op).__name__}) is in none"
            )
    if graph.outputs != (len(graph.nodes),):
        raise Absent("only chains of Dense layers are written by hand, this network has other outputs")
    return found


def plain_numpy(context: Context) -> Runner:
    """x = f(x @ W + b), layer by layer."""
    start = perf_counter()
    chain = layers(context.model._executor.graph)
    load = perf_counter() - start

    def one(x: Any) -> Any:
        for w, b, f in chain:
            x = f(x @ w + b)
        return x

    def many(arrays: Sequence[Array]) -> Callable[[], Sequence[Any]]:
        (x,) = arrays
        return lambda: [one(x)]

    return Local("numpy", np.__version__, one, list(context.samples), many, context.pool, load, "f(x @ W + b)")
