"""Elementwise operations of models in the compiled engine, powers and unit normalization, against their NumPy meaning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from native_chains import F, chain, close, normal

from npinfer.executors.native.executor import NativeExecutor
from npinfer.executors.native.operations import LARGE, OPERATIONS
from npinfer.graph import Array, Graph, Node, Spec
from npinfer.ops.arithmetic import Binary, Unary
from npinfer.ops.cast import Cast
from npinfer.ops.dense import Dense
from npinfer.ops.embedding import Embedding
from npinfer.ops.indexing import OneHot
from npinfer.ops.norm import UnitNorm
from npinfer.ops.reductions import Reduce

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, LARGE, -LARGE, 1.5, -2.5, 1e6, -7e4], F)


def meaning(op: Any, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(op(x))


def same_kinds(got: Array, want: Array) -> None:
    """NaN, infinities, and zeros of either sign at the same places."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))
    assert not got[zero].any()


@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize("n", [1, 15, 16, 37])
def test_elementwise(kind: str, n: int) -> None:
    executor = NativeExecutor(chain((n,), Unary(kind)))
    assert executor.uncovered() == []
    x = np.resize(SPECIAL, (31, n))
    (got,) = executor.run([x])
    want = meaning(Unary(kind), x)
    same_kinds(got, want)
    finite = np.isfinite(want)
    np.testing.assert_array_max_ulp(got[finite], want[finite], 4)
    for r in range(len(x)):
        (alone,) = executor.run([x[r : r + 1]])
        assert alone.tobytes() == got[r].tobytes()


@pytest.mark.parametrize("kind", ["sin", "cos"])
def test_a_sine_does_not_depend_on_its_neighbours(kind: str) -> None:
    """Large angles are computed one by one, small ones sixteen at a time, also where they stand side by side."""
    rng = np.random.default_rng(5)
    small = rng.uniform(-LARGE, LARGE, (50, 37)).astype(F)
    large = (rng.choice([-1, 1], small.shape) * 2.0 ** rng.uniform(17, 128, small.shape)).astype(F)
    mixed = np.where(rng.random(small.shape) < 0.1, large, small)
    executor = NativeExecutor(chain((37,), Unary(kind)))
    got, near, far = (executor.run([x])[0] for x in (mixed, small, large))
    np.testing.assert_array_equal(got, np.where(mixed == small, near, far))
    exact = getattr(np, kind)(mixed.astype(np.float64)).astype(F)
    np.testing.assert_array_max_ulp(got, exact, 2)


@pytest.mark.parametrize("kind", ["sin", "cos"])
def test_floats_next_to_multiples_of_a_quarter_turn(kind: str) -> None:
    """Where the result is tiny, all its digits come from behind the point of x·2/π. 16367173·2**72 is the float closest to
    such a multiple."""
    n = np.arange(1, 200_000, 7, dtype=np.float64)
    x = np.concatenate([(n * np.pi / 2).astype(F), (n * 2.0**40 * np.pi / 2).astype(F), np.array([16367173 * 2.0**72], F)])
    x = np.concatenate([x, -x])
    (got,) = NativeExecutor(chain((len(x),), Unary(kind))).run([x[None]])
    np.testing.assert_array_max_ulp(got[0], getattr(np, kind)(x.astype(np.float64)).astype(F), 2)


