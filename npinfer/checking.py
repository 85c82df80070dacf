"""Comparing outputs with expected ones, and making inputs to do it with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from npinfer.errors import CheckError
from npinfer.graph import Array, Graph, Spec


def random_inputs(graph: Graph, rows: int, specs: Sequence[Spec] | None = None, open_size: int = 8) -> list[Array]:
    """Inputs for a graph, or for its first len(specs) ones with sizes given: arrays of shape (rows, *spec.shape).

    Standard normal floats, integers 0 and 1, and indices that exist for what feeds an embedding; unknown sizes become
    `open_size`. The same ones each time.
    """
    rng = np.random.default_rng(0)
    tables = _tables(graph)
    arrays = []
    for k, spec in enumerate(graph.inputs if specs is None else specs):
        shape = (rows, *(open_size if n is None else n for n in spec.shape))
        indices = k in tables or spec.dtype.kind != "f"
        x = rng.integers(0, tables.get(k, 2), shape) if indices else rng.normal(size=shape)
        arrays.append(x.astype(spec.dtype))
    return arrays


def _tables(graph: Graph) -> dict[int, int]:
    """For inputs that embeddings read, as they are or cast: the number of entries of the smallest table."""
    from npinfer.ops.cast import Cast
    from npinfer.ops.embedding import Embedding

    source = {v: v for v in range(len(graph.inputs))}
    found: dict[int, int] = {}
    for k, node in enumerate(graph.nodes):
        origin = source.get(node.inputs[0]) if node.inputs else None
        if origin is None:
            continue
        if isinstance(node.op, Cast):
            source[graph.first[k]] = origin
        if isinstance(node.op, Embedding):
            found[origin] = min(len(node.op.table), found.get(origin, len(node.op.table)))
    return found


def compare(specs: Sequence[Spec], got: Sequence[Array], expected: Any, rtol: float) -> float:
    """The largest error relative to an output's scale. Raises CheckError naming the output where it exceeds rtol."""
    lone = len(got) == 1 and not isinstance(expected, Mapping)
    if lone and isinstance(expected, (list, tuple)) and len(expected) == 1 and isinstance(expected[0], np.ndarray):
        expected = expected[0]
    want = [expected] if lone else list(flatten_outputs(expected))
    if len(want) != len(got):
        raise CheckError(
            f"{len(want)} expected outputs given, the model has {len(got)}; give one array for each of model.outputs"
        )
    return max((error(s.name, a, np.asarray(b, a.dtype), rtol) for s, a, b in zip(specs, got, want)), default=0.0)


def flatten_outputs(y: Any) -> Iterable[Any]:
    """The arrays of a result, in the order of Model.outputs."""
    if isinstance(y, Mapping):
        for value in y.values():
            yield from flatten_outputs(value)
    elif isinstance(y, (list, tuple)):
        for value in y:
            yield from flatten_outputs(value)
    else:
        yield y


def error(name: str, got: Array, want: Array, rtol: float) -> float:
    if got.shape != want.shape:
        if got.shape[1:] == want.shape and len(got) == 1:
            want = want[None]
        else:
            raise CheckError(f"output {name!r}: shape {got.shape}, expected {want.shape}")
    finite = np.isfinite(want)
    if not np.array_equal(
        np.where(finite, 0, want), np.where(finite, 0, np.where(np.isfinite(got) & finite, 0, got)), equal_nan=True
    ):
        raise CheckError(f"output {name!r}: NaN or infinity where the other has none")
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(want[finite]).max()), 1e-30)
    error = float(np.abs(got[finite] - want[finite]).max()) / scale
    if not error <= rtol:
        raise CheckError(f"output {name!r}: off by {error:.3g} of its scale {scale:.3g}, allowed {rtol:g}")
    return error
