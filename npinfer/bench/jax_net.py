"""A network as a jitted JAX function: the peer `jax` of `npinfer bench`.

The graph's ops are run by their own NumPy meaning on arrays that stand for JAX's (`Traced`: NumPy hands every function of such
an array to jax.numpy). What JAX has a function of its own for, as its users would write it, is in FORMS.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from npinfer.bench.measure import Local, Runner
from npinfer.graph import Array, Graph, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.conv import Conv
from npinfer.ops.dense import Dense
from npinfer.ops.embedding import Embedding
from npinfer.ops.pool import Pool
from npinfer.ops.recurrent import Recurrent
from npinfer.ops.softmax import Softmax
from npinfer.ops.windows import pairs_of, window_count

if TYPE_CHECKING:
    from npinfer.bench.peers import Context

#: activations with parameters as jax.nn takes them, or none
KNOWN = ("relu", "sigmoid", "elu", "selu", "celu", "softplus", "silu", "leaky_relu", "soft_sign")


def _plain(tree: Any) -> Any:
    """What a call of NumPy was given, with JAX's arrays for Traced ones."""
    if isinstance(tree, Traced):
        return tree.value
    if isinstance(tree, (list, tuple)):
        return type(tree)(_plain(t) for t in tree)
    return tree


def _traced(tree: Any) -> Any:
    if isinstance(tree, (list, tuple)):
        return type(tree)(_traced(t) for t in tree)
    return Traced(tree)


