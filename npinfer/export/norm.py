"""Normalization by statistics of the sample itself."""

from __future__ import annotations

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import Value
from npinfer.graph import Array
from npinfer.ops.norm import GroupNorm, LayerNorm, RMSNorm, UnitNorm


def _scaled(y: Value, gamma: Array | None, beta: Array | None) -> Value:
    y = y if gamma is None else y * y.net.fixed(gamma, "gamma")
    return y if beta is None else y + y.net.fixed(beta, "beta")


def _spread(squares: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    return (squares.reduce("ReduceMean", axes) + epsilon).sqrt()


@exports(LayerNorm)
def layer_norm(net: Net, op: LayerNorm, x: Value) -> Value:
    """In two passes, written out: LayerNormalization of ONNX lets a runtime take the variance as a difference of large sums."""
    away = x - x.reduce("ReduceMean", op.axes)
    return _scaled((x if op.spread_only else away) / _spread(away * away, op.axes, op.epsilon), op.gamma, op.beta)


@exports(RMSNorm)
def rms_norm(net: Net, op: RMSNorm, x: Value) -> Value:
    return _scaled(x / _spread(x * x, op.axes, op.epsilon), op.gamma, None)


@exports(UnitNorm)
def unit_norm(net: Net, op: UnitNorm, x: Value) -> Value:
    return x * (x * x).reduce("ReduceSum", op.axes).sqrt().do("Reciprocal").do("Min", op.limit)


@exports(GroupNorm)
def group_norm(net: Net, op: GroupNorm, x: Value) -> Value:
    a = x.rank + op.axis
    assert x.shape is not None
    size = x.shape[a - 1]
    assert size is not None
    sizes = net.shape(x)
    rest = sizes[a + 1 :]
    parts = net.reshape(x, [*(0 for _ in range(a)), op.groups, size // op.groups, *rest])
    axes = tuple(k for k in range(1, x.rank + 1) if k != a)
    away = parts - parts.reduce("ReduceMean", axes)
    y = away / _spread(away * away, axes, op.epsilon)
    return _scaled(net.reshape(y, [*(0 for _ in range(a)), size, *rest]), op.gamma, op.beta)
