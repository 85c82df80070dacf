"""What memory a network takes in an engine: the figures of `Executor.memory`, and whether there is that much."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from npinfer.errors import NotEnoughMemoryError
from npinfer.frozen import Frozen
from npinfer.graph import Graph

OPEN_SIZE = 8  # the guess for a size that a network leaves open


class Memory(Frozen):
    """Bytes. weights: the network's arrays, shared ones once. packed: copies of them in an engine's own order. scratch: what
    one sample needs besides."""

    weights: int
    packed: int
    scratch: int


def weight_bytes(graph: Graph) -> int:
    """The arrays of a graph; those that share their memory count once."""
    arrays = {a.__array_interface__["data"][0]: a.nbytes for a in graph.arrays()}
    return sum(arrays.values())


def value_bytes(graph: Graph) -> int:
    """A buffer for every value of one sample."""
    return sum(s.dtype.itemsize * math.prod(OPEN_SIZE if n is None else n for n in s.shape) for s in graph.specs)


@contextmanager
def room_for(graph: Graph, rows: int, where: str) -> Iterator[None]:
    """A block that allocates for so many rows. Raises NotEnoughMemoryError, at once where no machine can address that much."""
    need = rows * value_bytes(graph)
    amount = f" ({need:.3g} bytes)" if need < 1 << 99 else ""
    message = f"{where}: takes more memory than there is{amount}; use a smaller batch"
    if need > sys.maxsize // 2:
        raise NotEnoughMemoryError(message)
    try:
        yield
    except MemoryError as e:
        raise NotEnoughMemoryError(message) from e
