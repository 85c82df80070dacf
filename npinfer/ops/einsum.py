"""EinsumDense: a product over any axes, written as an Einstein sum."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.graph import Array, Op, Shape, Spec
from npinfer.ops.activations import activate, activation_variables, check_activation
from npinfer.ops.cast import as_float
from npinfer.ops.dense import Dense
from npinfer.ops.registry import LayerCall, Value, Variable, layer
from npinfer.ops.shapes import broadcast

FORM = re.compile(r"(\.\.\.)?([a-zA-Z]+)(\.\.\.)?,([a-zA-Z]+)->(\.\.\.)?([a-zA-Z]+)(\.\.\.)?")


class EinsumDense(Op):
    """y = einsum(equation, x, kernel) + bias, where the equation counts the batch axis as its first letter or in "...".

    bias: aligned with y's last axes, or None. Where each axis is kept or summed, this is one matrix product.
    """

    equation: str
    kernel: Array
    bias: Array | None = None

    def infer(self, x: Spec) -> Spec:
        taken, weights, given = letters(self.equation, len(x.shape) + 1)
        if len(weights) != self.kernel.ndim:
            raise ShapeError(f"{self.equation}: the kernel has {self.kernel.ndim} axes")
        batch = taken[0]
        if given[0] != batch or batch in weights or batch in taken[1:]:
            raise ShapeError(f"{self.equation}: the batch axis must stay first and apart; npinfer never mixes samples")
        sizes: dict[str, int | None] = dict(zip(weights, self.kernel.shape))
        for letter, n in zip(taken[1:], x.shape):
            known = sizes.setdefault(letter, n)
            if n is not None and known is not None and n != known:
                raise ShapeError(f"{self.equation}: axis {letter!r} has {n} entries in the input, {known} in the kernel")
            sizes[letter] = n if known is None else known
        shape: Shape = tuple(sizes[letter] for letter in given[1:])
        if self.bias is not None and broadcast(shape, self.bias.shape) != shape:
            raise ShapeError(f"the bias has shape {list(self.bias.shape)}, the result {list(shape)} a sample")
        return Spec(shape, x.dtype)

    def __call__(self, x: Array) -> Array:
        taken, weights, given = letters(self.equation, x.ndim)
        summed = [c for c in weights if c in taken]
        if len(set(taken)) == len(taken) and not set(summed) & set(given):
            y = np.tensordot(x, self.kernel, ([taken.index(c) for c in summed], [weights.index(c) for c in summed]))
            made = [c for c in taken + weights if c not in summed]
            y = y.transpose([made.index(c) for c in given])
        else:
            y = np.einsum(f"{taken},{weights}->{given}", x, self.kernel)
        return np.ascontiguousarray(y) if self.bias is None else y + self.bias


def letters(equation: str, rank: int) -> tuple[str, str, str]:
    """The letters of input, kernel and result, "..." spelled out with capitals for an input of `rank` axes."""
    found = FORM.fullmatch(equation.replace(" ", ""))
    if not found:
        raise ShapeError(f"equation {equation!r}; the forms are ab,bc->ac, ...b,bc->...c and ab...,bc->ac...")
    left, taken, right, weights, left_result, given, right_result = found.groups()
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation][: max(rank - len(taken), 0)]
    if (left is None, right is None) != (left_result is None, right_result is None) or (left and right):
        raise ShapeError(f"equation {equation!r}: '...' must stand on the same side of input and result")
    rest = "".join(free) if left or right else ""
    taken, given = (rest + taken, rest + given) if left else (taken + rest, given + rest)
    if len(taken) != rank:
        raise ShapeError(f"equation {equation!r} for an input of {rank} axes, the batch's counted")
    if len(set(given)) != len(given) or not set(given) <= set(taken + weights) or not set(taken) <= set(weights + given):
        raise ShapeError(f"equation {equation!r}: each letter of the result must come from one place")
    return taken, weights, given


def _variables(config: Mapping[str, Any]) -> Iterator[str | Variable]:
    yield "kernel"
    if config.get("bias_axes") is not None:
        yield "bias"
    yield from activation_variables(config)


@layer("EinsumDense", variables=_variables, check=check_activation)
def einsum_dense(call: LayerCall, x: Value) -> Value:
    """Any equation that keeps the batch axis apart; LoRA."""
    x = as_float(call, x)
    kernel, bias = call.weights["kernel"], call.weights.get("bias")
    taken, weights, given = letters(str(call.config["equation"]), len(x.shape) + 1)
    plain = len(weights) == kernel.ndim == 2 and weights[0] == taken[-1] and given == taken[:-1] + weights[1]
    if plain and (bias is None or bias.ndim == 1):
        y = call.emit(Dense(kernel, bias), x)
    else:
        y = call.emit(EinsumDense(str(call.config["equation"]), kernel, bias), x)
    return activate(call, call.config.get("activation"), y)
