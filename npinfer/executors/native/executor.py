"""The native executor: a graph as stretches of compiled rows, with ops that have no compiled form run by NumPy in between.

What can be compiled is found by trying to pack it (pack.py). A graph that can be as a whole is one `Context`: one call of
machine code a batch, and what `bind` and `jit` build on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.errors import EngineError, ShapeError
from npinfer.executors.memory import Memory, value_bytes, weight_bytes
from npinfer.executors.native.abi import Network
from npinfer.executors.native.context import Context, aligned
from npinfer.executors.native.stretches import Stretch, stretches
from npinfer.executors.native.threads import Threads
from npinfer.executors.signature import fix, sizes
from npinfer.executors.steps import BoundStep, Rebind
from npinfer.graph import Array, Graph, Node, Op
from npinfer.ops.cast import Cast
from npinfer.ops.indexing import GetItem
from npinfer.ops.joining import Concatenate
from npinfer.ops.reductions import Reduce
from npinfer.ops.reshape import Reshape, Transpose

KEPT_SHAPES = 16  # plans for that many different input shapes are kept, where a graph leaves sizes open
Shapes = tuple[tuple[int, ...], ...]


class Plan:
    """A graph for fixed shapes: compiled stretches (a Context each) and single nodes, in order."""

    def __init__(self, graph: Graph, entry: int) -> None:
        self.graph = graph
        self.parts: list[tuple[Stretch, Context | None]] = []
        for stretch in stretches(graph):
            self.parts.append((stretch, None if stretch.program is None else Context(stretch.program, entry)))
        self.last = _last_uses(graph, [s for s, _ in self.parts])

    @property
    def whole(self) -> Context | None:
        """The one context that does it all, where there is one."""
        return self.parts[0][1] if len(self.parts) == 1 else None

    def run(self, arrays: Sequence[Array], threads: Threads) -> tuple[Array, ...]:
        if self.whole is not None:
            return tuple(_compiled(self.whole, arrays, threads))
        values: dict[int, Array] = dict(enumerate(arrays))
        for k, (stretch, context) in enumerate(self.parts):
            given = [values[v] for v in stretch.inputs]
            results = by_meaning(stretch.node, given) if context is None else _compiled(context, given, threads)
            values.update(zip(stretch.outputs, results))
            for v in self.last[k]:
                values.pop(v, None)
        wanted = (*self.graph.outputs, *(s.output for s in self.graph.states))
        # callers own what they get: an input that is an output, or a value that is one twice, is copied
        taken = set(range(len(arrays)))
        results = []
        for v in wanted:
            results.append(np.array(values[v], order="C") if v in taken else values[v])
            taken.add(v)
        return tuple(results)


def _compiled(context: Context, arrays: Sequence[Array], threads: Threads) -> list[Array]:
    rows = len(arrays[0])
    results = context.new_results(rows)
    status = threads.run(context, arrays, results) if rows else 0
    if status:
        raise explain(context.program.graph, status, arrays)
    return results


def by_meaning(node: Node | None, arrays: Sequence[Array]) -> list[Array]:
    """One op by its NumPy definition, sample by sample: BLAS adds in another order for one row than for many, and NumPy's loops
    treat the numbers at the end of an array differently (the sign of NaN or 0).

    Each sample is at the same address modulo 64, since where memory begins may decide on the order of additions too. Ops that
    only move or count numbers run at once.
    """
    assert node is not None
    rows = len(arrays[0])
    with np.errstate(all="ignore"):
        if rows == 0 or _is_exact(node.op, arrays):
            got = node.op(*arrays)
            return [np.array(a, order="C") for a in (got if isinstance(got, tuple) else (got,))]  # not the inputs' memory
        sample = [aligned(a[:1].nbytes).view(a.dtype).reshape(1, *a.shape[1:]) for a in arrays]
        collected: list[Array] = []
        for r in range(rows):
            for one, a in zip(sample, arrays):
                one[0] = a[r]
            got = node.op(*sample)
            results = got if isinstance(got, tuple) else (got,)
            collected = collected or [np.empty((rows, *a.shape[1:]), a.dtype) for a in results]
            for whole, a in zip(collected, results):
                whole[r : r + 1] = a
    return collected


def _is_exact(op: Op, arrays: Sequence[Array]) -> bool:
    """Whether each result is one of the inputs' numbers or the place of one. Casting NaN and infinity to integers isn't
    defined."""
    if isinstance(op, Cast):
        return all(np.can_cast(a.dtype, op.dtype, "same_kind") for a in arrays)
    if isinstance(op, Reduce):
        return op.kind in ("argmax", "argmin")
    return isinstance(op, (Reshape, Transpose, GetItem, Concatenate))


def _last_uses(graph: Graph, parts: Sequence[Stretch]) -> list[list[int]]:
    """For each part, the values that nothing after it reads."""
    kept = {*graph.outputs, *(s.output for s in graph.states)}
    last: dict[int, int] = {}
    for k, part in enumerate(parts):
        last.update(dict.fromkeys(part.outputs, k))
        last.update(dict.fromkeys(part.inputs, k))
    return [[v for v, at in last.items() if at == k and v not in kept] for k in range(len(parts))]


def explain(graph: Graph, status: int, arrays: Sequence[Array]) -> Exception:
    """The exception for a status that isn't 0: what the ops themselves say to these arrays."""
    try:
        graph.run(arrays)
    except ShapeError as e:
        return e
    where = graph.inputs[status - 1].name if 0 < status <= len(graph.inputs) else "an intermediate result"
    return ShapeError(f"{where}: holds indices beyond an embedding's table")


