"""A network inside code that Numba compiles: as an argument, captured, in threads and loops, in Numba's cache, refused."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
import pytest
from standin import Again, Standin, compiled

from npinfer.errors import ShapeError
from npinfer.executors.native import abi
from npinfer.executors.native.jit import Jit
from npinfer.executors.steps import BoundStep

X = np.array([1, 2, 3, 4.5], np.float32)
Y = np.array([10.5, 11.5], np.float32)
F32 = np.float32


@pytest.fixture(scope="module")
def net() -> Standin:
    return Standin(compiled())


def make(net: Standin) -> Jit:
    return Jit(net.network, Again(net, None, False))


@nb.njit
def fill(f: Any, x: Any, out: Any) -> Any:
    return f(x, out)


@nb.njit
def fresh(f: Any, x: Any) -> Any:
    return f(x)


def test_as_an_argument(net: Standin) -> None:
    f, out = make(net), np.zeros(2, F32)
    assert fill(f, X, out) is out
    np.testing.assert_array_equal(out, Y)
    y = fresh(f, X)
    assert y.dtype == F32
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(f(X.tolist()), Y)  # and in plain Python
    odd = np.zeros(17, np.uint8)[1:].view(F32)  # Numba takes it for aligned; no instruction of ours minds
    odd[:] = X
    np.testing.assert_array_equal(fresh(f, odd), Y)


def capturing(*networks: Jit) -> Any:
    f, other = networks

    @nb.njit
    def both(x: Any) -> Any:
        return f(x), other(x)

    return both


def test_captured(net: Standin) -> None:
    both = capturing(make(net), make(Standin(compiled(), [(4,)], [(3,)])))
    for _ in range(2):
        y, z = both(X)
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(z, [10.5, 11.5, 12.5])
        gc.collect()  # the machine code is all that still knows them


def test_new_weights_are_seen(net: Standin) -> None:
    own = Standin(compiled())
    f = make(own)

    @nb.njit
    def captured(x: Any) -> Any:
        return f(x)

    for weight in (0, 3, -1):
        own.weight[0] = weight
        np.testing.assert_array_equal(fresh(f, X), Y + weight)
        np.testing.assert_array_equal(captured(X), Y + weight)


def test_several_inputs_and_outputs() -> None:
    own = Standin(compiled(), [(2, 3), (1,), ()], [(2,), (3, 1, 2), ()], scratch=(50_000, 0))
    f = make(own)

    @nb.njit
    def call(f: Any, a: Any, b: Any, c: Any, d: Any, e: Any, g: Any) -> Any:
        p, q, r = f(a, b, c)
        f(a, b, c, d, e, g)
        return p, q, r

    a, b, c = np.arange(6, dtype=F32).reshape(2, 3), np.ones(1, F32), np.array(2, F32)
    outs = np.zeros(2, F32), np.zeros((3, 1, 2), F32), np.zeros((), F32)
    got, want = call(f, a, b, c, *outs), own.graph(a[None], b[None], c[None])
    for x, y, z in zip(got, outs, want):
        assert x.shape == z[0].shape
        np.testing.assert_array_equal(x, z[0])
        np.testing.assert_array_equal(y, z[0])


TYPING = {
    "float64": (X.astype(float),),
    "strided": (np.repeat(X, 2)[::2],),
    "two dimensions": (X[None],),
    "integers": (X.astype(np.int32),),
    "number": (1.5,),
    "two arguments too many": (X, Y.copy(), Y.copy()),
    "none": (),
    "read-only output": (X, np.frombuffer(bytes(8), F32)),
    "float64 output": (X, np.zeros(2)),
}


@pytest.mark.parametrize("kind", TYPING)
def test_types_are_checked_while_compiling(net: Standin, kind: str) -> None:
    @nb.njit
    def call(f: Any, args: Any) -> Any:
        return f(*args)

    with pytest.raises(nb.TypingError, match="npinfer: "):
        call(make(net), TYPING[kind])


def test_keywords_are_refused(net: Standin) -> None:
    @nb.njit
    def call(f: Any, x: Any) -> Any:
        return f(x=x)

    with pytest.raises(nb.TypingError, match="positional"):
        call(make(net), X)


def test_shapes_overlap_and_indices_are_checked_at_run_time(net: Standin) -> None:
    f = make(net)
    for x in (X[:3], np.zeros(5, F32), np.zeros(0, F32)):
        with pytest.raises(ShapeError, match="shape"):
            fresh(f, x)
    with pytest.raises(ShapeError, match="shape"):
        fill(f, X, np.zeros(3, F32))
    memory = np.zeros(8, F32)
    for start in range(3, 6):
        with pytest.raises(ShapeError, match="memory"):
            fill(f, memory[2:6], memory[start - 2 : start])
    fill(f, memory[2:6], memory[:2])
    fill(f, memory[2:6], memory[6:])
    with pytest.raises(IndexError, match="index"):
        fresh(f, np.full(4, -999, F32))


@pytest.mark.parametrize("scratch", [64, 100_000])
def test_in_parallel_loops_and_threads(scratch: int) -> None:
    f = make(Standin(compiled(), scratch=(scratch, 0)))

    @nb.njit(parallel=True)
    def over(f: Any, xs: Any, ys: Any) -> None:
        for i in nb.prange(len(xs)):
            f(xs[i], ys[i])

    @nb.njit(nogil=True)
    def loop(f: Any, x: Any, n: int) -> Any:
        total = 0.0
        for _ in range(n):
            total += f(x)[0]
        return total

    xs = np.random.default_rng(0).integers(-9, 9, (5000, 4)).astype(F32)
    ys = np.zeros((5000, 2), F32)
    over(f, xs, ys)
    np.testing.assert_array_equal(ys, xs.sum(1)[:, None] + np.arange(2, dtype=F32))
    found = {}
    threads = [threading.Thread(target=lambda k=k: found.update({k: loop(f, np.full(4, k, F32), 20_000)})) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {k: 4.0 * k * 20_000 for k in range(4)}


def test_references_are_given_back(net: Standin) -> None:
    f, out = make(net), np.zeros(2, F32)
    several = make(Standin(compiled(), [(4,)], [(2,), (3,)]))
    fill(f, X, out)
    fresh(several, X)
    before = [sys.getrefcount(o) for o in (f, X, out, several)]
    for _ in range(1000):
        fill(f, X, out)
        fresh(f, X)
        fresh(several, X)
    assert [sys.getrefcount(o) for o in (f, X, out, several)] == before


def test_states_are_arguments() -> None:
    own = Standin(compiled(), [(1,), (3,)], [(2,), (3,)], states=1)
    f, step = make(own), BoundStep(own.graph, None, False, own.graph.run, lambda: None)
    state, following, y = np.zeros(3, F32), np.ones(3, F32), np.zeros(2, F32)

    @nb.njit
    def call(f: Any, x: Any, state: Any, y: Any, following: Any) -> Any:
        f(x, state, y, following)
        return f(x, state)

    for x in np.arange(4, dtype=F32)[:, None]:
        got = call(f, x, state, y, following)
        np.testing.assert_array_equal(step(x), y)
        for a, b, c in zip(got, (y, following), (y, step.state[0])):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)
        state, following = following, state
    with pytest.raises(ShapeError, match="shares memory"):
        call(f, X[:1].copy(), state, y, state)


def test_copies_bind_again(net: Standin) -> None:
    f = Jit(net.network, _Restored())
    np.testing.assert_array_equal(fresh(pickle.loads(pickle.dumps(f)), X), Y)


class _Restored:
    def __call__(self) -> Jit:
        return make(Standin(compiled()))


SCRIPT = """
import sys, warnings
import numba as nb
import numpy as np
from npinfer.executors.native.jit import Jit
from standin import Standin, compiled

