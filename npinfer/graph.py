"""The intermediate representation: a checked, immutable graph of ops over numbered values.

Values 0 … len(inputs)-1 are the graph's inputs, each node's results follow in order. A node uses smaller numbers only,
so a graph is acyclic and in execution order by construction. Shapes are per sample: the batch axis belongs to executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from npinfer.errors import NpinferError, ShapeError
from npinfer.frozen import Frozen

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    Array = np.ndarray  # numpy.typing takes a while to import
Shape = tuple[int | None, ...]


class Spec(NamedTuple):
    """What is known of a value before it exists: per-sample shape (None: unknown until a call), dtype, a name for people."""

    shape: Shape
    dtype: np.dtype[Any]
    name: str = ""

    def __str__(self) -> str:
        sizes = ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.name or 'value'}: {self.dtype}[{sizes}]"


class Op(Frozen):
    """One operation: read-only arrays and plain values (the annotated fields), a shape rule and a meaning.

    A subclass annotates its fields like a dataclass (`kernel: Array`, `bias: Array | None = None`) and defines `infer` and
    `__call__`. Two ops are the same only if they are one object.
    """

    #: Each output element depends on the input element at the same place only (one input, same shape, same dtype).
    elementwise: ClassVar[bool] = False
    #: Has fields `kernel`, `bias` (or None) and `activation`, and computes activation(f(x, kernel) + bias), f linear in the
    #: kernel, entry j of the result's last axis from kernel[..., j] and bias[j] alone: scaling can move into the weights.
    linear: ClassVar[bool] = False
    #: The meaning doesn't change when samples get further axes in front (TimeDistributed's time axis needs no loop then).
    any_rank: ClassVar[bool] = False

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray):
                self.__dict__[name] = value = value.view()
                value.flags.writeable = False

    def __repr__(self) -> str:
        def show(value: object) -> str:
            return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)

        changed = [n for n in self.fields if n not in self.defaults or getattr(self, n) is not self.defaults[n]]
        return f"{type(self).__name__}({', '.join(f'{n}={show(getattr(self, n))}' for n in changed)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {n: getattr(self, n) for n in self.fields})

    def arrays(self) -> Iterator[Array]:
        """The arrays this op owns, those of ops nested in its fields included."""
        for name in self.fields:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                yield value
            elif isinstance(value, (Op, Graph)):
                yield from value.arrays()

    def infer(self, *specs: Any, **_: Any) -> Spec | tuple[Spec, ...]:
        """The results' specs for these inputs; raises ShapeError or DtypeError with a reason where they don't fit."""
        raise NotImplementedError

    def __call__(self, *arrays: Any, **_: Any) -> Any:
        """The meaning in NumPy. Arrays carry a batch axis in front: (n, *spec.shape); so do results (a tuple for several)."""
        raise NotImplementedError

    def time_inputs(self) -> tuple[int, ...]:
        """The inputs whose first axis this op walks along as time; streams.py finds a model's time axes from these."""
        return ()

    def stream(self, *_: Any) -> Streamed | None:
        """One time step of this op, given the specs of whole inputs (time first); None: it looks across time. See streams.py.
        Raises ShapeError with a reason where a sentence helps."""
        return Streamed(self) if self.elementwise or self.any_rank else None


def _rebuild(cls: type[Op], fields: dict[str, Any]) -> Op:
    return cls(**fields)


class Streamed(Frozen):
    """An op's one-time-step form (streams.py). op: an Op, or a Graph to put in its place.

    inputs: what it reads, in order: numbers of the node's inputs, or -1-k for state k; None: the node's inputs as they are.
    states, starts, following: for each state its spec, the node's input that gives its first value (None: zeros), and the
    result of `op` that is its successor. results: the results of `op` that stand for the node's; None: all, in order.
    timed: for each of the node's results, whether it has a time axis in the whole run; None: all have.
    """

    op: Any  # Op | Graph
    inputs: tuple[int, ...] | None = None
    states: tuple[Spec, ...] = ()
    starts: tuple[int | None, ...] = ()
    following: tuple[int, ...] = ()
    results: tuple[int, ...] | None = None
    timed: tuple[bool, ...] | None = None


