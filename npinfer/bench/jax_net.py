"""A chain of Dense layers and activations as a jitted JAX function: the peer `jax` of `npinfer bench`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from npinfer.bench.measure import Local, Runner
from npinfer.graph import Array

if TYPE_CHECKING:
    from npinfer.bench.peers import Context

KNOWN = ("relu", "tanh", "sigmoid", "softmax", "elu", "selu", "softplus", "swish")


def jax_function(context: Context) -> Runner:
    """A runner, or Absent where the network holds something else."""
    from npinfer.bench.peers import Absent

    # XLA reads this once, when JAX starts; one thread is what the others have
    os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen={'true' if context.threads > 1 else 'false'}")
    import jax
    import jax.numpy as jnp

    graph = context.model._executor.graph
    functions = {
        "linear": lambda x: x, "relu": jax.nn.relu, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "elu": jax.nn.elu,
        "selu": jax.nn.selu, "softplus": jax.nn.softplus, "swish": jax.nn.swish, "silu": jax.nn.silu,
    }  # fmt: skip
    stages: list[tuple[str, Any, Any]] = []
    at = 0
    for k, node in enumerate(graph.nodes):
        op: Any = node.op
        if node.inputs != (at,):
            raise Absent("only chains of Dense layers are made for it; this network is a graph")
        at = graph.first[k]
        kind, name = _name(op), type(op).__name__
        if name == "Dense" and (kind is None or kind in functions):
            stages.append(("dense", op, functions[kind or "linear"]))
        elif name == "Activation" and kind in functions and not op.parameters:
            stages.append(("map", op, functions[kind]))
        elif kind == "softmax":
            stages.append(("map", op, lambda x: jax.nn.softmax(x, -1)))
        else:
            raise Absent(f"only chains of Dense layers are made for it; this network has {name}")
    if graph.outputs != (at,):
        raise Absent("only chains of Dense layers are made for it; this network has other outputs")
    weights: list[Any] = []
    for kind_of, op, _ in stages:
        bias = getattr(op, "bias", None)
        weights.append((jnp.asarray(op.kernel), None if bias is None else jnp.asarray(bias)) if kind_of == "dense" else None)

    def forward(weights: Any, x: Any) -> Any:
        for (kind, _, function), w in zip(stages, weights):
            if kind == "dense":
                x = x @ w[0] if w[1] is None else x @ w[0] + w[1]
            x = function(x)
        return x

    start = perf_counter()
    net = jax.jit(forward)
    load = perf_counter() - start

    def one(x: Array) -> Array:
        return np.asarray(net(weights, x))

    def many(arrays: Sequence[Array]) -> Callable[[], Any]:
        return lambda: [np.asarray(net(weights, arrays[0]))]

    samples = [tuple(s) for s in context.with_axis()]
    return Local("jax", jax.__version__, one, samples, many, context.pool, load, "jax.jit, NumPy in and out")


def _name(op: Any) -> str | None:
    """The activation of a Dense or Activation op, "softmax" for a softmax over the last axis, else None."""
    if type(op).__name__ == "Dense":
        return None if op.activation is None else str(op.activation.kind) if not op.activation.parameters else "?"
    kind = getattr(op, "kind", None)
    if kind == "softmax" and tuple(getattr(op, "axes", (-1,))) in ((-1,), (0,)):
        return "softmax"
    return None if kind is None else str(kind)
