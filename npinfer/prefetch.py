"""One item ahead: an iterator whose next item is made in a thread while the caller works on the present one."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from queue import Empty, Full, Queue
from typing import Any, TypeVar

T = TypeVar("T")
WAIT = 0.1  # seconds between looks at whether the other side is gone


def prefetch(items: Iterator[T]) -> Generator[T, None, None]:
    """The items, each one asked for before the caller wants it, never more than one ahead. Exceptions come out where the item
    would have come. Closing the generator stops the thread and closes the items."""
    queue: Queue[tuple[bool, Any]] = Queue(1)
    stop = threading.Event()

    def put(entry: tuple[bool, Any]) -> bool:
        while not stop.is_set():
            try:
                queue.put(entry, timeout=WAIT)
            except Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put((True, item)):
                    return
            put((False, None))
        except BaseException as e:  # also KeyboardInterrupt raised by the source: the consumer must not wait for ever
            put((False, e))
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    thread = threading.Thread(target=work, name="npinfer-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            try:
                more, item = queue.get(timeout=WAIT * 10)
            except Empty:
                if thread.is_alive() or not queue.empty():
                    continue
                raise RuntimeError("the thread that reads ahead is gone") from None
            if not more:
                if item is not None:
                    raise item
                return
            yield item
    finally:
        stop.set()
        thread.join(WAIT * 20)  # a source that blocks (a pipe) can't be interrupted; the thread is a daemon
