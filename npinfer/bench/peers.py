"""The same network in other runtimes, each called the way its own documentation calls it from Python.

A peer is opened by a function (context) -> Runner, or raises Absent saying why it isn't measured. To add one: a function here,
and its name in PEERS and in options.PEERS.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npinfer.bench.measure import Local, Runner
from npinfer.errors import NpinferError
from npinfer.graph import Array

if TYPE_CHECKING:
    from npinfer.model import Model


class Absent(Exception):
    """A peer can't be measured here; the message says why and what would change that."""


class Context(NamedTuple):
    """What peers are made from. files and pythons: by peer, as the caller gave them. pool: n → random inputs (n, …)."""

    model: Model
    path: str
    files: Mapping[str, str]
    pythons: Mapping[str, str]
    threads: int
    pool: Callable[[int], list[Array]]
    samples: Sequence[tuple[Array, ...]]

    def with_axis(self) -> list[list[Array]]:
        """The samples with their batch axis, as most runtimes want them."""
        return [[np.ascontiguousarray(x[None]) for x in s] for s in self.samples]


def open_peer(name: str, context: Context) -> Runner:
    """A runner for a peer. Raises Absent."""
    try:
        return PEERS[name](context)
    except Absent:
        raise
    except ImportError as e:
        raise Absent(f"not installed here ({e})") from None
    except Exception as e:
        raise Absent(f"{type(e).__name__}: {' '.join(str(e).split())[:200]}") from None


def _onnx(context: Context, peer: str) -> bytes:
    """The network as ONNX: the file given for the peer (or for ONNX Runtime), else made from the graph."""
    given = context.files.get(peer) or context.files.get("onnxruntime")
    if given:
        with open(given, "rb") as f:
            return f.read()
    try:
        from npinfer.export.onnx import export
    except ImportError:
        raise Absent(f"needs --model {peer}=FILE.onnx") from None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.onnx")
        try:
            export(context.model, path)
        except NpinferError as e:
            raise Absent(f"no ONNX could be made ({e}); pass --model {peer}=FILE.onnx") from None
        with open(path, "rb") as f:
            return f.read()


def match(names: Sequence[str], shapes: Sequence[Sequence[Any]], context: Context) -> list[int]:
    """For each of a peer's inputs, which of ours it is: by name, else by per-sample shape in order, else by position."""
    specs = context.model.inputs
    plain = [n.split(":")[0].removeprefix("serving_default_") for n in names]
    if set(plain) == {s.name for s in specs}:
        return [next(k for k, s in enumerate(specs) if s.name == n) for n in plain]
    left, found = list(range(len(specs))), []
    for shape in shapes:
        sizes = [n for n in list(shape)[1:] if isinstance(n, (int, np.integer))]
        fitting = [k for k in left if list(specs[k].shape) == sizes] or left
        if not fitting:
            raise Absent(f"its file has {len(names)} inputs, the network {len(specs)}")
        found.append(fitting[0])
        left.remove(fitting[0])
    return found


def onnxruntime(context: Context) -> Runner:
    """session.run(None, {name: x})."""
    import onnxruntime as ort

    data = _onnx(context, "onnxruntime")
    start = perf_counter()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = context.threads, 1
    options.log_severity_level = 3
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    load = perf_counter() - start
    inputs = session.get_inputs()
    order = match([i.name for i in inputs], [i.shape for i in inputs], context)
    names, run = [i.name for i in inputs], session.run

    def feed(arrays: Sequence[Array]) -> dict[str, Array]:
        return {n: arrays[k] for n, k in zip(names, order)}

    def one(feeds: dict[str, Array]) -> Any:
        return run(None, feeds)

    def many(arrays: Sequence[Array]) -> Callable[[], Any]:
        feeds = feed(arrays)
        return lambda: run(None, feeds)

    samples = [(feed(s),) for s in context.with_axis()]
    return Local("onnxruntime", ort.__version__, one, samples, many, context.pool, load, "session.run")


