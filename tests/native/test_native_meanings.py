"""Ops that the native engine runs by their NumPy meaning: a sample's bits don't depend on the batch or on where it lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npinfer.executors import make_executor
from npinfer.executors.native import NativeExecutor, refusal
from npinfer.executors.native.context import aligned
from npinfer.graph import Array, Graph, Node, Op, Spec
from npinfer.ops.activations import Activation
from npinfer.ops.arithmetic import Binary, Unary
from npinfer.ops.cast import Cast
from npinfer.ops.conv import Conv
from npinfer.ops.dense import Dense
from npinfer.ops.einsum import EinsumDense
from npinfer.ops.functions import FunctionActivation
from npinfer.ops.linear_algebra import LinearAlgebra
from npinfer.ops.norm import LayerNorm
from npinfer.ops.products import Einsum, Matmul
from npinfer.ops.reductions import Along, Reduce
from npinfer.ops.reshape import Reshape, Transpose
from npinfer.ops.softmax import Softmax

F, D = np.dtype(np.float32), np.dtype(np.float64)
ROWS = 40


def numbers(*shape: int, dtype: Any = D) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


class Address(Op):
    """x plus where its memory begins within a cache line: as code that peels what lies before a line's border would do."""

    def infer(self, x: Spec) -> Spec:
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        return x + x.dtype.type(x.ctypes.data % 64)


class Borders(Op):
    """The last four numbers in memory come out negative: as loops do that treat an array's end differently."""

    elementwise = True

    def infer(self, x: Spec) -> Spec:
        return x._replace(name="")

    def __call__(self, x: Array) -> Array:
        y = np.abs(x)
        y.reshape(-1)[-4:] *= -1
        return y


def wild(*shape: int, dtype: Any) -> Array:
    """Numbers of all sizes, NaN of both signs, infinities and zeros among them."""
    rng = np.random.default_rng(len(shape))
    reach = 38 if dtype == F else 300
    sized = rng.normal(size=shape) * 10.0 ** (rng.uniform(-reach, reach, shape) * rng.choice([0, 0.1, 1], shape))
    special = rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
    with np.errstate(all="ignore"):
        return np.where(rng.random(shape) < 0.1, special, sized).astype(dtype)


CASES: dict[str, tuple[Any, ...]] = {
    "address": (F, Address(), (5,)),
    "borders": (F, Borders(), (5,)),
    "dense": (D, Dense(numbers(17, 9), numbers(9), Activation("tanh")), (17,)),
    "dense, one output": (D, Dense(numbers(200, 1)), (200,)),
    "dense of rows": (D, Dense(numbers(17, 16)), (4, 17)),
    "einsum dense": (D, EinsumDense("abc,cde->abde", numbers(7, 2, 3)), (4, 7)),
    "einsum": (D, Einsum("abc,acd->abd"), (7, 9), (9, 5)),
    "matmul": (D, Matmul(), (7, 9), (9, 5)),
    "convolution": (D, Conv(numbers(3, 4, 6), None, (1,), "same", (1,)), (9, 4)),
    "layer normalization": (D, LayerNorm((-1,), 1e-3), (37,)),
    "softmax": (D, Softmax((-1,)), (37,)),
    "inverse": (D, LinearAlgebra("inv"), (5, 5)),
    "sums": (D, Reduce("sum", (0, 2)), (5, 3, 11)),
    "variances": (D, Reduce("var", (1,)), (5, 13)),
    "cumulative sums": (F, Along("cumsum", 0), (37,)),
    "function": (F, FunctionActivation(np.arctan), (5,)),
    **{f"{k} of {d}": (d, Activation(k), (37,)) for d in (F, D) for k in ("gelu", "silu", "softplus", "mish", "erf")},
    **{f"{k} of {d}": (d, Unary(k), (3,)) for d in (F, D) for k in ("sin", "tan", "exp", "log1p", "arcsinh", "expm1", "sqrt")},
    **{f"{k} of {d}": (d, Binary(k), (37,), (37,)) for d in (F, D) for k in ("add", "multiply", "fmax", "fmin", "power")},
}


