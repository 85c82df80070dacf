"""Taking times: runners (one network in one runtime, ready to be called) in turns, so that a slow moment hits all alike.

Times are nanoseconds. One-sample times are taken around each call, less what reading the clock costs; a second number, `loop`,
comes from many calls between two readings, the best round of them, and is the one for calls as short as the clock's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import cycle, islice, pairwise
from time import perf_counter_ns as clock
from typing import Any, NamedTuple, Protocol

import numpy as np

from npinfer.graph import Array

PERCENTILES = (50, 90, 99, 99.9)
BATCH_NS = 2_000_000  # a batch size's calls last about this long in each round
SLOWEST_NS = 2_000_000_000  # larger batches than one that takes this long are left out


class Runner(Protocol):
    """One network in one runtime. `latency` gives the times of single calls with one sample, `loop` the mean time of calls in
    a tight loop, `batch` the times of calls with so many samples; `outputs` what it computes for a batch."""

    name: str
    version: str
    note: str
    load: float
    first: float

    def latency(self, count: int) -> Array: ...

    def loop(self, count: int) -> float: ...

    def batch(self, rows: int, count: int) -> Array: ...

    def outputs(self, arrays: Sequence[Array]) -> list[Array]: ...

    def close(self) -> None: ...


class Local:
    """A runner in this process.

    one: takes one sample's arrays positionally. samples: the arguments of one, several of them, used in turn. many: makes a
    call without arguments from arrays with a batch axis; it returns the outputs. load, first: seconds.
    """

    def __init__(
        self,
        name: str,
        version: str,
        one: Callable[..., Any],
        samples: Sequence[tuple[Any, ...]],
        many: Callable[[Sequence[Array]], Callable[[], Sequence[Any]]] | None,
        pool: Callable[[int], Sequence[Array]],
        load: float,
        note: str = "",
    ) -> None:
        self.name, self.version, self.note, self.load = name, version, note, load
        self._one, self._samples, self._many, self._pool = one, samples, many, pool
        self._calls: dict[int, Callable[[], Sequence[Any]]] = {}
        start = clock()
        one(*samples[0])
        self.first = (clock() - start) / 1e9

    def latency(self, count: int) -> Array:
        call, times = self._one, [0] * count
        if len(self._samples[0]) == 1:
            for k, (x,) in enumerate(islice(cycle(self._samples), count)):
                start = clock()
                call(x)
                times[k] = clock() - start
        else:
            for k, args in enumerate(islice(cycle(self._samples), count)):
                start = clock()
                call(*args)
                times[k] = clock() - start
        return np.array(times, np.int64)

    def loop(self, count: int) -> float:
        return tight(self._one, self._samples, count) / count

    def batch(self, rows: int, count: int) -> Array:
        call = self._call(rows)
        times = [0] * count
        for k in range(count):
            start = clock()
            call()
            times[k] = clock() - start
        return np.array(times, np.int64)

    def _call(self, rows: int) -> Callable[[], Sequence[Any]]:
        if self._many is None:
            raise ValueError(f"{self.name} takes no batches")
        if rows not in self._calls:
            self._calls[rows] = self._many(self._pool(rows))
            self._calls[rows]()
        return self._calls[rows]

    def outputs(self, arrays: Sequence[Array]) -> list[Array]:
        assert self._many is not None
        return [np.array(y) for y in self._many(arrays)()]

    def close(self) -> None:
        self._calls.clear()


def tight(call: Callable[..., Any], samples: Sequence[tuple[Any, ...]], count: int) -> int:
    """Nanoseconds that `count` calls take, the loop around them left out."""
    if len(samples[0]) == 1:
        lone = [s[0] for s in samples]
        start = clock()
        for x in islice(cycle(lone), count):
            call(x)
        took = clock() - start
        start = clock()
        for x in islice(cycle(lone), count):  # noqa: B007 (the empty loop)
            pass
    else:
        start = clock()
        for args in islice(cycle(samples), count):
            call(*args)
        took = clock() - start
        start = clock()
        for args in islice(cycle(samples), count):  # noqa: B007
            pass
    return max(took - (clock() - start), 0)


def clock_cost() -> int:
    """What a reading of the clock adds to a time."""
    times = []
    for _ in range(2000):
        start = clock()
        times.append(clock() - start)
    return int(np.median(times))


class OneSample(NamedTuple):
    """One runner's single calls: all their times (clock taken off) and the best tight loop."""

    times: Array
    loop: float


