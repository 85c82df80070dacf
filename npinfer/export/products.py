"""Matrix products and Einstein sums."""

from __future__ import annotations

from npinfer.export.net import Net
from npinfer.export.registry import exports
from npinfer.export.values import Operand, Value
from npinfer.ops.einsum import EinsumDense, letters
from npinfer.ops.products import BatchDot, Einsum, Matmul


@exports(Matmul)
def matmul(net: Net, op: Matmul, a: Value, b: Value) -> Value:
    return a.do("MatMul", b)


def _einsum(net: Net, terms: list[str], result: str, operands: list[Operand]) -> Value:
    """ONNX's Einsum, whose letters are lower-case ones."""
    known = dict(zip(dict.fromkeys("".join(terms)), "abcdefghijklmnopqrstuvwxyz"))
    spelt = ["".join(known[c] for c in t) for t in (*terms, result)]
    dtype = next(o.dtype for o in operands if isinstance(o, Value))
    return net.node("Einsum", *operands, dtype=dtype, equation=",".join(spelt[:-1]) + "->" + spelt[-1])


@exports(Einsum)
def einsum(net: Net, op: Einsum, *xs: Value) -> Value:
    left, result = op.subscripts.split("->")
    operands: list[Operand] = list(xs)
    if op.constant is not None:
        operands.insert(op.at, net.fixed(op.constant, "kernel"))
    return _einsum(net, left.split(","), result, operands)


@exports(BatchDot)
def batch_dot(net: Net, op: BatchDot, a: Value, b: Value) -> Value:
    free = iter("cdefghijklmnopqrstuvwxyz")
    terms = ["a" + "".join("b" if k == axis else next(free) for k in range(x.rank - 1)) for x, axis in zip((a, b), op.axes)]
    return _einsum(net, terms, "a" + "".join(c for t in terms for c in t if c not in "ab"), [a, b])


@exports(EinsumDense)
def einsum_dense(net: Net, op: EinsumDense, x: Value) -> Value:
    taken, weights, given = letters(op.equation, x.rank)
    y = _einsum(net, [taken, weights], given, [x, net.fixed(op.kernel, "kernel")])
    return y if op.bias is None else y + net.fixed(op.bias, "bias")
