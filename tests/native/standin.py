"""A tiny compiled network that stands in for the engine's: bound callables and jit are tested without waiting for the whole.

Output k of a row is (sum of all inputs' rows + weight) + 100·k + 0, 1, 2 … . A first element of -999 is an index out of
range.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npinfer.errors import ShapeError
from npinfer.executors.native import abi, build, link, record
from npinfer.executors.native import step as steps
from npinfer.graph import Graph, Node, Op, Shape, Spec, State

F32 = np.dtype(np.float32)
WEIGHT = 1  # context words of the stand-in's own: address of the weight, then all inputs' and outputs' element counts
COUNTS = 16


class Sum(Op):
    """The stand-in's meaning in NumPy."""

    shapes: tuple[Shape, ...]
    weight: float = 0.0

    def infer(self, *specs: Spec) -> tuple[Spec, ...]:
        return tuple(Spec(s, F32) for s in self.shapes)

    def __call__(self, *arrays: Any) -> Any:
        total = sum(a.reshape(len(a), -1).sum(1) for a in arrays) + np.float32(self.weight)
        ramps = (np.arange(int(np.prod(s))) + 100 * k for k, s in enumerate(self.shapes))
        results = ((total[:, None] + r).astype(F32).reshape(-1, *s) for r, s in zip(ramps, self.shapes))
        return tuple(results)


class Index(ShapeError):
    """What the stand-in's `explain` makes of a status."""


class Standin:
    """A network with its context; `weight[0]` may change at any time."""

    def __init__(
        self,
        code: abi.Code,
        inputs: Sequence[Shape] = ((4,),),
        outputs: Sequence[Shape] = ((2,),),
        states: int = 0,
        scratch: tuple[int, int] = (64, 0),
        work: int = 10,
    ) -> None:
        specs = [Spec(s, F32, f"x{k}") for k, s in enumerate(inputs)]
        n, m = len(inputs), len(outputs)
        pairs = [State(n - states + k, n + m - states + k) for k in range(states)]
        self.graph = Graph(specs, [Node(Sum(tuple(outputs)), tuple(range(n)), "sum")], range(n, n + m - states), None, pairs)
        self.weight = np.zeros(1, F32)
        self.context = np.zeros(COUNTS + n + m, np.int64)
        self.context[WEIGHT] = self.weight.ctypes.data
        self.context[record.SCRATCH_FIXED], self.context[record.SCRATCH_ROW] = scratch
        self.context[record.TILE], self.context[record.INPUTS], self.context[record.OUTPUTS] = 24, n, m
        self.context[COUNTS:] = [int(np.prod(s)) for s in (*inputs, *outputs)]
        owner = self.weight, self.context
        self.network = abi.Network(code, self.context.ctypes.data, self.graph, owner, work, lambda s, a: Index(f"status {s}"))

    def bind(self, rows: int | None = None, reuse_output: bool = False) -> Any:
        return steps.bind(self.network, rows, reuse_output, Again(self, rows, reuse_output))


class Again:
    """Binds again; pickles without the addresses, as a model does."""

    def __init__(self, standin: Standin, rows: int | None, reuse_output: bool) -> None:
        self.args = standin, rows, reuse_output

    def __call__(self) -> Any:
        return Standin.bind(*self.args)

    def __reduce__(self) -> Any:
        return _again, self.args[1:]


def _again(rows: int | None, reuse_output: bool) -> Again:
    return Again(Standin(compiled()), rows, reuse_output)


def entry() -> Any:
    """The stand-in's entry as a jitted function."""
    from npinfer.executors.native.vector import f32_at, f32_put, i64_at, jit

    @jit
    def run(ctx, ins, outs, rows, scratch):
        need = i64_at(ctx, record.SCRATCH_FIXED) + i64_at(ctx, record.SCRATCH_ROW) * min(rows, i64_at(ctx, record.TILE))
        if i64_at(scratch, 0) < need:
            return record.NO_SCRATCH
        n, m = i64_at(ctx, record.INPUTS), i64_at(ctx, record.OUTPUTS)
        if f32_at(i64_at(ins, 0), 0) == -999:
            return 1
        for k in range(8, need >> 2):  # all of it is ours
            f32_put(scratch, k, 1)
        for r in range(rows):
            total = f32_at(i64_at(ctx, WEIGHT), 0)
            for k in range(n):
                size = i64_at(ctx, COUNTS + k)
                for i in range(size):
                    total += f32_at(i64_at(ins, k), r * size + i)
            for k in range(m):
                size = i64_at(ctx, COUNTS + n + k)
                for i in range(size):
                    f32_put(i64_at(outs, k), r * size + i, total + 100 * k + i)
        return 0

    return run


_code: list[abi.Code] = []


def object_file(for_image: bool = False) -> bytes:
    """The stand-in's object code, compiled once for all test processes that see the same sources."""
    sources = hashlib.sha256(Path(__file__).read_bytes())
    for module in (abi, build, record):
        sources.update(Path(str(module.__file__)).read_bytes())
    for name in ("call.py", "vector.py"):
        sources.update((Path(str(abi.__file__)).parent / name).read_bytes())
    sources.update(repr((build.cpu(), for_image)).encode())
    folder = Path(tempfile.gettempdir()) / f"npinfer-tests-{os.getuid() if hasattr(os, 'getuid') else 0}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{sources.hexdigest()[:24]}.o"
    if not path.exists():
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(build.compile_object(entry(), for_image))
        temporary.replace(path)
    return path.read_bytes()


def compiled() -> abi.Code:
    if not _code:
        _code.append(link.load(link.link(object_file(True))) if link.cpu() else build.load_object(object_file()))
    return _code[0]
