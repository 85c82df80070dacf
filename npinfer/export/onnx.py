"""The network as an ONNX file: `export(model, path)`. This is also the road to TensorRT, OpenVINO and other runtimes.

What is written:

- opset 18, IR version 8. Opset 18 is the first in which all reductions take their axes alike and integers have bitwise
  operators; every ONNX Runtime since 1.14, TensorRT since 10 and OpenVINO since 2024 read it. Younger opsets would bring single
  operators (Gelu, RMSNormalization) that these runtimes fuse from their parts anyway.
- the optimised graph (BatchNormalization folded, activations in place), unless the model was loaded with optimize=False;
- inputs and outputs under the model's names, a numbered one where a name repeats; the batch is the dimension "batch", and sizes
  that the model leaves open are dimensions "NAME_AXIS";
- states of stateful layers as further inputs "state_0" …, zeros before the first call, and their successors as further
  outputs "state_0_next" …, to be fed back at the next call;
- the writer and the version of Keras that wrote the source, as metadata.

float64 models stay float64. Recurrent layers are ONNX's LSTM, GRU and RNN where those mean the same (recurrent.py), else Scan;
OpenVINO 2026 refuses the ones with hard_sigmoid inside, ONNX Runtime runs them. Quantized layers compute in floating point with
the roundings that Keras makes. Weights of 2 GB and more go to a second file, PATH.data.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

import npinfer
from npinfer.destination import put, replacing_folder
from npinfer.errors import EngineError, UnsupportedError
from npinfer.export.net import Net
from npinfer.export.registry import apply, load_families, walk
from npinfer.export.values import Body, NodeRecord, Value
from npinfer.graph import Array, Graph, Spec

OPSET, IR_VERSION = 18, 8
#: protobuf messages hold less than 2 GiB; some room for all that isn't weights
LARGEST = 2**31 - 2**24
#: arrays below so many bytes stay in the model beside a second file: shapes and axes, which checkers want to see
SMALL = 1024


class Exportable(Protocol):
    """What is needed of a Model."""

    _graph: Graph
    _archive: Any

    def _optimised(self, graph: Graph) -> Graph: ...


class Network(NamedTuple):
    """A graph in ONNX's terms."""

    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    nodes: list[NodeRecord]
    weights: dict[str, Array]


