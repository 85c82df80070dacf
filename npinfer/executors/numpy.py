"""The NumPy executor: a graph as a short list of prepared calls over preallocated buffers.

What one sample costs in NumPy is the number of calls, not the arithmetic. So all shapes are fixed beforehand (one `Plan` for
each set of input shapes), every call writes to its buffer (`out=`), and a Dense layer is one `dot` (executors/numpy_calls.py).
Batches run in row blocks: intermediate results stay in cache, and memory doesn't grow with the batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.executors.memory import Memory, value_bytes, weight_bytes
from npinfer.executors.numpy_calls import Call, calls_for, is_native, is_quiet, joined
from npinfer.executors.signature import fix, sizes
from npinfer.executors.steps import BoundStep
from npinfer.graph import Array, Graph

BLOCK_BYTES = 1 << 20  # intermediate results of a row block: about a core's L2 cache
KEPT_PLANS = 16  # plans for that many different shapes are kept


class Plan:
    """A graph for fixed shapes and a fixed number of rows (None: one sample, 1-D buffers). Belongs to one thread at a time."""

    def __init__(self, graph: Graph, rows: int | None, results_of: Plan | None = None) -> None:
        lead = () if rows is None else (rows,)
        self.buffers: list[Array] = []
        calls: list[Call] = []
        self.quiet = all(
            is_quiet(node.op, rows is None and len(graph.specs[node.inputs[0]].shape) == 1) for node in graph.nodes
        )
        for spec in graph.specs:
            shape = (*lead, *sizes(spec))
            if len(shape) == 1:  # room for the constant 1 that multiplies a Dense layer's bias row
                shape = (shape[0] + 1,)
            buffer = np.zeros(shape, spec.dtype)
            if len(shape) == 1:
                buffer[-1] = 1
            self.buffers.append(buffer)
        if results_of is not None:  # a step that always returns the same array keeps it through a swap of weights
            for v in graph.outputs:
                self.buffers[v] = results_of.buffers[v]
        for k, node in enumerate(graph.nodes):
            inputs = [self.buffers[v] for v in node.inputs]
            outputs = [self.buffers[v] for v in graph.results(k)]
            calls += calls_for(node.op, inputs, outputs, rows is None)
        views = [b[:-1] if b.ndim == 1 else b for b in self.buffers]
        self.inputs = views[: len(graph.inputs)]
        self.results = [views[v] for v in (*graph.outputs, *(s.output for s in graph.states))]
        if results_of is not None:
            self.results = results_of.results  # the very same array objects
        self.run = joined(calls)
        #: what a step of one input and one output needs, in one read
        self.plain = (self.inputs or [np.zeros(0)])[0], self.run, self.results[0], self.quiet

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Results as views on the plan's buffers, valid until its next call."""
        for buffer, x in zip(self.inputs, arrays):
            buffer[...] = x
        self.run()
        return self.results


