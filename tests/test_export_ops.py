"""Every op exported to ONNX gives in ONNX Runtime what it gives in NumPy, with known and with open sizes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from export_cases import CASES, PARAMETERS
from export_op_case import F, OpCase, w
from onnx_runs import close, run

import npinfer.ops
from npinfer.export import registry
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.embedding import Embedding

# every op


def op_classes() -> Iterator[type[Op]]:
    for module in pkgutil.walk_packages(npinfer.ops.__path__, "npinfer.ops."):
        importlib.import_module(module.name)
    todo = [Op]
    while todo:
        for c in todo.pop().__subclasses__():
            todo.append(c)
            if c.__module__.startswith("npinfer."):
                yield c


def test_every_op_is_translated_or_refused_with_a_reason() -> None:
    registry.load_families()
    classes = set(op_classes())
    for c in classes - registry.ABSTRACT:
        assert (c in registry.TRANSLATORS) != (c in registry.REFUSED), c.__name__
    assert classes >= registry.ABSTRACT
    assert all(c.__call__ is Op.__call__ or c.__subclasses__() for c in registry.ABSTRACT)
    assert all(len(reason) > 20 for reason in registry.REFUSED.values())


def test_every_op_has_a_case() -> None:
    tried = {type(o) for c in CASES for o in nested(c.op)}
    assert registry.TRANSLATORS.keys() <= tried, registry.TRANSLATORS.keys() - tried


def nested(op: Op) -> Iterator[Op]:
    yield op
    for name in op.fields:
        value = getattr(op, name)
        if isinstance(value, Op):
            yield from nested(value)


def widened(value: Any) -> Any:
    """An op with its float32 arrays in float64."""
    if isinstance(value, Graph):
        nodes = [Node(widened(n.op), n.inputs, n.name) for n in value.nodes]
        specs = [s._replace(dtype=np.dtype("float64")) if s.dtype.kind == "f" else s for s in value.inputs]
        return Graph(specs, nodes, value.outputs)
    if isinstance(value, Op):
        changes = {n: widened(getattr(value, n)) for n in value.fields}
        return type(value)(**changes)
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return value.astype(np.float64)
    return np.dtype("float64") if isinstance(value, np.dtype) and value == np.float32 else value


def inputs_of(case: OpCase, dtype: str) -> tuple[list[Spec], list[Array]]:
    """Specs and random arrays of three samples. "int32:7" are whole numbers from 0 to 6, "bool:true" holds a True a sample."""
    rng, specs, xs = np.random.default_rng(9), [], []
    for shape in case.shapes:
        kind, sizes = (shape[0], shape[1:]) if shape and isinstance(shape[0], str) else (F, shape)
        kind, _, limit = kind.partition(":")
        wanted = np.dtype(dtype if kind == F else kind)
        if wanted.kind == "f":
            x = rng.uniform(case.low, case.high, (3, *sizes)).astype(wanted)
        elif wanted.kind == "b":
            x = rng.random((3, *sizes)) < 0.6
            if limit:
                x[:, 0] = True
        else:
            x = rng.integers(0, int(limit), (3, *sizes)) if limit else rng.integers(-9, 9, (3, *sizes))
        specs.append(Spec(tuple(sizes), wanted, f"x{len(xs)}"))
        xs.append(x.astype(wanted))
    return specs, xs


RUNS = [
    (c, d)
    for c in CASES
    for d in ("float32", "float64")
    if d == "float32" or any(s.dtype.kind == "f" for s in inputs_of(c, d)[0])
]


@pytest.mark.parametrize(("case", "dtype"), RUNS, ids=[f"{c.name}-{d}" for c, d in RUNS])
def test_op(case: OpCase, dtype: str) -> None:
    specs, xs = inputs_of(case, dtype)
    op = widened(case.op) if dtype == "float64" else case.op
    for free in ((), *([case.free] if case.free else [])):
        for at, axis in free:
            sizes = list(specs[at].shape)
            sizes[axis] = None  # type: ignore[call-overload]
            specs[at] = specs[at]._replace(shape=tuple(sizes))
        probe = Graph(specs, [Node(op, tuple(range(len(specs))), "layer")], [])
        graph = Graph(specs, probe.nodes, list(range(len(specs), len(probe.specs))))
        with np.errstate(all="ignore"):
            want = graph(*(x.copy() for x in xs))
        for k, (got, expected) in enumerate(zip(run(graph, xs), want)):
            close(got, expected, case.rtol if dtype == "float32" else case.rtol64, f"result {k}, sizes {free or 'known'}")


def test_activations_see_nan_as_numpy_does_where_the_formula_says_so() -> None:
    """Relu and Clip are the runtime's own; what is written out keeps NaN and infinity."""
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0]], np.float32)
    for kind in ("sigmoid", "tanh", "softsign", "leaky_relu", "exponential", "squareplus"):
        graph = Graph([Spec((5,), x.dtype, "x")], [Node(Activation(kind, PARAMETERS.get(kind, ())), (0,))], [1])
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(run(graph, [x])[0], graph(x)[0], 1e-6, err_msg=kind)


def test_wrong_indices_of_an_embedding_are_errors() -> None:
    graph = Graph([Spec((2,), np.dtype("int32"), "x")], [Node(Embedding(w(7, 3)), (0,))], [1])
    for wrong in (-1, 7):
        with pytest.raises(Exception, match="out of data bounds"):
            run(graph, [np.array([[0, wrong]], np.int32)])