@pytest.mark.parametrize("power", [-1, 0.5, 1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_powers(power: float, shape: tuple[int, ...]) -> None:
    op = Binary("power", np.full(shape, power, F))
    net = chain((37,), op) if len(shape) < 2 else chain((2, 3, 5), op)
    executor = NativeExecutor(net)
    assert executor.uncovered() == []
    spec = net.inputs[0]
    x = np.where(normal(9, *sizes(spec)) > 1, np.resize(SPECIAL, (9, *sizes(spec))), 3 * normal(9, *sizes(spec)))
    (got,) = executor.run([x])
    want = meaning(op, x)
    same_kinds(got, want)
    finite = np.isfinite(want)
    np.testing.assert_array_max_ulp(got[finite], want[finite], 3)


@pytest.mark.parametrize("exponent", [np.array(0.5, F), np.array([0.5, 3], F), np.full((1, 1), 0.5, F)], ids=str)
def test_powers_of_a_half_are_tensorflows(exponent: Array) -> None:
    x = np.array([[-np.inf, 4], [-0.0, 4], [4, 4], [-4, 4], [np.nan, 4]], F)
    got = meaning(Binary("power", exponent), x)[:, 0]
    np.testing.assert_array_equal(got, np.array([np.inf, 0, 2, np.nan, np.nan], F))
    assert not np.signbit(got[1])
    assert got.dtype == F


def sizes(spec: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in spec.shape)


@pytest.mark.parametrize(
    "op",
    [Binary("power", np.array(2.5, F)), Binary("power", np.array(2, F), True), Binary("power", np.full(4, 2, F)), Unary("tan")],
    ids=["odd exponent", "power of two", "several exponents", "tan"],
)
def test_what_is_left_to_numpy(op: Any) -> None:
    executor = NativeExecutor(chain((4,), op))
    assert executor.uncovered() == [0]
    x = np.abs(normal(5, 4))
    close(executor.run([x])[0], op(x))


@pytest.mark.parametrize(
    ("shape", "axes"), [((7,), (-1,)), ((3, 40), (-1,)), ((3, 5), (-2,)), ((4, 3, 5), (-3, -1)), ((4, 3, 5), (-3, -2, -1))]
)
@pytest.mark.parametrize("limit", [1e12, 1e6])
def test_unit_normalization(shape: tuple[int, ...], axes: tuple[int, ...], limit: float) -> None:
    op = UnitNorm(axes, limit)
    executor = NativeExecutor(chain(shape, op))
    assert executor.uncovered() == []
    x = normal(9, *shape)
    x[1], x[2], x[3] = 0, 1e-9 * x[2], 1e-20 * x[3]
    x[4].flat[1], x[5].flat[1], x[6] = np.nan, np.inf, 1e30
    (got,) = executor.run([x])
    want = meaning(op, x)
    same_kinds(got, want)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    for r in range(len(x)):
        assert executor.run([x[r : r + 1]])[0].tobytes() == got[r].tobytes()


def ties(*shape: int) -> Array:
    """Numbers of a few values, so that many are largest; NaN, infinities and zeros of both signs among them."""
    rng = np.random.default_rng(sum(shape))
    x = rng.choice(np.array([-1, 0.0, -0.0, 2], F), shape)
    x[len(x) // 2 :] = np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL[:3], shape), x)[len(x) // 2 :]
    return x


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("shape", "axis", "at"), [((5,), 0, 0), ((40,), 0, 0), ((3, 17), 1, 1), ((3, 17), 0, 1), ((3, 4, 5), 1, 0), ((1,), 0, 0)]
)
def test_places_of_the_largest_as_one_hot(kind: str, shape: tuple[int, ...], axis: int, at: int) -> None:
    net = chain(shape, Reduce(kind, (axis,)), OneHot(shape[axis] + 1, at, F))
    executor = NativeExecutor(net)
    assert executor.uncovered() == []
    x = ties(40, *shape)
    (got,) = executor.run([x])
    np.testing.assert_array_equal(got, net(x)[0])
    np.testing.assert_array_equal(executor.bind(None, False, lambda: None)(x[39]), got[39])


def test_places_of_the_largest_as_indices() -> None:
    net = chain((9,), Dense(normal(9, 6)), Reduce("argmax", (0,)), Embedding(normal(6, 4)))
    executor = NativeExecutor(net)
    assert executor.uncovered() == []
    x = normal(30, 9)
    np.testing.assert_array_equal(executor.run([x])[0], net(x)[0])


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_places_of_the_largest_as_results(kind: str) -> None:
    net = chain((4, 9), Dense(np.eye(9, dtype=F)), Reduce(kind, (1,)))
    executor = NativeExecutor(net)
    assert executor.uncovered() == []
    x = np.nan_to_num(ties(30, 4, 9), posinf=3)
    (got,) = executor.run([x])
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, net(x)[0])
    step = executor.bind(None, False, lambda: None)
    np.testing.assert_array_equal(step(x[7]), got[7])
    for dtype in (np.int32, np.int64, F):  # the first is what the network writes, the others are cast to
        out = np.zeros(4, dtype)
        step(x[7], out)
        np.testing.assert_array_equal(out, got[7])
    network = executor.jit(lambda: None)
    caller = njit(lambda f, x: f(x))
    made = caller(network, x[7])
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, got[7])


def test_one_hot_of_floats_and_integers() -> None:
    for dtype in (F, np.dtype(np.int32)):
        net = Graph([Spec((7,), dtype, "x")], [Node(OneHot(4, 1, F), (0,))], [1])
        executor = NativeExecutor(net)
        assert executor.uncovered() == []
        x = np.resize(np.array([0, 1, 2, 3, 4, -1, 2.5, -0.0]), (5, 7)).astype(dtype)
        np.testing.assert_array_equal(executor.run([x])[0], net(x)[0])


def test_indices_cast_from_floats_may_be_results_too() -> None:
    nodes = [Node(Cast(np.dtype(np.int32)), (0,)), Node(Embedding(normal(5, 2)), (1,))]
    net = Graph([Spec((3,), F, "x")], nodes, [2, 1])
    x = np.array([[1, 2.75, 0], [4, 3, 3]], F)
    for got, want in zip(NativeExecutor(net).run([x]), net(x)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
