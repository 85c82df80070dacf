"""Archive → Graph: walk the model's calls and let each layer emit its ops (the `@layer` functions in npinfer/ops)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from npinfer.errors import FormatError, NpinferError, ShapeError, UnsupportedError, shown
from npinfer.frozen import Frozen
from npinfer.graph import Array, Graph, Node, Op, Spec, State, infer
from npinfer.ops.cast import Cast
from npinfer.ops.registry import LayerCall, Value, find
from npinfer.ops.sizes import Sizes, StepsInBatch, needs_evaluation
from npinfer.readers import entrances
from npinfer.readers.archive import Archive, Call, Layer, Model, Path, TensorRef, tensors, walk
from npinfer.readers.entrances import COMPUTED, values
from npinfer.readers.problems import problems, unsupported
from npinfer.readers.schedule import by_depth, needed_calls
from npinfer.trees import holds, leaves, mapped


class Lowered(Frozen):
    """A graph and how callers see it: trees of positions into graph.inputs and graph.outputs, shaped as Keras's model takes
    and returns them."""

    graph: Graph
    inputs: Any
    outputs: Any


def lower(
    archive: Archive,
    dtype: str | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    outputs: Sequence[str] | None = None,
) -> Lowered:
    """Lower a whole archive. dtype overrides the file's float dtypes; outputs names layers to return instead of the model's
    outputs. Raises UnsupportedError with every unsupported layer and option of the file, ShapeError where weights don't fit."""
    own = _Functions(functions or {})
    found = list(problems(archive.model, own, outputs or ()))
    if found:
        raise unsupported(archive.source, found)
    lowering = _Lowering(archive, dtype, own)
    refs = list(tensors(archive.model.inputs))
    given = [lowering.input(archive.model, r) for r in refs]
    try:
        result = lowering.model(archive.model, (), given, extra=outputs or ())
    except ShapeError as e:
        raise ShapeError(f"{e}{entrances.guess(archive, refs, given)}") from None
    if outputs:
        unknown = [n for n in outputs if n not in lowering.labels]
        if unknown:
            names, known = ", ".join(map(shown, unknown)), ", ".join(lowering.labels)
            raise UnsupportedError(f"{archive.source}: no layer called {names} to return; there are: {known}")
        result = [lowering.labels[n] for n in outputs]
        result = result[0] if len(result) == 1 else result
    own.check(archive)
    flat = list(values(result))
    graph = lowering.finish([v.number for v in flat])
    places = iter(range(len(flat)))
    order = {r: k for k, r in enumerate(refs)}
    return Lowered(
        graph, mapped(archive.model.inputs, TensorRef, lambda r: order[r]), mapped(result, Value, lambda _: next(places))
    )