class _Plans:
    """Plans of one graph by input shapes, lent to one caller at a time. A list's pop and append are atomic, so no lock."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.free: OrderedDict[Any, list[Plan]] = OrderedDict()

    def shelf(self, rows: int | None, shapes: tuple[tuple[int, ...], ...]) -> list[Plan]:
        """Where the plans for these shapes lie between calls."""
        key = rows, shapes
        shelf = self.free.get(key)
        if shelf is None:
            shelf = self.free.setdefault(key, [])
            while len(self.free) > KEPT_PLANS:
                try:
                    self.free.popitem(last=False)
                except KeyError:  # another thread emptied it
                    break
        return shelf

    def make(self, rows: int | None, shapes: tuple[tuple[int, ...], ...], results_of: Plan | None = None) -> Plan:
        graph = self.graph
        fixed = Graph(fix(graph.inputs, shapes), graph.nodes, graph.outputs, None, graph.states)
        return Plan(fixed, rows, results_of)

    def take(self, shelf: list[Plan], rows: int | None, shapes: tuple[tuple[int, ...], ...]) -> Plan:
        """A free plan from the shelf (list.pop is atomic), or a new one."""
        try:
            return shelf.pop()
        except IndexError:
            return self.make(rows, shapes)


class NumpyExecutor:
    """Runs any graph; see the module's text."""

    name = "numpy"

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._plans = _Plans(graph)

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        plans = self._plans  # one attribute read: a swap during the call goes unnoticed
        graph = plans.graph
        rows = len(arrays[0])
        shapes = tuple(a.shape[1:] for a in arrays)
        block = self._block(shapes, rows)
        if block is None:
            with np.errstate(all="ignore"):
                return tuple(np.array(a, order="C") for a in graph.run(arrays))
        results: list[Array] = []
        with np.errstate(all="ignore"):
            for start in range(0, max(rows, 1), block):
                size = min(block, rows - start)
                shelf = plans.shelf(size, shapes)
                plan = plans.take(shelf, size, shapes)
                part = plan([a[start : start + size] for a in arrays])
                if size == rows:
                    results = [y.copy() for y in part]
                else:
                    results = results or [np.empty((rows, *y.shape[1:]), y.dtype) for y in part]
                    for whole, y in zip(results, part):
                        whole[start : start + size] = y
                shelf.append(plan)
        return tuple(results)

    def _block(self, shapes: tuple[tuple[int, ...], ...], rows: int) -> int | None:
        """Rows of a block, or None where sizes stay unknown even for these inputs."""
        graph = self.graph
        specs = graph.specs
        if any(n is None for s in specs for n in s.shape):
            specs = Graph(fix(graph.inputs, shapes), graph.nodes, graph.outputs, None, graph.states).specs
            if any(n is None for s in specs for n in s.shape):
                return None
        row_bytes = sum(s.dtype.itemsize * int(np.prod([n for n in s.shape if n is not None], dtype=np.int64)) for s in specs)
        return min(rows, max(16, BLOCK_BYTES // max(row_bytes, 1))) or 1

    def bind(self, rows: int | None, reuse_output: bool, rebind: Callable[[], Any]) -> BoundStep:
        return NumpyStep(self, rows, reuse_output, rebind)

    def prepare(self, graph: Graph) -> Callable[[], None]:
        plans = _Plans(graph)

        def commit() -> None:
            self.graph, self._plans = graph, plans

        return commit

    def uncovered(self) -> list[int]:
        return [k for k, node in enumerate(self.graph.nodes) if not is_native(node.op)]

    def memory(self) -> Memory:
        return Memory(weight_bytes(self.graph), 0, value_bytes(self.graph))


class NumpyStep(BoundStep):
    """BoundStep with a short way for one array that fits as it is."""

    def __init__(self, executor: NumpyExecutor, rows: int | None, reuse_output: bool, rebind: Callable[[], Any]) -> None:
        super().__init__(executor.graph, rows, reuse_output, self._checked, rebind)
        self._executor, self._lead = executor, rows
        s = self.signature
        self._shapes = (*(sizes(x) for x in s.inputs), *(z.shape[1:] for z in self._zeros))
        plain = len(s.inputs) == len(s.outputs) == 1 and not self._zeros
        self._shape: tuple[int, ...] | None = s.input_shapes[0] if plain else None
        self._dtype: np.dtype[Any] | None = s.inputs[0].dtype if plain else None
        # with reuse_output a plan of its own, whose result buffer is what callers get; not where the output is an input
        self._own = reuse_output and plain and executor.graph.outputs[0] >= len(executor.graph.inputs)
        self._plan: Plan | None = None
        self._ready = self._refresh()  # one attribute, so that threads read a matching set

    def __call__(self, *args: Any) -> Any:
        if len(args) != 1:
            return super().__call__(*args)
        (x,) = args
        if type(x) is not np.ndarray or x.dtype is not self._dtype or x.shape != self._shape:
            return super().__call__(x)
        plans, plan, shelf = self._ready
        if plans is not self._executor._plans:
            plans, plan, shelf = self._refresh()
        if plan is None:
            try:
                plan = shelf.pop()
            except IndexError:
                plan = plans.make(self._lead, self._shapes)
        x_in, run, y, quiet = plan.plain
        if quiet:
            x_in[...] = x
            run()
        else:
            with np.errstate(all="ignore"):
                plan([x])
        if self._own:
            return y
        y = y.copy()
        shelf.append(plan)
        return y

    def _refresh(self) -> tuple[_Plans, Plan | None, list[Plan]]:
        """The present weights' plans: the step's own one, or the shelf of shared ones."""
        plans = self._executor._plans
        if self._own:
            self._plan = plans.make(self._lead, self._shapes, self._plan)
            self._kept = [self._plan.results[0]]
        self._ready = plans, self._plan, plans.shelf(self._lead, self._shapes)
        return self._ready

    def _checked(self, arrays: list[Array]) -> list[Array]:
        plans = self._executor._plans
        shelf = plans.shelf(self._lead, self._shapes)
        plan = plans.take(shelf, self._lead, self._shapes)
        with np.errstate(all="ignore"):
            results = [y.copy() for y in plan([a[0] for a in arrays] if self._single else arrays)]
        shelf.append(plan)
        return [y[None] for y in results] if self._single else results
