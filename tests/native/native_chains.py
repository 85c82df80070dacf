"""Chains of ops with random weights, for the compiled engine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.dense import Dense

F = np.dtype(np.float32)
rng = np.random.default_rng(7)


def normal(*shape: int) -> Array:
    return rng.normal(size=shape).astype(F)


def chain(shape: tuple[int, ...], *ops: Op) -> Graph:
    return Graph([Spec(shape, F, "x")], [Node(op, (k,), f"n{k}") for k, op in enumerate(ops)], [len(ops)])


def mlp(*sizes: int, kind: str = "relu") -> Graph:
    return chain(
        sizes[:1],
        *(Dense(normal(n, m) / np.sqrt(np.float32(n)), normal(m), Activation(kind)) for n, m in pairwise(sizes)),
    )


def close(got: Array, expected: Array) -> None:
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-30))
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6 * scale)
