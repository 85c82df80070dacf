"""Compiled convolutions and pooling: options × shapes against the ops' meaning, the same bits in any batch."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from native_chains import F, chain

from npinfer.executors.native.executor import NativeExecutor
from npinfer.graph import Array, Graph, Op
from npinfer.ops.activations import Activation
from npinfer.ops.affine import Affine
from npinfer.ops.conv import Conv
from npinfer.ops.joining import Pad, Repeat
from npinfer.ops.pool import GlobalPool, Pool
from npinfer.ops.reshape import Reshape
from npinfer.passes import optimise

rng = np.random.default_rng(11)


def normal(*shape: int) -> Array:
    return rng.normal(size=shape).astype(F)


def conv(window: tuple[int, ...], channels: int, filters: int, groups: int = 1, **options: Any) -> Conv:
    kernel = normal(*window, channels // groups, filters) / np.float32(np.sqrt(np.prod(window) * channels / groups))
    ones = (1,) * len(window)
    return Conv(kernel, **{"bias": normal(filters), "strides": ones, "dilation": ones, "groups": groups, **options})


def check(graph: Graph, x: Array, *, covered: bool = True) -> None:
    """Equal to the meaning; the same bits for a sample alone, in every batch and at its end; nothing written elsewhere."""
    expected = graph(x)[0]
    native = NativeExecutor(graph, 1)
    assert (native.uncovered() == []) == covered
    got = native.run([x])[0]
    assert got.shape == expected.shape
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-30))
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6 * scale)
    for rows in (1, 2, len(x) - 1):
        assert native.run([np.ascontiguousarray(x[-rows:])])[0].tobytes() == got[-rows:].tobytes()
    if covered:
        # the result in the middle of other memory, which must stay as it is
        context = native._plan(tuple(a.shape[1:] for a in [x])).whole
        assert context is not None
        around = np.full(got.size + 64, np.float32(7))
        inner = around[32:-32].reshape(got.shape)
        assert context.run([x], [inner]) == 0
        assert inner.tobytes() == got.tobytes()
        assert (around[:32] == 7).all()
        assert (around[-32:] == 7).all()


CONVS: list[tuple[tuple[int, ...], Conv]] = [
    # few and many channels and filters, around the width of a vector
    *(((7, 6, c), conv((3, 3), c, f, padding="same")) for c, f in product((1, 3, 16, 17), (1, 6, 16, 24, 40))),
    # numbers of output pixels around the register blocks
    *(((n, 4), conv((2,), 4, 9)) for n in range(2, 17)),
    *(
        ((9, 8, 3), conv((k, m), 3, 20, strides=(s, t), padding=p))
        for k, m, s, t, p in product((1, 2, 5), (1, 3), (1, 2), (1, 3), ("valid", "same"))
    ),
    *(((11, 10, 2), conv((3, 2), 2, 5, dilation=(d, e), padding=p)) for d, e, p in product((1, 2), (1, 3), ("valid", "same"))),
    *(((12, 5), conv((3,), 5, 18, dilation=(d,), padding="causal", bias=None)) for d in (1, 2, 4)),
    ((6, 6, 4), conv((3, 3), 4, 8, padding=((0, 1), (2, 0)))),
    ((4, 4, 3), conv((4, 4), 3, 10)),
    ((4, 5, 3), conv((2, 5), 3, 10)),
    ((5, 4, 6, 3), conv((2, 3, 2), 3, 7, padding="same", strides=(1, 2, 1))),
    ((5, 4, 6, 2), conv((3, 1, 2), 2, 16, dilation=(2, 1, 2))),
    ((8, 8, 20), conv((1, 1), 20, 70, activation=Activation("relu"))),
    ((40, 40, 8), conv((3, 3), 8, 33, activation=Activation("tanh"), padding="same")),
]
DEPTHWISE: list[tuple[tuple[int, ...], Conv]] = [
    *(
        ((9, 11, c), conv((3, 3), c, c * t, c, strides=(s, s), padding=p))
        for c, t, s, p in product((2, 16, 19, 40), (1, 2), (1, 2), ("valid", "same"))
    ),
    *(((11, 10, 6), conv((3, 2), 6, 6, 6, dilation=(d, e), padding=p)) for d, e, p in product((1, 2, 5), (1, 3), ("same",))),
    ((3, 3, 8), conv((7, 7), 8, 8, 8, padding="same")),
    ((2, 9, 8), conv((3, 3), 8, 8, 8, padding=((3, 3), (0, 4)), activation=Activation("relu_max", (6.0,)))),
    ((13, 6), conv((4,), 6, 6, 6, bias=None, padding="causal")),
]
POOLS: list[tuple[tuple[int, ...], Op]] = [
    *(
        ((7, 8, c), Pool(kind, (k, m), (s, 2), p))
        for kind, c, k, m, s, p in product(("max", "average"), (1, 6, 16, 33), (1, 3), (2,), (1, 3), ("valid", "same"))
    ),
    *(((13, 5), Pool(kind, (3,), (2,), "same")) for kind in ("max", "average")),
    *(
        (shape, GlobalPool(kind, k))
        for kind in ("max", "average")
        for shape in ((7, 7, 20), (13, 3), (2, 3, 4, 16))
        for k in (0, 1)
    ),
]
MOVES: list[tuple[tuple[int, ...], Op]] = [
    ((3, 4, 5), Pad(((1, 2), (0, 3), (0, 0)))),
    ((3, 4, 5), Pad(((1, 0), (0, 0), (2, 1)), "constant", 2.5)),
    ((7, 3), Pad(((2, 1), (0, 0)))),
    ((3, 4, 5), Repeat(2, 0)),
    ((3, 4, 5), Repeat(3, 1)),
    ((6, 1), Repeat(2, 0)),
]


@pytest.mark.parametrize(("shape", "op"), [*CONVS, *DEPTHWISE, *POOLS, *MOVES], ids=repr)
def test_one_op(shape: tuple[int, ...], op: Op) -> None:
    x = normal(7, *shape)
    check(chain(shape, op), x)
    # from and to scratch, with something behind it
    check(chain(shape, Activation("relu"), op, Activation("tanh")), x)


def test_other_padding_runs_through_its_meaning() -> None:
    check(chain((6, 6, 8), Pad(((1, 2), (0, 1), (0, 0)), "reflect")), normal(3, 6, 6, 8), covered=False)


@pytest.mark.parametrize("kind", ["max", "average"])
def test_not_a_number_and_infinity(kind: str) -> None:
    x = normal(4, 6, 6, 5)
    x[0, 2, 3, 1], x[1, 0, 0, 0], x[2, 5, 5, 4], x[2, 0, 0, 2] = np.nan, np.inf, -np.inf, np.nan
    for op in (Pool(kind, (3, 2), (2, 1), "same"), GlobalPool(kind)):
        graph = chain((6, 6, 5), op)
        np.testing.assert_allclose(NativeExecutor(graph, 1).run([x])[0], graph(x)[0], rtol=1e-5, atol=1e-6)


def network() -> Graph:
    c, h = 12, 24
    return chain(
        (17, 15, 3),
        conv((3, 3), 3, c, strides=(2, 2), padding="same", bias=None),
        Affine(normal(c), normal(c), normal(c)),
        Activation("relu_max", (6.0,)),
        conv((1, 1), c, h),
        Affine(normal(h), normal(h), None),
        Activation("relu"),
        Pad(((0, 1), (1, 1), (0, 0))),
        conv((3, 3), h, h, h, strides=(2, 2)),
        Affine(normal(h), normal(h), None),
        Activation("hard_silu"),
        conv((1, 1), h, 10),
        GlobalPool("average", True),
        Reshape((-1,)),
    )


def test_a_network_folds_into_its_convolutions() -> None:
    graph, x = network(), normal(9, 17, 15, 3)
    short = optimise(graph)
    assert [type(n.op).__name__ for n in short.nodes] == ["Conv"] * 4 + ["GlobalPool", "Reshape"]
    np.testing.assert_allclose(short(x)[0], graph(x)[0], rtol=1e-4, atol=1e-5)
    check(graph, x)
    check(short, x)


def test_padding_of_other_values_stays() -> None:
    shape = (5, 5, 2)
    for widths, value in ((((1, 1), (0, 0), (0, 0)), 1.0), (((1, 1), (0, 0), (0, 1)), 0.0)):
        channels = 2 + sum(widths[2])
        graph = chain(shape, Pad(widths, "constant", value), conv((3, 3), channels, 4))
        assert len(optimise(graph).nodes) == 2
    graph = chain(shape, Pad(((1, 1), (0, 0), (0, 0))), conv((3, 3), 2, 4, padding="same"))
    assert len(optimise(graph).nodes) == 2


def test_swap_of_weights() -> None:
    a, b, x = network(), network(), normal(3, 17, 15, 3)
    native = NativeExecutor(a, 1)
    native.run([x])
    native.prepare(b)()
    np.testing.assert_allclose(native.run([x])[0], b(x)[0], rtol=1e-4, atol=1e-4)


def test_a_stream_of_causal_convolutions_is_the_whole_run_to_the_last_bit() -> None:
    from npinfer.streams import step_graph

    layers = (
        conv((3,), 5, 70, padding="causal", dilation=(2,), activation=Activation("tanh")),
        conv((4,), 70, 9, padding="causal", activation=Activation("relu")),
        conv((1,), 9, 3),
    )
    whole, x = chain((20, 5), *layers), normal(1, 20, 5)
    expected = NativeExecutor(whole, 1).run([x])[0]
    step = step_graph(whole)
    native = NativeExecutor(step, 1)
    assert native.uncovered() == []
    states = [np.zeros((1, *(n or 0 for n in s.shape)), F) for s in step.inputs[1:]]
    for t in range(20):
        y, *states = native.run([np.ascontiguousarray(x[:, t]), *states])
        assert y.tobytes() == expected[:, t].tobytes()
