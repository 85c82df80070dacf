"""Networks in other formats: `npinfer.export.onnx.export(model, path)`.

How a new op gets an ONNX form: one function in the file of its family, beside the others of npinfer/ops' file of that name,

    @exports(Highway)
    def highway(net: Net, op: Highway, x: Value) -> Value:
        t = net.apply(Activation("sigmoid"), net.apply(Dense(op.carry_kernel, op.carry_bias), x))
        return t * h + (1.0 - t) * x

where a Value (values.py) stands for an array of the ONNX graph, batch axis in front, and reads like one in NumPy.
"""

from __future__ import annotations

from npinfer.export.registry import exports

__all__ = ["exports"]