class _Functions(dict[str, Callable[..., Any]]):
    """The caller's functions by name; knows which of them found a place."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(functions)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Callable[..., Any]:
        self.used.add(name)
        return super().__getitem__(name)

    def check(self, archive: Archive) -> None:
        strangers = self.keys() - self.used - {layer.name for _, layer in walk(archive.model)}
        if strangers:
            names = ", ".join(map(shown, sorted(strangers)))
            raise UnsupportedError(f"functions: {archive.source} has no layer or activation of its own called {names}")


class _Lowering:
    """A graph under construction: inputs are numbered from 0, states from -1 downwards until `finish` places them."""

    def __init__(self, archive: Archive, dtype: str | None, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.archive, self.dtype, self.functions = archive, dtype, functions
        self.inputs: list[Spec] = []
        self.nodes: list[Node] = []
        self.specs: list[Spec] = []  # of node results
        self.states: list[tuple[Spec, Value | None]] = []
        self.labels: dict[str, Value] = {}
        self.unmasked: set[int] = set()  # values that lost their masks when a layer ran (ops/multi_head.py)
        self._cast: dict[tuple[Path, str], dict[str, Array]] = {}

    # what layer functions call (ops.registry.Builder)

    def emit(self, op: Op, inputs: Sequence[Value], name: str) -> tuple[Value, ...]:
        got = infer(Node(op, tuple(v.number for v in inputs), name), [v.spec for v in inputs])
        start = len(self.inputs) + len(self.specs)
        self.nodes.append(Node(op, tuple(v.number for v in inputs), name))
        self.specs.extend(got)
        return tuple(Value(start + k, spec) for k, spec in enumerate(got))

    def state(self, spec: Spec) -> tuple[Value, Callable[[Value], None]]:
        k = len(self.states)
        self.states.append((spec, None))

        def follow(value: Value) -> None:
            self.states[k] = (spec, value)

        return Value(-1 - k, spec), follow

    def problem(self, path: Path, layer: Layer, reason: str) -> UnsupportedError:
        return unsupported(self.archive.source, [f"layer {'/'.join(path)!r} ({layer.class_name}): {reason}"])

    def subgraph(self, layer: Layer, path: Path, inputs: Sequence[Spec]) -> Graph:
        inner = _Lowering(self.archive, self.dtype, self.functions)
        inner._cast = self._cast
        given = [inner.add_input(s) for s in inputs]
        result = inner.lower_layer(layer, path, given)
        if inner.states:
            raise self.problem(path, layer, "a stateful layer inside a layer that runs it several times")
        return inner.finish([v.number for v in values(result)])

    def lower_layer(self, layer: Layer, path: Path, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        if holds([args, kwargs], StepsInBatch):
            operation = find(layer) if layer.module else None
            if operation is None or "steps" not in operation.takes:
                return self._each_step(layer, path, args, kwargs or {})
        if layer.model is not None:
            odd = [n for n, v in (kwargs or {}).items() if n not in ("training", "mask") and v is not None]
            if odd:
                raise self.problem(path, layer, f"call argument(s) {', '.join(odd)}")
            return self.model(layer.model, path, entrances.spread(layer.model, args, self._where(path)))
        kind = find(layer)
        if kind is None:
            raise self.problem(path, layer, "this class is unknown")
        dtype = self.compute_dtype(layer)
        if layer.module != "ops":
            args = mapped(list(args), Value, lambda v: self.autocast(v, dtype, "/".join(path)))
        call = LayerCall(self, layer, path, self.weights(path, dtype), dtype, self.archive.version, kwargs)
        masks = [v.mask for v in values(args) if v.mask is not None]
        if kind.mask != "own":
            call.take("mask")
            args = mapped(args, Value, lambda v: v._replace(mask=None))
        call.take("training")
        result = None
        if needs_evaluation(args, call.kwargs):
            from npinfer.ops.evaluation import evaluated  # few models need it, and its tables take a while to make

            result, args = evaluated(call, args, "sizes" in kind.takes)
        result = kind.function(call, *args) if result is None else result
        left = {k: v for k, v in call.kwargs.items() if v is not None}
        if left:
            call.refuse(f"call argument(s) {', '.join(f'{k}={v!r}' for k, v in left.items())}")
        if kind.mask == "pass" and masks:
            result = mapped(result, Value, lambda v: v._replace(mask=masks[0]))
        return result

    def _each_step(self, layer: Layer, path: Path, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A layer on steps that stand in the batch: lowered for one step, then run over the steps of each sample."""
        from npinfer.ops.wrappers import over_steps

        found = list(leaves([args, kwargs], StepsInBatch))
        if values([args, kwargs]) or any(not s.known for s in leaves([args, kwargs], Sizes)):
            raise self.problem(path, layer, "steps of samples in the place of samples, beside tensors of whole samples")
        inner = _Lowering(self.archive, self.dtype, self.functions)
        inner._cast = self._cast
        given = iter([inner.add_input(f.value.spec._replace(shape=f.value.shape[1:], name="")) for f in found])
        steps = [mapped(tree, StepsInBatch, lambda _: next(given)) for tree in (list(args), dict(kwargs))]
        result = inner.lower_layer(layer, path, *steps)
        if inner.states or holds(result, Sizes):
            raise self.problem(path, layer, "steps of samples in the place of samples")
        graph = inner.finish([v.number for v in values(result)])
        made = over_steps(self.emit, graph, [f.value for f in found], "/".join(path))
        if made is None:
            raise self.problem(path, layer, "several tensors with steps of samples in the place of samples")
        each = iter(made)
        return mapped(result, Value, lambda _: StepsInBatch(next(each)))

    # inputs, dtypes, weights

    def add_input(self, spec: Spec) -> Value:
        self.inputs.append(spec)
        return Value(len(self.inputs) - 1, spec)

    def input(self, model: Model, ref: TensorRef) -> Value:
        """A graph input for one InputLayer of the outermost model."""
        spec = entrances.spec(self.archive, model, ref, self.dtype)
        if isinstance(spec, str):
            raise unsupported(self.archive.source, [spec])
        return self.add_input(spec)

    def compute_dtype(self, layer: Layer) -> np.dtype[Any]:
        return np.dtype(self.dtype or COMPUTED.get((layer.dtype or "").rpartition("_from_")[2], "float32"))

    def autocast(self, v: Value, dtype: np.dtype[Any], name: str) -> Value:
        if v.spec.dtype.kind != "f" or v.spec.dtype == dtype:
            return v
        return self.emit(Cast(dtype), [v], name)[0]._replace(mask=v.mask)

    def weights(self, path: Path, dtype: np.dtype[Any]) -> dict[str, Array]:
        """A layer's arrays, floats in its compute dtype; the same objects each time, so that shared layers share memory."""
        key = (path, dtype.name)
        if key not in self._cast:
            found = self.archive.weights.get(path)
            if found is None:  # a layer held by a wrapper: its variables carry the attribute as a prefix
                for cut in range(len(path) - 1, 0, -1):
                    prefix = "/".join(path[cut:]) + "/"
                    outer = self.archive.weights.get(path[:cut])
                    if outer is not None:
                        found = {n[len(prefix) :]: a for n, a in outer.items() if n.startswith(prefix)}
                        break
            self._cast[key] = {n: a.astype(dtype, copy=False) if a.dtype.kind == "f" else a for n, a in (found or {}).items()}
        return self._cast[key]

    # models

    def model(self, model: Model, path: Path, args: Sequence[Value], extra: Sequence[str] = ()) -> Any:
        """Lower every call that the model's outputs (and the layers named in `extra`) need; returns the tree of outputs."""
        inputs = list(tensors(model.inputs))
        if len(inputs) != len(args):
            raise FormatError(f"{self._where(path)}: called with {len(args)} tensors, the model has {len(inputs)} inputs")
        done: dict[tuple[str, int], list[Any]] = {}
        for ref, value in zip(inputs, args):
            done[ref.layer, ref.node] = [self._fit(model, ref, value, path)]
            if not path:
                self.labels.setdefault(ref.layer, value)
        layers = {k.name: k for k in model.layers}
        taps = [TensorRef(n, 0, 0) for n in extra if n in layers and layers[n].calls]
        try:
            order = needed_calls(model, layers, set(done), taps)
        except FormatError as e:
            raise FormatError(f"{self._where(path)}: {e}") from None
        for layer, number in by_depth(order) if any(k.class_name == "MultiHeadAttention" for k, _ in order) else order:
            call = layer.calls[number]
            result = self._call(layer, (*path, layer.name), call, done)
            done[layer.name, number] = entrances.results(result)
            label = "/".join((*path, layer.name))
            for value in values(result)[:1]:
                self.labels.setdefault(label, value)
        made = mapped(model.outputs, TensorRef, lambda r: self._pick(done, r, path))
        if holds(made, Sizes):
            raise unsupported(self.archive.source, [f"{self._where(path)} returns a shape or a constant"])
        if holds(made, StepsInBatch):
            raise unsupported(self.archive.source, [f"{self._where(path)} returns steps of samples as samples"])
        return made

    def _call(self, layer: Layer, path: Path, call: Call, done: Mapping[tuple[str, int], list[Any]]) -> Any:
        def pick(tree: Any) -> Any:
            return mapped(tree, TensorRef, lambda r: self._pick(done, r, path))

        if layer.model is None and layer.name in self.functions:
            from npinfer.ops.functions import lower_function

            known = LayerCall(self, layer, path, {}, self.compute_dtype(layer), self.archive.version)
            return lower_function(known, self.functions[layer.name], pick(list(call.args)), pick(dict(call.kwargs)))
        try:
            return self.lower_layer(layer, path, pick(list(call.args)), pick(dict(call.kwargs)))
        except NpinferError as e:
            if isinstance(e, UnsupportedError) or str(e).startswith(self.archive.source):
                raise
            raise type(e)(f"{self.archive.source}: {e}") from None
        except (TypeError, KeyError, IndexError, ValueError, AttributeError, OverflowError, ZeroDivisionError) as e:
            raise FormatError(
                f"{self._where(path)} ({layer.class_name}): its config or weights don't make sense: {type(e).__name__}: {e}"
            ) from e

    def _pick(self, done: Mapping[tuple[str, int], list[Any]], ref: TensorRef, path: Path) -> Any:
        found = done.get((ref.layer, ref.node), [])
        if not 0 <= ref.tensor < len(found):
            raise FormatError(f"{self._where(path)}: refers to result {ref.tensor} of {ref.layer!r}, which gives {len(found)}")
        value = found[ref.tensor]
        if isinstance(value, Value) and value.number in self.unmasked:
            return value._replace(mask=None)
        return value

    def _fit(self, model: Model, ref: TensorRef, value: Value, path: Path) -> Value:
        """A nested model's input as its own InputLayer declares it: shapes must agree, dtypes are cast from tf.keras on."""
        if not path:
            return value
        layer = entrances.layer_of(self.archive, model, ref)
        problem = entrances.misfit(layer.config, value.shape)
        if problem is not None:
            raise ShapeError(f"{self._where(path)}: input {layer.name!r} {problem}")
        dtype = entrances.dtype_of(layer, self.dtype)
        if dtype is None or dtype == value.spec.dtype or not (self.archive.version.tf or self.archive.version.major == 3):
            return value
        return self.emit(Cast(dtype), [value], "/".join(path))[0]._replace(mask=value.mask)

    def _where(self, path: Path) -> str:
        return f"{self.archive.source}: layer {'/'.join(path)!r}" if path else f"{self.archive.source}: the model"

    def finish(self, outputs: Sequence[int]) -> Graph:
        """The checked graph: states move behind the inputs."""
        k, n = len(self.inputs), len(self.states)

        def place(v: int) -> int:
            return k - 1 - v if v < 0 else v if v < k else v + n

        nodes = [node._replace(inputs=tuple(place(v) for v in node.inputs)) for node in self.nodes]
        states = [State(k + i, place(-1 - i if value is None else value.number)) for i, (_, value) in enumerate(self.states)]
        labels = {name: place(v.number) for name, v in self.labels.items()}
        return Graph([*self.inputs, *(s for s, _ in self.states)], nodes, [place(v) for v in outputs], labels, states)
