"""New shapes and orders of axes; masks by steps."""

from __future__ import annotations

import numpy as np

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import INT32, LAST, Value
from npinfer.graph import Spec
from npinfer.ops.causal import Window
from npinfer.ops.masking import Differs, StepsKept, ZeroUnless
from npinfer.ops.reshape import Reshape, Transpose


@exports(Reshape)
def reshape(net: Net, op: Reshape, x: Value) -> Value:
    assert x.shape is not None
    made = op.infer(Spec(x.shape, x.dtype)).shape
    # a size that is known is written; 0 takes over the batch's
    return net.reshape(x, [0, *(-1 if n is None else n for n in made)])


@exports(Transpose)
def transpose(net: Net, op: Transpose, x: Value) -> Value:
    return net.transpose(x, (0, *(a + 1 for a in op.axes)))


@exports(Differs)
def differs(net: Net, op: Differs, x: Value) -> Value:
    if x.dtype.kind in "iu" and op.value != int(op.value):
        return x.equals(x)
    return ~x.equals(np.asarray(op.value, x.dtype))


@exports(StepsKept)
def steps_kept(net: Net, op: StepsKept, x: Value) -> Value:
    other = differs(net, Differs(op.value), x)
    return other.cast(INT32).reduce("ReduceMax", [-1], keepdims=False).cast(other.dtype)


@exports(ZeroUnless)
def zero_unless(net: Net, op: ZeroUnless, x: Value, mask: Value) -> Value:
    return mask.unsqueeze(-1).where(x, 0)


@exports(Window)
def window(net: Net, op: Window, x: Value, memory: Value) -> tuple[Value, Value]:
    rows = net.node("Concat", memory, x.unsqueeze(1), axis=1)
    taken = rows.slice(1, 0, LAST, op.dilation) if op.dilation > 1 else rows
    return net.reshape(taken, [0, -1]), rows.slice(1, 1, LAST)
