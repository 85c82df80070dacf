"""Bound callables as objects: attributes, copies, references, memory, threads, and the guard before the compiled path."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import time
import tracemalloc
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from standin import Standin, compiled

from npinfer.errors import DtypeError, ShapeError
from npinfer.executors.native import abi
from npinfer.executors.native.step import NativeStep

X = np.array([1, 2, 3, 4.5], np.float32)
Y = np.array([10.5, 11.5], np.float32)


@pytest.fixture(scope="module")
def code() -> abi.Code:
    return compiled()


def test_attributes_and_type(code: abi.Code) -> None:
    step = Standin(code).bind()
    kind = type(step)
    assert callable(step)
    assert repr(step).startswith("<npinfer step: x0: float32[4] -> sum: float32[2]; ")
    assert step.signature.inputs[0].name == "x0"
    assert weakref.ref(step)() is step
    with pytest.raises(AttributeError):
        step.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        step._record  # noqa: B018
    with pytest.raises(AttributeError):
        step.anything = 1
    for make in (lambda: kind(), lambda: object.__new__(kind), lambda: kind.__new__(kind), lambda: type("Sub", (kind,), {})):
        with pytest.raises(TypeError):
            make()
    with pytest.raises(TypeError):
        kind.__call__(3, X)
    with pytest.raises(TypeError):
        step.__class__ = Standin
    assert kind.__call__(step, X).tolist() == Y.tolist()


def test_copies_and_pickles_bind_again(code: abi.Code) -> None:
    net = Standin(code, [(1,), (3,)], [(2,), (3,)], states=1)
    step, x = net.bind(), np.ones(1, np.float32)
    step(x)
    for other in (copy.copy(step), copy.copy(step.fork())):
        assert type(other) is type(step)
        np.testing.assert_array_equal(other.state[0], step.state[0])
        assert other is not step
    for other in (pickle.loads(pickle.dumps(Standin(code).bind())), copy.deepcopy(Standin(code).bind())):
        np.testing.assert_array_equal(other(X), Y)


def test_references_are_given_back(code: abi.Code) -> None:
    f32 = np.dtype(np.float32)
    for outputs in ([(2,)], [(2,), (3,)]):
        for reuse in (False, True):
            step = Standin(code, [(4,)], outputs).bind(reuse_output=reuse)
            outs = [np.zeros(s, np.float32) for s in outputs]
            bad = np.full(4, -999, np.float32)
            step(X)
            kept = step(X)

            def counts(step: Any = step, outs: Any = outs, kept: Any = kept) -> list[int]:
                held = [X, f32, step, type(step), *outs, kept, np.ndarray, None, *(kept if type(kept) is tuple else ())]
                gc.collect()
                return [sys.getrefcount(o) for o in held]

            before = counts()
            for _ in range(1000):
                step(X)
                step(X, *outs)
                for args in ((bad,), (None,), (X, X), (X.tolist(),)):
                    with suppress(ShapeError, DtypeError, TypeError):
                        step(*args)
            after = counts()
            # one reference lost a call would be 1000; before Python 3.12 others take and drop None as well
            assert max(abs(a - b) for a, b in zip(before, after)) < 500


def test_objects_are_freed(code: abi.Code) -> None:
    net = Standin(code, scratch=(100_000, 0))
    step = net.bind(reuse_output=True)
    y, alive, owner = step(X), weakref.ref(step), weakref.ref(net.weight)
    kind = type(step)
    del step
    gc.collect()
    assert alive() is None
    count = sys.getrefcount(kind)
    for _ in range(100):
        net.bind()
    gc.collect()
    assert abs(sys.getrefcount(kind) - count) < 10
    y[:] = 3  # its memory is its own
    del net
    gc.collect()
    assert owner() is None

    class Holder:
        pass

    holder: Any = Holder()
    holder.step = Standin(code).bind()
    holder.step.signature.me = holder  # a cycle through the compiled object
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_a_million_calls_leave_memory_flat(code: abi.Code) -> None:
    resource = pytest.importorskip("resource")
    step, reused, out = Standin(code).bind(), Standin(code).bind(reuse_output=True), Y.copy()
    several = Standin(code, [(4,)], [(2,), (3,)]).bind()

    def rounds(n: int) -> None:
        for _ in range(n):
            step(X)
            step(X, out)
            reused(X)
            several(X)

    rounds(1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds(250_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2000  # KiB; one leaked array a call would be 25,000
    tracemalloc.start()
    try:
        step(X, out)
        start, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(1000):
            step(X, out)
            reused(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - start < 600  # the loop's own numbers


@pytest.mark.parametrize("work", [10, 1 << 40])  # with the GIL held, and released
@pytest.mark.parametrize("scratch", [64, 100_000])
def test_many_threads_on_one_callable(code: abi.Code, work: int, scratch: int) -> None:
    net = Standin(code, [(40,)], [(30,)], scratch=(scratch, 0), work=work)
    step, wrong, stop = net.bind(), [], time.monotonic() + 1

    def loop(seed: int) -> None:
        x = np.full(40, seed, np.float32)
        want, out = np.arange(30, dtype=np.float32) + 40 * seed, np.zeros(30, np.float32)
        while time.monotonic() < stop:
            if not (np.array_equal(step(x), want) and np.array_equal(step(x, out), want)):
                wrong.append(seed)

    threads = [threading.Thread(target=loop, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_other_interpreters_take_the_checked_path(code: abi.Code, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abi, "unfit", lambda: "this is a test")
    for reuse in (False, True):
        step = Standin(code).bind(reuse_output=reuse)
        assert type(step) is NativeStep
        for x in (X, X.tolist(), X.astype(float), X[::-1].copy()[::-1]):
            np.testing.assert_array_equal(step(x), Y)
        assert (step(X) is step(X)) == reuse
        with pytest.raises(ShapeError):
            step(X[:2])


GUARDS: list[tuple[str, Any, str]] = [
    ("sys.implementation.name", "pypy", "pypy"),
    ("abi.HEAD", 32, "object headers"),
    ("sys.version", "3.13.0 experimental free-threading build", "free-threaded"),
    ("abi.DESCR", 6, "laid out"),
    ("abi.FLAGS_32", 17, "laid out"),
    ("abi._table_entry", lambda index: 1, "another order"),
    ("ctypes.sizeof", lambda kind: 4, "64-bit"),
]


@pytest.mark.parametrize(("name", "value", "reason"), GUARDS)
def test_the_guard_knows(name: str, value: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    assert abi.unfit.__wrapped__() is None
    target: Any = {"sys": sys, "abi": abi, "ctypes": ctypes}[name.split(".")[0]]
    *path, last = name.split(".")[1:]
    for part in path:
        target = getattr(target, part)
    with monkeypatch.context() as m:
        m.setattr(target, last, value)
        found = abi.unfit.__wrapped__()
    assert found is not None
    assert reason in found