def export(model: Exportable, path: str | os.PathLike[str]) -> None:
    """Write a model as ONNX. The file appears under its name only when it is complete and valid.

    Raises EngineError where `onnx` isn't installed, UnsupportedError naming every op that has no ONNX form, by layer.
    """
    onnx = _onnx()
    archive = model._archive
    network = translate(model._optimised(model._graph))
    properties = {"keras_version": str(archive.version), "source": str(archive.source)}
    large = sum(a.nbytes for a in network.weights.values()) >= LARGEST
    with replacing_folder(path) as (folder, target):
        data = folder / f"{target.name}.data" if large else None
        made = proto(network, archive.model.name, properties, data)
        written = folder / target.name
        written.write_bytes(made.SerializeToString())
        try:
            onnx.checker.check_model(str(written) if large else made, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as e:
            raise EngineError(f"the ONNX graph isn't valid, which is npinfer's fault; please report this: {e}") from None
        if data is not None:
            os.replace(data, target.with_name(data.name))
        put(written, target)


def translate(graph: Graph) -> Network:
    """A graph in ONNX's terms. Raises UnsupportedError naming every op that has no ONNX form."""
    load_families()
    net = Net(apply)
    count = len(graph.inputs) - len(graph.states)
    named = [
        s._replace(name=net.unique(s.name or (f"input_{k}" if k < count else f"state_{k - count}")))
        for k, s in enumerate(graph.inputs)
    ]
    ends = [(v, graph.specs[v].name or f"output_{k}") for k, v in enumerate(graph.outputs)]
    ends += [(s.output, f"{named[s.input].name}_next") for s in graph.states]
    outputs = [graph.specs[v]._replace(name=net.unique(name)) for v, name in ends]
    problems: list[str] = []
    values = walk(net, graph, [Value(net, s.name, s.dtype, s.shape) for s in named], problems)
    if problems:
        lines = "".join(f"\n  - {p}" for p in problems)
        raise UnsupportedError(f"this model can't be exported to ONNX:{lines}", problems)
    nodes = _with_outputs(net.nodes, [values[v].name for v, _ in ends], [s.name for s in outputs])
    used = {name for node in nodes for name in _read(node)}
    return Network(tuple(named), tuple(outputs), nodes, {n: a for n, a in net.weights.items() if n in used})


def _with_outputs(nodes: list[NodeRecord], found: Sequence[str], wanted: Sequence[str]) -> list[NodeRecord]:
    """The nodes that lead to some values, which get the names of the outputs. Inputs and weights that are outputs, and values
    that are several of them, are copied."""
    made = {name for node in nodes for name in node.outputs}
    renamed: dict[str, str] = {}
    copies = list[NodeRecord]()
    for name, output in zip(found, wanted):
        if name in made and name not in renamed:
            renamed[name] = output
        else:
            copies.append(NodeRecord("Identity", (renamed.get(name, name),), (output,), {}, output))
    nodes = [*(_renamed(n, renamed) for n in nodes), *copies]
    kept, needed = list[NodeRecord](), set(wanted)
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed |= _read(node)
    return kept[::-1]


def _read(node: NodeRecord) -> set[str]:
    """The names that a node reads, those that its bodies read from outside included."""
    names = set(node.inputs)
    for value in node.attributes.values():
        if isinstance(value, Body):
            names.update(*(_read(n) for n in value.nodes), (v.name for v in value.outputs))
    return names


def _renamed(node: NodeRecord, names: dict[str, str]) -> NodeRecord:
    def new(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(names.get(v, v) for v in values)

    attributes = {
        k: v._replace(nodes=[_renamed(n, names) for n in v.nodes]) if isinstance(v, Body) else v
        for k, v in node.attributes.items()
    }
    return node._replace(inputs=new(node.inputs), outputs=new(node.outputs), attributes=attributes)


# protobuf


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError:
        raise EngineError("export to ONNX needs onnx: pip install npinfer[onnx]") from None
    return onnx


def proto(network: Network, name: str, properties: dict[str, str], data: Path | None = None) -> Any:
    """An onnx.ModelProto; the weights are written to the file `data`, if there is one."""
    onnx = _onnx()
    helper = onnx.helper
    graph = helper.make_graph(
        [_node(onnx, n) for n in network.nodes],
        name or "network",
        [_described(helper, s) for s in network.inputs],
        [_described(helper, s) for s in network.outputs],
        _weights(onnx, network.weights, data),
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="npinfer",
        producer_version=npinfer.__version__,
    )
    helper.set_model_props(made, properties)
    return made


def _described(helper: Any, spec: Spec) -> Any:
    sizes = [f"{spec.name}_{k}" if n is None else n for k, n in enumerate(spec.shape, 1)]
    return helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(spec.dtype), ["batch", *sizes])


def _node(onnx: Any, record: NodeRecord) -> Any:
    attributes = {name: _attribute(onnx, value) for name, value in record.attributes.items()}
    return onnx.helper.make_node(record.kind, record.inputs, record.outputs, record.name, **attributes)


def _attribute(onnx: Any, value: Any) -> Any:
    if isinstance(value, np.dtype):
        return onnx.helper.np_dtype_to_tensor_dtype(value)
    if isinstance(value, np.ndarray):
        return onnx.numpy_helper.from_array(value)
    if isinstance(value, Body):
        infos = [
            [onnx.helper.make_tensor_value_info(v.name, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), None) for v in values]
            for values in (value.inputs, value.outputs)
        ]
        return onnx.helper.make_graph([_node(onnx, n) for n in value.nodes], "step", *infos)
    return list(value) if isinstance(value, (tuple, list)) else value


def _weights(onnx: Any, weights: dict[str, Array], data: Path | None) -> list[Any]:
    tensors = []
    with contextlib.ExitStack() as stack:
        file = None if data is None else stack.enter_context(open(data, "wb"))
        for name, array in weights.items():
            if file is None or data is None or array.nbytes < SMALL:
                tensors.append(onnx.numpy_helper.from_array(array, name))
                continue
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            tensor = onnx.TensorProto(name=name, data_type=kind, dims=array.shape, data_location=onnx.TensorProto.EXTERNAL)
            for key, value in (("location", data.name), ("offset", file.tell()), ("length", array.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            file.write(np.ascontiguousarray(array).data)
            tensors.append(tensor)
    return tensors
