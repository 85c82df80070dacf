"""Microbatches whose queue is full: back-pressure, timeouts, cancellation, shutdown."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN
from microbatch_gate import DENSE, LONG, Gate, held, samples

import npinfer
from npinfer.errors import BusyError, ClosedError


def test_a_full_queue_makes_callers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    model, gate, mb, x = held(monkeypatch, 3)
    for call in (lambda: mb.submit(x, timeout=0.01), lambda: mb(x, timeout=0.01)):
        with pytest.raises(BusyError, match="3 samples wait"):
            call()
    with pytest.raises(TimeoutError):
        asyncio.run(mb.acall(x, timeout=0.01))
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(mb(x)))
    waiting.start()
    gate.open.set()
    waiting.join(LONG)
    np.testing.assert_array_equal(got[0], model(x))
    mb.close()
    assert mb.stats.samples == 5


def test_no_result_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, gate, mb, x = held(monkeypatch, 3)
    mb._queue.max_queue = 10
    with pytest.raises(BusyError, match=r"no result within 0\.01 s"):
        mb(x, timeout=0.01)
    gate.open.set()
    mb.close()
    assert mb.stats.cancelled == 1  # who gave up isn't computed for


def test_cancelled_futures_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _, gate, mb, x = held(monkeypatch, 3)
    mb._queue.max_queue = 10
    futures = [mb.submit(x) for _ in range(4)]
    assert futures[1].cancel()
    gate.open.set()
    mb.close()
    assert [f.cancelled() for f in futures] == [False, True, False, False]
    assert mb.stats[0] + mb.stats[3] == 8


# shutdown


def test_close_finishes_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    _, gate, mb, x = held(monkeypatch, 3)
    with pytest.raises(BusyError, match="still running"):
        mb.close(timeout=0.01)
    with pytest.raises(ClosedError):
        mb.submit(x)
    with pytest.raises(ClosedError):
        asyncio.run(mb.acall(x))
    gate.open.set()
    mb.close()
    mb.close()
    assert mb.stats.samples == 4
    assert not mb._thread.is_alive()


def test_close_can_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    _, gate, mb, x = held(monkeypatch, 2)
    mb._queue.max_queue = 10
    future = mb.submit(x)
    seen: list[Future[Any]] = []
    future.add_done_callback(seen.append)
    closing = threading.Thread(target=lambda: mb.close(cancel=True))
    closing.start()
    with pytest.raises(CancelledError):
        future.result(LONG)
    gate.open.set()
    closing.join(LONG)
    assert seen == [future]
    assert mb.stats.samples == 1


def test_callers_that_wait_for_room_learn_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    _, gate, mb, x = held(monkeypatch, 1)
    errors: list[BaseException] = []

    def blocked(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=blocked, args=(c,)) for c in (lambda: mb(x), lambda: asyncio.run(mb.acall(x)))]
    for t in threads:
        t.start()
    end = time.monotonic() + LONG
    while not mb._queue.wakers and time.monotonic() < end:
        time.sleep(0.001)
    mb._queue.close(False)
    for t in threads:
        t.join(LONG)
    assert [type(e) for e in errors] == [ClosedError, ClosedError]
    gate.open.set()
    mb.close()


def test_leaving_the_block_on_an_error_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    gate, x = Gate(model, monkeypatch), samples(model, 1)[0]
    gate.open.set()
    futures = []

    def leave() -> None:
        with model.microbatch(max_delay_us=LONG * 1e6) as mb:
            futures.append(mb.submit(x))
            raise KeyError

    with pytest.raises(KeyError):
        leave()
    assert futures[0].cancelled()


def test_cancelled_tasks_give_their_place_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    _, gate, mb, x = held(monkeypatch, 1)

    async def main() -> int:
        tasks = [asyncio.create_task(mb.acall(x)) for _ in range(6)]
        while len(mb._queue.wakers) < 6:
            await asyncio.sleep(0.001)
        for t in tasks[:3]:
            t.cancel()
        gate.open.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return sum(isinstance(r, asyncio.CancelledError) for r in results)

    assert asyncio.run(asyncio.wait_for(main(), LONG)) == 3
    mb.close()
    assert mb.stats.samples == 5
