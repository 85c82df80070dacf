"""Passes: Graph → Graph, small rules handed to one driver. To add one, write a rule and list it in PASSES.

A rule sees a node whose first input comes from another node, and says what the two may become. The driver checks that nobody
else needs the value between them, and ends in Graph's constructor, so a pass can't produce an unchecked graph. Rules that
depend on weight values run again at a weight swap, since `set_weights` lowers and optimises anew.

| pass | result | legal when |
| --- | --- | --- |
| drop_unused | bit-exact | nobody reads the results: masks that no later layer looks at |
| drop_identities | bit-exact | the op returns its input |
| share | bit-exact | two nodes with the same op (same arrays) read the same values |
| compose | rounding | two affine maps in a row, both finite |
| fold_after | rounding | an affine map along the features that a layer's kernel makes |
| fold_before | rounding | an affine map in front of Dense whose shift is moderate (folding.py) |
| absorb | bit-exact | zeros are padded around a convolution's spatial axes |
| fuse | bit-exact | the activation is elementwise and reads a layer that nobody else reads |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npinfer.graph import Graph, Node, Op, Spec, State
from npinfer.ops.activations import Activation
from npinfer.ops.cast import Cast

#: (producer op, consumer op, spec between them) -> the one op that replaces both, or None
PairRule = Callable[[Op, Op, Spec], "Op | None"]
Pass = Callable[[Graph], Graph]


def optimise(graph: Graph, passes: Sequence[Pass] | None = None) -> Graph:
    """All passes in turn. `passes` stops or selects them, to find the one that breaks a model."""
    for step in PASSES if passes is None else passes:
        graph = step(graph)
    return graph


def rebuild(graph: Graph, nodes: Sequence[Node | None], source: Sequence[int]) -> Graph:
    """The graph with some nodes replaced (None: dropped), where value v is now read from source[v] (old numbers)."""
    new: dict[int, int] = {v: v for v in range(len(graph.inputs))}
    kept: list[Node] = []
    count = len(graph.inputs)

    def place(v: int) -> int:
        while source[v] != v:
            v = source[v]
        return new[v]

    for k, node in enumerate(nodes):
        if node is None:
            continue
        kept.append(node._replace(inputs=tuple(place(v) for v in node.inputs)))
        for v in graph.results(k):
            new[v] = count
            count += 1
    labels = {name: place(v) for name, v in graph.labels.items() if _placed(v, source, new)}
    states = [State(s.input, place(s.output)) for s in graph.states]
    return Graph(graph.inputs, kept, [place(v) for v in graph.outputs], labels, states)


def _placed(v: int, source: Sequence[int], new: dict[int, int]) -> bool:
    while source[v] != v:
        v = source[v]
    return v in new


def rewrite(graph: Graph, rule: PairRule) -> Graph:
    """Replace producer–consumer pairs by one op until the rule finds no more. The value between must have no other reader."""
    while True:
        uses = graph.uses()
        makers = {v: k for k in range(len(graph.nodes)) for v in graph.results(k)}
        nodes: list[Node | None] = list(graph.nodes)
        source = list(range(len(graph.specs)))
        touched: set[int] = set()
        for k, node in enumerate(graph.nodes):
            if len(node.inputs) != 1 or len(graph.results(k)) != 1:
                continue
            between = node.inputs[0]
            maker = makers.get(between)
            if maker is None or maker in touched or k in touched or uses[between] != 1 or len(graph.results(maker)) != 1:
                continue
            first = graph.nodes[maker]
            merged = rule(first.op, node.op, graph.specs[between])
            if merged is None:
                continue
            nodes[maker], nodes[k] = None, Node(merged, first.inputs, node.name)
            touched |= {maker, k}
        if not touched:
            return graph
        graph = rebuild(graph, nodes, source)


def drop_unused(graph: Graph) -> Graph:
    """Remove nodes that neither an output nor a state needs, the last ones first, so that chains of them go too."""
    left = graph.uses()
    nodes: list[Node | None] = list(graph.nodes)
    for k in range(len(graph.nodes) - 1, -1, -1):
        if not any(left[v] for v in graph.results(k)):
            nodes[k] = None
            for v in graph.nodes[k].inputs:
                left[v] -= 1
    return rebuild(graph, nodes, range(len(graph.specs))) if None in nodes else graph


def drop_identities(graph: Graph) -> Graph:
    """Remove ops that return their input: a cast to the same dtype, a linear activation."""
    nodes: list[Node | None] = list(graph.nodes)
    source = list(range(len(graph.specs)))
    for k, node in enumerate(graph.nodes):
        if len(node.inputs) == 1 and _is_identity(node.op, graph.specs[node.inputs[0]]):
            nodes[k], source[graph.first[k]] = None, node.inputs[0]
    return rebuild(graph, nodes, source) if None in nodes else graph


def _is_identity(op: Op, x: Spec) -> bool:
    if isinstance(op, Cast):
        return bool(op.dtype == x.dtype)
    return isinstance(op, Activation) and op.kind == "linear"


def share(graph: Graph) -> Graph:
    """One node for equal ops on equal values: shared layers called twice on the same tensor, repeated taps."""
    nodes: list[Node | None] = list(graph.nodes)
    source = list(range(len(graph.specs)))
    seen: dict[object, int] = {}
    for k, node in enumerate(graph.nodes):
        key = (_key(node.op), tuple(source[v] for v in node.inputs))
        first = seen.setdefault(key, k)
        if first != k:
            nodes[k] = None
            for a, b in zip(graph.results(k), graph.results(first)):
                source[a] = b
    return rebuild(graph, nodes, source) if None in nodes else graph


def _key(op: object) -> object:
    """Equal keys mean the same operation: fields equal, arrays the same memory."""
    if isinstance(op, Op):
        return (type(op), *(_key(getattr(op, n)) for n in op.fields))
    if hasattr(op, "__array_interface__"):
        at = op.__array_interface__
        return (at["data"], at["shape"], at["strides"], at["typestr"])
    try:
        hash(op)
    except TypeError:
        return id(op)
    return (type(op), op)


def fold(graph: Graph) -> Graph:
    """Move affine maps (BatchNormalization, Normalization, Rescaling) into one another and into the weights beside them."""
    if _has(graph, "Affine"):
        from npinfer.folding import compose, fold_after, fold_before

        for rule in (compose, fold_after, fold_before):
            graph = rewrite(graph, rule)
    return graph


def _has(graph: Graph, op: str) -> bool:
    """Whether an op of this class is there. Its file, with all that this imports, isn't needed where none is."""
    return any(type(n.op).__name__ == op for n in graph.nodes)


