"""Bound callables: what every engine's `bind()` returns, and the state that streams carry from call to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.errors import ShapeError, shown
from npinfer.executors.signature import Signature, cast, sizes
from npinfer.graph import Array, Graph, Spec

Rebind = Callable[[], Any]
Compute = Callable[[list[Array]], Sequence[Array]]


def graph_signature(graph: Graph, rows: int | None) -> Signature:
    """The signature of a graph's bound callable: its states are not arguments."""
    count = len(graph.inputs) - len(graph.states)
    outputs = [graph.specs[v]._replace(name=graph.specs[v].name or f"output_{k}") for k, v in enumerate(graph.outputs)]
    return Signature(graph.inputs[:count], outputs, rows)


def zero_states(graph: Graph, rows: int) -> list[Array]:
    """Fresh states for a number of samples: zeros of shape (rows, *spec.shape)."""
    return [np.zeros((rows, *sizes(graph.inputs[s.input])), graph.inputs[s.input].dtype) for s in graph.states]


class BoundStep:
    """A callable for a fixed number of rows (None: one sample without a batch axis).

    step(x) returns a new array (the same one each time with `reuse_output`), step(x, out) fills `out`; several inputs, then
    several outputs, all positional; a tuple for several outputs. Raises ShapeError, DtypeError or TypeError for arguments that
    don't fit. A graph with states keeps them here: `state` (a tuple of arrays; assignable), `reset()`, `fork()`; such a step
    belongs to one thread, others may be called from many.
    """

    def __init__(self, graph: Graph, rows: int | None, reuse_output: bool, compute: Compute, rebind: Rebind) -> None:
        self.signature = graph_signature(graph, rows)
        self._rows, self._compute, self._rebind = 1 if rows is None else rows, compute, rebind
        self._single = rows is None
        self._zeros = zero_states(graph, self._rows)
        self._states = [z.copy() for z in self._zeros]
        self._kept = [np.zeros(s, o.dtype) for s, o in zip(self.signature.output_shapes, self.signature.outputs)]
        self._kept = self._kept if reuse_output else []

    def __call__(self, *args: Any) -> Any:
        given, outs = self.signature.split(args)
        checked = None if outs is None else self.signature.outs(outs)
        arrays = self.signature.arrays(given)
        if self._single:
            arrays = [x[None] for x in arrays]
        results = list(self._compute([*arrays, *self._states]))
        count = len(self.signature.outputs)
        self._states = results[count:]
        results = [y[0] for y in results[:count]] if self._single else results[:count]
        targets = checked if checked is not None else self._kept
        if targets:
            for out, y in zip(targets, results):
                np.copyto(out, y, casting="same_kind")
            results = list(targets)
        return results[0] if count == 1 else tuple(results)

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, side)) for side in (self.signature.inputs, self.signature.outputs))
        return f"<npinfer step: {ins} -> {outs}; {self._rebind}>"

    @property
    def state(self) -> tuple[Array, ...]:
        """Copies of the states, without the batch axis for a step of one sample."""
        return tuple((s[0] if self._single else s).copy() for s in self._states)

    @state.setter
    def state(self, values: Sequence[Any]) -> None:
        if not isinstance(values, (tuple, list)) or len(values) != len(self._zeros):
            raise ShapeError(f"state: needs a tuple of {len(self._zeros)} arrays, got {shown(values)}")
        new = []
        for k, (zero, value) in enumerate(zip(self._zeros, values)):
            shape = zero.shape[1:] if self._single else zero.shape
            array = np.array(cast(value, Spec(zero.shape[1:], zero.dtype), f"state {k}"))
            if array.shape != shape:
                raise ShapeError(f"state {k}: expected shape {shape}, got {array.shape}")
            new.append(array.reshape(zero.shape))
        self._states = new

    def reset(self) -> None:
        """Back to the zero state."""
        self._states = [z.copy() for z in self._zeros]

    def fork(self) -> Any:
        """An independent step that starts from this one's present state and shares its weights."""
        other = self._rebind()
        other.state = self.state
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._rebind, self.state)


def _restore(rebind: Rebind, state: Sequence[Array]) -> Any:
    """Pickles and deep copies bind again: addresses and buffers aren't carried over."""
    step = rebind()
    if state:
        step.state = state
    return step
