"""A hypothesis strategy for small random graphs of Dense-family ops, with inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.affine import Affine
from npinfer.ops.dense import Dense
from npinfer.ops.identity import Cast
from npinfer.ops.merge import Merge

KINDS = ("relu", "tanh", "sigmoid", "linear", "softplus")


@st.composite
def graphs(draw: Any, dtype: str = "float32") -> tuple[Graph, list[Array]]:
    """A DAG of Dense, activations, casts, affine maps and sums over values of a few widths; every value may be an output."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = np.dtype(dtype)
    width = draw(st.integers(1, 20))
    specs = [Spec((width,), kind, "x0")]
    if draw(st.booleans()):
        specs.append(Spec((draw(st.integers(1, 20)),), kind, "x1"))
    widths = [s.shape[0] for s in specs]
    nodes: list[Node] = []
    for k in range(draw(st.integers(1, 10))):
        v = draw(st.integers(0, len(widths) - 1))
        n_in = widths[v]
        assert n_in is not None
        choice = draw(st.sampled_from(("dense", "activation", "cast", "add", "affine")))
        op: Op
        inputs = (v,)
        out = n_in
        if choice == "dense":
            out = draw(st.integers(1, 20))
            bias = rng.normal(0, 0.5, out).astype(kind) if draw(st.booleans()) else None
            op = Dense(rng.normal(0, n_in**-0.5, (n_in, out)).astype(kind), bias)
        elif choice == "activation":
            op = Activation(draw(st.sampled_from(KINDS)))
        elif choice == "cast":
            op = Cast(kind)
        elif choice == "affine":
            center = rng.normal(0, 2, n_in).astype(kind) if draw(st.booleans()) else None
            op = Affine(rng.normal(0, 1, n_in).astype(kind), rng.normal(0, 1, n_in).astype(kind), center)
        else:
            others = [w for w, n in enumerate(widths) if n == n_in]
            inputs = (v, draw(st.sampled_from(others)))
            op = Merge("add")
        nodes.append(Node(op, inputs, f"n{k}"))
        widths.append(out)
    outputs = draw(st.lists(st.integers(0, len(widths) - 1), min_size=1, max_size=3))
    graph = Graph(specs, nodes, outputs)
    rows = draw(st.integers(0, 9))
    return graph, [rng.normal(size=(rows, *s.shape)).astype(kind) for s in specs]
