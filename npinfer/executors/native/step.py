"""Bound callables of the native engine: the checked Python path, and the compiled one that stands before it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from npinfer.executors.native import abi, record
from npinfer.executors.native.abi import Network
from npinfer.executors.signature import sizes
from npinfer.executors.steps import BoundStep, Rebind, graph_signature, zero_states
from npinfer.graph import Array

#: Releases the GIL for the call.
_Run = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def fixed_zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Zeros at a 64-byte aligned address that can't move: the memory is a bytearray's, which refuses to resize while an array
    looks at it, and an array that doesn't own its memory refuses as well."""
    count = int(np.prod(shape, dtype=np.int64))
    whole = np.frombuffer(bytearray(count * dtype.itemsize + 64), np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + count * dtype.itemsize].view(dtype).reshape(tuple(shape))


def addresses(arrays: Sequence[Array]) -> Any:
    """Data addresses as a C array; keep the arrays alive yourself."""
    return (ctypes.c_int64 * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))


class Record:
    """The int64 record of abi.py for a network and a number of rows (None: one sample without a batch axis), and its memory.

    kept: the output arrays to fill each time, or none. slow: the plain function for arguments that don't fit as they are.
    """

    def __init__(self, network: Network, rows: int | None, kept: Sequence[Array] = (), slow: Any = None) -> None:
        graph, signature = network.graph, graph_signature(network.graph, rows)
        count = 1 if rows is None else rows
        shapes = (*signature.input_shapes, *signature.output_shapes)
        specs = (*signature.inputs, *signature.outputs)
        self.network, self.rows = network, count
        self.dtypes = [np.dtype(s.dtype.char) for s in specs]  # the objects that arrays of these dtypes have
        self.dims = [(ctypes.c_int64 * max(len(s), 1))(*s) for s in shapes]
        self.states = [[fixed_zeros(z.shape, z.dtype) for z in zero_states(graph, count)] for _ in range(2)]
        self.state_places = addresses([*self.states[0], *self.states[1]])
        need = self._scratch(network.context)
        self.parked = fixed_zeros((need // 8 + 8,), np.dtype(np.int64))
        self.parked[0] = self.parked.nbytes
        self.kept = tuple(kept)
        self.result: Any = None if not kept else kept[0] if len(kept) == 1 else tuple(kept)
        self.slow = slow
        words = [0] * (abi.ARGUMENTS + abi.ARGUMENT_WORDS * len(specs))
        words[abi.CONTEXT], words[abi.ROWS] = network.context, count
        words[abi.PARKED], words[abi.PARKED_BYTES] = self.parked.ctypes.data, self.parked.nbytes
        words[abi.MALLOC], words[abi.FREE] = abi.allocator()
        words[abi.RUN] = network.code.run
        words[abi.INPUTS], words[abi.OUTPUTS] = len(signature.inputs), len(signature.outputs)
        words[abi.STATES] = len(graph.states)
        words[abi.STATES_AT] = ctypes.addressof(self.state_places)
        words[abi.LONG] = int(network.work * count > abi.LONG_WORK)
        if slow is not None:
            words[abi.SLOW], words[abi.KEPT] = id(slow), 0 if self.result is None else id(self.result)
            words[abi.ARRAY_TYPE] = id(np.ndarray)
            words[abi.API : abi.API + len(abi.Api._fields)] = abi.api()
        for k, shape in enumerate(shapes):
            at, out = abi.ARGUMENTS + abi.ARGUMENT_WORDS * k, k - len(signature.inputs)
            words[at + abi.A_DESCR], words[at + abi.A_NDIM] = id(self.dtypes[k]), len(shape)
            words[at + abi.A_DIMS] = ctypes.addressof(self.dims[k])
            words[at + abi.A_FLAGS] = abi.CARRAY_RO if out < 0 else abi.CARRAY
            words[at + abi.A_BYTES] = int(np.prod(shape, dtype=np.int64)) * self.dtypes[k].itemsize
            words[at + abi.A_KEPT] = self.kept[out].ctypes.data if kept and out >= 0 else 0
        self.words = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self.words)

    def _scratch(self, context: int) -> int:
        words = (ctypes.c_int64 * record.CONTEXT_WORDS).from_address(context)
        return int(words[record.SCRATCH_FIXED] + words[record.SCRATCH_ROW] * min(self.rows, words[record.TILE]))

    def owned(self) -> tuple[Any, ...]:
        """All that the record points to, in a form that nothing can take from its holder."""
        return (
            self.words, self.network, self.network.owner, self.parked, self.state_places, *self.states[0], *self.states[1],
            *self.dtypes, *self.dims, *self.kept, *(a.base for a in self.kept), self.result, self.slow,
        )  # fmt: skip

    def current_states(self) -> list[Array]:
        """The buffers that the next run reads its states from."""
        where = {a.ctypes.data: a for side in self.states for a in side}
        return [where[self.state_places[k]] for k in range(len(self.states[0]))]

    def run(self, arrays: Sequence[Array], results: Sequence[Array]) -> int:
        """Compute from C-contiguous arrays (states last) into others; the entry's status."""
        ins, outs = addresses(arrays), addresses(results)
        return int(_Run(self.network.code.run)(self.address, ctypes.addressof(ins), ctypes.addressof(outs)))


class NativeStep(BoundStep):
    """The checked path: casts, raises, and computes with the same machine code. `compiled`: whether the quick path can stand
    before it."""

    def __init__(self, network: Network, rows: int | None, reuse_output: bool, rebind: Rebind) -> None:
        signature = graph_signature(network.graph, rows)
        kept = [fixed_zeros(s, o.dtype) for s, o in zip(signature.output_shapes, signature.outputs)] if reuse_output else []
        count = len(signature.inputs) + len(signature.outputs) + 2 * len(network.graph.states)
        self.compiled = count <= abi.MAX_POINTERS and abi.unfit() is None

        def step(*args: Any) -> Any:
            return self(*args)

        self._record = Record(network, rows, kept, step if self.compiled else None)
        super().__init__(network.graph, rows, reuse_output, self._native, rebind)
        self._kept = kept

    @property
    def _states(self) -> list[Array]:
        return self._record.current_states()

    @_states.setter
    def _states(self, values: Sequence[Array]) -> None:
        for state, value in zip(self._record.current_states(), values):
            np.copyto(state, value)

    def _native(self, arrays: list[Array]) -> list[Array]:
        graph, rows = self._record.network.graph, self._record.rows
        specs = [graph.specs[v] for v in (*graph.outputs, *(s.output for s in graph.states))]
        results = [np.empty((rows, *sizes(s)), s.dtype) for s in specs]
        raise_for(self._record.run(arrays, results), self._record.network, arrays)
        return results


def raise_for(status: int, network: Network, arrays: Sequence[Array]) -> None:
    if status == abi.NO_MEMORY:
        raise MemoryError("no memory for a run's intermediate results")
    if status != 0:
        raise network.explain(status, arrays)


def bind(network: Network, rows: int | None, reuse_output: bool, rebind: Rebind) -> Any:
    """The callable of `model.bind()`: compiled where interpreter and NumPy allow, else the checked Python path by itself.

    rows: the fixed batch size, None for one sample without a batch axis. rebind: makes such a callable anew, for pickles and
    copies. One callable may be used from many threads at once unless it reuses its output or has states.
    """
    step = NativeStep(network, rows, reuse_output, rebind)
    if not step.compiled:
        return step
    from npinfer.executors.native.step_type import make_step

    own = step._record
    return make_step(network.code.vectorcall, own.address, (step, *own.owned()))
