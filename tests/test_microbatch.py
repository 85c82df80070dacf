"""Microbatches under load: the bits of a sample alone, errors for their caller only, coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN
from microbatch_gate import DENSE, LONG, Gate, samples

import npinfer
from npinfer.errors import BusyError, DtypeError, EngineError, ShapeError


@pytest.fixture
def model(engine: str) -> npinfer.Model:
    return npinfer.load(GOLDEN / DENSE, engine=engine)


def together(count: int, work: Callable[[int], None]) -> None:
    """Run work(0) … work(count - 1) in as many threads; their first error is the test's."""
    errors: list[BaseException] = []

    def run(k: int) -> None:
        try:
            work(k)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(LONG)
        assert not t.is_alive()
    if errors:
        raise errors[0]


def test_same_bits_from_many_threads(model: npinfer.Model) -> None:
    x = samples(model, 400)
    want = [model(s) for s in x]
    got: list[Any] = [None] * len(x)
    with model.microbatch(max_size=7, max_delay_us=300) as mb:

        def work(k: int) -> None:
            for j in range(k, len(x), 16):
                got[j] = mb(x[j], timeout=LONG)

        together(16, work)
        stats = mb.stats
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)
        assert type(a) is type(b)
    assert stats.samples == len(x)
    assert stats.largest <= 7


def test_samples_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """exact=False on an engine that promises nothing, so that batches form whatever the engine."""
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    x, gate = samples(model, 21), Gate(model, monkeypatch)
    with model.microbatch(max_size=10, max_delay_us=0, exact=False) as mb:
        futures = [mb.submit(x[0])]
        assert gate.entered.wait(LONG)
        futures += [mb.submit(s) for s in x[1:]]
        gate.open.set()
        got = np.stack([f.result(LONG) for f in futures])
    assert gate.sizes == [1, 10, 10]
    np.testing.assert_allclose(got, model(x), rtol=1e-5)
    assert mb.stats == (21, 3, 10, 0)


def test_exact_runs_alone_where_bits_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    x, gate = samples(model, 12), Gate(model, monkeypatch)
    gate.open.set()
    with model.microbatch(max_delay_us=1e5) as mb:
        wait([mb.submit(s) for s in x], LONG)
    assert set(gate.sizes) == {1}


def test_waits_for_others_then_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    x, gate = samples(model, 3), Gate(model, monkeypatch)
    gate.open.set()
    with model.microbatch(max_size=3, max_delay_us=LONG * 1e6, exact=False) as mb:
        futures = [mb.submit(s) for s in x[:2]]
        time.sleep(0.05)
        assert not any(f.done() for f in futures)  # the delay isn't over, the batch isn't full
        futures.append(mb.submit(x[2]))
        wait(futures, LONG)
    assert gate.sizes == [3]


def test_several_inputs_and_structures() -> None:
    pair = npinfer.load(GOLDEN / "k3np/t2-multi-io.h5", engine="numpy")
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s.shape) for s in pair.inputs)
    with pair.microbatch() as mb:
        for x in ([a, b], {"in_b": b, "in_a": a}):
            for got, want in zip(mb(x), pair([a, b])):
                np.testing.assert_array_equal(got, want)
    keyed = npinfer.load(GOLDEN / "k3new/t2-dict-outputs.h5", engine="numpy")
    with keyed.microbatch() as mb:
        assert list(mb(np.zeros(6))) == ["zeta", "alpha"]


def test_samples_of_different_sizes() -> None:
    model = npinfer.load(GOLDEN / "k3new/t3-conv1d-varlen.h5", engine="numpy")
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n, 3)).astype(np.float32) for n in (5, 9, 5, 7, 9, 5)]
    for exact in (True, False):
        with model.microbatch(max_delay_us=2e4, exact=exact) as mb:
            futures = [mb.submit(s) for s in x]
            for f, s in zip(futures, x):
                np.testing.assert_allclose(f.result(LONG), model(s), rtol=1e-5)


def test_the_caller_may_reuse_its_array(monkeypatch: pytest.MonkeyPatch) -> None:
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    gate, x = Gate(model, monkeypatch), samples(model, 1)[0]
    want = x.copy()
    with model.microbatch() as mb:
        future = mb.submit(x)
        x[:] = np.nan
        gate.open.set()
        got = future.result(LONG)
    np.testing.assert_array_equal(got, model(want))


