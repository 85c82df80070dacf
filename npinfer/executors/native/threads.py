"""Threads for large batches: a few that sleep until there is work, each with a run of tiles. Small batches never wake them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from npinfer.executors.native.context import Context
from npinfer.graph import Array

SHARE = 4_000_000  # multiply-adds that a thread must get for waking it to pay: about 100 µs


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
        cuts = [min(rows, tile * (tiles * k // count)) for k in range(count + 1)]
        pool = self._workers()
        later = [pool.submit(context.run, arrays, results, a, b) for a, b in pairwise(cuts[1:]) if a < b]
        statuses = [context.run(arrays, results, 0, cuts[1])] if cuts[1] else [0]
        statuses += [f.result() for f in later]
        return next((s for s in statuses if s), 0)

    def _workers(self) -> Any:
        # a forked child has the object but not the threads
        if self._pool is None or self._pool[0] != os.getpid():
            from concurrent.futures import ThreadPoolExecutor

            self._pool = os.getpid(), ThreadPoolExecutor(self.limit - 1, "npinfer")
        return self._pool[1]
