"""From a graph to what the compiled engine reads: a table of rows and one packed arena of weights.

`Program(graph)` walks the nodes; the function registered for an op's class (`@packs`, pack.py) writes its rows. Rows name
memory by `Place`; when all are written, each intermediate buffer's first and last use are known, and buffers that don't meet
share memory. Nothing here needs Numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.executors.native import opcodes, record
from npinfer.executors.native.opcodes import (
    ACTIVATION,
    ARENA,
    FIRST_INPUT,
    KINDS,
    LINE,
    MORE,
    OPCODE,
    OUT,
    PARAMETERS,
    ROW,
    SCRATCH,
    SIZES,
    WALK,
    WEIGHTS,
    A,
    B,
)
from npinfer.executors.native.places import F32, Place, assign, buffer, up
from npinfer.executors.native.rules import NotNative, rule_for
from npinfer.executors.signature import sizes
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.reshape import Reshape

if TYPE_CHECKING:
    import numpy.typing as npt

TILE_ROWS = 24  # samples that go through the layers together: four register blocks of six. More of them …
NEAR = 1 << 15  # … if what lies between the layers then still fits into the first-level cache,
MIDDLE = 1 << 18  # fewer if it is too much for the second. But weights that are beyond it, too, come from far away for each
FAR_WEIGHTS = 1 << 20  # tile: then a tile moves as many bytes as they are.


def floats(spec: Spec) -> int:
    return int(np.prod(sizes(spec), dtype=np.int64))


class Program:
    """A graph, every size known, packed. Raises NotNative where an op has no compiled form.

    table: int64 rows. arena: bytes. tile, scratch_fixed, scratch_row: as in record.py. work: multiply-adds a sample.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.work = graph, 0
        self._rows: list[dict[int, Any]] = []
        self._uses: list[tuple[tuple[int, Place], ...]] = []
        self._chunks: list[Array] = []
        self._size = 0
        self._walks: dict[bytes, int] = {}
        n_in = len(graph.inputs)
        results = (*graph.outputs, *(s.output for s in graph.states))
        self.places: dict[int, Place] = {
            v: Place(FIRST_INPUT + v, 0, floats(s) * s.dtype.itemsize, s.dtype) for v, s in enumerate(graph.inputs)
        }
        targets = [Place(FIRST_INPUT + n_in + k, 0, floats(graph.specs[v]) * 4) for k, v in enumerate(results)]
        if any(graph.specs[v].dtype not in (F32, np.dtype(np.int32)) for v in results):
            raise NotNative("a result that is neither float32 nor int32")
        self.homes: dict[int, Place] = {}
        for v, target in zip(results, targets):
            if v >= n_in:
                self.homes.setdefault(v, target)
        self._pass_homes_back()
        for k, node in enumerate(graph.nodes):
            self._pack(k, node)
        for v, target in zip(results, targets):
            if self.places[v] is not target:
                self.copy(target, self.places[v], floats(graph.specs[v]))
        self._finish(n_in, len(results))

    # ---- what rules use

    def spec(self, v: int) -> Spec:
        return self.graph.specs[v]

    def buffer(self, n: int) -> Place:
        """A buffer in scratch for n floats a sample."""
        return buffer(n)

    def weights(self, *arrays: Array) -> int:
        """Put arrays into the arena one behind the other, 64-byte aligned at the first; returns the offset."""
        at = self._size
        for a in arrays:
            flat = np.ascontiguousarray(a).reshape(-1)
            self._chunks.append(flat)
            self._size += flat.nbytes
        rest = up(self._size) - self._size
        self._chunks.append(np.zeros(rest, np.uint8))
        self._size += rest
        return at

    def constant(self, a: npt.ArrayLike) -> Place:
        """A Place that is the same for all samples."""
        return Place(ARENA, self.weights(np.asarray(a, F32)), 0)

    def row(
        self,
        opcode: int,
        out: Place,
        a: Place | None = None,
        b: Place | None = None,
        values: Sequence[int] = (),
        weights: int = 0,
        activation: Op | None = None,
        parameters: Sequence[float] = (),
        more: Sequence[Place | None] = (),
    ) -> None:
        """Append a row. activation: an Activation op to apply to the result (or, MAP, the operation itself). more: operands
        beyond three."""
        words: dict[int, Any] = {OPCODE: opcode, WEIGHTS: weights}
        words.update({SIZES + k: int(v) for k, v in enumerate(values)})
        if activation is not None:
            words[ACTIVATION], parameters = kind_of(activation)
        if parameters:
            four = np.zeros(4, F32)
            four[: len(parameters)] = parameters
            words.update({PARAMETERS + k: int(w) for k, w in enumerate(four.view(np.int64))})
        operands = ((OUT, out), (A, a), (B, b), *((MORE + 3 * k, place) for k, place in enumerate(more)))
        uses = tuple((word, place) for word, place in operands if place is not None)
        for _, place in uses:
            if place.region == SCRATCH:
                place.first = len(self._rows) if place.first < 0 else place.first
                place.last = len(self._rows)
        self._rows.append(words)
        self._uses.append(uses)

    def walk(self, shape: Sequence[int], *strides: tuple[Sequence[int], int]) -> int:
        """The arena offset of a walk over `shape`: for out, a (and b) the strides in floats and where it starts."""
        axes = [(n, tuple(s[0][k] for s in strides)) for k, n in enumerate(shape) if n != 1]
        merged: list[tuple[int, tuple[int, ...]]] = []
        for n, step in axes:
            if merged and all(before == n * s for before, s in zip(merged[-1][1], step)):
                merged[-1] = (merged[-1][0] * n, step)
            else:
                merged.append((n, step))
        if len(merged) > 4:
            raise NotNative("an arrangement of more than four axes")
        merged = [(1, (0,) * len(strides))] * (4 - len(merged)) + merged
        if merged[3][0] == 1:
            merged[3] = (1, (1,) * len(strides))
        words = [n for n, _ in merged]
        for k, (_, start) in enumerate(strides):
            words += [4 * step[k] for _, step in merged] + [4 * start]
        words += [0] * (WALK - len(words))
        data = np.array(words, np.int64)
        key = data.tobytes()
        if key not in self._walks:
            self._walks[key] = self.weights(data)
        return self._walks[key]

    def copy(self, out: Place, a: Place, n: int) -> None:
        """All n floats of a sample as they are."""
        self.arrange(out, np.arange(n), a, np.arange(n))

    def arrange(self, out: Place, to: Array, a: Place, source: Array) -> None:
        """out[to[i]] = a[source[i]] for all i, where both are regular: sums of a multiple of each coordinate of i."""
        self.row(opcodes.COPY, out, a, weights=self.walk(to.shape, steps(to), steps(source)))

    def binary(self, kind: str, out: Place, a: Place, b: Place, shapes: Sequence[Sequence[int]], **more: Any) -> None:
        """out = a ∘ b; shapes of the two operands, which broadcast."""
        shape = np.broadcast_shapes(*(tuple(s) for s in shapes))
        numbers = [np.broadcast_to(np.arange(int(np.prod(s))).reshape(s), shape) for s in shapes]
        n = int(np.prod(shape))
        walk = self.walk(shape, steps(np.arange(n).reshape(shape)), *(steps(x) for x in numbers))
        self.row(opcodes.BINARY, out, a, b, (opcodes.BINARIES.index(kind), n), walk, **more)

    def last_axes(self, place: Place, shape: Sequence[int], axes: Sequence[int]) -> tuple[Place, Array, int]:
        """The value with some axes moved to the end: (Place, numbers of its elements in the old order, size of those axes)."""
        axes = [a % len(shape) for a in axes]
        order = [k for k in range(len(shape)) if k not in axes] + axes
        n, inner = int(np.prod(shape)), int(np.prod([shape[a] for a in axes]))
        numbers = np.arange(n).reshape(shape).transpose(order)
        if order == list(range(len(shape))):
            return place, numbers, inner
        moved = self.buffer(n)
        self.arrange(moved, np.arange(n).reshape(numbers.shape), place, numbers)
        return moved, numbers, inner

    # ---- the walk over the graph

    def _pass_homes_back(self) -> None:
        """Where only the form changes between a value and a result, compute the value in the result's memory."""
        for k in reversed(range(len(self.graph.nodes))):
            node = self.graph.nodes[k]
            v = self.graph.first[k]
            if isinstance(node.op, Reshape) and v in self.homes and node.inputs[0] >= len(self.graph.inputs):
                self.homes.setdefault(node.inputs[0], self.homes[v])

    def _pack(self, k: int, node: Node) -> None:
        rule = rule_for(type(node.op))
        ys = []
        for v in self.graph.results(k):
            n = floats(self.spec(v))
            self.places[v] = self.homes.get(v) or self.buffer(n)
            self.places[v].dtype = self.spec(v).dtype
            ys.append(v)
        rule(self, node.op, node.inputs, tuple(ys))

    def _finish(self, n_in: int, n_out: int) -> None:
        row_bytes = assign(p for uses in self._uses for _, p in uses if p.region == SCRATCH)
        table = np.zeros((len(self._rows), ROW), np.int64)
        for line, words, uses in zip(table, self._rows, self._uses):
            for word, value in words.items():
                line[word] = value
            for word, place in uses:
                line[word : word + 3] = place.region, place.offset, place.stride
        self.table = table
        self.arena = np.zeros(self._size, np.uint8)
        at = 0
        for chunk in self._chunks:
            self.arena[at : at + chunk.nbytes] = chunk.view(np.uint8)
            at += chunk.nbytes
        self.scratch_row = row_bytes
        self.scratch_fixed = LINE + up(8 * (FIRST_INPUT + n_in + n_out)) + LINE  # a line behind all, for reads of whole vectors
        self.tile = tile_for(max(1, row_bytes), self._size)

    def memory(self) -> Array:
        """The program record, its rows and its arena as bytes for one 64-byte aligned block; addresses in it count from its
        start (relocate them with `place_at`)."""
        head = np.zeros(record.P_STRIDES + len(self.graph.inputs) + len(self.graph.outputs) + len(self.graph.states), np.int64)
        n_in = len(self.graph.inputs)
        results = (*self.graph.outputs, *(s.output for s in self.graph.states))
        strides = [floats(s) * s.dtype.itemsize for s in (*self.graph.inputs, *(self.spec(v) for v in results))]
        table_at = up(head.nbytes)
        arena_at = up(table_at + self.table.nbytes)
        head[record.P_ROWS], head[record.P_TABLE], head[record.P_ARENA] = len(self.table), table_at, arena_at
        head[record.P_TILE], head[record.P_SCRATCH], head[record.P_SCRATCH_ROW] = (
            self.tile,
            self.scratch_fixed,
            self.scratch_row,
        )
        head[record.P_INPUTS], head[record.P_OUTPUTS] = n_in, len(results)
        head[record.P_STRIDES :] = strides
        block = np.zeros(arena_at + len(self.arena) + LINE, np.uint8)
        for at, part in ((0, head), (table_at, self.table.reshape(-1)), (arena_at, self.arena)):
            block[at : at + part.nbytes] = part.view(np.uint8)
        return block