# errors


def test_wrong_samples_fail_in_their_caller(model: npinfer.Model) -> None:
    x = samples(model, 1)[0]
    with model.microbatch() as mb:
        for bad, kind in ((x[:-1], ShapeError), (x[None], ShapeError), (x + 0j, DtypeError), ([x, x], ShapeError)):
            with pytest.raises(kind):
                mb(bad)
            with pytest.raises(kind):
                asyncio.run(mb.acall(bad))
        np.testing.assert_array_equal(mb(x), model(x))


def test_an_error_hits_only_its_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    x = samples(model, 10)
    x[4, 0] = np.inf
    run = model._run

    def fails(arrays: list[Any]) -> list[Any]:
        if np.isinf(arrays[0]).any():
            raise RuntimeError("boom")
        return run(arrays)

    monkeypatch.setattr(model, "_run", fails)
    for exact in (True, False):
        with model.microbatch(max_delay_us=1e5, exact=exact) as mb:
            futures = [mb.submit(s) for s in x]
            for k, f in enumerate(futures):
                if k == 4:
                    with pytest.raises(RuntimeError, match="boom"):
                        f.result(LONG)
                else:
                    assert f.result(LONG).shape == model.outputs[0].shape


def test_stateful_models_are_refused() -> None:
    model = npinfer.load(GOLDEN / "k3new/t3-lstm-stateful.h5", engine="numpy")
    with pytest.raises(EngineError, match="keeps states"):
        model.microbatch()


@pytest.mark.parametrize("options", [{"max_size": 0}, {"max_queue": 0}, {"max_delay_us": -1}, {"max_delay_us": float("nan")}])
def test_bad_options(options: dict[str, Any]) -> None:
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    with pytest.raises(ValueError, match=next(iter(options))):
        model.microbatch(**options)


def test_an_abandoned_one_ends_its_thread() -> None:
    model = npinfer.load(GOLDEN / DENSE, engine="numpy")
    mb = model.microbatch()
    mb(samples(model, 1)[0])
    thread, ghost = mb._thread, weakref.ref(mb)
    del mb
    gc.collect()
    thread.join(LONG)
    assert ghost() is None
    assert not thread.is_alive()


# asyncio


def test_many_coroutines(model: npinfer.Model) -> None:
    x = samples(model, 200)
    want = [model(s) for s in x]

    async def main() -> tuple[list[Any], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(tick())
        with model.microbatch(max_queue=8) as mb:  # fewer places than callers: they wait without blocking the loop
            got = await asyncio.gather(*(mb.acall(s) for s in x))
        beside.cancel()
        return got, ticks

    got, ticks = asyncio.run(asyncio.wait_for(main(), LONG))
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)
    assert ticks > 1


def test_under_load_with_everything_at_once(model: npinfer.Model) -> None:
    """Threads and coroutines, wrong samples, timeouts and cancellations: each right sample gets its own result."""
    x = samples(model, 64)
    want = [model(s) for s in x]
    done = []
    with model.microbatch(max_size=5, max_delay_us=100, max_queue=6) as mb:

        def thread(k: int) -> None:
            rng = np.random.default_rng(k)
            for _ in range(60):
                j = int(rng.integers(len(x)))
                what = rng.integers(10)
                if what == 0:
                    with pytest.raises(ShapeError):
                        mb(x[j, :-1])
                elif what == 1:
                    mb.submit(x[j]).cancel()
                elif what == 2:
                    with contextlib.suppress(BusyError):
                        np.testing.assert_array_equal(mb(x[j], timeout=1e-5), want[j])
                else:
                    np.testing.assert_array_equal(mb(x[j]), want[j])
                    done.append(j)

        def loop(k: int) -> None:
            async def one(j: int) -> None:
                np.testing.assert_array_equal(await mb.acall(x[j]), want[j])
                done.append(j)

            async def main() -> None:
                await asyncio.gather(*(one(j) for j in range(k, 64, 2)))

            asyncio.run(main())

        together(10, lambda k: thread(k) if k < 8 else loop(k - 8))
    assert len(done) > 300
    assert mb.stats.samples >= len(done)
