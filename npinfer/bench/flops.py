"""How much an op computes and reads: from its own `flops(*specs)`, else from the table by class, else from its shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.graph import Graph, Node, Op, Spec

OPEN_SIZE = 8  # stands for sizes that are unknown until a call


def size(spec: Spec) -> int:
    """Numbers in one sample of a value."""
    return int(np.prod([OPEN_SIZE if n is None else n for n in spec.shape], dtype=np.int64))


def flops(op: Op, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Additions and multiplications for one sample; an elementwise function counts as one."""
    own = getattr(op, "flops", None)
    if callable(own):
        return int(own(*inputs))
    rule = RULES.get(type(op).__name__)
    if rule is not None:
        return rule(op, inputs, results)
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
    return 2 * int(np.prod(op.kernel.shape[:-1], dtype=np.int64)) * size(results[0])


def _depthwise(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    return 2 * int(np.prod(op.kernel.shape[:-2], dtype=np.int64)) * size(results[0])


def _transposed(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Each input number is spread over the window and the filters: the kernel but for its input channels."""
    return 2 * int(op.kernel.size // op.kernel.shape[-1]) * size(inputs[0])


def _recurrent(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """Every weight is used once a time step."""
    steps = inputs[0].shape[0] if inputs[0].shape else 1
    return 2 * (steps or OPEN_SIZE) * int(sum(a.size for a in op.arrays()))


def _pool(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    """One comparison or addition for each number of a window."""
    return int(np.prod(op.window, dtype=np.int64)) * size(results[0])


def _copies(op: Any, inputs: Sequence[Spec], results: Sequence[Spec]) -> int:
    return 0


Rule = Callable[[Any, Sequence[Spec], Sequence[Spec]], int]
RULES: dict[str, Rule] = {
    "Dense": _dense,
    "Conv": _conv,
    "DepthwiseConv": _depthwise,
    "ConvTranspose": _transposed,
    "Pool": _pool,
}
RULES.update(dict.fromkeys(("SimpleRNN", "LSTM", "GRU", "Recurrent", "RNN"), _recurrent))
RULES.update(
    dict.fromkeys(("Reshape", "Flatten", "Permute", "Transpose", "Concatenate", "Embedding", "Cast", "Slice"), _copies)
)