def tile_for(row_bytes: int, weight_bytes: int) -> int:
    """How many samples go through the layers together; a multiple of the register blocks' six where there is a choice."""
    most, room = (8, NEAR) if row_bytes * TILE_ROWS <= NEAR else (2, MIDDLE)
    tile = min(most * TILE_ROWS, room // row_bytes)
    if weight_bytes > FAR_WEIGHTS:
        tile = max(tile, min(TILE_ROWS, weight_bytes // row_bytes))
    return tile // 6 * 6 or max(1, tile)


def kind_of(activation: Op) -> tuple[int, tuple[float, ...]]:
    """An activation's number and parameters; NotNative for one without a compiled form."""
    kind = getattr(activation, "kind", "")
    if kind not in KINDS:
        raise NotNative(f"activation {kind or type(activation).__name__}")
    return KINDS.index(kind), getattr(activation, "parameters", ())


def steps(numbers: Array) -> tuple[tuple[int, ...], int]:
    """(strides, start) of a regular array of element numbers; NotNative if it isn't regular."""
    if numbers.size == 0:
        raise NotNative("an empty array")
    start = int(numbers[(0,) * numbers.ndim])
    strides = tuple(
        int(numbers[tuple(int(a == k) for a in range(numbers.ndim))]) - start if n > 1 else 0
        for k, n in enumerate(numbers.shape)
    )
    expected = np.full(numbers.shape, start, np.int64)
    for k, (n, stride) in enumerate(zip(numbers.shape, strides)):
        expected += (np.arange(n) * stride).reshape([n if a == k else 1 for a in range(numbers.ndim)])
    if not np.array_equal(expected, numbers):
        raise NotNative("an irregular arrangement")
    return strides, start
