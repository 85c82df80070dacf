"""The networks as LiteRT's files, written with the schema that ai-edge-litert brings: what its converter would make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks import Array, Network, Step, weights

FUSED = {
    "linear": "NONE",
    "relu": "RELU",
    "relu6": "RELU6",
}  # activations that the ops themselves have; others become ops of their own


class Unwritable(Exception):
    """This network has a layer without a form here."""


def write_tflite(network: Network, path: Path) -> None:
    """Raises ImportError without ai-edge-litert, Unwritable for layers that have no form here."""
    path.write_bytes(_Writer(network).finish())


class _Writer:
    def __init__(self, network: Network) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.s, self.network, self.weights = schema, network, weights(network)
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.shapes: dict[int, list[int]] = {}
        self.codes: dict[int, int] = {}
        self.values: dict[str, int] = {}
        for step in network.steps:
            self._add(step)

    def finish(self) -> bytes:
        import flatbuffers

        self.graph.inputs = [self.values[s.name] for s in self.network.inputs]
        self.graph.outputs = [self.values[n] for n in self.network.outputs]
        self.model.subgraphs, self.model.version = [self.graph], 3
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, name: str, shape: list[int], data: Array | None = None) -> int:
        t = self.s.TensorT()
        t.name, t.shape, t.buffer = name, shape, 0
        t.type = self.s.TensorType.FLOAT32 if data is None or data.dtype == np.float32 else self.s.TensorType.INT32
        if data is None:
            t.shapeSignature = [-1, *shape[1:]]
        else:
            buffer = self.s.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            t.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(t)
        self.shapes[len(self.graph.tensors) - 1] = shape
        return len(self.graph.tensors) - 1

    def _op(self, kind: str, inputs: list[int], name: str, shape: list[int], options: str = "", **fields: Any) -> int:
        code = getattr(self.s.BuiltinOperator, kind)
        if code not in self.codes:
            entry = self.s.OperatorCodeT()
            entry.builtinCode, entry.version = code, 1
            entry.deprecatedBuiltinCode = min(code, 127)
            self.model.operatorCodes.append(entry)
            self.codes[code] = len(self.model.operatorCodes) - 1
        op = self.s.OperatorT()
        op.opcodeIndex, op.inputs = self.codes[code], inputs
        op.outputs = [self._tensor(name, shape)]
        if options:
            op.builtinOptionsType = getattr(self.s.BuiltinOptions, options)
            op.builtinOptions = getattr(self.s, f"{options}T")()
            for field, value in fields.items():
                setattr(op.builtinOptions, field, value)
        self.graph.operators.append(op)
        return int(op.outputs[0])

    def _add(self, step: Step) -> None:
        c, inputs = step.config, [self.values[n] for n in step.inputs]
        shape = self.shapes[inputs[0]] if inputs else []
        if step.kind == "InputLayer":
            value = self._tensor(step.name, [1, *c["batch_shape"][1:]])
        elif step.kind == "Dense":
            kernel, bias = self._constants(step, (1, 0))
            made = ([*inputs, kernel, bias], step.name, [*shape[:-1], c["units"]], "FullyConnectedOptions")
            value = self._activated("FULLY_CONNECTED", made, c["activation"])
        elif step.kind == "Conv2D":
            kernel, bias = self._constants(step, (3, 0, 1, 2))
            made = ([*inputs, kernel, bias], step.name, [1, *self._size(shape, c), c["filters"]], "Conv2DOptions")
            value = self._activated("CONV_2D", made, c["activation"], **self._strides(c), dilationHFactor=1, dilationWFactor=1)
        elif step.kind == "DepthwiseConv2D":
            kernel, bias = self._constants(step, (3, 0, 1, 2))
            made = ([*inputs, kernel, bias], step.name, [1, *self._size(shape, c), shape[3]], "DepthwiseConv2DOptions")
            more = {"depthMultiplier": 1, "dilationHFactor": 1, "dilationWFactor": 1}
            value = self._activated("DEPTHWISE_CONV_2D", made, c["activation"], **self._strides(c), **more)
        elif step.kind == "Add":
            value = self._op("ADD", inputs, step.name, shape, "AddOptions")
        elif step.kind == "GlobalAveragePooling2D":
            axes = self._tensor(f"{step.name}/axes", [2], np.array([1, 2], np.int32))
            value = self._op("MEAN", [*inputs, axes], step.name, [1, shape[3]], "ReducerOptions", keepDims=False)
        elif step.kind.endswith("Pooling2D"):
            kind = "MAX_POOL_2D" if step.kind.startswith("Max") else "AVERAGE_POOL_2D"
            size = [n // p for n, p in zip(shape[1:3], c["pool_size"])]
            window = {"filterHeight": c["pool_size"][0], "filterWidth": c["pool_size"][1], **self._strides(c)}
            value = self._op(kind, inputs, step.name, [1, *size, shape[3]], "Pool2DOptions", **window)
        elif step.kind == "Concatenate":
            last = sum(self.shapes[i][-1] for i in inputs)
            value = self._op(
                "CONCATENATION", inputs, step.name, [*shape[:-1], last], "ConcatenationOptions", axis=len(shape) - 1
            )
        elif step.kind == "Flatten":
            count = int(np.prod(shape[1:]))
            to = self._tensor(f"{step.name}/shape", [2], np.array([-1, count], np.int32))
            value = self._op("RESHAPE", [*inputs, to], step.name, [1, count], "ReshapeOptions", newShape=[-1, count])
        else:
            raise Unwritable(f"{step.kind} has no LiteRT form here")
        self.values[step.name] = value

    def _constants(self, step: Step, order: tuple[int, ...]) -> list[int]:
        kernel, bias = self.weights[step.name]["kernel"].transpose(order), self.weights[step.name]["bias"]
        return [
            self._tensor(f"{step.name}/kernel", list(kernel.shape), kernel),
            self._tensor(f"{step.name}/bias", list(bias.shape), bias),
        ]

    def _strides(self, c: dict[str, Any]) -> dict[str, int]:
        return {
            "strideH": c["strides"][0],
            "strideW": c["strides"][1],
            "padding": getattr(self.s.Padding, c["padding"].upper()),
        }

    def _size(self, shape: list[int], c: dict[str, Any]) -> list[int]:
        if c["padding"] == "same":
            return [-(-n // s) for n, s in zip(shape[1:3], c["strides"])]
        return [(n - k) // s + 1 for n, k, s in zip(shape[1:3], c["kernel_size"], c["strides"])]

    def _activated(self, kind: str, made: tuple[Any, ...], activation: str, **fields: Any) -> int:
        inputs, name, shape, options = made
        fused = activation if activation in FUSED else "linear"
        code = getattr(self.s.ActivationFunctionType, FUSED[fused])
        value = self._op(kind, inputs, name, shape, options, fusedActivationFunction=code, **fields)
        if activation == "softmax":
            return self._op("SOFTMAX", [value], f"{name}/softmax", shape, "SoftmaxOptions", beta=1.0)
        if activation in FUSED:
            return value
        return self._op({"tanh": "TANH", "sigmoid": "LOGISTIC"}[activation], [value], f"{name}/{activation}", shape)
