"""Which function translates which op, which ops have no ONNX form and why, and the walk over a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

from npinfer.errors import UnsupportedError
from npinfer.export.net import Net
from npinfer.export.values import Value
from npinfer.graph import Graph, Op
from npinfer.ops.functions import FunctionActivation, PythonFunction
from npinfer.ops.parametric import Parametric
from npinfer.ops.recurrent import Cell, GatedCell, MatrixCell
from npinfer.ops.softmax import AlongAxes

Translator = Callable[..., "Value | tuple[Value, ...]"]
T = TypeVar("T", bound=Translator)

TRANSLATORS: dict[type[Op], Translator] = {}
#: ops that ONNX can't hold
REFUSED: dict[type[Op], str] = {
    PythonFunction: "a Python function that you passed; ONNX holds no Python code",
    FunctionActivation: "a Python function that you passed; ONNX holds no Python code",
}
#: classes that exist for others to inherit from and are never part of a graph
ABSTRACT: frozenset[type[Op]] = frozenset({AlongAxes, Parametric, Cell, GatedCell, MatrixCell})

FAMILIES = (
    *("activations", "softmax", "affine", "arithmetic", "dense", "products", "quantized", "reshape", "indexing", "joining"),
    *("encoding", "reductions", "norm", "attention", "conv", "pool", "resize", "recurrent", "wrappers", "sized"),
)


def exports(*classes: type[Op]) -> Callable[[T], T]:
    """Register the decorated function (net, op, *values) → Value or tuple as the translation of these op classes."""

    def register(function: T) -> T:
        for c in classes:
            TRANSLATORS[c] = function
        return function

    return register


def load_families() -> None:
    for name in FAMILIES:
        import_module(f"npinfer.export.{name}")


def apply(net: Net, op: Op, values: Sequence[Value]) -> tuple[Value, ...]:
    """The results of one op. An elementwise op is applied before a transposition, so that transpositions move together."""
    translate = TRANSLATORS.get(type(op))
    if translate is None:
        net.refuse(REFUSED.get(type(op), "it has no ONNX form; write one with npinfer.export.exports"))
    if type(op).elementwise and values[0].origin is not None:
        source, order = values[0].origin
        (y,) = apply(net, op, [source])
        return (net.transpose(y, order),)
    made = translate(net, op, *values)
    return made if isinstance(made, tuple) else (made,)


def walk(net: Net, graph: Graph, inputs: Sequence[Value], problems: list[str] | None = None) -> list[Value]:
    """Translate all nodes of a graph; returns a Value for each of its value numbers.

    problems: gets a sentence for each op that can't be translated (what it makes is then a placeholder); None: the first one
    raises.
    """
    values = list(inputs)
    for k, node in enumerate(graph.nodes):
        if problems is not None:
            net.layer = node.name or type(node.op).__name__
        specs = [graph.specs[v] for v in graph.results(k)]
        made: Sequence[Any]
        try:
            made = net.apply_all(node.op, *(values[v] for v in node.inputs))
        except UnsupportedError as e:
            sentence = f"{type(node.op).__name__}: {e}"
            if problems is None:
                raise UnsupportedError(sentence) from None
            problems.append(f"layer {node.name!r} ({sentence})")
            made = [net.placeholder(s.dtype) for s in specs]
        values.extend(v.described(s) for v, s in zip(made, specs))
    return values
