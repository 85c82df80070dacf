"""Streams: a graph over whole sequences becomes a graph over one time step, whose states are carried from call to call.

After step t each output of the stream is what the whole graph gives for steps 1 to t: for an output with a time axis its last
entry, for any other (a recurrent layer's last output and what follows from it) the output itself.

How an op takes part. Values are *timed* (a time axis first, of which a stream sees one entry at a time) or not. Where an op
reads a timed value, `Op.stream(*specs)` is asked for its one-step form (`graph.Streamed`):

- an elementwise op, or one that allows further axes in front (`any_rank`), is its own one-step form: nothing to write;
- an op whose axes are counted from the first returns itself with other axes (`Streamed(self.replace(axis=self.axis - 1))`);
- an op that remembers (Recurrent, a causal convolution) returns an op or a small Graph that reads and returns its memory,
  and the specs of that memory (zeros before the first step);
- an op that looks across time returns None, or raises ShapeError with the reason: the model is refused.

An op that reads no timed value runs as it is. `Op.time_inputs()` says which inputs an op walks along as time; the graph's timed
inputs are those from which such an input comes.

Initial states: a recurrent layer whose initial state is an input of the model starts from zeros unless that state is set: the
input turns into a state of the stream, under its name. One computed by the model (an encoder's last state) is refused, since
the stream would have to start anew whenever it changes. States of stateful layers become states of the stream as they are.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from npinfer.errors import NpinferError, ShapeError, UnsupportedError
from npinfer.graph import Graph, Node, Op, Spec, State, Streamed, infer
from npinfer.passes import absorb

ACROSS = "it looks across time steps"


def step_graph(graph: Graph) -> Graph:
    """The graph of one time step: inputs without their time axis, the memory of recurrent and causal layers as states.

    Raises UnsupportedError, naming the layer and the reason, where an output can't be known before the sequence ends, and where
    nothing in the graph walks along time.
    """
    graph = absorb(graph)  # zeros in front of a convolution make it a causal one
    timed, reasons = _timed_inputs(graph)
    if not timed:
        reason = "nothing in it walks along time (a recurrent layer or a causal convolution)"
        raise refusal(reasons or [f"the model: {reason}"])
    return _Stream(graph, timed).graph()


def refusal(problems: list[str]) -> UnsupportedError:
    lines = "".join(f"\n  - {p}" for p in problems)
    return UnsupportedError(f"this model can't run as a stream, one time step a call:{lines}", problems)


def _timed_inputs(graph: Graph) -> tuple[set[int], list[str]]:
    """The graph inputs whose first axis is time: those that lead to an input which an op walks along. And what stands between
    other inputs and such ops."""
    wanted: set[int] = set()
    reasons: list[str] = []
    for k in reversed(range(len(graph.nodes))):
        node = graph.nodes[k]
        walked = node.op.time_inputs()
        wanted.update(node.inputs[i] for i in walked)
        if not walked and any(v in wanted for v in graph.results(k)):
            reason = _reason(graph, node)
            if reason:
                reasons.append(_problem(node, reason))
            else:
                wanted.update(node.inputs)
    states = {s.input for s in graph.states}
    return {v for v in wanted if v < len(graph.inputs) and v not in states}, reasons[::-1]


def _reason(graph: Graph, node: Node) -> str:
    """Why an op can't run one time step at a time; empty if it can."""
    try:
        form = node.op.stream(*(graph.specs[v] for v in node.inputs))
    except ShapeError as e:
        return str(e)
    return ACROSS if form is None else ""


def _problem(node: Node, reason: str) -> str:
    return f"layer {node.name!r} ({type(node.op).__name__}): {reason}"


class _Part(NamedTuple):
    """A value of the whole graph in the stream: its number there, and whether the stream sees one entry of it at a time."""

    number: int
    timed: bool