def absorb(graph: Graph) -> Graph:
    """Let a convolution do the padding with zeros that comes before it."""
    if not _has(graph, "Pad"):
        return graph
    from npinfer.ops.conv import Conv
    from npinfer.ops.joining import Pad
    from npinfer.ops.windows import pairs_of

    def rule(first: Op, second: Op, between: Spec) -> Op | None:
        if not (isinstance(first, Pad) and isinstance(second, Conv)) or first.mode != "constant" or first.value != 0:
            return None
        *spatial, channels = first.widths
        if any(channels) or (second.padding not in ("valid", "causal") and isinstance(second.padding, str)):
            return None
        own = pairs_of(second.padding, [0] * len(spatial), second.window, second.strides, second.dilation)
        return second.replace(padding=tuple((a + c, b + d) for (a, b), (c, d) in zip(spatial, own)))

    return rewrite(graph, rule)


def fuse(graph: Graph) -> Graph:
    """Move an elementwise activation into the layer before it."""

    def rule(first: Op, second: Op, _: Spec) -> Op | None:
        if isinstance(second, Activation) and "activation" in first.fields and getattr(first, "activation") is None:  # noqa: B009
            return first.replace(activation=second)
        return None

    return rewrite(graph, rule)


PASSES: tuple[Pass, ...] = (drop_unused, drop_identities, share, fold, absorb, fuse)
