"""Scale and shift with stored numbers."""

from __future__ import annotations

from npinfer.export.net import Net, beneath
from npinfer.export.registry import exports
from npinfer.export.values import Value
from npinfer.ops.affine import Affine


@exports(Affine)
def affine(net: Net, op: Affine, x: Value) -> Value:
    x, (scale, offset, center), back = beneath(x, op.scale, op.offset, op.center)
    assert scale is not None
    assert offset is not None
    if center is not None and center.any():
        x = x - net.fixed(center, "center")
    if (scale != 1).any():
        x = x * net.fixed(scale, "scale")
    if offset.any():
        x = x + net.fixed(offset, "offset")
    y = back(x)
    return y if op.activation is None else net.apply(op.activation, y)
