"""How much an op computes and reads: from its own `flops(*specs)`, else from the table by class, else from its shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.graph import Graph, Node, Op, Spec

OPEN_SIZE = 8  # stands for sizes that are unknown until a call
Rule = Callable[[Any, Sequence[Spec], Sequence[Spec]], int]


def count(sizes: Sequence[int | None]) -> int:
    """The product of sizes, open ones counted as OPEN_SIZE."""
    return int(np.prod([OPEN_SIZE if n is None else n for n in sizes], dtype=np.int64))


def size(spec: Spec) -> int:
    """Numbers in one sample of a value."""
    return count(spec.shape)


def flops(op: Op, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Additions and multiplications for one sample; an elementwise function counts as one."""
    own = getattr(op, "flops", None)
    if callable(own):
        return int(own(*inputs))
    for kind in type(op).__mro__:  # classes are named, not imported, so that a new op works without a rule
        if kind.__name__ in RULES:
            return RULES[kind.__name__](op, inputs, results)
    return sum(map(size, results))


def weight_bytes(op: Op) -> int:
    """Bytes of the arrays that an op owns."""
    return sum(a.nbytes for a in op.arrays())


def node_numbers(graph: Graph, k: int) -> tuple[int, int, int]:
    """(flops, bytes of weights, bytes of activations read and written) of node k for one sample."""
    node: Node = graph.nodes[k]
    inputs, results = [graph.specs[v] for v in node.inputs], [graph.specs[v] for v in graph.results(k)]
    moved = sum(size(s) * s.dtype.itemsize for s in (*inputs, *results))
    return flops(node.op, inputs, results), weight_bytes(node.op), moved


def graph_numbers(graph: Graph) -> tuple[int, int]:
    """(flops, distinct bytes of weights) for one sample of a whole network."""
    total = sum(node_numbers(graph, k)[0] for k in range(len(graph.nodes)))
    arrays = {id(a) if a.base is None else a.__array_interface__["data"]: a for a in graph.arrays()}
    return total, sum(a.nbytes for a in arrays.values())


def _dense(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """A product over the last axis: 2 · inputs for each output number."""
    return 2 * int(op.kernel.shape[0]) * size(results[0])


def _conv(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Each output number sums over the kernel's window and its group's channels: all of the kernel but its last axis."""
    return 2 * count(op.kernel.shape[:-1]) * size(results[0])


def _transposed(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Each input number is spread over the window and the filters: the kernel but for its input channels."""
    return 2 * count(op.kernel.shape[:-1]) * size(inputs[0])


def _local(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Every weight once."""
    return 2 * int(op.kernel.size)


def _pool(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """One comparison or addition for each number of a window."""
    return count(op.window) * size(results[0])


def _read(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """One operation for each number read."""
    return size(inputs[0])


def _cell(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Every weight once a step; a convolution's once a place."""
    places = count(results[0].shape[:-1]) if hasattr(op, "input_conv") else 1
    return 2 * places * sum(int(a.size) for a in op.arrays())


def _masked_step(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    return _cell(op.cell, inputs, results)


def _recurrent(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    return (inputs[0].shape[0] or OPEN_SIZE) * _cell(op.cell, inputs, results[1:] or results)


def _distributed(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    return (inputs[0].shape[0] or OPEN_SIZE) * graph_numbers(op.graph)[0]


def _matmul(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    return 2 * (inputs[0].shape[-1] or OPEN_SIZE) * size(results[0])


def _batch_dot(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    return 2 * (inputs[0].shape[op.axes[0]] or OPEN_SIZE) * size(results[0])


def _einsum_dense(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Each output number sums over the kernel's axes that the result doesn't have."""
    left, given = op.equation.split("->")
    summed = [n for letter, n in zip(left.split(",")[1].strip(), op.kernel.shape) if letter not in given]
    return 2 * count(summed) * size(results[0])


def _attention(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Queries times keys, then weights times values."""
    q, k, y = inputs[0].shape, inputs[-1].shape if len(inputs) < 3 else inputs[1].shape, results[0].shape
    return 2 * count(q[:-1]) * count(k[-2:-1]) * ((q[-1] or OPEN_SIZE) + (y[-1] or OPEN_SIZE))


def _copies(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    return 0


COPIES = (
    "Reshape", "Transpose", "Concatenate", "Embedding", "Cast", "GetItem", "Take", "TakeRows", "TakeAlongAxis", "Pad", "Tile",
    "Repeat", "Roll", "Constant", "FullLike", "Window",
)  # fmt: skip
RULES: dict[str, Rule] = {
    "Dense": _dense,
    "Int8Dense": _dense,
    "Conv": _conv,
    "ConvTranspose": _transposed,
    "LocallyConnected": _local,
    "Pool": _pool,
    "GlobalPool": _read,
    "Reduce": _read,
    "Cell": _cell,
    "MaskedStep": _masked_step,
    "Recurrent": _recurrent,
    "TimeDistributed": _distributed,
    "Matmul": _matmul,
    "BatchDot": _batch_dot,
    "EinsumDense": _einsum_dense,
    "HeadAttention": _attention,
    "Attention": _attention,
    **dict.fromkeys(COPIES, _copies),
}