class Node(NamedTuple):
    """One use of an op: the numbers of the values it reads, and the name of the Keras layer it came from."""

    op: Op
    inputs: tuple[int, ...]
    name: str = ""


class State(Frozen):
    """A value carried from call to call: read from graph input number `input`, its successor is value number `output`."""

    input: int
    output: int


class Graph:
    """A checked network. `specs[v]` describes value v, `first[k]` is the first result of node k.

    inputs: one Spec an input; those of `states` come last. outputs: value numbers. labels: value numbers by layer name
    (the last op of the layer's first call), for tapping. Raises ShapeError or DtypeError naming the node that doesn't fit.
    """

    __slots__ = ("first", "inputs", "labels", "nodes", "outputs", "specs", "states")

    def __init__(
        self,
        inputs: Sequence[Spec],
        nodes: Sequence[Node],
        outputs: Sequence[int],
        labels: Mapping[str, int] | None = None,
        states: Sequence[State] = (),
    ) -> None:
        specs, first = list(inputs), []
        for k, node in enumerate(nodes):
            if not all(0 <= v < len(specs) for v in node.inputs):
                raise ShapeError(f"node {k} ({node.name}): reads values {node.inputs}, but only {len(specs)} exist before it")
            first.append(len(specs))
            specs.extend(infer(node, [specs[v] for v in node.inputs]))
        ends = [*outputs, *(labels or {}).values(), *(v for s in states for v in (s.input, s.output))]
        if not all(0 <= v < len(specs) for v in ends):
            raise ShapeError(f"graph: an output, label or state names a value outside 0 … {len(specs) - 1}")
        for s in states:
            if s.input >= len(inputs) or specs[s.input][:2] != specs[s.output][:2]:
                raise ShapeError(f"graph: state {specs[s.input]} can't be followed by {specs[s.output]}")
        self.inputs, self.nodes, self.outputs = tuple(inputs), tuple(nodes), tuple(outputs)
        self.labels, self.states = dict(labels or {}), tuple(states)
        self.specs, self.first = tuple(specs), tuple(first)

    def results(self, k: int) -> range:
        """The value numbers of node k's results."""
        end = self.first[k + 1] if k + 1 < len(self.nodes) else len(self.specs)
        return range(self.first[k], end)

    def uses(self) -> list[int]:
        """How often each value is read by nodes, outputs and states."""
        count = [0] * len(self.specs)
        for node in self.nodes:
            for v in node.inputs:
                count[v] += 1
        for v in (*self.outputs, *(s.output for s in self.states)):
            count[v] += 1
        return count

    def arrays(self) -> Iterator[Array]:
        for node in self.nodes:
            yield from node.op.arrays()

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Run node after node by the ops' own meaning: the definition that every executor is tested against."""
        return self.run(arrays)[: len(self.outputs)]

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """As a call, with the states' next values after the outputs. A value is dropped after its last use."""
        values: dict[int, Array] = dict(enumerate(arrays))
        wanted = (*self.outputs, *(s.output for s in self.states))
        left = self.uses()
        for k, node in enumerate(self.nodes):
            got = node.op(*(values[v] for v in node.inputs))
            results = got if isinstance(got, tuple) else (got,)
            values.update((v, a) for v, a in zip(self.results(k), results) if left[v])
            for v in node.inputs:
                left[v] -= 1
                if not left[v]:
                    values.pop(v, None)
        return tuple(values[v] for v in wanted)

    def __repr__(self) -> str:
        return f"Graph({len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.outputs)} outputs)"


def infer(node: Node, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs of a node's results, named after the node; errors say which node."""
    try:
        got = node.op.infer(*specs)
    except NpinferError as e:
        shapes = ", ".join(str(list(s.shape)) for s in specs)
        raise type(e)(f"layer {node.name!r} ({type(node.op).__name__} on {shapes}): {e}") from None
    several: tuple[Spec, ...] = (got,) if isinstance(got, Spec) else tuple(got)
    return tuple(s if s.name else s._replace(name=node.name) for s in several)