class NativeExecutor:
    """Runs any graph; what isn't float32 runs by its NumPy meaning, as ops without a compiled form do. See the module's text.

    threads: how many large batches may use (None: those of the process).
    Raises EngineError where there is no compiled code and no Numba to make it.
    """

    name = "native"

    def __init__(self, graph: Graph, threads: int | None = None) -> None:
        from npinfer.executors.native import cache

        self.graph = graph
        self._code = cache.load()
        self._threads = Threads(threads)
        self._plans: OrderedDict[Shapes, Plan] = OrderedDict()
        self._lock = threading.Lock()
        self._uncovered: list[int] | None = None

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        return self._plan(tuple(a.shape[1:] for a in arrays)).run(arrays, self._threads)

    def _plan(self, shapes: Shapes) -> Plan:
        plan = self._plans.get(shapes)
        if plan is None:
            with self._lock:
                plan = self._plans.get(shapes)
                if plan is None:
                    plan = self._plans[shapes] = Plan(fixed(self.graph, shapes), self._code.entry)
                    while len(self._plans) > KEPT_SHAPES:
                        self._plans.popitem(last=False)
        return plan

    def network(self) -> Network:
        """What a bound callable needs. Raises ShapeError where sizes are open, EngineError where an op isn't compiled."""
        shapes = tuple(sizes(s) for s in self.graph.inputs)
        plan = self._plan(shapes)
        context = plan.whole
        if context is None:
            missing = {type(self.graph.nodes[k].op).__name__ for k in self.uncovered()}
            raise EngineError(f"the native engine has no compiled form of {', '.join(sorted(missing)) or 'an empty graph'}")
        graph = plan.graph
        return Network(
            self._code,
            context.address,
            graph,
            context,
            context.program.work,
            lambda s, arrays: explain(context.program.graph, s, arrays),
        )

    def bind(self, rows: int | None, reuse_output: bool, rebind: Rebind) -> Any:
        shapes = tuple(sizes(s) for s in self.graph.inputs)
        plan = self._plan(shapes)
        if plan.whole is None:
            return BoundStep(plan.graph, rows, reuse_output, self.run, rebind)
        from npinfer.executors.native.step import bind

        return bind(self.network(), rows, reuse_output, rebind)

    def jit(self, rebind: Rebind) -> Any:
        """The network for use inside njit code (jit.py). Raises EngineError naming the ops that aren't compiled."""
        from npinfer.executors.native.jit import Jit

        return Jit(self.network(), rebind)

    def prepare(self, graph: Graph) -> Callable[[], None]:
        """See Executor. Running calls finish on the old weights or run again. Raises EngineError where the new graph can't
        stand in for the old one."""
        with self._lock:
            plans = dict(self._plans)
        kept: dict[Shapes, Plan] = {}
        commits: list[Callable[[], None]] = []
        for shapes, plan in plans.items():
            changed = fixed(graph, shapes)
            if plan.whole is None:  # several parts can't be exchanged as one: calls that have begun keep the old plan
                kept[shapes] = Plan(changed, self._code.entry)
                continue
            # as one program it may have other rows than before: what passes fold can depend on the weights
            parts = list(stretches(changed))
            if len(parts) != 1 or parts[0].program is None:
                raise EngineError("these weights change the network's structure; load the model anew")
            kept[shapes] = plan
            commits.append(plan.whole.prepare(parts[0].program))

        def commit() -> None:
            with self._lock:
                self.graph, self._uncovered = graph, None
                self._plans = OrderedDict(kept)  # without those that calls have added meanwhile: they are made again
                for change in commits:
                    change()

        return commit

    def memory(self) -> Memory:
        """See Executor. What is packed is counted for the shapes that ran so far, or else where no size is open."""
        with self._lock:
            plans = list(self._plans.values())
        if not plans and all(None not in s.shape for s in self.graph.inputs):
            plans = [self._plan(tuple(sizes(s) for s in self.graph.inputs))]
        contexts = [c for plan in plans for _, c in plan.parts if c is not None]
        packed = sum(len(c.program.arena) for c in contexts)
        scratch = max((c.scratch_bytes(1) for c in contexts), default=0)
        return Memory(weight_bytes(self.graph), packed, scratch or value_bytes(self.graph))

    def uncovered(self) -> list[int]:
        """The nodes that run through their NumPy meaning. Where sizes are open, as if each were 16."""
        if self._uncovered is None:
            guess = tuple(tuple(16 if n is None else n for n in s.shape) for s in self.graph.inputs)
            try:
                parts = list(stretches(fixed(self.graph, guess)))
            except ShapeError:
                return list(range(len(self.graph.nodes)))
            self._uncovered = [s.first for s in parts if s.program is None]
        return list(self._uncovered)


def fixed(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with all sizes of its inputs given."""
    if all(s.shape == shape for s, shape in zip(graph.inputs, shapes)):
        return graph
    return Graph(fix(graph.inputs, shapes), graph.nodes, graph.outputs, None, graph.states)
