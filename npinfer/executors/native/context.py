"""A context record and the program memory it points to: running, and exchanging the weights under running calls."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.executors.native import record
from npinfer.executors.native.opcodes import LINE
from npinfer.executors.native.program import Program
from npinfer.executors.signature import sizes
from npinfer.graph import Array

C_ENTRY = (ctypes.c_ssize_t,) * 6
_free = ctypes.CFUNCTYPE(*C_ENTRY)  # lets other threads run meanwhile
_held = ctypes.PYFUNCTYPE(*C_ENTRY)
RELEASE_FROM = 50_000  # multiply-adds of a whole call: below, giving up the interpreter's lock costs more than it brings


def aligned(n_bytes: int) -> Array:
    """Zeros that begin at a multiple of 64 bytes."""
    raw = np.zeros(n_bytes + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + n_bytes]


class Context:
    """One network for fixed shapes. Any number of threads may `run`; `swap` goes one at a time.

    address: of the context record, for life. All memory that the record ever pointed to stays until the Context goes.
    """

    def __init__(self, program: Program, entry: int) -> None:
        self.program = program
        self._words = aligned(8 * record.CONTEXT_WORDS).view(np.int64)
        self.address = self._words.ctypes.data
        self._lock = threading.Lock()
        self._fence = threading.Lock()
        self._memory: dict[tuple[Any, ...], list[Array]] = {}
        self._spare: list[tuple[int, Array, int]] = []
        self._free, self._held = _free(entry), _held(entry)
        graph = program.graph
        self.results = [graph.specs[v] for v in (*graph.outputs, *(s.output for s in graph.states))]
        self._words[record.INPUTS], self._words[record.OUTPUTS] = len(graph.inputs), len(self.results)
        self._fill(0, program, *self._room(program))

    def _room(self, program: Program) -> tuple[Array, tuple[Any, ...], list[Array]]:
        """A program's bytes, and the memory for it and its successor by structure: the rows of programs of one structure are
        equal, so only weights differ in memory that a late reader may still use."""
        block = program.memory()
        key = (program.table.tobytes(), len(block), program.tile)
        return block, key, self._memory.get(key) or [aligned(len(block)) for _ in range(2)]

    def _fill(self, slot: int, program: Program, block: Array, key: tuple[Any, ...], pair: list[Array]) -> None:
        pair = self._memory.setdefault(key, pair)
        head = block[: 8 * record.P_STRIDES].view(np.int64)
        base = pair[slot].ctypes.data
        head[record.P_TABLE] += base
        head[record.P_ARENA] += base
        pair[slot][:] = block
        w = self._words
        w[record.SLOTS + slot] = base
        for word, need in ((record.SCRATCH_FIXED, program.scratch_fixed), (record.SCRATCH_ROW, program.scratch_row)):
            w[word] = max(w[word], need)
        w[record.TILE], w[record.WORK] = max(w[record.TILE], program.tile), program.work

    def prepare(self, program: Program) -> Callable[[], None]:
        """All that takes memory; the result makes this the current program: calls that run then finish on the old one or run
        again."""
        room = self._room(program)

        def commit() -> None:
            with self._lock:
                generation = int(self._words[record.GENERATION])
                self._words[record.GENERATION] = generation + 1
                with self._fence:  # taking and releasing a lock orders memory on every machine
                    pass
                self._fill(((generation >> 1) + 1) & 1, program, *room)
                with self._fence:
                    pass
                self._words[record.GENERATION] = generation + 2
                self.program = program

        return commit

    def scratch_bytes(self, rows: int) -> int:
        w = self._words
        return int(w[record.SCRATCH_FIXED] + w[record.SCRATCH_ROW] * min(rows, int(w[record.TILE])))

    def run(self, arrays: Sequence[Array], results: Sequence[Array], start: int = 0, stop: int | None = None) -> int:
        """Rows start … stop of the arrays to those of results; the entry's status."""
        stop = len(arrays[0]) if stop is None else stop
        rows = stop - start
        pointers = np.array([a.ctypes.data + start * a.strides[0] if len(a) else 0 for a in (*arrays, *results)], np.int64)
        at = pointers.ctypes.data
        call = self._free if rows * self.program.work >= RELEASE_FROM else self._held
        while True:
            need = self.scratch_bytes(rows)
            try:
                size, scratch, address = self._spare.pop()
            except IndexError:
                size = 0
            if size < need:
                scratch = aligned(need)
                size, address = need, scratch.ctypes.data
                scratch[:8].view(np.int64)[0] = need
            status = int(call(self.address, at, at + 8 * len(arrays), rows, address))
            self._spare.append((size, scratch, address))
            if status != record.NO_SCRATCH:
                return status

    def new_results(self, rows: int) -> list[Array]:
        return [np.empty((rows, *sizes(s)), s.dtype) for s in self.results]
