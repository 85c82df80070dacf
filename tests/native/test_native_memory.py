"""The compiled engine touches nothing beyond what is the caller's."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

import numpy as np
import pytest
from native_chains import F, chain, close, normal

from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Array, Op
from npinfer.ops.activations import Activation
from npinfer.ops.conv import Conv
from npinfer.ops.dense import Dense
from npinfer.ops.pool import Pool


@pytest.mark.parametrize("width", [1, 3, 8, 15, 16, 17, 33, 65, 100])
def test_nothing_beyond_an_output_is_written(width: int) -> None:
    for n in (50, 130):
        op = Dense(normal(n, width) / 8, normal(width), Activation("tanh")) if n == 50 else Dense(normal(n, width) / 8)
        graph = chain((n,), op)
        plan = NativeExecutor(graph)._plan(((n,),))
        assert plan.whole is not None
        for rows in (1, 2, 7, 25):
            memory = np.full(rows * width + 64, 77, F)
            y = memory[32 : 32 + rows * width].reshape(rows, width)
            x = normal(rows, n)
            assert plan.whole.run([x], [y]) == 0
            close(y, graph(x)[0])
            assert (memory[:32] == 77).all()
            assert (memory[-32:] == 77).all()


@pytest.fixture
def last_page() -> Iterator[Array]:
    """Some pages of memory as floats, behind which nothing may be read: the process would die."""
    page = 4 * mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    data = np.frombuffer(memory, F)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    guard = data.ctypes.data + page
    assert protect(guard, page, 0) == 0
    yield data[: page // 4]
    assert protect(guard, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize(
    ("shape", "op"),
    [
        ((9, 4, 8), Conv(normal(3, 4, 1, 24), None, (1, 1), "same", (2, 2), 8)),
        ((7, 6, 5), Pool("max", (2, 3), (1, 1), "same")),
        ((6, 20), Conv(normal(3, 20, 33), None, (1,), "same", (1,))),
    ],
    ids=["depthwise", "pool", "conv"],
)
def test_nothing_beyond_the_scratch_is_touched(shape: tuple[int, ...], op: Op, last_page: Array) -> None:
    """Whole vectors are read behind a pixel's last channels, also behind the last buffer's last sample."""
    around = chain(shape, Activation("relu"), op)
    executor = NativeExecutor(around)
    context = executor._plan((shape,)).whole
    assert context is not None
    need = context.scratch_bytes(1)
    scratch = last_page.view(np.uint8)[-need:]
    scratch[:8].view(np.int64)[0] = need
    context._spare.append((need, scratch, scratch.ctypes.data))
    x = normal(1, *shape)
    close(executor.run([x])[0], around(x)[0])
    assert context._spare[0][1] is scratch


@pytest.mark.parametrize("units", [1, 2, 3, 5, 20, 70])
@pytest.mark.parametrize("width", [1, 3, 4, 15, 16, 17, 33])
def test_nothing_beyond_an_input_is_read(width: int, units: int, last_page: Array) -> None:
    executor = NativeExecutor(chain((width,), Dense(normal(width, units), normal(units))))
    for rows in (1, 2, 4, 5, 8, 19, 20, 21, 28):
        x = last_page[last_page.size - rows * width :].reshape(rows, width)
        x[:] = normal(rows, width)
        got = executor.run([x])[0]
        close(got, executor.graph(x)[0])
        for k in range(rows):
            assert np.array_equal(executor.run([x[k : k + 1].copy()])[0][0], got[k])
