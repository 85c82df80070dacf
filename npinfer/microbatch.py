"""Microbatches: many threads or coroutines submit one sample each, runs underneath take what is there together.

One thread runs the model. It takes the first sample that waits, gives others `max_delay_us` to arrive, up to `max_size`, and
runs them as one batch. That pays where a call costs more than a sample.

**Same bits.** A result is the one that the sample alone gives. The native engine promises that for every batch, so batches run
as such. BLAS doesn't (the NumPy engine's products differ in the last bits between one row and several), so there each sample
runs by itself, still one after another in the one thread; `exact=False` gives that up for speed.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npinfer import inputs as arrange
from npinfer.errors import ArgumentError, BusyError, ClosedError, EngineError, ShapeError, shown
from npinfer.graph import Array
from npinfer.options import is_count, is_number
from npinfer.options import timeout as checked

if TYPE_CHECKING:
    from types import TracebackType

    from npinfer.model import Model

IDLE = 5.0  # seconds after which a waiting worker looks whether anybody is left


class Entry(NamedTuple):
    """A sample that waits: its arrays (1, …), where its result goes, when it came."""

    arrays: list[Array]
    future: Future[Any]
    since: float


class Stats(NamedTuple):
    """What ran so far: samples, runs of the model, the largest run, samples that were cancelled before they ran."""

    samples: int
    runs: int
    largest: int
    cancelled: int


class MicroBatch:
    """Made by `model.microbatch()`; call it from any thread: `mb(x)` waits for the result of one sample, `mb.submit(x)` returns
    a concurrent.futures.Future, `await mb.acall(x)` is the form for asyncio. A context manager; close() it when done.

    max_size, max_delay_us: the most samples of a run, and how long the first one waits for others. max_queue: how many samples
    may wait; a full queue makes callers wait (back-pressure). exact: see the module's text.
    Raises ShapeError or DtypeError in the caller that submits a wrong sample, BusyError (a TimeoutError) where `timeout`
    seconds pass, ClosedError after close(), ArgumentError for options that make no sense. EngineError for stateful models:
    their samples belong to one sequence.
    """

    def __init__(
        self, model: Model, max_size: int = 10, max_delay_us: float = 200, max_queue: int = 1024, exact: bool = True
    ) -> None:
        for name, value in ("max_size", max_size), ("max_queue", max_queue):
            if not is_count(value):
                raise ArgumentError(f"microbatch({name}={shown(value)}): needs a whole number of at least 1")
        if not is_number(max_delay_us) or not 0 <= max_delay_us < float("inf"):
            raise ArgumentError(f"microbatch(max_delay_us={shown(max_delay_us)}): needs microseconds, at least 0")
        if model._graph.states:
            raise EngineError(
                "microbatch: this model keeps states from call to call; samples of several callers would mix; "
                "call the model itself"
            )
        self._model = model
        self._queue = _Queue(max_size, max_delay_us / 1e6, max_queue)
        alone = exact and not batch_invariant(model)
        self._thread = threading.Thread(target=_work, args=(self._queue, model, alone), name="npinfer-microbatch", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, self._queue.close, False)

    def __repr__(self) -> str:
        return f"<npinfer.MicroBatch of {self._queue.max_size}: {self._model!r}>"

    def submit(self, x: Any, timeout: float | None = None) -> Future[Any]:
        """Queue one sample; waits for room in the queue, up to `timeout` seconds. The Future can be cancelled until it runs."""
        timeout = checked("microbatch.submit", timeout)
        entry = self._entry(x)
        self._queue.put(entry, timeout)
        return entry.future

    def __call__(self, x: Any, timeout: float | None = None) -> Any:
        """The result for one sample, as `model(x)` gives it; waits, up to `timeout` seconds in all."""
        timeout = checked("microbatch call", timeout)
        start = time.monotonic()
        future = self.submit(x, timeout)
        try:
            return future.result(None if timeout is None else max(0.0, timeout - (time.monotonic() - start)))
        except FutureTimeout:
            future.cancel()
            raise BusyError(f"microbatch: no result within {timeout} s") from None

    async def acall(self, x: Any, timeout: float | None = None) -> Any:
        """As a call, for asyncio: the event loop goes on meanwhile. Cancelling the task cancels the sample."""
        import asyncio

        timeout = checked("microbatch.acall", timeout)
        entry = self._entry(x)
        loop = asyncio.get_running_loop()

        def settle(room: asyncio.Future[None]) -> None:
            if not room.done():
                room.set_result(None)

        async def result() -> Any:
            while True:
                room: asyncio.Future[None] = loop.create_future()

                def wake(room: asyncio.Future[None] = room) -> None:
                    loop.call_soon_threadsafe(settle, room)

                if self._queue.try_put(entry, wake):
                    return await asyncio.wrap_future(entry.future)
                try:
                    await room
                except asyncio.CancelledError:
                    self._queue.pass_on(wake)
                    raise

        try:
            return await asyncio.wait_for(result(), timeout)
        except (asyncio.TimeoutError, FutureTimeout):
            raise BusyError(f"microbatch: no result within {timeout} s") from None

    def _entry(self, x: Any) -> Entry:
        model = self._model
        arrays, single = arrange.batch(arrange.flatten(x, model.inputs, model._structure_in), model.inputs)
        if not single and (len(arrays[0]) != 1 or all(s.shape != (1,) for s in model.inputs)):
            raise ShapeError(
                f"microbatch takes one sample without a batch axis, got a batch of {len(arrays[0])}; submit its rows one by one"
            )
        # the caller may write to its array before the sample runs
        return Entry([np.array(a) for a in arrays], Future(), time.monotonic())

    @property
    def stats(self) -> Stats:
        """How the samples were grouped so far."""
        return self._queue.stats()

    def close(self, cancel: bool = False, timeout: float | None = None) -> None:
        """Take no more samples; finish those that wait (cancel=True: cancel them), then end the thread. May be called twice.
        Raises BusyError where that takes longer than `timeout` seconds."""
        timeout = checked("microbatch.close", timeout)
        self._queue.close(cancel)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise BusyError(f"microbatch: still running after {timeout} s")

    def __enter__(self) -> MicroBatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(cancel=kind is not None)


def batch_invariant(model: Model) -> bool:
    """Whether the engine promises that a sample's bits don't depend on its batch."""
    return model._executor.name == "native"


class _Queue:
    """Samples that wait, and the conditions that threads wait for. It doesn't know the MicroBatch, whose end closes it."""

    def __init__(self, max_size: int, max_delay: float, max_queue: int) -> None:
        self.max_size, self.max_delay, self.max_queue = max_size, max_delay, max_queue
        self.entries: deque[Entry] = deque()
        self.wakers: deque[Callable[[], None]] = deque()
        lock = threading.Lock()
        self.lock, self.filled, self.room = lock, threading.Condition(lock), threading.Condition(lock)
        self.closed = False
        self.counts = [0, 0, 0, 0]

    def put(self, entry: Entry, timeout: float | None) -> None:
        with self.lock:
            free = self.room.wait_for(lambda: self.closed or len(self.entries) < self.max_queue, timeout)
            self._check_open()
            if not free:
                raise BusyError(f"microbatch: {self.max_queue} samples wait already, no room within {timeout} s")
            self._append(entry)

    def try_put(self, entry: Entry, waker: Callable[[], None]) -> bool:
        """Queue the sample if there is room; else `waker` is called once when there is."""
        with self.lock:
            self._check_open()
            if len(self.entries) >= self.max_queue:
                self.wakers.append(waker)
                return False
            self._append(entry)
            return True

    def pass_on(self, waker: Callable[[], None]) -> None:
        """The one who left this waker has given up: if it was called already, the room belongs to the next."""
        with self.lock:
            try:
                self.wakers.remove(waker)
            except ValueError:
                if self.wakers:
                    self._wake()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("microbatch: is closed; make another one with model.microbatch()")

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)
        if len(self.entries) in (1, self.max_size):  # the worker waits for the first, then for the last of a run
            self.filled.notify()

    def take(self) -> list[Entry]:
        """The next run's samples, marked as running; none means the queue is closed and empty."""
        with self.lock:
            while True:
                self.filled.wait_for(lambda: self.closed or self.entries, IDLE)
                if not self.entries:
                    if self.closed:
                        return []
                    continue
                left = self.entries[0].since + self.max_delay - time.monotonic()
                if left > 0 and not self.closed:
                    self.filled.wait_for(lambda: self.closed or len(self.entries) >= self.max_size, left)
                taken = [self.entries.popleft() for _ in range(min(self.max_size, len(self.entries)))]
                self._made_room(len(taken))
                running = [e for e in taken if e.future.set_running_or_notify_cancel()]
                self.counts[3] += len(taken) - len(running)
                if running:
                    self.counts[0] += len(running)
                    return running

    def _made_room(self, count: int) -> None:
        self.room.notify(count)
        for _ in range(min(count, len(self.wakers))):
            self._wake()

    def _wake(self) -> None:
        waker = self.wakers.popleft()
        with contextlib.suppress(RuntimeError):  # its event loop is closed: nobody waits there
            waker()

    def ran(self, count: int) -> None:
        with self.lock:
            self.counts[1] += 1
            self.counts[2] = max(self.counts[2], count)

    def stats(self) -> Stats:
        with self.lock:
            return Stats(*self.counts)

    def close(self, cancel: bool) -> None:
        with self.lock:
            self.closed = True
            dropped = list(self.entries) if cancel else []
            if cancel:
                self.entries.clear()
                self.counts[3] += len(dropped)
            self.filled.notify_all()
            self.room.notify_all()
            while self.wakers:
                self._wake()
        for entry in dropped:  # outside the lock: callbacks may come back here
            entry.future.cancel()
            entry.future.set_running_or_notify_cancel()


def _work(queue: _Queue, model: Model, alone: bool) -> None:
    while True:
        entries = queue.take()
        if not entries:
            return
        for group in [[e] for e in entries] if alone else _alike(entries):
            queue.ran(len(group))
            _run(model, group)
        del entries, group  # nothing of a caller's stays alive while the thread waits


def _alike(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Samples that can run together: of the same shapes."""
    groups: dict[Any, list[Entry]] = {}
    for e in entries:
        groups.setdefault(tuple(a.shape for a in e.arrays), []).append(e)
    return list(groups.values())


def _run(model: Model, group: Sequence[Entry]) -> None:
    try:
        columns = zip(*(e.arrays for e in group))
        arrays = group[0].arrays if len(group) == 1 else [np.concatenate(c) for c in columns]
        results = model._run(arrays)
    except BaseException as e:  # whatever it is, the callers get it and the thread lives on
        if len(group) > 1:  # one sample's error is its caller's alone
            for entry in group:
                _run(model, [entry])
        else:
            group[0].future.set_exception(e)
        return
    for k, entry in enumerate(group):
        # copies: a row of a batch would keep the whole batch alive
        entry.future.set_result(arrange.restore([y[k].copy() if y.ndim > 1 else y[k] for y in results], model._structure_out))
