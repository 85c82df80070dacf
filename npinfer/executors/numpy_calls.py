"""How the NumPy executor runs each op: prepared calls on fixed buffers. To speed an op up, add a function to CALLS, in a file
of its own where the op's module isn't imported here, and name that in ELSEWHERE.

A buffer of one axis (one sample's vector) has one entry more than its value, which is always 1: the bias row's factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from npinfer.graph import Array, Op
from npinfer.ops.activations import Activation
from npinfer.ops.dense import Dense

Call = Callable[[], object]
Maker = Callable[[Any, Sequence[Array], Sequence[Array], bool], list[Call]]


def calls_for(op: Op, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    """The calls that compute an op's outputs from its inputs; `single` means buffers of one sample, without a batch axis."""
    return (_maker(op) or by_meaning)(op, inputs, outputs, single)


def is_native(op: Op) -> bool:
    return _maker(op) is not None


def _maker(op: Op) -> Maker | None:
    module = ELSEWHERE.get(type(op).__module__.rpartition(".")[2])
    if module is not None and type(op) not in CALLS:
        import_module(f"npinfer.executors.{module}")
    return CALLS.get(type(op))


def is_quiet(op: Op, single: bool) -> bool:
    """Whether the op's calls never set a floating-point flag that NumPy would warn of (`dot` as a method looks at none)."""
    if isinstance(op, Dense):
        return single and op.kernel.ndim == 2 and (op.activation is None or is_quiet(op.activation, single))
    return isinstance(op, Activation) and op.kind in ("relu", "tanh") and not op.parameters


def joined(calls: Sequence[Call]) -> Call:
    """One function that makes all the calls, with the arguments of partials written out: looping over them takes a tenth of a
    small network's time."""
    names: dict[str, Any] = {}
    lines = []
    for k, call in enumerate(calls):
        function, given = (call.func, [("", a) for a in call.args]) if isinstance(call, partial) else (call, [])
        given += [(f"{key}=", a) for key, a in call.keywords.items()] if isinstance(call, partial) else []
        names[f"f{k}"] = function
        names.update({f"x{k}_{j}": a for j, (_, a) in enumerate(given)})
        lines.append(f"    f{k}({', '.join(f'{key}x{k}_{j}' for j, (key, _) in enumerate(given))})\n")
    source = f"def run({', '.join(f'{n}={n}' for n in names)}):\n{''.join(lines) or '    pass'}"
    exec(source, names)
    run: Call = names["run"]
    return run


def value(buffer: Array) -> Array:
    """A buffer without the constant at its end."""
    return buffer[:-1] if buffer.ndim == 1 else buffer


def by_meaning(op: Op, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    """Any op: call it and copy its results."""
    xs = [value(b)[None] if single else value(b) for b in inputs]
    ys = [value(b)[None] if single else value(b) for b in outputs]

    def one() -> None:
        ys[0][...] = op(*xs)

    def several() -> None:
        for y, result in zip(ys, op(*xs)):
            y[...] = result

    return [one if len(ys) == 1 else several]


def _dense(op: Dense, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    x, y = inputs[0], outputs[0]
    calls: list[Call] = []
    if x.ndim == 1:
        kernel = op.kernel
        if op.bias is None:
            calls.append(partial(x[:-1].dot, kernel, y[:-1]))
        else:
            calls.append(partial(x.dot, np.ascontiguousarray(np.vstack([kernel, op.bias])), y[:-1]))
    else:
        rows, out = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
        calls.append(partial(np.matmul, rows, op.kernel, out))
        if op.bias is not None:
            calls.append(partial(np.add, out, op.bias, out))
    if op.activation is not None:
        calls += _activation(op.activation, [y], [y], single)
    return calls


def _activation(op: Activation, inputs: Sequence[Array], outputs: Sequence[Array], single: bool) -> list[Call]:
    x, y = value(inputs[0]), value(outputs[0])
    if op.kind == "relu" and not op.parameters:
        zeros = np.zeros(x.shape if x.ndim == 1 else (), x.dtype)  # as many as x has is quicker than one for all
        return [partial(np.maximum, x, zeros, out=y)]
    if op.kind == "tanh":
        return [partial(np.tanh, x, y)]
    return by_meaning(op, inputs, outputs, single)


CALLS: dict[type[Op], Maker] = {Dense: _dense, Activation: _activation}
#: Files that add to CALLS, by the name of the op's own module: imported when a graph has such an op, for each brings the
#: modules of all its ops along.
ELSEWHERE = dict.fromkeys(("conv", "joining", "merge", "pool", "reshape"), "numpy_spatial")
