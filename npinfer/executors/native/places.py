"""Where values lie, and which buffers may share memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from npinfer.executors.native.opcodes import LINE, SCRATCH
from npinfer.graph import Array

F32 = np.dtype(np.float32)


class Place:
    """Where a value's samples lie, C-contiguous each. stride: bytes from one sample to the next."""

    __slots__ = ("dtype", "first", "last", "offset", "region", "stride")

    def __init__(self, region: int, offset: int, stride: int, dtype: np.dtype[Any] = F32) -> None:
        self.region, self.offset, self.stride, self.dtype = region, offset, stride, dtype
        self.first, self.last = -1, -1  # rows that use it, for buffers in scratch

    @property
    def exact(self) -> bool:
        """Whether nothing beyond a sample may be written: it is the caller's memory."""
        return self.region != SCRATCH


def up(n: int, unit: int = LINE) -> int:
    return -(-n // unit) * unit


def numbered(*shape: int) -> Array:
    """The elements' numbers of an array of that shape."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def buffer(n: int) -> Place:
    """A buffer in scratch for n floats a sample."""
    stride = up(4 * n)
    # rows a multiple of 1024 bytes apart would compete for a few lines of the first-level cache
    return Place(SCRATCH, 0, stride if stride % 1024 else stride + LINE)


def assign(used: Iterable[Place]) -> int:
    """Give buffers that live at the same time (first … last use) different offsets; returns the bytes a sample needs in all.

    The largest first, each in the lowest gap among those placed before that it meets.
    """
    buffers = {id(p): p for p in used}
    placed: list[Place] = []
    total = 0
    for place in sorted(buffers.values(), key=lambda p: (-p.stride, p.first)):
        alive = sorted((p for p in placed if p.first <= place.last and place.first <= p.last), key=lambda p: p.offset)
        at = 0
        for other in alive:
            if at + place.stride <= other.offset:
                break
            at = max(at, other.offset + other.stride)
        place.offset = at
        placed.append(place)
        total = max(total, at + place.stride)
    return total
