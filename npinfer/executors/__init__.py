"""The executors: each runs a Graph, none knows Keras. To add an engine, write an Executor and name it in ENGINES.

reference: node after node by the ops' own meaning, any dtype; the oracle.
numpy: the same in few NumPy calls over preallocated buffers. native: compiled by Numba (executors/native).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from npinfer.errors import EngineError, shown
from npinfer.executors.memory import Memory
from npinfer.graph import Array, Graph

Step = Callable[..., Any]


class Executor(Protocol):
    """What Model needs of an engine. All methods may be called from several threads at once.

    run: arrays are C-contiguous (n, *spec.shape) in the specs' dtypes, one for each graph input (states last); returns the
    outputs and then the states' next values, as arrays that the caller owns. bind: a callable for a fixed number of rows
    (None: one sample without a batch axis), arguments as `Signature` takes them.
    """

    name: str
    graph: Graph

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]: ...

    def bind(self, rows: int | None, reuse_output: bool, rebind: Callable[[], Any]) -> Step: ...

    def prepare(self, graph: Graph) -> Callable[[], None]:
        """Get ready to replace the weights by those of a graph of the same structure: all that can fail or take memory. The
        function that it returns makes the exchange and can't fail; a running call finishes on the old weights. Nobody may bind
        or prepare between the two.
        """
        ...

    def uncovered(self) -> list[int]:
        """The nodes that run through their NumPy meaning instead of the engine's own code."""
        ...

    def memory(self) -> Memory:
        """Bytes of weights, of what the engine makes of them, and of scratch for one sample."""
        ...


ENGINES = ("auto", "native", "numpy", "reference")


def known_engine(engine: object) -> str:
    """The name, if an engine has it. Raises EngineError."""
    if not isinstance(engine, str) or engine not in ENGINES:
        raise EngineError(f"engine={shown(engine)}: unknown; there are {', '.join(ENGINES)}")
    return engine


def make_executor(engine: str, graph: Graph, threads: int | None = None) -> Executor:
    """The executor that a caller's `engine=` asks for. "auto" is native where it is installed.

    Graphs of which the native engine computes nothing (float64 models) go to the numpy executor, whose `name` says so. Raises
    EngineError where the engine that was named can't run here, saying what to do.
    """
    if known_engine(engine) == "reference":
        from npinfer.executors.reference import ReferenceExecutor

        return ReferenceExecutor(graph)
    if engine in ("native", "auto"):
        from npinfer.executors import native

        if native.refusal(graph) is None:
            return native.NativeExecutor(graph, threads)
        missing = native.unavailable()
        if engine == "native" and missing is not None:
            raise EngineError(f"engine='native': {missing}")
    from npinfer.executors.numpy import NumpyExecutor

    return NumpyExecutor(graph)


def has_floats(graph: Graph, dtype: str) -> bool:
    """Whether any value or weight of the graph has this float dtype."""
    wanted = np.dtype(dtype)
    return any(s.dtype == wanted for s in graph.specs) or any(a.dtype == wanted for a in graph.arrays())