def one_sample(runners: Sequence[Runner], calls: int, rounds: int, seconds: float, tick: Callable[[], None]) -> list[OneSample]:
    """Single calls of all runners in `rounds` turns, `calls` in all; fewer (at least 100) where they would last beyond
    `seconds`."""
    counts = []
    for r in runners:
        r.latency(20)
        each = float(np.median(r.latency(20)))
        counts.append(max(10, min(-(-calls // rounds), int(seconds * 1e9 / max(each, 1) / rounds / 2))))
    cost = clock_cost()
    times: list[list[Array]] = [[] for _ in runners]
    loops = [float("inf")] * len(runners)
    for k in range(rounds):
        for j in rotated(len(runners), k):
            runners[j].latency(min(20, counts[j]))  # the others have emptied the caches
            times[j].append(runners[j].latency(counts[j]))
            loops[j] = min(loops[j], runners[j].loop(counts[j]))
            tick()
    return [OneSample(np.maximum(np.concatenate(t) - cost, 0), loop) for t, loop in zip(times, loops)]


def rotated(count: int, k: int) -> list[int]:
    """0 … count-1, beginning elsewhere each round, so that nobody always follows the same one."""
    return [(j + k) % count for j in range(count)]


def batches(
    runners: Sequence[Runner], sizes: Sequence[int], rounds: int, tick: Callable[[], None]
) -> list[dict[int, tuple[float, float]]]:
    """For each runner: (least, median) time of a call by batch size. Sizes beyond one that takes SLOWEST_NS are left out."""
    found: list[dict[int, tuple[float, float]]] = [{} for _ in runners]
    done = [False] * len(runners)
    for size in sizes:
        counts = []
        for j, r in enumerate(runners):
            each = float(np.min(r.batch(size, 2))) if not done[j] else 0.0
            counts.append(max(1, int(BATCH_NS / max(each, 1.0))))
            done[j] = done[j] or each > SLOWEST_NS
        times: list[list[Array]] = [[] for _ in runners]
        for k in range(rounds):
            for j in rotated(len(runners), k):
                if not done[j]:
                    times[j].append(runners[j].batch(size, counts[j]))
        for j, t in enumerate(times):
            if t:
                whole = np.concatenate(t)
                found[j][size] = float(whole.min()), float(np.median(whole))
        tick()
    return found


class Fit(NamedTuple):
    """time of a call = a + b · n: a ns a call, b ns a sample, and the largest deviation of a point, as a factor."""

    a: float
    b: float
    worst: float


def fit(points: dict[int, float]) -> Fit | None:
    """Least squares of the relative deviations, with a and b not below zero; None for fewer than three sizes."""
    if len(points) < 3:
        return None
    n, t = np.array(list(points), float), np.array(list(points.values()), float)
    weights = 1 / t

    def solve(columns: Array) -> Array:
        return np.asarray(np.linalg.lstsq(columns * weights[:, None], t * weights, rcond=None)[0])

    a, b = solve(np.stack([np.ones_like(n), n], 1))
    if a < 0:
        a, b = 0.0, solve(n[:, None])[0]
    elif b < 0:
        a, b = solve(np.ones((len(n), 1)))[0], 0.0
    ratio = t / np.maximum(a + b * n, 1e-9)
    return Fit(float(a), float(b), float(max(ratio.max(), (1 / ratio).max())))


class Jump(NamedTuple):
    """Where the time per sample rises from one batch size to the next, which a + b · n never does."""

    before: int
    after: int
    factor: float


def jumps(points: dict[int, float], least: float = 1.2) -> list[Jump]:
    """Rises of the time per sample by a factor of `least` or more."""
    sizes = sorted(points)
    found = []
    for before, after in pairwise(sizes):
        factor = (points[after] / after) / (points[before] / before)
        if factor >= least:
            found.append(Jump(before, after, factor))
    return found


def bandwidth() -> list[tuple[int, float]]:
    """(bytes, bytes per second) that one thread reads, for working sets from cache to memory: the dot product of two halves."""
    found = []
    small = np.ones(16, np.float32)
    for power in range(13, 27):
        size = 1 << power
        a, b = np.ones(size // 8, np.float32), np.ones(size // 8, np.float32)
        count = max(3, min(3000, (1 << 23) // size))
        best = empty = float("inf")
        for _ in range(5):
            start = clock()
            for _ in range(count):
                a.dot(b)
            middle = clock()
            for _ in range(count):
                small.dot(small)
            end = clock()
            best, empty = min(best, (middle - start) / count), min(empty, (end - middle) / count)
        found.append((size, size / max(best - empty, 1.0) * 1e9))
    return found


def peak_flops() -> float:
    """Floating-point operations a second that one product of two 512×512 matrices reaches."""
    a = np.ones((512, 512), np.float32)
    best = float("inf")
    out = np.empty_like(a)
    for _ in range(20):
        start = clock()
        np.matmul(a, a, out)
        best = min(best, clock() - start)
    return 2 * 512**3 / best * 1e9


def resident() -> int | None:
    """Bytes of this process that are in memory now; None where the system doesn't tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _peak()


def _peak() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
