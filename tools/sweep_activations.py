"""Measure the compiled activations and elementwise operations against their float64 definitions, in units of the last place
(ulp) of the correctly rounded result.

Run: python tools/sweep_activations.py              every kind over some millions of floats of all sizes
     python tools/sweep_activations.py tanh --all   all 2**32 floats (minutes)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import numpy as np

from npinfer.executors.native.executor import NativeExecutor
from npinfer.executors.native.opcodes import KINDS
from npinfer.graph import Array, Graph, Node, Spec
from npinfer.ops.activations import ACTIVATIONS, Activation
from npinfer.ops.arithmetic import UNARY, Unary

F32 = np.dtype(np.float32)
BLOCK = 1 << 20
#: parameters that a kind takes, several sets of them
PARAMETERS: dict[str, tuple[tuple[float, ...], ...]] = {
    "relu_max": ((6.0,),),
    "leaky_relu": ((0.25,), (0.0,)),
    "relu_general": ((0.25, 6.0, 0.5), (0.0, 6.0, 0.5), (0.25, 6.0, 0.0)),
    "thresholded_relu": ((1.0,),),
    "elu": ((1.0,), (0.5,)),
    "celu": ((1.0,), (2.0,)),
    "hard_shrink": ((0.5,),),
    "soft_shrink": ((0.5,),),
    "squareplus": ((4.0,),),
    "threshold": ((0.5, -1.0),),
}


def tanh_shrink(x: Array) -> Array:
    """x - tanh(x), by its series where even float64 would cancel."""
    s = x * x
    return np.where(np.abs(x) < 0.02, x * s * (1 / 3 - s * (2 / 15 - s * 17 / 315)), x - np.tanh(x))


def squareplus(x: Array, b: float) -> Array:
    r = np.sqrt(x * x + b)
    return np.where(x < 0, np.where(x == -np.inf, np.nan, b / (2 * (r - x))), (x + r) / 2)


#: definitions that lose digits in float64
EXACT: dict[str, Callable[..., Array]] = {
    **{kind: rule.function for kind, rule in UNARY.items() if kind in KINDS},
    **ACTIVATIONS,
    "tanh_shrink": tanh_shrink,
    "squareplus": squareplus,
}


def activation_graph(kind: str, parameters: tuple[float, ...], n: int) -> Graph:
    return Graph(
        [Spec((n,), F32, "x")], [Node(Activation(kind, parameters) if kind in ACTIVATIONS else Unary(kind), (0,), kind)], [1]
    )


def ulps(got: Array, exact: Array) -> Array:
    """How far got is from exact correctly rounded, in units of the last place; infinity counts as 2**128, and a NaN on one side
    only is infinitely far."""
    with np.errstate(all="ignore"):
        right = exact.astype(F32)
        same = (got == right) | (np.isnan(got) & np.isnan(right))
        unit = np.spacing(np.minimum(np.abs(right), np.finfo(F32).max)).astype(np.float64)
        a, b = (np.clip(v.astype(np.float64), -(2.0**128), 2.0**128) for v in (got, right))
        error = np.abs(a - b) / unit
    error[np.isnan(error)] = np.inf
    return np.where(same, 0, error)


def blocks(step: int) -> Iterator[Array]:
    """All floats whose bits are a multiple of `step`, in blocks."""
    for start in range(0, 1 << 32, step * BLOCK):
        stop = min(start + step * BLOCK, 1 << 32)
        yield np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(F32)


def worst(kind: str, parameters: tuple[float, ...], inputs: Iterator[Array]) -> tuple[float, float]:
    """The largest error in ulp, and where."""
    most, where = 0.0, 0.0
    executor: NativeExecutor | None = None
    for x in inputs:
        if executor is None or executor.graph.inputs[0].shape != x.shape:
            executor = NativeExecutor(activation_graph(kind, parameters, len(x)), threads=1)
        got = executor.run([x[None]])[0][0]
        with np.errstate(all="ignore"):
            exact = EXACT[kind](x.astype(np.float64), *parameters)
        error = ulps(got, exact)
        k = int(error.argmax())
        if error[k] > most:
            most, where = float(error[k]), float(x[k])
    return most, where


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--all", action="store_true", help="every one of the 2**32 floats")
    parser.add_argument("--step", type=int, default=1021, help="every so manieth float (default: 1021)")
    options = parser.parse_args()
    for kind in options.kinds:
        for parameters in PARAMETERS.get(kind, ((),)):
            most, where = worst(kind, parameters, blocks(1 if options.all else options.step))
            print(f"{kind:18} {parameters!s:18} {most:8g} ulp at {where!r}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
