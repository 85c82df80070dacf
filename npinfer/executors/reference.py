"""The reference executor: one op after another by its own NumPy meaning. The oracle that the others are tested against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npinfer.executors.memory import Memory, value_bytes, weight_bytes
from npinfer.executors.steps import BoundStep
from npinfer.graph import Array, Graph


class ReferenceExecutor:
    """Any dtype, no buffers, nothing shared with the other engines' arithmetic."""

    name = "reference"

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return tuple(np.array(a, order="C") for a in self.graph.run(arrays))

    def bind(self, rows: int | None, reuse_output: bool, rebind: Callable[[], Any]) -> BoundStep:
        return BoundStep(self.graph, rows, reuse_output, self.run, rebind)

    def prepare(self, graph: Graph) -> Callable[[], None]:
        def commit() -> None:
            self.graph = graph

        return commit

    def uncovered(self) -> list[int]:
        return []

    def memory(self) -> Memory:
        return Memory(weight_bytes(self.graph), 0, value_bytes(self.graph))