def between(dtype: Any, op: Op, *shapes: tuple[int, ...]) -> Graph:
    """The op between compiled ops and, where it takes float64, casts."""
    nodes: list[Node] = []
    values: list[int] = []
    count = len(shapes)
    for k in range(count):
        nodes.append(Node(Activation("linear"), (k,)))
        values.append(count + len(nodes) - 1)
        if dtype != F:
            nodes.append(Node(Cast(dtype), (values[k],)))
            values[k] += 1
    nodes.append(Node(op, tuple(values)))
    result = count + len(nodes) - 1
    nodes += [Node(Cast(F), (result,)), Node(Activation("relu"), (result + 1,))]
    return Graph([Spec(s, F, f"x{k}") for k, s in enumerate(shapes)], nodes, [result, result + 2])


def placed(x: Array, offset: int) -> Array:
    """A copy that begins so many bytes behind a multiple of 64."""
    y = aligned(x.nbytes + offset)[offset:].view(x.dtype).reshape(x.shape)
    y[:] = x
    return y


def same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("draw", [numbers, wild])
def test_bits_depend_on_the_sample_alone(case: str, draw: Any) -> None:
    dtype, op, *shapes = CASES[case]
    graph = between(dtype, op, *shapes)
    executor = make_executor("native", graph)
    assert executor.name == "native"
    xs = [draw(ROWS, *s, dtype=F) for s in shapes]
    alone = [executor.run([x[r : r + 1] for x in xs]) for r in range(ROWS)]
    want = [np.concatenate(parts) for parts in zip(*alone)]
    for start, rows in ((0, 2), (0, 3), (5, 7), (1, 33), (0, ROWS)):
        part = [x[start : start + rows] for x in xs]
        for offset in (0, 4, 16, 52):
            got = executor.run([placed(x, offset) for x in part])
            assert all(same(a, b[start : start + rows]) for a, b in zip(got, want)), (start, rows, offset)
    single, several = executor.bind(None, False, lambda: None), executor.bind(3, True, lambda: None)
    for r in range(3):
        for a, b in zip(single(*(placed(x[r], 4) for x in xs)), want):
            assert same(a, b[r])
    for a, b in zip(several(*(x[4:7] for x in xs)), want):
        assert same(a, b[4:7])


def test_results_are_near_the_meaning() -> None:
    for case in ("dense", "einsum", "convolution", "variances"):
        dtype, op, *shapes = CASES[case]
        graph = between(dtype, op, *shapes)
        xs = [numbers(ROWS, *s, dtype=F) for s in shapes]
        for got, want in zip(NativeExecutor(graph).run(xs), graph(*xs)):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 if got.dtype == F else 1e-12)


def test_which_models_with_float64_are_native() -> None:
    mixed = between(D, Dense(numbers(4, 4)), (4,))
    assert refusal(mixed) is None
    assert make_executor("auto", mixed).name == "native"
    double = Graph([Spec((4,), F)], [Node(Cast(D), (0,)), Node(Dense(numbers(4, 4)), (1,)), Node(Cast(F), (2,))], [3])
    assert "float64" in str(refusal(double))
    assert make_executor("auto", double).name == "numpy"


@pytest.mark.parametrize("op", [Reshape((3, 4)), Transpose((1, 0)), Cast(D)], ids=["reshape", "transpose", "cast"])
def test_what_only_moves_numbers_gives_memory_of_its_own(op: Op) -> None:
    nodes = [Node(op, (0,)), Node(Activation("tanh"), (1,))]
    graph = Graph([Spec((4, 3), D, "x"), Spec((4,), F, "z")], nodes, [2, 3])
    x = numbers(3, 4, 3)
    got = NativeExecutor(graph).run([x, numbers(3, 4, dtype=F)])
    assert same(got[0], np.ascontiguousarray(op(x)))
    assert not np.shares_memory(got[0], x)
    got[0][:] = 0
    assert x.any()


def test_an_empty_batch_has_the_results_shapes() -> None:
    graph = between(D, Matmul(), (7, 9), (9, 5))
    got = NativeExecutor(graph).run([np.zeros((0, 7, 9), F), np.zeros((0, 9, 5), F)])
    assert [(a.shape, a.dtype) for a in got] == [((0, 7, 5), D), ((0, 7, 5), F)]