def litert(context: Context) -> Runner:
    """set_tensor, invoke, get_tensor."""
    given = context.files.get("litert")
    interpreter, version = _litert_interpreter()
    if given:
        with open(given, "rb") as f:
            data = f.read()
    else:
        data = _tflite(context)
    start = perf_counter()
    net = interpreter(model_content=data, num_threads=context.threads)
    net.allocate_tensors()
    load = perf_counter() - start
    details = net.get_input_details()
    order = match([d["name"] for d in details], [d["shape_signature"] for d in details], context)

    def prepared(net: Any) -> tuple[list[tuple[int, int]], list[int]]:
        return (
            [(d["index"], k) for d, k in zip(net.get_input_details(), order)],
            _in_order([d["index"] for d in net.get_output_details()], [d["name"] for d in net.get_output_details()]),
        )

    ins, outs = prepared(net)
    if len(ins) == len(outs) == 1:
        (index, _), (out,) = ins[0], outs
        put, go, get = net.set_tensor, net.invoke, net.get_tensor

        def lone(x: Array) -> Any:
            put(index, x)
            go()
            return get(out)

    def several(*arrays: Array) -> Any:
        for index, k in ins:
            net.set_tensor(index, arrays[k])
        net.invoke()
        return [net.get_tensor(i) for i in outs]

    one = lone if len(ins) == len(outs) == 1 else several

    def many(arrays: Sequence[Array]) -> Callable[[], Any]:
        other = interpreter(model_content=data, num_threads=context.threads)
        for d, k in zip(other.get_input_details(), order):
            other.resize_tensor_input(d["index"], arrays[k].shape)
        other.allocate_tensors()
        ins, outs = prepared(other)

        def run() -> list[Any]:
            for index, k in ins:
                other.set_tensor(index, arrays[k])
            other.invoke()
            return [other.get_tensor(i) for i in outs]

        return run

    samples = [tuple(s) for s in context.with_axis()]
    return Local("litert", version, one, samples, many, context.pool, load, "set_tensor, invoke, get_tensor")


def _in_order(indices: list[int], names: list[str]) -> list[int]:
    """Output tensors in the model's order: converters call them StatefulPartitionedCall:0, :1, …"""
    keys = [n.rpartition(":")[2] for n in names]
    if all(k.isdigit() for k in keys) and len(set(keys)) == len(keys):
        return [i for _, i in sorted(zip(map(int, keys), indices))]
    return indices


def _litert_interpreter() -> tuple[Any, str]:
    from importlib.metadata import version

    try:
        from ai_edge_litert.interpreter import Interpreter

        return Interpreter, version("ai-edge-litert")
    except ImportError:
        import tensorflow as tf

        return tf.lite.Interpreter, f"tensorflow {tf.__version__}"


#: runs where TensorFlow is: it talks on standard output, and its threads and memory stay out of the measurement
CONVERT = """
import sys
import tensorflow as tf
model = tf.keras.models.load_model(sys.argv[1], compile=False)
data = tf.lite.TFLiteConverter.from_keras_model(model).convert()
open(sys.argv[2], "wb").write(data)
"""


def _tflite(context: Context) -> bytes:
    """The network converted by TensorFlow, of this environment or of the interpreter given for the peer."""
    advice = "pass --model litert=FILE.tflite, or --python litert=PYTHON of an environment with TensorFlow"
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "net.tflite")
        command = [context.pythons.get("litert") or sys.executable, "-c", CONVERT, os.path.abspath(context.path), out]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False)
        if done.returncode or not os.path.exists(out):
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:200]
            raise Absent(f"TensorFlow made no .tflite of it ({why}); {advice}")
        with open(out, "rb") as f:
            return f.read()


def openvino(context: Context) -> Runner:
    """compiled(inputs) in float32: its default here would be bfloat16 on some CPUs."""
    import openvino as ov

    data = _onnx(context, "openvino")
    start = perf_counter()
    core = ov.Core()
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": context.threads, "PERFORMANCE_HINT": "LATENCY"}
    net = core.compile_model(core.read_model(data), "CPU", settings)
    request = net.create_infer_request()
    load = perf_counter() - start
    order = match([i.any_name for i in net.inputs], [_sizes(i.partial_shape) for i in net.inputs], context)
    count, infer = len(net.outputs), request.infer

    def one(feeds: Any) -> Any:
        return infer(feeds)

    def many(arrays: Sequence[Array]) -> Callable[[], Any]:
        feeds = [arrays[k] for k in order]

        def run() -> list[Any]:
            got = infer(feeds)
            return [got[j] for j in range(count)]

        return run

    samples = [([s[k] for k in order],) for s in context.with_axis()]
    return Local("openvino", ov.__version__.split("-")[0], one, samples, many, context.pool, load, "infer_request.infer, f32")


def _sizes(shape: Any) -> list[Any]:
    return [d.get_length() if d.is_static else None for d in shape]


def numpy(context: Context) -> Runner:
    """f(x @ W + b) a layer, as people write it by hand."""
    from npinfer.bench.plain_numpy import plain_numpy

    return plain_numpy(context)


def jax(context: Context) -> Runner:
    """jax.jit of the same graph, where JAX can run its ops."""
    from npinfer.bench.jax_net import jax_function

    return jax_function(context)


def keras(context: Context) -> Runner:
    """model.predict_on_batch and model(x) in a process of its own, which takes its turns."""
    from npinfer.bench.keras_peer import KerasRunner

    return KerasRunner(context)


PEERS: dict[str, Callable[[Context], Runner]] = {
    "onnxruntime": onnxruntime,
    "litert": litert,
    "openvino": openvino,
    "numpy": numpy,
    "jax": jax,
    "keras": keras,
}
