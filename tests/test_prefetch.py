"""The pieces of feeding: chunks of the wanted size, reading ahead, memory that stays flat."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import feeding_files
import numpy as np
import pytest
from feeding_files import Break

import npinfer
from npinfer.arrays_io import joined
from npinfer.prefetch import prefetch

model = feeding_files.model


def test_memory_is_flat(model: npinfer.Model, tmp_path: Path) -> None:
    """A source twice as long needs no more memory: chunks come and go."""
    import tracemalloc

    width = model.inputs[0].shape[0]
    assert width is not None
    chunk = np.zeros((20_000, width), np.float32)

    def peak(count: int) -> int:
        tracemalloc.start()
        npinfer.predict_file(model, (chunk + k for k in range(count)), tmp_path / "y.npy", verbose=0)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)
    assert peak(40) < peak(10) + chunk.nbytes


def test_joined_pieces() -> None:
    pieces = [("a", np.arange(3)), ("b", np.arange(3, 10)), ("c", np.arange(10, 11))]
    for rows in (1, 2, 3, 4, 20):
        for skip in (0, 1, 3, 5, 10, 11):
            chunks = list(joined(iter(pieces), rows, skip))
            got = [v for c in chunks for v in c.arrays[0].tolist()]
            assert got == list(range(skip, 11)), (rows, skip)
            assert [c.first for c in chunks] == [int(c.arrays[0][0]) for c in chunks]
            assert all(len(c.arrays[0]) <= rows for c in chunks)


# reading ahead


def test_prefetch_is_one_ahead() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for k in range(10):
            made.append(k)
            yield k

    ahead = prefetch(items())
    assert next(ahead) == 0
    end = time.monotonic() + 5
    while len(made) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.05)
    assert made == [0, 1]
    assert list(ahead) == list(range(1, 10))


def test_prefetch_passes_errors_on() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise Break("here")

    ahead = prefetch(items())
    assert next(ahead) == 1
    with pytest.raises(Break, match="here"):
        next(ahead)


def test_prefetch_closes_its_source() -> None:
    closed = []

    def items() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            closed.append(True)

    ahead = prefetch(items())
    next(ahead)
    ahead.close()
    assert closed == [True]