@nb.njit(cache=True)
def argument(f, x):
    return f(x)

def captured():
    @nb.njit(cache=True)
    def call(x):
        return F(x)
    return call

net = Standin(compiled(), [(4,)], [(int(sys.argv[1]),)])
net.weight[0] = float(sys.argv[2])
F = Jit(net.network, lambda: None)
x = np.ones(4, np.float32)
a = argument(F, x)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    call = captured()
    b = call(x)
assert a.shape == b.shape == (int(sys.argv[1]),) and a[0] == b[0] == 4 + float(sys.argv[2]), (a, b)
print(sum(argument.stats.cache_hits.values()), sum(call.stats.cache_hits.values()),
      any("dynamic globals" in str(w.message) for w in seen))
"""


def test_callers_that_numba_caches(tmp_path: Path) -> None:
    """A second process, with another network at another address, must not meet the first one's."""
    script = tmp_path / "caller.py"
    script.write_text(SCRIPT)
    here = Path(__file__).resolve()
    import os

    environment = {**os.environ, "PYTHONPATH": f"{here.parents[2]}{os.pathsep}{here.parent}", "NUMBA_CACHE_DIR": str(tmp_path)}
    printed = []
    for size, weight in ((2, 1), (3, 7), (300, 2)):
        command = [sys.executable, str(script), str(size), str(weight)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        printed.append(done.stdout.split())
    assert printed == [["0", "0", "True"], ["1", "0", "True"], ["1", "0", "True"]]


def test_another_layout_is_another_type(net: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    from npinfer.executors.native import jit

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = nb.typeof(make(net))
    assert before == nb.typeof(make(Standin(compiled(), [(9,)], [(1,)])))
    assert pickle.loads(pickle.dumps(before)) == before
    monkeypatch.setattr(jit, "_LAYOUT", "other")
    assert nb.typeof(make(net)) != before
    assert abi.API + len(abi.Api._fields) <= abi.ARGUMENTS
