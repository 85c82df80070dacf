"""The networks that are measured, made here with seeded random weights: as Keras 3's .h5, and as .tflite for LiteRT.

A network is a tuple of steps (name, layer class, config, inputs, shapes of its weights); an input is a step with a shape.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Step(NamedTuple):
    """One layer. weights: {variable: shape}, in Keras's order."""

    name: str
    kind: str
    config: dict[str, Any]
    inputs: tuple[str, ...] = ()
    weights: dict[str, tuple[int, ...]] = {}  # noqa: RUF012 (never written to)


class Network(NamedTuple):
    """what: in words. outputs: the steps whose results it returns. stream: one time step a call is measured. quick: part of
    `run --quick` and of the comparison of commits. shown: a column of the README's first table. large: too much for batches
    of thousands."""

    name: str
    what: str
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    stream: bool = False
    quick: bool = False
    shown: bool = False
    large: bool = False

    @property
    def inputs(self) -> tuple[Step, ...]:
        return tuple(s for s in self.steps if s.kind == "InputLayer")


def source(name: str, *shape: int | None) -> Step:
    return Step(name, "InputLayer", {"batch_shape": [None, *shape]})


def dense(name: str, below: str, width: int, units: int, activation: str = "linear") -> Step:
    shapes = {"kernel": (width, units), "bias": (units,)}
    return Step(name, "Dense", {"units": units, "use_bias": True, "activation": activation}, (below,), shapes)


def conv(
    name: str, below: str, channels: int, filters: int, size: int, stride: int = 1, padding: str = "valid", last: str = "relu"
) -> Step:
    config = {"filters": filters, "kernel_size": [size, size], "strides": [stride, stride], "padding": padding}
    config |= {"activation": last, "use_bias": True, "data_format": "channels_last", "dilation_rate": [1, 1], "groups": 1}
    return Step(name, "Conv2D", config, (below,), {"kernel": (size, size, channels, filters), "bias": (filters,)})


def depthwise(name: str, below: str, channels: int, stride: int) -> Step:
    config = {"kernel_size": [3, 3], "strides": [stride, stride], "padding": "same", "depth_multiplier": 1}
    config |= {"activation": "relu6", "use_bias": True, "data_format": "channels_last", "dilation_rate": [1, 1]}
    return Step(name, "DepthwiseConv2D", config, (below,), {"kernel": (3, 3, channels, 1), "bias": (channels,)})


def pool(name: str, below: str, kind: str) -> Step:
    return Step(name, f"{kind}Pooling2D", {"pool_size": [2, 2], "strides": [2, 2], "padding": "valid"}, (below,))


def mlp(name: str, sizes: Sequence[int], activation: str = "relu", last: str = "linear", **options: Any) -> Network:
    """Dense layers of these sizes."""
    steps, below = [source("x", sizes[0])], "x"
    for k, (a, b) in enumerate(pairwise(sizes)):
        steps.append(dense(f"dense_{k}", below, a, b, last if k == len(sizes) - 2 else activation))
        below = steps[-1].name
    what = f"{'-'.join(map(str, sizes))} {activation}"
    return Network(name, what if last == "linear" else f"{what}, {last}", tuple(steps), (below,), **options)


def lenet() -> Network:
    steps = (
        source("x", 28, 28, 1),
        conv("conv_0", "x", 1, 16, 3),
        pool("pool_0", "conv_0", "Max"),
        conv("conv_1", "pool_0", 16, 32, 3),
        pool("pool_1", "conv_1", "Max"),
        Step("flatten", "Flatten", {}, ("pool_1",)),
        dense("dense_0", "flatten", 800, 64, "relu"),
        dense("dense_1", "dense_0", 64, 10, "softmax"),
    )
    return Network("lenet", "28×28 image, 2 convolutions, 2 Dense", steps, ("dense_1",), quick=True, shown=True)


def image4() -> Network:
    """An image, seen at four scales, each with an auxiliary image; four outputs. Steps stand as Keras sorts them, by depth."""
    scales, below, channels, convolutions = range(4), "x", 1, []
    for k, (filters, size) in enumerate(((16, 4), (24, 2), (32, 2), (32, 2))):
        convolutions.append(conv(f"conv_{k}", below, channels, filters, size, size))
        below, channels = f"conv_{k}", filters
    sides = [8 >> k for k in scales]
    widths = [n * n * (c.config["filters"] + 1) for n, c in zip(sides, convolutions)]
    steps = (
        source("x", 64, 64, 1),
        *convolutions,
        *(pool(f"pool_{k}", f"conv_{k}", "Average") for k in scales),
        *(source(f"side_{k}", n, n, 1) for k, n in enumerate(sides)),
        *(Step(f"join_{k}", "Concatenate", {"axis": -1}, (f"pool_{k}", f"side_{k}")) for k in scales),
        *(Step(f"flatten_{k}", "Flatten", {}, (f"join_{k}",)) for k in scales),
        *(dense(f"dense_{k}", f"flatten_{k}", width, 48, "relu") for k, width in enumerate(widths)),
        *(dense(f"out_{k}", f"dense_{k}", 48, 1, "sigmoid") for k in scales),
    )
    outputs = tuple(f"out_{k}" for k in scales)
    return Network("image4", "64×64 image and 4 auxiliary ones, 4 outputs", steps, outputs, quick=True, shown=True)