class _Stream:
    """A one-step graph under construction: inputs are numbered from 0, states from -1 downwards until `graph` places them."""

    def __init__(self, whole: Graph, timed: set[int]) -> None:
        self.whole, self.uses = whole, whole.uses()
        self.nodes: list[Node] = []
        self.specs: list[Spec] = []  # of node results
        self.states: list[Spec] = []
        self.following: list[int | None] = []
        self.parts: dict[int, _Part] = {}
        own = {s.input for s in whole.states}
        started = {v for k, n in enumerate(whole.nodes) for v in self._starts(k, n, timed)} - own
        self.inputs: list[Spec] = []
        for v, spec in enumerate(whole.inputs):
            if v in own or v in started:
                self.parts[v] = _Part(self._state(spec), False)
            else:
                self.parts[v] = _Part(len(self.inputs), v in timed)
                self.inputs.append(spec._replace(shape=spec.shape[1:]) if v in timed else spec)

    def _starts(self, k: int, node: Node, timed: set[int]) -> list[int]:
        """The graph inputs that are initial states of an op that streams."""
        if not node.op.time_inputs():
            return []
        try:
            form = node.op.stream(*(self.whole.specs[v] for v in node.inputs))
        except ShapeError:
            return []
        starts = [node.inputs[i] for i in (form.starts if form else ()) if i is not None]
        return [v for v in starts if v < len(self.whole.inputs) and v not in timed]

    def _state(self, spec: Spec) -> int:
        self.states.append(spec)
        self.following.append(None)
        return -len(self.states)

    def graph(self) -> Graph:
        for k, node in enumerate(self.whole.nodes):
            self._node(k, node)
        for s in self.whole.states:
            self.following[-1 - self.parts[s.input].number] = self.parts[s.output].number
        count, own = len(self.inputs), len(self.states)

        def place(v: int) -> int:
            return count - 1 - v if v < 0 else v if v < count else v + own

        nodes = [n._replace(inputs=tuple(place(v) for v in n.inputs)) for n in self.nodes]
        states = [State(count + k, place(-1 - k if v is None else v)) for k, v in enumerate(self.following)]
        outputs = [place(self.parts[v].number) for v in self.whole.outputs]
        labels = {name: place(self.parts[v].number) for name, v in self.whole.labels.items()}
        return Graph([*self.inputs, *self.states], nodes, outputs, labels, states)

    def _node(self, k: int, node: Node) -> None:
        given = [self.parts[v] for v in node.inputs]
        results = self.whole.results(k)
        if not any(p.timed for p in given):
            made = self._emit(node.op, [p.number for p in given], node.name)
            self.parts.update({v: _Part(n, False) for v, n in zip(results, made)})
            return
        form = self._form(node)
        reads = list(range(len(given))) if form.inputs is None else list(form.inputs)
        memory = [self._memory(node, spec, start) for spec, start in zip(form.states, form.starts)]
        held = {i for i in form.starts if i is not None}
        for i, part in enumerate(given):
            if i not in held and not part.timed:
                self._refuse(node, "it joins a value of every step with one that is known only for the sequence as a whole")
        made = self._emit(form.op, [memory[-1 - i] if i < 0 else given[i].number for i in reads], node.name)
        for state, result in zip(memory, form.following):
            self.following[-1 - state] = made[result]
        picked = made if form.results is None else [made[i] for i in form.results]
        timed = form.timed or (True,) * len(picked)
        for v, number, over_time in zip(results, picked, timed):
            whole, step = self.whole.specs[v], self._spec(number)
            if step.shape != (whole.shape[1:] if over_time else whole.shape):
                self._refuse(node, ACROSS)
            self.parts[v] = _Part(number, over_time)

    def _form(self, node: Node) -> Streamed:
        try:
            form = node.op.stream(*(self.whole.specs[v] for v in node.inputs))
        except ShapeError as e:
            self._refuse(node, str(e))
        if form is None:
            self._refuse(node, ACROSS)
        return form

    def _memory(self, node: Node, spec: Spec, start: int | None) -> int:
        """The state of the stream that stands for a state of a node."""
        if start is None:
            return self._state(spec._replace(name=f"{node.name}/{spec.name}"))
        part = self.parts[node.inputs[start]]
        if part.number >= 0:
            self._refuse(node, "its initial state is computed by the model")
        if self.uses[node.inputs[start]] > 1:
            self._refuse(node, "its initial state is read by others too")
        return part.number

    def _emit(self, op: Op | Graph, reads: list[int], name: str) -> list[int]:
        """Add an op, or the nodes of a graph, and return the numbers of the results."""
        if isinstance(op, Graph):
            numbers = list(reads)
            for k, inner in enumerate(op.nodes):
                made = self._emit(inner.op, [numbers[v] for v in inner.inputs], name)
                assert len(numbers) == op.first[k]
                numbers.extend(made)
            return [numbers[v] for v in op.outputs]
        node = Node(op, tuple(reads), name)
        try:
            got = infer(node, [self._spec(v) for v in reads])
        except NpinferError as e:
            self._refuse(node, f"one step can't be computed alone: {e}")
        start = len(self.inputs) + len(self.specs)
        self.nodes.append(node)
        self.specs.extend(got)
        return list(range(start, start + len(got)))

    def _spec(self, v: int) -> Spec:
        return self.states[-1 - v] if v < 0 else self.inputs[v] if v < len(self.inputs) else self.specs[v - len(self.inputs)]

    def _refuse(self, node: Node, reason: str) -> NoReturn:
        raise refusal([_problem(node, reason)])
