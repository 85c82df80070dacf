"""Threads for large batches: a few that sleep until there is work. Small batches never wake them.

A batch is cut into more pieces than threads, and whoever is free takes the next one: a core that others keep busy then holds
nobody up.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from npinfer.executors.native.context import Context
from npinfer.graph import Array

SHARE = 4_000_000  # multiply-adds that a thread must get for waking it to pay: about 100 µs
PIECES = 8  # for each thread, at most


def available() -> int:
    """Processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class Threads:
    """limit: the most threads for one call; None: as many as the process has processors."""

    def __init__(self, limit: int | None) -> None:
        self.limit = available() if limit is None else max(1, limit)
        self._pool: tuple[int, Any] | None = None

    def run(self, context: Context, arrays: Sequence[Array], results: Sequence[Array]) -> int:
        """context.run over all rows; the first status that isn't 0."""
        rows = len(arrays[0])
        count = min(self.limit, rows * context.program.work // SHARE)
        if count <= 1:
            return context.run(arrays, results)
        tile = context.program.tile
        tiles = -(-rows // tile)
        share = min(rows * context.program.work // SHARE, PIECES * count)
        cuts = [min(rows, tile * (tiles * k // share)) for k in range(share + 1)]
        pieces = deque((a, b) for a, b in pairwise(cuts) if a < b)

        def work() -> int:
            while pieces:
                try:
                    piece = pieces.popleft()
                except IndexError:  # another thread was quicker
                    break
                status = context.run(arrays, results, *piece)
                if status:
                    pieces.clear()
                    return status
            return 0

        others = [self._workers().submit(work) for _ in range(count - 1)]
        statuses = [work(), *(f.result() for f in others if not f.cancel())]
        return next((s for s in statuses if s), 0)

    def _workers(self) -> Any:
        # a forked child has the object but not the threads
        if self._pool is None or self._pool[0] != os.getpid():
            from concurrent.futures import ThreadPoolExecutor

            self._pool = os.getpid(), ThreadPoolExecutor(self.limit - 1, "npinfer")
        return self._pool[1]