def mobilenet(size: int) -> Network:
    """MobileNetV2 (M. Sandler et al., CVPR 2018, table 2) as it runs: normalization folded into the convolutions."""
    steps = [source("x", size, size, 3), conv("stem", "x", 3, 32, 3, 2, "same", "relu6")]
    below, width = "stem", 32
    for stage, (factor, filters, count, first_stride) in enumerate(
        ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    ):
        for k in range(count):
            name, before, inner = f"block_{stage}_{k}", below, width * factor
            if factor > 1:
                steps.append(conv(f"{name}_wide", below, width, inner, 1, 1, "same", "relu6"))
                below = steps[-1].name
            steps.append(depthwise(f"{name}_each", below, inner, 1 if k else first_stride))
            steps.append(conv(f"{name}_narrow", f"{name}_each", inner, filters, 1, 1, "same", "linear"))
            below = steps[-1].name
            if k:  # the same shape as the block's input
                steps.append(Step(f"{name}_add", "Add", {}, (before, below)))
                below = steps[-1].name
            width = filters
    steps.append(conv("top", below, width, 1280, 1, 1, "same", "relu6"))
    steps.append(Step("mean", "GlobalAveragePooling2D", {"data_format": "channels_last", "keepdims": False}, ("top",)))
    steps.append(dense("classes", "mean", 1280, 1000, "softmax"))
    return Network("mobilenet", f"MobileNetV2, {size}×{size}", tuple(steps), ("classes",), large=True)


def recurrent(name: str, kind: str, units: int, gates: int) -> Network:
    bias = (2, gates * units) if kind == "GRU" else (gates * units,)
    shapes = {"kernel": (1, gates * units), "recurrent_kernel": (units, gates * units), "bias": bias}
    config = {
        "units": units,
        "activation": "tanh",
        "recurrent_activation": "sigmoid",
        "use_bias": True,
        "return_sequences": True,
    }
    config |= {"reset_after": True} if kind == "GRU" else {}
    steps = (source("x", None, 1), Step("rnn", kind, config, ("x",), shapes), dense("dense_0", "rnn", units, 1))
    return Network(name, f"{kind} of {units}, one step", steps, ("dense_0",), stream=True, quick=True, shown=True)


NETWORKS = {
    n.name: n
    for n in (
        mlp("tiny", (4, 16, 16, 2), "tanh", quick=True, shown=True),
        mlp("seed", (40, 64, 128, 128, 1), quick=True, shown=True),
        mlp("rl", (24, 256, 256, 4), "tanh", quick=True, shown=True),
        mlp("wide", (512, 1024, 1024, 10), last="softmax", quick=True, shown=True),
        lenet(),
        image4(),
        mobilenet(96),
        recurrent("lstm64", "LSTM", 64, 4),
        recurrent("gru32", "GRU", 32, 3),
        mlp("odd", (7, 33, 5)),
        mlp("mid", (17, 200, 100, 3)),
        mlp("linear", (100, 10), last="softmax"),
        mlp("512x3", (512, 512, 512, 512)),
        *(mlp(f"sweep-{w}", (w, w, w)) for w in (1, 2, 3, 5, 8, 16, 24, 31, 48, 64, 100, 128, 200, 256, 333, 512, 768, 1024)),
    )
}


def weights(network: Network) -> dict[str, dict[str, Array]]:
    """{step: {variable: array}}, the same each time."""
    rng = np.random.default_rng(zlib.crc32(network.name.encode()))
    found = {}
    for step in network.steps:
        arrays = {}
        for name, shape in step.weights.items():
            summed = shape[:2] if step.kind == "DepthwiseConv2D" else shape[:-1]
            scale = 0.3 if name == "bias" else np.sqrt(1.6 / np.prod(summed))
            arrays[name] = (scale * rng.standard_normal(shape)).astype(np.float32)
        if arrays:
            found[step.name] = arrays
    return found


def write_h5(network: Network, path: Path) -> None:
    """As Keras 3.15 would save it."""
    import h5py

    variables = weights(network)
    layers = [_layer(s) for s in network.steps]
    config = {
        "name": network.name,
        "trainable": True,
        "layers": layers,
        "input_layers": [[s.name, 0, 0] for s in network.inputs],
        "output_layers": [[name, 0, 0] for name in network.outputs],
    }
    with h5py.File(path, "w") as f:
        f.attrs["keras_version"], f.attrs["backend"] = "3.15.1", "tensorflow"
        f.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": config})
        top = f.create_group("model_weights")
        top.attrs["layer_names"] = [s.name for s in network.steps]
        top.attrs["keras_version"], top.attrs["backend"] = "3.15.1", "tensorflow"
        for step in network.steps:
            group, held = top.create_group(step.name), variables.get(step.name, {})
            names = [_weight_name(step, v) for v in held]
            group.attrs["weight_names"] = names or np.zeros(0, "S1")
            for name, array in zip(names, held.values()):
                group.create_dataset(name, data=array)


def _weight_name(step: Step, variable: str) -> str:
    inner = {"LSTM": "lstm_cell/", "GRU": "gru_cell/"}.get(step.kind, "")
    return f"{step.name}/{inner}{variable}"


def _layer(step: Step) -> dict[str, Any]:
    def tensor(name: str) -> dict[str, Any]:  # Keras asks for a shape here, and then goes by the layer that it names
        return {
            "class_name": "__keras_tensor__",
            "config": {"shape": [None], "dtype": "float32", "keras_history": [name, 0, 0]},
        }

    args: list[Any] = [tensor(name) for name in step.inputs]
    nodes = [{"args": [args] if len(args) > 1 else args, "kwargs": {}}] if args else []
    config: Mapping[str, Any] = {"name": step.name, "dtype": "float32", **step.config}
    head = {"module": "keras.layers", "class_name": step.kind, "config": config, "registered_name": None}
    return {**head, "name": step.name, "inbound_nodes": nodes}
