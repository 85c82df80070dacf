"""Bound callables: right answers or clear errors for any argument, nothing leaked, many threads, copies that bind anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin import Index, Standin, compiled

from npinfer.errors import DtypeError, ShapeError
from npinfer.executors.native import abi
from npinfer.executors.native.step import NativeStep, fixed_zeros

X = np.array([1, 2, 3, 4.5], np.float32)
Y = np.array([10.5, 11.5], np.float32)


@pytest.fixture(scope="module")
def code() -> abi.Code:
    return compiled()


class Odd(np.ndarray):
    pass


def misaligned(x: Any) -> Any:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    raw[:] = np.frombuffer(x.tobytes(), np.uint8)
    return raw.view(x.dtype)


def read_only(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


def resized(x: Any) -> Any:
    y = np.zeros(100, np.float32)
    y.resize(len(x), refcheck=False)
    y[:] = x
    return y


SAME = {
    "array": X,
    "list": X.tolist(),
    "tuple": tuple(X.tolist()),
    "float64": X.astype(np.float64),
    "longdouble": X.astype(np.longdouble),
    "float16": X.astype(np.float16),
    "strided": np.repeat(X, 2)[::2],
    "reversed": X[::-1].copy()[::-1],
    "misaligned": misaligned(X),
    "byte-swapped": X.astype(">f4"),
    "dtype with metadata": X.astype(np.dtype("f4", metadata={"a": 1})),
    "subclass": X.view(Odd),
    "read-only": read_only(X),
    "resized": resized(X),
    "memoryview": memoryview(X),
    "frombuffer": np.frombuffer(X.tobytes(), np.float32),
}
REFUSED = {
    "None": (None,),
    "text": ("abcd",),
    "object": (object(),),
    "scalar": (1.0,),
    "0-d": (np.float32(3),),
    "0-d array": (np.zeros((), np.float32),),
    "short": (X[:3],),
    "long": (np.zeros(5, np.float32),),
    "empty": (np.zeros(0, np.float32),),
    "batch": (X[None],),
    "transposed": (np.zeros((4, 1), np.float32),),
    "complex": (X.astype(complex),),
    "ragged": ([[1, 2], [3]],),
    "dict": ({},),
    "class": (np.ndarray,),
    "dates": (np.zeros(4, "M8[s]"),),
    "records": (np.zeros(4, "f4,f4"),),
    "objects": (np.array([object()] * 4),),
    "no arguments": (),
    "three arguments": (X, Y.copy(), Y.copy()),
    "many arguments": (X,) * 100,
    "out: None": (X, None),
    "out: list": (X, [0, 0]),
    "out: short": (X, np.zeros(1, np.float32)),
    "out: shape": (X, np.zeros((1, 2), np.float32)),
    "out: read-only": (X, read_only(Y)),
    "out: integers": (X, np.zeros(2, np.int32)),
    "out: type": (X, np.ndarray),
}


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("kind", SAME)
def test_inputs_of_any_kind_give_the_same(code: abi.Code, kind: str, reuse: bool) -> None:
    step = Standin(code).bind(reuse_output=reuse)
    y = step(SAME[kind])
    assert type(y) is np.ndarray
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, Y)
    assert (step(SAME[kind]) is y) == reuse
    out = np.zeros(2, np.float32)
    assert step(SAME[kind], out) is out
    np.testing.assert_array_equal(out, Y)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_does_not_fit_raises(code: abi.Code, kind: str) -> None:
    step = Standin(code).bind()
    with pytest.raises((ShapeError, DtypeError, TypeError)) as e:
        step(*REFUSED[kind])
    assert len(str(e.value)) > 20
    np.testing.assert_array_equal(step(X), Y)


def test_keywords_raise(code: abi.Code) -> None:
    step = Standin(code).bind()
    for call in (lambda: step(x=X), lambda: step(X, out=Y), lambda: step(**{"": 1}), lambda: step(X, é=X)):
        with pytest.raises(TypeError):
            call()
    np.testing.assert_array_equal(step(*[X]), Y)


OUTS = {
    "float64": np.zeros(2),
    "strided": np.zeros(4, np.float32)[::2],
    "byte-swapped": np.zeros(2, ">f4"),
    "subclass": np.zeros(2, np.float32).view(Odd),
    "misaligned": misaligned(np.zeros(2, np.float32)),
    "negative stride": np.zeros(2, np.float32)[::-1],
}


@pytest.mark.parametrize("kind", OUTS)
def test_outputs_of_any_kind_are_filled(code: abi.Code, kind: str) -> None:
    out = OUTS[kind]
    assert Standin(code).bind()(X, out) is out
    np.testing.assert_array_equal(np.asarray(out, np.float32), Y)


def test_overlapping_input_and_output(code: abi.Code) -> None:
    step = Standin(code).bind()
    for start in range(-1, 5):
        memory = np.zeros(8, np.float32)
        memory[1:5] = X
        out = memory[start + 1 : start + 3]
        step(memory[1:5], out)
        np.testing.assert_array_equal(out, Y)
    square = Standin(code, [(3,)], [(3,)]).bind(reuse_output=True)
    y = square(np.ones(3, np.float32))
    assert y.tolist() == [3, 4, 5]
    assert square(y).tolist() == [12, 13, 14]  # its own output as the input
    several = Standin(code, [(2,)], [(3,), (2,)]).bind()
    memory = np.zeros(8, np.float32)
    with pytest.raises(ShapeError, match="share memory"):
        several(X[:2], memory[:3], memory[2:4])
    several(X[:2], memory[:3], memory[3:5])
    assert memory[:5].tolist() == [3, 4, 5, 103, 104]


@pytest.mark.parametrize("rows", [None, 1, 3, 50])
@pytest.mark.parametrize("reuse", [False, True])
def test_several_inputs_and_outputs(code: abi.Code, rows: int | None, reuse: bool) -> None:
    net = Standin(code, [(2, 3), (), (5,)], [(2,), (), (3, 1, 2)])
    step = net.bind(rows, reuse)
    rng = np.random.default_rng(1)
    lead = () if rows is None else (rows,)
    xs = [rng.integers(-9, 9, (*lead, *s.shape)).astype(np.float32) for s in net.graph.inputs]
    want = net.graph(*(x[None] if rows is None else x for x in xs))
    want = tuple(y[0] for y in want) if rows is None else want
    for got in (step(*xs), step(*(x.tolist() for x in xs)), step(*xs)):
        assert type(got) is tuple
        for a, b in zip(got, want):
            assert a.shape == b.shape
            np.testing.assert_array_equal(a, b)
    outs = [np.zeros((*lead, *s), np.float32) for s in ((2,), (), (3, 1, 2))]
    got = step(*xs, *outs)
    assert all(a is b for a, b in zip(got, outs))
    for a, b in zip(outs, want):
        np.testing.assert_array_equal(a, b)
    assert (step(*xs) is step(*xs)) == reuse


def test_more_arguments_than_the_compiled_call_takes(code: abi.Code) -> None:
    step = Standin(code, [(1,)] * 40, [(2,)]).bind()
    assert type(step) is NativeStep
    assert step(*np.ones((40, 1), np.float32)).tolist() == [40, 41]


def test_states_are_carried(code: abi.Code) -> None:
    for rows, lead in ((None, ()), (2, (2,))):
        net = Standin(code, [(1,), (3,)], [(2,), (3,)], states=1)
        step, x = net.bind(rows), np.ones((*lead, 1), np.float32)
        plain = NativeStep(net.network, rows, False, lambda: None)
        for k in range(5):
            np.testing.assert_array_equal(step(x), plain(x))
            np.testing.assert_array_equal(step.state[0], plain.state[0])
            if k == 2:
                branch = step.fork()
                slow = step(x.tolist())  # the checked path shares the state
                np.testing.assert_array_equal(slow, plain(x))
                np.testing.assert_array_equal(branch(x), slow)
        state = step.state
        step.reset()
        assert not step.state[0].any()
        step.state = state
        np.testing.assert_array_equal(step(x), plain(x))
        with pytest.raises(ShapeError):
            step.state = (np.zeros(7),)
        before = step.state[0].copy()
        with pytest.raises(Index):
            step(np.full_like(x, -999))
        np.testing.assert_array_equal(step.state[0], before)


def test_a_failed_run_raises_what_the_executor_says(code: abi.Code) -> None:
    for reuse in (False, True):
        step = Standin(code, [(4,)], [(2,), (1,)]).bind(reuse_output=reuse)
        bad = np.full(4, -999, np.float32)
        for args in ((bad,), (bad.tolist(),), (bad, np.zeros(2, np.float32), np.zeros(1, np.float32))):
            with pytest.raises(Index, match="status 1"):
                step(*args)


def test_a_reused_output_stays_where_it_is(code: abi.Code) -> None:
    step = Standin(code).bind(reuse_output=True)
    y = step(X)
    assert y.ctypes.data % 64 == 0
    owner: Any = y
    while isinstance(owner, np.ndarray):
        for shape in (200, 0):
            with pytest.raises(ValueError, match="resize"):
                owner.resize(shape, refcheck=False)
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    with pytest.raises(BufferError):
        owner.extend(bytes(10_000))
    y.__setstate__((1, (3,), np.dtype(np.float32), False, bytes(12)))  # the holder can make it anything: we write to our own
    assert step(X) is y


def test_weights_that_change_are_seen_at_once(code: abi.Code) -> None:
    net = Standin(code)
    step = net.bind()
    net.weight[0] = 5
    np.testing.assert_array_equal(step(X), Y + 5)
    np.testing.assert_array_equal(step(X.tolist()), Y + 5)


@pytest.mark.parametrize("fixed", [64, 3000, 12 << 10, (12 << 10) + 64, 300_000])
@pytest.mark.parametrize("rows", [None, 7, 100])
def test_scratch_of_any_size(code: abi.Code, fixed: int, rows: int | None) -> None:
    net = Standin(code, scratch=(fixed, 640))
    step, x = net.bind(rows), np.ones((4,) if rows is None else (rows, 4), np.float32)
    want = np.broadcast_to(np.float32([4, 5]), (2,) if rows is None else (rows, 2))
    np.testing.assert_array_equal(step(x), want)
    net.context[3] *= 3  # other weights may need more
    for given in (x, x.tolist(), x):
        np.testing.assert_array_equal(step(given), want)


def test_fixed_zeros() -> None:
    for shape in ((), (0,), (3, 5), (1,)):
        for dtype in (np.float32, np.int64, np.bool_):
            a = fixed_zeros(shape, np.dtype(dtype))
            assert a.shape == shape
            assert a.flags.carray
            assert a.size == 0 or a.ctypes.data % 64 == 0


def test_hostile_calls_in_a_process_of_their_own() -> None:
    """Random arguments of all kinds, for a second: the process must end by itself, and right answers stay right."""
    script = Path(__file__).with_name("fuzz_step.py")
    done = subprocess.run([sys.executable, "-X", "faulthandler", str(script), "1"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
