"""Graphs through ONNX Runtime, for the tests of export."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

from npinfer.export import onnx as target
from npinfer.graph import Array, Graph

ort.set_default_logger_severity(4)

#: ONNX Runtime computes tanh, sigmoid, exp and erf by short series with an absolute error of about this size
SERIES = 2e-7


def session(made: Any) -> Any:
    """ONNX Runtime; what its older versions (the last one for Python 3.10) have no double-precision kernel for runs without
    fusions, and else in ONNX's own reference."""
    double = any(v.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE for v in made.graph.input)
    levels = [ort.GraphOptimizationLevel.ORT_ENABLE_ALL, *([ort.GraphOptimizationLevel.ORT_DISABLE_ALL] if double else [])]
    for level in levels:
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.graph_optimization_level = 1, level
        try:
            return ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except NotImplemented:
            if not double:
                raise
    return ReferenceEvaluator(made)


def run(graph: Graph, xs: list[Array]) -> list[Array]:
    """Through ONNX, checked on the way."""
    network = target.translate(graph)
    made = target.proto(network, "case", {})
    onnx.checker.check_model(made, full_check=True)
    feed = {s.name: np.ascontiguousarray(x) for s, x in zip(network.inputs, xs)}
    return list(session(made).run([s.name for s in network.outputs], feed))


def close(got: Array, want: Array, rtol: float, where: str) -> None:
    assert got.shape == want.shape, where
    assert got.dtype == want.dtype, where
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, where)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.where(finite, 0, got), np.where(finite, 0, want), where)
    scale = max(float(np.abs(want[finite]).max(initial=0)), 1e-30)
    error = float(np.abs(got[finite] - want[finite]).max(initial=0))
    assert error <= rtol * scale + SERIES * (rtol > 1e-9), f"{where}: off by {error:.3g} of {scale:.3g}"
