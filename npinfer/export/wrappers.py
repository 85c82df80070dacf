"""TimeDistributed: the steps are folded into the batch and unfolded again."""

from __future__ import annotations

from npinfer.export.net import Net
from npinfer.export.registry import exports, walk
from npinfer.export.values import Value
from npinfer.ops.wrappers import TimeDistributed


@exports(TimeDistributed)
def time_distributed(net: Net, op: TimeDistributed, x: Value) -> Value:
    inner = op.graph.inputs[0]
    sizes = net.shape(x)
    folded = net.reshape(x, [-1, *sizes[2:]])
    folded.shape = inner.shape
    y = walk(net, op.graph, [folded])[op.graph.outputs[0]]
    rest = [net.size(y, a) for a in range(1, y.rank)]
    # the batch may be anything, so that the steps must be known here or be read from x
    return net.reshape(y, [-1, sizes[1], *rest])