class Traced(NDArrayOperatorsMixin):
    """A JAX array that NumPy's functions take for one of theirs. `y += x` gives a new array, as JAX's can't be changed; writing
    into a slice or into an array of NumPy's is a TypeError."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError("its meaning needs an array of NumPy's")

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        return self._call(ufunc, args, options) if method == "__call__" else NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return self._call(function, args, options)

    def _call(self, function: Any, args: Any, options: dict[str, Any]) -> Any:
        import jax.numpy as jnp

        out = options.pop("out", None)
        if any(isinstance(a, np.ndarray) for a in (out if isinstance(out, tuple) else (out,))):
            raise TypeError("its meaning writes into an array of NumPy's")
        return _traced(getattr(jnp, function.__name__)(*_plain(args), **options))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # NumPy's protocols for reading foreign arrays among them
            raise AttributeError(name)
        found = getattr(self.value, name)
        if not callable(found):
            return found if name in ("shape", "ndim", "size", "dtype", "itemsize") else _traced(found)
        return lambda *args, **options: _traced(found(*_plain(args), **{k: v for k, v in options.items() if k != "copy"}))

    def __getitem__(self, key: Any) -> Traced:
        return Traced(self.value[_plain(key)])

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        raise TypeError("its meaning depends on the numbers")


def _activation(op: Activation, x: Traced) -> Any:
    import jax

    if op.kind in ("gelu", "gelu_tanh"):
        return Traced(jax.nn.gelu(x.value, approximate=op.kind == "gelu_tanh"))
    if op.kind not in KNOWN:
        return op(x)  # type: ignore[arg-type]
    return Traced(getattr(jax.nn, op.kind)(x.value, *op.parameters))


def _softmax(op: Softmax, x: Traced) -> Any:
    import jax

    return Traced(jax.nn.softmax(x.value, op.axes))


def _dense(op: Dense, x: Traced) -> Any:
    y = x @ op.kernel if op.bias is None else x @ op.kernel + op.bias
    return y if op.activation is None else _activation(op.activation, y)


def _embedding(op: Embedding, x: Traced) -> Any:
    import jax.numpy as jnp

    return Traced(jnp.take(op.table, x.value, axis=0))


def _conv(op: Conv, x: Traced) -> Any:
    from jax import lax

    spatial = "DHW"[-len(op.window) :]
    layout = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    pairs = pairs_of(op.padding, x.shape[1:-1], op.window, op.strides, op.dilation)
    y = lax.conv_general_dilated(
        x.value, op.kernel, op.strides, pairs, None, op.dilation, layout, feature_group_count=op.groups
    )
    y = Traced(y if op.bias is None else y + op.bias)
    return y if op.activation is None else _activation(op.activation, y)


def _pool(op: Pool, x: Traced) -> Any:
    from jax import lax

    sizes, ones = x.shape[1:-1], (1,) * len(op.window)
    pairs = pairs_of(op.padding, sizes, op.window, op.strides, ones)
    shape = (1, *op.window, 1), (1, *op.strides, 1), ((0, 0), *pairs, (0, 0))
    if op.kind == "max":
        return Traced(lax.reduce_window(x.value, -np.inf, lax.max, *shape))
    counts = [n or 0 for n in window_count(op.padding, sizes, op.window, op.strides, ones)]
    return Traced(lax.reduce_window(x.value, 0.0, lax.add, *shape) / op.shares(sizes, pairs, counts, x.dtype))


def _recurrent(op: Recurrent, x: Traced, *rest: Traced) -> Any:
    import jax.numpy as jnp
    from jax import lax

    states, mask = op.split(rest)
    if mask is not None:
        raise TypeError("with a mask")
    shapes = [] if states else op.cell.state_shapes(Spec(x.shape[2:], x.dtype))
    start = tuple(s.value for s in states) or tuple(jnp.zeros((len(x), *s), x.dtype) for s in shapes)

    def step(before: Any, projected: Any) -> Any:
        y, *after = op.cell.advance(Traced(projected), *map(Traced, before))  # type: ignore[arg-type]
        return tuple(_plain(after)), _plain(y)

    projected = op.cell.project(x.swapaxes(0, 1))
    last, ys = lax.scan(step, start, _plain(projected), reverse=op.go_backwards)
    ys = ys[::-1] if op.go_backwards else ys
    return tuple(map(Traced, (jnp.swapaxes(ys, 0, 1) if op.return_sequences else ys[-1], *last)))


#: (op, *inputs) → result, for ops whose own meaning JAX can't run, or which its users would write otherwise
FORMS: dict[type[Op], Callable[..., Any]] = {
    Activation: _activation, Softmax: _softmax, Embedding: _embedding, Dense: _dense, Conv: _conv, Pool: _pool,
    Recurrent: _recurrent,
}  # fmt: skip


def jax_function(context: Context) -> Runner:
    """A runner, or Absent naming the op that has no form in JAX."""
    # XLA reads this once, when JAX starts; one thread is what the others have
    os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen={'true' if context.threads > 1 else 'false'}")
    import jax

    graph = context.model._executor.graph
    if any(s.dtype == np.float64 for s in graph.specs):
        jax.config.update("jax_enable_x64", True)
    start = perf_counter()
    net = jax.jit(lambda *arrays: walk(graph, arrays))
    load = perf_counter() - start
    net.lower(*context.with_axis()[0])  # what can't be traced is found out here

    def one(*arrays: Array) -> list[Array]:
        return [np.asarray(y) for y in net(*arrays)]

    def many(arrays: Sequence[Array]) -> Callable[[], Any]:
        return lambda: one(*arrays)

    samples = [tuple(s) for s in context.with_axis()]
    return Local("jax", jax.__version__, one, samples, many, context.pool, load, "jax.jit, NumPy in and out")


def walk(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    """A graph's outputs from arrays of JAX's. Raises Absent naming the op that it can't run."""
    from npinfer.bench.peers import Absent

    values: dict[int, Any] = {k: Traced(a) for k, a in enumerate(arrays)}
    for k, node in enumerate(graph.nodes):
        inputs = [values[v] for v in node.inputs]
        try:
            with warnings.catch_warnings():  # float64 within an op is float32 in JAX, which says so each time
                warnings.simplefilter("ignore", UserWarning)
                got = FORMS[type(node.op)](node.op, *inputs) if type(node.op) in FORMS else node.op(*inputs)
        except Exception as e:
            what, why = f"{type(node.op).__name__} (layer {node.name!r})", " ".join(str(e).split())[:100]
            raise Absent(f"{what} has no form in JAX here: {why}") from None
        results = got if isinstance(got, tuple) else (got,)
        values.update(zip(graph.results(k), results))
    return [values[v].value for v in graph.outputs]
